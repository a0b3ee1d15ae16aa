"""What `/proc` tells of a process: its program's name, its user, the cgroup that it lives in, and what it
takes of the node. Never its arguments: they hold secrets.

Known processes are remembered by pid and start time, so that they cost one look per collection, and a pid
that was given to another process is never taken for the old one. That look reads the process's `stat`, which
also has its CPU and memory. Where processes are very many, most are only asked whether they are still the
same, which costs a fifth of that, and they are measured in turn.
"""

import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from accelscope.attribution.cgroup import Place, place_in_mounts, place_of
from accelscope.model import HostUse, UnattributedReason

# --- host use ------------------------------------------------------------
# What a process takes of the node itself: CPU, memory and since when, from the line of `/proc/<pid>/stat`.
#
# CPU is counted in ticks of a hundredth of a second, so that it is measured between two looks that are not
# too close together. The line of a thread tells of its whole process, but for the start.


_TICKS = os.sysconf("SC_CLK_TCK")  # in a second
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields 14, 15, 22 and 24 of proc_pid_stat(5), counted after the program's name in brackets.
_USER_TIME, _SYSTEM_TIME, _START_TIME, _RESIDENT = 11, 12, 19, 21
_MOST = 1 << 63  # of what the kernel counts with
_LEAST_SECONDS = 0.25  # between two looks: a tick is 4 % of a CPU then
_CLOCK_WAS_SET_SECONDS = 1.0
_BOOT_TIME = re.compile(r"^btime (\d{1,18})$", re.MULTILINE)


class ProcStat(NamedTuple):
    start_ticks: int  # since boot
    cpu_ticks: int  # of all its threads, in programs and in the kernel; not of its children
    resident_pages: int


def proc_stat(line: bytes) -> ProcStat:
    """Raises ValueError for what is no such line."""
    after_name = line.rpartition(b")")[2].split(None, _RESIDENT + 1)  # a name may hold blanks and brackets
    try:
        start, resident = int(after_name[_START_TIME]), int(after_name[_RESIDENT])
        user, system = int(after_name[_USER_TIME]), int(after_name[_SYSTEM_TIME])
    except IndexError:
        raise ValueError("stat with too few fields") from None
    if min(start, resident, user, system) < 0 or max(start, resident, user, system) >= _MOST:
        raise ValueError("stat with a number that cannot be")
    return ProcStat(start, user + system, resident)


def boot_time(stat: str) -> int | None:
    """Seconds since the epoch, from the node's own `/proc/stat`."""
    found = _BOOT_TIME.search(stat)
    return None if found is None else int(found[1])


def started_at(stat: ProcStat, booted: int) -> float:
    """Seconds since the epoch."""
    return (booted * _TICKS + stat.start_ticks) / _TICKS


