"""Anomaly detection: once a minute, compares every device and pod with its own last hour."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from accelscope.config.log import fields
from accelscope.fleet.detectors import (
    ERROR_MINUTES,
    MIN_BASELINE_MINUTES,
    RECENT_MINUTES,
    AnomalyTracker,
    Detector,
    DeviceJobDetector,
    DeviceWindow,
    ErrorCodeDetector,
    JobWindow,
    LeakDetector,
    LowPowerDetector,
    Mask,
    MemoryErrorDetector,
    NeighbourTemperatureDetector,
    Numbers,
    OverheatingDetector,
    StuckJobDetector,
    ThrottlingDetector,
    Window,
    baseline,
    extend,
    similar_power,
)
from accelscope.fleet.history import DEVICE_KEY, POD_KEY, FleetHistory, Rows, fresh_positions, rows_at
from accelscope.fleet.history_rings import DEVICE_FIELDS, NOWHERE, POD_FIELDS, Key, Rings, Slots
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.query import Positions
from accelscope.fleet.store.summary import Groups, Values, group_rows, number_runs
from accelscope.fleet.store.table import ColumnTable
from accelscope.model import FAULT_THROTTLES

log = logging.getLogger(__name__)

MARK_LIMIT = 500  # if more are anomalous at once, the fleet itself has changed

_SLOTS_AT_ONCE = 1024
_MARKS_AT_ONCE = 100

W = TypeVar("W")


class AnomalyMarks(Generic[W]):
    """The active anomalies of the slots of `rings`, with their reasons. A reason keeps the values of the
    minute when the anomaly began, so that clients do not get an update for every degree."""

    def __init__(self, rings: Rings, detectors: Sequence[Detector[W]], limit: int = MARK_LIMIT) -> None:
        self._rings = rings
        self._trackers = [(detector, AnomalyTracker(detector.hysteresis)) for detector in detectors]
        self._limit = limit
        self._lives = np.zeros(0, np.int64)  # by slot, as of the last minute
        self._reasons: dict[int, dict[int, str]] = {}  # by slot and index of the detector
        self._marked: dict[int, Key | None] = {}  # by slot: the key that the reasons belong to
        self._ended: set[Key] = set()
        self.unmarked = 0

    @property
    def marked(self) -> int:
        return min(len(self._reasons), self._limit)

    def begin_minute(self) -> Slots:
        """Drops the state of slots that were freed or reused since the last minute, and returns the reused
        ones."""
        before, self._lives = self._lives, self._rings.lives.copy()
        reused = np.flatnonzero(before != self._lives[: len(before)])
        free = [slot for slot in self._reasons if self._rings.keys[slot] is None]
        for _, tracker in self._trackers:
            tracker.grow_to(len(self._lives))
            tracker.reset(reused)
            tracker.reset(np.array(free, np.intp))
        for slot in self._reasons.keys() & {*reused.tolist(), *free}:
            self._forget(slot)
        return reused

    def detect(self, here: slice, window: W) -> None:
        for index, (detector, tracker) in enumerate(self._trackers):
            began, ended = tracker.step(here, detector.find(window, tracker.active_in(here)))
            for slot in began.tolist():
                self._reasons.setdefault(slot, {})[index] = detector.describe(tracker, slot)
                self._marked[slot] = self._rings.keys[slot]
            for slot in ended.tolist():
                self._end(slot, index)

    def _end(self, slot: int, index: int) -> None:
        reasons = self._reasons[slot]
        del reasons[index]
        if not reasons:
            self._forget(slot)

    def _forget(self, slot: int) -> None:
        del self._reasons[slot]
        key = self._marked.pop(slot)
        if key is not None:
            self._ended.add(key)

    def texts(self) -> Mapping[Key, str | None]:
        """The text of every active anomaly by key, and None for those that ended since the last call."""
        found: dict[Key, str | None] = dict.fromkeys(self._ended)
        self._ended = set()
        count = 0
        for slot, reasons in self._reasons.items():
            key = self._rings.keys[slot]
            if key is None:
                continue
            count += 1
            if count <= self._limit:
                found[key] = "; ".join(text for _, text in sorted(reasons.items()))
        self.unmarked = max(0, count - self._limit)
        return found


_MAX_NEIGHBOURS = 16  # of one model on one node: more are ignored
_MIN_NEIGHBOURS = 3
_GROUPS_AT_ONCE = 1000


async def neighbour_temperatures(
    groups: npt.NDArray[np.int64], temperature: Numbers, load: Numbers, tolerance: Numbers
) -> Numbers:
    """By row, the median of the others in its group whose `load` differs by at most `tolerance`; NaN if there
    are too few."""
    found = np.full(len(groups), np.nan, np.float32)
    matrix = _rows_by_group(groups)
    for start in range(0, len(matrix), _GROUPS_AT_ONCE):
        await asyncio.sleep(0)
        rows = matrix[start : start + _GROUPS_AT_ONCE]
        present = rows >= 0
        temperatures = np.where(present, temperature[rows], np.nan).astype(np.float32)
        loads = np.where(present, load[rows], np.nan)
        similar = np.abs(loads[:, :, None] - loads[:, None, :]) <= tolerance[rows][:, :, None]
        similar &= ~np.eye(rows.shape[1], dtype=np.bool_)
        others = np.broadcast_to(temperatures[:, None, :], similar.shape)
        width = rows.shape[1]
        found_baseline = baseline(others.reshape(-1, width), similar.reshape(-1, width))
        median = np.where(found_baseline.minutes >= _MIN_NEIGHBOURS, found_baseline.median, np.nan)
        found[rows[present]] = median.reshape(rows.shape)[present]
    return found


def _rows_by_group(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """A line for each group with its rows, padded with -1."""
    if not len(groups):
        return np.empty((0, 1), np.intp)
    order = np.argsort(groups, kind="stable")
    in_order = groups[order]
    first = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    sizes = np.diff(np.r_[first, len(order)])
    line = np.repeat(np.arange(len(first)), sizes)
    place = np.arange(len(order)) - np.repeat(first, sizes)
    width = int(min(sizes.max(), _MAX_NEIGHBOURS))
    matrix = np.full((len(first), width), -1, np.intp)
    fits = place < width
    matrix[line[fits], place[fits]] = order[fits]
    return matrix


@dataclass(frozen=True, slots=True)
class DeviceReadings:
    """What detectors need of this minute that history does not contain, by row. Copied from the store in one
    step, because the store changes while slots are looked up."""

    rows: Rows
    group: npt.NDArray[np.int64]  # equal for devices of the same model on the same node
    temperature: Values
    power: Values
    power_limit: Values
    energy: Values  # joules, a counter
    taken_at: Values
    capacity: Values  # bytes
    ecc_uncorrected: Values
    errors: Values
    throttled: Mask
    pods: Rows
    pod_device: npt.NDArray[np.intp]  # by row of `pods`, the row of its device here

    def with_pods(self, selected: Mask) -> Mask:
        """Devices that have one of the selected pods; `selected` is by row of `pods`."""
        found = np.zeros(len(self.rows), np.bool_)
        found[self.pod_device[selected]] = True
        return found


def read_devices(store: FleetStore) -> DeviceReadings:
    table = store.devices
    here = fresh_positions(table)
    models = table.texts("model").texts
    pods, device = _pods_on(store, here)
    first = _firsts(store.pods, pods, device)  # a pod with two containers counts once
    pods, device = pods[first], device[first]
    return DeviceReadings(
        rows=rows_at(table, here, DEVICE_KEY),
        group=table.nodes(here).astype(np.int64) * len(models) + table.column("model", here),
        temperature=table.column("temperature_celsius", here),
        power=table.column("power_watts", here),
        power_limit=table.column("power_limit_watts", here),
        energy=table.column("energy_joules", here),
        taken_at=table.column("taken_at", here),
        capacity=table.column("memory_total_bytes", here),
        ecc_uncorrected=table.column("ecc_uncorrected", here),
        errors=table.column("errors", here),
        throttled=_throttled_by_fault(table)[table.column("throttled", here)],
        pods=rows_at(store.pods, pods, POD_KEY),
        pod_device=device,
    )


def _pods_on(store: FleetStore, devices: Positions) -> tuple[Positions, npt.NDArray[np.intp]]:
    """Positions of the rows of fresh pods on these devices, and the index of each one's device in
    `devices`."""
    pods = fresh_positions(store.pods)
    linked = store.pods.linked(pods, store.devices)
    places = np.full(len(store.devices.whole_column("id")) + 1, -1, np.intp)  # the last one is NOWHERE's
    places[devices] = np.arange(len(devices))
    device = places[linked]
    return pods[device >= 0], device[device >= 0]


def _firsts(table: ColumnTable[Any], pods: Positions, device: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The index of the first row of each pod on each device."""
    pod = _pod_runs(table, pods)
    sizes = int(pod.max(initial=0)) + 1, int(device.max(initial=0)) + 1
    pairs, _ = group_rows((pod, device), sizes, len(pods))
    first = np.full(pairs.count, len(pods), np.intp)
    np.minimum.at(first, pairs.of, np.arange(len(pods)))
    return first


