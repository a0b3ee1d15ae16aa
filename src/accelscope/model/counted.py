"""Things that are counted by their reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counted:
    """How often something happened since the agent started, by its reason."""

    reason: str
    count: int
