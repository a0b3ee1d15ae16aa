"""What a number can be, by the name of its field, and how long a text can be. A number beyond its bounds says
nothing of a device and would make the sums of a whole fleet worthless. A text without a limit would let one
node fill the memory of the fleet.

The bounds are wide, since a driver may be odd and still be right: they keep out what nothing has, not what is
unusual.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

# Characters of one text. The longest real one is the id of a claimed device: driver, pool and device, each a
# Kubernetes name.
TEXT_LIMIT = 1024

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
    ("cycles_total", (0, 2**63 - 1)),  # at 2 GHz, 2**53 cycles are passed after 52 days
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


def cut(text: str) -> str:
    """At most TEXT_LIMIT characters of a text; the last one shows that more followed."""
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Names of the fields that lost a value, or the end of a text."""

    numbers: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)

    def remarks(self) -> Iterator[str]:
        """For people."""
        if self.numbers:
            yield f"values out of range were left out: {', '.join(sorted(self.numbers))}"
        if self.texts:
            names = ", ".join(sorted(self.texts))
            yield f"texts of more than {TEXT_LIMIT} characters were cut: {names}"
