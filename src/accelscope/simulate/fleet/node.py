"""Faults of an agent that are applied to its snapshot, because a simulated node cannot cause them: drivers
that hang or return garbage as a whole, an API server that the agent does not reach, another schema.
"""

import json
import math
import threading
import time
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

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
from accelscope.model.wire import SCHEMA_VERSION, read_snapshot, snapshot_document
from accelscope.simulate import spec as identity
from accelscope.simulate.faults import Fault
from accelscope.simulate.fleet.faults import FleetFault, Trouble
from accelscope.simulate.fleet.recording import Frame, Recording, Template, counters, raised, tag_of
from accelscope.simulate.node import SimulatedNode
from accelscope.simulate.spec import NodeSpec, Pauses

if TYPE_CHECKING:
    from accelscope.simulate.fleet.agent_session import AgentSession


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


# --- fleet node ------------------------------------------------------------
# A node of a running fleet: it plays a recording of its kind, or has an agent of its own while it is faulty.
#
# Simulated time of a node goes in ticks, one for each reading of its agent. A node plays the recording of its
# variant. What leads up to the last change of the node's description is played once; the readings after it
# are repeated, and counters go on growing. A fault of a device, or a workload that stops, cannot be in the
# recording: from then on the node has a real agent on a simulated node with that fault, which continues where
# the recording was.


_GZIP = 31  # zlib's word for gzip, with the largest window
_TIMESTAMP = "%Y-%m-%dT%H:%M:%SZ"  # in annotations


