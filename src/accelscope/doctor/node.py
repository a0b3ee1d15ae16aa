"""The node (name, system, user, /proc, /sys and /dev), the settings that are not at their defaults, and the
Node object."""

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from enum import Enum
from functools import partial
from pathlib import Path

from accelscope import __version__
from accelscope.agent.assembly import attribution_options, chosen_annotations, features, writer_of
from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.config import ConfigError
from accelscope.config.settings import flag_name, settings_of
from accelscope.doctor.check import (
    Area,
    Check,
    Finding,
    Subject,
    error,
    join_words,
    note,
    ok,
    pluralize,
    warning,
)
from accelscope.kube.client import Client
from accelscope.kube.endpoint import KubeError, Reason
from accelscope.metrics.dialects import OPTIONS, Dialect
from accelscope.metrics.exposition import patterns_without_family
from accelscope.model import AgentState, Snapshot, Vendor
from accelscope.sinks import annotation, labels
from accelscope.sinks.annotation import document_builder
from accelscope.sinks.documents import fit
from accelscope.sinks.sink import SinkError


def name(subject: Subject) -> Iterator[Finding]:
    origin = subject.loaded.origins.get("node_name")
    if origin is not None:
        yield ok("name", f"{subject.node}, from --node-name")
    elif subject.in_pod:
        yield warning(
            "name",
            f"{subject.node} is this pod's host name, probably not the node's name",
            "Set NODE_NAME in the pod from the field spec.nodeName (valueFrom: fieldRef).",
        )
    else:
        yield ok("name", f"{subject.node}, the host name")


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
    evidence = subject.container_evidence
    kind = "in a pod" if subject.in_pod else "in a container" if evidence else "not in a container"
    yield ok("container", f"{kind} ({evidence})" if evidence else kind, kind=kind)


def user(subject: Subject) -> Iterator[Finding]:
    uid, groups = subject.user.uid, sorted(subject.user.groups)
    found = f"uid {uid}, groups {', '.join(map(str, groups))}"
    if subject.user.is_root and not subject.in_container:
        yield note(
            "user",
            f"{found}: root can read more than the agent's user",
            "If the agent runs as another user, run doctor as that user: "
            "`systemd-run --pty -p DynamicUser=yes accelscope doctor`.",
            uid=uid,
            groups=groups,
        )
    else:
        yield ok("user", found, uid=uid, groups=groups)


def roots(subject: Subject) -> Iterator[Finding]:
    for what, path in (("proc", subject.paths.proc), ("sys", subject.paths.sys), ("dev", subject.paths.dev)):
        problem = _unlistable(path)
        if problem is None:
            yield ok(what, f"{path} is readable", path=str(path))
        else:
            yield error(
                what,
                f"cannot read {path}: {problem}",
                f"--{what}-root must name the node's /{what}; in a pod, mount it with hostPath.",
                path=str(path),
            )


def _unlistable(path: Path) -> str | None:
    try:
        with os.scandir(path) as entries:
            return None if next(entries, None) is not None else "it is empty"
    except OSError as problem:
        return problem.strerror or str(problem)


_NODE_NAMESPACE = "pid:[4026531836]"  # the initial one; a constant of the kernel (PROC_PID_INIT_INO)
_INITS = frozenset({"systemd", "init", "openrc-init", "runit", "s6-svscan"})
_HIDEPID = re.compile(r"(?:^|,)hidepid=(?!0|off)([^,]+)")
_MAX_PROCESSES = 20_000
_OCTAL_ESCAPE = re.compile(r"\\([0-7]{3})")


class ProcScope(Enum):
    """Whose processes a /proc lists."""

    NODE = "node"
    CONTAINER = "container"
    UNKNOWN = "unknown"


