"""Events: a bounded log with increasing ids, the recorder of state changes, and subscriptions to changes."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Annotated

from msgspec import Meta, Struct

from accelscope.fleet.rows import ClusterView, DeviceRow
from accelscope.fleet.store.node_rows import FRESH, INCOMPATIBLE, STALE, UNREAD, NodeRecord

EVENTS_LIMIT = 10_000


class EventKind(StrEnum):
    DEVICE_LOST = "device_lost"
    DEVICE_BACK = "device_back"
    DEVICE_WORSE = "device_worse"
    DEVICE_BETTER = "device_better"
    DEVICE_GONE = "device_gone"  # no longer reported by a node that still reports
    DEVICE_NEW = "device_new"
    NODE_STALE = "node_stale"
    NODE_BACK = "node_back"
    NODE_FORGOTTEN = "node_forgotten"
    NODE_INCOMPATIBLE = "node_incompatible"
    CLUSTER_UNREACHABLE = "cluster_unreachable"
    CLUSTER_BACK = "cluster_back"
    CLUSTER_LEFT = "cluster_left"
    UNUSUAL_BEGAN = "unusual_began"
    UNUSUAL_ENDED = "unusual_ended"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Event(Struct, frozen=True, kw_only=True, gc=False):
    id: Annotated[int, Meta(description="increases with each event of this process")]
    at: Annotated[float, Meta(description="time of the event, in seconds since the epoch")]
    kind: Annotated[EventKind, Meta(description="type of the event")]
    severity: Annotated[Severity, Meta(description="severity of the event")]
    cluster: str
    node: Annotated[
        str | None, Meta(description="name of the node; null: the event is about the whole cluster")
    ] = None
    device: Annotated[str | None, Meta(description="id of the device")] = None
    namespace: Annotated[str | None, Meta(description="namespace of the pod")] = None
    pod: Annotated[str | None, Meta(description="name of the pod")] = None
    text: Annotated[str, Meta(description="message of the event")]


class EventLog:
    """When it is full, the oldest event of the cluster with most events is dropped, so that a storm in one
    cluster does not displace the events of others."""

    def __init__(self, limit: int = EVENTS_LIMIT) -> None:
        self._limit = limit
        self._events: dict[int, Event] = {}  # by id, the newest last
        self._ids: dict[str, deque[int]] = {}  # of each cluster, the newest last
        self._last = 0
        self._last_dropped = 0
        # The same by cluster, including removed clusters.
        self._last_of: dict[str, int] = {}
        self._last_dropped_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._events)

    @property
    def last_id(self) -> int:
        """0: there was no event yet."""
        return self._last

    @property
    def first_id(self) -> int:
        """From this id on the log is complete."""
        return self._last_dropped + 1

    def last_id_of(self, clusters: Collection[str] | None, until: int | None = None) -> int:
        """The id of the newest event of these clusters, or of the newest up to `until`; None: of all
        clusters."""
        if clusters is None:
            return self._last if until is None else until
        last = max((self._last_of.get(cluster, 0) for cluster in clusters), default=0)
        if until is None or last <= until:
            return last
        newest_first = reversed(self._events.values())
        return next((e.id for e in newest_first if e.id <= until and e.cluster in clusters), 0)

    def first_id_of(self, clusters: Collection[str] | None) -> int:
        """From this id on the log of these clusters is complete; None: of all clusters."""
        if clusters is None:
            return self.first_id
        return max((self._last_dropped_of.get(cluster, 0) for cluster in clusters), default=0) + 1

    def add(
        self,
        kind: EventKind,
        severity: Severity,
        text: str,
        *,
        at: float,
        cluster: str,
        node: str | None = None,
        device: str | None = None,
        namespace: str | None = None,
        pod: str | None = None,
    ) -> None:
        self._last += 1
        self._events[self._last] = Event(
            id=self._last,
            at=at,
            kind=kind,
            severity=severity,
            cluster=cluster,
            node=node,
            device=device,
            namespace=namespace,
            pod=pod,
            text=text,
        )
        self._ids.setdefault(cluster, deque()).append(self._last)
        self._last_of[cluster] = self._last
        if len(self._events) > self._limit:
            self._drop_one()

    def after(self, id_: int) -> list[Event]:
        """Events with a greater id that are still in the log, oldest first."""
        newest_first = takewhile(lambda event: event.id > id_, reversed(self._events.values()))
        return list(newest_first)[::-1]

    def _drop_one(self) -> None:
        most = max(self._ids.values(), key=len)
        dropped = self._events.pop(most.popleft())
        if not most:
            del self._ids[dropped.cluster]
        self._last_dropped = max(self._last_dropped, dropped.id)
        self._last_dropped_of[dropped.cluster] = dropped.id


_BADNESS = {"ok": 0, "warning": 1, "critical": 2, "lost": 3}  # `unknown` is not comparable


def device_name(model: str | None, index: int | None, id_: str) -> str:
    """A display name; the id is a field of the event."""
    return id_ if index is None else f"{model or id_.partition(':')[0]} #{index}"


class EventRecorder:
    """Records changes of state: one event per change, and none for consequences of another event."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def devices(
        self, record: NodeRecord, before: Mapping[str, str], after: Sequence[DeviceRow], at: float
    ) -> None:
        """`before` is the health by device id."""
        for row in after:
            was = before.get(row.id)
            if was is None:
                text = f"{_named(row)} appeared"
                self._device(EventKind.DEVICE_NEW, Severity.INFO, text, record, id_=row.id, at=at)
            elif was != row.health:
                self._health(record, row, was, at)
        for id_ in before.keys() - {row.id for row in after}:
            text = f"{id_} is no longer reported"
            self._device(EventKind.DEVICE_GONE, Severity.WARNING, text, record, id_=id_, at=at)

    def _health(self, record: NodeRecord, row: DeviceRow, was: str, at: float) -> None:
        now = row.health
        if now == "lost":
            kind, severity = EventKind.DEVICE_LOST, Severity.CRITICAL
        elif was == "lost":
            kind, severity = EventKind.DEVICE_BACK, Severity.INFO
        elif was not in _BADNESS or now not in _BADNESS:
            return
        elif _BADNESS[now] > _BADNESS[was]:
            kind = EventKind.DEVICE_WORSE
            severity = Severity.CRITICAL if now == "critical" else Severity.WARNING
        else:
            kind, severity = EventKind.DEVICE_BETTER, Severity.INFO
        why = f": {row.health_reason.removeprefix(f'{now}: ')}" if row.health_reason else ""
        text = f"{_named(row)} went from {was} to {now}{why}"
        self._device(kind, severity, text, record, id_=row.id, at=at)

    def _device(
        self, kind: EventKind, severity: Severity, text: str, record: NodeRecord, *, id_: str, at: float
    ) -> None:
        self._log.add(kind, severity, text, at=at, cluster=record.cluster, node=record.node, device=id_)

    def node_state(self, record: NodeRecord, state: str, reason: str | None, at: float, quiet: bool) -> None:
        """`quiet`: its cluster is unreachable, which has an event of its own."""
        why = f": {reason}" if reason else ""
        if state == FRESH:
            if record.outage_reported:
                self._node(EventKind.NODE_BACK, Severity.INFO, "is up to date again", record, at)
            record.outage_reported = False
        elif state == STALE and record.state == FRESH and not quiet:
            self._node(EventKind.NODE_STALE, Severity.WARNING, f"is stale{why}", record, at)
            record.outage_reported = True
        elif state == INCOMPATIBLE and record.state != INCOMPATIBLE:
            self._node(EventKind.NODE_INCOMPATIBLE, Severity.WARNING, f"cannot be read{why}", record, at)
            record.outage_reported = True

    def node_forgotten(self, record: NodeRecord, at: float) -> None:
        """A node that was never read has no event."""
        if record.state not in (None, UNREAD):
            text = "was removed after it did not respond for too long"
            self._node(EventKind.NODE_FORGOTTEN, Severity.WARNING, text, record, at)
            record.outage_reported = False

    def _node(self, kind: EventKind, severity: Severity, text: str, record: NodeRecord, at: float) -> None:
        self._log.add(
            kind, severity, f"{record.node} {text}", at=at, cluster=record.cluster, node=record.node
        )

    def cluster(self, was: ClusterView, now: ClusterView, at: float) -> None:
        if now.reachable is False and was.reachable is not False:
            text = f"{now.id} is unreachable: {now.text or now.reason or 'unknown reason'}"
            kind, severity = EventKind.CLUSTER_UNREACHABLE, Severity.CRITICAL
        elif now.reachable and was.reachable is False:
            text, kind, severity = f"{now.id} is reachable again", EventKind.CLUSTER_BACK, Severity.INFO
        else:
            return
        self._log.add(kind, severity, text, at=at, cluster=now.id)

    def cluster_left(self, cluster: str, at: float) -> None:
        text = f"{cluster} was removed from the list of clusters"
        self._log.add(EventKind.CLUSTER_LEFT, Severity.INFO, text, at=at, cluster=cluster)

    def unusual(
        self,
        was: str | None,
        now: str | None,
        at: float,
        *,
        cluster: str,
        node: str | None = None,
        subject: str,
        device: str | None = None,
        namespace: str | None = None,
        pod: str | None = None,
    ) -> None:
        """A changed text of an active anomaly is not an event. `subject` is the display name."""
        if (was is None) == (now is None):
            return
        began = now is not None
        self._log.add(
            EventKind.UNUSUAL_BEGAN if began else EventKind.UNUSUAL_ENDED,
            Severity.WARNING if began else Severity.INFO,
            f"{subject}: {now}" if began else f"{subject} is normal again",
            at=at,
            cluster=cluster,
            node=node,
            device=device,
            namespace=namespace,
            pod=pod,
        )


