"""Out of habit: each minute, every device and pod is held against its own last hour."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from accelscope.config.log import fields
from accelscope.fleet.history import History
from accelscope.fleet.history.history import DEVICE_KEY, POD_KEY, Rows, fresh, rows_at
from accelscope.fleet.history.rings import DEVICE_FIELDS, NOWHERE, POD_FIELDS, Key, Rings, Slots
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.query import Positions
from accelscope.fleet.store.summary import Groups, Values, grouped, runs
from accelscope.fleet.store.table import Table
from accelscope.fleet.trends.detectors import (
    ERROR_MINUTES,
    JUDGED_MINUTES,
    LEAST_MINUTES,
    Creep,
    DeviceWindow,
    Errors,
    Hot,
    HotterThanNeighbours,
    JobWindow,
    Mask,
    MemoryErrors,
    Numbers,
    Oddity,
    OfUnknownPods,
    Stuck,
    Throttled,
    Watch,
    Weak,
    Window,
    like_power,
    longer,
    usual,
)
from accelscope.model import FAULT_THROTTLES

# --- marks ------------------------------------------------------------
# Who is out of habit now, and why.


NAMED_LIMIT = 500  # if more are odd at once, it is the fleet that changed

W = TypeVar("W")


class Marks(Generic[W]):
    """Of the slots of `rings`. Reasons stay as they were said when each began, so that those who follow are
    not told of every degree."""

    def __init__(self, rings: Rings, oddities: Sequence[Oddity[W]], limit: int = NAMED_LIMIT) -> None:
        self._rings = rings
        self._watches = [(oddity, Watch(oddity.patience)) for oddity in oddities]
        self._limit = limit
        self._lives = np.zeros(0, np.int64)  # by slot, when it was last looked at
        self._reasons: dict[int, dict[int, str]] = {}  # by slot and place of the oddity
        self._marked: dict[int, Key | None] = {}  # by slot: whose the reasons are, also when it has lost it
        self._ended: set[Key] = set()
        self.unnamed = 0

    @property
    def named(self) -> int:
        return min(len(self._reasons), self._limit)

    def begin(self) -> Slots:
        """Of a minute. Slots that were given to others since the last one: what was known of them is
        forgotten. So is what was said of those whose slot was taken back."""
        before, self._lives = self._lives, self._rings.lives.copy()
        others = np.flatnonzero(before != self._lives[: len(before)])
        free = [slot for slot in self._reasons if self._rings.keys[slot] is None]
        for _, watch in self._watches:
            watch.reach(len(self._lives))
            watch.reset(others)
            watch.reset(np.array(free, np.intp))
        for slot in self._reasons.keys() & {*others.tolist(), *free}:
            self._forget(slot)
        return others

    def judge(self, here: slice, window: W) -> None:
        for place, (oddity, watch) in enumerate(self._watches):
            began, ended = watch.step(here, oddity.find(window, watch.held(here)))
            for slot in began.tolist():
                self._reasons.setdefault(slot, {})[place] = oddity.text(watch, slot)
                self._marked[slot] = self._rings.keys[slot]
            for slot in ended.tolist():
                self._end(slot, place)

    def _end(self, slot: int, place: int) -> None:
        reasons = self._reasons[slot]
        del reasons[place]
        if not reasons:
            self._forget(slot)

    def _forget(self, slot: int) -> None:
        del self._reasons[slot]
        key = self._marked.pop(slot)
        if key is not None:
            self._ended.add(key)

    def texts(self) -> Mapping[Key, str | None]:
        """All that are odd, and those that were until now, with None."""
        found: dict[Key, str | None] = dict.fromkeys(self._ended)
        self._ended = set()
        named = 0
        for slot, reasons in self._reasons.items():
            key = self._rings.keys[slot]
            if key is None:
                continue
            named += 1
            if named <= self._limit:
                found[key] = "; ".join(text for _, text in sorted(reasons.items()))
        self.unnamed = max(0, named - self._limit)
        return found


# --- neighbours ------------------------------------------------------------
# How warm the devices beside a device are: of the same model, on the same node, under a like load.


_MOST_BESIDE = 16  # of one model on one node: more are left out
_LEAST_BESIDE = 3
_GROUPS_AT_ONCE = 1000


async def neighbours_heat(
    groups: npt.NDArray[np.int64], heat: Numbers, load: Numbers, like: Numbers
) -> Numbers:
    """By row, the median of the others of its group whose `load` is within `like` of its own; NaN where they
    are too few."""
    found = np.full(len(groups), np.nan, np.float32)
    beside = _beside(groups)
    for start in range(0, len(beside), _GROUPS_AT_ONCE):
        await asyncio.sleep(0)
        rows = beside[start : start + _GROUPS_AT_ONCE]
        there = rows >= 0
        heats = np.where(there, heat[rows], np.nan).astype(np.float32)
        loads = np.where(there, load[rows], np.nan)
        alike = np.abs(loads[:, :, None] - loads[:, None, :]) <= like[rows][:, :, None]
        alike &= ~np.eye(rows.shape[1], dtype=np.bool_)
        others = np.broadcast_to(heats[:, None, :], alike.shape)
        width = rows.shape[1]
        seen = usual(others.reshape(-1, width), alike.reshape(-1, width))
        middle = np.where(seen.minutes >= _LEAST_BESIDE, seen.middle, np.nan)
        found[rows[there]] = middle.reshape(rows.shape)[there]
    return found


def _beside(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """A line for each group with its rows; -1 fills it up."""
    if not len(groups):
        return np.empty((0, 1), np.intp)
    order = np.argsort(groups, kind="stable")
    in_order = groups[order]
    first = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    sizes = np.diff(np.r_[first, len(order)])
    line = np.repeat(np.arange(len(first)), sizes)
    place = np.arange(len(order)) - np.repeat(first, sizes)
    width = int(min(sizes.max(), _MOST_BESIDE))
    beside = np.full((len(first), width), -1, np.intp)
    fits = place < width
    beside[line[fits], place[fits]] = order[fits]
    return beside


# --- present ------------------------------------------------------------
# What detectors need to know of this minute beside what history keeps: read from the store at once, and then
# at leisure put in terms of slots.


_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio


@dataclass(frozen=True, slots=True)
class PresentDevices:
    """By row."""

    rows: Rows
    alike: npt.NDArray[np.int64]  # the same number: the same model on the same node
    heat: Values
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

    def pod_sets(self, pod_slots: Slots) -> npt.NDArray[np.uint64]:
        """Which pods are on each device, as a number that is 0 for none; `pod_slots` are of `pods`. It is a
        hash: once in 2**64 cases a change of the pods is not noticed."""
        mixed = (pod_slots + 2).astype(np.uint64) * _SPREAD
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _SPREAD
        together = np.zeros(len(self.rows), np.uint64)
        np.add.at(together, self.pod_device, mixed)
        return together

    def with_pods(self, such: Mask) -> Mask:
        """Devices that have one of `such` pods; by row of `pods`."""
        found = np.zeros(len(self.rows), np.bool_)
        found[self.pod_device[such]] = True
        return found


def present_devices(store: FleetStore) -> PresentDevices:
    table = store.devices
    here = fresh(table)
    models = table.texts("model").texts
    pods, device = _pods_on(store, here)
    first = _firsts(store.pods, pods, device)  # a pod with two containers counts once
    pods, device = pods[first], device[first]
    return PresentDevices(
        rows=rows_at(table, here, DEVICE_KEY),
        alike=table.nodes(here).astype(np.int64) * len(models) + table.column("model", here),
        heat=table.column("temperature_celsius", here),
        power=table.column("power_watts", here),
        power_limit=table.column("power_limit_watts", here),
        energy=table.column("energy_joules", here),
        taken_at=table.column("taken_at", here),
        capacity=table.column("memory_total_bytes", here),
        ecc_uncorrected=table.column("ecc_uncorrected", here),
        errors=table.column("errors", here),
        throttled=_by_force(table)[table.column("throttled", here)],
        pods=rows_at(store.pods, pods, POD_KEY),
        pod_device=device,
    )


def _pods_on(store: FleetStore, devices: Positions) -> tuple[Positions, npt.NDArray[np.intp]]:
    """Positions of fresh pods' rows on these devices, and the place of each one's device among them."""
    pods = fresh(store.pods)
    linked = store.pods.linked(pods, store.devices)
    places = np.full(len(store.devices.whole_column("id")) + 1, -1, np.intp)  # the last one is NOWHERE's
    places[devices] = np.arange(len(devices))
    device = places[linked]
    return pods[device >= 0], device[device >= 0]


def _firsts(table: Table[Any], pods: Positions, device: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Of the rows of one pod on one device, the place of the first."""
    pod = _pod_runs(table, pods)
    sizes = int(pod.max(initial=0)) + 1, int(device.max(initial=0)) + 1
    pairs, _ = grouped((pod, device), sizes, len(pods))
    first = np.full(pairs.count, len(pods), np.intp)
    np.minimum.at(first, pairs.of, np.arange(len(pods)))
    return first


