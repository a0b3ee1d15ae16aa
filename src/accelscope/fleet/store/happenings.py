"""Changes of state as events: one per change, and none for what another event has said already."""

from collections.abc import Mapping, Sequence

from accelscope.fleet.cluster_view import ClusterView
from accelscope.fleet.rows import DeviceRow
from accelscope.fleet.store.events import EventKind, EventLog, Severity
from accelscope.fleet.store.node_record import NodeRecord
from accelscope.fleet.store.node_rows import FRESH, INCOMPATIBLE, STALE, UNREAD

_BADNESS = {"ok": 0, "warning": 1, "critical": 2, "lost": 3}  # of `unknown` nothing can be said


def device_name(model: str | None, index: int | None, id_: str) -> str:
    """For people, who count the cards of a node; the id is in the event beside it."""
    return id_ if index is None else f"{model or id_.partition(':')[0]} #{index}"


class Happenings:
    def __init__(self, log: EventLog) -> None:
        self._log = log

    def devices(
        self, record: NodeRecord, before: Mapping[str, str], after: Sequence[DeviceRow], at: float
    ) -> None:
        """`before`: health by device id."""
        for row in after:
            was = before.get(row.id)
            if was is None:
                text = f"{_named(row)} appeared"
                self._device(EventKind.DEVICE_NEW, Severity.INFO, text, record, id_=row.id, at=at)
            elif was != row.health:
                self._health(record, row, was, at)
        for id_ in before.keys() - {row.id for row in after}:
            text = f"{id_} is no longer reported by its node"
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
        """`quiet`: its cluster is out of reach, which has been said and explains it."""
        why = f": {reason}" if reason else ""
        if state == FRESH:
            if record.told:
                self._node(EventKind.NODE_BACK, Severity.INFO, "is read again", record, at)
            record.told = False
        elif state == STALE and record.state == FRESH and not quiet:
            self._node(EventKind.NODE_STALE, Severity.WARNING, f"is stale{why}", record, at)
            record.told = True
        elif state == INCOMPATIBLE and record.state != INCOMPATIBLE:
            self._node(EventKind.NODE_INCOMPATIBLE, Severity.WARNING, f"cannot be read{why}", record, at)
            record.told = True

    def node_forgotten(self, record: NodeRecord, at: float) -> None:
        """Of one of which nothing was ever read there is nothing to say."""
        if record.state not in (None, UNREAD):
            text = "did not answer for so long that it was forgotten"
            self._node(EventKind.NODE_FORGOTTEN, Severity.WARNING, text, record, at)
            record.told = False

    def _node(self, kind: EventKind, severity: Severity, text: str, record: NodeRecord, at: float) -> None:
        self._log.add(
            kind, severity, f"{record.node} {text}", at=at, cluster=record.cluster, node=record.node
        )

    def cluster(self, was: ClusterView, now: ClusterView, at: float) -> None:
        if now.reachable is False and was.reachable is not False:
            text = f"{now.id} is out of reach: {now.text or now.reason or 'it does not say why'}"
            kind, severity = EventKind.CLUSTER_UNREACHABLE, Severity.CRITICAL
        elif now.reachable and was.reachable is False:
            text, kind, severity = f"{now.id} is within reach again", EventKind.CLUSTER_BACK, Severity.INFO
        else:
            return
        self._log.add(kind, severity, text, at=at, cluster=now.id)

    def cluster_left(self, cluster: str, at: float) -> None:
        text = f"{cluster} is no longer in the list of clusters"
        self._log.add(EventKind.CLUSTER_LEFT, Severity.INFO, text, at=at, cluster=cluster)

    def unusual(
        self,
        was: str | None,
        now: str | None,
        at: float,
        *,
        cluster: str,
        node: str | None = None,
        who: str,
        device: str | None = None,
        namespace: str | None = None,
        pod: str | None = None,
    ) -> None:
        """Another text while it goes on is no event. `who`: its name for people."""
        if (was is None) == (now is None):
            return
        began = now is not None
        self._log.add(
            EventKind.UNUSUAL_BEGAN if began else EventKind.UNUSUAL_ENDED,
            Severity.WARNING if began else Severity.INFO,
            f"{who}: {now}" if began else f"{who} is as usual again",
            at=at,
            cluster=cluster,
            node=node,
            device=device,
            namespace=namespace,
            pod=pod,
        )


def _named(row: DeviceRow) -> str:
    return device_name(row.model, row.index, row.id)
