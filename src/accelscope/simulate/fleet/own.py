"""What a simulated agent tells of itself: how its readers, sources, sinks and its own process are doing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from accelscope.model import (
    Absence,
    AbsenceReason,
    AgentState,
    AttributionSourceState,
    Counted,
    Device,
    Health,
    HealthState,
    ReaderState,
    SinkState,
    Vendor,
)
from accelscope.simulate.faults import Fault, FaultKind, FaultLog
from accelscope.simulate.fleet.faults import FleetFault, Trouble
from accelscope.simulate.fleet.vendors.seen import Seen, unanswered

_READ_SECONDS = 0.012  # what a pass of a reader takes, of a device
_SILENCING = frozenset({FaultKind.LOST, FaultKind.VANISHED, FaultKind.HANG, FaultKind.RESET_REQUIRED})
_SILENT = Health(HealthState.UNKNOWN, "timeout: no answer from the driver within 10 s")
_POD_WATCH_ERROR = "connection refused: 10.96.0.1:443"
_REFUSED = (
    'nodes is forbidden: User "system:serviceaccount:accelscope:accelscope-agent" cannot patch resource'
)
# Reasons of errors that a reader counts at each pass; one that hangs is not asked again, and counts once.
_EACH_PASS = {FaultKind.LOST: "lost", FaultKind.RESET_REQUIRED: "reset_required"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What is the agent's own in a snapshot."""

    version: str
    interval_seconds: float
    started_at: float  # seconds since the epoch

    def passes(self, begin: float, until: float | None, at: float) -> int:
        """Collections in the time from `begin` on, up to `at`: a number that only grows."""
        end = at if until is None else min(at, until)
        return int((end - begin) / self.interval_seconds) + 1 if begin <= at else 0


@dataclass(frozen=True, slots=True)
class Moment:
    """When an agent tells of itself, in simulated time and by the wall clock, and what is or was wrong with
    it; times of troubles are simulated."""

    at: float
    now: float
    troubles: Sequence[Trouble] = ()

    def of_kind(self, kind: FleetFault) -> tuple[Trouble, ...]:
        return tuple(t for t in self.troubles if t.kind == kind and t.begin <= self.at)

    def ailing(self, kind: FleetFault) -> Trouble | None:
        return next((t for t in self.of_kind(kind) if t.active(self.at)), None)

    def wall_clock(self, at: float) -> float:
        return self.now - (self.at - at)

    def last_success(self, kind: FleetFault) -> float:
        """Of what fails while there is trouble of that kind."""
        ailing = self.ailing(kind)
        return self.now if ailing is None else self.wall_clock(ailing.begin)


def as_read(seen: Seen, faults: FaultLog, agent: Agent, moment: Moment) -> Seen:
    """What comes through a reader that may be in trouble."""
    if any(device.stale for device in seen.devices):
        numbered = enumerate(seen.devices)
        dated = [_dated(device, faults.of_device(number), agent, moment) for number, device in numbered]
        seen = replace(seen, devices=dated)
    if (hangs := moment.ailing(FleetFault.READER_HANG)) is not None:
        last = _last_read(hangs.begin, agent, moment)
        silent = [unanswered(d, _SILENT, d.read_at if d.stale else last) for d in seen.devices]
        return replace(seen, devices=silent, processes=[])
    if moment.ailing(FleetFault.READER_GARBAGE) is not None:
        first, *others = seen.devices
        return replace(seen, devices=[_without_power(first), *others])
    return seen


def _dated(device: Device, faults: Iterable[Fault], agent: Agent, moment: Moment) -> Device:
    """With when it was last read, if it does not answer."""
    if not device.stale:
        return device
    silent = (fault.begin for fault in faults if fault.kind in _SILENCING and fault.active(moment.at))
    return replace(device, read_at=_last_read(min(silent, default=0.0), agent, moment))


def _last_read(silent_since: float, agent: Agent, moment: Moment) -> float | None:
    """None: it was silent when the agent started."""
    at = moment.wall_clock(silent_since)
    return at if at > agent.started_at else None


def _without_power(device: Device) -> Device:
    if device.stale:
        return device
    absence = Absence("power_watts", AbsenceReason.UNREADABLE)
    return replace(device, power_watts=None, absent=(*device.absent, absence))