def _pod_runs(table: Table[Any], pods: Positions) -> npt.NDArray[np.int64]:
    """A node's rows of a pod are beside each other."""
    return runs(table.nodes(pods), table.column("namespace", pods), table.column("pod", pods))


def _by_force(table: Table[Any]) -> Mask:
    """By code of the column."""
    return np.array(
        [
            text is not None and not FAULT_THROTTLES.isdisjoint(text.split(","))
            for text in table.texts("throttled").texts
        ]
    )


@dataclass(frozen=True, slots=True)
class PresentPods:
    """By row, one for each pod."""

    rows: Rows
    capacity: Values  # bytes: its shares of devices, or those of whole devices
    idle_minutes: Values  # of what it did last; NaN: not known


def present_pods(store: FleetStore) -> PresentPods:
    table = store.pods
    everywhere = fresh(store.devices)
    here, device = _pods_on(store, everywhere)
    pods = _pod_runs(table, here)
    count = int(pods[-1]) + 1 if len(pods) else 0
    share = table.column("memory_share_bytes", here)
    whole = store.devices.column("memory_total_bytes", everywhere)[device]
    room = np.where(np.isnan(share), whole, share)
    items, (pod_of, _) = grouped((pods, device), (max(count, 1), len(everywhere) + 1), len(here))
    capacity = Groups(pod_of, count).sums(items.maxima(room))
    idle = -Groups(pods, count).maxima(-table.column("idle_seconds", here)) / 60
    first = np.flatnonzero(np.diff(pods, prepend=-1))
    return PresentPods(rows_at(table, here[first], POD_KEY), capacity, idle)


