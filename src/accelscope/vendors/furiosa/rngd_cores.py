"""Memory and utilisation of an RNGD's cores: `alloc_status` and `metrics` in the folder of each core.

Counters are hexadecimal and have 64 bits: the cycles of the core, and those in which a task ran.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from accelscope.model import AbsenceReason
from accelscope.vendors.furiosa import sysfs_text
from accelscope.vendors.furiosa.attributes import Attributes
from accelscope.vendors.furiosa.perf import SAMPLE_SECONDS, Counters

RNGD_CORES = 8
# Of a core that is not occupied the vendor's library reads no file: it takes this size, and nothing in use.
CORE_BYTES = 6_375_342_080

_UTILIZATION = "cores.utilization_ratio"
_MEMORY = ("memory_total_bytes", "memory_used_bytes")
# Counters that did not move for so long do not move within a sample either.
_STANDS_STILL_SECONDS = 0.9


@dataclass(frozen=True, slots=True)
class CoreUse:
    rngd_counters: Counters
    ratio: float | None = None


def rngd_counters(text: str) -> Counters | None:
    values = sysfs_text.hexadecimal_values(text)
    if "CycleCount" not in values or "TaskCycleCount" not in values:
        return None
    return Counters(values["CycleCount"], values["TaskCycleCount"])


def rngd_utilization(before: Counters, now: Counters) -> float | None:
    """Share of the cycles in between in which a task ran; None: the counters were reset or stood still. The
    two are not read at one instant, so the share may come out above 1: at most 1."""
    cycles, tasks = now.cycles - before.cycles, now.task_cycles - before.task_cycles
    return min(1.0, tasks / cycles) if cycles > 0 and tasks >= 0 else None


def card_memory(
    folders: Mapping[int, str], free: Collection[int], attributes: Attributes
) -> tuple[int | None, int | None]:
    """Bytes in all and in use: the sums over all cores, or None while one of them cannot be read. `folders`
    are by core, `free` the cores that are not occupied."""
    total = used = 0
    for core, folder in folders.items():
        if core in free:
            total += CORE_BYTES
            continue
        memory = _core_memory(f"{folder}/alloc_status", attributes)
        if memory is None:
            return None, None
        total, used = total + memory[0], used + memory[1]
    return (total, used) if folders else (None, None)


def _core_memory(path: str, attributes: Attributes) -> tuple[int, int] | None:
    first, *others = _MEMORY
    text = attributes.text(path, first)
    if (
        text is None or sysfs_text.whole(text) is not None
    ):  # older drivers have a number there that is no size
        memory = None
    else:
        memory = attributes.value(path, first, sysfs_text.core_memory)
    reason = attributes.absent.get(first, AbsenceReason.NOT_KNOWN)
    if reason is AbsenceReason.NOT_KNOWN:
        attributes.absent.pop(
            first, None
        )  # the driver does not show it, so it is the tool that is expected to
    elif memory is None:
        attributes.absent.update(dict.fromkeys(others, reason))
    return memory


class RngdCores:
    """The counters of one card's cores, from one reading to the next. `sleep` is waited between two readings
    of one pass, where there is no earlier one to compare with."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._before: dict[int, Counters] = {}
        self._read_at = 0.0

    def read(self, folders: Mapping[int, str], now: float, attributes: Attributes) -> Mapping[int, CoreUse]:
        """By core; without those whose counters cannot be read."""
        found = self._counters(folders, attributes)
        passed = now - self._read_at
        ratios = {core: self._since_last_pass(core, told) for core, told in found.items()}
        stood = passed >= _STANDS_STILL_SECONDS
        again = [
            core
            for core, ratio in ratios.items()
            if ratio is None and not (stood and self._before.get(core) == found[core])
        ]
        if again:
            self._sleep(SAMPLE_SECONDS)
            later = self._counters({core: folders[core] for core in again}, attributes)
            ratios |= {core: rngd_utilization(found[core], told) for core, told in later.items()}
        if attributes.absent.get(_UTILIZATION) is AbsenceReason.NOT_KNOWN:
            del attributes.absent[_UTILIZATION]  # an older driver: the tool is expected to show it
        if found and all(ratio is None for ratio in ratios.values()):
            attributes.absent[_UTILIZATION] = attributes.absent["utilization_ratio"] = AbsenceReason.NO_SAMPLE
        self._before, self._read_at = found, now
        return {core: CoreUse(told, ratios[core]) for core, told in found.items()}

    def _counters(self, folders: Mapping[int, str], attributes: Attributes) -> dict[int, Counters]:
        read = {
            core: attributes.value(f"{folder}/metrics", _UTILIZATION, rngd_counters)
            for core, folder in folders.items()
        }
        return {core: told for core, told in read.items() if told is not None}

    def _since_last_pass(self, core: int, told: Counters) -> float | None:
        """None also where the cycles stand still: an idle core counts cycles too, so nothing was measured."""
        before = self._before.get(core)
        return None if before is None else rngd_utilization(before, told)
