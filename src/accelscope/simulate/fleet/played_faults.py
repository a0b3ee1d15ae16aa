"""Faults of an agent that are applied to its snapshot, because a simulated node cannot cause them: drivers
that hang or return garbage as a whole, an API server that the agent does not reach, another schema."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from accelscope.model import (
    Absence,
    AbsenceReason,
    AttributionSourceState,
    Counted,
    Device,
    Health,
    HealthState,
    HostUse,
    PodUsage,
    ReaderState,
    SinkState,
    Snapshot,
    counted,
    identity_of,
)
from accelscope.model.wire import SCHEMA_VERSION
from accelscope.simulate.fleet.faults import FleetFault, Trouble

_HANGING = "no answer from the driver within 10 s"
_SILENT = Health(HealthState.UNKNOWN, f"timeout: {_HANGING}")
_UNREACHABLE = "connection refused: 10.96.0.1:443"
_REFUSED = (
    'nodes is forbidden: User "system:serviceaccount:accelscope:accelscope-agent" cannot patch resource'
)
# Fields that earlier schemas do not have.
_SINCE_1_1 = (
    "node_labels",
    "attribution",
    "pods",
    "allocations",
    "pod_usages",
    "unattributed",
    "balances",
    "sinks",
)
_OF_PROCESSES_SINCE_1_2 = HostUse._fields


@dataclass(frozen=True, slots=True)
class AgentTroubles:
    """What is and was wrong with an agent at `at`, in seconds since the fleet started."""

    troubles: Sequence[Trouble]
    at: float
    interval_seconds: float
    phase_seconds: float  # the agent reads so much before each interval is over

    def of_kind(self, kind: FleetFault) -> tuple[Trouble, ...]:
        return tuple(t for t in self.troubles if t.kind == kind and t.begin <= self.at)

    def active(self, kind: FleetFault) -> Trouble | None:
        return next((t for t in self.of_kind(kind) if t.active(self.at)), None)

    def readings(self, kind: FleetFault) -> int:
        """Readings during troubles of that kind: a number that only grows."""
        ends = ((t, self.at if t.until is None else min(self.at, t.until)) for t in self.of_kind(kind))
        return sum(self._tick(end) - self._tick(trouble.begin) for trouble, end in ends)

    def _tick(self, at: float) -> int:
        return math.floor((at + self.phase_seconds) / self.interval_seconds + 1e-6)

    def applied(self, snapshot: Snapshot) -> Snapshot:
        snapshot = replace(
            snapshot,
            readers=tuple(self._reader(reader, snapshot.taken_at) for reader in snapshot.readers),
            attribution=tuple(
                self._pods(source, snapshot.taken_at) if source.source == "pods" else source
                for source in snapshot.attribution
            ),
            sinks=tuple(self._sink(sink, snapshot.taken_at) for sink in snapshot.sinks),
            pod_usages=tuple(self._idling(snapshot)),
        )
        if (hang := self.active(FleetFault.READER_HANG)) is not None:
            return _silenced(snapshot, self._since(hang, snapshot.taken_at))
        if self.active(FleetFault.READER_GARBAGE) is not None and snapshot.devices:
            first, *others = snapshot.devices
            return replace(snapshot, devices=(_without_power(first), *others))
        return snapshot

    def _since(self, trouble: Trouble, now: float) -> float:
        """When it began, by the wall clock."""
        return now - (self.at - trouble.begin)

    def _last_success(self, trouble: Trouble | None, now: float) -> float:
        return now if trouble is None else self._since(trouble, now)

    def _reader(self, state: ReaderState, now: float) -> ReaderState:
        hang, hangs = self.active(FleetFault.READER_HANG), len(self.of_kind(FleetFault.READER_HANG))
        rejected = self.readings(FleetFault.READER_GARBAGE)
        state = replace(
            state,
            errors=_more(state.errors, "timeout", hangs),
            rejected=_more(state.rejected, "unreadable", rejected),
        )
        if hang is None:
            return state
        return replace(
            state,
            up=False,
            reason=_HANGING,
            last_success=self._since(hang, now),
            devices_seen=0,
            abandoned_calls=state.abandoned_calls + 1,
        )

    def _pods(self, state: AttributionSourceState, now: float) -> AttributionSourceState:
        down, count = self.active(FleetFault.SOURCE_DOWN), self.readings(FleetFault.SOURCE_DOWN)
        if not count:
            return state
        return replace(
            state,
            up=down is None,
            reason=None if down is None else "unreachable",
            error=_UNREACHABLE,
            last_success=self._last_success(down, now),
            errors=_more(state.errors, "unreachable", count),
        )

    def _sink(self, state: SinkState, now: float) -> SinkState:
        down, count = self.active(FleetFault.SINK_DOWN), self.readings(FleetFault.SINK_DOWN)
        if not count:
            return state
        return replace(
            state,
            up=down is None,
            reason=None if down is None else "forbidden",
            error=_REFUSED,
            last_success=self._last_success(down, now),
            writes=max(0, state.writes - count),
            errors=_more(state.errors, "forbidden", count),
        )

    def _idling(self, snapshot: Snapshot) -> Iterable[PodUsage]:
        """An agent that started after the pod became idle takes the time from its predecessor."""
        since = {t.process: t.begin for t in self.of_kind(FleetFault.IDLE) if t.active(self.at)}
        pods = {
            p.owner.pod_uid: self.at - since[p.name]
            for p in snapshot.processes
            if p.owner is not None and p.name in since
        }
        for usage in snapshot.pod_usages:
            idle = usage.idle_seconds
            known = None if idle is None else max(idle, pods.get(usage.pod_uid, 0.0))
            yield usage if known == idle else replace(usage, idle_seconds=known)


def _more(counts: Iterable[Counted], reason: str, more: int) -> tuple[Counted, ...]:
    found = Counter({each.reason: each.count for each in counts})
    if more:
        found[reason] += more
    return counted(found)


def _silenced(snapshot: Snapshot, last_read: float) -> Snapshot:
    """No device can be read: each keeps its identity only, since old values would pass for new ones."""
    devices = tuple(
        replace(
            identity_of(device),
            stale=True,
            health=_SILENT,
            errors=device.errors,
            read_at=device.read_at if device.stale else last_read,
        )
        for device in snapshot.devices
    )
    usages = tuple(
        PodUsage(
            device=usage.device,
            partition=usage.partition,
            namespace=usage.namespace,
            pod=usage.pod,
            container=usage.container,
            pod_uid=usage.pod_uid,
            allocated=usage.allocated,
            resources=usage.resources,
        )
        for usage in snapshot.pod_usages
        if usage.allocated
    )
    return replace(snapshot, devices=devices, processes=(), pod_usages=usages, unattributed=(), balances=())


def _without_power(device: Device) -> Device:
    if device.stale:
        return device
    absence = Absence("power_watts", AbsenceReason.UNREADABLE)
    return replace(device, power_watts=None, absent=(*device.absent, absence))


def in_schema(document: dict[str, Any], version: str) -> dict[str, Any]:
    """As an agent of that version would write it: an older one without what came later, a newer one with a
    field that is not known yet."""
    own = tuple(map(int, SCHEMA_VERSION.split(".")))
    wanted = tuple(map(int, version.split(".")))
    written = {**document, "schema_version": version}
    unknown_of_processes: set[str] = set()
    if wanted < (1, 1):
        written = _without(written, _SINCE_1_1)
        unknown_of_processes.add("owner")
    if wanted < (1, 2):
        unknown_of_processes.update(_OF_PROCESSES_SINCE_1_2)
    if unknown_of_processes:
        processes = written.get("processes", ())
        written["processes"] = [_without(process, unknown_of_processes) for process in processes]
    if wanted > own:
        written["not_invented_yet"] = {"answer": 42}
    return written


def is_readable(version: str) -> bool:
    """Whether readers of our schema read it: of the same major version."""
    return version.partition(".")[0] == SCHEMA_VERSION.partition(".")[0]


def _without(document: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}
