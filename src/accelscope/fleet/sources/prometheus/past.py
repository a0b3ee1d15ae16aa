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
from accelscope.fleet.history.rings import MINUTE, SUMMARY_FIELDS, HistorySeries, Scope
from accelscope.fleet.sources.prometheus import families
from accelscope.fleet.sources.prometheus.store import (
    TARGET_LABELS,
    PromqlStore,
    Target,
    TargetKey,
    decoded_runs,
    equal,
    find_targets,
    finite,
    once,
    one_of,
    series,
    target_key,
)
from accelscope.fleet.sources.round import LoopThrottle
from accelscope.kube.endpoint import KubeError, Reason

DEVICE = (*TARGET_LABELS, "device")  # what tells devices apart
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
    """`matchers`: of all series of the cluster."""

    def __init__(self, matchers: Sequence[str]) -> None:
        self._matchers = tuple(matchers)

    def of(self, scope: Scope, key: str | None, node: str | None, namespace: str | None) -> Mapping[str, str]:
        """By field. Means come as a sum and how many are in it: those of several clusters are added up."""
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
                return self._kind((), once(self._series(families.INFO, equal("model", key or "")), DEVICE))
        return self._kind((), None)

    def devices(self, instances: Iterable[str]) -> Mapping[str, str]:
        """By field, of all devices at these addresses."""
        there = one_of("instance", instances)
        return {field: once(self._series(name, there), DEVICE) for field, name in DEVICE_FIELDS.items()}

    def _kind(self, matchers: tuple[str, ...], chosen: str | None) -> dict[str, str]:
        """Of devices with these labels, or of those chosen: an expression that is 1 for each."""

        def of_devices(name: str, *more: str) -> str:
            found = once(self._series(name, *matchers, *more), DEVICE)
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
        """Utilisation and used memory are its own; the rest is of the devices that it holds or uses."""

        def of_use(name: str) -> str:
            return once(self._workload(name, namespace), _USE)

        used = once(self._workload("accelerator_pod_processes", namespace), DEVICE)

        def of_devices(name: str, *more: str) -> str:
            return f"({once(self._series(name, *more), DEVICE)} and {_ON_DEVICE} {used})"

        allocated = once(self._workload(families.POD_ALLOCATED, namespace), DEVICE)
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
        chosen = once(self._series(families.INFO, this, equal("node", node)), DEVICE)
        return {
            field: f"max({once(self._series(name, this), DEVICE)} * {_ON_DEVICE} {chosen})"
            for field, name in DEVICE_FIELDS.items()
        }

    def _pod(self, namespace: str, pod: str) -> dict[str, str]:
        def of_use(name: str) -> str:
            return once(self._workload(name, namespace, pod), _USE)

        return {
            "utilization_ratio": f"avg({_by_device(of_use('accelerator_pod_utilization_ratio'))})",
            "memory_used_bytes": f"sum({of_use('accelerator_pod_memory_used_bytes')})",
        }

    def _series(self, name: str, *matchers: str) -> str:
        return series((name,), *self._matchers, *matchers)

    def _workload(self, name: str, namespace: str, pod: str | None = None) -> str:
        """Under the names that a scrape with or without `honor_labels` gives."""
        wanted = {"namespace": namespace} if pod is None else {"namespace": namespace, "pod": pod}
        own = [matcher for label, value in wanted.items() for matcher in _own(label, value)]
        exported = [equal(f"exported_{label}", value) for label, value in wanted.items()]
        return f"{self._series(name, *own)} or {self._series(name, *exported)}"


def _own(label: str, value: str) -> tuple[str, str]:
    return equal(label, value), equal(f"exported_{label}", "")


def _summary(devices: str, of_devices: Callable[..., str]) -> dict[str, str]:
    return {
        "devices": f"count({devices})",
        "devices_unhealthy": f"sum({of_devices('accelerator_health', one_of('state', _UNHEALTHY))})",
        "power_watts": f"sum({of_devices('accelerator_power_watts')})",
        "temperature_max_celsius": f"max({of_devices('accelerator_temperature_celsius')})",
    }


