"""The recent past: a day by the minute of sums, an hour by the minute of each device and pod.

Sums are kept by cluster, vendor and model, and by cluster and namespace. What is asked for is added up from
them, so that somebody who may see two clusters of ten gets the past of those two.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accelscope.config.log import fields
from accelscope.fleet.history import minute as minutes
from accelscope.fleet.history import state_file
from accelscope.fleet.history.minute import ADDED_FIELDS, Added, Read
from accelscope.fleet.history.rings import NOWHERE, Rings
from accelscope.fleet.history.series import (
    DEVICE_FIELDS,
    MINUTE,
    POD_FIELDS,
    SUMMARY_FIELDS,
    HistorySeries,
    SummaryScope,
)
from accelscope.fleet.store.fleet_store import FleetStore

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
        await _write_added(self.kinds, minutes.kinds_added(store))
        await _write_added(self.namespaces, minutes.namespaces_added(store))
        await _write_rows(self.devices, minutes.devices_read(store))
        await _write_rows(self.pods, minutes.pods_read(store))
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
