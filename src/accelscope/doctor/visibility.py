"""Whether the node's processes and the names of their users can be seen from here."""

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from accelscope.doctor.check import Check
from accelscope.doctor.finding import Finding, note, ok, warning
from accelscope.doctor.subject import Subject

_NODES_NAMESPACE = "pid:[4026531836]"  # fixed in the kernel (PROC_PID_INIT_INO): that of the machine itself
_INITS = frozenset({"systemd", "init", "openrc-init", "runit", "s6-svscan"})
_HIDEPID = re.compile(r"(?:^|,)hidepid=(?!0|off)([^,]+)")
_MOST_PROCESSES = 20_000
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Shown(Enum):
    """Whose processes a /proc shows."""

    NODE = "the node's"
    CONTAINER = "this container's only"
    UNKNOWN = "unknown"


def processes(subject: Subject) -> Iterator[Finding]:
    proc = subject.paths.proc
    pids = _pids(proc)
    hidden = list(_hidden(proc, pids))
    match shown_processes(proc):
        case Shown.CONTAINER:
            yield warning(
                "processes",
                f"{proc} shows this container's own only ({len(pids)}): those on the devices cannot be "
                "named, and some drivers do not even list them",
                "hostPID: true in the pod (docker run --pid=host).",
                processes=len(pids),
            )
        case Shown.UNKNOWN:
            yield note(
                "processes", f"{len(pids)} in {proc}, which does not tell whether they are all of the node's"
            )
        case Shown.NODE if not hidden:
            yield ok("processes", f"the node's {len(pids)} are seen", processes=len(pids))
    yield from hidden


def users(subject: Subject) -> Iterator[Finding]:
    path = subject.settings.passwd_file
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError as problem:
        yield warning(
            "users",
            f"{path} cannot be read: {problem.strerror}; users are shown by their numbers",
            "Name the node's list with --passwd-file; in a pod, mount the node's /etc/passwd.",
        )
        return
    count = sum(1 for line in lines if line.count(":") >= 6)
    if subject.in_container and "passwd_file" not in subject.loaded.origins:
        yield note(
            "users",
            f"{path} is this container's own list, of {count}; others are shown by their numbers",
            "Mount the node's /etc/passwd and name it with --passwd-file, if names matter to you.",
            users=count,
        )
    else:
        yield ok("users", f"{count} names in {path}", users=count)


def shown_processes(proc: Path) -> Shown:
    """Told by the namespace of this process; where that is not to be seen, by what runs as 1 and 2."""
    try:
        namespace = str((proc / "self/ns/pid").readlink())
    except OSError:
        namespace = None
    # A node that is a container itself (kind, LXC) has a namespace of its own, and an init in it.
    if namespace == _NODES_NAMESPACE or _program(proc, 1) in _INITS or _program(proc, 2) == "kthreadd":
        return Shown.NODE
    return Shown.UNKNOWN if namespace is None else Shown.CONTAINER


def _hidden(proc: Path, pids: list[int]) -> Iterator[Finding]:
    refused = 0
    for pid in pids[:_MOST_PROCESSES]:
        try:
            with (proc / str(pid) / "status").open("rb"):
                pass
        except PermissionError:
            refused += 1
        except OSError:
            continue  # it has ended meanwhile
    option = hidepid(proc)
    if refused:
        found = f"{refused} of {len(pids)} processes may not be looked at"
    elif option is not None and 1 not in pids:
        found = "processes of other users are not shown"
    else:
        return
    yield warning(
        "hidepid",
        found + (f": {proc} is mounted with hidepid={option}" if option else ""),
        f"`mount -o remount,hidepid=0 {proc}`, or with gid= of a group that the agent is in; in a systemd "
        "unit leave out ProtectProc=. Until then names and users of processes are absent.",
        refused=refused,
        hidepid=option,
    )


def hidepid(proc: Path) -> str | None:
    """How this /proc hides other users' processes, as its mount says; None: not at all, or unknown."""
    try:
        mounts = (proc / "self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return None
    options = ""
    for line in mounts:
        cells = line.split(" ")
        if len(cells) > 3 and cells[2] == "proc" and _unescaped(cells[1]) == str(proc):
            options = cells[3]  # a later mount covers an earlier one
    match = _HIDEPID.search(options)
    return match[1] if match else None


def _pids(proc: Path) -> list[int]:
    try:
        return sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())
    except OSError:
        return []  # the check of the folders says why


def _program(proc: Path, pid: int) -> str | None:
    try:
        return (proc / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return None


def _unescaped(path: str) -> str:
    """Blanks and such are written as octal numbers in a list of mounts."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), path)


VISIBILITY_CHECKS = (Check("processes", processes), Check("users", users))
