"""Anomaly detection: once a minute, compares every device and pod with its past and with the devices beside
it."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from accelscope.config.log import fields
from accelscope.fleet.detectors import (
    AnomalyTracker,
    DetectorResult,
    Hysteresis,
    JobMinute,
    LeakDetector,
    LowPowerDetector,
    MemoryErrorDetector,
    Numbers,
    OverheatingDetector,
    StuckJobDetector,
    ThrottlingDetector,
)
from accelscope.fleet.history import DEVICE_KEY, POD_KEY, FleetHistory, Rows, fresh_positions, rows_at
from accelscope.fleet.history_rings import DEVICE_FIELDS, NOWHERE, POD_FIELDS, Key, Rings, Slots
from accelscope.fleet.robust import Mask, lines_of
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.query import Positions
from accelscope.fleet.store.summary import Groups, Values, group_rows, number_runs
from accelscope.fleet.store.table import ColumnTable
from accelscope.fleet.thermal import MeanPower, ThermalModel
from accelscope.model import FAULT_THROTTLES

log = logging.getLogger(__name__)

MARK_LIMIT = 500  # if more are anomalous at once, the fleet itself has changed

_NODES_FITTED_AT_ONCE = 12  # of eight devices: about ten milliseconds
_LINES_AT_ONCE = 1000
_MARKS_AT_ONCE = 100
_FILLED_AT = 5  # the update after which the history of before the start is complete


class Detector(Protocol):
    hysteresis: Hysteresis

    def grow_to(self, slots: int, /) -> None: ...

    def reset(self, slots: Slots, /) -> None: ...

    def describe(self, result: DetectorResult, slot: int, /) -> str:
        """The text that users see."""
        ...


class AnomalyMarks:
    """The active anomalies of the slots of `rings`, with their reasons. A reason keeps the values of the
    minute when the anomaly began, so that clients do not get an update for every degree."""

    def __init__(self, rings: Rings, detectors: Sequence[Detector], limit: int = MARK_LIMIT) -> None:
        self._rings = rings
        self._detectors = tuple(detectors)
        self._trackers = [AnomalyTracker(detector.hysteresis) for detector in detectors]
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
        for detector, tracker in zip(self._detectors, self._trackers, strict=True):
            detector.grow_to(len(self._lives))
            detector.reset(reused)
            tracker.grow_to(len(self._lives))
            tracker.reset(reused)
            tracker.reset(np.array(free, np.intp))
        for slot in self._reasons.keys() & {*reused.tolist(), *free}:
            self._forget(slot)
        return reused

    def active(self, detector: Detector) -> Mask:
        return self._trackers[self._detectors.index(detector)].active

    def record(self, detector: Detector, result: DetectorResult) -> Slots:
        """Returns the slots where an anomaly ended."""
        index = self._detectors.index(detector)
        began, ended = self._trackers[index].step(result)
        for slot in began.tolist():
            self._reasons.setdefault(slot, {})[index] = detector.describe(result, slot)
            self._marked[slot] = self._rings.keys[slot]
        for slot in ended.tolist():
            self._end(slot, index)
        return ended

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


@dataclass(frozen=True, slots=True)
class DeviceReadings:
    """What detectors need of this minute that history does not contain, by row. Copied from the store in one
    step, because the store changes while slots are looked up."""

    rows: Rows
    node: npt.NDArray[np.int64]
    energy: Values  # joules, a counter
    taken_at: Values
    capacity: Values  # bytes
    ecc_uncorrected: Values
    throttled: Mask  # by heat or by the power supply
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
    pods, device = _pods_on(store, here)
    first = _firsts(store.pods, pods, device)  # a pod with two containers counts once
    pods, device = pods[first], device[first]
    return DeviceReadings(
        rows=rows_at(table, here, DEVICE_KEY),
        node=table.nodes(here).astype(np.int64),
        energy=table.column("energy_joules", here),
        taken_at=table.column("taken_at", here),
        capacity=table.column("memory_total_bytes", here),
        ecc_uncorrected=table.column("ecc_uncorrected", here),
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


class PodPlacement:
    """Which pods are on each device, by slot."""

    def __init__(self) -> None:
        # (device slot << 32) + pod slot, sorted. Comparing 80,000 pairs with those of the minute before takes
        # 6 ms.
        self._pairs = np.zeros(0, np.int64)

    def reset(self, slots: Slots) -> None:
        self._pairs = self._pairs[~np.isin(self._pairs >> 32, slots)]

    def changed(self, slots: Slots, devices: Slots, pods: Slots) -> Slots:
        """`slots` are the devices that were read; pod `pods[i]` is on device `devices[i]`. Pods without a
        slot, for which history has no room, count as one pod. Returns the devices whose pods changed."""
        now = np.sort((devices << 32) + pods - NOWHERE)
        now = now[np.diff(now, prepend=-1) > 0]  # np.unique takes ten times as long
        chosen = np.zeros(int(max(slots.max(initial=0), (self._pairs >> 32).max(initial=0))) + 1, np.bool_)
        chosen[slots] = True
        read = chosen[self._pairs >> 32]
        different = np.setxor1d(self._pairs[read], now, assume_unique=True) >> 32
        self._pairs = np.concatenate([self._pairs[~read], now])
        return different[np.diff(different, prepend=-1) > 0]


class JobDetectors(NamedTuple):
    """For pods, and for devices whose pods are not measured."""

    stuck: StuckJobDetector
    leak: LeakDetector


class Trends:
    """Call `update` after each recorded minute. It runs in the event loop, and yields every few
    milliseconds."""

    def __init__(self, history: FleetHistory) -> None:
        self._history = history
        self._of_pods = JobDetectors(StuckJobDetector(), LeakDetector())
        self._of_devices = JobDetectors(StuckJobDetector(), LeakDetector())
        self._memory_errors, self._overheating = MemoryErrorDetector(), OverheatingDetector()
        self._throttling, self._low_power = ThrottlingDetector(), LowPowerDetector()
        self._pods = AnomalyMarks(history.pods, self._of_pods)
        # In the order of their texts.
        self._devices = AnomalyMarks(
            history.devices,
            (
                self._memory_errors,
                self._overheating,
                self._throttling,
                self._low_power,
                *self._of_devices,
            ),
        )
        self._mean_power = MeanPower()
        self._thermal = ThermalModel()
        self._placement = PodPlacement()
        self._updates = 0
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
        """Returns, by slot, which pods ever reported utilisation."""
        rings = self._history.pods
        readings = read_pods(store)
        slots = await readings.rows.slots(rings.find)
        self._pods.begin_minute()
        here = slots != NOWHERE
        by_slot = _SlotArray(len(rings.lives), slots[here])
        values = dict(zip(POD_FIELDS, _last_minute(rings), strict=True))
        minute = JobMinute(
            utilization=values["utilization_ratio"],
            memory=values["memory_used_bytes"],
            capacity=by_slot.put(readings.capacity[here]),
            idle_minutes=by_slot.put(readings.idle_minutes[here]),
        )
        await self._check_jobs(self._pods, self._of_pods, minute)
        return self._of_pods.stuck.ever_busy | (minute.utilization >= 0)

    async def _check_jobs(
        self, marks: AnomalyMarks, detectors: JobDetectors, values: JobMinute, judged: Mask | None = None
    ) -> None:
        stuck, leak = detectors
        minute = self._history.devices.last
        assert minute is not None
        for detector, result in (
            (stuck, stuck.find(values, marks.active(stuck))),
            (leak, leak.find(minute, values)),
        ):
            await asyncio.sleep(0)
            marks.record(detector, result if judged is None else result.only(judged))

    async def _check_devices(self, store: FleetStore, measured_pods: Mask) -> None:
        rings, thermal = self._history.devices, self._thermal
        minute = rings.last
        assert minute is not None
        readings = read_devices(store)
        slots = await readings.rows.slots(rings.find)
        pod_slots = await readings.pods.slots(self._history.pods.find)
        of_measured_pods = readings.with_pods((pod_slots != NOWHERE) & _at(measured_pods, pod_slots))
        await self._begin_devices(minute)
        here = np.flatnonzero(slots != NOWHERE)
        by_slot = _SlotArray(len(rings.lives), slots[here])
        values = dict(zip(DEVICE_FIELDS, _last_minute(rings), strict=True))
        self._place_pods(slots, readings.pod_device, pod_slots)

        sampled = values["power_watts"][slots[here]].astype(np.float64)
        mean_power = by_slot.put(
            self._mean_power.take(slots[here], readings.energy[here], readings.taken_at[here], sampled)
        )
        temperature = values["temperature_celsius"]
        thermal.take(slots[here], mean_power[slots[here]], temperature[slots[here]])
        await self._check_temperature(slots[here], readings.node[here], temperature)
        await self._check_power(slots, readings, pod_slots, mean_power, values["utilization_ratio"])

        throttled = by_slot.put(readings.throttled[here])
        active = self._devices.active(self._throttling)
        self._devices.record(self._throttling, self._throttling.find(throttled, temperature, active))
        await asyncio.sleep(0)
        errors = by_slot.put(readings.ecc_uncorrected[here])
        found = self._memory_errors.find(minute, ~np.isnan(throttled), errors.astype(np.float64))
        self._devices.record(self._memory_errors, found)
        await asyncio.sleep(0)
        job = JobMinute(
            utilization=values["utilization_ratio"],
            memory=values["memory_used_bytes"],
            capacity=by_slot.put(readings.capacity[here]),
            idle_minutes=np.full(len(rings.lives), np.nan, np.float32),
        )
        unmeasured = ~(by_slot.put(of_measured_pods[here]) > 0)
        await self._check_jobs(self._devices, self._of_devices, job, unmeasured)

    async def _begin_devices(self, minute: int) -> None:
        rings, thermal = self._history.devices, self._thermal
        reused = self._devices.begin_minute()
        await asyncio.sleep(0)
        self._mean_power.grow_to(len(rings.lives))
        self._mean_power.reset(reused)
        thermal.grow_to(len(rings.lives))
        thermal.reset(reused)
        self._placement.reset(reused)
        await asyncio.sleep(0)
        thermal.begin(minute)
        self._updates += 1
        if self._updates == _FILLED_AT:
            await self._fill_thermal(minute)

    async def _fill_thermal(self, minute: int) -> None:
        """History of before the start comes from a file or from stores."""
        rings = self._history.devices
        power, temperature = map(DEVICE_FIELDS.index, ("power_watts", "temperature_celsius"))
        places = rings.places(minute - rings.length + 1, minute)
        for number, page in enumerate(rings.pages):
            await asyncio.sleep(0)
            filled = slice(number * rings.page_slots, (number + 1) * rings.page_slots)
            self._thermal.fill(filled, page[places, power].T, page[places, temperature].T)

    def _place_pods(self, slots: Slots, pod_device: Slots, pod_slots: Slots) -> None:
        """Past minutes of a device do not count for the jobs of other pods."""
        devices = slots[pod_device]
        placed = devices != NOWHERE
        changed = self._placement.changed(slots[slots != NOWHERE], devices[placed], pod_slots[placed])
        for detector in (self._low_power, *self._of_devices):
            detector.reset(changed)

    async def _check_temperature(
        self, slots: Slots, nodes: npt.NDArray[np.int64], temperature: Numbers
    ) -> None:
        frozen = self._devices.active(self._overheating)
        lines = _slots_of(lines_of(nodes), slots)
        await asyncio.sleep(0)
        due = lines[self._thermal.due(lines, frozen)]
        for start in range(0, len(due), _NODES_FITTED_AT_ONCE):
            await asyncio.sleep(0)
            self._thermal.fit(due[start : start + _NODES_FITTED_AT_ONCE], frozen)
        excess = np.full(len(temperature), np.nan, np.float32)
        for start in range(0, len(lines), _LINES_AT_ONCE):
            await asyncio.sleep(0)
            part = lines[start : start + _LINES_AT_ONCE]
            excess[part[part >= 0]] = self._thermal.excess(part)[part >= 0]
        await asyncio.sleep(0)
        ended = self._devices.record(
            self._overheating, self._overheating.find(temperature, excess, self._thermal.spread, frozen)
        )
        self._overheating.reset(ended)
        self._thermal.forget_fit(ended)
        await asyncio.sleep(0)

    async def _check_power(
        self, slots: Slots, readings: DeviceReadings, pod_slots: Slots, power: Numbers, utilization: Numbers
    ) -> None:
        alone = np.bincount(readings.pod_device, minlength=len(slots))[readings.pod_device] == 1
        devices = slots[readings.pod_device]
        here = np.flatnonzero(alone & (devices != NOWHERE) & (pod_slots != NOWHERE))
        lines = _slots_of(lines_of(pod_slots[here]), devices[here])
        others = np.full(len(power), np.nan, np.float32)
        for start in range(0, len(lines), _LINES_AT_ONCE):
            await asyncio.sleep(0)
            part = lines[start : start + _LINES_AT_ONCE]
            present = part >= 0
            found = self._low_power.power_of_others(
                np.where(present, power[part], np.nan), np.where(present, utilization[part], np.nan)
            )
            others[part[present]] = found[present]
        await asyncio.sleep(0)
        active = self._devices.active(self._low_power)
        ended = self._devices.record(self._low_power, self._low_power.find(power, others, active))
        self._low_power.reset(ended)
        await asyncio.sleep(0)

    def _log_unmarked(self) -> None:
        unmarked = self._devices.unmarked + self._pods.unmarked
        if unmarked and not self._over_limit:
            log.warning("too many anomalies at once; some are not marked", extra=fields(unmarked=unmarked))
        self._over_limit = bool(unmarked)


def _at(by_slot: Mask, slots: Slots) -> Mask:
    return by_slot[slots] if len(by_slot) else np.zeros(len(slots), np.bool_)


def _slots_of(lines: Slots, slots: Slots) -> Slots:
    """Lines of rows as lines of their slots, padded with -1."""
    return np.where(lines >= 0, slots[lines], NOWHERE) if len(slots) else lines


def _last_minute(rings: Rings) -> npt.NDArray[np.float32]:
    """Fields x slots."""
    assert rings.last is not None
    place = rings.last % rings.length
    if not rings.pages:
        return np.empty((len(rings.fields), 0), np.float32)
    return np.concatenate([page[place] for page in rings.pages], axis=1)


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
