"""The recent history: sums of the last day, and each device and pod of the last hour, by the minute.

Sums are stored by cluster, vendor and model, and by cluster and namespace. Queries add them up, so that a
user with access to two clusters of ten gets the history of those two. Stale devices and pods are not
recorded, so that history has a gap while nothing is read.
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
from accelscope.fleet.history_rings import (
    DEVICE_FIELDS,
    MINUTE,
    NOWHERE,
    POD_FIELDS,
    SUMMARY_FIELDS,
    HistorySeries,
    Key,
    Rings,
    Slots,
    StateFile,
    SummaryScope,
)
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.node_rows import FRESH, UNHEALTHY
from accelscope.fleet.store.query import Positions
from accelscope.fleet.store.summary import Groups, Values, group_rows, number_runs
from accelscope.fleet.store.table import ColumnTable

DEVICE_KEY = ("cluster", "node", "id")
POD_KEY = ("cluster", "namespace", "pod")
_ROWS_AT_ONCE = 2048  # looked up before other tasks may run: about two milliseconds

# Added up over clusters: a mean is stored as a sum and a count.
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
    """A copy of the keys of rows, which stays valid when the table changes."""

    codes: list[npt.NDArray[np.int32]]  # by field
    texts: list[list[str | None]]  # by field and code

    def __len__(self) -> int:
        return len(self.codes[0])

    async def slots(self, find: Callable[[Key], int]) -> Slots:
        """The slots by row. `find` is `Rings.slot` or `Rings.find`."""
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


def rows_at(table: ColumnTable[Any], positions: Positions, fields: Sequence[str]) -> Rows:
    return Rows(
        [table.column(field, positions) for field in fields],
        [list(table.texts(field).texts) for field in fields],
    )


@dataclass(frozen=True, slots=True)
class RowReadings:
    """Rows and their values: fields x rows."""

    rows: Rows
    values: Values


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Sums by key: fields x keys."""

    keys: list[Key]
    values: Values


def fresh_positions(table: ColumnTable[Any]) -> Positions:
    code = table.texts("state").code(FRESH)
    return np.flatnonzero(table.live() & (table.whole_column("state") == (-1 if code is None else code)))


def read_devices(store: FleetStore) -> RowReadings:
    here = fresh_positions(store.devices)
    values = np.stack([store.devices.column(field, here) for field in DEVICE_FIELDS])
    return RowReadings(rows_at(store.devices, here, DEVICE_KEY), values)


def read_pods(store: FleetStore) -> RowReadings:
    """A pod's utilisation is the mean over its devices of what its containers use of each."""
    table = store.pods
    here = fresh_positions(table)
    pods = number_runs(table.nodes(here), table.column("namespace", here), table.column("pod", here))
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
    return RowReadings(rows_at(table, here[first], POD_KEY), values)


def _devices_with(
    linked: npt.NDArray[np.int64], present: npt.NDArray[np.bool_], of_pod: Groups
) -> npt.NDArray[np.int64]:
    """The number of devices for which each pod has a value."""
    if not present.any():
        return np.zeros(of_pod.count, np.int64)
    pods, devices = of_pod.of[present], linked[present] + 1
    pairs, (pod_of, _) = group_rows((pods, devices), (of_pod.count, int(devices.max()) + 1), len(pods))
    assert pairs.count == len(pod_of)
    return np.bincount(pod_of, minlength=of_pod.count)


def sum_by_kind(store: FleetStore) -> GroupSums:
    """By cluster, vendor and model."""
    table = store.devices
    here = fresh_positions(table)
    fields = "cluster", "vendor", "model"
    codes = [table.column(field, here) for field in fields]
    texts = [table.texts(field).texts for field in fields]
    groups, values = group_rows(codes, [len(by_code) for by_code in texts], len(here))
    keys = _keys(values, texts)
    added = _added(
        store,
        groups,
        here,
        allocated=table.column("allocated", here) > 0,
        utilization=table.column("utilization_ratio", here),
        memory_used=table.column("memory_used_bytes", here),
    )
    return GroupSums(keys, added)


