"""Numbers as tools print them, with or without a unit. Digits are bounded: a megabyte of digits is not a
number."""

import re
from collections.abc import Mapping

_NUMBER = re.compile(r"([+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([^\s0-9]\S{0,7})?", re.ASCII)
_LONGEST = 80  # characters of a cell with a value


def digits_and_unit(text: str) -> tuple[str, str] | None:
    """The unit in small letters, empty where there is none. None: not a number."""
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    return None if match is None else (match[1], (match[2] or "").casefold())


def scaled(text: str, units: Mapping[str, float]) -> float | None:
    """In the base unit, of which `units` says how many are in one of each. None: not such a number."""
    parts = digits_and_unit(text)
    if parts is None or parts[1] not in units:
        return None
    # Rounded to what can be printed, so that 912.5 mV is 0.9125 V and not 0.9125000000000001.
    return round(float(parts[0]) * units[parts[1]], 9)


def between(value: float | None, low: float, high: float) -> float | None:
    """None past the bounds: a wrapped or uninitialised register, not a measurement."""
    return value if value is not None and low <= value <= high else None