def _pod_runs(table: ColumnTable[Any], pods: Positions) -> npt.NDArray[np.int64]:
    """Numbers the pods: the rows of a pod on one node are adjacent."""
    return number_runs(table.nodes(pods), table.column("namespace", pods), table.column("pod", pods))


def _throttled_by_fault(table: ColumnTable[Any]) -> Mask:
    """By code of the column `throttled`."""
    return np.array(
        [
            text is not None and not FAULT_THROTTLES.isdisjoint(text.split(","))
            for text in table.texts("throttled").texts
        ]
    )


@dataclass(frozen=True, slots=True)
class PodReadings:
    """By row, one for each pod."""

    rows: Rows
    capacity: Values  # bytes: its shares of devices, or the memory of whole devices
    idle_minutes: Values  # NaN: unknown


def read_pods(store: FleetStore) -> PodReadings:
    table = store.pods
    everywhere = fresh_positions(store.devices)
    here, device = _pods_on(store, everywhere)
    pods = _pod_runs(table, here)
    count = int(pods[-1]) + 1 if len(pods) else 0
    share = table.column("memory_share_bytes", here)
    whole = store.devices.column("memory_total_bytes", everywhere)[device]
    room = np.where(np.isnan(share), whole, share)
    items, (pod_of, _) = group_rows((pods, device), (max(count, 1), len(everywhere) + 1), len(here))
    capacity = Groups(pod_of, count).sums(items.maxima(room))
    idle = -Groups(pods, count).maxima(-table.column("idle_seconds", here)) / 60
    first = np.flatnonzero(np.diff(pods, prepend=-1))
    return PodReadings(rows_at(table, here[first], POD_KEY), capacity, idle)


