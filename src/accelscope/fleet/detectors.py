"""Detectors of anomalies in devices and pods, and when an anomaly begins and ends.

Each takes one minute of all slots at once, and keeps a bounded state per slot. docs/trends.md explains them.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accelscope.fleet.history_rings import Slots
from accelscope.fleet.robust import Mask, Series, cusum, medians, medians_of_others, slopes, spreads

Numbers = npt.NDArray[np.float32]  # by slot; NaN is absence

ADAPTATION_MINUTES = 240  # an anomaly that lasts longer is the new normal
GIB = float(1 << 30)
_UNKNOWN = np.float32(np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hysteresis:
    """An anomaly begins with `needed` anomalous minutes of the last `of`, and ends after `end` normal
    ones."""

    needed: int
    of: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorResult:
    """The result of a detector for one minute, by slot. Where `judged` is false, data is missing and the
    state of the anomaly does not change."""

    anomalous: Mask
    judged: Mask
    now: Numbers
    usual: Numbers | None = None

    def only(self, where: Mask) -> "DetectorResult":
        """Elsewhere, nothing is anomalous."""
        return replace(self, anomalous=self.anomalous & where)


class AnomalyTracker:
    """When the anomalies of one detector begin and end."""

    def __init__(self, hysteresis: Hysteresis) -> None:
        self._hysteresis = hysteresis
        self._minutes = np.zeros(0, np.uint64)  # a bit per minute, newest lowest: 1 is anomalous
        self._lasted = np.zeros(0, np.int32)  # minutes since the anomaly began
        self.active = np.zeros(0, np.bool_)

    def grow_to(self, slots: int) -> None:
        grow(self, ("_minutes", "_lasted", "active"), slots)

    def reset(self, slots: Slots) -> None:
        self._minutes[slots] = 0
        self.active[slots] = False

    def step(self, result: DetectorResult) -> tuple[Slots, Slots]:
        """Records a minute. Returns the slots where an anomaly began and those where one ended."""
        judged, hysteresis = result.judged, self._hysteresis
        shifted = (self._minutes << np.uint64(1)) | result.anomalous.astype(np.uint64)
        self._minutes = np.where(judged, shifted, self._minutes)
        self._lasted[self.active] += 1
        many = _anomalous_minutes(self._minutes, hysteresis.of) >= hysteresis.needed
        begins = judged & ~self.active & result.anomalous & many
        over = judged & (_anomalous_minutes(self._minutes, hysteresis.end) == 0)
        ends = self.active & (over | (self._lasted >= ADAPTATION_MINUTES))
        self._minutes[ends] = 0
        self.active[begins], self.active[ends] = True, False
        self._lasted[begins] = 0
        return np.flatnonzero(begins), np.flatnonzero(ends)


def _anomalous_minutes(minutes: npt.NDArray[np.uint64], newest: int) -> npt.NDArray[np.uint8]:
    anomalous: npt.NDArray[np.uint8] = np.bitwise_count(minutes & np.uint64((1 << newest) - 1))
    return anomalous


def grow(owner: object, names: tuple[str, ...], slots: int) -> None:
    """Appends zeros to these arrays of `owner` up to this number of slots."""
    for name in names:
        values: npt.NDArray[Any] = getattr(owner, name)
        if len(values) < slots:
            zeros = np.zeros((slots - len(values), *values.shape[1:]), values.dtype)
            setattr(owner, name, np.concatenate([values, zeros]))


class OverheatingDetector:
    """Hotter than its load and the other devices of its node explain."""

    hysteresis = Hysteresis(needed=1, of=1, end=10)

    _SLACK = 4.0  # degrees Celsius
    _SPREADS = 2.8  # of the fit: the slack where they are more
    _LIMIT = 20.0  # slacks x minutes
    _LARGEST = 5.0  # slacks: one wrong reading is not an anomaly

    def __init__(self) -> None:
        self._sums = np.zeros(0, np.float32)

    def grow_to(self, slots: int) -> None:
        grow(self, ("_sums",), slots)

    def reset(self, slots: Slots) -> None:
        self._sums[slots] = 0

    def find(self, temperature: Numbers, excess: Numbers, spread: Series, active: Mask) -> DetectorResult:
        relative = excess / np.maximum(self._SLACK, self._SPREADS * spread)
        self._sums = cusum(self._sums, relative, 1, self._LARGEST).astype(np.float32)
        return DetectorResult(
            anomalous=np.where(active, relative > 1, self._sums >= self._LIMIT),
            judged=~np.isnan(relative),
            now=temperature,
            usual=temperature - excess,
        )

    def describe(self, result: DetectorResult, slot: int) -> str:
        assert result.usual is not None
        now, usual = result.now[slot], result.usual[slot]
        return f"temperature {now:.0f} °C, usually {usual:.0f} °C under this load"


class LowPowerDetector:
    """Draws less power than the other devices of its job on its node, which are as busy."""

    hysteresis = Hysteresis(needed=1, of=1, end=10)

    _SLACK = 0.25  # fraction of the power of the others
    _LIMIT = 0.5  # fraction x minutes
    _LARGEST = 0.5
    _MIN_UTILIZATION = 0.3  # below, power does not follow utilisation
    _SIMILAR_UTILIZATION = 0.1
    _MIN_OTHERS = 3

    def __init__(self) -> None:
        self._sums = np.zeros(0, np.float32)

    def grow_to(self, slots: int) -> None:
        grow(self, ("_sums",), slots)

    def reset(self, slots: Slots) -> None:
        self._sums[slots] = 0

    @classmethod
    def power_of_others(cls, power: Series, utilization: Series) -> Series:
        """The median power of the others on each line, the devices of one job on one node, that are as busy;
        NaN if there are too few."""
        busy = np.where(utilization >= cls._MIN_UTILIZATION, utilization, np.nan)
        similar = np.abs(busy[:, :, None] - busy[:, None, :]) <= cls._SIMILAR_UTILIZATION
        found, count = medians_of_others(power, similar)
        return np.where(count >= cls._MIN_OTHERS, found, np.nan)

    def find(self, power: Numbers, others: Numbers, active: Mask) -> DetectorResult:
        missing = 1 - power / others
        self._sums = cusum(self._sums, missing, self._SLACK, self._LARGEST).astype(np.float32)
        return DetectorResult(
            anomalous=np.where(active, missing > self._SLACK, self._sums >= self._LIMIT),
            judged=~np.isnan(missing),
            now=power,
            usual=others,
        )

    def describe(self, result: DetectorResult, slot: int) -> str:
        assert result.usual is not None
        now, usual = result.now[slot], result.usual[slot]
        return f"power {now:.0f} W, {usual:.0f} W on devices of its job that are as busy"


class ThrottlingDetector:
    """Throttled by heat or by the power supply, and rarely before."""

    hysteresis = Hysteresis(needed=3, of=5, end=10)

    _RECENT_MINUTES = 10
    _MIN_MINUTES = 20  # before the recent ones
    _RARE = 0.2  # share of the minutes before

    def __init__(self) -> None:
        self._throttled = np.zeros(0, np.uint64)  # a bit per minute, newest lowest
        self._minutes = np.zeros(0, np.int32)  # with a reading

    def grow_to(self, slots: int) -> None:
        grow(self, ("_throttled", "_minutes"), slots)

    def reset(self, slots: Slots) -> None:
        self._throttled[slots] = 0
        self._minutes[slots] = 0

    def find(self, throttled: Numbers, temperature: Numbers, active: Mask) -> DetectorResult:
        """`throttled` is 1 or 0; NaN: not read."""
        seen = ~np.isnan(throttled)
        now = seen & (throttled > 0)
        shifted = (self._throttled << np.uint64(1)) | now.astype(np.uint64)
        self._throttled = np.where(seen, shifted, self._throttled)
        self._minutes = np.where(seen, np.minimum(self._minutes + 1, 64), self._minutes).astype(np.int32)
        before = self._minutes - self._RECENT_MINUTES
        earlier = np.bitwise_count(self._throttled >> np.uint64(self._RECENT_MINUTES))
        rare = earlier <= self._RARE * before
        return DetectorResult(
            anomalous=now & (rare | active),
            judged=seen & ((before >= self._MIN_MINUTES) | active),
            now=temperature,
        )

    def describe(self, result: DetectorResult, slot: int) -> str:
        temperature = result.now[slot]
        where = "" if np.isnan(temperature) else f" at {temperature:.0f} °C"
        return f"throttled by heat or power supply{where}, usually not throttled"


class MemoryErrorDetector:
    """Uncorrected memory errors in the last minutes. A decrease is a reset of the counter."""

    hysteresis = Hysteresis(needed=1, of=1, end=1)

    _MINUTES = 10

    def __init__(self) -> None:
        self._last = np.zeros(0)
        self._known = np.zeros(0, np.bool_)
        self._increases = np.zeros((0, self._MINUTES), np.float32)
        self._minute = 0

    def grow_to(self, slots: int) -> None:
        grow(self, ("_last", "_known", "_increases"), slots)

    def reset(self, slots: Slots) -> None:
        self._known[slots] = False
        self._increases[slots] = 0

    def find(self, minute: int, seen: Mask, counts: npt.NDArray[np.float64]) -> DetectorResult:
        passed = np.arange(max(self._minute + 1, minute - self._MINUTES + 1), minute + 1)
        self._increases[:, passed % self._MINUTES] = 0
        self._minute = minute
        present = ~np.isnan(counts)
        increase = np.where(present & self._known, counts - self._last, 0)
        self._increases[:, minute % self._MINUTES] = np.maximum(increase, 0)
        self._last = np.where(present, counts, self._last)
        self._known |= present
        total: Numbers = self._increases.sum(axis=1)
        return DetectorResult(anomalous=total >= 1, judged=seen & self._known, now=total)

    def describe(self, result: DetectorResult, slot: int) -> str:
        count = int(result.now[slot])
        return f"{count} uncorrected memory error{'s' if count > 1 else ''} in {self._MINUTES} minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMinute:
    """One minute of pods, or of devices whose pods are not measured."""

    utilization: Numbers  # ratio
    memory: Numbers  # bytes
    capacity: Numbers  # bytes
    idle_minutes: Numbers  # since it was last busy, as reported by its node; NaN: unknown


class StuckJobDetector:
    """Was busy for hours, is idle for longer than ever before, and still has its memory allocated. Drivers do
    not report the utilisation of an idle process, so missing utilisation counts as idle where memory is
    reported."""

    hysteresis = Hysteresis(needed=1, of=1, end=2)

    _IDLE, _BUSY = 0.02, 0.05  # ratios
    _MIN_PAUSE = 20  # minutes
    _FACTOR = 3  # of the longest pause before
    _MIN_MINUTES = 180
    _BUSY_SHARE = 0.95  # of the minutes before
    _ALLOCATED_SHARE = 0.8  # of the memory before
    _MIN_ALLOCATED = GIB / 4

    def __init__(self) -> None:
        self._minutes = np.zeros(0, np.int32)  # since it was first busy
        self._busy = np.zeros(0, np.int32)
        self._level = np.zeros(0, np.float32)  # sum of the utilisation of busy minutes
        self._pause = np.zeros(0, np.int32)  # minutes until now
        self._longest = np.zeros(0, np.int32)  # pause that ended
        self._memory = np.zeros(0, np.float32)  # when it was last busy

    def grow_to(self, slots: int) -> None:
        grow(self, ("_minutes", "_busy", "_level", "_pause", "_longest", "_memory"), slots)

    def reset(self, slots: Slots) -> None:
        for state in (self._minutes, self._busy, self._level, self._pause, self._longest):
            state[slots] = 0

    @property
    def ever_busy(self) -> Mask:
        return np.asarray(self._busy > 0)

    def find(self, minute: JobMinute, active: Mask) -> DetectorResult:
        known, busy = ~np.isnan(minute.memory), minute.utilization > self._BUSY
        idle = known & ~(minute.utilization > self._IDLE)
        self._longest = np.where(busy, np.maximum(self._longest, self._pause), self._longest)
        self._busy += busy
        self._minutes += (busy | known) & (self._busy > 0)
        self._level += np.where(busy, minute.utilization, 0).astype(np.float32)
        self._pause = np.where(busy, 0, self._pause + (idle & (self._busy > 0))).astype(np.int32)
        self._memory = np.where(busy & known, minute.memory, self._memory)
        before = self._minutes - self._pause
        begins = (
            (self._pause >= np.maximum(self._MIN_PAUSE, self._FACTOR * self._longest))
            & (before >= self._MIN_MINUTES)
            & (self._busy >= self._BUSY_SHARE * before)
            & ~(minute.idle_minutes < self._pause - 1)
        )
        keeps_memory = minute.memory >= np.maximum(self._MIN_ALLOCATED, self._ALLOCATED_SHARE * self._memory)
        return DetectorResult(
            anomalous=keeps_memory & np.where(active, ~busy, begins),
            judged=known,
            now=minute.memory,
            usual=(self._level / np.maximum(self._busy, 1)).astype(np.float32),
        )

    def describe(self, result: DetectorResult, slot: int) -> str:
        assert result.usual is not None
        allocated, level, idle = result.now[slot] / GIB, result.usual[slot], self._pause[slot]
        return f"idle for {idle} minutes with {allocated:.1f} GiB allocated, usually {level:.0%} busy"


class LeakDetector:
    """Memory grows steadily and will be full within hours. Growth that slows down is a cache that fills; what
    rises and falls is not a leak either."""

    hysteresis = Hysteresis(needed=1, of=1, end=10)

    _BLOCK = 10  # minutes that become one median
    _MIN_MINUTES = 6  # of a block
    _BLOCKS = 18
    _MIN_BLOCKS = 16
    _STEADINESS = 0.7  # growth of the newer half, as a fraction of that of the older one
    _NOISE_FACTOR = 26.0
    _MIN_HOURLY_GROWTH = 0.01  # fraction of the capacity
    _FULL_WITHIN_HOURS = 12.0

    def __init__(self) -> None:
        self._block = 0
        self._minutes = np.zeros((0, self._BLOCK), np.float32)  # of the block until now; 0: unknown
        self._medians = np.zeros((0, self._BLOCKS), np.float32)  # newest last; 0: unknown
        self._hourly = np.zeros(0, np.float32)  # 0: no leak
        self._capacity = np.zeros(0, np.float32)

    def grow_to(self, slots: int) -> None:
        grow(self, ("_minutes", "_medians", "_hourly", "_capacity"), slots)

    def reset(self, slots: Slots) -> None:
        self._minutes[slots] = 0
        self._medians[slots] = 0
        self._hourly[slots] = 0

    def find(self, minute: int, values: JobMinute) -> DetectorResult:
        known = ~np.isnan(values.capacity)
        self._capacity = np.where(known, values.capacity, self._capacity)
        block = minute // self._BLOCK
        passed = block - self._block if self._block else 0
        self._block = block
        if passed:
            self._close_block(min(abs(passed), self._BLOCKS))
        self._minutes[:, minute % self._BLOCK] = np.nan_to_num(values.memory)
        growing = self._hourly > 0
        hourly = np.where(growing, self._hourly, _UNKNOWN)
        left = ((self._capacity - values.memory) / hourly).astype(np.float32)
        return DetectorResult(
            anomalous=left <= self._FULL_WITHIN_HOURS,
            judged=~np.isnan(values.memory),
            now=self._hourly,
            usual=left,
        )

    def _close_block(self, passed: int) -> None:
        found, count = medians(np.where(self._minutes > 0, self._minutes, _UNKNOWN))
        self._minutes[:] = 0
        self._medians = np.roll(self._medians, -passed, axis=1)
        self._medians[:, -passed:] = 0
        self._medians[:, -passed] = np.where(count >= self._MIN_MINUTES, found, 0)
        self._hourly[:] = 0
        # Most do not grow, and need no slope.
        present = np.count_nonzero(self._medians, axis=1) >= self._MIN_BLOCKS
        growth = self._medians[:, -3:].max(axis=1) - self._medians[:, :3].max(axis=1)
        hours = self._BLOCKS * self._BLOCK / 60
        slots = np.flatnonzero(present & (growth >= self._MIN_HOURLY_GROWTH * self._capacity * hours / 2))
        if len(slots):
            self._hourly[slots] = self._growth(self._medians[slots], self._capacity[slots])

    def _growth(self, known: Numbers, capacity: Numbers) -> Numbers:
        """Bytes per hour of a leak; 0: there is none."""
        values = np.where(known > 0, known, _UNKNOWN).astype(np.float64)
        half = self._BLOCKS // 2
        slope, older, newer = slopes(values), slopes(values[:, :half]), slopes(values[:, half:])
        line = values - slope[:, None] * np.arange(self._BLOCKS)
        noise = spreads(line - medians(line)[0][:, None])
        hourly = slope * 60 / self._BLOCK
        steady = (newer >= self._STEADINESS * older) & (older >= self._STEADINESS * newer)
        clear = slope * self._BLOCKS >= self._NOISE_FACTOR * noise
        enough = hourly >= self._MIN_HOURLY_GROWTH * capacity
        return np.where(steady & clear & enough, hourly, 0).astype(np.float32)

    def describe(self, result: DetectorResult, slot: int) -> str:
        assert result.usual is not None
        hourly, left = result.now[slot] / GIB, max(result.usual[slot], 0.0)
        until = f"{left:.0f} hours" if left >= 1.5 else f"{left * 60:.0f} minutes"
        return f"memory grows by {hourly:.1f} GiB per hour, full in {until}"
