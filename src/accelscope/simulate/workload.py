"""Processes of a simulated node: their devices, load, host resources and files in /proc."""

import itertools
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from accelscope.simulate import spec
from accelscope.simulate import spec as identity
from accelscope.simulate.folder import Content, Link
from accelscope.simulate.pods import ContainerHome
from accelscope.simulate.spec import (
    DEFAULT_PERIOD_SECONDS,
    CgroupKind,
    CgroupSpec,
    LoadCurve,
    NodeSpec,
    PausedCurve,
    Pauses,
    PodQos,
    ProcessSpec,
    ProcessType,
    Shape,
)

_FULL = 0.98  # the total load of a device is scaled down to this
_LOWEST_PID = 1_000_000
_HIGHEST_PID = 4_190_000
_CHUNK = 2 << 20  # allocation unit, bytes
_MEMORY_SWING = 0.06  # fraction of its memory that a process with a changing load frees and allocates again


@dataclass(frozen=True, slots=True)
class SimulatedProcess:
    pid: int
    workload: int  # its index in the description
    spec: ProcessSpec
    start_ticks: int  # since boot, in hundredths of a second, as /proc has it


@dataclass(frozen=True, slots=True)
class Placement:
    """One process on one device or instance of it. The curve is relative to that device or instance."""

    process: SimulatedProcess
    device: int
    instance: int | None
    curve: LoadCurve
    memory_intensity: float  # memory traffic at full load, ratio

    @property
    def place(self) -> tuple[str, int, int | None]:
        """The device, or the instance of it, that it shares with other processes."""
        return self.process.spec.vendor, self.device, self.instance

    @property
    def type(self) -> ProcessType:
        return self.process.spec.type

    def memory_bytes(self, at: float) -> int:
        whole = self.process.spec.memory_bytes
        if self.curve.shape in (Shape.STEADY, Shape.IDLE):
            return whole
        swing = (1 + math.sin(math.tau * (at / (3 * self.curve.period) + self.curve.phase))) / 2
        return whole - int(whole * _MEMORY_SWING * swing) // _CHUNK * _CHUNK


def paused(placement: Placement, idle: Mapping[str, Pauses]) -> Placement:
    """A copy without load during the pauses of its process. The process keeps its memory."""
    # Counters begin at simulated time 0.
    known = idle.get(placement.process.spec.name, ())
    pauses = tuple((max(0.0, begin), until) for begin, until in known)
    if not pauses:
        return placement
    curve = placement.curve
    values = {field.name: getattr(curve, field.name) for field in fields(LoadCurve)}
    return replace(placement, curve=PausedCurve(**values, pauses=pauses))


def uptime_at_start(seed: int) -> float:
    """Uptime of the node at simulated time 0, in seconds."""
    return float(identity.whole(86_400, 90 * 86_400, seed, "uptime"))


def boot_time(seed: int, epoch: float) -> int:
    """In whole seconds since 1970, as in /proc/stat; `epoch` is the wall-clock time of simulated time 0."""
    return int(round(epoch, 3) - uptime_at_start(seed))


def place(spec: NodeSpec) -> tuple[Placement, ...]:
    """Every process on each of its devices, with loads scaled down to fit."""
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
    """`path` is the workload, the copy and the device; `pids` are those in use."""
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
    """Scales down the loads of processes that run at the same time and exceed their device."""
    by_place: dict[tuple[str, int, int | None], list[Placement]] = defaultdict(list)
    for placement in wanted:
        by_place[placement.place].append(placement)
    return tuple(
        replace(p, curve=p.curve.scaled(min(1.0, _FULL / max(_peak(p, by_place[p.place]), _FULL))))
        for p in wanted
    )


def _peak(placement: Placement, others: list[Placement]) -> float:
    """The total peak of all placements that overlap in time."""
    own = placement.curve
    return sum(o.curve.peak for o in others if o.curve.begin < own.until and own.begin < o.curve.until)


CLOCK_TICKS = 100  # per second
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_VIRTUAL_BYTES = 8 << 30
_HOST_MEMORY_GROWTH = 0.08  # ratio, under full load


class HostLoad:
    """CPU time and resident memory of one process. Like the load of devices, a function of time."""

    def __init__(self, seed: int, placements: Sequence[Placement]) -> None:
        self.process = process = placements[0].process
        self._curves = [placement.curve for placement in placements]
        self._begin = process.start_ticks / CLOCK_TICKS - uptime_at_start(seed)
        self._own = spec.between(0.004, 0.03, seed, "host cpu", process.pid)  # CPUs when idle
        # CPUs for a busy device
        self._feeding = spec.between(0.5, 1.5, seed, "feeding", process.workload)
        self._memory_bytes = spec.whole(300 << 20, 3 << 30, seed, "host memory", process.pid)

    def runs_at(self, at: float) -> bool:
        return any(curve.runs_at(at) for curve in self._curves)

    def cpu_ticks(self, at: float) -> int:
        """CPU time since its start."""
        busy = sum(curve.integral(at) - curve.integral(self._begin) for curve in self._curves)
        return int(CLOCK_TICKS * (self._own * (at - self._begin) + self._feeding * busy))

    def resident_bytes(self, at: float) -> int:
        whole = self._memory_bytes * (1 + _HOST_MEMORY_GROWTH * max(curve.at(at) for curve in self._curves))
        return int(whole) // PAGE_BYTES * PAGE_BYTES