_HOUR = 60  # minutes
_MIN_RATE_SECONDS = 10.0  # between two readings of a counter


class CounterIncreases:
    """The increase of a counter over the last ERROR_MINUTES, by slot. A decrease is a reset of the
    counter."""

    def __init__(self) -> None:
        self._last = np.zeros(0)
        self._increases = np.zeros((ERROR_MINUTES, 0), np.float32)
        self._minute = 0

    def grow_to(self, slots: int) -> None:
        missing = slots - len(self._last)
        if missing > 0:
            self._last = np.concatenate([self._last, np.full(missing, np.nan)])
            self._increases = np.concatenate(
                [self._increases, np.zeros((ERROR_MINUTES, missing), np.float32)], axis=1
            )

    def reset(self, slots: Slots) -> None:
        self._last[slots] = np.nan
        self._increases[:, slots] = 0

    def begin(self, minute: int) -> None:
        for passed in range(max(self._minute + 1, minute - ERROR_MINUTES + 1), minute + 1):
            self._increases[passed % ERROR_MINUTES] = 0
        self._minute = minute

    def take(self, slots: Slots, counts: npt.NDArray[np.float64]) -> None:
        increase = counts - self._last[slots]
        self._increases[self._minute % ERROR_MINUTES, slots] = np.where(increase > 0, increase, 0)
        self._last[slots] = np.where(np.isnan(counts), self._last[slots], counts)

    def total(self, here: slice) -> Numbers:
        """NaN where the counter was never read."""
        total = self._increases[:, here].sum(axis=0)
        return np.where(np.isnan(self._last[here]), np.nan, total).astype(np.float32)


