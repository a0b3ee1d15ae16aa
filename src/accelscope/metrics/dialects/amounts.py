"""From the model's base units to the units of other exporters, rounded as they print them.

A value that is not finite is no reading, and costs itself only.
"""

from math import isfinite

MIB = 2**20


def rounded(value: float | None, factor: float = 1) -> int | None:
    """The nearest whole number."""
    return None if value is None or not isfinite(value) else round(value * factor)


def percent(ratio: float | None) -> int | None:
    """A whole percentage, as most drivers measure it."""
    return rounded(ratio, 100)


def fine_percent(ratio: float | None) -> float | None:
    """A percentage with its fraction, without the noise that multiplying by 100 brings in."""
    return None if ratio is None else round(ratio * 100, 6)


def mebibytes(size: float | None) -> int | None:
    """Whole mebibytes, what is beyond cut off: so do the drivers' libraries."""
    return None if size is None or not isfinite(size) else int(size // MIB)


def megahertz(hertz: float | None) -> int | None:
    return rounded(hertz, 1e-6)


def thousandths(value: float | None) -> int | None:
    """Joules as millijoules, celsius as thousandths of a degree, volts as millivolts ..."""
    return rounded(value, 1000)


def millionths(value: float | None) -> int | None:
    return rounded(value, 1_000_000)
