"""The recent past: a day by the minute of sums, an hour by the minute of each device and pod.

Sums are kept by cluster, vendor and model, and by cluster and namespace. What is asked for is added up from
them, so that somebody who may see two clusters of ten gets the past of those two.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accelscope.config.log import fields
from accelscope.fleet.history import state_file
from accelscope.fleet.history.rings import (
    DEVICE_FIELDS,
    MINUTE,
    NOWHERE,
    POD_FIELDS,
    SUMMARY_FIELDS,
    HistorySeries,
    Key,
    Rings,
    Slots,
    SummaryScope,
)
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.node_rows import FRESH, UNHEALTHY
from accelscope.fleet.store.query import Positions
from accelscope.fleet.store.summary import Groups, Values, grouped, runs
from accelscope.fleet.store.table import Table

# --- minute ------------------------------------------------------------
# What is recorded of a minute: the last readings of what is fresh.
#
# Stale devices and pods are left out, so that the past has a gap where nothing was known, and not a line.


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


log = logging.getLogger(__name__)

SUMMARY_MINUTES = 24 * 60
ROW_MINUTES = 60

_ADDED_AT_ONCE = 100  # kinds or namespaces: where all are new, some ten milliseconds
_SUMMARY_PAGE, _ROW_PAGE = 16, 4096  # slots
_DECIMALS = {"ratio": 4, "watts": 2, "celsius": 1}  # by unit
_KEY_OF: dict[str, int] = {"cluster": 0, "vendor": 1, "model": 2}  # place in the key of kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimits:
    """How many are remembered, at most: a kind (cluster, vendor, model) or a namespace takes 52 KB, a device
    1 KB, a pod half of that."""

    kinds: int = 1000
    namespaces: int = 2000
    devices: int = 200_000
    pods: int = 200_000


class History:
    """`record` once a minute; everything runs in one event loop, and gives way to others every few
    milliseconds."""

    def __init__(self, limits: HistoryLimits | None = None) -> None:
        limits = HistoryLimits() if limits is None else limits
        self.kinds = Rings(ADDED_FIELDS, SUMMARY_MINUTES, limit=limits.kinds, page_slots=_SUMMARY_PAGE)
        self.namespaces = Rings(
            ADDED_FIELDS, SUMMARY_MINUTES, limit=limits.namespaces, page_slots=_SUMMARY_PAGE
        )
        self.devices = Rings(DEVICE_FIELDS, ROW_MINUTES, limit=limits.devices, page_slots=_ROW_PAGE)
        self.pods = Rings(POD_FIELDS, ROW_MINUTES, limit=limits.pods, page_slots=_ROW_PAGE)
        self._by_name = {
            "kinds": self.kinds,
            "namespaces": self.namespaces,
            "devices": self.devices,
            "pods": self.pods,
        }
        self._full: set[str] = set()
        self._state = state_file.StateFile(self._by_name)

    @property
    def refused(self) -> dict[str, int]:
        """What had no room in the last minute, by what it is."""
        return {name: rings.refused for name, rings in self._by_name.items() if rings.refused}

    async def record(self, store: FleetStore, now: float) -> None:
        """The minute of `now`; a second time within it, anew."""
        minute = int(now // MINUTE)
        for rings in self._by_name.values():
            rings.begin(minute)
            rings.refused = 0
        await _write_added(self.kinds, kinds_added(store))
        await _write_added(self.namespaces, namespaces_added(store))
        await _write_rows(self.devices, devices_read(store))
        await _write_rows(self.pods, pods_read(store))
        for rings in self._by_name.values():
            rings.recycle()
        self._say_full()

    def _say_full(self) -> None:
        for name, rings in self._by_name.items():
            if rings.refused and name not in self._full:
                said = fields(of=name, limit=rings.limit, left_out=rings.refused)
                log.warning("history has no room for all of them; charts and sums leave some out", extra=said)
                self._full.add(name)
            elif not rings.refused:
                self._full.discard(name)

    # Questions

    def summary(
        self,
        scope: SummaryScope,
        key: str | None,
        since: float,
        until: float,
        *,
        clusters: Collection[str] | None = None,
    ) -> HistorySeries:
        """Of these clusters only; None: of all."""
        rings = self.namespaces if scope == "namespace" else self.kinds
        first, end = rings.span(since, until)
        slots = (slot for _, slot in self._entries_of(scope, key, clusters))
        return HistorySeries(
            scope=scope,
            key=None if scope == "fleet" else key,
            start=first * MINUTE,
            step_seconds=MINUTE,
            fields=_summary_fields(_sum_of(rings, slots, first, end)),
            source="ring",
        )

    def _entries_of(
        self, scope: SummaryScope, key: str | None, clusters: Collection[str] | None
    ) -> Iterator[tuple[str, int]]:
        """Cluster and slot of each."""
        rings = self.namespaces if scope == "namespace" else self.kinds
        place = 1 if scope == "namespace" else _KEY_OF.get(scope)
        for parts, slot in rings.entries():
            if (clusters is None or parts[0] in clusters) and (place is None or parts[place] == key):
                yield str(parts[0]), slot

    def clusters_of(
        self, scope: SummaryScope, key: str | None, *, clusters: Collection[str] | None = None
    ) -> set[str]:
        """Those that `summary` is added up from."""
        return {cluster for cluster, _ in self._entries_of(scope, key, clusters)}

    def device(self, cluster: str, node: str, device_id: str, since: float, until: float) -> HistorySeries:
        start, values = _row(self.devices, (cluster, node, device_id), since, until)
        return HistorySeries(
            scope="device",
            key=device_id,
            cluster=cluster,
            node=node,
            start=start,
            step_seconds=MINUTE,
            fields=values,
            source="ring",
        )

    def pod(self, cluster: str, namespace: str, pod: str, since: float, until: float) -> HistorySeries:
        start, values = _row(self.pods, (cluster, namespace, pod), since, until)
        return HistorySeries(
            scope="pod",
            key=pod,
            cluster=cluster,
            namespace=namespace,
            start=start,
            step_seconds=MINUTE,
            fields=values,
            source="ring",
        )

    async def fill(self, known: Iterable[HistorySeries]) -> None:
        """Gaps of devices, from what a store remembers of them by the minute. Only devices that are here: it
        is of use after the first minute was recorded."""
        for number, series in enumerate(known):
            if number % 256 == 255:
                await asyncio.sleep(0)
            slot = self.devices.find((series.cluster, series.node, series.key))
            if series.scope == "device" and slot != NOWHERE and series.step_seconds == MINUTE:
                values = [series.fields.get(field, []) for field in DEVICE_FIELDS]
                filled = np.full((len(DEVICE_FIELDS), max(map(len, values))), np.nan, np.float32)
                for row, column in zip(filled, values, strict=True):
                    row[: len(column)] = [np.nan if value is None else value for value in column]
                self.devices.fill(np.array([slot]), int(series.start // MINUTE), filled.T[:, :, None])

    # Over a restart

    async def save(self, path: Path) -> None:
        """Never raises for what the disk does: that is said, once."""
        await self._state.save(path)

    def load(self, path: Path) -> None:
        """What was saved there, if anything; what cannot be read is put aside and said. Blocks, and is for
        the start. The time since then is a gap."""
        self._state.load(path)


async def _write_added(rings: Rings, added: Added) -> None:
    slots = np.empty(len(added.keys), np.intp)
    for place, key in enumerate(added.keys):
        if place % _ADDED_AT_ONCE == 0:
            await asyncio.sleep(0)
        slots[place] = rings.slot(key)
    rings.refused += int(np.count_nonzero(slots == NOWHERE))
    rings.write(slots, added.values)
    await asyncio.sleep(0)


async def _write_rows(rings: Rings, read: Read) -> None:
    slots = await read.rows.slots(rings.slot)
    rings.refused += int(np.count_nonzero(slots == NOWHERE))
    await asyncio.sleep(0)
    rings.write(slots, read.values)
    await asyncio.sleep(0)


def _sum_of(rings: Rings, slots: Iterable[int], first: int, end: int) -> npt.NDArray[np.float64]:
    """Fields x minutes. What is absent is left out; where all is, there is nothing."""
    total = np.zeros((len(ADDED_FIELDS), end - first))
    known = np.zeros(total.shape, np.bool_)
    heat = ADDED_FIELDS.index("temperature_max_celsius")
    hottest = np.full(end - first, np.nan)
    for slot in slots:
        values = rings.read(slot, first, end)
        hottest = np.fmax(hottest, values[heat])
        here = ~np.isnan(values)
        known |= here
        total += np.where(here, values, 0.0)
    total[~known] = np.nan
    total[heat] = hottest
    return total


def _summary_fields(total: npt.NDArray[np.float64]) -> dict[str, list[float | None]]:
    by_name = dict(zip(ADDED_FIELDS, total, strict=True))
    count = by_name["utilization_count"]
    by_name["utilization_ratio"] = np.where(
        count > 0, by_name["utilization_sum"] / np.maximum(count, 1), np.nan
    )
    return {name: _plain(name, by_name[name]) for name in SUMMARY_FIELDS}


def _row(
    rings: Rings, key: tuple[str, ...], since: float, until: float
) -> tuple[float, dict[str, list[float | None]]]:
    first, end = rings.span(since, until)
    slot = rings.find(key)
    if slot == NOWHERE:
        values = np.full((len(rings.fields), end - first), np.nan, np.float32)
    else:
        values = rings.read(slot, first, end)
    return first * MINUTE, {name: _plain(name, row) for name, row in zip(rings.fields, values, strict=True)}


def _plain(field: str, values: npt.NDArray[np.floating]) -> list[float | None]:
    """Rounded to what was worth keeping: without that, single precision shows as a tail of digits."""
    rounded = np.round(values.astype(np.float64), _DECIMALS.get(field.rpartition("_")[2], 0))
    return [None if isnan(value) else value for value in rounded.tolist()]