class MeanPower:
    """Mean power of each minute of the last hour, from the device's energy counter: a single sample per
    minute is misleading where the load comes in bursts."""

    def __init__(self) -> None:
        self._joules = np.zeros(0)
        self._taken_at = np.zeros(0)
        self._minute = 0
        # 0 means absent: pages of zeros that are never written take no memory.
        self._watts = np.zeros((_HOUR, 0), np.float32)

    def grow_to(self, slots: int) -> None:
        missing = slots - len(self._joules)
        if missing > 0:
            self._joules = np.concatenate([self._joules, np.full(missing, np.nan)])
            self._taken_at = np.concatenate([self._taken_at, np.full(missing, np.nan)])
            watts = np.zeros((_HOUR, slots), np.float32)
            watts[:, : self._watts.shape[1]] = self._watts
            self._watts = watts

    def reset(self, slots: Slots) -> None:
        self._joules[slots] = np.nan
        self._watts[:, slots] = 0

    def begin(self, minute: int) -> None:
        for passed in range(max((self._minute or minute) + 1, minute - _HOUR + 1), minute + 1):
            self._watts[passed % _HOUR] = 0
        self._minute = minute

    def take(self, slots: Slots, joules: npt.NDArray[np.float64], taken_at: npt.NDArray[np.float64]) -> None:
        seconds = taken_at - self._taken_at[slots]
        increase = joules - self._joules[slots]
        valid = (seconds >= _MIN_RATE_SECONDS) & (increase > 0)  # a decrease is a reset of the counter
        watts = np.where(valid, increase / np.where(valid, seconds, 1), 0)
        self._watts[self._minute % _HOUR, slots] = watts
        self._joules[slots] = joules
        self._taken_at[slots] = taken_at

    def window(self, here: slice, power: Window) -> Window:
        """`power` contains the samples, which are used where there is no energy counter."""
        places = np.arange(self._minute - _HOUR + 1, self._minute + 1) % _HOUR
        watts = self._watts[places, here].T
        return np.where(watts > 0, watts, power)


class DeviceHistory:
    """The past of devices that is not in the rings, by slot: errors, throttled minutes, and when the pods
    changed. It is reset when a slot is reused for another device."""

    def __init__(self) -> None:
        self.mean_power = MeanPower()
        self.memory_errors = CounterIncreases()
        self.errors = CounterIncreases()
        self._throttled = np.zeros(0, np.uint64)  # a bit per minute, newest lowest
        self._minutes = np.zeros(0, np.int32)  # minutes with a reading
        # The pods on each device: (device slot << 32) + pod slot, sorted. Comparing 80,000 pairs with those
        # of the minute before takes 6 ms.
        self._pods = np.zeros(0, np.int64)
        self._has_pods = np.zeros(0, np.bool_)
        self._pods_since = np.zeros(0, np.int64)  # minute

    def grow_to(self, slots: int) -> None:
        self.mean_power.grow_to(slots)
        self.memory_errors.grow_to(slots)
        self.errors.grow_to(slots)
        missing = slots - len(self._minutes)
        if missing > 0:
            for name in ("_throttled", "_minutes", "_has_pods", "_pods_since"):
                setattr(self, name, extend(getattr(self, name), missing))

    def reset(self, slots: Slots) -> None:
        self.mean_power.reset(slots)
        self.memory_errors.reset(slots)
        self.errors.reset(slots)
        self._throttled[slots] = 0
        self._minutes[slots] = 0
        self._has_pods[slots] = False
        self._pods = self._pods[~self._paired_with(slots)]

    def begin(self, minute: int) -> None:
        self.mean_power.begin(minute)
        self.memory_errors.begin(minute)
        self.errors.begin(minute)

    def take_errors(
        self, slots: Slots, memory: npt.NDArray[np.float64], others: npt.NDArray[np.float64]
    ) -> None:
        """Drivers list only errors that occurred, so a missing number of errors with a code is 0."""
        self.memory_errors.take(slots, memory)
        self.errors.take(slots, np.nan_to_num(others))

    def take_throttled(self, slots: Slots, throttled: Mask) -> None:
        shifted = self._throttled[slots] << np.uint64(1)
        self._throttled[slots] = shifted | throttled.astype(np.uint64)
        self._minutes[slots] = np.minimum(self._minutes[slots] + 1, _HOUR)

    def take_pods(self, slots: Slots, devices: Slots, pods: Slots, minute: int) -> None:
        """`slots` are the devices that were read; pod `pods[i]` is on device `devices[i]`. Pods without a
        slot, for which history has no room, count as one pod."""
        now = np.sort((devices << 32) + pods - NOWHERE)
        now = now[np.diff(now, prepend=-1) > 0]  # np.unique takes ten times as long
        read = self._paired_with(slots)
        changed = np.setxor1d(self._pods[read], now, assume_unique=True) >> 32
        self._pods = np.concatenate([self._pods[~read], now])
        self._pods_since[changed] = minute
        self._has_pods[slots] = False
        self._has_pods[devices] = True

    def _paired_with(self, slots: Slots) -> Mask:
        """Pairs of `_pods` that belong to one of these devices."""
        chosen = np.zeros(len(self._minutes), np.bool_)
        chosen[slots] = True
        return np.asarray(chosen[self._pods >> 32])

    def throttled_now(self, here: slice) -> Mask:
        return (self._throttled[here] & np.uint64(1)).astype(np.bool_)

    def throttled_before(self, here: slice) -> Numbers:
        """Share of throttled minutes before the recent ones; NaN if there are too few."""
        before = np.bitwise_count(self._throttled[here] >> np.uint64(RECENT_MINUTES))
        minutes = self._minutes[here] - RECENT_MINUTES
        share = before / np.maximum(minutes, 1)
        return np.where(minutes >= MIN_BASELINE_MINUTES, share, np.nan).astype(np.float32)

    def same_pods(self, here: slice, minute: int) -> Numbers:
        since = minute - self._pods_since[here]
        return np.where(self._has_pods[here], since, np.nan).astype(np.float32)