def _memory(used: str, total: str) -> dict[str, str]:
    """Over devices that report both, so that one can be set beside the other."""
    return {
        "memory_used_bytes": f"sum({used} and {_ON_DEVICE} {total})",
        "memory_total_bytes": f"sum({total} and {_ON_DEVICE} {used})",
    }


def _mean(values: str) -> dict[str, str]:
    return {"utilization_sum": f"sum({values})", "utilization_count": f"count({values})"}


def _by_device(values: str) -> str:
    return f"sum by ({', '.join(DEVICE)}) ({values})"


def _or_none(counted: str, among: str) -> str:
    """A count that is 0, and not absent, where there are devices and none of them counts."""
    return f"count({counted}) or 0 * count({among})"


log = logging.getLogger(__name__)

Values = list[float | None]

_MOST_POINTS = 1440  # of a series
_MOST_TARGETS = 1000  # whose devices' past is asked for: each device has 240 values an hour
_TARGETS_AT_ONCE = 50
# For all queries of one answer, including the wait for a connection.
_ANSWER_SECONDS = 10.0
_DEVICES_SECONDS = 60.0  # for all devices of a cluster
_ALONE_SECONDS = 30.0  # for which a store that failed is not asked
_REFUSED = (400, 422)  # not understood, or more samples than the store is willing to load
_ACROSS_CLUSTERS = ("fleet", "vendor", "model", "namespace")


class Grid:
    """Moments, a whole number of minutes apart, the same for whoever asks for the same stretch."""

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

    def laid_out(self, values: Iterable[tuple[float, str]]) -> Values:
        laid = self.empty()
        for at, text in values:
            place = round((at - self.start) / self.step)
            if 0 <= place < self.points:
                laid[place] = finite(text)
        return laid


