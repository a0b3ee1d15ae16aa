"""`npu-smi info -t health -i N -c N`: the health of a chip, with the codes of the errors it has now."""

import re

from accelscope.model import ErrorCount
from accelscope.parsing.parsed import Parsed
from accelscope.readers.ascend import cells
from accelscope.readers.ascend.chip_values import parsed_chips
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.health import health_of
from accelscope.readers.ascend.key_values import Block, first_of

TOOL = "npu-smi info -t health"
ERROR_KIND = "npu"

_CODE = re.compile(r"(?:0x)?([0-9a-f]{4,16})", re.IGNORECASE)
_MOST_CODES = 256
_INFORMATION_LIMIT = 300


def parse(text: str) -> Parsed:
    return parsed_chips(text, TOOL, (), _take_health)


def _take_health(draft: Draft, block: Block) -> None:
    word = first_of(block.values, "health status", "health")
    codes = block.values.get("error code", "")
    if word is None and not codes:
        return
    draft.values["health"] = health_of(word or "", _information(block))
    if cells.absence(codes) is not None:
        return
    found: dict[str, None] = {}
    for text in codes.split()[:_MOST_CODES]:
        code = _CODE.fullmatch(text)
        if code is None:
            draft.reject(f"error code: {text}")
        else:
            found[code[1].upper()] = None
    draft.values["errors"] = tuple(ErrorCount(ERROR_KIND, code, 1) for code in found)


def _information(block: Block) -> str | None:
    """What the driver says of its codes; that of the second and further ones stands on lines of its own."""
    first = block.values.get("error information", "")
    more = [line[1:].strip() for line in block.others if line.startswith(":")]
    told = [text for text in (first, *more) if cells.absence(text) is None]
    return "; ".join(told)[:_INFORMATION_LIMIT] or None
