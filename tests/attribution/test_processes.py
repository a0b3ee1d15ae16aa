"""Name, user and location of processes from /proc, without their arguments."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from accelscope.attribution.processes import HostProcess, ProcessTable
from accelscope.model import UnattributedReason

POD = "11111111-2222-3333-4444-555555555555"
CONTAINER = "ab" * 32
IN_POD = f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope\n"
OTHER_POD = IN_POD.replace("11111111", "99999999")
ON_HOST = "0::/system.slice/nvidia-persistenced.service\n"
MOUNTS = f"1 0 0:1 /var/lib/kubelet/pods/{POD}/etc-hosts /etc/hosts rw - ext4 /dev/sda rw\n"


class Node:
    def __init__(self, root: Path) -> None:
        self.now = 1000.0
        self.proc = root / "proc"
        self.passwd = root / "passwd"
        self.proc.mkdir()
        self.passwd.write_text("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbroken\n")
        self.table = ProcessTable(self.proc, self.passwd, monotonic=lambda: self.now)

    def add(self, pid: int, name: str, uid: int = 1000, start: int = 100, cgroup: str = ON_HOST) -> Path:
        folder = self.proc / str(pid)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        rest = ["S", *["0"] * 18, str(start), *["0"] * 10]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(rest)}\n")
        (folder / "status").write_text(f"Name:\t{name}\nUmask:\t0022\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "cmdline").write_text(f"{name}\0--password=hunter2\0")
        (folder / "cgroup").write_text(cgroup)
        return folder

    def look_up(self, *pids: int) -> Mapping[int, HostProcess]:
        return self.table.look_up(pids)

    def named(self, *pids: int) -> list[tuple[str, str]]:
        return [(host.name, host.user) for host in self.look_up(*pids).values()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_name_and_user_come_from_proc(node: Node) -> None:
    node.add(1, "python3", 1000)
    node.add(2, "weird ) name(", 0)
    node.add(3, "nobody-knows", 4242)
    assert node.named(1, 2, 3) == [("python3", "alice"), ("weird ) name(", "root"), ("nobody-knows", "4242")]


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
@pytest.mark.parametrize("uid", ["0", "root"])
def test_a_name_cannot_pass_for_another_line(node: Node, end: str, uid: str) -> None:
    status = f"Name:\tx{end}Uid:{uid}\nUid:\t1000\t1000\t1000\t1000\n"
    (node.add(1, "x") / "status").write_text(status, newline="")
    assert [user for _, user in node.named(1)] == ["alice"]


def test_the_location_comes_from_the_cgroup(node: Node) -> None:
    node.add(1, "train", cgroup=IN_POD)
    place = node.look_up(1)[1].location
    assert (place.pod_uid, place.container_id) == (POD, CONTAINER)


def test_a_hidden_cgroup_falls_back_to_the_mounts(node: Node) -> None:
    folder = node.add(1, "train", cgroup="0::/\n")
    (folder / "mountinfo").write_text(MOUNTS)
    assert node.look_up(1)[1].location.pod_uid == POD
    node.add(2, "train", cgroup="0::/\n")
    (node.proc / "2/mountinfo").write_text("1 0 0:1 / / rw - ext4 /dev/sda rw\n")
    assert node.look_up(2)[2].problem is UnattributedReason.CGROUP_HIDDEN


def test_no_cgroup_file_is_a_hidden_cgroup(node: Node) -> None:
    (node.add(1, "train") / "cgroup").unlink()
    assert node.look_up(1)[1].problem is UnattributedReason.CGROUP_HIDDEN


def test_an_unreadable_cgroup_is_no_permission(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel denies it to an agent that is not root; tests may run as root."""
    node.add(1, "train")
    really = os.open

    def denied(path: str, flags: int, **rest: int) -> int:
        if path == "cgroup":
            raise PermissionError(13, "Permission denied")
        return really(path, flags, **rest)

    monkeypatch.setattr(os, "open", denied)
    assert node.look_up(1)[1].problem is UnattributedReason.NO_PERMISSION