def reader_state(
    vendor: str, seen: Seen, faults: Iterable[Fault], agent: Agent, moment: Moment
) -> ReaderState:
    unread = [device for device in seen.devices if device.stale]
    hangs = moment.of_kind(FleetFault.READER_HANG)
    silent = moment.ailing(FleetFault.READER_HANG) is not None
    up = not silent and (len(unread) < len(seen.devices) or not seen.devices)
    rejected = sum(
        agent.passes(t.begin, t.until, moment.at) for t in moment.of_kind(FleetFault.READER_GARBAGE)
    )
    faults = tuple(faults)
    hung = sum(fault.kind is FaultKind.HANG and fault.active(moment.at) for fault in faults)
    return ReaderState(
        vendor=Vendor(vendor),
        found=True,
        up=up,
        source=seen.source,
        driver_version=seen.driver_version,
        reason=None if up else "no answer from the driver within 10 s" if silent else "no device answers",
        duration_seconds=_READ_SECONDS,
        last_success=moment.last_success(FleetFault.READER_HANG),
        devices_expected=len(seen.devices),
        devices_seen=len(seen.devices) - len(unread),
        abandoned_calls=hung + silent,
        errors=_errors(faults, agent, moment.at, timeouts=len(hangs)),
        rejected=(Counted("unreadable", rejected),) if rejected else (),
    )


def _errors(faults: Sequence[Fault], agent: Agent, at: float, *, timeouts: int) -> tuple[Counted, ...]:
    counts: Counter[str] = Counter()
    for fault in faults:
        if fault.kind in _EACH_PASS:
            counts[_EACH_PASS[fault.kind]] += agent.passes(fault.begin, fault.until, at)
        elif fault.kind is FaultKind.HANG and fault.begin <= at:
            timeouts += 1
    counts["timeout"] += timeouts
    return tuple(Counted(reason, count) for reason, count in sorted(counts.items()) if count)


def source_states(agent: Agent, moment: Moment, *, shared: bool) -> tuple[AttributionSourceState, ...]:
    """`shared`: a scheduler wrote shares of devices on pods, and they are read."""
    others = ["annotations"] if shared else []
    return (
        AttributionSourceState(source="processes", up=True, last_success=moment.now),
        _pods(agent, moment),
        AttributionSourceState(source="pod-resources", up=True, detail="v1", last_success=moment.now),
        *(AttributionSourceState(source=name, up=True, last_success=moment.now) for name in others),
    )


def _pods(agent: Agent, moment: Moment) -> AttributionSourceState:
    kind = FleetFault.SOURCE_DOWN
    ailing, count = moment.ailing(kind), _failures(kind, agent, moment)
    return AttributionSourceState(
        source="pods",
        up=ailing is None,
        detail="api-server",
        reason=None if ailing is None else "unreachable",
        error=_POD_WATCH_ERROR if count else None,
        last_success=moment.last_success(kind),
        errors=(Counted("unreachable", count),) if count else (),
    )


def sink_states(vendors: Iterable[str], agent: Agent, moment: Moment) -> tuple[SinkState, ...]:
    """Of nodes with Ascend chips, which have an annotation. Each reading differs from the one before it, so
    that each is written."""
    if Vendor.ASCEND not in vendors:
        return ()
    kind = FleetFault.SINK_DOWN
    ailing, count = moment.ailing(kind), _failures(kind, agent, moment)
    return (
        SinkState(
            sink="annotation",
            up=ailing is None,
            reason=None if ailing is None else "forbidden",
            error=_REFUSED if count else None,
            last_success=moment.last_success(kind),
            writes=max(0, agent.passes(0.0, None, moment.at) - count),
            errors=(Counted("forbidden", count),) if count else (),
        ),
    )


def _failures(kind: FleetFault, agent: Agent, moment: Moment) -> int:
    return sum(agent.passes(t.begin, t.until, moment.at) for t in moment.of_kind(kind))


def agent_state(agent: Agent, at: float, devices: int, processes: int) -> AgentState:
    collections = agent.passes(0.0, None, at)
    seconds = _READ_SECONDS * (1 + devices / 8)
    return AgentState(
        version=agent.version,
        started_at=agent.started_at,
        collections=collections,
        collection_seconds=seconds,
        cpu_seconds=round(0.2 + collections * seconds, 2),
        memory_bytes=(19 << 20) + (processes << 12),
        threads=9,
        open_files=10,
    )
