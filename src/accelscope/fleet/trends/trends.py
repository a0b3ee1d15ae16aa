"""Out of habit: each minute, every device and pod is held against its own last hour."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from accelscope.config.log import fields
from accelscope.fleet.history import History
from accelscope.fleet.history.rings import NOWHERE, Key, Rings, Slots
from accelscope.fleet.history.series import DEVICE_FIELDS, POD_FIELDS
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.trends.device_past import DevicePast
from accelscope.fleet.trends.marks import Marks
from accelscope.fleet.trends.neighbours import neighbours_heat
from accelscope.fleet.trends.oddities import (
    Creep,
    Errors,
    Hot,
    HotterThanNeighbours,
    MemoryErrors,
    Oddity,
    OfUnknownPods,
    Stuck,
    Throttled,
    Weak,
    like_power,
)
from accelscope.fleet.trends.present import PresentDevices, present_devices, present_pods
from accelscope.fleet.trends.usual import Mask, Numbers, Window
from accelscope.fleet.trends.window import DeviceWindow, JobWindow

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
        beside = await _beside(present)
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


async def _beside(present: PresentDevices) -> Numbers:
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