_POD_DETECTORS: tuple[Detector[JobWindow], ...] = (StuckJobDetector(), LeakDetector())
# In the order of their texts.
_DEVICE_DETECTORS: tuple[Detector[DeviceWindow], ...] = (
    MemoryErrorDetector(),
    ErrorCodeDetector(),
    OverheatingDetector(),
    NeighbourTemperatureDetector(),
    ThrottlingDetector(),
    LowPowerDetector(),
    *(DeviceJobDetector(job) for job in _POD_DETECTORS),
)


class Trends:
    """Call `update` after each recorded minute. It runs in the event loop, and yields every few
    milliseconds."""

    def __init__(self, history: FleetHistory) -> None:
        self._history = history
        self._devices = AnomalyMarks(history.devices, _DEVICE_DETECTORS)
        self._pods = AnomalyMarks(history.pods, _POD_DETECTORS)
        self._device_history = DeviceHistory()
        self._over_limit = False

    @property
    def unusual(self) -> dict[str, int]:
        """Number of marked devices and pods."""
        return {"device": self._devices.marked, "pod": self._pods.marked}

    async def update(self, store: FleetStore) -> None:
        """Sets the field `unusual` in the store, and clears it where an anomaly has ended."""
        if self._history.devices.last is None:
            return
        await self._check_devices(store, await self._check_pods(store))
        await _mark(store, "device", self._devices.texts())
        await _mark(store, "pod", self._pods.texts())
        self._log_unmarked()

    async def _check_pods(self, store: FleetStore) -> Mask:
        """Returns, by slot, which pods reported utilisation in the last hour."""
        rings = self._history.pods
        readings = read_pods(store)
        slots = await readings.rows.slots(rings.find)
        self._pods.begin_minute()
        here = slots != NOWHERE
        by_slot = _SlotArray(len(rings.lives), slots[here])
        capacity, idle = by_slot.put(readings.capacity[here]), by_slot.put(readings.idle_minutes[here])
        measured = np.zeros(len(rings.lives), np.bool_)
        for part, hour in _windows_by_slot(rings):
            await asyncio.sleep(0)
            values = dict(zip(POD_FIELDS, hour, strict=True))
            window = JobWindow(
                utilization=values["utilization_ratio"],
                memory=values["memory_used_bytes"],
                capacity=capacity[part],
                idle_minutes=idle[part],
            )
            measured[part] = ~np.isnan(window.utilization).all(axis=1)
            self._pods.detect(part, window)
        return measured

    async def _check_devices(self, store: FleetStore, measured_pods: Mask) -> None:
        rings, past = self._history.devices, self._device_history
        minute = rings.last
        assert minute is not None
        readings = read_devices(store)
        slots = await readings.rows.slots(rings.find)
        pod_slots = await readings.pods.slots(self._history.pods.find)
        neighbours = await _neighbour_temperatures(readings)
        measured = readings.with_pods((pod_slots != NOWHERE) & _at(measured_pods, pod_slots))
        reused = self._devices.begin_minute()
        await asyncio.sleep(0)
        past.grow_to(len(rings.lives))
        past.reset(reused)
        await asyncio.sleep(0)
        pod_device_slots = slots[readings.pod_device]
        placed = pod_device_slots != NOWHERE
        here = slots != NOWHERE
        slots = slots[here]
        past.begin(minute)
        past.mean_power.take(slots, readings.energy[here], readings.taken_at[here])
        past.take_errors(slots, readings.ecc_uncorrected[here], readings.errors[here])
        past.take_throttled(slots, readings.throttled[here])
        past.take_pods(slots, pod_device_slots[placed], pod_slots[placed], minute)
        by_slot = _SlotArray(len(rings.lives), slots)
        limit, capacity = by_slot.put(readings.power_limit[here]), by_slot.put(readings.capacity[here])
        neighbour_temperature, measured_by_pods = by_slot.put(neighbours[here]), by_slot.put(measured[here])
        unknown = np.full(len(rings.lives), np.nan, np.float32)
        seen = np.zeros(len(rings.lives), np.bool_)
        seen[slots] = True
        for part, hour in _windows_by_slot(rings):
            await asyncio.sleep(0)
            values = dict(zip(DEVICE_FIELDS, hour, strict=True))
            window = DeviceWindow(
                seen=seen[part],
                utilization=values["utilization_ratio"],
                memory=values["memory_used_bytes"],
                power=values["power_watts"],
                mean_power=past.mean_power.window(part, values["power_watts"]),
                temperature=values["temperature_celsius"],
                capacity=capacity[part],
                idle_minutes=unknown[part],
                power_limit=limit[part],
                throttled=past.throttled_now(part),
                throttled_before=past.throttled_before(part),
                same_pods=past.same_pods(part, minute),
                measured_by_pods=measured_by_pods[part] == 1,
                memory_errors=past.memory_errors.total(part),
                errors=past.errors.total(part),
                neighbour_temperature=neighbour_temperature[part],
            )
            self._devices.detect(part, window)

    def _log_unmarked(self) -> None:
        unmarked = self._devices.unmarked + self._pods.unmarked
        if unmarked and not self._over_limit:
            log.warning("too many anomalies at once; some are not marked", extra=fields(unmarked=unmarked))
        self._over_limit = bool(unmarked)


