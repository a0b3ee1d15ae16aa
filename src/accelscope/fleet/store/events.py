"""What happened, newest last: bounded, and numbered so that a reader can go on from where it was."""

from collections import deque
from enum import StrEnum
from itertools import islice
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
    id: Annotated[int, Meta(description="increases by one with each event of this process")]
    at: Annotated[float, Meta(description="seconds since the epoch")]
    kind: EventKind
    severity: Severity
    cluster: str
    node: str | None = None
    device: Annotated[str | None, Meta(description="id of the device")] = None
    namespace: str | None = None
    pod: str | None = None
    text: Annotated[str, Meta(description="for people")]


class EventLog:
    def __init__(self, limit: int = EVENTS_LIMIT) -> None:
        self._events: deque[Event] = deque(maxlen=limit)
        self._last = 0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def last_id(self) -> int:
        """0: nothing has happened yet."""
        return self._last

    @property
    def first_id(self) -> int:
        """Of the oldest that is still held; those before it are gone."""
        return self._last - len(self._events) + 1

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
        self._events.append(
            Event(
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
        )

    def after(self, id_: int) -> list[Event]:
        """Those with a greater number, oldest first."""
        known = max(0, id_ - self.first_id + 1)
        return list(islice(self._events, known, None))
