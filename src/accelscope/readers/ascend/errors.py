"""Errors with a code, counted by the agent: npu-smi shows which a chip has now, not how often it had them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from accelscope.model import ErrorCount
from accelscope.readers.ascend.parse_health import ERROR_KIND

_MOST_CODES = 256  # of one chip


@dataclass(slots=True)
class _Log:
    counts: dict[str, int] = field(default_factory=dict)
    last_seen: dict[str, float] = field(default_factory=dict)
    present: frozenset[str] = frozenset()


class ErrorLog:
    """A code counts once from its appearing to its going away; it was last seen when it last was there."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def note(self, device: str, codes: Iterable[str], at: float) -> None:
        """What the device showed at this time, by the clock since the epoch."""
        log = self._logs.setdefault(device, _Log())
        present = frozenset(codes)
        for code in sorted(present):
            if code not in log.counts and len(log.counts) >= _MOST_CODES:
                continue
            if code not in log.present:
                log.counts[code] = log.counts.get(code, 0) + 1
            log.last_seen[code] = at
        log.present = present

    def of(self, device: str) -> tuple[ErrorCount, ...]:
        log = self._logs.get(device)
        if log is None:
            return ()
        return tuple(
            ErrorCount(ERROR_KIND, code, count, log.last_seen[code])
            for code, count in sorted(log.counts.items())
        )
