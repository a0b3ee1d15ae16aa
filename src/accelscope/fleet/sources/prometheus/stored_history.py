"""History from Prometheus-compatible stores, which reaches further back than that of this process."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import ceil, floor

import msgspec

from accelscope.config.log import fields
from accelscope.fleet.clusters import ClusterEntry, PrometheusEntry
from accelscope.fleet.history_rings import MINUTE, SUMMARY_FIELDS, HistoryScope, HistorySeries
from accelscope.fleet.sources.prometheus import families
from accelscope.fleet.sources.prometheus.store import (
    TARGET_LABELS,
    PromqlStore,
    ScrapeTarget,
    TargetKey,
    decoded_matrix,
    equal,
    find_targets,
    max_by,
    one_of,
    parse_number,
    series,
    target_key,
)
from accelscope.fleet.sources.round import LoopThrottle
from accelscope.kube.endpoint import KubeError, Reason

DEVICE = (*TARGET_LABELS, "device")  # labels that identify a device
_ON_DEVICE = f"on ({', '.join(DEVICE)})"
_WORKLOAD = ("namespace", "pod", "container")
_USE = (*DEVICE, "partition", *_WORKLOAD, *(f"exported_{name}" for name in _WORKLOAD))
_UNHEALTHY = ("warning", "critical", "lost")

DEVICE_FIELDS = {
    "utilization_ratio": "accelerator_utilization_ratio",
    "memory_used_bytes": "accelerator_memory_used_bytes",
    "power_watts": "accelerator_power_watts",
    "temperature_celsius": "accelerator_temperature_celsius",
}


class HistoryQueries:
    """PromQL queries for the history of a cluster. `matchers` select its series."""

    def __init__(self, matchers: Sequence[str]) -> None:
        self._matchers = tuple(matchers)

    def of(
        self, scope: HistoryScope, key: str | None, node: str | None, namespace: str | None
    ) -> Mapping[str, str]:
        """Queries by field. A mean is queried as a sum and a count, so that clusters can be added up."""
        match scope:
            case "device":
                return self._device(key or "", node or "")
            case "pod":
                return self._pod(namespace or "", key or "")
            case "namespace":
                return self._namespace(key or "")
            case "vendor":
                return self._kind((equal("vendor", key or ""),), None)
            case "model":
                return self._kind((), max_by(self._series(families.INFO, equal("model", key or "")), DEVICE))
        return self._kind((), None)

    def devices(self, instances: Iterable[str]) -> Mapping[str, str]:
        """Queries by field, for all devices at these addresses."""
        there = one_of("instance", instances)
        return {field: max_by(self._series(name, there), DEVICE) for field, name in DEVICE_FIELDS.items()}

    def _kind(self, matchers: tuple[str, ...], chosen: str | None) -> dict[str, str]:
        """Queries for devices with these labels, or for those of `chosen`, an expression that is 1 for each
        device."""

        def of_devices(name: str, *more: str) -> str:
            found = max_by(self._series(name, *matchers, *more), DEVICE)
            return found if chosen is None else f"({found} * {_ON_DEVICE} {chosen})"

        devices = of_devices(families.INFO)
        return {
            **_summary(devices, of_devices),
            "devices_allocated": _or_none(of_devices(families.POD_ALLOCATED), devices),
            **_mean(of_devices("accelerator_utilization_ratio")),
            **_memory(
                of_devices("accelerator_memory_used_bytes"), of_devices("accelerator_memory_total_bytes")
            ),
        }

    def _namespace(self, namespace: str) -> dict[str, str]:
        """Utilisation and used memory are those of the namespace; all other fields are those of the devices
        that it uses or that are allocated to it."""

        def of_use(name: str) -> str:
            return max_by(self._workload(name, namespace), _USE)

        used = max_by(self._workload("accelerator_pod_processes", namespace), DEVICE)

        def of_devices(name: str, *more: str) -> str:
            return f"({max_by(self._series(name, *more), DEVICE)} and {_ON_DEVICE} {used})"

        allocated = max_by(self._workload(families.POD_ALLOCATED, namespace), DEVICE)
        return {
            **_summary(used, of_devices),
            "devices_allocated": _or_none(allocated, used),
            **_mean(_by_device(of_use("accelerator_pod_utilization_ratio"))),
            **_memory(
                of_use("accelerator_pod_memory_used_bytes"), of_devices("accelerator_memory_total_bytes")
            ),
        }

    def _device(self, device: str, node: str) -> dict[str, str]:
        this = equal("device", device)
        chosen = max_by(self._series(families.INFO, this, equal("node", node)), DEVICE)
        return {
            field: f"max({max_by(self._series(name, this), DEVICE)} * {_ON_DEVICE} {chosen})"
            for field, name in DEVICE_FIELDS.items()
        }

    def _pod(self, namespace: str, pod: str) -> dict[str, str]:
        def of_use(name: str) -> str:
            return max_by(self._workload(name, namespace, pod), _USE)

        return {
            "utilization_ratio": f"avg({_by_device(of_use('accelerator_pod_utilization_ratio'))})",
            "memory_used_bytes": f"sum({of_use('accelerator_pod_memory_used_bytes')})",
        }

    def _series(self, name: str, *matchers: str) -> str:
        return series((name,), *self._matchers, *matchers)

    def _workload(self, name: str, namespace: str, pod: str | None = None) -> str:
        """Series with the labels of a scrape with `honor_labels` or of one without."""
        wanted = {"namespace": namespace} if pod is None else {"namespace": namespace, "pod": pod}
        own = [matcher for label, value in wanted.items() for matcher in _direct_labels(label, value)]
        exported = [equal(f"exported_{label}", value) for label, value in wanted.items()]
        return f"{self._series(name, *own)} or {self._series(name, *exported)}"


def _direct_labels(label: str, value: str) -> tuple[str, str]:
    return equal(label, value), equal(f"exported_{label}", "")


def _summary(devices: str, of_devices: Callable[..., str]) -> dict[str, str]:
    return {
        "devices": f"count({devices})",
        "devices_unhealthy": f"sum({of_devices('accelerator_health', one_of('state', _UNHEALTHY))})",
        "power_watts": f"sum({of_devices('accelerator_power_watts')})",
        "temperature_max_celsius": f"max({of_devices('accelerator_temperature_celsius')})",
    }


def _memory(used: str, total: str) -> dict[str, str]:
    """Sums over devices that report both values, so that they can be compared."""
    return {
        "memory_used_bytes": f"sum({used} and {_ON_DEVICE} {total})",
        "memory_total_bytes": f"sum({total} and {_ON_DEVICE} {used})",
    }


def _mean(values: str) -> dict[str, str]:
    return {"utilization_sum": f"sum({values})", "utilization_count": f"count({values})"}


def _by_device(values: str) -> str:
    return f"sum by ({', '.join(DEVICE)}) ({values})"


def _or_none(counted: str, among: str) -> str:
    """A count that is 0, not absent, if there are devices but none of them counts."""
    return f"count({counted}) or 0 * count({among})"


log = logging.getLogger(__name__)

Values = list[float | None]

_MOST_POINTS = 1440  # of a series
_MOST_TARGETS = 1000  # for which the history of each device is read: 240 values per device and hour
_TARGETS_AT_ONCE = 50
# For all queries of one request, including the wait for a connection.
_ANSWER_SECONDS = 10.0
_DEVICES_SECONDS = 60.0  # for all devices of a cluster
_PAUSE_SECONDS = 30.0  # without queries after a failure
_REJECTED = (400, 422)  # invalid for this store, or more samples than its limit
_ACROSS_CLUSTERS = ("fleet", "vendor", "model", "namespace")


class TimeGrid:
    """Points in time, a whole number of minutes apart. Equal ranges give equal grids."""

    def __init__(self, since: float, until: float) -> None:
        minutes = max(1, ceil((until - since) / MINUTE / _MOST_POINTS))
        self.step = minutes * MINUTE
        self.start = ceil(since / self.step) * self.step
        self.points = max(0, floor((until - self.start) / self.step) + 1)

    @property
    def end(self) -> float:
        return self.start + (self.points - 1) * self.step

    def empty(self) -> Values:
        return [None] * self.points

    def align(self, values: Iterable[tuple[float, str]]) -> Values:
        aligned = self.empty()
        for at, text in values:
            place = round((at - self.start) / self.step)
            if 0 <= place < self.points:
                aligned[place] = parse_number(text)
        return aligned


class CircuitBreaker:
    """Pauses the queries of a store that failed; after the pause, one query tries again. Logs changes."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._failed = False
        self._rejected = False
        self._next_try = 0.0  # monotonic clock

    @property
    def is_open(self) -> bool:
        """Whether queries are paused."""
        return self._failed and time.monotonic() < self._next_try

    def record_attempt(self) -> None:
        self._next_try = time.monotonic() + _PAUSE_SECONDS

    def record_success(self) -> None:
        if self._failed:
            log.info("history queries work again", extra=fields(cluster=self._cluster))
        self._failed = False

    def record_failure(self, error: KubeError) -> None:
        details = fields(cluster=self._cluster, reason=error.reason.value, error=error.text)
        if error.reason is Reason.TOO_LARGE or error.status in _REJECTED:  # the next query may be accepted
            if not self._rejected:
                log.warning("the store rejected a history query", extra=details)
            self._rejected = True
            return
        if not self._failed:
            log.warning("history query failed", extra=details)
        self._failed = True
        self._next_try = time.monotonic() + _PAUSE_SECONDS


