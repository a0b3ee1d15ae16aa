"""Utilisation of Warboy's cores, from two readings of their performance counters.

`perf_regs` of a device file can be read only while somebody has that file open: EPERM says that nobody has.
Counters are hexadecimal; the time that tasks ran has 32 bits and wraps, the cycles have two such halves. So a
difference tells something only while fewer than 2^32 cycles lie in between, which at the clock of a core is a
few seconds: where passes are further apart, a core is read twice within one.
"""

import errno
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accelscope.model import AbsenceReason, Core
from accelscope.vendors.common.files import read_text
from accelscope.vendors.furiosa.attributes import Attributes

WARBOY_CORES = 2
FUSION = f"pe0-{WARBOY_CORES - 1}"
FILES = (*(f"pe{index}" for index in range(WARBOY_CORES)), FUSION)  # after the card's name

_LINE = re.compile(r"(\w{1,60}):\s*0x([0-9a-f]{1,16})", re.IGNORECASE | re.ASCII)
_32_BITS = 1 << 32
SAMPLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Counters:
    cycles: int
    task_cycles: int


def warboy_counters(text: str) -> Counters | None:
    told = {match[1]: int(match[2], 16) for match in _LINE.finditer(text[:20_000])}
    if "CycleCount" not in told or "TaskExecutionTime" not in told:
        return None
    cycles = told.get("CycleCountHigh", 0) << 32 | told["CycleCount"]
    return Counters(cycles, told["TaskExecutionTime"] % _32_BITS)


def warboy_utilization(before: Counters, now: Counters) -> float | None:
    """Share of the cycles in between in which a task ran; None: the counters were reset or stood still, or so
    much time passed that it is not known how often they wrapped. The counters are not read at one instant,
    so more task cycles than cycles are possible: at most 1, as the vendor's library has it."""
    cycles = now.cycles - before.cycles
    tasks = (now.task_cycles - before.task_cycles) % _32_BITS
    return min(1.0, tasks / cycles) if 0 < cycles < _32_BITS else None


@dataclass(frozen=True, slots=True)
class Use:
    """Of one device file."""

    open: bool | None  # None: nobody can tell
    warboy_counters: Counters | None = None
    ratio: float | None = None


class WarboyCores:
    """The cores of one card. `sleep` is waited between two readings."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._before: dict[str, Counters] = {}

    def read(self, class_folder: str, card: str, attributes: Attributes) -> tuple[Core, ...]:
        uses = {file: _use(f"{class_folder}/{card}{file}", attributes) for file in FILES}
        ratios = {file: self._since_last_pass(file, use) for file, use in uses.items()}
        again = [file for file, use in uses.items() if use.counters and ratios[file] is None]
        if again:
            self._sleep(SAMPLE_SECONDS)
        for file in again:
            first, second = uses[file].counters, _use(f"{class_folder}/{card}{file}", attributes).counters
            if first is not None and second is not None:
                ratios[file] = warboy_utilization(first, second)
        self._before = {file: use.counters for file, use in uses.items() if use.counters}
        if all(use.open is None for use in uses.values()):
            return ()
        return tuple(
            _core(index, [(uses[file].open, ratios[file]) for file in (f"pe{index}", FUSION)])
            for index in range(WARBOY_CORES)
        )

    def _since_last_pass(self, file: str, use: Use) -> float | None:
        before = self._before.get(file)
        return warboy_utilization(before, use.counters) if before and use.counters else None


def _use(folder: str, attributes: Attributes) -> Use:
    try:
        text = read_text(f"{folder}/perf_regs")
    except OSError as error:
        if error.errno == errno.EACCES:
            attributes.absent["cores.utilization_ratio"] = AbsenceReason.NO_PERMISSION
        return Use(open=False if error.errno == errno.EPERM else None)
    found = warboy_counters(text)
    return Use(open=True if found else None, counters=found)


def _core(index: int, uses: Sequence[tuple[bool | None, float | None]]) -> Core:
    """By the file of the core itself and that of the fusion, whose counters are those of all its cores."""
    opened = [use[0] for use in uses]
    ratios = [ratio for _, ratio in uses if ratio is not None]
    occupied = True if True in opened else None if None in opened else False
    return Core(index, utilization_ratio=max(ratios, default=None), occupied=occupied)