def sum_by_namespace(store: FleetStore) -> GroupSums:
    """By cluster and namespace. As in the store's summary, utilisation and used memory are those of the
    namespace, and a device of two namespaces counts in both."""
    table = store.pods
    here = fresh_positions(table)
    linked = table.linked(here, store.devices)
    here, linked = here[linked >= 0], linked[linked >= 0]
    spaces, by_space = table.column("namespace", here), table.texts("namespace").texts
    items, (devices, item_spaces) = group_rows(
        (linked, spaces), (int(linked.max(initial=0)) + 1, len(by_space)), len(here)
    )
    devices = devices.astype(np.intp)
    clusters, by_cluster = store.devices.column("cluster", devices), store.devices.texts("cluster").texts
    groups, values = group_rows((clusters, item_spaces), (len(by_cluster), len(by_space)), len(devices))

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
    return GroupSums(_keys(values, [by_cluster, by_space]), added)


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
    unhealthy_codes = [code for word in UNHEALTHY if (code := healths.code(word)) is not None]
    counted = groups.rows()
    memory_total = column("memory_total_bytes", devices)
    both = ~np.isnan(memory_used) & ~np.isnan(memory_total)  # both sums are over the same devices

    def summed(values: Values) -> Values:
        return np.where(groups.present(values) > 0, groups.sums(values), np.nan)

    return np.stack(
        [
            counted,
            groups.rows(np.isin(column("health", devices), unhealthy_codes)),
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

_ADDED_AT_ONCE = 100  # kinds or namespaces: about ten milliseconds if all are new
_SUMMARY_PAGE, _ROW_PAGE = 16, 4096  # slots
_DECIMALS = {"ratio": 4, "watts": 2, "celsius": 1}  # by unit
_KEY_OF: dict[str, int] = {"cluster": 0, "vendor": 1, "model": 2}  # index in the key of kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimits:
    """A kind (cluster, vendor, model) or a namespace takes 52 KB, a device 1 KB, a pod 0.5 KB."""

    kinds: int = 1000
    namespaces: int = 2000
    devices: int = 200_000
    pods: int = 200_000


class FleetHistory:
    """Call `record` once a minute. It runs in the event loop, and yields every few milliseconds."""

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
        self._state = StateFile(self._by_name)

    @property
    def dropped(self) -> dict[str, int]:
        """The number of keys without room in the last minute, by ring."""
        return {name: rings.dropped for name, rings in self._by_name.items() if rings.dropped}

    async def record(self, store: FleetStore, now: float) -> None:
        """Records the minute of `now`; a second call in the same minute replaces it."""
        minute = int(now // MINUTE)
        for rings in self._by_name.values():
            rings.begin(minute)
            rings.dropped = 0
        await _write_added(self.kinds, sum_by_kind(store))
        await _write_added(self.namespaces, sum_by_namespace(store))
        await _write_rows(self.devices, read_devices(store))
        await _write_rows(self.pods, read_pods(store))
        for rings in self._by_name.values():
            rings.recycle()
        self._log_full()

    def _log_full(self) -> None:
        for name, rings in self._by_name.items():
            if rings.dropped and name not in self._full:
                extra = fields(of=name, limit=rings.limit, left_out=rings.dropped)
                log.warning("history is full; charts and sums are incomplete", extra=extra)
                self._full.add(name)
            elif not rings.dropped:
                self._full.discard(name)

    def summary(
        self,
        scope: SummaryScope,
        key: str | None,
        since: float,
        until: float,
        *,
        clusters: Collection[str] | None = None,
    ) -> HistorySeries:
        """The sum over these clusters; None: over all."""
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
        """Yields cluster and slot."""
        rings = self.namespaces if scope == "namespace" else self.kinds
        place = 1 if scope == "namespace" else _KEY_OF.get(scope)
        for parts, slot in rings.entries():
            if (clusters is None or parts[0] in clusters) and (place is None or parts[place] == key):
                yield str(parts[0]), slot

    def clusters_of(
        self, scope: SummaryScope, key: str | None, *, clusters: Collection[str] | None = None
    ) -> set[str]:
        """The clusters that contribute to `summary`."""
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
        """Fills gaps of known devices with series of a store. Call it after the first minute was recorded."""
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

    async def save(self, path: Path) -> None:
        """Errors of the disk are logged once, not raised."""
        await self._state.save(path)

    def load(self, path: Path) -> None:
        """Loads a saved history, if there is one. Blocks; call it at the start. An unreadable file is renamed
        and logged. The time since it was saved is a gap."""
        self._state.load(path)


async def _write_added(rings: Rings, added: GroupSums) -> None:
    slots = np.empty(len(added.keys), np.intp)
    for place, key in enumerate(added.keys):
        if place % _ADDED_AT_ONCE == 0:
            await asyncio.sleep(0)
        slots[place] = rings.slot(key)
    rings.dropped += int(np.count_nonzero(slots == NOWHERE))
    rings.write(slots, added.values)
    await asyncio.sleep(0)


async def _write_rows(rings: Rings, read: RowReadings) -> None:
    slots = await read.rows.slots(rings.slot)
    rings.dropped += int(np.count_nonzero(slots == NOWHERE))
    await asyncio.sleep(0)
    rings.write(slots, read.values)
    await asyncio.sleep(0)


def _sum_of(rings: Rings, slots: Iterable[int], first: int, end: int) -> npt.NDArray[np.float64]:
    """Fields x minutes. NaN is omitted from sums; a sum of NaN only is NaN."""
    total = np.zeros((len(ADDED_FIELDS), end - first))
    known = np.zeros(total.shape, np.bool_)
    temperature_index = ADDED_FIELDS.index("temperature_max_celsius")
    hottest = np.full(end - first, np.nan)
    for slot in slots:
        values = rings.read(slot, first, end)
        hottest = np.fmax(hottest, values[temperature_index])
        here = ~np.isnan(values)
        known |= here
        total += np.where(here, values, 0.0)
    total[~known] = np.nan
    total[temperature_index] = hottest
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
    """Rounds, because single precision would show as a tail of digits."""
    rounded = np.round(values.astype(np.float64), _DECIMALS.get(field.rpartition("_")[2], 0))
    return [None if isnan(value) else value for value in rounded.tolist()]
