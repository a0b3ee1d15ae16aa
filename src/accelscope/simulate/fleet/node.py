"""A node of a simulated fleet.

Simulated time of a node goes in ticks, one for each reading of its agent. A node plays the recording of its
variant: the part up to the last change of the node's description once, then the rest in a loop, with counters
that keep growing. A recording cannot contain a device fault or a workload that stops later: from then on the
node runs an agent of its own on a simulated node with that fault, which continues where the recording was.

Five faults are applied to the snapshot instead (`AgentFaults`, `in_schema`):

- reader_hang: the session runs on simulated time, but the agent's deadlines take real time, up to 8 s for
  every reading of a tool. Requests to the simulated API server would wait for them.
- source_down: the agent's watches run in threads on the machine's clock. They report an outage after their
  backoff, a second or more of real time, while simulated time may be minutes further.
- reader_garbage: no simulated driver returns an unreadable value for a single field.
- sink_down: the session runs the agent without its sinks.
- agent_schema: the agent writes one version of the schema.
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
    Device,
    Health,
    HealthState,
    HostUse,
    PodUsage,
    ReaderState,
    ReasonCount,
    SinkState,
    Snapshot,
    counted,
    identity_of,
)
from accelscope.model.update import rows_of, structure_of, update_document
from accelscope.model.wire import SCHEMA_VERSION, read_snapshot, snapshot_document
from accelscope.simulate import spec as identity
from accelscope.simulate.faults import Fault
from accelscope.simulate.fleet.faults import FleetFault, FleetFaultKind, active_fault
from accelscope.simulate.fleet.recording import Frame, Recording, Template, counters, raised, tag_of
from accelscope.simulate.node import SimulatedNode
from accelscope.simulate.spec import NodeSpec, Pauses

if TYPE_CHECKING:
    from accelscope.simulate.fleet.agent_session import AgentSession


_HANG_REASON = "no answer from the driver within 10 s"
_UNKNOWN_HEALTH = Health(HealthState.UNKNOWN, f"timeout: {_HANG_REASON}")
_UNREACHABLE = "connection refused: 10.96.0.1:443"
_FORBIDDEN = (
    'nodes is forbidden: User "system:serviceaccount:accelscope:accelscope-agent" cannot patch resource'
)
_FIELDS_SINCE_1_1 = (
    "node_labels",
    "attribution",
    "pods",
    "allocations",
    "pod_usages",
    "unattributed",
    "balances",
    "sinks",
)
_PROCESS_FIELDS_SINCE_1_2 = HostUse._fields


@dataclass(frozen=True, slots=True)
class AgentFaults:
    """Current and past faults of an agent at `at`, in seconds since the fleet started."""

    faults: Sequence[FleetFault]
    at: float
    interval_seconds: float
    phase_seconds: float  # the agent reads this long before the end of each interval

    def of_kind(self, kind: FleetFaultKind) -> tuple[FleetFault, ...]:
        return tuple(fault for fault in self.faults if fault.kind == kind and fault.begin <= self.at)

    def active(self, kind: FleetFaultKind) -> FleetFault | None:
        return active_fault(self.faults, kind, self.at)

    def readings(self, kind: FleetFaultKind) -> int:
        """The number of readings during faults of that kind, as a counter."""
        faults = self.of_kind(kind)
        ends = (self.at if fault.until is None else min(self.at, fault.until) for fault in faults)
        return sum(self._tick(end) - self._tick(fault.begin) for fault, end in zip(faults, ends, strict=True))

    def _tick(self, at: float) -> int:
        return math.floor((at + self.phase_seconds) / self.interval_seconds + 1e-6)

    def apply(self, snapshot: Snapshot) -> Snapshot:
        snapshot = replace(
            snapshot,
            readers=tuple(self._reader(reader, snapshot.taken_at) for reader in snapshot.readers),
            attribution=tuple(
                self._pods(source, snapshot.taken_at) if source.source == "pods" else source
                for source in snapshot.attribution
            ),
            sinks=tuple(self._sink(sink, snapshot.taken_at) for sink in snapshot.sinks),
            pod_usages=tuple(self._idle_usages(snapshot)),
        )
        if (hang := self.active(FleetFaultKind.READER_HANG)) is not None:
            return _without_readings(snapshot, self._since(hang, snapshot.taken_at))
        if self.active(FleetFaultKind.READER_GARBAGE) is not None and snapshot.devices:
            first, *others = snapshot.devices
            return replace(snapshot, devices=(_without_power(first), *others))
        return snapshot

    def _since(self, fault: FleetFault, now: float) -> float:
        """The wall-clock time when it began."""
        return now - (self.at - fault.begin)

    def _last_success(self, fault: FleetFault | None, now: float) -> float:
        return now if fault is None else self._since(fault, now)

    def _reader(self, state: ReaderState, now: float) -> ReaderState:
        hang, hangs = self.active(FleetFaultKind.READER_HANG), len(self.of_kind(FleetFaultKind.READER_HANG))
        rejected = self.readings(FleetFaultKind.READER_GARBAGE)
        state = replace(
            state,
            errors=_increased(state.errors, "timeout", hangs),
            rejected=_increased(state.rejected, "unreadable", rejected),
        )
        if hang is None:
            return state
        return replace(
            state,
            up=False,
            reason=_HANG_REASON,
            last_success=self._since(hang, now),
            devices_seen=0,
            abandoned_calls=state.abandoned_calls + 1,
        )

    def _pods(self, state: AttributionSourceState, now: float) -> AttributionSourceState:
        down, count = self.active(FleetFaultKind.SOURCE_DOWN), self.readings(FleetFaultKind.SOURCE_DOWN)
        if not count:
            return state
        return replace(
            state,
            up=down is None,
            reason=None if down is None else "unreachable",
            error=_UNREACHABLE,
            last_success=self._last_success(down, now),
            errors=_increased(state.errors, "unreachable", count),
        )

    def _sink(self, state: SinkState, now: float) -> SinkState:
        down, count = self.active(FleetFaultKind.SINK_DOWN), self.readings(FleetFaultKind.SINK_DOWN)
        if not count:
            return state
        return replace(
            state,
            up=down is None,
            reason=None if down is None else "forbidden",
            error=_FORBIDDEN,
            last_success=self._last_success(down, now),
            writes=max(0, state.writes - count),
            errors=_increased(state.errors, "forbidden", count),
        )

    def _idle_usages(self, snapshot: Snapshot) -> Iterable[PodUsage]:
        """Adds the idle time before the node's own agent started."""
        idle_faults = (fault for fault in self.of_kind(FleetFaultKind.IDLE) if fault.active(self.at))
        since = {fault.process: fault.begin for fault in idle_faults}
        pods = {
            p.owner.pod_uid: self.at - since[p.name]
            for p in snapshot.processes
            if p.owner is not None and p.name in since
        }
        for usage in snapshot.pod_usages:
            idle = usage.idle_seconds
            longer = None if idle is None else max(idle, pods.get(usage.pod_uid, 0.0))
            yield usage if longer == idle else replace(usage, idle_seconds=longer)