def host_loads(seed: int, placements: Iterable[Placement]) -> list[HostLoad]:
    """One for every process, on all of its devices. Processes may reuse a pid."""
    by_process: dict[tuple[int, int], list[Placement]] = {}
    for placement in placements:
        process = placement.process
        by_process.setdefault((process.pid, process.workload), []).append(placement)
    return [HostLoad(seed, its) for its in by_process.values()]


_HEAT_STEP_SECONDS = 5.0
_HEAT_STEPS = 12
_HEAT_TIME_CONSTANT = 20.0
_HEAT_WEIGHTS = [math.exp(-step * _HEAT_STEP_SECONDS / _HEAT_TIME_CONSTANT) for step in range(_HEAT_STEPS)]


class DeviceLoad:
    """Sum of the loads on a device or a part of it. Each placement has the share of it that it runs on."""

    def __init__(self, placements: Iterable[tuple[Placement, float]]) -> None:
        self._shares = tuple(placements)

    def integral(self, at: float) -> float:
        return sum(share * placement.curve.integral(at) for placement, share in self._shares)

    def total(self, at: float) -> float:
        """Load times seconds since simulated time 0, for counters."""
        return self.integral(at) - self.integral(0.0)

    def mean(self, at: float, window: float = 1.0) -> float:
        """The mean over the last `window` seconds, as drivers report it."""
        return (self.integral(at) - self.integral(at - window)) / window

    def now(self, at: float) -> float:
        return sum(share * placement.curve.at(at) for placement, share in self._shares)

    def lagging(self, at: float) -> float:
        """The load of the last minute, weighted towards the present: it determines the temperature."""
        return sum(
            weight * self.mean(at - step * _HEAT_STEP_SECONDS, _HEAT_STEP_SECONDS)
            for step, weight in enumerate(_HEAT_WEIGHTS)
        ) / sum(_HEAT_WEIGHTS)


@dataclass(frozen=True, slots=True)
class PowerDraw:
    """Power is a linear function of the load, so energy is its exact integral."""

    idle_watts: float
    span_watts: float  # added by full load
    load: DeviceLoad

    def mean(self, at: float) -> float:
        return self.idle_watts + self.span_watts * self.load.mean(at)

    def now(self, at: float) -> float:
        return self.idle_watts + self.span_watts * self.load.now(at)

    def joules(self, at: float) -> float:
        """Energy since simulated time 0."""
        return self.idle_watts * at + self.span_watts * self.load.total(at)

    def celsius(self, at: float, *, ambient: float, at_full_power: float) -> float:
        """Temperature, which follows the power slowly."""
        power = self.idle_watts + self.span_watts * self.load.lagging(at)
        return ambient + (at_full_power - ambient) * power / (self.idle_watts + self.span_watts)


_COMM_LENGTH = 15  # the kernel truncates names
# An argument that must not be published: tests search the output for it.
SECRET_ARGUMENT = "--api-key=not-to-be-published"  # noqa: S105  made up, and meant to be found


def proc_files(
    seed: int,
    epoch: float,
    at: float,
    running: Iterable[HostLoad],
    homes: Mapping[int, ContainerHome],
    *,
    reboots: int = 0,
) -> dict[str, Content]:
    """Paths under `/proc` and their content. `epoch` is the wall-clock time of simulated time 0; `homes` is
    by workload. A reboot changes the boot id; uptime and processes go on."""
    uptime = uptime_at_start(seed)
    files: dict[str, Content] = {
        "stat": _node_stat(boot_time(seed, epoch)),
        "uptime": f"{uptime + int(at):.2f} 0.00\n",
        "sys/kernel/random/boot_id": f"{spec.uuid(seed, 'boot', reboots)}\n",
    }
    for load in running:
        for name, text in _process_files(seed, load, at, homes.get(load.process.workload)):
            files[f"{load.process.pid}/{name}"] = text
    return files


def _node_stat(boot_time: int) -> str:
    return f"cpu  0 0 0 0 0 0 0 0 0 0\nbtime {boot_time}\nprocesses 4194304\n"


