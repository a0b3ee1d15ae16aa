"""Processes of the node from /proc, and their owners."""

import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from accelscope.attribution.cgroup import ProcessLocation, location_from_cgroup, location_from_mountinfo
from accelscope.model import HostUse, Owner, OwnerKind, UnattributedReason

if TYPE_CHECKING:
    from accelscope.kube.objects import KubePod

_TICKS = os.sysconf("SC_CLK_TCK")  # per second
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields 14, 15, 22 and 24 of proc_pid_stat(5), counted after the program's name in parentheses.
_USER_TIME, _SYSTEM_TIME, _START_TIME, _RESIDENT = 11, 12, 19, 21
_MOST = 1 << 63  # limit of the kernel's counters
_LEAST_SECONDS = 0.25  # between two measurements: then a tick is 4 % of a CPU
_CLOCK_SET_SECONDS = 1.0  # a larger difference means that the clock was set
_BOOT_TIME = re.compile(r"^btime (\d{1,18})$", re.MULTILINE)


class ProcStat(NamedTuple):
    start_ticks: int  # since boot
    cpu_ticks: int  # user and system time of all its threads, without its children
    resident_pages: int


def proc_stat(line: bytes) -> ProcStat:
    """Parses `/proc/<pid>/stat`. Raises ValueError."""
    after_name = line.rpartition(b")")[2].split(None, _RESIDENT + 1)  # the name may contain parentheses
    try:
        start, resident = int(after_name[_START_TIME]), int(after_name[_RESIDENT])
        user, system = int(after_name[_USER_TIME]), int(after_name[_SYSTEM_TIME])
    except IndexError:
        raise ValueError("stat with too few fields") from None
    if min(start, resident, user, system) < 0 or max(start, resident, user, system) >= _MOST:
        raise ValueError("stat with an invalid number")
    return ProcStat(start, user + system, resident)


def boot_time(stat: str) -> int | None:
    """Seconds since the epoch, from the text of `/proc/stat`."""
    found = _BOOT_TIME.search(stat)
    return None if found is None else int(found[1])


def started_at(stat: ProcStat, booted: int) -> float:
    """Seconds since the epoch."""
    return (booted * _TICKS + stat.start_ticks) / _TICKS