def processes(subject: Subject) -> Iterator[Finding]:
    proc = subject.paths.proc
    pids = _pids(proc)
    hidden = list(_hidden_processes(proc, pids))
    match proc_scope(proc):
        case ProcScope.CONTAINER:
            yield warning(
                "processes",
                f"{proc} lists only this container's {len(pids)} processes: processes on devices have no "
                "name, and some drivers do not list them at all",
                "Set hostPID: true in the pod (docker run --pid=host).",
                processes=len(pids),
            )
        case ProcScope.UNKNOWN:
            yield note(
                "processes", f"{len(pids)} in {proc}; it is unknown whether these are all of the node's"
            )
        case ProcScope.NODE if not hidden:
            yield ok("processes", f"all {len(pids)} of the node are visible", processes=len(pids))
    yield from hidden


def users(subject: Subject) -> Iterator[Finding]:
    path = subject.settings.passwd_file
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError as problem:
        yield warning(
            "users",
            f"cannot read {path}: {problem.strerror}; users are shown by uid",
            "Set --passwd-file to the node's /etc/passwd; in a pod, mount it.",
        )
        return
    count = sum(1 for line in lines if line.count(":") >= 6)
    if subject.in_container and "passwd_file" not in subject.loaded.origins:
        yield note(
            "users",
            f"{path} is this container's, with {count} users; others are shown by uid",
            "To see user names, mount the node's /etc/passwd and set --passwd-file to it.",
            users=count,
        )
    else:
        yield ok("users", f"{count} in {path}", users=count)


def proc_scope(proc: Path) -> ProcScope:
    """From the PID namespace of this process, or from the programs with the PIDs 1 and 2."""
    try:
        namespace = str((proc / "self/ns/pid").readlink())
    except OSError:
        namespace = None
    # A node that is itself a container (kind, LXC) has its own namespace, with an init in it.
    if namespace == _NODE_NAMESPACE or _program(proc, 1) in _INITS or _program(proc, 2) == "kthreadd":
        return ProcScope.NODE
    return ProcScope.UNKNOWN if namespace is None else ProcScope.CONTAINER


def _hidden_processes(proc: Path, pids: list[int]) -> Iterator[Finding]:
    refused = 0
    for pid in pids[:_MAX_PROCESSES]:
        try:
            with (proc / str(pid) / "status").open("rb"):
                pass
        except PermissionError:
            refused += 1
        except OSError:
            continue  # the process has ended
    option = hidepid(proc)
    if refused:
        found = f"no permission to read {refused} of {len(pids)} processes"
    elif option is not None and 1 not in pids:
        found = "processes of other users are hidden"
    else:
        return
    yield warning(
        "hidepid",
        found + (f": {proc} is mounted with hidepid={option}" if option else ""),
        f"`mount -o remount,hidepid=0 {proc}`, or mount it with gid= of a group of the agent's user; in a "
        "systemd unit, remove ProtectProc=. Until then names and users of processes are absent.",
        refused=refused,
        hidepid=option,
    )


def hidepid(proc: Path) -> str | None:
    """The mount option `hidepid` of this /proc; None if it is off or unknown."""
    try:
        mounts = (proc / "self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return None
    options = ""
    for line in mounts:
        cells = line.split(" ")
        if len(cells) > 3 and cells[2] == "proc" and _unescape(cells[1]) == str(proc):
            options = cells[3]  # a later mount hides an earlier one
    match = _HIDEPID.search(options)
    return match[1] if match else None


def _pids(proc: Path) -> list[int]:
    try:
        return sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())
    except OSError:
        return []  # the check `roots` reports it