# --- device past ------------------------------------------------------------
# What of a device's past is not in the rings: errors, minutes under throttle, when its pods changed.
#
# All of it by slot, and begun anew when a slot is given to another device.


_HOUR = 60  # minutes
_LEAST_SECONDS = 10.0  # between two readings of a counter, for a rate that means something


class Rises:
    """By how much a counter rose in the last minutes. One that fell was set back, and begins anew."""

    def __init__(self) -> None:
        self._last = np.zeros(0)
        self._rises = np.zeros((ERROR_MINUTES, 0), np.float32)
        self._minute = 0

    def reach(self, slots: int) -> None:
        missing = slots - len(self._last)
        if missing > 0:
            self._last = np.concatenate([self._last, np.full(missing, np.nan)])
            self._rises = np.concatenate(
                [self._rises, np.zeros((ERROR_MINUTES, missing), np.float32)], axis=1
            )

    def reset(self, slots: Slots) -> None:
        self._last[slots] = np.nan
        self._rises[:, slots] = 0

    def begin(self, minute: int) -> None:
        for passed in range(max(self._minute + 1, minute - ERROR_MINUTES + 1), minute + 1):
            self._rises[passed % ERROR_MINUTES] = 0
        self._minute = minute

    def take(self, slots: Slots, counts: npt.NDArray[np.float64]) -> None:
        rise = counts - self._last[slots]
        self._rises[self._minute % ERROR_MINUTES, slots] = np.where(rise > 0, rise, 0)
        self._last[slots] = np.where(np.isnan(counts), self._last[slots], counts)

    def of(self, here: slice) -> Numbers:
        """NaN where the counter was never seen."""
        total = self._rises[:, here].sum(axis=0)
        return np.where(np.isnan(self._last[here]), np.nan, total).astype(np.float32)