class BootClock:
    """The node's boot time. Read again only when the clock was set: on a large machine `/proc/stat` is long
    and slow to generate."""

    def __init__(self, proc: Path, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._file = proc / "stat"
        self._clock = clock
        self._monotonic = monotonic
        self._offset = 0.0  # between both clocks when the file was read
        self._booted: int | None = None

    def booted(self) -> int | None:
        """Seconds since the epoch; None if it cannot be read."""
        offset = self._clock() - self._monotonic()
        if self._booted is None or abs(offset - self._offset) >= _CLOCK_SET_SECONDS:
            self._offset = offset
            try:
                self._booted = boot_time(self._file.read_text(errors="replace"))
            except OSError:
                self._booted = None
        return self._booted


@dataclass(slots=True)
class Meter:
    """Measures one process between reads of its `stat`."""

    cpu_ticks: int
    at: float  # monotonic seconds
    use: HostUse

    @classmethod
    def started(cls, stat: ProcStat, at: float, booted: int | None) -> "Meter":
        return cls(stat.cpu_ticks, at, _use(None, stat, booted))

    def read(self, stat: ProcStat, at: float, booted: int | None) -> None:
        """Update with a later read of the same process."""
        ratio, elapsed = self.use.cpu_ratio, at - self.at
        if elapsed >= _LEAST_SECONDS:
            used = stat.cpu_ticks - self.cpu_ticks
            ratio = None if used < 0 else used / (_TICKS * elapsed)
            self.cpu_ticks, self.at = stat.cpu_ticks, at
        self.use = _use(ratio, stat, booted)


def _use(cpu_ratio: float | None, stat: ProcStat, booted: int | None) -> HostUse:
    started = None if booted is None else started_at(stat, booted)
    return HostUse(cpu_ratio, stat.resident_pages * _PAGE_BYTES, started)


MOST_MEASURED = 250  # cached processes per collection

_FILE_BYTES = 4096
_CGROUP_BYTES = 64 << 10
_MOUNTS_BYTES = 1 << 20
# Retry times: a process may be moved to another cgroup after its start, and a missing pid may be used again.
_GONE_SECONDS = 2.0
_NOT_IN_A_POD_SECONDS = 60.0

_NOWHERE = ProcessLocation()
_Signature = tuple[int, int]  # of a process's folder: inode and change time
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class HostProcess:
    start_ticks: int
    name: str
    user: str
    location: ProcessLocation
    problem: UnattributedReason | None = None  # why the location is unknown


@dataclass(slots=True)
class _CachedProcess:
    """`host` is None if the process was not in /proc."""

    host: HostProcess | None
    until: float  # read again then
    meter: Meter | None = None
    signature: _Signature | None = None
    folder: str = ""  # its name in /proc


_NEW = _CachedProcess(None, float("-inf"))


class ProcessTable:
    def __init__(
        self,
        proc: Path,
        passwd: Path,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._proc = str(proc)
        self._passwd = passwd
        self._monotonic = monotonic
        self._boot_clock = BootClock(proc, clock, monotonic)
        self._booted: int | None = None
        self._turn = 0
        self._known: dict[int, _CachedProcess] = {}
        self._hosts: dict[int, HostProcess] = {}
        self._users: dict[int, str] = {}
        self._users_read_from: tuple[int, int] | None = None
        self.obstacle: str | None = None  # why the last look-up is incomplete

    def look_up(self, pids: Iterable[int]) -> Mapping[int, HostProcess]:
        """The processes that are in `/proc`; the same object until one changes. Other pids are forgotten."""
        self._read_users()
        self.obstacle = None
        now = self._monotonic()
        known: dict[int, _CachedProcess] = {}
        earlier, stat = self._known, os.stat
        turn, turns = self._next_turn()
        with self._opened() as proc:
            for pid in pids:
                if pid in known:
                    continue
                entry = earlier.get(pid, _NEW)
                if now < entry.until and entry.host is not None:
                    if (pid + turn) % turns == 0:
                        if self._measure(proc, entry):
                            known[pid] = entry
                        else:
                            known[pid] = self._look_up(proc, pid, entry, now)
                        continue
                    try:
                        status = stat(entry.folder, dir_fd=proc)
                    except OSError:
                        known[pid] = self._missing(now)
                        continue
                    if entry.signature == (status.st_ino, status.st_ctime_ns):
                        known[pid] = entry  # most processes of a busy node take this path: keep it short
                        continue
                known[pid] = self._look_up(proc, pid, entry, now)
        if known != self._known:
            hosts = {pid: entry.host for pid, entry in known.items() if entry.host is not None}
            if hosts != self._hosts:
                self._hosts = hosts
            self._known = known
        return self._hosts

    @property
    def uses(self) -> dict[int, HostUse]:
        """The last measurements of the processes of the last look-up, by pid."""
        return {pid: entry.meter.use for pid, entry in self._known.items() if entry.meter is not None}

    def _next_turn(self) -> tuple[int, int]:
        """The current turn and the number of turns: 1 if the clock was set, so that all are read."""
        self._turn += 1
        booted = self._boot_clock.booted()
        turns = -(-len(self._known) // MOST_MEASURED) if booted == self._booted else 1
        self._booted = booted
        return self._turn, max(1, turns)

    def _measure(self, proc: int, known: _CachedProcess) -> bool:
        """Returns False if the process is gone or another one has its pid."""
        try:
            stat = _stat(proc, f"{known.folder}/stat")
        except OSError as error:
            self._note(error)
            return False
        except ValueError:
            return False
        host, meter = known.host, known.meter
        if host is None or meter is None or stat.start_ticks != host.start_ticks:
            return False
        meter.read(stat, self._monotonic(), self._booted)
        return True

    def _look_up(self, proc: int, pid: int, known: _CachedProcess, now: float) -> _CachedProcess:
        """Read a process that is new or may have been replaced."""
        current = now < known.until
        if current and known.host is None:
            return known
        folder = f"{pid}"
        try:
            status = os.stat(folder, dir_fd=proc)
        except OSError:
            return self._missing(now)
        signature = (status.st_ino, status.st_ctime_ns)
        read = self._read(proc, pid, known.host if current else None)
        if read is None:
            same = self.obstacle is not None and known.host is not None and known.signature == signature
            return known if same else self._missing(now)
        host, stat = read
        meter = self._meter(known, stat)
        if host is known.host:
            return _CachedProcess(host, known.until, meter, signature, folder)
        until = now + _NOT_IN_A_POD_SECONDS if host.location.pod_uid is None else float("inf")
        return _CachedProcess(host, until, meter, signature, folder)

    def _meter(self, known: _CachedProcess, stat: ProcStat) -> Meter:
        """The meter of the same process, or a new one."""
        at = self._monotonic()
        if known.host is None or known.meter is None or known.host.start_ticks != stat.start_ticks:
            return Meter.started(stat, at, self._booted)
        known.meter.read(stat, at, self._booted)
        return known.meter

    def _read(self, proc: int, pid: int, known: HostProcess | None) -> tuple[HostProcess, ProcStat] | None:
        """Reads all files through one descriptor of the folder, which stays that of this process even if the
        pid is reused."""
        try:
            folder = os.open(f"{pid}", _FOLDER, dir_fd=proc)
        except OSError as error:
            self._note(error)
            return None
        try:
            stat = _stat(folder, "stat")
            if known is not None and known.start_ticks == stat.start_ticks:
                return known, stat
            name, uid = _name_and_uid(_text(folder, "status", _FILE_BYTES))
            location, problem = _location(folder)
        except OSError as error:  # the process may end between two reads
            self._note(error)
            return None
        except ValueError:
            return None
        finally:
            os.close(folder)
        return HostProcess(stat.start_ticks, name, self._users.get(uid, str(uid)), location, problem), stat

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """A descriptor of /proc; -1 if it cannot be opened, in which nothing is found."""
        try:
            descriptor = os.open(self._proc, _FOLDER)
        except OSError as error:
            self._note(error)
            yield -1
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _missing(self, now: float) -> _CachedProcess:
        """Retried after a while, or at once if there was an obstacle."""
        return _CachedProcess(None, now + _GONE_SECONDS) if self.obstacle is None else _NEW

    def _note(self, error: OSError) -> None:
        """Without file descriptors or memory, a process that cannot be read has not ended."""
        if error.errno in _EXHAUSTED:
            self.obstacle = os.strerror(error.errno)

    def _read_users(self) -> None:
        """User names by uid; read again when the file changes."""
        try:
            status = self._passwd.stat()
            version = (status.st_ino, status.st_mtime_ns)
            if version == self._users_read_from:
                return
            text = self._passwd.read_text(errors="replace")
        except OSError:
            self._users, self._users_read_from = {}, None
            return
        users: dict[int, str] = {}
        for line in text.split("\n"):
            cells = line.split(":")
            if len(cells) > 2 and cells[2].isdecimal():
                users.setdefault(int(cells[2]), cells[0])
        self._users, self._users_read_from = users, version
        for known in self._known.values():
            known.until = float("-inf")  # all are read again; their meters stay


def _stat(folder: int, file: str) -> ProcStat:
    """One read is enough: the kernel returns the whole line, and a second read would double the cost."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return proc_stat(os.read(descriptor, _FILE_BYTES))
    finally:
        os.close(descriptor)


def _text(folder: int, file: str, limit: int) -> str:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        content = part = os.read(descriptor, limit)
        while part and len(content) < limit:  # the kernel returns a long file in pages
            part = os.read(descriptor, limit - len(content))
            content += part
        return content.decode(errors="replace")
    finally:
        os.close(descriptor)


def _name_and_uid(status: str) -> tuple[str, int]:
    name = ""
    for line in status.split("\n"):  # not splitlines: a name may contain other line separators
        key, _, value = line.partition(":")
        if key == "Name":
            name = value.strip()
        elif key == "Uid":
            return name, int((value.split() or [""])[0])
    raise ValueError("status without a user")


def _location(folder: int) -> tuple[ProcessLocation, UnattributedReason | None]:
    try:
        location = location_from_cgroup(_text(folder, "cgroup", _CGROUP_BYTES))
    except FileNotFoundError:
        return _NOWHERE, UnattributedReason.CGROUP_HIDDEN
    except PermissionError:
        return _NOWHERE, UnattributedReason.NO_PERMISSION
    if not location.hidden:
        return location, None
    try:
        mounts = location_from_mountinfo(_text(folder, "mountinfo", _MOUNTS_BYTES))
    except PermissionError:
        return _NOWHERE, UnattributedReason.NO_PERMISSION
    except FileNotFoundError:
        mounts = _NOWHERE
    if mounts.pod_uid is None and mounts.container_id is None:
        return _NOWHERE, UnattributedReason.CGROUP_HIDDEN
    return replace(mounts, hidden=False), None


# --- owners of processes --------------------------------------------------
# The owner of a process, from its location: a pod, a Slurm job, a container, a systemd unit or a user.


GONE = Owner(kind=OwnerKind.UNKNOWN, reason=UnattributedReason.PROCESS_GONE)


@dataclass(frozen=True, slots=True)
class PodTable:
    """The pods of this node at one instant, indexed by every name that a process or the kubelet uses."""

    has_source: bool = False
    up: bool = False  # the source is up: the table is current
    by_uid: Mapping[str, "KubePod"] = field(default_factory=dict)  # also by the hash of a static pod's file
    by_container: Mapping[str, "KubePod"] = field(default_factory=dict)
    by_name: Mapping[tuple[str, str], "KubePod"] = field(default_factory=dict)  # namespace, name

    @classmethod
    def of(cls, pods: Mapping[str, "KubePod"], *, up: bool) -> "PodTable":
        by_uid, by_container, by_name = {}, {}, {}
        for pod in pods.values():
            by_uid[pod.uid] = pod
            if pod.config_hash is not None:
                by_uid[pod.config_hash] = pod
            by_name[pod.namespace, pod.name] = pod
            for container in pod.containers:
                if container.id is not None:
                    by_container[container.id] = pod
        return cls(True, up, by_uid, by_container, by_name)


NO_PODS = PodTable()


def owner_of(host: HostProcess | None, pods: PodTable) -> Owner:
    if host is None:
        return GONE
    if host.problem is not None:
        return Owner(kind=OwnerKind.UNKNOWN, reason=host.problem)
    location = host.location
    pod = _pod(location, pods)
    if pod is not None:
        return Owner(
            kind=OwnerKind.POD,
            namespace=pod.namespace,
            pod=pod.name,
            container=_container(location, pod),
            pod_uid=pod.uid,
            container_id=location.container_id,
        )
    if location.pod_uid is not None:
        reason = UnattributedReason.POD_UNKNOWN if pods.has_source else UnattributedReason.NO_POD_SOURCE
        return Owner(
            kind=OwnerKind.POD,
            name=location.pod_uid,
            container=location.container_name,
            pod_uid=location.pod_uid,
            container_id=location.container_id,
            reason=reason,
        )
    kind, name = _owner_outside_kubernetes(location, host.user)
    return Owner(
        kind=kind, name=name, container_id=location.container_id, reason=UnattributedReason.NOT_IN_A_POD
    )


def _pod(location: ProcessLocation, pods: PodTable) -> "KubePod | None":
    if location.pod_uid is not None:
        return pods.by_uid.get(location.pod_uid)
    if location.container_id is not None:
        return pods.by_container.get(location.container_id)
    return None


def _container(location: ProcessLocation, pod: "KubePod") -> str | None:
    """By its id, or by the id of the pod's container in which it runs (docker in docker); without an id, by
    the name in the mounts. A pod with one container needs neither, because the kubelet may not have published
    the id yet."""
    for container in pod.containers:
        if container.id is not None and container.id in (location.container_id, *location.outer_ids):
            return container.name
    if location.container_name is not None:
        return location.container_name
    return pod.containers[0].name if len(pod.containers) == 1 else None


def _owner_outside_kubernetes(location: ProcessLocation, user: str) -> tuple[OwnerKind, str]:
    if location.slurm_job is not None:
        return OwnerKind.SLURM_JOB, location.slurm_job
    if location.container_id is not None:
        return OwnerKind.CONTAINER, location.container_id
    if location.unit is not None:
        return OwnerKind.SYSTEMD_UNIT, location.unit
    return OwnerKind.USER, user


class OwnerCache:
    """Owners by pid, until the processes or the pods change. Processes with the same location share an Owner:
    a node has thousands of processes, but few locations."""

    def __init__(self) -> None:
        self._pods = NO_PODS
        self._hosts: Mapping[int, HostProcess] = {}
        self._owners: dict[int, Owner] = {}

    def owners(self, hosts: Mapping[int, HostProcess], pods: PodTable) -> Mapping[int, Owner]:
        """By pid."""
        if hosts is self._hosts and pods is self._pods:
            return self._owners
        by_location: dict[tuple[ProcessLocation, str, UnattributedReason | None], Owner] = {}
        owners: dict[int, Owner] = {}
        for pid, host in hosts.items():
            location = host.location, host.user, host.problem
            owner = by_location.get(location)
            if owner is None:
                owner = by_location[location] = owner_of(host, pods)
            owners[pid] = owner
        self._hosts, self._pods, self._owners = hosts, pods, owners
        return owners
