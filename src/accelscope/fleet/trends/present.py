"""What detectors need to know of this minute beside what history keeps: read from the store at once, and then
at leisure put in terms of slots."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accelscope.fleet.history.minute import DEVICE_KEY, POD_KEY, Rows, fresh, rows_at
from accelscope.fleet.history.rings import Slots
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.grouping import Groups, Values, grouped, runs
from accelscope.fleet.store.query import Positions
from accelscope.fleet.store.table import Table
from accelscope.fleet.trends.usual import Mask
from accelscope.model import FAULT_THROTTLES

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
