"""What simulated processes take of their node beside its devices: CPU time and resident memory."""

import os
from collections.abc import Iterable, Sequence

from accelscope.simulate import identity
from accelscope.simulate.workload import Placement, uptime_at_start

CLOCK_TICKS = 100  # in a second, as of SimulatedProcess.start_ticks
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")  # the kernel counts memory in pages of this machine
_BREATHING = 0.08  # by how much its memory grows under full load, ratio


class HostLoad:
    """Of one process. A function of time, as the loads of devices are, so that its counter can only grow."""

    def __init__(self, seed: int, placements: Sequence[Placement]) -> None:
        self.process = process = placements[0].process
        self._curves = [placement.curve for placement in placements]
        self._begin = process.start_ticks / CLOCK_TICKS - uptime_at_start(seed)
        self._own = identity.between(0.004, 0.03, seed, "host cpu", process.pid)  # CPUs, whatever it does
        # CPUs for a busy device
        self._feeding = identity.between(0.5, 1.5, seed, "feeding", process.workload)
        self._memory_bytes = identity.whole(300 << 20, 3 << 30, seed, "host memory", process.pid)

    def runs_at(self, at: float) -> bool:
        return any(curve.runs_at(at) for curve in self._curves)

    def cpu_ticks(self, at: float) -> int:
        """Since its start."""
        busy = sum(curve.integral(at) - curve.integral(self._begin) for curve in self._curves)
        return int(CLOCK_TICKS * (self._own * (at - self._begin) + self._feeding * busy))

    def resident_bytes(self, at: float) -> int:
        whole = self._memory_bytes * (1 + _BREATHING * max(curve.at(at) for curve in self._curves))
        return int(whole) // PAGE_BYTES * PAGE_BYTES


def host_loads(seed: int, placements: Iterable[Placement]) -> list[HostLoad]:
    """Of every process, on all devices that it uses together. A pid may be given to another one later."""
    by_process: dict[tuple[int, int], list[Placement]] = {}
    for placement in placements:
        process = placement.process
        by_process.setdefault((process.pid, process.workload), []).append(placement)
    return [HostLoad(seed, its) for its in by_process.values()]
