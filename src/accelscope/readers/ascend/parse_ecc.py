"""`npu-smi info -t ecc -i N`: memory errors of a chip, by kind of memory."""

import re
from collections import Counter

from accelscope.model import AbsenceReason, EccCount
from accelscope.parsing.parsed import Parsed
from accelscope.readers.ascend import cells
from accelscope.readers.ascend.chip_values import parsed_chips
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.key_values import Block

TOOL = "npu-smi info -t ecc"

# `HBM Double Bit Aggregate Total Err Cnt`, `Single-bit Error Count`, `DDR Single Bit Isolated Pages Count`.
_KEY = re.compile(
    r"(?:(?P<block>hbm|ddr) )?(?P<bits>single|double)[ -]bit "
    r"(?P<what>error count|aggregate total err cnt|isolated pages count)"
)
_SEVERITY = {"single": "corrected", "double": "uncorrected"}  # ECC mends one wrong bit of a word, not two


def parse(text: str) -> Parsed:
    return parsed_chips(text, TOOL, (), _take_counts)


def _take_counts(draft: Draft, block: Block) -> None:
    """Each kind of memory by itself, and the sum of them, which is the chip's."""
    parts: list[EccCount] = []
    totals: Counter[tuple[str, bool]] = Counter()
    pages: Counter[str] = Counter()
    for key, text in block.values.items():
        match = _KEY.fullmatch(key)
        if match is None:
            continue
        count = cells.count(text)
        if count is None:
            draft.absences["ecc"] = cells.absence(text) or AbsenceReason.UNREADABLE
            if cells.absence(text) is None:
                draft.reject(f"{key}: {text}")
            continue
        severity = _SEVERITY[match["bits"]]
        if match["what"] == "isolated pages count":
            pages[severity] += count
            continue
        lifetime = match["what"] != "error count"
        totals[severity, lifetime] += count
        if match["block"]:
            parts.append(EccCount(severity, lifetime=lifetime, count=count, block=match["block"]))
    sums = tuple(EccCount(severity, lifetime=lifetime, count=n) for (severity, lifetime), n in totals.items())
    if sums:
        draft.values["ecc"] = (*sums, *parts)
    if pages:
        draft.values["retired_pages"] = tuple(EccCount(s, lifetime=True, count=n) for s, n in pages.items())
