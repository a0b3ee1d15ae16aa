"""The Prometheus source reads a cluster from a Prometheus-compatible store. Nodes are the scraped targets.

A node whose series disappear from the store is not removed: its last reading ages. Nodes are read in batches,
with all queries for the same time, and only if their agent has published a new page since the last refresh.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelscope.config.log import fields
from accelscope.fleet.clusters import PrometheusEntry
from accelscope.fleet.rows import (
    NodeFailure,
    NodeReport,
    NodeUnchanged,
    SourceKind,
    SourceOutcome,
    UpdateHandler,
)
from accelscope.fleet.sources.prometheus import families
from accelscope.fleet.sources.prometheus.node_series import NodeSeries
from accelscope.fleet.sources.prometheus.store import (
    MOST_TARGETS,
    TARGET_LABELS,
    PromqlStore,
    ReadingTimes,
    Sample,
    ScrapeTarget,
    TargetKey,
    TargetList,
    Vector,
    each_sample,
    find_targets,
    max_by,
    one_of,
    series,
    target_key,
)
from accelscope.fleet.sources.round import LoopThrottle, RefreshRound
from accelscope.fleet.sources.snapshots import AgentSnapshot, make_report, merge_agents
from accelscope.kube.endpoint import KubeError, Reason, one_line
from accelscope.metrics.catalogue import INFO_LABELS

# Few queries, each for all families with the same labels.

_COMMON = ("__name__", *TARGET_LABELS)
_WORKLOAD = ("namespace", "pod", "container")

IDENTITY = (families.INFO, families.PARTITION_INFO, *families.READERS)
IDENTITY_LABELS = (
    *("vendor", "device", "index", *INFO_LABELS),
    *("partition", "profile", "gpu_instance", "compute_instance"),
)

DEVICES = (
    *families.DEVICE_ROWS,
    *families.DEVICE_STATES,
    *families.DEVICE_DETAILS,
    *families.PARTITION_DETAILS,
)
DEVICE_LABELS = (
    *("device", "partition", "state", "reason", "engine", "pipe", "core", "sensor", "bound", "rail", "fan"),
    *("clock", "kind", "link", "severity", "block", "code", "cause", "action", "origin"),
)
_ROW_LABELS = ("device", "fan", "severity", "block", "kind", "code")
_STATE_LABELS = ("device", "state", *families.HEALTH_CAUSE_LABELS)

WORKLOADS = (
    *(families.POD_INFO, families.POD_ALLOCATED, *families.POD_ROWS),
    *(families.PROCESS_INFO, *families.PROCESS_ROWS),
)
WORKLOAD_DETAILS = (*families.UNATTRIBUTED, *families.BALANCES, families.JOB_INFO)
WORKLOAD_LABELS = (
    *("device", "partition", "engine", "resource", "uid", "owner_kind", "owner_name"),
    *("pid", "name", "user", "type", "mps", "owner", "reason", "job_id"),
    *_WORKLOAD,
    *(f"exported_{name}" for name in _WORKLOAD),
)


def queries(matchers: Iterable[str], instances: Iterable[str], *, brief: bool) -> tuple[str, ...]:
    """Queries for the agents at these addresses. `brief` selects only what rows need, a third of all
    series."""
    of_agents = (*matchers, one_of("instance", instances))
    identity = max_by(series(IDENTITY, *of_agents), (*_COMMON, *IDENTITY_LABELS))
    if brief:
        devices = _device_rows(of_agents)
        workloads = WORKLOADS
    else:
        devices = max_by(series(DEVICES, *of_agents), (*_COMMON, *DEVICE_LABELS))
        workloads = (*WORKLOADS, *WORKLOAD_DETAILS)
    return identity, devices, max_by(series(workloads, *of_agents), (*_COMMON, *WORKLOAD_LABELS))


def _device_rows(of_agents: tuple[str, ...]) -> str:
    # Devices count errors in dozens of blocks; rows need the uncorrected ones.
    serious = one_of("severity", ("", "uncorrected"))
    values = max_by(series(families.DEVICE_ROWS, *of_agents, serious), (*_COMMON, *_ROW_LABELS))
    # Each state and reason has a series, and few of them are 1.
    active = f"{series(families.DEVICE_STATES, *of_agents)} == 1"
    return f"{values} or {max_by(active, (*_COMMON, *_STATE_LABELS))}"


log = logging.getLogger(__name__)

# Up to this number of agents, all families are read; above it, only those for rows and sums.
DETAILED_TARGETS = 500
_AT_ONCE = 4  # batches
_MAX_FAILURES = 64  # nodes in a row that could not be read
_ROUND_SECONDS = 120.0  # after which the rest is left for the next round
_TARGET_BYTES = 2 << 20  # of a response: batch sizes adapt to it
_FIRST_BATCH = 16  # nodes
_LARGEST_BATCH = 256
_REPORTED_AT_ONCE = 500  # unchanged nodes
_MISSED_SECONDS = 900.0  # for which a node without series is counted as missing
_NO_SERIES = "no_series"
_UNPROCESSABLE = 422  # too many samples for the store


@dataclass(frozen=True, slots=True)
class _ScrapedNode:
    name: str
    targets: tuple[ScrapeTarget, ...]

    @property
    def reading(self) -> tuple[tuple[TargetKey, float], ...]:
        return tuple(sorted((target.key, target.reading) for target in self.targets))


@dataclass(frozen=True, slots=True)
class ReportedNode:
    reading: tuple[tuple[TargetKey, float], ...]
    at: float  # monotonic


_NEVER = ReportedNode((), float("-inf"))


@dataclass(frozen=True, slots=True)
class QueryTime:
    """The time that all queries of one refresh are for."""

    store: float  # by the store's clock, seconds since the epoch
    local: float  # by our clock, at or shortly before that time
    brief: bool


class PrometheusSource:
    kind = SourceKind.PROMETHEUS

    def __init__(
        self,
        entry: PrometheusEntry,
        *,
        loop_throttle: LoopThrottle,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = PromqlStore(entry)
        self._loop_throttle = loop_throttle
        self._clock = clock
        self._reading_times = ReadingTimes()
        self._reported: dict[str, ReportedNode] = {}  # by node, the last report
        self._missing: dict[str, float] = {}  # by node, since when (monotonic clock)
        self._unexpected: set[str] = set()  # nodes with an unexpected error, which is in the log
        self._seen_nodes = False
        self._seen_devices = False
        self._batch_nodes = _FIRST_BATCH
        self._most_nodes = _LARGEST_BATCH  # lowered if the store rejects a batch, raised by one per refresh

    def sees_accelerators(self) -> bool:
        return self._seen_devices

    async def refresh(self, take: UpdateHandler) -> SourceOutcome:
        local_time = self._clock()
        try:
            found = await find_targets(self._store, self._loop_throttle)
        except KubeError as error:
            return SourceOutcome(up=False, reason=error.reason, text=error.text)
        async with self._loop_throttle.piece():
            self._reading_times.update(found.targets)
        async with self._loop_throttle.piece():
            nodes = _by_node(found.targets)
        refresh_round = RefreshRound(take, max_failures=_MAX_FAILURES)
        self._report_missing(nodes.keys(), refresh_round)
        if not nodes:
            return self._empty_outcome(found)
        self._seen_nodes = True
        query_time = QueryTime(found.evaluated_at, local_time, brief=len(found.targets) > DETAILED_TARGETS)
        warnings = list(found.warnings)

        async def read(batch: Sequence[_ScrapedNode]) -> None:
            warnings.extend(await self._read(batch, query_time, refresh_round))

        self._most_nodes = min(self._most_nodes + 1, _LARGEST_BATCH)
        changed = await self._report_unchanged(nodes.values(), refresh_round)
        deadline = time.monotonic() + _ROUND_SECONDS
        await refresh_round.run(self._batches(changed, deadline), read, at_once=_AT_ONCE)
        expected = len(nodes) + len(self._missing)
        if warnings:
            return refresh_round.outcome(expected, reason="partial", text=_partial(warnings))
        if time.monotonic() >= deadline:
            text = f"not all nodes were read within {_ROUND_SECONDS:g} s"
            return refresh_round.outcome(expected, reason=Reason.TIMEOUT, text=text)
        return refresh_round.outcome(expected)

    async def close(self) -> None:
        await self._store.close()

    def _report_missing(self, nodes: Collection[str], refresh_round: RefreshRound) -> None:
        """Reports each missing node max_by; its reading ages from then on."""
        now = time.monotonic()
        self._missing = {
            node: since
            for node, since in self._missing.items()
            if node not in nodes and now - since < _MISSED_SECONDS
        }
        for node in [node for node in self._reported if node not in nodes]:
            del self._reported[node]
            if len(self._missing) >= MOST_TARGETS:  # a store may return other nodes each time
                del self._missing[next(iter(self._missing))]
            self._missing[node] = now
            text = "the store has no current series of its agent"
            refresh_round.report(NodeFailure(node=node, source=self.kind, reason=_NO_SERIES, text=text))

    def _empty_outcome(self, found: TargetList) -> SourceOutcome:
        """The outcome if the store has no series. That is an error only if it had series of this cluster
        before."""
        if found.warnings:
            reason, text = "partial", _partial(found.warnings)
        else:
            chosen = f" with {', '.join(self._store.matchers)}" if self._store.matchers else ""
            reason, text = _NO_SERIES, f"the store has no series of agents{chosen}"
        up = not self._seen_nodes and not found.warnings
        return SourceOutcome(up=up, expected=len(self._missing), reason=reason, text=one_line(text))

    async def _report_unchanged(
        self, nodes: Iterable[_ScrapedNode], refresh_round: RefreshRound
    ) -> list[_ScrapedNode]:
        """Returns the nodes with new readings, those with the oldest report first, because a refresh may end
        before all are read."""
        changed: list[_ScrapedNode] = []
        unchanged: list[_ScrapedNode] = []
        for node in nodes:
            last = self._reported.get(node.name)
            (unchanged if last is not None and last.reading == node.reading else changed).append(node)
        for start in range(0, len(unchanged), _REPORTED_AT_ONCE):
            async with self._loop_throttle.piece():
                for node in unchanged[start : start + _REPORTED_AT_ONCE]:
                    refresh_round.report(NodeUnchanged(node=node.name, source=self.kind))
        changed.sort(key=lambda node: self._reported.get(node.name, _NEVER).at)
        return changed

    def _batches(self, nodes: Sequence[_ScrapedNode], deadline: float) -> Iterator[Sequence[_ScrapedNode]]:
        start = 0
        while start < len(nodes) and time.monotonic() < deadline:
            size = self._batch_nodes
            yield nodes[start : start + size]
            start += size

    async def _read(
        self, batch: Sequence[_ScrapedNode], query_time: QueryTime, refresh_round: RefreshRound
    ) -> tuple[str, ...]:
        """Returns the warnings of the store."""
        series = {target.key: NodeSeries() for node in batch for target in node.targets}

        def add(sample: Sample) -> None:
            agent, number = series.get(target_key(sample.metric)), sample.number
            if agent is not None and number is not None:
                agent.add(sample.metric, number)

        try:
            vectors = await self._query(batch, query_time)
            for vector in vectors:
                await each_sample(vector, self._loop_throttle, add)
        except KubeError as error:
            if len(batch) > 1 and (error.reason is Reason.TOO_LARGE or error.status == _UNPROCESSABLE):
                half = len(batch) // 2
                self._batch_nodes = self._most_nodes = half
                first = await self._read(batch[:half], query_time, refresh_round)
                return first + await self._read(batch[half:], query_time, refresh_round)
            for node in batch:
                refresh_round.report(
                    NodeFailure(node=node.name, source=self.kind, reason=error.reason, text=error.text)
                )
            return ()
        warnings = tuple(warning for vector in vectors for warning in vector.warnings)
        for node in batch:
            async with self._loop_throttle.piece():
                self._report_node(node, series, query_time, warnings, refresh_round)
        return warnings

    async def _query(self, batch: Sequence[_ScrapedNode], query_time: QueryTime) -> list[Vector]:
        instances = dict.fromkeys(target.key[1] for node in batch for target in node.targets)
        expressions = queries(self._store.matchers, instances, brief=query_time.brief)
        vectors = [await self._store.vector(query, at=query_time.store) for query in expressions]
        largest = max(vector.size for vector in vectors)
        fitting = int(len(batch) * _TARGET_BYTES / max(largest, 1))
        self._batch_nodes = max(1, min(fitting, 2 * self._batch_nodes, self._most_nodes))
        return vectors

    def _report_node(
        self,
        node: _ScrapedNode,
        series: Mapping[TargetKey, NodeSeries],
        query_time: QueryTime,
        warnings: Sequence[str],
        refresh_round: RefreshRound,
    ) -> None:
        has_devices = any(series[target.key].has_devices for target in node.targets)
        if warnings and not has_devices:
            text = _partial(warnings)
            refresh_round.report(NodeFailure(node=node.name, source=self.kind, reason="partial", text=text))
            return
        self._seen_devices = self._seen_devices or has_devices
        update = self._node_update(node, series, query_time)
        refresh_round.report(update)
        # A response with a warning may be incomplete, so the node is read again, as after a failure.
        again = bool(warnings) or isinstance(update, NodeFailure)
        self._reported[node.name] = ReportedNode(() if again else node.reading, time.monotonic())

    def _node_update(
        self, node: _ScrapedNode, series: Mapping[TargetKey, NodeSeries], query_time: QueryTime
    ) -> NodeReport | NodeFailure:
        try:
            agents = [
                self._agent_snapshot(node, target, series[target.key], query_time) for target in node.targets
            ]
            merged = agents[0] if len(agents) == 1 else merge_agents(agents)
            update = make_report(node.name, self.kind, merged.taken_at, merged.snapshot)
        except Exception:  # a bug affects this node only
            if node.name not in self._unexpected:
                self._unexpected.add(node.name)
                log.exception(
                    "unexpected error while reading the series of a node", extra=fields(node=node.name)
                )
            text = "see the log of the fleet"
            return NodeFailure(node=node.name, source=self.kind, reason="internal", text=text)
        self._unexpected.discard(node.name)
        return update

    def _agent_snapshot(
        self, node: _ScrapedNode, target: ScrapeTarget, series: NodeSeries, query_time: QueryTime
    ) -> AgentSnapshot:
        return AgentSnapshot(
            snapshot=series.snapshot(node.name, target, self._reading_times.interval_seconds(target)),
            taken_at=query_time.local - (query_time.store - self._reading_times.taken_at(target)),
        )


def _by_node(targets: Iterable[ScrapeTarget]) -> dict[str, _ScrapedNode]:
    found: dict[str, list[ScrapeTarget]] = {}
    for target in targets:
        found.setdefault(target.node, []).append(target)
    return {name: _ScrapedNode(name, tuple(of_node)) for name, of_node in found.items()}


def _partial(warnings: Sequence[str]) -> str:
    return one_line(f"the store returned a partial response: {warnings[0]}")