class Drawn:
    """Mean power of each minute of the last hour, by the device's energy counter: what it drew at the moment
    that it was asked says little where the load comes in bursts. Where there is no counter, that is all there
    is."""

    def __init__(self) -> None:
        self._joules = np.zeros(0)
        self._taken_at = np.zeros(0)
        self._minute = 0
        # 0 is absence: memory that is not touched costs nothing.
        self._watts = np.zeros((_HOUR, 0), np.float32)

    def reach(self, slots: int) -> None:
        missing = slots - len(self._joules)
        if missing > 0:
            self._joules = np.concatenate([self._joules, np.full(missing, np.nan)])
            self._taken_at = np.concatenate([self._taken_at, np.full(missing, np.nan)])
            longer = np.zeros((_HOUR, slots), np.float32)
            longer[:, : self._watts.shape[1]] = self._watts
            self._watts = longer

    def reset(self, slots: Slots) -> None:
        self._joules[slots] = np.nan
        self._watts[:, slots] = 0

    def begin(self, minute: int) -> None:
        for passed in range(max((self._minute or minute) + 1, minute - _HOUR + 1), minute + 1):
            self._watts[passed % _HOUR] = 0
        self._minute = minute

    def take(self, slots: Slots, joules: npt.NDArray[np.float64], taken_at: npt.NDArray[np.float64]) -> None:
        seconds = taken_at - self._taken_at[slots]
        drawn = joules - self._joules[slots]
        told = (seconds >= _LEAST_SECONDS) & (drawn > 0)  # a counter that fell was set back
        watts = np.where(told, drawn / np.where(told, seconds, 1), 0)
        self._watts[self._minute % _HOUR, slots] = watts
        self._joules[slots] = joules
        self._taken_at[slots] = taken_at

    def of(self, here: slice, power: Window) -> Window:
        """`power`: as it was at the moments of asking."""
        places = np.arange(self._minute - _HOUR + 1, self._minute + 1) % _HOUR
        watts = self._watts[places, here].T
        return np.where(watts > 0, watts, power)


class DevicePast:
    def __init__(self) -> None:
        self.drawn = Drawn()
        self.memory_errors = Rises()
        self.errors = Rises()
        self._throttled = np.zeros(0, np.uint64)  # a bit for each minute, the newest lowest
        self._minutes = np.zeros(0, np.int32)  # that were seen of it
        self._pods = np.zeros(0, np.uint64)
        self._pods_since = np.zeros(0, np.int64)  # minute

    def reach(self, slots: int) -> None:
        self.drawn.reach(slots)
        self.memory_errors.reach(slots)
        self.errors.reach(slots)
        missing = slots - len(self._minutes)
        if missing > 0:
            for name in ("_throttled", "_minutes", "_pods", "_pods_since"):
                setattr(self, name, longer(getattr(self, name), missing))

    def reset(self, slots: Slots) -> None:
        self.drawn.reset(slots)
        self.memory_errors.reset(slots)
        self.errors.reset(slots)
        self._throttled[slots] = 0
        self._minutes[slots] = 0
        self._pods[slots] = 0

    def begin(self, minute: int) -> None:
        self.drawn.begin(minute)
        self.memory_errors.begin(minute)
        self.errors.begin(minute)

    def take_errors(
        self, slots: Slots, memory: npt.NDArray[np.float64], others: npt.NDArray[np.float64]
    ) -> None:
        """Of errors with a code, there are none where none is told: drivers list those that occurred."""
        self.memory_errors.take(slots, memory)
        self.errors.take(slots, np.nan_to_num(others))

    def take_throttled(self, slots: Slots, throttled: Mask) -> None:
        shifted = self._throttled[slots] << np.uint64(1)
        self._throttled[slots] = shifted | throttled.astype(np.uint64)
        self._minutes[slots] = np.minimum(self._minutes[slots] + 1, _HOUR)

    def take_pods(self, slots: Slots, pods: npt.NDArray[np.uint64], minute: int) -> None:
        changed = slots[self._pods[slots] != pods]
        self._pods[slots] = pods
        self._pods_since[changed] = minute

    def throttled_now(self, here: slice) -> Mask:
        return (self._throttled[here] & np.uint64(1)).astype(np.bool_)

    def throttled_before(self, here: slice) -> Numbers:
        """Share of the minutes before those that are judged; NaN where they are too few."""
        before = np.bitwise_count(self._throttled[here] >> np.uint64(JUDGED_MINUTES))
        minutes = self._minutes[here] - JUDGED_MINUTES
        share = before / np.maximum(minutes, 1)
        return np.where(minutes >= LEAST_MINUTES, share, np.nan).astype(np.float32)

    def same_pods(self, here: slice, minute: int) -> Numbers:
        since = minute - self._pods_since[here]
        return np.where(self._pods[here] == 0, np.nan, since).astype(np.float32)


