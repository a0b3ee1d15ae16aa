"""Things that are counted by their reason."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counted:
    """How often something happened since the agent started."""

    reason: str
    """A short word for what happened."""
    count: int
    """How often."""


def counted(counts: Mapping[str, int]) -> tuple[Counted, ...]:
    """In the order of the reasons."""
    return tuple(Counted(reason, count) for reason, count in sorted(counts.items()))
