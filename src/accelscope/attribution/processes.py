"""What `/proc` tells of a process: its program's name and its user. Never its arguments: they hold secrets.

Known processes are remembered by pid and start time, so that they cost one small read per collection and a
pid that was given to another process is never taken for the old one.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from accelscope.model import Process

_STATUS_BYTES = 4096
_START_TIME = 19  # field 22 of proc(5), counted after the program's name in brackets


@dataclass(frozen=True, slots=True)
class HostProcess:
    start_ticks: int
    name: str
    user: str


class ProcessTable:
    def __init__(self, proc: Path, passwd: Path) -> None:
        self._proc = str(proc)
        self._passwd = passwd
        self._known: dict[int, HostProcess] = {}
        self._users: dict[int, str] = {}
        self._users_read_from: tuple[int, int] | None = None

    def describe(self, processes: Iterable[Process]) -> tuple[Process, ...]:
        """The processes with name and user, where /proc tells. A process that has ended keeps what the driver
        said of it."""
        self._read_users()
        described: list[Process] = []
        seen: dict[int, HostProcess] = {}
        for process in processes:
            host = seen.get(process.pid) or self._look_up(process.pid)
            if host is None:
                described.append(process)
                continue
            seen[process.pid] = host
            described.append(replace(process, name=host.name or process.name, user=host.user))
        self._known = seen
        return tuple(described)

    def _look_up(self, pid: int) -> HostProcess | None:
        start = self._start_ticks(pid)
        if start is None:
            return None
        known = self._known.get(pid)
        if known is not None and known.start_ticks == start:
            return known
        status = self._read(pid, "status")
        if status is None:
            return None
        name, uid = _name_and_uid(status)
        if uid is None:
            return None
        return HostProcess(start, name, self._users.get(uid, str(uid)))

    def _start_ticks(self, pid: int) -> int | None:
        text = self._read(pid, "stat")
        if text is None:
            return None
        after_name = text.rpartition(")")[2].split()  # the name may hold blanks and brackets
        try:
            return int(after_name[_START_TIME])
        except (IndexError, ValueError):
            return None

    def _read(self, pid: int, file: str) -> str | None:
        """A process may end between two reads: that is no error."""
        try:
            descriptor = os.open(f"{self._proc}/{pid}/{file}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.read(descriptor, _STATUS_BYTES).decode(errors="replace")
        except OSError:
            return None
        finally:
            os.close(descriptor)

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
        for line in text.splitlines():
            cells = line.split(":")
            if len(cells) > 2 and cells[2].isdecimal():
                users.setdefault(int(cells[2]), cells[0])
        self._users, self._users_read_from, self._known = users, version, {}


def _name_and_uid(status: str) -> tuple[str, int | None]:
    name, uid = "", None
    for line in status.splitlines():
        key, _, value = line.partition(":")
        if key == "Name":
            name = value.strip()
        elif key == "Uid":
            first = value.split()[:1]
            uid = int(first[0]) if first and first[0].isdecimal() else None
            break
    return name, uid
