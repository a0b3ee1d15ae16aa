"""What a process takes of the node itself: CPU, memory and since when, from the line of `/proc/<pid>/stat`.

CPU is counted in ticks of a hundredth of a second, so that it is measured between two looks that are not too
close together. The line of a thread tells of its whole process, but for the start.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from accelscope.model import HostUse

_TICKS = os.sysconf("SC_CLK_TCK")  # in a second
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields 14, 15, 22 and 24 of proc_pid_stat(5), counted after the program's name in brackets.
_USER_TIME, _SYSTEM_TIME, _START_TIME, _RESIDENT = 11, 12, 19, 21
_MOST = 1 << 63  # of what the kernel counts with
_LEAST_SECONDS = 0.25  # between two looks: a tick is 4 % of a CPU then
_CLOCK_WAS_SET_SECONDS = 1.0
_BOOT_TIME = re.compile(r"^btime (\d{1,18})$", re.MULTILINE)


class ProcStat(NamedTuple):
    start_ticks: int  # since boot
    cpu_ticks: int  # of all its threads, in programs and in the kernel; not of its children
    resident_pages: int


def proc_stat(line: bytes) -> ProcStat:
    """Raises ValueError for what is no such line."""
    after_name = line.rpartition(b")")[2].split(None, _RESIDENT + 1)  # a name may hold blanks and brackets
    try:
        start, resident = int(after_name[_START_TIME]), int(after_name[_RESIDENT])
        user, system = int(after_name[_USER_TIME]), int(after_name[_SYSTEM_TIME])
    except IndexError:
        raise ValueError("stat with too few fields") from None
    if min(start, resident, user, system) < 0 or max(start, resident, user, system) >= _MOST:
        raise ValueError("stat with a number that cannot be")
    return ProcStat(start, user + system, resident)


def boot_time(stat: str) -> int | None:
    """Seconds since the epoch, from the node's own `/proc/stat`."""
    found = _BOOT_TIME.search(stat)
    return None if found is None else int(found[1])


def started_at(stat: ProcStat, booted: int) -> float:
    """Seconds since the epoch."""
    return (booted * _TICKS + stat.start_ticks) / _TICKS


class BootClock:
    """When the node was booted by its clock of today. Read again only when that clock was set: on a large
    machine the file is long, and takes the kernel a while to make up."""

    def __init__(self, proc: Path, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._file = proc / "stat"
        self._clock = clock
        self._monotonic = monotonic
        self._ahead = 0.0  # of the clock to the monotonic one, when the file was read
        self._booted: int | None = None

    def booted(self) -> int | None:
        """Seconds since the epoch; None: the node does not tell."""
        ahead = self._clock() - self._monotonic()
        if self._booted is None or abs(ahead - self._ahead) >= _CLOCK_WAS_SET_SECONDS:
            self._ahead = ahead
            try:
                self._booted = boot_time(self._file.read_text(errors="replace"))
            except OSError:
                self._booted = None
        return self._booted


@dataclass(slots=True)
class Meter:
    """Of one process, from when it was first seen."""

    cpu_ticks: int
    at: float  # monotonic seconds
    use: HostUse

    @classmethod
    def started(cls, stat: ProcStat, at: float, booted: int | None) -> "Meter":
        return cls(stat.cpu_ticks, at, _use(None, stat, booted))

    def read(self, stat: ProcStat, at: float, booted: int | None) -> None:
        """At a later look at the same process."""
        ratio, elapsed = self.use.cpu_ratio, at - self.at
        if elapsed >= _LEAST_SECONDS:
            used = stat.cpu_ticks - self.cpu_ticks
            ratio = None if used < 0 else used / (_TICKS * elapsed)
            self.cpu_ticks, self.at = stat.cpu_ticks, at
        self.use = _use(ratio, stat, booted)


def _use(cpu_ratio: float | None, stat: ProcStat, booted: int | None) -> HostUse:
    started = None if booted is None else started_at(stat, booted)
    return HostUse(cpu_ratio, stat.resident_pages * _PAGE_BYTES, started)
