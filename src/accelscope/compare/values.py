"""Compares the values of two pages, which were read at slightly different moments.

What moves has a tolerance by its unit; what does not move, such as a total or a limit, hardly any. A constant
factor between the pages means another unit.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

# --- tolerances


@dataclass(frozen=True, slots=True)
class Tolerance:
    relative: float
    absolute: float = 0.0

    def allows(self, old: float, new: float) -> bool:
        if math.isnan(old) or math.isnan(new):
            return math.isnan(old) and math.isnan(new)
        if math.isinf(old) or math.isinf(new):
            return old == new
        return abs(old - new) <= max(self.absolute, self.relative * max(abs(old), abs(new)))


TRAFFIC = Tolerance(0.75)  # rates over a moment, which two programs measure over different moments

# By the unit in the help text, as exporters write it: "Power draw (in W)." or "Power of the card, in W."
_UNIT = re.compile(r"\bin (%|[^\W\d_]\S*?(?: of \d\^\d+ bytes| per second)?)(?=[,;.)]|\s\(|$)")
_BY_UNIT = (
    (re.compile(r"%"), Tolerance(0.0, 15.0)),
    (
        re.compile(r"(?:milli|micro)?degrees.*|thousandths of a degree.*|C|celsius", re.IGNORECASE),
        Tolerance(0.1),
    ),
    (re.compile(r"(?:milli|micro)?(?:W|watts?)|mW|uW", re.IGNORECASE), Tolerance(0.3)),
    (re.compile(r"MHz|Hz|hertz", re.IGNORECASE), Tolerance(0.3)),
    (re.compile(r"(?:[MK]i?B|bytes)(?: of .*)?", re.IGNORECASE), Tolerance(0.05, 64.0)),
    (re.compile(r".*(?:/s|per second|bps)", re.IGNORECASE), TRAFFIC),
)
# Without a unit in the help text: by the name.
_BY_NAME = (
    (re.compile(r"util|activ|busy|occupancy", re.IGNORECASE), Tolerance(0.0, 15.0)),
    (re.compile(r"temp", re.IGNORECASE), Tolerance(0.1)),
    (re.compile(r"power|watts", re.IGNORECASE), Tolerance(0.3)),
    (re.compile(r"clock|freq|hertz", re.IGNORECASE), Tolerance(0.3)),
    (re.compile(r"mem|vram|fb_|dram", re.IGNORECASE), Tolerance(0.05, 64.0)),
    (re.compile(r"bandwidth|throughput|_bytes|_rx|_tx", re.IGNORECASE), TRAFFIC),
)
_RATIO = re.compile(r"ratio|PROF_.*ACTIVE", re.IGNORECASE)
_CONSTANT = re.compile(r"total|max|limit|capacity|reserved", re.IGNORECASE)
_DEFAULT = Tolerance(0.05)
_EXACT = Tolerance(0.005)
RATE = Tolerance(0.3)  # of a counter, between two readings


def tolerance_of(name: str, text: str | None) -> Tolerance:
    if _CONSTANT.search(name):
        return _EXACT
    if _RATIO.search(name):
        return Tolerance(0.0, 0.15)
    found = _UNIT.search(text or "")
    if found is not None:
        for unit, tolerance in _BY_UNIT:
            if unit.fullmatch(found[1]):
                return tolerance
    return next((tolerance for pattern, tolerance in _BY_NAME if pattern.search(name)), _DEFAULT)


# --- units

_FACTORS = tuple(
    factor ** (sign * power)
    for factor, powers in ((1000.0, (1, 2, 3)), (1024.0, (2, 3)), (100.0, (1,)))
    for power in powers
    for sign in (1, -1)
)
_FACTOR_RATIO = 1.25  # between the median and the factor: values move between the two readings


def unit_factor(values: Sequence[tuple[float, float]]) -> float | None:
    """The power of 1000, 1024 or 100 by which all new values differ from the old ones."""
    ratios = [new / old for old, new in values if old and new and math.isfinite(old) and math.isfinite(new)]
    if not ratios or any(ratio <= 0 for ratio in ratios):
        return None
    middle = median(ratios)
    nearest = min(_FACTORS, key=lambda factor: abs(math.log(middle / factor)))
    close = all(1 / _FACTOR_RATIO**2 < ratio / nearest < _FACTOR_RATIO**2 for ratio in ratios)
    return nearest if close and 1 / _FACTOR_RATIO < middle / nearest < _FACTOR_RATIO else None