class ClusterHistory:
    """The history of one cluster in its store."""

    def __init__(self, cluster: str, entry: PrometheusEntry, *, loop_throttle: LoopThrottle) -> None:
        self.cluster = cluster
        self.entry = entry
        self._store = PromqlStore(entry)
        self._queries = HistoryQueries(self._store.matchers)
        self._loop_throttle = loop_throttle
        self._breaker = CircuitBreaker(cluster)

    @property
    def is_paused(self) -> bool:
        """Whether the store failed recently."""
        return self._breaker.is_open

    async def fields(
        self, scope: HistoryScope, key: str | None, node: str | None, namespace: str | None, grid: TimeGrid
    ) -> dict[str, Values] | None:
        """None: the store has no data, or does not respond in time."""
        if self.is_paused:
            return None
        self._breaker.record_attempt()
        queries = self._queries.of(scope, key, node, namespace)
        try:
            async with _within(_ANSWER_SECONDS):
                found = {field: await self._one(query, grid) for field, query in queries.items()}
        except KubeError as error:
            self._breaker.record_failure(error)
            return None
        self._breaker.record_success()
        return found

    async def devices(self, grid: TimeGrid) -> list[HistorySeries]:
        """The history of each device; empty if there are too many nodes. Raises KubeError."""
        async with _within(_DEVICES_SECONDS):
            return await self._all_devices(grid)

    async def _all_devices(self, grid: TimeGrid) -> list[HistorySeries]:
        found = await find_targets(self._store, self._loop_throttle)
        if len(found.targets) > _MOST_TARGETS:
            return []
        nodes = {target.key: target.node for target in found.targets}
        series: list[HistorySeries] = []
        for start in range(0, len(found.targets), _TARGETS_AT_ONCE):
            some = found.targets[start : start + _TARGETS_AT_ONCE]
            series += await self._of_targets(some, nodes, grid)
        return series

    async def close(self) -> None:
        await self._store.close()

    async def _of_targets(
        self, targets: Iterable[ScrapeTarget], nodes: Mapping[TargetKey, str], grid: TimeGrid
    ) -> list[HistorySeries]:
        by_device: dict[tuple[str, str], dict[str, Values]] = {}
        for field, query in self._queries.devices(target.key[1] for target in targets).items():
            found = await self._matrix(query, grid)
            async with self._loop_throttle.piece():
                for one in decoded_matrix(found):
                    node, device = nodes.get(target_key(one.metric)), one.metric.get("device")
                    if node is not None and device is not None:
                        by_device.setdefault((node, device), {})[field] = grid.align(one.values)
        return [
            HistorySeries(
                scope="device",
                key=device,
                cluster=self.cluster,
                node=node,
                start=grid.start,
                step_seconds=grid.step,
                fields={field: found.get(field) or grid.empty() for field in DEVICE_FIELDS},
                source="prometheus",
            )
            for (node, device), found in by_device.items()
        ]

    async def _one(self, query: str, grid: TimeGrid) -> Values:
        """The values of an expression with at most one series."""
        found = decoded_matrix((await self._matrix(query, grid))[:1])
        return grid.align(found[0].values) if found else grid.empty()

    async def _matrix(self, query: str, grid: TimeGrid) -> Sequence[msgspec.Raw]:
        return await self._store.matrix(query, start=grid.start, end=grid.end, step=grid.step)


