"""Which nodes' GPUs an agent tells of: they need not be asked by other means."""

import time
from collections.abc import Callable

from accelscope.fleet.report import NodeReport, NodeUnchanged, Saying, SourceKind
from accelscope.model import Vendor


class Cover:
    """Of NVIDIA's GPUs, since nothing else is read without an agent."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._told_at: dict[str, float] = {}

    def hear(self, saying: Saying) -> None:
        if saying.source is not SourceKind.AGENTS:
            return
        if isinstance(saying, NodeReport):
            if any(device.vendor is Vendor.NVIDIA for device in saying.snapshot.devices):
                self._told_at[saying.node] = self._clock()
            else:
                self._told_at.pop(saying.node, None)
        elif isinstance(saying, NodeUnchanged):
            if saying.node in self._told_at:
                self._told_at[saying.node] = self._clock()
        elif saying.incompatible:
            self._told_at.pop(saying.node, None)

    def __call__(self, node: str) -> bool:
        told_at = self._told_at.get(node)
        if told_at is None:
            return False
        if self._clock() - told_at < self._seconds:
            return True
        del self._told_at[node]
        return False