log = logging.getLogger(__name__)

_SLOTS_AT_ONCE = 1024
_NAMED_AT_ONCE = 100

_OF_PODS: tuple[Oddity[JobWindow], ...] = (Stuck(), Creep())
# In the order in which they are said.
_OF_DEVICES: tuple[Oddity[DeviceWindow], ...] = (
    MemoryErrors(),
    Errors(),
    Hot(),
    HotterThanNeighbours(),
    Throttled(),
    Weak(),
    *(OfUnknownPods(job) for job in _OF_PODS),
)


class Trends:
    """`update` after each minute that was recorded. It runs in the event loop, and gives way to others every
    few milliseconds."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._devices = Marks(history.devices, _OF_DEVICES)
        self._pods = Marks(history.pods, _OF_PODS)
        self._past = DevicePast()
        self._crowded = False

    @property
    def unusual(self) -> dict[str, int]:
        """How many are marked now."""
        return {"device": self._devices.named, "pod": self._pods.named}

    async def update(self, store: FleetStore) -> None:
        """Marks in the store what is unusual now, and takes back what no longer is."""
        if self._history.devices.last is None:
            return
        await self._judge_devices(store, await self._judge_pods(store))
        await _mark(store, "device", self._devices.texts())
        await _mark(store, "pod", self._pods.texts())
        self._say_crowded()

    async def _judge_pods(self, store: FleetStore) -> Mask:
        """Also tells, by slot, of which pods the utilisation was told in the last hour."""
        rings = self._history.pods
        present = present_pods(store)
        slots = await present.rows.slots(rings.find)
        self._pods.begin()
        here = slots != NOWHERE
        by_slot = _Scattered(len(rings.lives), slots[here])
        capacity, idle = by_slot.put(present.capacity[here]), by_slot.put(present.idle_minutes[here])
        told = np.zeros(len(rings.lives), np.bool_)
        for part, hour in _hours(rings):
            await asyncio.sleep(0)
            values = dict(zip(POD_FIELDS, hour, strict=True))
            window = JobWindow(
                utilization=values["utilization_ratio"],
                memory=values["memory_used_bytes"],
                capacity=capacity[part],
                idle_minutes=idle[part],
            )
            told[part] = ~np.isnan(window.utilization).all(axis=1)
            self._pods.judge(part, window)
        return told

    async def _judge_devices(self, store: FleetStore, told: Mask) -> None:
        rings, past = self._history.devices, self._past
        minute = rings.last
        assert minute is not None
        present = present_devices(store)
        slots = await present.rows.slots(rings.find)
        pod_slots = await present.pods.slots(self._history.pods.find)
        beside = await _beside_trends(present)
        measured = present.with_pods((pod_slots != NOWHERE) & _at(told, pod_slots))
        others = self._devices.begin()
        await asyncio.sleep(0)
        past.reach(len(rings.lives))
        past.reset(others)
        await asyncio.sleep(0)
        here = slots != NOWHERE
        slots = slots[here]
        past.begin(minute)
        past.drawn.take(slots, present.energy[here], present.taken_at[here])
        past.take_errors(slots, present.ecc_uncorrected[here], present.errors[here])
        past.take_throttled(slots, present.throttled[here])
        past.take_pods(slots, present.pod_sets(pod_slots)[here], minute)
        by_slot = _Scattered(len(rings.lives), slots)
        limit, capacity = by_slot.put(present.power_limit[here]), by_slot.put(present.capacity[here])
        neighbours, own = by_slot.put(beside[here]), by_slot.put(measured[here])
        unknown = np.full(len(rings.lives), np.nan, np.float32)
        seen = np.zeros(len(rings.lives), np.bool_)
        seen[slots] = True
        for part, hour in _hours(rings):
            await asyncio.sleep(0)
            values = dict(zip(DEVICE_FIELDS, hour, strict=True))
            window = DeviceWindow(
                seen=seen[part],
                utilization=values["utilization_ratio"],
                memory=values["memory_used_bytes"],
                power=values["power_watts"],
                drawn=past.drawn.of(part, values["power_watts"]),
                heat=values["temperature_celsius"],
                capacity=capacity[part],
                idle_minutes=unknown[part],
                power_limit=limit[part],
                throttled=past.throttled_now(part),
                throttled_before=past.throttled_before(part),
                same_pods=past.same_pods(part, minute),
                measured_by_pods=own[part] == 1,
                memory_errors=past.memory_errors.of(part),
                errors=past.errors.of(part),
                neighbours_heat=neighbours[part],
            )
            self._devices.judge(part, window)

    def _say_crowded(self) -> None:
        unnamed = self._devices.unnamed + self._pods.unnamed
        if unnamed and not self._crowded:
            log.warning("so many are out of habit that not all are marked", extra=fields(unmarked=unnamed))
        self._crowded = bool(unnamed)


def _at(by_slot: Mask, slots: Slots) -> Mask:
    return by_slot[slots] if len(by_slot) else np.zeros(len(slots), np.bool_)


async def _beside_trends(present: PresentDevices) -> Numbers:
    heat, power = present.heat.astype(np.float32), present.power.astype(np.float32)
    like = like_power(present.power_limit, present.power).astype(np.float32)
    return await neighbours_heat(present.alike, heat, power, like)


async def _mark(store: FleetStore, kind: Literal["device", "pod"], texts: Mapping[Key, str | None]) -> None:
    items = [((str(key[0]), str(key[1]), str(key[2])), text) for key, text in texts.items()]
    for start in range(0, len(items), _NAMED_AT_ONCE):
        await asyncio.sleep(0)
        store.set_unusual(kind, dict(items[start : start + _NAMED_AT_ONCE]))


class _Scattered:
    """Values of rows by their slots; NaN elsewhere."""

    def __init__(self, length: int, slots: Slots) -> None:
        self._length = length
        self._slots = slots

    def put(self, values: npt.NDArray[Any]) -> Numbers:
        by_slot = np.full(self._length, np.nan, np.float32)
        by_slot[self._slots] = values
        return by_slot


def _hours(rings: Rings) -> Iterator[tuple[slice, list[Window]]]:
    """Slots in use, some at a time: their last hour by field."""
    assert rings.last is not None
    places = rings.places(rings.last - rings.length + 1, rings.last + 1)
    for number, page in enumerate(rings.pages):
        start = number * rings.page_slots
        for first in range(0, min(rings.page_slots, rings.slots - start), _SLOTS_AT_ONCE):
            end = min(first + _SLOTS_AT_ONCE, rings.slots - start)
            hour = page[places, :, first:end]
            windows = [np.ascontiguousarray(hour[:, field].T) for field in range(len(rings.fields))]
            yield slice(start + first, start + end), windows
