"""What happened, newest last: bounded, and numbered so that a reader can go on from where it was."""

from collections import deque
from collections.abc import Collection
from enum import StrEnum
from itertools import takewhile
from typing import Annotated

from msgspec import Meta, Struct

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
    at: Annotated[float, Meta(description="seconds since the epoch")]
    kind: Annotated[EventKind, Meta(description="what happened")]
    severity: Annotated[Severity, Meta(description="how much it matters")]
    cluster: str
    node: Annotated[str | None, Meta(description="name of the node; null: of the whole cluster")] = None
    device: Annotated[str | None, Meta(description="id of the device")] = None
    namespace: Annotated[str | None, Meta(description="of the pod that it is about")] = None
    pod: Annotated[str | None, Meta(description="that it is about")] = None
    text: Annotated[str, Meta(description="for people")]


class EventLog:
    """When it is full, the cluster that has most in it loses its oldest: a storm in one must not push out
    what happened in the others."""

    def __init__(self, limit: int = EVENTS_LIMIT) -> None:
        self._limit = limit
        self._events: dict[int, Event] = {}  # by id, the newest last
        self._ids: dict[str, deque[int]] = {}  # of each cluster, the newest last
        self._last = 0
        self._last_dropped = 0
        # The same by cluster, also of those that left the list.
        self._last_of: dict[str, int] = {}
        self._last_dropped_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._events)

    @property
    def last_id(self) -> int:
        """0: nothing has happened yet."""
        return self._last

    @property
    def first_id(self) -> int:
        """From here on none is missing; of those before it, some are gone."""
        return self._last_dropped + 1

    def last_id_of(self, clusters: Collection[str] | None, until: int | None = None) -> int:
        """Of the newest event of these clusters, or of the newest up to `until`; None: of all clusters."""
        if clusters is None:
            return self._last if until is None else until
        last = max((self._last_of.get(cluster, 0) for cluster in clusters), default=0)
        if until is None or last <= until:
            return last
        newest_first = reversed(self._events.values())
        return next((e.id for e in newest_first if e.id <= until and e.cluster in clusters), 0)

    def first_id_of(self, clusters: Collection[str] | None) -> int:
        """From here on no event of these clusters is missing; None: of all clusters."""
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
        """Those with a greater number that are still held, oldest first."""
        newest_first = takewhile(lambda event: event.id > id_, reversed(self._events.values()))
        return list(newest_first)[::-1]

    def _drop_one(self) -> None:
        most = max(self._ids.values(), key=len)
        dropped = self._events.pop(most.popleft())
        if not most:
            del self._ids[dropped.cluster]
        self._last_dropped = max(self._last_dropped, dropped.id)
        self._last_dropped_of[dropped.cluster] = dropped.id