def _named(row: DeviceRow) -> str:
    return device_name(row.model, row.index, row.id)


_QUEUE_LIMIT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChange:
    """`resync`: the subscriber was too slow and missed changes; it must reload everything."""

    generation: int
    last_event: int  # id of the newest event when this was published
    nodes: tuple[tuple[str, str], ...] = ()  # cluster and name
    clusters: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    resync: bool = False


class Subscription:
    """An asynchronous iterator of changes that ends when it is closed."""

    def __init__(self, forget: Callable[["Subscription"], None]) -> None:
        self._forget = forget
        self._waiting: deque[StoreChange] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, change: StoreChange) -> None:
        if len(self._waiting) >= _QUEUE_LIMIT:
            self._waiting.clear()
            change = StoreChange(generation=change.generation, last_event=change.last_event, resync=True)
        self._waiting.append(change)
        self._arrived.set()

    def close(self) -> None:
        """Ends a pending wait. May be called twice."""
        self._closed = True
        self._arrived.set()
        self._forget(self)

    def __aiter__(self) -> AsyncIterator[StoreChange]:
        return self

    async def __anext__(self) -> StoreChange:
        while not self._waiting and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        if self._closed:
            raise StopAsyncIteration
        return self._waiting.popleft()


class ChangeFeed:
    """Collects changes until they are published to subscribers."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, str], None] = {}
        self._clusters: dict[str, None] = {}
        self._subscriptions: set[Subscription] = set()

    def subscribe(self) -> Subscription:
        subscription = Subscription(self._subscriptions.discard)
        self._subscriptions.add(subscription)
        return subscription

    def node(self, cluster: str, node: str) -> None:
        self._nodes[cluster, node] = None

    def cluster(self, cluster: str) -> None:
        self._clusters[cluster] = None

    def publish(self, generation: int, events: tuple[Event, ...], last_event: int) -> None:
        """`events` are those since the last call; `last_event` is the id of the newest one."""
        if not (self._nodes or self._clusters or events):
            return
        change = StoreChange(
            generation=generation,
            last_event=last_event,
            nodes=tuple(self._nodes),
            clusters=tuple(self._clusters),
            events=events,
        )
        self._nodes, self._clusters = {}, {}
        for subscription in list(self._subscriptions):
            subscription.put(change)
