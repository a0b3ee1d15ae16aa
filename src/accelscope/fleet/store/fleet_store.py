"""The fleet as it is known now.

Sources say what they saw (`take`), the clusters' state is described, and time passes (`tick`); questions are
put to the tables. All of it happens in one event loop, and nothing here waits.
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
from accelscope.fleet.rows import ClusterView, NodeFailure, NodeReport, NodeUnchanged, Saying
from accelscope.fleet.store.events import Changes, EventLog, Happenings, Subscription
from accelscope.fleet.store.node_record import Ageing, Failure, Kept, NodeObject, NodeRecord, kept
from accelscope.fleet.store.node_rows import whole_node
from accelscope.fleet.store.node_writer import (
    NO_SOURCE,
    WORK_OF_MARKING,
    NodeTables,
    NodeWriter,
    Unusual,
    UnusualKey,
    parts_of,
)
from accelscope.model import Snapshot

log = logging.getLogger(__name__)

STALE_AFTER_SECONDS = 60.0
FORGET_AFTER_SECONDS = 900.0

_PUBLISHED_EVERY_SECONDS = 1.0
_AGAIN_SECONDS = 60.0  # until a node that could not be looked at is looked at again
_WORK_AT_ONCE = 200  # by one tick, so that a cluster that falls silent does not hold up others' answers
# Of one cluster, so that one which makes them up does not fill the memory.
DEVICES_LIMIT = 200_000
PROCESSES_LIMIT = 2_000_000
NODES_LIMIT = 50_000
READINGS_LIMIT = 256 << 20  # bytes
# Of one node and source, bytes: hundreds of times what a node with eight devices takes, so that a few nodes
# which send whatever they like do not use up what their cluster may keep.
READING_LIMIT = 4 << 20
_TOO_OLD = "its last reading is older than readings are kept"


@dataclass(slots=True)
class _Cluster:
    view: ClusterView
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    objects: Mapping[str, NodeObject] = field(default_factory=dict)  # also of nodes without a record
    devices: int = 0
    processes: int = 0
    size: int = 0  # bytes of its readings
    full: bool = False  # a node was passed over, as the log says

    @property
    def was_read(self) -> bool:
        """Whether it is known what the cluster has: a node was read, or all sources were up once. One of
        them is not enough: annotations are up at once where no node has any."""
        if self.devices or any(record.readings for record in self.nodes.values()):
            return True
        sources = self.view.sources
        return bool(sources) and all(source.up or source.succeeded_at is not None for source in sources)

    def unread_node(self, offers: Callable[[str], bool]) -> NodeRecord | None:
        """A node of which nothing could be read and that may have devices of such a resource: it offers them,
        or its Node object is not known."""
        for record in self.nodes.values():
            if record.readings:
                continue
            if record.object is None or any(map(offers, record.object.accelerators)):
                return record
        return None


class FleetStore:
    """`clock` gives seconds since the epoch. The limits are of one cluster."""

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
        self._ageing = Ageing(
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
        self.generation = 0  # grows with each change that an answer could show
        self._generations: Counter[str] = Counter()  # the same by cluster, also of those that left the list
        self._happenings = Happenings(self.events)
        self._unusual = Unusual(self.devices, self.pods, self._happenings)
        self._writer = NodeWriter(tables, self._unusual, self._happenings, self._touch)
        self._clusters: dict[str, _Cluster] = {}
        self._leaving: deque[NodeRecord] = deque()
        self._changes = Changes()
        self._published_at = 0.0
        self._published_event = 0

    # Clusters

    @property
    def clusters(self) -> Mapping[str, ClusterView]:
        """In the order of their declaration, with their age and what is known of them now."""
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
        """The whole list. A cluster that is in it already keeps what is known of it, and takes over what a
        file says: its name, and what it is. `others`: ids under which another cluster was known until now.

        Only clusters of which something changed are touched: a caller who may see one cluster must not notice
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
                self._clusters[view.id] = _Cluster(view)
                self._touch_cluster(view.id)
            else:
                self._clusters[view.id] = known
                changed = self._redeclare(known, view)
                if changed or places[view.id] < last_place:  # it is behind one that it was in front of
                    self._touch_cluster(view.id)
                last_place = max(last_place, places[view.id])
        for id_, cluster in before.items():
            self._leave(id_, cluster)
            self._happenings.cluster_left(id_, self._clock())

    def _redeclare(self, cluster: _Cluster, view: ClusterView) -> bool:
        """Whether something changed."""
        before = cluster.view
        if view.simulated != before.simulated:
            self._tables.declare_simulated(view.id, view.simulated)
        cluster.view = structs.replace(
            before, name=view.name, simulated=view.simulated, gpu_setting=view.gpu_setting
        )
        return cluster.view != before

    def _leave(self, id_: str, cluster: _Cluster) -> None:
        """Its rows are out of sight at once, and are cleared away with the next ticks."""
        self._tables.hide(id_)
        self._leaving.extend(cluster.nodes.values())
        self._touch_cluster(id_)

    def _finish_leaving(self, id_: str) -> None:
        """It comes back before all of it went."""
        for record in self._leaving:
            if record.cluster == id_:
                self._clear(record)
        self._leaving = deque(record for record in self._leaving if record.cluster != id_)

    def describe(self, view: ClusterView) -> None:
        """Passed over if it has left the list meanwhile."""
        cluster = self._clusters.get(view.id)
        if cluster is None or cluster.view == view:
            return
        self._happenings.cluster(cluster.view, view, self._clock())
        cluster.view = view
        self._touch_cluster(view.id)

    # Nodes

    def node_objects(self, cluster: str, nodes: Mapping[str, NodeObject]) -> None:
        """All Node objects of the cluster, by name, in a mapping that nobody changes. What follows from them
        shows with the next ticks, since they may be thousands."""
        held = self._clusters.get(cluster)
        if held is None:
            return
        held.objects = nodes
        for name, node in nodes.items():
            record = held.nodes.get(name)
            if record is None and node.accelerators:
                record = self._new(held, name)
            if record is not None and record.object is not node:
                self._set_object(record, node)
        for record in held.nodes.values():
            if record.object is not None and record.node not in nodes:
                self._set_object(record, None)

    def _set_object(self, record: NodeRecord, node: NodeObject | None) -> None:
        had, before = record.has_accelerators, self.labels(record.cluster, record.node)
        record.object = node
        if record.has_accelerators != had:
            record.look_again()
        if record.state is not None and self.labels(record.cluster, record.node) != before:
            self._touch(record.cluster, record.node)

    def take(self, cluster: str, saying: Saying) -> None:
        """Passed over if the cluster has left the list meanwhile."""
        held = self._clusters.get(cluster)
        if held is None:
            return
        now = self._clock()
        record = held.nodes.get(saying.node)
        if record is None:
            if len(held.nodes) >= self._nodes_limit:
                self._pass_over(held, saying.node)
                return
            record = self._new(held, saying.node)
        if isinstance(saying, NodeReport):
            self._take_report(held, record, saying, now)
        elif isinstance(saying, NodeFailure):
            record.failures[saying.source] = Failure(saying.text, saying.incompatible, now)
            if saying.incompatible:
                record.readings.pop(saying.source, None)
            self._refresh(held, record, now)
        else:
            self._take_unchanged(held, record, saying, now)

    def _pass_over(self, held: _Cluster, node: str) -> None:
        if not held.full:
            said = fields(cluster=held.view.id, limit=self._nodes_limit, node=node)
            log.warning("a cluster has more nodes than one may have; further nodes are ignored", extra=said)
        held.full = True

    def _take_report(self, held: _Cluster, record: NodeRecord, report: NodeReport, now: float) -> None:
        if self._ageing.is_forgotten(report.taken_at, now):
            record.failures[report.source] = Failure(_TOO_OLD, False, now)
            self._refresh(held, record, now)
            return
        reading = kept(report, now, self._ageing)
        too_much = self._too_many(held, record, report) or self._too_large(held, record, reading)
        if too_much is not None:
            record.failures[report.source] = Failure(too_much, False, now, refused=True)
            self._refresh(held, record, now)
            return
        record.failures.pop(report.source, None)
        record.readings[report.source] = reading
        self._weigh(held, record)
        shares = record.shared_out(now)
        used = report.source in {share.source for share in shares}
        if used or shares != record.shares:
            with self._recounted(held, record):
                self._writer.write(
                    record, shares, report, now, simulated=held.view.simulated, quiet=_quiet(held)
                )
        record.due = record.next_due(now, self._ageing)

    def _take_unchanged(self, held: _Cluster, record: NodeRecord, saying: NodeUnchanged, now: float) -> None:
        """It answers, but its reading goes on ageing: until it is too old to be held."""
        failure = record.failures.get(saying.source)
        if failure is not None and failure.refused:
            record.failures[saying.source] = structs.replace(failure, at=now)  # that very reading was refused
        elif saying.source not in record.readings:
            record.failures[saying.source] = Failure(_TOO_OLD, False, now)
        elif record.failures.pop(saying.source, None) is None:
            return
        self._refresh(held, record, now)

    def snapshot(self, cluster: str, node: str) -> Snapshot | None:
        """The whole of what is known of a node; None: nothing was read of it."""
        record = self._record(cluster, node)
        if record is None or not record.shares:
            return None
        return whole_node(node, parts_of(record, record.shares))

    def labels(self, cluster: str, node: str) -> Mapping[str, str]:
        """Of its Node object; where there is none to be seen, what its agent was set to pass on."""
        record = self._record(cluster, node)
        if record is not None and record.object is not None:
            return record.object.labels
        if record is None or not record.shares:
            return {}
        return dict(record.readings[record.shares[0].source].node_labels)

    def unread_node(self, cluster: str, offers: Callable[[str], bool]) -> tuple[str, str] | None:
        """Name of a node of which nothing was read and that may have devices of a resource that `offers` is
        true of, and why it was not read. None: there is no such node."""
        held = self._clusters.get(cluster)
        record = None if held is None else held.unread_node(offers)
        if record is None:
            return None
        failure = record.failure()
        return record.node, NO_SOURCE if failure is None else failure.text

    def set_unusual(self, kind: Literal["device", "pod"], texts: Mapping[UnusualKey, str | None]) -> None:
        """Devices by cluster, node and id; pods by cluster, namespace and name. None: as usual again; those
        that are not named stay as they are. An event says where it began and ended."""
        mark = self._unusual.set_devices if kind == "device" else self._unusual.set_pods
        for cluster, node in mark(texts, self._clock()):
            self._touch(cluster, node)

    # Time

    def tick(self, now: float | None = None) -> bool:
        """About once a second. True: there is more to do than should be done at once; call it again soon."""
        now = self._clock() if now is None else now
        more = self._look_again(now)
        for _ in range(min(_WORK_AT_ONCE, len(self._leaving))):
            self._clear(self._leaving.popleft())
        settling = self._tables.settle()
        if abs(now - self._published_at) >= _PUBLISHED_EVERY_SECONDS:
            news, last = tuple(self.events.after(self._published_event)), self.events.last_id
            self._changes.publish(self.generation, news, last)
            self._published_at, self._published_event = now, last
        return more or settling or bool(self._leaving)

    def subscribe(self) -> Subscription:
        """What changes from now on; close it."""
        return self._changes.subscribe()

    def _look_again(self, now: float) -> bool:
        due = [
            (held, record)
            for held in self._clusters.values()
            for record in held.nodes.values()
            if record.due <= now
        ]
        work = 0
        for held, record in due:
            if work >= _WORK_AT_ONCE:
                return True
            record.due = now + _AGAIN_SECONDS  # should it fail, it does not hold up the others each time
            was_read = bool(record.readings)
            record.forget_old(now, self._ageing)
            if was_read and not record.readings:
                self._happenings.node_forgotten(record, now)
            work += self._refresh(held, record, now)
        return False

    def _refresh(self, held: _Cluster, record: NodeRecord, now: float) -> int:
        """After anything but a new reading. Gives back how much work it was."""
        if not record.is_known:
            self._forget(held, record)
            return WORK_OF_MARKING
        self._weigh(held, record)
        with self._recounted(held, record):
            work = self._writer.refresh(record, now, simulated=held.view.simulated, quiet=_quiet(held))
        record.due = record.next_due(now, self._ageing)
        return work

    def _too_many(self, held: _Cluster, record: NodeRecord, report: NodeReport) -> str | None:
        """Why the reading cannot be taken: its cluster has as many rows as one may have."""
        devices = held.devices - len(self.devices.of_node(record.number)) + len(report.snapshot.devices)
        if devices > self._devices_limit:
            return f"its cluster has more than {self._devices_limit} devices"
        processes = (
            held.processes - len(self.processes.of_node(record.number)) + len(report.snapshot.processes)
        )
        if processes > self._processes_limit:
            return f"its cluster has more than {self._processes_limit} processes"
        return None

    def _too_large(self, held: _Cluster, record: NodeRecord, reading: Kept) -> str | None:
        """Why the reading cannot be kept: it takes more memory than a node or a cluster may."""
        if reading.size > READING_LIMIT:
            return f"its reading takes {_mebibytes(reading.size)}, of {_mebibytes(READING_LIMIT)} for a node"
        before = record.readings.get(reading.source)
        size = held.size - (0 if before is None else before.size) + reading.size
        if size > self._readings_limit:
            return f"the readings of its cluster take {_mebibytes(self._readings_limit)}, which is the limit"
        return None

    def _weigh(self, held: _Cluster, record: NodeRecord) -> None:
        """After its readings changed."""
        size = sum(reading.size for reading in record.readings.values())
        held.size += size - record.size
        record.size = size

    @contextmanager
    def _recounted(self, held: _Cluster, record: NodeRecord) -> Iterator[None]:
        """While its rows change."""
        self._uncount(held, record)
        try:
            yield
        finally:
            held.devices += len(self.devices.of_node(record.number))
            held.processes += len(self.processes.of_node(record.number))

    def _uncount(self, held: _Cluster, record: NodeRecord) -> None:
        held.devices -= len(self.devices.of_node(record.number))
        held.processes -= len(self.processes.of_node(record.number))

    def _record(self, cluster: str, node: str) -> NodeRecord | None:
        held = self._clusters.get(cluster)
        return None if held is None else held.nodes.get(node)

    def _new(self, held: _Cluster, node: str) -> NodeRecord:
        cluster = held.view.id
        record = NodeRecord(cluster, node, self._tables.number(cluster, node), object=held.objects.get(node))
        held.nodes[node] = record
        return record

    def _forget(self, held: _Cluster, record: NodeRecord) -> None:
        self._uncount(held, record)
        held.size -= record.size
        held.full = False
        del held.nodes[record.node]
        self._clear(record)
        self._touch(record.cluster, record.node)

    def _clear(self, record: NodeRecord) -> None:
        self._tables.clear(record.cluster, record.node, record.number)

    def generation_of(self, clusters: Collection[str] | None) -> int:
        """Grows with each change of these clusters and with no other; None: of all."""
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


def _quiet(held: _Cluster) -> bool:
    return held.view.reachable is False


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else max(0.0, now - at)
