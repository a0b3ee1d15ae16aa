"""The node itself: its name, what runs here as whom, and the folders that readers look into."""

import os
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path

from accelscope.config import ConfigError
from accelscope.config.settings import flag_name, settings_of
from accelscope.doctor.check import Check, Finding, Subject, error, note, ok, sentence, warning
from accelscope.metrics.dialects import OPTIONS, Dialect
from accelscope.metrics.exposition import patterns_without_family


def name(subject: Subject) -> Iterator[Finding]:
    origin = subject.loaded.origins.get("node_name")
    if origin is not None:
        yield ok("name", f"{subject.node}, by setting")
    elif subject.in_pod:
        yield warning(
            "name",
            f"{subject.node}, which is this pod's host name and hardly the node's",
            "Set NODE_NAME in the pod from the field spec.nodeName (valueFrom: fieldRef).",
        )
    else:
        yield ok("name", f"{subject.node}, the host's name")


def system(_: Subject) -> Iterator[Finding]:
    kernel = os.uname()
    yield ok(
        "system",
        f"{kernel.sysname} {kernel.release} {kernel.machine}, Python {platform.python_version()}",
        kernel=kernel.release,
        machine=kernel.machine,
        python=platform.python_version(),
    )


def container(subject: Subject) -> Iterator[Finding]:
    mark = subject.container_mark
    kind = "in a pod" if subject.in_pod else "in a container" if mark else "not in a container"
    yield ok("container", f"{kind} ({mark})" if mark else kind, kind=kind)


def user(subject: Subject) -> Iterator[Finding]:
    who = subject.user
    groups = sorted(who.groups)
    found = f"uid {who.uid}, groups {', '.join(map(str, groups))}"
    if who.is_root and not subject.in_container:
        yield note(
            "user",
            f"{found}: root may read more than the agent's own user may",
            "If the agent runs as another user, let doctor run as that one too: "
            "`systemd-run --pty -p DynamicUser=yes accelscope doctor`.",
            uid=who.uid,
            groups=groups,
        )
    else:
        yield ok("user", found, uid=who.uid, groups=groups)


def roots(subject: Subject) -> Iterator[Finding]:
    for what, path in (("proc", subject.paths.proc), ("sys", subject.paths.sys), ("dev", subject.paths.dev)):
        problem = _unlistable(path)
        if problem is None:
            yield ok(what, f"{path} can be read", path=str(path))
        else:
            yield error(
                what,
                f"{path} cannot be read: {problem}",
                f"--{what}-root must name the node's /{what}; in a pod, mount it with hostPath.",
                path=str(path),
            )


def _unlistable(path: Path) -> str | None:
    try:
        with os.scandir(path) as entries:
            return None if next(entries, None) is not None else "it is empty"
    except OSError as problem:
        return problem.strerror or str(problem)


NODE_CHECKS = (
    Check("name", name),
    Check("system", system),
    Check("container", container),
    Check("user", user),
    Check("roots", roots),
)


# --- visibility ------------------------------------------------------------
# Whether the node's processes and the names of their users can be seen from here.


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


# --- settings ------------------------------------------------------------
# Where the settings came from, and whether those that choose metrics find any.


_DIALECT_FILES = frozenset(option.name for option in OPTIONS if option.watched)
_LISTS_OF_METRICS = ("metric_allowlist", "metric_denylist")


def given(subject: Subject) -> Iterator[Finding]:
    """Each setting that is given anywhere; the others have their defaults."""
    origins = subject.loaded.origins
    if not origins:
        yield ok("given", "none: every setting has its default")
    for declared in settings_of(type(subject.settings)):
        origin = origins.get(declared.name)
        if origin is None:
            continue
        value = declared.value(subject.settings)
        shown = declared.kind.text(value) or "(empty)"
        # A flag's name stands there already.
        where = "the command line" if origin.startswith("--") else origin
        name, found = flag_name(declared.name)[2:], f"{shown}, from {where}"
        if declared.name in _DIALECT_FILES:
            yield _dialect_file(subject, declared.name, value, found)
            continue
        idle = _without_family(subject, value) if declared.name in _LISTS_OF_METRICS else ()
        if idle:
            yield warning(
                name,
                f"{found}: no metric has a name that fits {sentence(list(idle))}",
                "Compare with the names on the agent's /metrics; those of a dialect need --dialect.",
                value=shown,
                origin=origin,
            )
        else:
            yield ok(name, found, value=shown, origin=origin)


def _dialect_file(subject: Subject, option: str, path: str, found: str) -> Finding:
    """Whether the file can be used, and which of its fields are not available."""
    flag = flag_name(option)
    name = flag[2:]
    try:
        chosen = subject.settings.load_dialects()
    except ConfigError as problem:
        return error(
            name,
            f"{found}: {str(problem).removeprefix(f'{flag}: ')}",
            "Correct the file; the agent does not start with it. docs/dialects.md describes the format.",
            path=path,
        )
    missed = [str(item) for dialect in chosen for item in dialect.unavailable if item.option == option]
    if missed:
        return warning(
            name,
            f"{found}: {'; '.join(missed)}",
            "Remove these lines, or look in docs/dialects.md for a field or native family instead.",
            path=path,
            unavailable=missed,
        )
    return ok(name, found, path=path)


def _without_family(subject: Subject, patterns: Sequence[str]) -> tuple[str, ...]:
    chosen: tuple[Dialect, ...] = ()
    with suppress(ConfigError):  # its own finding
        chosen = subject.settings.load_dialects()
    return patterns_without_family(patterns, chosen)


SETTINGS_CHECKS = (Check("given", given),)
