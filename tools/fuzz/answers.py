"""What must be true of a parser's answer, whatever the text."""

import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass

from accelscope.model.wire import plain
from accelscope.parsing import OutputFormat, ParseResult

# Of CPU, for the few dozen KiB that an input has at most: linear work on them is done in a tenth of it even
# where the engine counts every branch.
SOON_SECONDS = 3.0
_MAX_RATIO = 10.0  # several cores or dies may be added up; what is beyond is no share
_MAX_REJECTIONS = 101
_MAX_LINE = 500
# Numbers by which things are told apart: they are digits of the text, or they are made up.
_NAMES = frozenset(
    {"pid", "device_index", "board_id", "chip_id", "physical_id", "gpu_instance_id", "compute_instance_id"}
)


class Wrong(Exception):
    """An answer that no parser may give."""


def examine(source: OutputFormat, text: str) -> None:
    """Raises Wrong, or whatever the parser raises. Where a source takes names of columns, the text's first
    line is tried as these, too."""
    _examine(source, text, None)
    if source.takes_fields:
        names, _, rest = text.partition("\n")
        _examine(source, rest, names.split(","))


def _examine(source: OutputFormat, text: str, names: Sequence[str] | None) -> None:
    started = time.process_time()
    parsed = source.parse(text, names)
    taken = time.process_time() - started
    if taken > SOON_SECONDS:
        raise Wrong(f"{taken:.1f} s for {len(text)} characters")
    for wrong in faults(parsed, text):
        raise Wrong(wrong)


def faults(parsed: ParseResult, text: str) -> Iterator[str]:
    """What is wrong with this answer to this text."""
    if not _can_be_written(parsed):
        yield "it cannot be written as JSON in UTF-8"
    if len(parsed.rejected) > _MAX_REJECTIONS:
        yield f"{len(parsed.rejected)} rejections"
    if any(len(rejection.line) > _MAX_LINE for rejection in parsed.rejected):
        yield "a rejection that is a page long"
    written = {digits.lstrip("0") or "0" for digits in re.findall(r"[0-9]+", text)}
    escaped = "\\u" in text or "&#" in text  # a digit may then be written as another
    for name, value in _numbers((parsed.devices, parsed.processes)):
        if not math.isfinite(value):
            yield f"{name} is {value}"
        elif value < 0 and "celsius" not in name:
            yield f"{name} is negative: {value}"
        elif name.endswith("_ratio") and value > _MAX_RATIO:
            yield f"{name} is no share: {value}"
        elif name in _NAMES and str(value) not in written and not escaped:
            yield f"{name} {value} is not in the text"
        elif not written and value and name != "index":
            yield f"{name} is {value}, and there is no digit in the text"


def _can_be_written(parsed: ParseResult) -> bool:
    try:
        json.dumps(plain(parsed), allow_nan=False, ensure_ascii=False).encode()
    except ValueError:  # also of what is not UTF-8
        return False
    return True


def _numbers(thing: object, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(thing, tuple):
        for item in thing:
            yield from _numbers(item, name)
    elif is_dataclass(thing) and not isinstance(thing, type):
        for field in fields(thing):
            yield from _numbers(getattr(thing, field.name), field.name)
    elif isinstance(thing, int | float) and not isinstance(thing, bool):
        yield name, thing