def _increased(counts: Iterable[ReasonCount], reason: str, by: int) -> tuple[ReasonCount, ...]:
    found = Counter({each.reason: each.count for each in counts})
    if by:
        found[reason] += by
    return counted(found)


def _without_readings(snapshot: Snapshot, last_read: float) -> Snapshot:
    """All devices are stale: each keeps only its identity."""
    devices = tuple(
        replace(
            identity_of(device),
            stale=True,
            health=_UNKNOWN_HEALTH,
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
    """The document in another version of the schema: an older one lacks later fields, a newer one has an
    unknown field."""
    own = tuple(map(int, SCHEMA_VERSION.split(".")))
    wanted = tuple(map(int, version.split(".")))
    converted = {**document, "schema_version": version}
    removed_from_processes: set[str] = set()
    if wanted < (1, 1):
        converted = _without(converted, _FIELDS_SINCE_1_1)
        removed_from_processes.add("owner")
    if wanted < (1, 2):
        removed_from_processes.update(_PROCESS_FIELDS_SINCE_1_2)
    if removed_from_processes:
        processes = converted.get("processes", ())
        converted["processes"] = [_without(process, removed_from_processes) for process in processes]
    if wanted > own:
        converted["not_invented_yet"] = {"answer": 42}
    return converted


def is_readable(version: str) -> bool:
    """Whether the version has the same major number as ours."""
    return version.partition(".")[0] == SCHEMA_VERSION.partition(".")[0]


def _without(document: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


_GZIP = 31  # zlib's `wbits` for gzip with the largest window
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
        self.node = SimulatedNode(
            spec, "/nowhere"
        )  # for readings, pods and capacity; its folder is not built
        self._templates: dict[tuple[int, int], Template] = {}
        self._updates: dict[tuple[int, int], tuple[str, bytes]] = {}
        self._structures: list[tuple[object, ...]] = []
        # Earlier times belong to events before the loop, such as the last reading of a lost device: they are
        # the same in each round.
        begin = recording.frames[recording.loop_from].at - interval_seconds
        self._settled = self.node.epoch + begin if recording.loop_from else -math.inf

    @property
    def length(self) -> int:
        return len(self.recording.frames)

    @property
    def looped(self) -> int:
        """The number of readings in one round of the loop."""
        return self.length - self.recording.loop_from

    def place(self, tick: int) -> tuple[int, int]:
        """The number of rounds before that reading, and the index of its frame."""
        rounds = max(0, (tick - self.recording.loop_from) // self.looped)
        return rounds, tick - rounds * self.looped

    def frame(self, tick: int) -> Frame:
        return self.recording.frames[self.place(tick)[1]]

    def document(self, tick: int) -> dict[str, Any]:
        """The recorded document, with counters increased by the rounds before."""
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
            self._templates.pop((place[0] - 2, place[1]), None)  # no node is two rounds behind
        return known

    def update(self, tick: int) -> tuple[str, bytes]:
        """The structure of that reading, and the agent's update for a client that has it."""
        place = self.place(tick)
        known = self._updates.get(place)
        if known is None:
            snapshot = read_snapshot(self.document(tick))
            rows = rows_of(snapshot)
            structure = structure_of(snapshot, rows)
            if structure not in self._structures:
                self._structures.append(structure)
            name = f"{id(self):x}-{self._structures.index(structure)}"
            known = self._updates[place] = name, update_document(rows)
            self._updates.pop((place[0] - 2, place[1]), None)
        return known


@dataclass(slots=True)
class _OwnAgent:
    """The agent of a node with a fault, from the reading `tick` on."""

    session: "AgentSession"
    idle: dict[str, Pauses]
    tick: int
    at: float  # simulated time of that reading
    delay: float  # added to seconds since the fleet started, it gives simulated time
    moving: float  # added to times of its documents, it gives the wall-clock time
    offsets: dict[str, float]  # added to counters, so that they continue those of the recording
    last: dict[str, float]  # counters of the last reading


@dataclass(slots=True)
class _Reading:
    tick: int = -1
    document: bytes = b""
    readable: bytes = b""  # the document in our schema
    annotations: dict[str, str] = field(default_factory=dict)


class FleetNode:
    """`number` is unique in the fleet; `epoch` is the wall-clock time when the fleet started."""

    def __init__(self, name: str, number: int, variant: Variant, *, seed: int, epoch: float) -> None:
        self.name = name
        self.tag = tag_of(number)
        self.variant = variant
        self.faults: tuple[FleetFault, ...] = ()
        self._epoch = epoch
        self._interval = variant.interval_seconds
        # In readings. Where the description has changes at given times, all nodes start at the beginning.
        spread = 0 if variant.recording.loop_from else variant.length - 1
        self._ahead = identity.whole(0, spread, seed, "ahead", number)
        self._phase = identity.fraction(seed, "phase", number) * self._interval
        self._changes = 0
        self._own: _OwnAgent | None = None
        self._own_from: int | None = None  # the reading from which on it needs an agent of its own
        self._reading = _Reading()
        self._lock = threading.Lock()

    def tick(self, at: float) -> int:
        """The number of readings by `at`, in seconds since the fleet started."""
        return math.floor((at + self._phase) / self._interval)

    def taken_at(self, at: float) -> float:
        """When its last reading was taken, in seconds since the epoch."""
        return self._epoch + self.tick(at) * self._interval - self._phase

    def etag(self, at: float) -> str:
        return f'W/"{self._epoch:.6f}-{self.tick(at)}.{self._changes}"'

    def age(self, at: float) -> float:
        return max(0.0, self._epoch + at - self.taken_at(at))

    @property
    def has_own_agent(self) -> bool:
        """If so, a document takes as long as a reading of the agent."""
        return self._own_from is not None

    def document(self, at: float) -> bytes:
        return self._read(at).document if self.faults else self._played(at)

    def update(self, at: float) -> tuple[str, bytes] | None:
        """The structure of the last reading and the agent's update; None: it always sends the whole
        snapshot."""
        return None if self.faults else self.variant.update(self.tick(at) + self._ahead)

    def readable(self, at: float) -> bytes:
        """The document in a schema that this version reads: metrics do not depend on the agent's schema."""
        return self._read(at).readable if self.faults else self._played(at)

    def annotations(self, at: float) -> dict[str, str]:
        """The annotations that the agent writes on the Node object."""
        if self.faults:
            return self._read(at).annotations
        frame = self.variant.frame(self.tick(at) + self._ahead)
        return _dated(frame.annotations, self.variant.node.epoch + frame.at, self.taken_at(at))

    def simulated(self, at: float) -> tuple[SimulatedNode, float]:
        """The simulated node of the last reading, and its simulated time."""
        tick = self.tick(at)
        if self._own is None:
            return self.variant.node, self.variant.frame(tick + self._ahead).at
        return self._own.session.node, self._own.at + (tick - self._own.tick) * self._interval

    def set_faults(self, faults: Sequence[FleetFault], at: float) -> None:
        """`faults` are all current and past faults of the node."""
        faults = tuple(faults)
        if self.faults == faults:
            return
        self._changes += 1
        self.faults = faults
        self._reading.tick = -1
        needs_agent = any(f.kind == FleetFaultKind.IDLE or f.as_node_fault(0.0) is not None for f in faults)
        if needs_agent and self._own_from is None:
            self._own_from = self.tick(at)

    def active_fault(self, kind: FleetFaultKind, at: float) -> FleetFault | None:
        return active_fault(self.faults, kind, at)

    def close(self) -> None:
        with self._lock:
            if self._own is not None:
                self._own.session.close()
                self._own = None

    def _shifts(self, tick: int) -> tuple[float, float]:
        """The differences between recorded and wall-clock time: for times that move with the reading, and for
        those that are the same in each round."""
        wall = self._epoch + tick * self._interval - self._phase
        frame, (rounds, _) = self.variant.frame(tick + self._ahead), self.variant.place(tick + self._ahead)
        moving = wall - (self.variant.node.epoch + frame.at)
        return moving, moving - rounds * self.variant.looped * self._interval

    def _played(self, at: float) -> bytes:
        tick = self.tick(at)
        moving, fixed = self._shifts(tick)
        return self.variant.template(tick + self._ahead).fill(self.name, self.tag, moving=moving, fixed=fixed)

    def _read(self, at: float) -> _Reading:
        """The last reading of a node that has or had faults."""
        with self._lock:
            tick = self.tick(at)
            if self._reading.tick != tick:
                self._reading = self._with_faults(tick, at)
            return self._reading

    def _with_faults(self, tick: int, at: float) -> _Reading:
        from accelscope.simulate.fleet.agent_session import node_annotations  # noqa: PLC0415 - imports the agent

        text = self._collected(tick) if self.has_own_agent else self._played(at)
        read_at = max(at if tick <= 0 else tick * self._interval - self._phase, 0.0)
        agent = AgentFaults(self.faults, read_at, self._interval, self._phase)
        snapshot = agent.apply(read_snapshot(json.loads(text)))
        document = snapshot_document(snapshot)
        readable = served = _compact(document)
        other = self.active_fault(FleetFaultKind.AGENT_SCHEMA, at)
        if other is not None and other.schema is not None:
            served = _compact(in_schema(document, other.schema))
            if is_readable(other.schema):
                readable = served
        return _Reading(tick, served, readable, node_annotations(snapshot))

    def _collected(self, tick: int) -> bytes:
        """The document of a reading of the node's own agent."""
        own = self._own_agent(tick)
        own.session.schedule(self._device_faults(own.delay))
        reading = own.session.collect(own.at + (tick - own.tick) * self._interval)
        document, variant = reading.document(), self.variant
        now = counters(document)
        for place, value in now.items():
            if value < own.last.get(place, value):
                own.offsets.pop(place, None)  # the counter was reset
        own.last = now
        variant.recording.identities.add(document)
        document["agent"]["started_at"] = variant.frame(0).document()["agent"]["started_at"]
        template = Template(raised(document, own.offsets), variant.recording.identities)
        return template.fill(self.name, self.tag, moving=own.moving, fixed=self._shifts(0)[1])

    def _own_agent(self, tick: int) -> _OwnAgent:
        """Opens a new session if there is none, or if the idle times of workloads have changed."""
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
        """The agent reads once before that reading, without the fault, so that it has rates to show."""
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
        faults = (fault.as_node_fault(delay) for fault in self.faults)
        return [fault for fault in faults if fault is not None]

    def _pauses(self, delay: float) -> dict[str, Pauses]:
        """When processes are idle, by name; this may be before simulated time 0."""
        found: dict[str, Pauses] = {}
        for fault in self.faults:
            if fault.kind == FleetFaultKind.IDLE and fault.process is not None:
                end = math.inf if fault.until is None else fault.until + delay
                found[fault.process] = (*found.get(fault.process, ()), (fault.begin + delay, end))
        return found


def _dated(annotations: Mapping[str, str], recorded: float, now: float) -> dict[str, str]:
    """Replaces the recorded time of the reading by the current one."""
    before, after = (time.strftime(_TIMESTAMP, time.gmtime(at)) for at in (recorded, now))
    return {name: text.replace(before, after) for name, text in annotations.items()}


def _compact(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