def _process_files(
    seed: int, load: HostLoad, at: float, home: ContainerHome | None
) -> Iterator[tuple[str, Content]]:
    process, spec = load.process, load.process.spec
    comm = spec.name[:_COMM_LENGTH]
    ids = _CgroupIds(seed, process, home)
    yield "comm", f"{comm}\n"
    yield "cmdline", "\0".join((f"/usr/bin/{spec.name}", SECRET_ARGUMENT, ""))
    yield "exe", Link(f"/usr/bin/{spec.name}")
    yield "stat", stat_of(load, at)
    resident = load.resident_bytes(at)
    yield "status", _status(process, comm, resident)
    # Pages: virtual, resident, shared, text, libraries, data, dirty.
    yield "statm", f"{_VIRTUAL_BYTES // PAGE_BYTES} {resident // PAGE_BYTES} 0 0 0 0 0\n"
    yield "cgroup", f"0::{ids.path}\n"
    yield "mountinfo", ids.mountinfo


def stat_of(load: HostLoad, at: float) -> str:
    """The file `stat` of a process."""
    process, comm = load.process, load.process.spec.name[:_COMM_LENGTH]
    cpu_ticks, resident = load.cpu_ticks(at), load.resident_bytes(at)
    # Fields 3 to 52 of proc_pid_stat(5): 14 and 15 are the ticks in user and kernel mode, 22 is the start in
    # ticks since boot, 23 the virtual memory in bytes, 24 the resident memory in pages.
    in_kernel = cpu_ticks // 5
    fields = ["S", "1", str(process.pid), str(process.pid), "0", "-1", *["0"] * 5]
    fields += [str(cpu_ticks - in_kernel), str(in_kernel), "0", "0", "20", "0", "8", "0"]
    fields += [str(process.start_ticks), str(_VIRTUAL_BYTES), str(resident // PAGE_BYTES), *["0"] * 28]
    return f"{process.pid} ({comm}) {' '.join(fields)}\n"


def _status(process: SimulatedProcess, comm: str, resident: int) -> str:
    uid = process.spec.uid
    return (
        f"Name:\t{comm}\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t{process.pid}\nPid:\t{process.pid}\n"
        f"PPid:\t1\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        f"VmRSS:\t{resident >> 10:8} kB\nThreads:\t8\n"
    )


def docker_container(seed: int, process: SimulatedProcess) -> str:
    return process.spec.cgroup.container_id or identity.hex_id(seed, "container", process.workload)


def slurm_job(seed: int, process: SimulatedProcess) -> int:
    return process.spec.cgroup.job or identity.whole(1000, 99999, seed, "job", process.workload)


class _CgroupIds:
    """The pod, container, job or unit of the processes of a workload."""

    def __init__(self, seed: int, process: SimulatedProcess, home: ContainerHome | None) -> None:
        self._spec: CgroupSpec = process.spec.cgroup
        self._uid = process.spec.uid
        self._home = home  # set for workloads in pods
        self._container = docker_container(seed, process)
        self._job = slurm_job(seed, process)

    @property
    def path(self) -> str:
        if self._home is not None:
            return self._pod_path(self._home)
        match self._spec.kind:
            case CgroupKind.DOCKER:
                return f"/system.slice/docker-{self._container}.scope"
            case CgroupKind.SLURM:
                return f"/system.slice/slurmstepd.scope/job_{self._job}/step_0/user/task_0"
            case _:
                if self._spec.unit:
                    return f"/system.slice/{self._spec.unit}"
                return f"/user.slice/user-{self._uid}.slice/session-1.scope"

    def _pod_path(self, home: ContainerHome) -> str:
        pod = home.pod_uid.replace("-", "_")
        leaf = f"cri-containerd-{home.container_id}.scope"
        if self._spec.qos is PodQos.GUARANTEED:
            return f"/kubepods.slice/kubepods-pod{pod}.slice/{leaf}"
        qos = self._spec.qos
        return f"/kubepods.slice/kubepods-{qos}.slice/kubepods-{qos}-pod{pod}.slice/{leaf}"

    @property
    def mountinfo(self) -> str:
        home = self._home
        if home is not None:
            pod = f"/var/lib/kubelet/pods/{home.pod_uid}"
            return (
                "601 550 0:95 / / rw,relatime - overlay overlay rw\n"
                "602 601 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw\n"
                f"603 601 259:2 {pod}/etc-hosts /etc/hosts rw,relatime - ext4 /dev/nvme0n1p2 rw\n"
                f"604 601 259:2 {pod}/containers/{home.container}/{home.container_id[:8]} "
                "/dev/termination-log rw,relatime - ext4 /dev/nvme0n1p2 rw\n"
            )
        if self._spec.kind is CgroupKind.DOCKER:
            folder = f"/var/lib/docker/containers/{self._container}"
            return (
                "701 650 0:96 / / rw,relatime - overlay overlay rw\n"
                f"702 701 259:2 {folder}/hostname /etc/hostname rw,relatime - ext4 /dev/nvme0n1p2 rw\n"
            )
        return (
            "24 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n"
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup2 rw\n"
        )
