"""Whether somebody holds a core, in the tools' words: occupied is not busy."""

import re

_CORE = re.compile(r"([0-9]{1,3})\s{0,4}\(([a-z ]{1,24})\)", re.IGNORECASE)
_HELD = frozenset({"occupied", "in use", "used", "busy", "running"})
_FREE = frozenset({"available", "ready", "idle", "free"})


def status_is_occupied(word: str) -> bool | None:
    """`available`, `occupied`, `Ready`; None: another word."""
    folded = word.strip().casefold()
    if folded in _FREE:
        return False
    return True if folded in _HELD or folded.startswith("occupied") else None


def core_occupancy(text: str) -> dict[int, bool | None]:
    """`0 (available), 1 (occupied)` by core."""
    return {int(match[1]): status_is_occupied(match[2]) for match in _CORE.finditer(text)}
