"""The agent's port: free, or in use by an agent, another exporter or another program."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.certificates import make_certificates
from tests.ports import free_port

from accelscope.agent.pages import Pages
from accelscope.doctor import http
from accelscope.doctor.check import Finding
from accelscope.doctor.http import port
from accelscope.metrics.exposition import Exposition
from accelscope.model import AgentState, Snapshot
from accelscope.serve import Server, Tls, TokenFile

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

Answer = Callable[[bytes], bytes]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine responds late."""
    monkeypatch.setattr(http, "_TIMEOUT_SECONDS", 60.0)


def check_port(node: "NodeFolder", number: int, host: str = "127.0.0.1") -> Finding:
    [finding] = port(node.subject({"exporter_port": str(number), "exporter_host": host}))
    return finding


@contextmanager
def listening(answer: Answer) -> Iterator[int]:
    """Another program, which answers each connection once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.settimeout(60)
                    try:
                        client.sendall(answer(client.recv(4096)))
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def page(body: str) -> Answer:
    return lambda _: f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_a_free_port_is_ok_and_stays_free(node: "NodeFolder") -> None:
    number = free_port()
    for _ in range(2):
        finding = check_port(node, number)
        assert (finding.severity, finding.found) == ("ok", f"{number} is free")


def test_any_free_port_needs_no_check_port(node: "NodeFolder") -> None:
    assert check_port(node, 0).severity == "ok"


@pytest.mark.parametrize(
    ("answer", "listener"),
    [
        (page("# HELP DCGM_FI_DEV_GPU_TEMP x\nDCGM_FI_DEV_GPU_TEMP 40\n"), "dcgm-exporter"),
        (page('gpu_nodes_total{hostname="node1"} 8\n'), "AMD's device-metrics-exporter"),
        (page('amd_gpu_nodes_total{hostname="node1"} 8\n'), "AMD's device-metrics-exporter"),
        (page('npu_chip_info_power{id="0"} 90\n'), "npu-exporter"),
        (page('furiosa_npu_alive{device="npu0"} 1\n'), "Furiosa's metrics exporter"),
        (page('pod_gpu_sm_util{pod="train"} 40\n'), "k8s-vgpu-monitor"),
        (page("<h1>Welcome to nginx</h1>"), "another HTTP server"),
        (lambda _: b"SSH-2.0-OpenSSH_9.6\r\n", "another program"),
        (lambda _: b"", "another program"),
    ],
    ids=["dcgm", "amd", "amd with a prefix", "ascend", "furiosa", "vgpu", "nginx", "ssh", "silent"],
)
def test_a_port_in_use_by_another_program_is_an_error(
    node: "NodeFolder", answer: Answer, listener: str
) -> None:
    with listening(answer) as number:
        finding = check_port(node, number)
    assert (finding.severity, finding.found) == ("error", f"{number} is in use by {listener}")
    is_exporter = not listener.startswith("another")
    expected = f"remove {listener}" if is_exporter else f"ss -ltnp 'sport = :{number}'"
    assert expected in (finding.advice or "")


@pytest.mark.parametrize("guarded", ["open", "token", "tls", "tls and token", "client certificate"])
def test_an_agent_is_recognised_with_any_authentication(
    node: "NodeFolder", tmp_path: Path, guarded: str
) -> None:
    pages = Pages(Exposition(), metrics_path="/metrics", moved_at=lambda: 0.0)
    pages.publish(Snapshot(node="n", taken_at=1.0, agent=AgentState(version="9.9", started_at=0.0)))
    token = tmp_path / "token"
    token.write_text("s3cret")
    tls = None
    if guarded not in ("open", "token"):
        made = make_certificates(tmp_path)
        ca = str(made.ca) if guarded == "client certificate" else None
        tls = Tls(str(made.server), str(made.server_key), ca)
    server = Server(
        pages.routes(), host="127.0.0.1", tls=tls, auth=TokenFile(token) if "token" in guarded else None
    )
    server.start()
    try:
        finding = check_port(node, server.address[1])
    finally:
        server.stop()
    assert finding.severity == "ok", finding
    assert "AccelScope agent" in finding.found
    assert ("9.9" in finding.found) == (guarded in ("open", "tls"))


def test_an_address_of_another_machine_is_an_error(node: "NodeFolder") -> None:
    finding = check_port(node, free_port(), "192.0.2.1")
    assert finding.severity == "error"
    assert "--exporter-host" in (finding.advice or "")
