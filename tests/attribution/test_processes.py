"""Names and users of processes from /proc; never their arguments."""

from pathlib import Path

import pytest

from accelscope.attribution.processes import ProcessTable
from accelscope.model import Process


class Node:
    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.passwd = root / "passwd"
        self.proc.mkdir()
        self.passwd.write_text("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbroken\n")
        self.table = ProcessTable(self.proc, self.passwd)

    def add(self, pid: int, name: str, uid: int, start: int = 100) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        rest = ["S", *["0"] * 18, str(start), *["0"] * 10]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(rest)}\n")
        (folder / "status").write_text(f"Name:\t{name}\nUmask:\t0022\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "cmdline").write_text(f"{name}\0--password=hunter2\0")

    def describe(self, *pids: int) -> list[tuple[str | None, str | None]]:
        described = self.table.describe(Process(pid=pid, device="d", name="from-driver") for pid in pids)
        return [(p.name, p.user) for p in described]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_name_and_user_come_from_proc(node: Node) -> None:
    node.add(1, "python3", 1000)
    node.add(2, "weird ) name(", 0)
    node.add(3, "nobody-knows", 4242)
    assert node.describe(1, 2, 3) == [
        ("python3", "alice"),
        ("weird ) name(", "root"),
        ("nobody-knows", "4242"),
    ]


def test_a_process_that_ended_keeps_what_the_driver_said(node: Node) -> None:
    assert node.describe(99) == [("from-driver", None)]


def test_one_process_on_two_devices_is_described_twice(node: Node) -> None:
    node.add(1, "train", 1000)
    assert node.describe(1, 1) == [("train", "alice")] * 2


def test_a_known_process_is_not_read_again(node: Node) -> None:
    node.add(1, "train", 1000)
    node.describe(1)
    (node.proc / "1/status").unlink()
    assert node.describe(1) == [("train", "alice")]


def test_a_reused_pid_is_never_taken_for_the_old_process(node: Node) -> None:
    node.add(1, "train", 1000, start=100)
    node.describe(1)
    node.add(1, "serve", 0, start=200)
    assert node.describe(1) == [("serve", "root")]


def test_a_changed_list_of_users_is_taken_up(node: Node) -> None:
    node.add(1, "train", 1000)
    node.describe(1)
    node.passwd.unlink()
    node.passwd.write_text("bob:x:1000:1000::/home/bob:/bin/sh\n")
    assert node.describe(1) == [("train", "bob")]


def test_without_a_list_of_users_the_number_is_given(node: Node) -> None:
    node.passwd.unlink()
    node.add(1, "train", 1000)
    assert node.describe(1) == [("train", "1000")]


@pytest.mark.parametrize("stat", ["", "1 (x", "1 (x) S 1 2", "1 (x) S" + " x" * 30])
def test_an_unreadable_stat_costs_the_name_only(node: Node, stat: str) -> None:
    node.add(1, "train", 1000)
    (node.proc / "1/stat").write_text(stat)
    assert node.describe(1) == [("from-driver", None)]
