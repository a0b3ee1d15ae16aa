"""What a number can be, by the name of its field: what is beyond it says nothing of a device, and would make
sums of a whole fleet worthless.

Wide, since a driver may be odd and still be right: they keep out what nothing has, not what is unusual.
"""

from functools import cache
from typing import Any

_MOST_WHOLE = 2**53  # beyond it neighbours are the same in a column
_MOST_SECONDS = 1e15
_DAY_SECONDS = 86400.0

_BY_NAME: dict[str, tuple[float, float]] = {
    "index": (0, 1_000_000),
    "device_index": (0, 1_000_000),
    "numa_node": (-1, 1_000_000),  # -1: of a machine that has only one
    "cpu_ratio": (0, 1_000_000),  # 1 is one CPU, and a node has hundreds
    "interval_seconds": (0, _DAY_SECONDS),
    "volts": (-1e6, 1e6),
    "amperes": (-1e6, 1e6),
    "watts": (-1e6, 1e6),  # of a rail, which may feed back
}
_BY_ENDING: tuple[tuple[str, tuple[float, float]], ...] = (
    ("_ratio", (0, 100)),  # some drivers count beyond 1 for a moment, or by core
    ("celsius", (-100, 1000)),
    ("_watts", (0, 1e6)),
    ("_bytes", (0, _MOST_WHOLE)),
    ("_seconds", (0, _MOST_SECONDS)),
    ("_joules", (0, _MOST_SECONDS)),
)


@cache
def bounds(name: str, kind: Any) -> tuple[float, float]:
    """Least and most of a field of this name, of kind int or float; both are finite."""
    if (known := _BY_NAME.get(name)) is not None:
        return known
    for ending, known in _BY_ENDING:
        if name.endswith(ending):
            return known
    return (0, _MOST_WHOLE) if kind is int else (0, 1e18)


def is_plausible(name: str, kind: Any, value: float) -> bool:
    least, most = bounds(name, kind)
    return least <= value <= most


def left_out(names: frozenset[str]) -> str | None:
    """For people: what was out of bounds."""
    return f"values out of range were left out: {', '.join(sorted(names))}" if names else None