def _at(by_slot: Mask, slots: Slots) -> Mask:
    return by_slot[slots] if len(by_slot) else np.zeros(len(slots), np.bool_)


async def _neighbour_temperatures(readings: DeviceReadings) -> Numbers:
    temperature, power = readings.temperature.astype(np.float32), readings.power.astype(np.float32)
    tolerance = similar_power(readings.power_limit, readings.power).astype(np.float32)
    return await neighbour_temperatures(readings.group, temperature, power, tolerance)


async def _mark(store: FleetStore, kind: Literal["device", "pod"], texts: Mapping[Key, str | None]) -> None:
    items = [((str(key[0]), str(key[1]), str(key[2])), text) for key, text in texts.items()]
    for start in range(0, len(items), _MARKS_AT_ONCE):
        await asyncio.sleep(0)
        store.set_unusual(kind, dict(items[start : start + _MARKS_AT_ONCE]))


class _SlotArray:
    """Values of rows by their slots; NaN elsewhere."""

    def __init__(self, length: int, slots: Slots) -> None:
        self._length = length
        self._slots = slots

    def put(self, values: npt.NDArray[Any]) -> Numbers:
        by_slot = np.full(self._length, np.nan, np.float32)
        by_slot[self._slots] = values
        return by_slot


def _windows_by_slot(rings: Rings) -> Iterator[tuple[slice, list[Window]]]:
    """Some of the slots in use at a time, with a window of the last hour for each field."""
    assert rings.last is not None
    places = rings.places(rings.last - rings.length + 1, rings.last + 1)
    for number, page in enumerate(rings.pages):
        start = number * rings.page_slots
        for first in range(0, min(rings.page_slots, rings.slots - start), _SLOTS_AT_ONCE):
            end = min(first + _SLOTS_AT_ONCE, rings.slots - start)
            hour = page[places, :, first:end]
            windows = [np.ascontiguousarray(hour[:, field].T) for field in range(len(rings.fields))]
            yield slice(start + first, start + end), windows
