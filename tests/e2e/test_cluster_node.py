"""The node that the cluster's programs run in goes away whole, however its tests end. Nothing of Kubernetes
runs in it here."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.kubernetes import images
from tests.e2e.kubernetes.errors import CommandFailed
from tests.e2e.kubernetes.leftovers import processes_in
from tests.e2e.kubernetes.node import ADDRESS, Node, clear_up
from tests.repository import REPOSITORY
from tests.waiting import wait_until

STARTS_A_NODE = """\
import signal, sys
from pathlib import Path
from tests.e2e.kubernetes.images import pause_program
from tests.e2e.kubernetes.leftovers import processes_in
from tests.e2e.kubernetes.node import Node
node = Node(Path(sys.argv[1]))
node.start(pause_program(), Path("/nowhere"))
node.spawn(Path(sys.argv[1], "sleep.log"), "sh", "-c", "sleep 1000 & exec sleep 1000")
print("started", flush=True)
signal.pause()
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    try:
        node.start(images.pause_program(), Path("/nowhere"))
        yield node
    finally:
        node.stop()


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def test_node_has_its_own_processes_addresses_and_folders(node: Node) -> None:
    assert node.run("sh", "-c", "echo $$").strip().isdigit()
    assert f"{ADDRESS}/24" in node.run("ip", "address")
    for fixed in ("/var/lib/kubelet", "/etc/kubernetes"):
        node.run("sh", "-c", f"echo here >{fixed}/of-the-node")
        assert (node.outside(fixed) / "of-the-node").read_text() == "here\n"
        assert not Path(fixed, "of-the-node").exists()
    assert str(node.folder) not in mounts()


def test_kernel_settings_are_the_nodes_own_copy(node: Node) -> None:
    real = Path("/proc/sys/vm/overcommit_memory")
    before = real.read_text()
    node.run("sh", "-c", f"echo 2 >{real}")
    assert node.run("cat", str(real)) == "2\n"
    assert real.read_text() == before


def test_failed_command_says_why(node: Node) -> None:
    with pytest.raises(CommandFailed, match="ended with 5: because"):
        node.run("sh", "-c", "echo because >&2; exit 5")


def test_program_is_stopped_by_itself(node: Node, tmp_path: Path) -> None:
    program = node.spawn(tmp_path / "sleep.log", "sleep", "1000")
    wait_until(lambda: program.pid is not None, "it has begun")
    program.check()
    program.stop()
    assert program.pid is None


def test_stopping_ends_everything_and_leaves_logs_only(node: Node, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    program = node.spawn(tmp_path / "logs" / "sleep.log", "sh", "-c", "sleep 1000 & exec sleep 1000")
    namespace = node.pid_namespace.readlink()
    wait_until(lambda: len(processes_in(namespace)) >= 3, "its processes have begun")
    node.stop()
    program.reap()
    assert processes_in(namespace) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "node.log"]


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_node_dies_with_its_owner_and_is_cleared_up_later(
    tmp_path: Path, signal_number: signal.Signals
) -> None:
    command = [sys.executable, "-c", STARTS_A_NODE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "started\n"
            first = json.loads((tmp_path / "node.json").read_text())["pid"]
            namespace = Path(f"/proc/{first}/ns/pid").readlink()
            wait_until(lambda: len(processes_in(namespace)) >= 3, "its processes have begun")
        finally:
            owner.send_signal(signal_number)
    wait_until(lambda: processes_in(namespace) == [], "everything in the node has ended")
    assert clear_up(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node.log"]
    assert not clear_up(tmp_path)


def test_stranger_with_the_number_of_a_node_that_is_gone_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            record = {"pid": stranger.pid, "started": "another boot 1", "made": []}
            (tmp_path / "node.json").write_text(json.dumps(record))
            assert clear_up(tmp_path)
            assert stranger.poll() is None
        finally:
            stranger.kill()
