"""The node's name, container, user and folders, and whether its processes and users are visible."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

from accelscope.doctor.check import Finding, Subject
from accelscope.doctor.node import NODE_CHECKS, ProcScope, hidepid, proc_scope

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
INITIAL_NAMESPACE = "pid:[4026531836]"


def by_name(subject: Subject, name: str) -> Finding:
    return next(f for check in NODE_CHECKS for f in check.look(subject) if f.name == name)


@pytest.mark.parametrize(
    ("settings", "environ", "severity", "word"),
    [
        ({}, {}, "ok", "the host name"),
        ({"node_name": "gpu-17"}, POD, "ok", "gpu-17, from --node-name"),
        ({}, POD, "warning", "this pod's host name"),
    ],
)
def test_a_pod_needs_the_node_name_as_a_setting(
    node: "NodeFolder", settings: dict[str, str], environ: dict[str, str], severity: str, word: str
) -> None:
    finding = by_name(node.subject(settings, environ=environ), "name")
    assert finding.severity == severity
    assert word in finding.found


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({}, {}, "not in a container"),
        ({"root/.dockerenv": ""}, {}, "in a container"),
        ({"root/run/.containerenv": ""}, {}, "in a container"),
        ({}, {"container": "lxc"}, "in a container"),
        ({"proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/a.scope\n"}, {}, "in a container"),
        ({"proc/self/cgroup": "0::/system.slice/accelscope-agent.service\n"}, {}, "not in a container"),
        ({}, POD, "in a pod"),
    ],
)
def test_a_container_is_recognised(
    node: "NodeFolder", files: dict[str, str], environ: dict[str, str], kind: str
) -> None:
    node.write(files)
    assert by_name(node.subject(environ=environ), "container").details["kind"] == kind


@pytest.mark.parametrize(("uid", "environ", "severity"), [(1000, {}, "ok"), (0, POD, "ok"), (0, {}, "note")])
def test_root_on_a_host_is_noted(
    node: "NodeFolder", uid: int, environ: dict[str, str], severity: str
) -> None:
    assert by_name(node.subject(uid=uid, environ=environ), "user").severity == severity


def test_the_kernel_is_reported(node: "NodeFolder") -> None:
    assert os.uname().release in by_name(node.subject(), "system").found


def test_missing_or_empty_folders_are_errors_that_name_the_option(node: "NodeFolder") -> None:
    node.write({"sys/class": "", "dev/null": ""})
    subject = node.subject({"sys_root": "/nowhere"})
    assert by_name(subject, "proc").severity == "error"
    assert "it is empty" in by_name(subject, "proc").found
    assert by_name(subject, "sys").severity == "error"
    assert "--sys-root" in (by_name(subject, "sys").advice or "")
    assert by_name(subject, "dev").severity == "ok"


@pytest.mark.parametrize(
    ("namespace", "programs", "scope"),
    [
        (INITIAL_NAMESPACE, {}, ProcScope.NODE),
        (INITIAL_NAMESPACE, {1: "strange-init"}, ProcScope.NODE),
        ("pid:[4026532281]", {1: "accelscope"}, ProcScope.CONTAINER),
        ("pid:[4026532281]", {1: "pause", 7: "accelscope"}, ProcScope.CONTAINER),
        ("pid:[4026532281]", {1: "systemd"}, ProcScope.NODE),  # a node that is a container itself
        (None, {1: "busybox", 2: "kthreadd"}, ProcScope.NODE),
        (None, {1200: "python"}, ProcScope.UNKNOWN),
    ],
)
def test_the_scope_of_proc(
    node: "NodeFolder", namespace: str | None, programs: dict[int, str], scope: ProcScope
) -> None:
    node.write({f"proc/{pid}/comm": f"{program}\n" for pid, program in programs.items()})
    if namespace is not None:
        node.link("proc/self/ns/pid", namespace)
    assert proc_scope(node.folder / "proc") is scope


@pytest.mark.parametrize(
    ("namespace", "severity"), [(INITIAL_NAMESPACE, "ok"), ("pid:[4026532281]", "warning"), (None, "note")]
)
def test_a_pod_without_the_nodes_processes_needs_host_pid(
    node: "NodeFolder", namespace: str | None, severity: str
) -> None:
    node.write({"proc/31/comm": "accelscope\n", "proc/31/status": "", "proc/32/status": ""})
    if namespace is not None:
        node.link("proc/self/ns/pid", namespace)
    finding = by_name(node.subject(environ=POD), "processes")
    assert finding.severity == severity
    assert "2" in finding.found
    if severity == "warning":
        assert "hostPID: true" in (finding.advice or "")


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ("rw,nosuid,nodev,noexec,relatime", None),
        ("rw,relatime,hidepid=2", "2"),
        ("rw,hidepid=invisible,gid=27", "invisible"),
        ("rw,hidepid=ptraceable", "ptraceable"),
        ("rw,hidepid=0", None),
        ("rw,hidepid=off", None),
    ],
)
def test_hidepid_is_read_from_the_mount(node: "NodeFolder", options: str, hidden: str | None) -> None:
    proc = node.folder / "proc"
    node.write({"proc/self/mounts": f"proc /proc proc rw,hidepid=1 0 0\nproc {proc} proc {options} 0 0\n"})
    assert hidepid(proc) == hidden


def test_a_mount_point_with_a_space_is_found(node: "NodeFolder") -> None:
    proc = node.folder / "the proc"
    (proc / "self").mkdir(parents=True)
    written = str(proc).replace(" ", "\\040")
    (proc / "self/mounts").write_text(f"proc {written} proc rw,hidepid=2 0 0\n")
    assert hidepid(proc) == "2"


def test_hidden_processes_are_a_warning(node: "NodeFolder") -> None:
    proc = node.folder / "proc"
    node.link("proc/self/ns/pid", INITIAL_NAMESPACE)
    node.write({"proc/self/mounts": f"proc {proc} proc rw,hidepid=2 0 0\n", "proc/4711/status": ""})
    finding = by_name(node.subject(), "hidepid")
    assert finding.severity == "warning"
    assert "hidepid=2" in finding.found


def test_unreadable_processes_are_counted(
    node: "NodeFolder", ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    node.link("proc/self/ns/pid", INITIAL_NAMESPACE)
    node.write({"proc/1/status": "", "proc/2/status": "", "proc/3/status": ""})
    for pid in (1, 2):
        (node.folder / f"proc/{pid}").chmod(0)
    with ordinary_user():
        finding = by_name(node.subject(), "hidepid")
    for pid in (1, 2):
        (node.folder / f"proc/{pid}").chmod(0o755)
    assert finding.severity == "warning"
    assert "2 of 3" in finding.found


@pytest.mark.parametrize(
    ("content", "environ", "is_set", "severity"),
    [
        ("root:x:0:0:root:/root:/bin/sh\nann:x:7:7::/:\n", {}, True, "ok"),
        ("root:x:0:0:root:/root:/bin/sh\nann:x:7:7::/:\n", POD, True, "ok"),
        (None, {}, True, "warning"),
        (None, POD, False, "note"),  # the image's own /etc/passwd
    ],
)
def test_the_passwd_file_is_checked(
    node: "NodeFolder", content: str | None, environ: dict[str, str], is_set: bool, severity: str
) -> None:
    path = node.folder / "passwd"
    if content is not None:
        path.write_text(content)
    subject = node.subject({"passwd_file": str(path)} if is_set else {}, environ=environ)
    finding = by_name(subject, "users")
    assert finding.severity == severity
    if content is not None:
        assert finding.details["users"] == 2
