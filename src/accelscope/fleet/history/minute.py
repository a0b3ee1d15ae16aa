"""What is recorded of a minute: the last readings of what is fresh.

Stale devices and pods are left out, so that the past has a gap where nothing was known, and not a line.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accelscope.fleet.history.rings import Key, Slots
from accelscope.fleet.history.series import DEVICE_FIELDS
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.grouping import Groups, Values, grouped, runs
from accelscope.fleet.store.node_rows import FRESH, UNHEALTHY
from accelscope.fleet.store.query import Positions
from accelscope.fleet.store.table import Table

DEVICE_KEY = ("cluster", "node", "id")
POD_KEY = ("cluster", "namespace", "pod")
_ROWS_AT_ONCE = 2048  # whose slots are looked up before others may run: some two milliseconds

# What is added up over clusters: a mean is kept as a sum and how many there are in it.
ADDED_FIELDS = (
    "devices",
    "devices_unhealthy",
    "devices_allocated",
    "utilization_sum",
    "utilization_count",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "temperature_max_celsius",
)


@dataclass(frozen=True, slots=True)
class Rows:
    """The keys of a table's rows at a moment, which stay valid when the table changes."""

    codes: list[npt.NDArray[np.int32]]  # by field
    texts: list[list[str | None]]  # by field and code

    def __len__(self) -> int:
        return len(self.codes[0])

    async def slots(self, find: Callable[[Key], int]) -> Slots:
        """By row. `find` is `slot` or `find` of the rings."""
        found = np.empty(len(self), np.intp)
        for start in range(0, len(self), _ROWS_AT_ONCE):
            await asyncio.sleep(0)
            part = slice(start, start + _ROWS_AT_ONCE)
            columns = [
                [texts[code] for code in codes[part].tolist()]
                for codes, texts in zip(self.codes, self.texts, strict=True)
            ]
            found[part] = [find(key) for key in zip(*columns, strict=True)]
        return found


def rows_at(table: Table[Any], positions: Positions, fields: Sequence[str]) -> Rows:
    return Rows(
        [table.column(field, positions) for field in fields],
        [list(table.texts(field).texts) for field in fields],
    )


@dataclass(frozen=True, slots=True)
class Read:
    """Rows that have slots of their own, and their values: fields x rows."""

    rows: Rows
    values: Values


@dataclass(frozen=True, slots=True)
class Added:
    """Sums by key: fields x keys."""

    keys: list[Key]
    values: Values


def fresh(table: Table[Any]) -> Positions:
    code = table.texts("state").code(FRESH)
    return np.flatnonzero(table.live() & (table.whole_column("state") == (-1 if code is None else code)))


def devices_read(store: FleetStore) -> Read:
    here = fresh(store.devices)
    values = np.stack([store.devices.column(field, here) for field in DEVICE_FIELDS])
    return Read(rows_at(store.devices, here, DEVICE_KEY), values)


def pods_read(store: FleetStore) -> Read:
    """A pod's utilisation is the mean over its devices of what its containers use of each."""
    table = store.pods
    here = fresh(table)
    pods = runs(table.nodes(here), table.column("namespace", here), table.column("pod", here))
    count = int(pods[-1]) + 1 if len(pods) else 0
    of_pod = Groups(pods, count)
    first = np.flatnonzero(np.diff(pods, prepend=-1))
    used = table.column("utilization_ratio", here)
    memory = table.column("memory_used_bytes", here)
    devices = _devices_with(table.linked(here, store.devices), ~np.isnan(used), of_pod)
    values = np.stack(
        [
            np.where(devices > 0, of_pod.sums(used) / np.maximum(devices, 1), np.nan),
            np.where(of_pod.present(memory) > 0, of_pod.sums(memory), np.nan),
        ]
    )
    return Read(rows_at(table, here[first], POD_KEY), values)


def _devices_with(
    linked: npt.NDArray[np.int64], present: npt.NDArray[np.bool_], of_pod: Groups
) -> npt.NDArray[np.int64]:
    """How many devices each pod has a value of."""
    if not present.any():
        return np.zeros(of_pod.count, np.int64)
    pods, devices = of_pod.of[present], linked[present] + 1
    pairs, (pod_of, _) = grouped((pods, devices), (of_pod.count, int(devices.max()) + 1), len(pods))
    assert pairs.count == len(pod_of)
    return np.bincount(pod_of, minlength=of_pod.count)


def kinds_added(store: FleetStore) -> Added:
    """By cluster, vendor and model, from which those of the fleet and of each of these are made."""
    table = store.devices
    here = fresh(table)
    fields = "cluster", "vendor", "model"
    codes = [table.column(field, here) for field in fields]
    texts = [table.texts(field).texts for field in fields]
    groups, values = grouped(codes, [len(by_code) for by_code in texts], len(here))
    keys = _keys(values, texts)
    added = _added(
        store,
        groups,
        here,
        allocated=table.column("allocated", here) > 0,
        utilization=table.column("utilization_ratio", here),
        memory_used=table.column("memory_used_bytes", here),
    )
    return Added(keys, added)


def namespaces_added(store: FleetStore) -> Added:
    """By cluster and namespace: as the store's summary has it, utilisation and used memory are its own, and a
    device that two namespaces use counts in both."""
    table = store.pods
    here = fresh(table)
    linked = table.linked(here, store.devices)
    here, linked = here[linked >= 0], linked[linked >= 0]
    spaces, by_space = table.column("namespace", here), table.texts("namespace").texts
    items, (devices, item_spaces) = grouped(
        (linked, spaces), (int(linked.max(initial=0)) + 1, len(by_space)), len(here)
    )
    devices = devices.astype(np.intp)
    clusters, by_cluster = store.devices.column("cluster", devices), store.devices.texts("cluster").texts
    groups, values = grouped((clusters, item_spaces), (len(by_cluster), len(by_space)), len(devices))

    def own(field: str) -> Values:
        of_rows = table.column(field, here)
        return np.where(items.present(of_rows) > 0, items.sums(of_rows), np.nan)

    added = _added(
        store,
        groups,
        devices,
        allocated=items.rows(table.column("allocated", here) > 0) > 0,
        utilization=own("utilization_ratio"),
        memory_used=own("memory_used_bytes"),
    )
    return Added(_keys(values, [by_cluster, by_space]), added)


def _added(
    store: FleetStore,
    groups: Groups,
    devices: Positions,
    *,
    allocated: npt.NDArray[np.bool_],
    utilization: Values,
    memory_used: Values,
) -> Values:
    column, healths = store.devices.column, store.devices.texts("health")
    sick = [code for word in UNHEALTHY if (code := healths.code(word)) is not None]
    counted = groups.rows()
    memory_total = column("memory_total_bytes", devices)
    both = ~np.isnan(memory_used) & ~np.isnan(memory_total)  # so that one can be set beside the other

    def summed(values: Values) -> Values:
        return np.where(groups.present(values) > 0, groups.sums(values), np.nan)

    return np.stack(
        [
            counted,
            groups.rows(np.isin(column("health", devices), sick)),
            groups.rows(allocated),
            summed(utilization),
            groups.present(utilization),
            summed(np.where(both, memory_used, np.nan)),
            summed(np.where(both, memory_total, np.nan)),
            summed(column("power_watts", devices)),
            groups.maxima(column("temperature_celsius", devices)),
        ]
    ).astype(np.float64)


def _keys(values: npt.NDArray[np.int64], texts: list[Any]) -> list[Key]:
    columns = [
        [by_code[code] for code in codes] for by_code, codes in zip(texts, values.tolist(), strict=True)
    ]
    return list(zip(*columns, strict=True))