class _Standing:
    """A circuit breaker: a store that failed is not queried for a while; then one query tries again. Changes
    are logged."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._failed = False
        self._refused = False
        self._next_try = 0.0  # monotonic

    @property
    def left_alone(self) -> bool:
        return self._failed and time.monotonic() < self._next_try

    def asked(self) -> None:
        self._next_try = time.monotonic() + _ALONE_SECONDS

    def answered(self) -> None:
        if self._failed:
            log.info("a store tells the past again", extra=fields(cluster=self._cluster))
        self._failed = False

    def failed(self, error: KubeError) -> None:
        said = fields(cluster=self._cluster, reason=error.reason.value, error=error.text)
        if error.reason is Reason.TOO_LARGE or error.status in _REFUSED:  # of this question, not of the next
            if not self._refused:
                log.warning("a store refuses a question about the past", extra=said)
            self._refused = True
            return
        if not self._failed:
            log.warning("a store could not be asked for the past", extra=said)
        self._failed = True
        self._next_try = time.monotonic() + _ALONE_SECONDS


class ClusterPast:
    """Of one cluster."""

    def __init__(self, cluster: str, entry: PrometheusEntry, *, loop_throttle: LoopThrottle) -> None:
        self.cluster = cluster
        self.entry = entry
        self._store = PromqlStore(entry)
        self._queries = HistoryQueries(self._store.matchers)
        self._loop_throttle = loop_throttle
        self._standing = _Standing(cluster)

    @property
    def left_alone(self) -> bool:
        """Whether the store failed recently."""
        return self._standing.left_alone

    async def fields(
        self, scope: Scope, key: str | None, node: str | None, namespace: str | None, grid: Grid
    ) -> dict[str, Values] | None:
        """None: the store has no data, or does not answer in time."""
        if self.left_alone:
            return None
        self._standing.asked()
        queries = self._queries.of(scope, key, node, namespace)
        try:
            async with _within(_ANSWER_SECONDS):
                found = {field: await self._one(query, grid) for field, query in queries.items()}
        except KubeError as error:
            self._standing.failed(error)
            return None
        self._standing.answered()
        return found

    async def devices(self, grid: Grid) -> list[HistorySeries]:
        """All; none, where there are too many nodes to ask for each device of theirs. Raises KubeError."""
        async with _within(_DEVICES_SECONDS):
            return await self._all_devices(grid)

    async def _all_devices(self, grid: Grid) -> list[HistorySeries]:
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
        self, targets: Iterable[Target], nodes: Mapping[TargetKey, str], grid: Grid
    ) -> list[HistorySeries]:
        by_device: dict[tuple[str, str], dict[str, Values]] = {}
        for field, query in self._queries.devices(target.key[1] for target in targets).items():
            runs = await self._runs(query, grid)
            async with self._loop_throttle.piece():
                for run in decoded_runs(runs):
                    node, device = nodes.get(target_key(run.metric)), run.metric.get("device")
                    if node is not None and device is not None:
                        by_device.setdefault((node, device), {})[field] = grid.laid_out(run.values)
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

    async def _one(self, query: str, grid: Grid) -> Values:
        """Of an expression that has one series, or none."""
        runs = decoded_runs((await self._runs(query, grid))[:1])
        return grid.laid_out(runs[0].values) if runs else grid.empty()

    async def _runs(self, query: str, grid: Grid) -> Sequence[msgspec.Raw]:
        return await self._store.matrix(query, start=grid.start, end=grid.end, step=grid.step)


class StoredPast:
    """The history of all clusters that have a store (a `HistoryStore`)."""

    def __init__(self, *, loop_throttle: LoopThrottle) -> None:
        self._loop_throttle = loop_throttle
        self._pasts: dict[str, ClusterPast] = {}
        self._without: frozenset[str] = frozenset()  # clusters of which no store knows anything

    async def declare(self, entries: Iterable[ClusterEntry]) -> None:
        """The whole list of clusters."""
        stores = {entry.id: entry.prometheus for entry in entries if entry.gpu != "false"}
        self._without = frozenset(cluster for cluster, store in stores.items() if store is None)
        for cluster, past in list(self._pasts.items()):
            if stores.get(cluster) != past.entry:
                del self._pasts[cluster]
                await past.close()
        for cluster, store in stores.items():
            if store is not None and cluster not in self._pasts:
                self._pasts[cluster] = ClusterPast(cluster, store, loop_throttle=self._loop_throttle)

    async def close(self) -> None:
        await self.declare(())

    async def series(
        self,
        scope: Scope,
        key: str | None,
        *,
        cluster: str | None = None,
        node: str | None = None,
        namespace: str | None = None,
        since: float,
        until: float,
    ) -> HistorySeries | None:
        grid = Grid(since, until)
        pasts = self._asked(scope, key if scope == "cluster" else cluster)
        if not pasts or not grid.points or any(past.left_alone for past in pasts):
            return None
        asked = (past.fields(scope, key, node, namespace, grid) for past in pasts)
        parts = [part for part in await asyncio.gather(*asked) if part is not None]
        if len(parts) < len(pasts):
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
        grid = Grid(since, until)
        found: list[HistorySeries] = []
        for past in list(self._pasts.values()):
            try:
                found += await past.devices(grid) if grid.points else []
            except KubeError as error:
                said = fields(cluster=past.cluster, reason=error.reason.value, error=error.text)
                log.warning("a store could not be asked for the past of devices", extra=said)
        return found

    def _asked(self, scope: Scope, cluster: str | None) -> list[ClusterPast]:
        """Sums over clusters are of all of them, or there are none."""
        if scope in _ACROSS_CLUSTERS:
            return [] if self._without else list(self._pasts.values())
        past = self._pasts.get(cluster or "")
        return [] if past is None else [past]


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """Raises KubeError where it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise KubeError(Reason.TIMEOUT, f"the store did not answer within {seconds:g} s") from None


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
