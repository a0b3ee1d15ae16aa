"""Counters files of dcgm-exporter: `field, type, help text` on each line, `#` begins a comment.

A row of type `label` puts the field on every series as a label. dcgm-exporter takes type and help text from
the file, and so do we. It refuses names that its DCGM library does not know; a file that was made for another
version of it then breaks the exporter. Here such a field is reported and the others are served.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from accelscope.filewatch import open_regular
from accelscope.metrics.dialects.dialect import DialectError

GAUGE, COUNTER, LABEL = TYPES = ("gauge", "counter", "label")
_FIELD = re.compile(r"DCGM_[A-Z0-9_]+")
_MOST_BYTES = 1 << 20
_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Counter:
    line: int
    field: str
    type: str
    help: str


def read_counters(path: str) -> tuple[Counter, ...]:
    """Raises DialectError, with the path and, where one is at fault, the line."""
    try:
        with open_regular(Path(path)) as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise DialectError(f"{path}: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise DialectError(f"{path}: larger than {_MOST_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DialectError(f"{path}: not UTF-8") from None
    counters: dict[str, Counter] = {}
    for line, cells in _rows(path, text):
        counter = _counter(f"{path}:{line}", line, cells)
        before = counters.setdefault(counter.field, counter)
        if before is not counter:
            raise DialectError(f"{path}:{line}: {counter.field} is already on line {before.line}")
    if not counters:
        raise DialectError(f"{path}: no counters, only comments or empty lines")
    return tuple(counters.values())


def _rows(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of the line that each begins on."""
    lines = text.splitlines(keepends=True)
    number = 0
    while number < len(lines):
        begin = number
        number += 1
        # As in dcgm-exporter: a row whose first cell is empty or begins with # is skipped.
        if lines[begin].lstrip()[:1] in ("", "#", ","):
            continue
        reader = csv.reader(iter(lines[begin:]), skipinitialspace=True, strict=True)
        try:
            cells = next(reader)
        except csv.Error as error:
            unclosed = "unexpected end of data" in str(error)
            problem = "a double quote is never closed" if unclosed else str(error)
            raise DialectError(f"{path}:{begin + 1}: {problem}") from None
        number = begin + reader.line_num  # a quoted text may go on over several lines
        yield begin + 1, [cell.strip(" ") for cell in cells]


def _counter(where: str, line: int, cells: list[str]) -> Counter:
    if len(cells) != _COLUMNS:
        problem = f"{len(cells)} columns instead of {_COLUMNS}: field, type, help text"
        if len(cells) > _COLUMNS:
            problem += ". A help text that contains commas needs double quotes"
        raise DialectError(f"{where}: {problem}")
    field, kind, text = cells
    if not _FIELD.fullmatch(field):
        raise DialectError(f"{where}: {field[:80]!r} is not the name of a DCGM field")
    if kind not in TYPES:
        raise DialectError(f"{where}: the type {kind[:80]!r} is none of {', '.join(TYPES)}")
    return Counter(line, field, kind, text)