def _program(proc: Path, pid: int) -> str | None:
    try:
        return (proc / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return None


def _unescape(path: str) -> str:
    """The list of mounts writes spaces and similar characters as octal numbers."""
    return _OCTAL_ESCAPE.sub(lambda match: chr(int(match[1], 8)), path)


NODE_CHECKS = (
    Check("name", name),
    Check("system", system),
    Check("container", container),
    Check("user", user),
    Check("roots", roots),
    Check("processes", processes),
    Check("users", users),
)


_DIALECT_FILES = frozenset(option.name for option in OPTIONS if option.watched)
_METRIC_LISTS = ("metric_allowlist", "metric_denylist")


def settings(subject: Subject) -> Iterator[Finding]:
    """Each setting that is set explicitly, with its origin."""
    origins = subject.loaded.origins
    if not origins:
        yield ok("given", "none: all settings have their defaults")
    for declared in settings_of(type(subject.settings)):
        origin = origins.get(declared.name)
        if origin is None:
            continue
        value = declared.value(subject.settings)
        shown = declared.kind.text(value) or "(empty)"
        where = "the command line" if origin.startswith("--") else origin
        name, found = flag_name(declared.name)[2:], f"{shown}, from {where}"
        if declared.name in _DIALECT_FILES:
            yield _dialect_file(subject, declared.name, value, found)
            continue
        unused = _unused_patterns(subject, value) if declared.name in _METRIC_LISTS else ()
        if unused:
            yield warning(
                name,
                f"{found}: no metric matches {join_words(list(unused))}",
                "Compare with the names on the agent's /metrics; names of a dialect need --dialect.",
                value=shown,
                origin=origin,
            )
        else:
            yield ok(name, found, value=shown, origin=origin)


def _dialect_file(subject: Subject, option: str, path: str, found: str) -> Finding:
    """Whether the file is valid, and which of its fields are not available."""
    flag = flag_name(option)
    name = flag[2:]
    try:
        chosen = subject.settings.load_dialects()
    except ConfigError as problem:
        return error(
            name,
            f"{found}: {str(problem).removeprefix(f'{flag}: ')}",
            "Fix the file: the agent does not start with it. docs/dialects.md describes the format.",
            path=path,
        )
    unavailable = [str(item) for dialect in chosen for item in dialect.unavailable if item.option == option]
    if unavailable:
        return warning(
            name,
            f"{found}: {'; '.join(unavailable)}",
            "Remove these lines, or find another field or native family in docs/dialects.md.",
            path=path,
            unavailable=unavailable,
        )
    return ok(name, found, path=path)


def _unused_patterns(subject: Subject, patterns: Sequence[str]) -> tuple[str, ...]:
    chosen: tuple[Dialect, ...] = ()
    with suppress(ConfigError):  # reported by _dialect_file
        chosen = subject.settings.load_dialects()
    return patterns_without_family(patterns, chosen)


SETTINGS_CHECKS = (Check("given", settings),)


# --- Node object ----------------------------------------------------------
# Whether the annotations and labels that are enabled can be written. Requests to the API server are dry runs,
# which change nothing.


Results = Mapping[Vendor, Result]  # of the readers that have been checked
_REQUEST_SECONDS = 10.0

_RETRIES = "The agent retries; metrics are not affected."
# Advice by the reason of a sink's error.
_API_SERVER: Mapping[str, str] = {
    Reason.FORBIDDEN: (
        "The agent's ClusterRole needs patch on nodes (docs/node-object.md), and a ClusterRoleBinding must "
        "grant it to the agent's ServiceAccount. If an admission policy rejects the request, NODE_NAME must "
        "be the Node that this pod runs on."
    ),
    Reason.NOT_FOUND: (
        "No Node has this name: set NODE_NAME in the pod from the field spec.nodeName (valueFrom: fieldRef), "
        "or set --node-name."
    ),
    Reason.UNAUTHORIZED: (
        "--kube-token-file must name a token of this cluster that has not expired, and the agent's user must "
        "be allowed to read it."
    ),
    Reason.UNREACHABLE: (
        "Check --kube-api-url, and that NetworkPolicies and firewalls let the agent reach the API server."
    ),
    Reason.TIMEOUT: "Check whether a NetworkPolicy or firewall drops packets to the API server.",
    Reason.TLS: "--kube-ca-file must contain the CA that signed the API server's certificate.",
    Reason.TOO_LARGE: (
        "The annotations of a Node may have 256 KiB in total, and others use most of it. The agent writes as "
        "much as fits. If that is too little, remove annotations: `kubectl get node NODE -o json`."
    ),
    Reason.BAD_ANSWER: (
        "The API server or an admission webhook rejects the change, or --kube-api-url is not an API server: "
        "see the text above."
    ),
}
_FOLDER: Mapping[str, str] = {
    "no_folder": (
        "Mount the node's features.d into the pod (hostPath, type DirectoryOrCreate) at the path in "
        "--feature-file-folder."
    ),
    "no_permission": (
        "Make the folder writable for the agent's user: on most nodes it belongs to root (runAsUser: 0)."
    ),
    "read_only": "Mount the folder without readOnly: true.",
}


def advice_for(sink: str, reason: str) -> str:
    return (_FOLDER if sink == labels.FEATURE_FILE else _API_SERVER).get(reason, _RETRIES)


def node_object_area(results: Results) -> Area:
    """Runs after the vendors' areas, whose checks fill `results`."""
    return Area("node object", (Check("node-object", partial(node_object, results), _seconds),))


def node_object(results: Results, subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    annotations = chosen_annotations(settings)
    if not annotations and settings.feature_labels == "off":
        yield ok("off", "annotations and labels are off: the Node object is not written")
        return
    snapshot = _snapshot(results, subject)
    if annotations:
        yield _dry_run(annotation.NAME, partial(_annotation, annotations, snapshot), subject)
    if settings.feature_labels == "node":
        yield _dry_run(labels.LABELS, partial(_labels, snapshot), subject)
    if settings.feature_labels == "nfd":
        yield _dry_run(labels.FEATURE_FILE, partial(_feature_file, snapshot), subject)


def _dry_run(name: str, write: Callable[[Subject], str], subject: Subject) -> Finding:
    try:
        return ok(name, write(subject))
    except ConfigError as problem:
        return error(name, str(problem), "The agent does not start with these settings.")
    except (KubeError, SinkError) as problem:
        full = isinstance(problem, KubeError) and annotation.is_node_full(problem)
        reason = str(Reason.TOO_LARGE if full else problem.reason)
        return warning(name, f"{reason}: {problem}", advice_for(name, reason), reason=reason)


def _annotation(annotations: tuple[str, ...], snapshot: Snapshot, subject: Subject) -> str:
    forms = {name: fit(document_builder(name)[0](snapshot)) for name in annotations}
    with _client(subject) as client:
        annotation.annotate(client, subject.node, forms, dry_run=True)
    sizes = ", ".join(f"{name} ({len(form.text)} bytes)" for name, form in forms.items())
    return f"the API server accepts {sizes} for the Node {subject.node}"


def _labels(snapshot: Snapshot, subject: Subject) -> str:
    found = features(subject.settings)(snapshot)
    with _client(subject) as client:
        labels.apply_labels(client, subject.node, found, writer=writer_of(subject.settings), dry_run=True)
    return f"the API server accepts {_label_count(found)} for the Node {subject.node}"


def _feature_file(snapshot: Snapshot, subject: Subject) -> str:
    folder = Path(subject.settings.feature_file_folder)
    labels.check_folder(folder)
    return f"{folder} is writable; {_label_count(features(subject.settings)(snapshot))} to write"


def _label_count(found: Mapping[str, str]) -> str:
    return pluralize(len(found), "label", "labels")


def _client(subject: Subject) -> "closing[Client]":
    api_server = attribution_options(subject.settings, subject.node, subject.environ).api_server
    if api_server is None:
        raise ConfigError("not in a Kubernetes cluster; set --kube-api-url")
    return closing(Client(api_server, timeout_seconds=_REQUEST_SECONDS))


def _snapshot(results: Results, subject: Subject) -> Snapshot:
    now = subject.clock()
    return Snapshot(
        node=subject.node,
        taken_at=now,
        agent=AgentState(version=__version__, started_at=now),
        devices=tuple(device for result in results.values() for device in result.devices),
        readers=tuple(result.state for result in results.values()),
    )


def _seconds(_: AgentSettings) -> float:
    return 2 * _REQUEST_SECONDS + 5
