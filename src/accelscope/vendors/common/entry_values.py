"""Values of a JSON object that others wrote. A member of another type, or out of range, is absent."""

import math
from collections.abc import Mapping

_LARGEST = 2**63


def number(entry: Mapping[str, object], name: str, *, least: float = 0) -> float | None:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if least <= value < _LARGEST and math.isfinite(value) else None


def whole(entry: Mapping[str, object], name: str) -> int | None:
    value = number(entry, name)
    return int(value) if value is not None and value == int(value) else None


def text(entry: Mapping[str, object], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) and value else None