def test_an_ended_process_is_not_found(node: Node) -> None:
    assert node.look_up(99) == {}


def test_only_the_stat_of_a_known_process_is_read_again(node: Node) -> None:
    node.add(1, "train", cgroup=IN_POD)
    first = node.look_up(1)[1]
    for file in (node.proc / "1").iterdir():  # in place: the folder itself stays as it is
        if file.name != "stat":
            file.write_bytes(b"garbage")
    node.now += 3600
    assert node.look_up(1)[1] is first


def test_the_result_is_the_same_object_until_a_process_changes(node: Node) -> None:
    node.add(1, "train", cgroup=IN_POD)
    node.add(2, "serve", cgroup=IN_POD)
    first = node.look_up(1, 2, 99)
    node.now += 10  # the pid that is not there is looked for again, in vain
    assert node.look_up(2, 99, 1, 1) is first
    assert node.look_up(1) == {1: first[1]}
    assert node.look_up() == {}
    assert node.look_up(1, 2) == first


def test_without_a_proc_folder_nothing_is_found(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path / "proc", tmp_path / "passwd", monotonic=lambda: 0.0)
    assert table.look_up([1]) == {}


def test_a_process_outside_pods_is_read_again_after_a_while(node: Node) -> None:
    node.add(1, "train", cgroup=ON_HOST)
    assert node.look_up(1)[1].location.unit == "nvidia-persistenced.service"
    (node.proc / "1/cgroup").write_text(IN_POD)
    node.now += 61
    assert node.look_up(1)[1].location.pod_uid == POD


def test_a_reused_pid_is_not_mistaken_for_the_old_process(node: Node) -> None:
    node.add(1, "train", 1000, start=100, cgroup=IN_POD)
    node.look_up(1)
    node.add(1, "serve", 0, start=200, cgroup=OTHER_POD)
    host = node.look_up(1)[1]
    assert (host.name, host.user) == ("serve", "root")
    assert host.location.pod_uid == POD.replace("11111111", "99999999")


def test_a_missing_process_is_looked_up_again_soon(node: Node) -> None:
    assert node.look_up(1) == {}
    node.add(1, "train")
    node.now += 10
    assert node.named(1) == [("train", "alice")]


def test_a_changed_passwd_file_is_read_again(node: Node) -> None:
    node.add(1, "train", 1000)
    node.look_up(1)
    node.passwd.write_text("bob:x:1000:1000::/:/bin/sh\n")
    os.utime(node.passwd, ns=(1, 1))
    assert node.named(1) == [("train", "bob")]


def test_without_a_passwd_file_the_uid_is_shown(node: Node) -> None:
    node.passwd.unlink()
    node.add(1, "train", 1000)
    assert node.named(1) == [("train", "1000")]


@pytest.mark.parametrize("file", ["stat", "status"])
@pytest.mark.parametrize("text", ["", "garbage", "1 (x) S 0", "Name:\nUid:\n", "Uid:\tmany\n"])
def test_an_incomplete_process_counts_as_ended(node: Node, file: str, text: str) -> None:
    (node.add(1, "train") / file).write_text(text)
    assert node.look_up(1) == {}


def test_arguments_are_never_read(node: Node) -> None:
    (node.add(1, "train") / "cmdline").unlink()
    assert "hunter2" not in repr(node.look_up(1))


def test_real_processes_of_this_machine() -> None:
    """The kernel's own /proc: a live process is found twice, an ended one is not."""
    table = ProcessTable(Path("/proc"), Path("/etc/passwd"), monotonic=lambda: 0.0)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        first = table.look_up([child.pid])[child.pid]
        assert table.look_up([child.pid])[child.pid] is first
    finally:
        child.communicate(b"\n")
    assert table.look_up([child.pid]) == {}
