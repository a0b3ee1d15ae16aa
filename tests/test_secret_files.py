"""A key or token that every user can read is reported."""

import logging
from pathlib import Path

import pytest
from tests.agent_process import AgentProcess
from tests.certificates import make_certificates
from tests.fleet_process import FleetProcess
from tests.waiting import wait_until

from accelscope.certificates import CertificateFiles
from accelscope.files import is_world_readable, warn_world_readable
from accelscope.fleet.clusters import (
    AddressAccess,
    AgentsEntry,
    ClusterEntry,
    KubeconfigAccess,
    PrometheusEntry,
)
from accelscope.serve import TokenFile


def secret(folder: Path, mode: int) -> str:
    path = folder / "token"
    path.write_text("secret")
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("mode", "readable"), [(0o644, True), (0o604, True), (0o640, False), (0o600, False), (0o602, False)]
)
def test_who_may_read_a_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, readable: bool
) -> None:
    path = secret(tmp_path, mode)
    assert is_world_readable(path) is readable
    warn_world_readable("the tokens", [path, path, None, str(tmp_path / "missing")])
    said = [record.getMessage() for record in caplog.records]
    expected = "every user of this machine can read the tokens; run chmod o-r"
    assert said == ([expected] if readable else [])


def test_volumes_of_the_kubelet_are_only_seen_in_the_container(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "..2026_01_01"
    data.mkdir()
    secret(data, 0o644)
    (tmp_path / "..data").symlink_to(data.name)
    (tmp_path / "token").symlink_to("..data/token")
    warn_world_readable("the tokens", [str(tmp_path / "token")])
    assert not caplog.records


def test_a_file_that_changes_is_looked_at_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = make_certificates(tmp_path)
    files = CertificateFiles(str(made.server), str(made.server_key))
    tokens = TokenFile(secret(tmp_path, 0o600))
    other = make_certificates(tmp_path)
    other.server_key.chmod(0o644)
    (tmp_path / "token").write_text("another")
    (tmp_path / "token").chmod(0o644)
    with caplog.at_level(logging.WARNING):
        files.refresh()
        tokens.refresh()
    assert [record.getMessage().split(";")[0] for record in caplog.records] == [
        "every user of this machine can read the private key",
        "every user of this machine can read the tokens",
    ]


def test_a_cluster_names_all_its_files_with_secrets() -> None:
    entry = ClusterEntry(
        id="a",
        access=AddressAccess(url="https://a", token_file="t1", client_key_file="k1", ca_file="ca"),
        agents=AgentsEntry(token_file="t2", client_key_file="k2"),
        prometheus=PrometheusEntry(url="https://p", token_file="t3", client_key_file="k3"),
    )
    assert entry.secret_files == ("t1", "k1", "t2", "k2", "t3", "k3")
    assert ClusterEntry(id="b", access=KubeconfigAccess(paths=("c1", "c2"))).secret_files == ("c1", "c2")


def test_the_agent_warns(tmp_path: Path) -> None:
    settings = {"readers": "nvidia", "token_file": secret(tmp_path, 0o644)}
    with AgentProcess(settings, tmp_path / "agent", token="secret") as agent:
        wait_until(lambda: "every user of this machine can read the tokens" in agent.log(), "the warning")


def test_the_fleet_warns(tmp_path: Path) -> None:
    token = secret(tmp_path, 0o644)
    cluster = {"id": "a", "server": {"url": "http://127.0.0.1:9", "tokenFile": token}}
    with FleetProcess([{**cluster, "sources": {"agents": {}}}], tmp_path / "fleet", {}) as fleet:
        said = "every user of this machine can read the credentials of a cluster"
        wait_until(lambda: said in fleet.log(), "the warning")
        assert token in fleet.log()
