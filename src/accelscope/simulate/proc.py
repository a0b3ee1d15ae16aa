"""`/proc` of a simulated node: the processes that use its devices, as the kernel shows them."""

from collections.abc import Iterable, Iterator, Mapping

from accelscope.simulate import identity
from accelscope.simulate.host import PAGE_BYTES, HostLoad
from accelscope.simulate.pods import Home
from accelscope.simulate.spec import CgroupKind, CgroupSpec, PodQos
from accelscope.simulate.workload import SimulatedProcess, boot_time, uptime_at_start

_COMM_LENGTH = 15  # the kernel keeps no more of a name
# An argument that nobody may publish: what looks for it in our output finds out whether arguments leak.
SECRET_ARGUMENT = "--api-key=not-to-be-published"  # noqa: S105  made up, and meant to be found


def proc_files(
    seed: int, epoch: float, at: float, running: Iterable[HostLoad], homes: Mapping[int, Home]
) -> dict[str, str]:
    """Paths under `/proc` and their texts. `epoch` is the wall-clock time of simulated time zero, `homes` are
    the pods by workload."""
    uptime = uptime_at_start(seed)
    files = {"stat": _node_stat(boot_time(seed, epoch)), "uptime": f"{uptime + int(at):.2f} 0.00\n"}
    for load in running:
        for name, text in _process_files(seed, load, at, homes.get(load.process.workload)):
            files[f"{load.process.pid}/{name}"] = text
    return files


def _node_stat(boot_time: int) -> str:
    return f"cpu  0 0 0 0 0 0 0 0 0 0\nbtime {boot_time}\nprocesses 4194304\n"


def _process_files(seed: int, load: HostLoad, at: float, home: Home | None) -> Iterator[tuple[str, str]]:
    process, spec = load.process, load.process.spec
    comm = spec.name[:_COMM_LENGTH]
    ids = _CgroupIds(seed, process, home)
    yield "comm", f"{comm}\n"
    yield "cmdline", "\0".join((f"/usr/bin/{spec.name}", SECRET_ARGUMENT, ""))
    yield "stat", stat_of(load, at)
    yield "status", _status(process, comm, load.resident_bytes(at))
    yield "cgroup", f"0::{ids.path}\n"
    yield "mountinfo", ids.mountinfo


def stat_of(load: HostLoad, at: float) -> str:
    """The file `stat` of a process."""
    process, comm = load.process, load.process.spec.name[:_COMM_LENGTH]
    cpu_ticks, resident = load.cpu_ticks(at), load.resident_bytes(at)
    # Fields 3 to 52 of proc_pid_stat(5): 14 and 15 are the ticks in programs and in the kernel, 22 is the
    # start in ticks since boot, 23 the virtual memory in bytes, 24 the resident memory in pages.
    in_kernel = cpu_ticks // 5
    fields = ["S", "1", str(process.pid), str(process.pid), "0", "-1", *["0"] * 5]
    fields += [str(cpu_ticks - in_kernel), str(in_kernel), "0", "0", "20", "0", "8", "0"]
    fields += [str(process.start_ticks), "8589934592", str(resident // PAGE_BYTES), *["0"] * 28]
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
    """All processes of one workload live in one pod, container, job or unit."""

    def __init__(self, seed: int, process: SimulatedProcess, home: Home | None) -> None:
        self._spec: CgroupSpec = process.spec.cgroup
        self._uid = process.spec.uid
        self._home = home  # there is one for every workload in a pod
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

    def _pod_path(self, home: Home) -> str:
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