class BootClock:
    """When the node was booted by its clock of today. Read again only when that clock was set: on a large
    machine the file is long, and takes the kernel a while to make up."""

    def __init__(self, proc: Path, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._file = proc / "stat"
        self._clock = clock
        self._monotonic = monotonic
        self._ahead = 0.0  # of the clock to the monotonic one, when the file was read
        self._booted: int | None = None

    def booted(self) -> int | None:
        """Seconds since the epoch; None: the node does not tell."""
        ahead = self._clock() - self._monotonic()
        if self._booted is None or abs(ahead - self._ahead) >= _CLOCK_WAS_SET_SECONDS:
            self._ahead = ahead
            try:
                self._booted = boot_time(self._file.read_text(errors="replace"))
            except OSError:
                self._booted = None
        return self._booted


@dataclass(slots=True)
class Meter:
    """Of one process, from when it was first seen."""

    cpu_ticks: int
    at: float  # monotonic seconds
    use: HostUse

    @classmethod
    def started(cls, stat: ProcStat, at: float, booted: int | None) -> "Meter":
        return cls(stat.cpu_ticks, at, _use(None, stat, booted))

    def read(self, stat: ProcStat, at: float, booted: int | None) -> None:
        """At a later look at the same process."""
        ratio, elapsed = self.use.cpu_ratio, at - self.at
        if elapsed >= _LEAST_SECONDS:
            used = stat.cpu_ticks - self.cpu_ticks
            ratio = None if used < 0 else used / (_TICKS * elapsed)
            self.cpu_ticks, self.at = stat.cpu_ticks, at
        self.use = _use(ratio, stat, booted)


def _use(cpu_ratio: float | None, stat: ProcStat, booted: int | None) -> HostUse:
    started = None if booted is None else started_at(stat, booted)
    return HostUse(cpu_ratio, stat.resident_pages * _PAGE_BYTES, started)


MOST_MEASURED = 250  # known processes in one collection

_FILE_BYTES = 4096
_CGROUP_BYTES = 64 << 10
_MOUNTS_BYTES = 1 << 20
# What was not found is looked for again after this time: a process may be moved to another cgroup after its
# start, and a pid that /proc does not have now may be given to a process soon.
_GONE_SECONDS = 2.0
_NOT_IN_A_POD_SECONDS = 60.0

_NOWHERE = Place()
_Signature = tuple[int, int]  # of a process's folder: inode, and when it last changed
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class HostProcess:
    start_ticks: int
    name: str
    user: str
    place: Place
    problem: UnattributedReason | None = None  # why the place is not known


@dataclass(slots=True)
class _Known:
    """`host` is None where /proc did not have it."""

    host: HostProcess | None
    until: float  # looked at again then
    meter: Meter | None = None
    signature: _Signature | None = None
    folder: str = ""  # its name in /proc


_NEW = _Known(None, float("-inf"))


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
        self._known: dict[int, _Known] = {}
        self._hosts: dict[int, HostProcess] = {}
        self._users: dict[int, str] = {}
        self._users_read_from: tuple[int, int] | None = None
        self.obstacle: str | None = None  # why the last look-up saw less than there is

    def look_up(self, pids: Iterable[int]) -> Mapping[int, HostProcess]:
        """Those that `/proc` has; the same object until one of them changes. Others are forgotten."""
        self._read_users()
        self.obstacle = None
        now = self._monotonic()
        known: dict[int, _Known] = {}
        earlier, stat = self._known, os.stat
        turn, turns = self._next_turn()
        with self._opened() as proc:
            for pid in pids:
                if pid in known:
                    continue
                entry = earlier.get(pid, _NEW)
                if now < entry.until and entry.host is not None:
                    if (pid + turn) % turns == 0:
                        if self._measured(proc, entry):
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
                        known[pid] = entry  # the way of most where they are many: the less is done the better
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
        """Of those that the last look-up told, by pid: of each as it was last measured."""
        return {pid: entry.meter.use for pid, entry in self._known.items() if entry.meter is not None}

    def _next_turn(self) -> tuple[int, int]:
        """Which of how many it is; of one when all must be read, since the clock was set."""
        self._turn += 1
        booted = self._boot_clock.booted()
        turns = -(-len(self._known) // MOST_MEASURED) if booted == self._booted else 1
        self._booted = booted
        return self._turn, max(1, turns)

    def _measured(self, proc: int, known: _Known) -> bool:
        """False: it is not there, or is another one."""
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

    def _look_up(self, proc: int, pid: int, known: _Known, now: float) -> _Known:
        """Of one that is new, or perhaps another than before."""
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
            return _Known(host, known.until, meter, signature, folder)
        until = now + _NOT_IN_A_POD_SECONDS if host.place.pod_uid is None else float("inf")
        return _Known(host, until, meter, signature, folder)

    def _meter(self, known: _Known, stat: ProcStat) -> Meter:
        """Goes on as long as it is the same process."""
        at = self._monotonic()
        if known.host is None or known.meter is None or known.host.start_ticks != stat.start_ticks:
            return Meter.started(stat, at, self._booted)
        known.meter.read(stat, at, self._booted)
        return known.meter

    def _read(self, proc: int, pid: int, known: HostProcess | None) -> tuple[HostProcess, ProcStat] | None:
        """All files through one descriptor of the folder: it stays that of this very process, even if the pid
        is given to another one meanwhile."""
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
            place, problem = _place(folder)
        except OSError as error:  # it may end between two reads: that is no error
            self._note(error)
            return None
        except ValueError:
            return None
        finally:
            os.close(folder)
        return HostProcess(stat.start_ticks, name, self._users.get(uid, str(uid)), place, problem), stat

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """-1, in which nothing is found, where it cannot be opened."""
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

    def _missing(self, now: float) -> _Known:
        """Not looked for again at once, unless it could not be looked for."""
        return _Known(None, now + _GONE_SECONDS) if self.obstacle is None else _NEW

    def _note(self, error: OSError) -> None:
        """A process that cannot be looked at for want of a descriptor has not ended."""
        if error.errno in _EXHAUSTED:
            self.obstacle = os.strerror(error.errno)

    def _read_users(self) -> None:
        """Names by uid, from the node's own list of users; read again when it changes."""
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
            known.until = float("-inf")  # all are read anew, and measured on


def _stat(folder: int, file: str) -> ProcStat:
    """Read at once: the kernel gives the whole line, and to ask for more costs as much again."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return proc_stat(os.read(descriptor, _FILE_BYTES))
    finally:
        os.close(descriptor)


def _text(folder: int, file: str, limit: int) -> str:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        content = part = os.read(descriptor, limit)
        while part and len(content) < limit:  # the kernel gives a long file in pages
            part = os.read(descriptor, limit - len(content))
            content += part
        return content.decode(errors="replace")
    finally:
        os.close(descriptor)


def _name_and_uid(status: str) -> tuple[str, int]:
    name = ""
    for line in status.split("\n"):  # the kernel escapes no other end of a line in a name
        key, _, value = line.partition(":")
        if key == "Name":
            name = value.strip()
        elif key == "Uid":
            return name, int((value.split() or [""])[0])
    raise ValueError("status without a user")


def _place(folder: int) -> tuple[Place, UnattributedReason | None]:
    try:
        place = place_of(_text(folder, "cgroup", _CGROUP_BYTES))
    except FileNotFoundError:
        return _NOWHERE, UnattributedReason.CGROUP_HIDDEN
    except PermissionError:
        return _NOWHERE, UnattributedReason.NO_PERMISSION
    if not place.hidden:
        return place, None
    try:
        mounts = place_in_mounts(_text(folder, "mountinfo", _MOUNTS_BYTES))
    except PermissionError:
        return _NOWHERE, UnattributedReason.NO_PERMISSION
    except FileNotFoundError:
        mounts = _NOWHERE
    if mounts.pod_uid is None and mounts.container_id is None:
        return _NOWHERE, UnattributedReason.CGROUP_HIDDEN
    return replace(mounts, hidden=False), None
