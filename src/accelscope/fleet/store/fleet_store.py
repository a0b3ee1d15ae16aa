"""The current state of the fleet.

Sources report updates of nodes (`take`), the engine reports the state of clusters (`describe`), and time
passes (`tick`). Queries read the tables. Everything runs in one event loop, and nothing blocks.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from msgspec import structs

from accelscope.config.log import fields
from accelscope.fleet.rows import (
    ClusterView,
    NodeFailure,
    NodeReport,
    NodeUnchanged,
    NodeUpdate,
    NodeValues,
    ReportNeeded,
)
from accelscope.fleet.store.events import ChangeFeed, EventLog, EventRecorder, Subscription
from accelscope.fleet.store.node_rows import (
    NodeRecord,
    SourceContribution,
    SourceFailure,
    StalenessRules,
    StoredNodeObject,
    StoredReading,
    make_stored_reading,
    merge_snapshots,
)
from accelscope.fleet.store.node_writer import (
    NO_SOURCE,
    WORK_OF_MARKING,
    AnomalyKey,
    AnomalyRegistry,
    NodeTables,
    NodeWriter,
    parts_of,
)
from accelscope.model import Snapshot

log = logging.getLogger(__name__)

STALE_AFTER_SECONDS = 60.0
FORGET_AFTER_SECONDS = 900.0

_PUBLISHED_EVERY_SECONDS = 1.0
_RETRY_SECONDS = 60.0  # until a node that could not be refreshed is refreshed again
_WORK_AT_ONCE = 200  # by one tick, so that a cluster that becomes unreachable does not block queries
# Of one cluster, so that one with invented data does not fill the memory.
DEVICES_LIMIT = 200_000
PROCESSES_LIMIT = 2_000_000
NODES_LIMIT = 50_000
READINGS_LIMIT = 256 << 20  # bytes
# Of one node and source, in bytes: hundreds of times the size of a node with eight devices, so that a few
# nodes with huge readings do not use up the limit of their cluster.
READING_LIMIT = 4 << 20
_TOO_OLD = "its last reading has expired"


@dataclass(slots=True)
class _ClusterState:
    view: ClusterView
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    objects: Mapping[str, StoredNodeObject] = field(default_factory=dict)  # also of nodes without a record
    devices: int = 0
    processes: int = 0
    size: int = 0  # bytes of its readings
    full: bool = False  # a node was ignored, which is in the log

    @property
    def was_read(self) -> bool:
        """Whether the content of the cluster is known: a node was read, or all sources succeeded once. One
        source is not enough: annotations succeed at once if no node has any."""
        if self.devices or any(record.readings for record in self.nodes.values()):
            return True
        sources = self.view.sources
        return bool(sources) and all(source.up or source.succeeded_at is not None for source in sources)

    def unread_node(self, offers: Callable[[str], bool]) -> NodeRecord | None:
        """A node without readings that may have devices of a resource for which `offers` is true: its Node
        object has such a resource, or is unknown."""
        for record in self.nodes.values():
            if record.readings:
                continue
            if record.object is None or any(map(offers, record.object.accelerators)):
                return record
        return None


class FleetStore:
    """`clock` returns seconds since the epoch. The limits apply to each cluster."""

    def __init__(
        self,
        *,
        stale_after_seconds: float = STALE_AFTER_SECONDS,
        forget_after_seconds: float = FORGET_AFTER_SECONDS,
        devices_limit: int = DEVICES_LIMIT,
        processes_limit: int = PROCESSES_LIMIT,
        nodes_limit: int = NODES_LIMIT,
        readings_limit: int = READINGS_LIMIT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._staleness = StalenessRules(
            stale_after_seconds=stale_after_seconds, forget_after_seconds=forget_after_seconds
        )
        self._devices_limit = devices_limit
        self._processes_limit = processes_limit
        self._nodes_limit = nodes_limit
        self._readings_limit = readings_limit
        self._clock = clock
        self._tables = tables = NodeTables(clock)
        self.nodes, self.devices = tables.nodes, tables.devices
        self.pods, self.processes = tables.pods, tables.processes
        self.events = EventLog()
        self.generation = 0  # increases with each change that is visible to queries
        self._generations: Counter[str] = Counter()  # the same by cluster, including removed clusters
        self._recorder = EventRecorder(self.events)
        self._anomalies = AnomalyRegistry(self.devices, self.pods, self._recorder)
        self._writer = NodeWriter(tables, self._anomalies, self._recorder, self._touch)
        self._clusters: dict[str, _ClusterState] = {}
        self._leaving: deque[NodeRecord] = deque()
        self._changes = ChangeFeed()
        self._published_at = 0.0
        self._published_event = 0

    # Clusters

    @property
    def clusters(self) -> Mapping[str, ClusterView]:
        """In the order of their declaration."""
        now = self._clock()
        return {
            id_: structs.replace(
                cluster.view,
                age_seconds=_age(cluster.view.succeeded_at, now),
                nodes=len(cluster.nodes) if cluster.nodes or cluster.was_read else None,
                devices=cluster.devices if cluster.was_read else None,
            )
            for id_, cluster in self._clusters.items()
        }

    def declare(self, clusters: Sequence[ClusterView], *, others: Collection[str] = ()) -> None:
        """Replaces the list of clusters. A cluster that is already in it keeps its nodes, and takes over the
        settings of the clusters file. `others` are ids that belonged to another cluster until now.

        Only the generation of changed clusters increases: a client with access to one cluster must not notice
        that another one was added."""
        before = self._clusters
        places = {id_: place for place, id_ in enumerate(before)}
        last_place = -1
        self._clusters = {}
        for view in clusters:
            known = before.pop(view.id, None)
            if known is not None and view.id in others:
                self._leave(view.id, known)
                known = None
            if known is None:
                self._finish_leaving(view.id)
                self._clusters[view.id] = _ClusterState(view)
                self._touch_cluster(view.id)
            else:
                self._clusters[view.id] = known
                changed = self._redeclare(known, view)
                if changed or places[view.id] < last_place:  # the order changed
                    self._touch_cluster(view.id)
                last_place = max(last_place, places[view.id])
        for id_, cluster in before.items():
            self._leave(id_, cluster)
            self._recorder.cluster_left(id_, self._clock())

    def _redeclare(self, cluster: _ClusterState, view: ClusterView) -> bool:
        """Whether something changed."""
        before = cluster.view
        if view.simulated != before.simulated:
            self._tables.declare_simulated(view.id, view.simulated)
        cluster.view = structs.replace(
            before, name=view.name, simulated=view.simulated, gpu_setting=view.gpu_setting
        )
        return cluster.view != before

    def _leave(self, id_: str, cluster: _ClusterState) -> None:
        """Hides its rows at once; the next ticks remove them."""
        self._tables.hide(id_)
        self._leaving.extend(cluster.nodes.values())
        self._touch_cluster(id_)

    def _finish_leaving(self, id_: str) -> None:
        """Removes the remaining rows of a cluster that is declared again."""
        for record in self._leaving:
            if record.cluster == id_:
                self._clear(record)
        self._leaving = deque(record for record in self._leaving if record.cluster != id_)

    def describe(self, view: ClusterView) -> None:
        """Ignored if the cluster was removed meanwhile."""
        cluster = self._clusters.get(view.id)
        if cluster is None or cluster.view == view:
            return
        self._recorder.cluster(cluster.view, view, self._clock())
        cluster.view = view
        self._touch_cluster(view.id)

    # Nodes

    def node_objects(self, cluster: str, nodes: Mapping[str, StoredNodeObject]) -> None:
        """Sets all Node objects of the cluster, by name; the mapping must not change. They may be thousands,
        so rows are updated by the next ticks."""
        entry = self._clusters.get(cluster)
        if entry is None:
            return
        entry.objects = nodes
        for name, node in nodes.items():
            record = entry.nodes.get(name)
            if record is None and node.accelerators:
                record = self._new(entry, name)
            if record is not None and record.object is not node:
                self._set_object(record, node)
        for record in entry.nodes.values():
            if record.object is not None and record.node not in nodes:
                self._set_object(record, None)

    def _set_object(self, record: NodeRecord, node: StoredNodeObject | None) -> None:
        had, before = record.has_accelerators, self.labels(record.cluster, record.node)
        record.object = node
        if record.has_accelerators != had:
            record.schedule_now()
        if record.state is not None and self.labels(record.cluster, record.node) != before:
            self._touch(record.cluster, record.node)

    def take(self, cluster: str, update: NodeUpdate) -> None:
        """Ignored if the cluster was removed meanwhile. Raises ReportNeeded."""
        entry = self._clusters.get(cluster)
        if entry is None:
            return
        now = self._clock()
        record = entry.nodes.get(update.node)
        if isinstance(update, NodeValues):
            if record is None:
                raise ReportNeeded
            self._take_values(entry, record, update, now)
            return
        if record is None:
            if len(entry.nodes) >= self._nodes_limit:
                self._log_ignored(entry, update.node)
                return
            record = self._new(entry, update.node)
        if isinstance(update, NodeReport):
            self._take_report(entry, record, update, now)
        elif isinstance(update, NodeFailure):
            record.failures[update.source] = SourceFailure(update.text, update.incompatible, now)
            if update.incompatible:
                record.readings.pop(update.source, None)
            self._refresh(entry, record, now)
        else:
            self._take_unchanged(entry, record, update, now)

    def _log_ignored(self, entry: _ClusterState, node: str) -> None:
        if not entry.full:
            extra = fields(cluster=entry.view.id, limit=self._nodes_limit, node=node)
            log.warning("cluster exceeds the limit of nodes; further nodes are ignored", extra=extra)
        entry.full = True

    def _take_report(self, entry: _ClusterState, record: NodeRecord, report: NodeReport, now: float) -> None:
        if self._staleness.is_forgotten(report.taken_at, now):
            record.failures[report.source] = SourceFailure(_TOO_OLD, False, now)
            self._refresh(entry, record, now)
            return
        reading = make_stored_reading(report, now, self._staleness)
        too_much = self._too_many(entry, record, report) or self._too_large(entry, record, reading)
        if too_much is not None:
            record.failures[report.source] = SourceFailure(too_much, False, now, rejected=True)
            self._refresh(entry, record, now)
            return
        record.failures.pop(report.source, None)
        record.readings[report.source] = reading
        self._recount_size(entry, record)
        shares = record.source_shares(now)
        used = report.source in {share.source for share in shares}
        if used or shares != record.shares:
            with self._recounted(entry, record):
                self._writer.write(
                    record, shares, report, now, simulated=entry.view.simulated, quiet=_quiet(entry)
                )
        record.due = record.next_due(now, self._staleness)

    def _take_values(self, entry: _ClusterState, record: NodeRecord, values: NodeValues, now: float) -> None:
        """Raises ReportNeeded if the rows are not those of a fresh reading of this source alone."""
        reading = record.readings.get(values.source)
        if reading is None or reading.structure != values.structure:
            raise ReportNeeded
        if self._staleness.is_forgotten(values.taken_at, now) or record.shares != (
            SourceContribution(values.source, True, reading.vendors),
        ):
            raise ReportNeeded
        self._writer.update(record, values, now)
        taken_at = min(values.taken_at, now)
        stale_at = taken_at + (reading.stale_at - reading.taken_at)
        record.readings[values.source] = structs.replace(reading, taken_at=taken_at, stale_at=stale_at)
        if record.failures.pop(values.source, None) is not None:
            self._refresh(entry, record, now)
        record.due = record.next_due(now, self._staleness)

    def _take_unchanged(
        self, entry: _ClusterState, record: NodeRecord, update: NodeUnchanged, now: float
    ) -> None:
        """The source responds, but its reading continues to age until it expires."""
        failure = record.failures.get(update.source)
        if failure is not None and failure.rejected:
            record.failures[update.source] = structs.replace(failure, at=now)  # the same reading was rejected
        elif update.source not in record.readings:
            record.failures[update.source] = SourceFailure(_TOO_OLD, False, now)
        elif record.failures.pop(update.source, None) is None:
            return
        self._refresh(entry, record, now)

    def snapshot(self, cluster: str, node: str) -> Snapshot | None:
        """The merged snapshot of all sources; None: the node was not read."""
        record = self._record(cluster, node)
        if record is None or not record.shares:
            return None
        return merge_snapshots(node, parts_of(record, record.shares))

    def has_newer_values(self, cluster: str, node: str) -> bool:
        """Whether its rows have values of a later reading than its snapshot."""
        record = self._record(cluster, node)
        return record is not None and any(
            reading.taken_at > reading.document_taken_at for reading in record.readings.values()
        )

    def labels(self, cluster: str, node: str) -> Mapping[str, str]:
        """The labels of its Node object, or those that its agent passes on if there is no Node object."""
        record = self._record(cluster, node)
        if record is not None and record.object is not None:
            return record.object.labels
        if record is None or not record.shares:
            return {}
        return dict(record.readings[record.shares[0].source].node_labels)

    def unread_node(self, cluster: str, offers: Callable[[str], bool]) -> tuple[str, str] | None:
        """The name of a node without readings that may have devices of a resource for which `offers` is true,
        and the reason why it was not read; None: there is none."""
        entry = self._clusters.get(cluster)
        record = None if entry is None else entry.unread_node(offers)
        if record is None:
            return None
        failure = record.failure()
        return record.node, NO_SOURCE if failure is None else failure.text

    def set_unusual(self, kind: Literal["device", "pod"], texts: Mapping[AnomalyKey, str | None]) -> None:
        """Sets the field `unusual` of devices by cluster, node and id, or of pods by cluster, namespace and
        name, and records events. None clears it; others keep theirs."""
        mark = self._anomalies.set_devices if kind == "device" else self._anomalies.set_pods
        for cluster, node in mark(texts, self._clock()):
            self._touch(cluster, node)

    # Time

    def tick(self, now: float | None = None) -> bool:
        """Call it about once a second. True: work is left; call it again soon."""
        now = self._clock() if now is None else now
        more = self._refresh_due(now)
        for _ in range(min(_WORK_AT_ONCE, len(self._leaving))):
            self._clear(self._leaving.popleft())
        settling = self._tables.settle()
        if abs(now - self._published_at) >= _PUBLISHED_EVERY_SECONDS:
            new_events, last = tuple(self.events.after(self._published_event)), self.events.last_id
            self._changes.publish(self.generation, new_events, last)
            self._published_at, self._published_event = now, last
        return more or settling or bool(self._leaving)

    def subscribe(self) -> Subscription:
        """Changes from now on; the caller closes the subscription."""
        return self._changes.subscribe()

    def _refresh_due(self, now: float) -> bool:
        due = [
            (entry, record)
            for entry in self._clusters.values()
            for record in entry.nodes.values()
            if record.due <= now
        ]
        work = 0
        for entry, record in due:
            if work >= _WORK_AT_ONCE:
                return True
            record.due = now + _RETRY_SECONDS  # if it fails, it does not delay the others in every tick
            was_read = bool(record.readings)
            record.forget_old(now, self._staleness)
            if was_read and not record.readings:
                self._recorder.node_forgotten(record, now)
            work += self._refresh(entry, record, now)
        return False

    def _refresh(self, entry: _ClusterState, record: NodeRecord, now: float) -> int:
        """After anything but a new reading. Returns the amount of work."""
        if not record.is_known:
            self._forget(entry, record)
            return WORK_OF_MARKING
        self._recount_size(entry, record)
        with self._recounted(entry, record):
            work = self._writer.refresh(record, now, simulated=entry.view.simulated, quiet=_quiet(entry))
        record.due = record.next_due(now, self._staleness)
        return work

    def _too_many(self, entry: _ClusterState, record: NodeRecord, report: NodeReport) -> str | None:
        """An error if the reading exceeds the row limits of its cluster."""
        devices = entry.devices - len(self.devices.of_node(record.number)) + len(report.snapshot.devices)
        if devices > self._devices_limit:
            return f"its cluster exceeds the limit of {self._devices_limit} devices"
        processes = (
            entry.processes - len(self.processes.of_node(record.number)) + len(report.snapshot.processes)
        )
        if processes > self._processes_limit:
            return f"its cluster exceeds the limit of {self._processes_limit} processes"
        return None

    def _too_large(self, entry: _ClusterState, record: NodeRecord, reading: StoredReading) -> str | None:
        """An error if the reading exceeds the memory limits of a node or a cluster."""
        if reading.size > READING_LIMIT:
            return (
                f"its reading of {_mebibytes(reading.size)} exceeds the limit of {_mebibytes(READING_LIMIT)}"
            )
        before = record.readings.get(reading.source)
        size = entry.size - (0 if before is None else before.size) + reading.size
        if size > self._readings_limit:
            return f"the readings of its cluster exceed the limit of {_mebibytes(self._readings_limit)}"
        return None

    def _recount_size(self, entry: _ClusterState, record: NodeRecord) -> None:
        """Updates the size after its readings changed."""
        size = sum(reading.size for reading in record.readings.values())
        entry.size += size - record.size
        record.size = size

    @contextmanager
    def _recounted(self, entry: _ClusterState, record: NodeRecord) -> Iterator[None]:
        """Updates the counts of the cluster when the rows of the node change."""
        self._uncount(entry, record)
        try:
            yield
        finally:
            entry.devices += len(self.devices.of_node(record.number))
            entry.processes += len(self.processes.of_node(record.number))

    def _uncount(self, entry: _ClusterState, record: NodeRecord) -> None:
        entry.devices -= len(self.devices.of_node(record.number))
        entry.processes -= len(self.processes.of_node(record.number))

    def _record(self, cluster: str, node: str) -> NodeRecord | None:
        entry = self._clusters.get(cluster)
        return None if entry is None else entry.nodes.get(node)

    def _new(self, entry: _ClusterState, node: str) -> NodeRecord:
        cluster = entry.view.id
        record = NodeRecord(cluster, node, self._tables.number(cluster, node), object=entry.objects.get(node))
        entry.nodes[node] = record
        return record

    def _forget(self, entry: _ClusterState, record: NodeRecord) -> None:
        self._uncount(entry, record)
        entry.size -= record.size
        entry.full = False
        del entry.nodes[record.node]
        self._clear(record)
        self._touch(record.cluster, record.node)

    def _clear(self, record: NodeRecord) -> None:
        self._tables.clear(record.cluster, record.node, record.number)

    def generation_of(self, clusters: Collection[str] | None) -> int:
        """A number that increases only with changes of these clusters; None: of all."""
        if clusters is None:
            return self.generation
        return sum(self._generations[cluster] for cluster in clusters)

    def _touch(self, cluster: str, node: str) -> None:
        self.generation += 1
        self._generations[cluster] += 1
        self._changes.node(cluster, node)

    def _touch_cluster(self, cluster: str) -> None:
        self.generation += 1
        self._generations[cluster] += 1
        self._changes.cluster(cluster)


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def _quiet(entry: _ClusterState) -> bool:
    return entry.view.reachable is False


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else max(0.0, now - at)