def compressed(content: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    return packer.compress(content) + packer.flush()


class Variant:
    """Nodes of one kind with one seed, which play one recording."""

    def __init__(self, spec: NodeSpec, recording: Recording, interval_seconds: float) -> None:
        self.spec = spec
        self.recording = recording
        self.interval_seconds = interval_seconds
        self.node = SimulatedNode(spec, "/nowhere")  # not built: what its drivers show, pods, capacity
        self._templates: dict[tuple[int, int], Template] = {}
        # Times before this one are of something that ended before the loop, such as the last reading of a
        # device that is lost: they are the same in each round.
        begin = recording.frames[recording.loop_from].at - interval_seconds
        self._settled = self.node.epoch + begin if recording.loop_from else -math.inf

    @property
    def length(self) -> int:
        return len(self.recording.frames)

    @property
    def looped(self) -> int:
        """Readings of one round of the loop."""
        return self.length - self.recording.loop_from

    def place(self, tick: int) -> tuple[int, int]:
        """Rounds of the loop before that reading, and its frame."""
        rounds = max(0, (tick - self.recording.loop_from) // self.looped)
        return rounds, tick - rounds * self.looped

    def frame(self, tick: int) -> Frame:
        return self.recording.frames[self.place(tick)[1]]

    def document(self, tick: int) -> dict[str, Any]:
        """As recorded, with counters that go on over the rounds before."""
        rounds, _ = self.place(tick)
        growth = {place: rounds * more for place, more in self.recording.growth.items()} if rounds else {}
        return raised(self.frame(tick).document(), growth)

    def template(self, tick: int) -> Template:
        place = self.place(tick)
        known = self._templates.get(place)
        if known is None:
            known = self._templates[place] = Template(
                self.document(tick), self.recording.identities, settled=self._settled
            )
            self._templates.pop((place[0] - 2, place[1]), None)  # nobody is two rounds behind
        return known


@dataclass(slots=True)
class _OwnAgent:
    """Of a node with a fault, from the reading `tick` on."""

    session: "AgentSession"
    idle: dict[str, Pauses]
    tick: int
    at: float  # simulated time of that reading
    delay: float  # from seconds since the fleet started to simulated time
    moving: float  # from times of its documents to the wall clock
    offsets: dict[str, float]  # of counters, by which it continues what was played before
    last: dict[str, float]  # counters of the last reading


@dataclass(slots=True)
class _Reading:
    tick: int = -1
    document: bytes = b""
    readable: bytes = b""  # in our schema
    annotations: dict[str, str] = field(default_factory=dict)


class FleetNode:
    """`number` is among all nodes of the fleet; `epoch` the wall-clock time at which the fleet started."""

    def __init__(self, name: str, number: int, variant: Variant, *, seed: int, epoch: float) -> None:
        self.name = name
        self.tag = tag_of(number)
        self.variant = variant
        self.troubles: tuple[Trouble, ...] = ()
        self._epoch = epoch
        self._interval = variant.interval_seconds
        # Readings. Where something changes at a time of the description, all nodes start at the beginning.
        spread = 0 if variant.recording.loop_from else variant.length - 1
        self._ahead = identity.whole(0, spread, seed, "ahead", number)
        self._phase = identity.fraction(seed, "phase", number) * self._interval
        self._changes = 0
        self._own: _OwnAgent | None = None
        self._own_from: int | None = None  # the reading after which it needs an agent of its own
        self._reading = _Reading()
        self._lock = threading.Lock()

    def tick(self, at: float) -> int:
        """Readings that the agent has made by `at`, in seconds since the fleet started."""
        return math.floor((at + self._phase) / self._interval)

    def taken_at(self, at: float) -> float:
        """Seconds since the epoch of its last reading."""
        return self._epoch + self.tick(at) * self._interval - self._phase

    def etag(self, at: float) -> str:
        return f'W/"{self._epoch:.6f}-{self.tick(at)}.{self._changes}"'

    def age(self, at: float) -> float:
        return max(0.0, self._epoch + at - self.taken_at(at))

    @property
    def has_own_agent(self) -> bool:
        """Its documents take as long as an agent needs for a reading."""
        return self._own_from is not None

    def document(self, at: float) -> bytes:
        return self._read(at).document if self.troubles else self._played(at)

    def readable(self, at: float) -> bytes:
        """The document; where its schema is of another major version, what it says in ours: metrics do not
        change with the form of a snapshot."""
        return self._read(at).readable if self.troubles else self._played(at)

    def annotations(self, at: float) -> dict[str, str]:
        """What the agent writes on the Node."""
        if self.troubles:
            return self._read(at).annotations
        frame = self.variant.frame(self.tick(at) + self._ahead)
        return _dated(frame.annotations, self.variant.node.epoch + frame.at, self.taken_at(at))

    def simulated(self, at: float) -> tuple[SimulatedNode, float]:
        """The node behind the last reading, and its simulated time."""
        tick = self.tick(at)
        if self._own is None:
            return self.variant.node, self.variant.frame(tick + self._ahead).at
        return self._own.session.node, self._own.at + (tick - self._own.tick) * self._interval

    def suffer(self, troubles: Sequence[Trouble], at: float) -> None:
        """All that is or was wrong with it, by now."""
        troubles = tuple(troubles)
        if self.troubles == troubles:
            return
        self._changes += 1
        self.troubles = troubles
        self._reading.tick = -1
        needed = any(t.kind == FleetFault.IDLE or t.of_device(0.0) is not None for t in troubles)
        if needed and self._own_from is None:
            self._own_from = self.tick(at)

    def trouble(self, kind: FleetFault, at: float) -> Trouble | None:
        """Of that kind, if there is one at that moment."""
        return next((t for t in self.troubles if t.kind == kind and t.active(at)), None)

    def close(self) -> None:
        with self._lock:
            if self._own is not None:
                self._own.session.close()
                self._own = None

    def _shifts(self, tick: int) -> tuple[float, float]:
        """From recorded times to the wall clock: of times that move with the reading, and of those that are
        the same in each round."""
        wall = self._epoch + tick * self._interval - self._phase
        frame, (rounds, _) = self.variant.frame(tick + self._ahead), self.variant.place(tick + self._ahead)
        moving = wall - (self.variant.node.epoch + frame.at)
        return moving, moving - rounds * self.variant.looped * self._interval

    def _played(self, at: float) -> bytes:
        tick = self.tick(at)
        moving, fixed = self._shifts(tick)
        return self.variant.template(tick + self._ahead).fill(self.name, self.tag, moving=moving, fixed=fixed)

    def _read(self, at: float) -> _Reading:
        """Of a node that has or had troubles."""
        with self._lock:
            tick = self.tick(at)
            if self._reading.tick != tick:
                self._reading = self._troubled(tick, at)
            return self._reading

    def _troubled(self, tick: int, at: float) -> _Reading:
        from accelscope.simulate.fleet.agent_session import node_annotations  # noqa: PLC0415 - imports the agent

        text = self._collected(tick) if self.has_own_agent else self._played(at)
        read_at = max(at if tick <= 0 else tick * self._interval - self._phase, 0.0)
        agent = AgentTroubles(self.troubles, read_at, self._interval, self._phase)
        snapshot = agent.applied(read_snapshot(json.loads(text)))
        document = snapshot_document(snapshot)
        readable = written = _written(document)
        other = self.trouble(FleetFault.AGENT_SCHEMA, at)
        if other is not None and other.schema is not None:
            written = _written(in_schema(document, other.schema))
            if is_readable(other.schema):
                readable = written
        return _Reading(tick, written, readable, node_annotations(snapshot))

    def _collected(self, tick: int) -> bytes:
        """What the node's own agent reads."""
        own = self._own_agent(tick)
        own.session.schedule(self._device_faults(own.delay))
        reading = own.session.collect(own.at + (tick - own.tick) * self._interval)
        document, variant = reading.document(), self.variant
        now = counters(document)
        for place, value in now.items():
            if value < own.last.get(place, value):
                own.offsets.pop(place, None)  # a time that began anew
        own.last = now
        variant.recording.identities.add(document)
        document["agent"]["started_at"] = variant.frame(0).document()["agent"]["started_at"]
        template = Template(raised(document, own.offsets), variant.recording.identities)
        return template.fill(self.name, self.tag, moving=own.moving, fixed=self._shifts(0)[1])

    def _own_agent(self, tick: int) -> _OwnAgent:
        """A new one where there is none, or where workloads idle at other times than they did."""
        own = self._own
        if own is None:
            begin = self._own_from or 0
            before = counters(self.variant.document(begin + self._ahead))
            at, moving = self.variant.frame(begin + self._ahead).at, self._shifts(begin)[0]
        elif own.idle == self._pauses(own.delay):
            return own
        else:
            begin = max(own.tick, tick - 1)
            before = {place: value + own.offsets.get(place, 0.0) for place, value in own.last.items()}
            at, moving = own.at + (begin - own.tick) * self._interval, own.moving
            own.session.close()
        self._own = self._opened(begin, at, moving, before)
        return self._own

    def _opened(self, tick: int, at: float, moving: float, before: dict[str, float]) -> _OwnAgent:
        """It reads once before that reading, so that it has seen its devices well and has rates to show."""
        from accelscope.simulate.fleet.agent_session import AgentSession  # noqa: PLC0415 - imports the agent

        delay = at - (tick * self._interval - self._phase)
        idle = self._pauses(delay)
        start = max(0.0, at - self._interval)
        faults = self._device_faults(delay)
        session = AgentSession(self.variant.spec, self._interval, start, faults=faults, idle=idle)
        first = counters(session.collect(at).document())
        offsets = {place: before[place] - value for place, value in first.items() if place in before}
        return _OwnAgent(session, idle, tick, at, delay, moving, offsets, first)

    def _device_faults(self, delay: float) -> list[Fault]:
        return [fault for trouble in self.troubles if (fault := trouble.of_device(delay)) is not None]

    def _pauses(self, delay: float) -> dict[str, Pauses]:
        """Times in which processes are idle, by name; they may have begun before simulated time did."""
        found: dict[str, Pauses] = {}
        for trouble in self.troubles:
            if trouble.kind == FleetFault.IDLE and trouble.process is not None:
                end = math.inf if trouble.until is None else trouble.until + delay
                found[trouble.process] = (*found.get(trouble.process, ()), (trouble.begin + delay, end))
        return found


def _dated(annotations: Mapping[str, str], recorded: float, now: float) -> dict[str, str]:
    """With the time of the reading in the place of the recorded one."""
    before, after = (time.strftime(_TIMESTAMP, time.gmtime(at)) for at in (recorded, now))
    return {name: text.replace(before, after) for name, text in annotations.items()}


def _written(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