class StoredHistory:
    """The history of all clusters that have a store (a `HistoryStore`)."""

    def __init__(self, *, loop_throttle: LoopThrottle) -> None:
        self._loop_throttle = loop_throttle
        self._clusters: dict[str, ClusterHistory] = {}
        self._without: frozenset[str] = frozenset()  # clusters without a store

    async def declare(self, entries: Iterable[ClusterEntry]) -> None:
        """`entries` is the whole list of clusters."""
        stores = {entry.id: entry.prometheus for entry in entries if entry.gpu != "false"}
        self._without = frozenset(cluster for cluster, store in stores.items() if store is None)
        for cluster, history in list(self._clusters.items()):
            if stores.get(cluster) != history.entry:
                del self._clusters[cluster]
                await history.close()
        for cluster, store in stores.items():
            if store is not None and cluster not in self._clusters:
                self._clusters[cluster] = ClusterHistory(cluster, store, loop_throttle=self._loop_throttle)

    async def close(self) -> None:
        await self.declare(())

    async def series(
        self,
        scope: HistoryScope,
        key: str | None,
        *,
        cluster: str | None = None,
        node: str | None = None,
        namespace: str | None = None,
        since: float,
        until: float,
    ) -> HistorySeries | None:
        grid = TimeGrid(since, until)
        clusters = self._selected(scope, key if scope == "cluster" else cluster)
        if not clusters or not grid.points or any(history.is_paused for history in clusters):
            return None
        queries = (history.fields(scope, key, node, namespace, grid) for history in clusters)
        parts = [part for part in await asyncio.gather(*queries) if part is not None]
        if len(parts) < len(clusters):
            return None
        found = parts[0] if scope in ("device", "pod") else _added(parts)
        if all(value is None for values in found.values() for value in values):
            return None
        return HistorySeries(
            scope=scope,
            key=None if scope == "fleet" else key,
            cluster=cluster,
            node=node,
            namespace=namespace,
            start=grid.start,
            step_seconds=grid.step,
            fields=found,
            source="prometheus",
        )

    async def devices(self, since: float, until: float) -> list[HistorySeries]:
        grid = TimeGrid(since, until)
        found: list[HistorySeries] = []
        for history in list(self._clusters.values()):
            try:
                found += await history.devices(grid) if grid.points else []
            except KubeError as error:
                details = fields(cluster=history.cluster, reason=error.reason.value, error=error.text)
                log.warning("device history query failed", extra=details)
        return found

    def _selected(self, scope: HistoryScope, cluster: str | None) -> list[ClusterHistory]:
        """The clusters to query. A sum over clusters needs all of them: without one of them there is none."""
        if scope in _ACROSS_CLUSTERS:
            return [] if self._without else list(self._clusters.values())
        history = self._clusters.get(cluster or "")
        return [] if history is None else [history]


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """Raises KubeError if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise KubeError(Reason.TIMEOUT, f"the store did not respond within {seconds:g} s") from None


def _added(parts: Sequence[Mapping[str, Values]]) -> dict[str, Values]:
    def over(field: str, combine: Callable[[Iterable[float]], float]) -> Values:
        moments = zip(*(part[field] for part in parts), strict=True)
        known = ([value for value in moment if value is not None] for moment in moments)
        return [combine(values) if values else None for values in known]

    counts, sums = over("utilization_count", sum), over("utilization_sum", sum)
    ratios: Values = [
        None if not count or total is None else total / count
        for count, total in zip(counts, sums, strict=True)
    ]
    return {
        field: ratios
        if field == "utilization_ratio"
        else over(field, max if field == "temperature_max_celsius" else sum)
        for field in SUMMARY_FIELDS
    }
