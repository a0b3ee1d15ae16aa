"""Detectors of anomalies: each compares the last minutes of devices or pods with their baseline.

A baseline consists of medians and percentiles, because the anomalous minutes themselves would move a mean.

Temperature is compared with minutes of at least the same power, and power with minutes of the same
utilisation, because a changing load explains both. A new job explains everything else: so the baseline of a
job belongs to its pod, and the baseline of a device's power starts when its pods last changed.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Window = npt.NDArray[np.float32]  # slots x minutes, the newest last; NaN is absence
Numbers = npt.NDArray[np.float32]  # by slot
Mask = npt.NDArray[np.bool_]

_SIGMA = 1.4826  # of a normal distribution, in median absolute deviations


class Baseline(NamedTuple):
    minutes: npt.NDArray[np.intp]  # number of minutes with a value
    median: Numbers
    spread: Numbers  # robust estimate of the standard deviation
    low: Numbers  # 5th percentile
    high: Numbers  # 95th percentile


def baseline(values: Window, selected: Mask) -> Baseline:
    """The baseline of each slot over the selected minutes that have a value; NaN if there are none."""
    chosen = np.where(selected, values, np.float32(np.nan))
    in_order = np.sort(chosen, axis=1)  # NaN is sorted to the end
    count = np.count_nonzero(~np.isnan(in_order), axis=1)
    median = _quantile(in_order, count, 0.5)
    deviations = np.sort(np.abs(chosen - median[:, None]), axis=1)
    return Baseline(
        minutes=count,
        median=median,
        spread=_SIGMA * _quantile(deviations, count, 0.5),
        low=_quantile(in_order, count, 0.05),
        high=_quantile(in_order, count, 0.95),
    )


def _quantile(in_order: Window, count: npt.NDArray[np.intp], share: float) -> Numbers:
    if in_order.shape[1] == 0:
        return np.full(len(in_order), np.nan, np.float32)
    places = np.round(share * np.maximum(count - 1, 0)).astype(np.intp)
    return in_order[np.arange(len(in_order)), places]


ADAPTATION_MINUTES = 240  # an anomaly that lasts longer is the new normal


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
    median: Numbers | None = None
    spread: Numbers | None = None
    threshold: Numbers | None = (
        None  # frozen while the anomaly lasts, which would otherwise become the baseline
    )


class ActiveAnomalies(NamedTuple):
    """By slot."""

    active: Mask
    threshold: Numbers  # as it was when the anomaly began


class AnomalyTracker:
    """When the anomalies of one detector begin and end, for all slots."""

    def __init__(self, hysteresis: Hysteresis) -> None:
        self._hysteresis = hysteresis
        self._minutes = np.zeros(0, np.uint64)  # a bit per minute, newest lowest: 1 is anomalous
        self._lasted = np.zeros(0, np.int32)  # minutes since the anomaly began
        self.active = np.zeros(0, np.bool_)
        self.now = np.zeros(0, np.float32)
        self.median = np.zeros(0, np.float32)
        self.spread = np.zeros(0, np.float32)
        self.threshold = np.zeros(0, np.float32)

    def grow_to(self, slots: int) -> None:
        missing = slots - len(self.active)
        if missing > 0:
            for name in ("_minutes", "_lasted", "active", "now", "median", "spread", "threshold"):
                setattr(self, name, extend(getattr(self, name), missing))

    def reset(self, slots: npt.NDArray[np.intp]) -> None:
        self._minutes[slots] = 0
        self.active[slots] = False

    def active_in(self, here: slice) -> ActiveAnomalies:
        return ActiveAnomalies(self.active[here], self.threshold[here])

    def step(self, here: slice, finding: DetectorResult) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Records a minute. Returns the slots where an anomaly began and those where one ended."""
        judged, hysteresis = finding.judged, self._hysteresis
        minutes, active, lasted = self._minutes[here], self.active[here], self._lasted[here]
        shifted = (minutes << np.uint64(1)) | finding.anomalous.astype(np.uint64)
        minutes[judged] = shifted[judged]
        lasted[active] += 1
        begins = (
            judged
            & ~active
            & (_anomalous_minutes(minutes, hysteresis.of) >= hysteresis.needed)
            & finding.anomalous
        )
        over = judged & (_anomalous_minutes(minutes, hysteresis.end) == 0)
        ends = active & (over | (lasted >= ADAPTATION_MINUTES))
        minutes[ends] = 0
        active[begins], active[ends] = True, False
        lasted[begins] = 0
        self.now[here][begins] = finding.now[begins]
        for stored, found in (
            (self.median, finding.median),
            (self.spread, finding.spread),
            (self.threshold, finding.threshold),
        ):
            if found is not None:
                stored[here][begins] = found[begins]
        return np.flatnonzero(begins) + here.start, np.flatnonzero(ends) + here.start


