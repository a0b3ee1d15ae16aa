"""Which nodes' GPUs an agent tells of: they need not be asked by other means.

By the age of what it read, not by when it answered: an agent whose collection hangs goes on answering that
nothing has changed.
"""

import time
from collections.abc import Callable

from accelscope.fleet.report import NodeFailure, NodeReport, Saying, SourceKind
from accelscope.vendors import declarations

_INTERVALS_MISSED = 3


class Cover:
    """Of the vendors whose devices can be read in driver pods."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.time) -> None:
        """For so many seconds, or three of the agent's intervals where that is longer. `clock` as that of
        readings, in seconds since the epoch."""
        self._seconds = seconds
        self._clock = clock
        self._until: dict[str, float] = {}  # by node; the last that was heard of is last

    def hear(self, saying: Saying) -> None:
        if saying.source is not SourceKind.AGENTS:
            return
        if isinstance(saying, NodeReport):
            self._until.pop(saying.node, None)
            if any(declarations()[device.vendor].driver_pods for device in saying.snapshot.devices):
                patience = max(self._seconds, _INTERVALS_MISSED * (saying.snapshot.interval_seconds or 0.0))
                self._until[saying.node] = saying.taken_at + patience
                self._forget(next(iter(self._until)))  # of one that has left nobody else asks
        elif isinstance(saying, NodeFailure) and saying.incompatible:
            self._until.pop(saying.node, None)

    def __call__(self, node: str) -> bool:
        self._forget(node)
        return node in self._until

    def _forget(self, node: str) -> None:
        """If its time is over."""
        if node in self._until and self._clock() >= self._until[node]:
            del self._until[node]
