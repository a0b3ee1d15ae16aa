"""Processes of a node: who they are, where they run, how busy each is there."""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from accelscope.simulate import identity
from accelscope.simulate.load import DEFAULT_PERIOD_SECONDS, LoadCurve, PausedCurve, Pauses, Shape
from accelscope.simulate.spec import NodeSpec, ProcessSpec, ProcessType

_FULL = 0.98  # processes that want more than this of a device together are scaled down to it
_LOWEST_PID = 1_000_000
_HIGHEST_PID = 4_190_000
_CHUNK = 2 << 20  # allocators take memory in pieces of 2 MiB
_BREATHING = 0.06  # share of its memory that a process with a changing load gives back and takes again


@dataclass(frozen=True, slots=True)
class SimulatedProcess:
    pid: int
    workload: int  # its place in the description
    spec: ProcessSpec
    start_ticks: int  # since boot, in hundredths of a second, as /proc has it


@dataclass(frozen=True, slots=True)
class Placement:
    """One process on one device or instance of it. The curve is of what it runs on, not of the whole card."""

    process: SimulatedProcess
    device: int
    instance: int | None
    curve: LoadCurve
    memory_intensity: float  # memory traffic at full load, ratio

    @property
    def place(self) -> tuple[str, int, int | None]:
        """What it shares with others: the vendor's device, or an instance of it."""
        return self.process.spec.vendor, self.device, self.instance

    @property
    def type(self) -> ProcessType:
        return self.process.spec.type

    def memory_bytes(self, at: float) -> int:
        whole = self.process.spec.memory_bytes
        if self.curve.shape in (Shape.STEADY, Shape.IDLE):
            return whole
        tide = (1 + math.sin(math.tau * (at / (3 * self.curve.period) + self.curve.phase))) / 2
        return whole - int(whole * _BREATHING * tide) // _CHUNK * _CHUNK


def paused(placement: Placement, idle: Mapping[str, Pauses]) -> Placement:
    """The same, without load during the pauses of its process's name. The process keeps its memory."""
    # Counters begin at simulated time zero: a pause before it changes none of them.
    known = idle.get(placement.process.spec.name, ())
    pauses = tuple((max(0.0, begin), until) for begin, until in known)
    if not pauses:
        return placement
    curve = placement.curve
    values = {field.name: getattr(curve, field.name) for field in fields(LoadCurve)}
    return replace(placement, curve=PausedCurve(**values, pauses=pauses))


def uptime_at_start(seed: int) -> float:
    """Seconds that the node had been up at simulated time zero."""
    return float(identity.whole(86_400, 90 * 86_400, seed, "uptime"))


def boot_time(seed: int, epoch: float) -> int:
    """In whole seconds since the epoch, as the kernel tells it; `epoch` is the wall-clock time of simulated
    time zero."""
    return int(round(epoch, 3) - uptime_at_start(seed))


def place(spec: NodeSpec) -> tuple[Placement, ...]:
    """Every process on every device it uses, with loads that fit on the devices."""
    wanted: list[Placement] = []
    pids = {workload.pid for workload in spec.processes if workload.pid is not None}
    for number, workload in enumerate(spec.processes):
        for copy in range(workload.count):
            shared = _process(spec, (number, copy, None), pids) if workload.spans_devices else None
            for device in workload.devices:
                path = (number, copy, device)
                process = shared or _process(spec, path, pids)
                curve = LoadCurve(
                    shape=workload.load.shape,
                    level=workload.load.level,
                    period=workload.load.period_seconds or DEFAULT_PERIOD_SECONDS[workload.load.shape],
                    phase=identity.fraction(spec.seed, "phase", *path),
                    begin=-math.inf if workload.begin is None else workload.begin,
                    until=math.inf if workload.until is None else workload.until,
                )
                intensity = identity.between(0.3, 0.8, spec.seed, "intensity", number)
                wanted.append(Placement(process, device, workload.instance, curve, intensity))
    return _fitted(wanted)


def _process(node: NodeSpec, path: tuple[int, int, int | None], pids: set[int]) -> SimulatedProcess:
    """`path` is the workload, the copy and the device; `pids` are those already given away."""
    number, spec = path[0], node.processes[path[0]]
    pid = spec.pid or _free_pid(node.seed, path, pids)
    age = identity.between(600, 80_000, node.seed, "age", *path) if spec.begin is None else -spec.begin
    ticks = int((uptime_at_start(node.seed) - age) * 100)
    return SimulatedProcess(pid, number, spec, ticks)


def _free_pid(seed: int, path: tuple[object, ...], pids: set[int]) -> int:
    for attempt in itertools.count():
        pid = identity.whole(_LOWEST_PID, _HIGHEST_PID, seed, "pid", *path, attempt)
        if pid not in pids:
            pids.add(pid)
            break
    return pid


def _fitted(wanted: list[Placement]) -> tuple[Placement, ...]:
    """Scaled down where those that run at the same time want more than there is."""
    by_place: dict[tuple[str, int, int | None], list[Placement]] = defaultdict(list)
    for placement in wanted:
        by_place[placement.place].append(placement)
    return tuple(
        replace(p, curve=p.curve.scaled(min(1.0, _FULL / max(_peak(p, by_place[p.place]), _FULL))))
        for p in wanted
    )


def _peak(placement: Placement, others: list[Placement]) -> float:
    """Of all that run in some of its time, together."""
    own = placement.curve
    return sum(o.curve.peak for o in others if o.curve.begin < own.until and own.begin < o.curve.until)