def _anomalous_minutes(minutes: npt.NDArray[np.uint64], newest: int) -> npt.NDArray[np.uint8]:
    anomalous: npt.NDArray[np.uint8] = np.bitwise_count(minutes & np.uint64((1 << newest) - 1))
    return anomalous


def extend(values: npt.NDArray[Any], by: int) -> npt.NDArray[Any]:
    """Appends `by` zeros."""
    return np.concatenate([values, np.zeros(by, values.dtype)])


GIB = float(1 << 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWindow:
    """An hour of pods, or of devices whose pods are not measured."""

    utilization: Window  # ratio
    memory: Window  # bytes
    capacity: Numbers  # bytes
    idle_minutes: Numbers  # since it was last busy, as reported by its node; NaN: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWindow(JobWindow):
    """An hour of devices."""

    seen: Mask  # read in this minute
    power: Window  # watts, sampled once a minute
    mean_power: Window  # watts, the mean over each minute where the device has an energy counter
    temperature: Window  # degrees Celsius
    power_limit: Numbers  # watts
    throttled: Mask  # by temperature or by the power supply
    throttled_before: Numbers  # share of the minutes before the recent ones
    same_pods: Numbers  # minutes since the pods on it changed; NaN: it has none
    measured_by_pods: Mask  # a pod on it reported utilisation in the last hour
    memory_errors: Numbers  # uncorrected, in the last ERROR_MINUTES
    errors: Numbers  # with a code, in the last ERROR_MINUTES
    neighbour_temperature: Numbers  # median of devices under the same load; NaN: too few


RECENT_MINUTES = 10  # compared with the minutes before them
MIN_BASELINE_MINUTES = 20
ERROR_MINUTES = 10

_MIN_SIMILAR_MINUTES = 10  # minutes under a similar load
_WARMING_MINUTES = 3  # minutes whose power determines the temperature
_TEMPERATURE_MARGIN = 6.0  # degrees Celsius: noise of sensors and of the room
_NEIGHBOUR_MARGIN = 15.0  # degrees Celsius: devices at the end of an air stream are warmer
_SIMILAR_POWER = 0.08  # fraction of the power limit
_SIMILAR_UTILIZATION = 0.1
_POWER_MARGIN = 0.25  # fraction of the baseline
_MIN_UTILIZATION = 0.3  # below, power does not follow utilisation
_IDLE, _BUSY = 0.02, 0.05  # ratios
_STUCK_MINUTES = 10
_BUSY_SHARE = 0.9  # of the minutes before
_ALLOCATED_SHARE = 0.8  # of the memory before
_MIN_ALLOCATED = GIB / 4
_PARTS, _PART_MINUTES, _MIN_PART_MINUTES = 3, 18, 12
_STEADINESS = 0.5  # smallest growth from one part to the next, as a fraction of the mean growth
_NOISE_FACTOR = 2.0
_MIN_HOURLY_GROWTH = 0.01  # fraction of the capacity
_FULL_WITHIN_HOURS = 12.0
_ABSENT = np.float32(np.nan)


W_contra = TypeVar("W_contra", contravariant=True)


class Detector(Protocol[W_contra]):
    hysteresis: Hysteresis

    def find(self, window: W_contra, anomalies: ActiveAnomalies, /) -> DetectorResult: ...

    def describe(self, tracker: AnomalyTracker, slot: int) -> str:
        """The text that users see."""
        ...


class OverheatingDetector:
    """Hotter than in earlier minutes of at least the same power, averaged over the minutes that warm a
    device."""

    hysteresis = Hysteresis(needed=3, of=RECENT_MINUTES, end=10)

    def find(self, window: DeviceWindow, anomalies: ActiveAnomalies, /) -> DetectorResult:
        temperature, now = window.temperature[:, :-RECENT_MINUTES], window.temperature[:, -1]
        lately = _warming_mean(window.mean_power)
        highest = np.fmax(lately[:, -1], window.mean_power[:, -1])[:, None]
        within = similar_power(window.power_limit, np.fmax.reduce(window.power, axis=1))[:, None]
        similar = lately[:, :-RECENT_MINUTES] >= highest - within
        similar |= np.isnan(highest)  # without power readings, all minutes are compared
        seen = baseline(temperature, similar)
        margin = np.maximum(_TEMPERATURE_MARGIN / 2, seen.spread)
        threshold = np.maximum(seen.median + _TEMPERATURE_MARGIN, seen.high + margin)
        enough = (_count_present(temperature) >= MIN_BASELINE_MINUTES) & (
            seen.minutes >= _MIN_SIMILAR_MINUTES
        )
        return DetectorResult(
            anomalous=now > np.where(anomalies.active, anomalies.threshold, threshold),
            judged=~np.isnan(now) & (enough | anomalies.active),
            now=now,
            median=seen.median,
            spread=seen.spread,
            threshold=threshold,
        )

    def describe(self, tracker: AnomalyTracker, slot: int) -> str:
        now, median, spread = tracker.now[slot], tracker.median[slot], tracker.spread[slot]
        return f"temperature {now:.0f} °C, usually {median:.0f} ± {max(spread, 1):.0f} °C under this load"


class NeighbourTemperatureDetector:
    """Hotter than devices of the same model and node under the same load. Needs no history."""

    hysteresis = Hysteresis(needed=4, of=5, end=10)

    def find(self, window: DeviceWindow, _: ActiveAnomalies, /) -> DetectorResult:
        now, others = window.temperature[:, -1], window.neighbour_temperature
        return DetectorResult(
            anomalous=now > others + _NEIGHBOUR_MARGIN,
            judged=~np.isnan(now),
            now=now,
            median=others,
        )

    def describe(self, tracker: AnomalyTracker, slot: int) -> str:
        now, others = tracker.now[slot], tracker.median[slot]
        return (
            f"temperature {now:.0f} °C, {others:.0f} °C on devices of its model and node under the same load"
        )


class LowPowerDetector:
    """Draws less power than before at the same utilisation. Power is scaled in proportion to utilisation."""

    hysteresis = Hysteresis(needed=4, of=5, end=10)

    def find(self, window: DeviceWindow, anomalies: ActiveAnomalies, /) -> DetectorResult:
        power, now = window.power[:, :-RECENT_MINUTES], window.power[:, -1]
        busy, busy_now = window.utilization[:, :-RECENT_MINUTES], window.utilization[:, -1]
        ages = np.arange(window.power.shape[1] - 1, RECENT_MINUTES - 1, -1)
        same_pods = ages <= window.same_pods[:, None]
        similar = (np.abs(busy - busy_now[:, None]) <= _SIMILAR_UTILIZATION) & (busy > _SIMILAR_UTILIZATION)
        scaled: Window = np.multiply(
            power, busy_now[:, None] / np.where(similar, busy, _ABSENT), dtype=np.float32
        )
        seen = baseline(scaled, same_pods)
        floor = _POWER_MARGIN * seen.median
        threshold = np.minimum(seen.median - floor, seen.low - np.maximum(floor / 2, 2 * seen.spread))
        enough = (_count_present(np.where(same_pods, power, _ABSENT)) >= MIN_BASELINE_MINUTES) & (
            seen.minutes >= _MIN_SIMILAR_MINUTES
        )
        worth = busy_now >= _MIN_UTILIZATION
        return DetectorResult(
            anomalous=worth & (now < np.where(anomalies.active, anomalies.threshold, threshold)),
            judged=~np.isnan(now) & ~np.isnan(busy_now) & ((worth & enough) | anomalies.active),
            now=now,
            median=seen.median,
            spread=seen.spread,
            threshold=threshold,
        )

    def describe(self, tracker: AnomalyTracker, slot: int) -> str:
        now, median, spread = tracker.now[slot], tracker.median[slot], tracker.spread[slot]
        return f"power {now:.0f} W, usually {median:.0f} ± {max(spread, 1):.0f} W at this utilisation"


class ThrottlingDetector:
    hysteresis = Hysteresis(needed=3, of=5, end=10)

    def find(self, window: DeviceWindow, anomalies: ActiveAnomalies, /) -> DetectorResult:
        rare = window.throttled_before <= 0.2
        return DetectorResult(
            anomalous=window.throttled & (rare | anomalies.active),
            judged=window.seen & (~np.isnan(window.throttled_before) | anomalies.active),
            now=window.temperature[:, -1],
        )

    def describe(self, tracker: AnomalyTracker, slot: int) -> str:
        temperature = tracker.now[slot]
        where = "" if np.isnan(temperature) else f" at {temperature:.0f} °C"
        return f"throttled by heat or power supply{where}, usually not throttled"


class MemoryErrorDetector:
    hysteresis = Hysteresis(needed=1, of=1, end=1)

    def find(self, window: DeviceWindow, _: ActiveAnomalies, /) -> DetectorResult:
        now = window.memory_errors
        return DetectorResult(anomalous=now >= 1, judged=window.seen & ~np.isnan(now), now=now)

    def describe(self, tracker: AnomalyTracker, slot: int) -> str:
        count = int(tracker.now[slot])
        return f"{count} uncorrected memory error{'s' if count > 1 else ''} in {ERROR_MINUTES} minutes"


class ErrorCodeDetector:
    """Several errors with a code; a single one may be the fault of the job."""

    hysteresis = Hysteresis(needed=1, of=1, end=1)

    def find(self, window: DeviceWindow, _: ActiveAnomalies, /) -> DetectorResult:
        now = window.errors
        return DetectorResult(anomalous=now >= 3, judged=window.seen & ~np.isnan(now), now=now)

    def describe(self, tracker: AnomalyTracker, slot: int) -> str:
        return f"{int(tracker.now[slot])} errors in {ERROR_MINUTES} minutes"


class StuckJobDetector:
    """Was busy, is idle now, and still has its memory allocated. Drivers do not report the utilisation of an
    idle process, so missing utilisation counts as idle where memory is reported."""

    hysteresis = Hysteresis(needed=1, of=1, end=2)

    def find(self, window: JobWindow, anomalies: ActiveAnomalies, /) -> DetectorResult:
        known, busy = ~np.isnan(window.memory), window.utilization > _BUSY
        earlier, newest = slice(None, -_STUCK_MINUTES), slice(-_STUCK_MINUTES, None)
        minutes = np.count_nonzero(known[:, earlier], axis=1)
        worked = np.count_nonzero(busy[:, earlier], axis=1) >= _BUSY_SHARE * minutes
        idle = (known & ~(window.utilization > _IDLE))[:, newest].all(axis=1)
        memory_before = baseline(window.memory[:, earlier], known[:, earlier]).median
        now, active = window.memory[:, -1], anomalies.active
        keeps_memory = now >= np.maximum(
            _MIN_ALLOCATED, _ALLOCATED_SHARE * np.where(active, anomalies.threshold, memory_before)
        )
        begins = (
            idle & worked & (minutes >= MIN_BASELINE_MINUTES) & ~(window.idle_minutes < _STUCK_MINUTES - 1)
        )
        return DetectorResult(
            anomalous=keeps_memory & np.where(active, ~busy[:, -1], begins),
            judged=known[:, -1],
            now=now,
            median=baseline(window.utilization[:, earlier], busy[:, earlier]).median,
            threshold=memory_before,
        )

    def describe(self, tracker: AnomalyTracker, slot: int) -> str:
        allocated, level = tracker.now[slot] / GIB, tracker.median[slot]
        return (
            f"idle for {_STUCK_MINUTES} minutes with {allocated:.1f} GiB allocated, usually {level:.0%} busy"
        )


class LeakDetector:
    """Memory grows steadily and will be full within hours. It takes an hour to begin, because memory that
    rises and falls again is not a leak."""

    hysteresis = Hysteresis(needed=30, of=32, end=15)

    def find(self, window: JobWindow, _: ActiveAnomalies, /) -> DetectorResult:
        length = _PARTS * _PART_MINUTES
        newest, now = window.memory[:, -length:], window.memory[:, -1]
        parts = newest.reshape(len(newest) * _PARTS, _PART_MINUTES)
        seen = baseline(parts, np.ones(parts.shape, np.bool_))
        enough = (seen.minutes.reshape(-1, _PARTS) >= _MIN_PART_MINUTES).all(axis=1)
        medians = seen.median.reshape(-1, _PARTS)
        growth = np.diff(medians, axis=1)
        mean = growth.mean(axis=1, dtype=np.float32)
        steady = growth.min(axis=1) >= _STEADINESS * mean
        since_middle = (np.arange(length, dtype=np.float32) - (length - 1) / 2) / _PART_MINUTES
        rest = newest - medians[:, 1:2] - mean[:, None] * since_middle
        noise = baseline(rest, np.ones(rest.shape, np.bool_)).spread
        hourly = mean * np.float32(60 / _PART_MINUTES)
        left: Numbers = np.divide(
            window.capacity - now, np.where(hourly > 0, hourly, _ABSENT), dtype=np.float32
        )
        anomalous = steady & (mean * _PARTS >= _NOISE_FACTOR * noise)
        anomalous &= (hourly >= _MIN_HOURLY_GROWTH * window.capacity) & (left <= _FULL_WITHIN_HOURS)
        return DetectorResult(anomalous=enough & anomalous, judged=~np.isnan(now), now=hourly, median=left)

    def describe(self, tracker: AnomalyTracker, slot: int) -> str:
        hourly, left = tracker.now[slot] / GIB, max(tracker.median[slot], 0.0)
        until = f"{left:.0f} hours" if left >= 1.5 else f"{left * 60:.0f} minutes"
        return f"memory grows by {hourly:.1f} GiB per hour, full in {until}"


class DeviceJobDetector:
    """Applies a detector of jobs to devices without a pod, or whose pods report no utilisation. Minutes
    before the pods of the device last changed do not count."""

    def __init__(self, job: Detector[JobWindow]) -> None:
        self.hysteresis = job.hysteresis
        self.describe = job.describe
        self._job = job

    def find(self, window: DeviceWindow, anomalies: ActiveAnomalies, /) -> DetectorResult:
        ages = np.arange(window.memory.shape[1] - 1, -1, -1)
        of_others = ages > window.same_pods[:, None]
        own = replace(
            window,
            utilization=np.where(of_others, _ABSENT, window.utilization),
            memory=np.where(of_others, _ABSENT, window.memory),
        )
        finding = self._job.find(own, anomalies)
        return replace(finding, anomalous=finding.anomalous & ~window.measured_by_pods)


def similar_power(limit: npt.NDArray[Any], power: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Watts within which two loads are similar. Without a power limit, `power` is the reference."""
    return _SIMILAR_POWER * np.where(np.isnan(limit), power, limit)


def _warming_mean(values: Window) -> Window:
    """The mean over each minute and those before it that still warm the device; NaN is omitted."""
    known = ~np.isnan(values)
    sums = np.cumsum(np.where(known, values, 0), axis=1, dtype=np.float64)
    counts = np.cumsum(known, axis=1)
    sums[:, _WARMING_MINUTES:] = sums[:, _WARMING_MINUTES:] - sums[:, :-_WARMING_MINUTES]
    counts[:, _WARMING_MINUTES:] = counts[:, _WARMING_MINUTES:] - counts[:, :-_WARMING_MINUTES]
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)


def _count_present(values: Window) -> npt.NDArray[np.intp]:
    present: npt.NDArray[np.intp] = np.count_nonzero(~np.isnan(values), axis=1)
    return present
