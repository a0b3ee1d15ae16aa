"""The node itself: its name, what runs here as whom, and the folders that readers look into."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from accelscope.doctor.check import Check
from accelscope.doctor.finding import Finding, error, note, ok, warning
from accelscope.doctor.subject import Subject


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
