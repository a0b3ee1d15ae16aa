"""Bad settings: one clear line on standard error and exit code 2, before anything starts."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from accelscope.agent import app
from accelscope.cli.main import main


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The line with which the agent refuses such settings, before anything starts."""

    def started(*_: object) -> int:
        raise AssertionError("the agent starts")

    def refused(*flags: str, **environment: str) -> str:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(app, "run", started)
        try:
            code: object = main(["agent", *flags])
        except SystemExit as ended:  # of the parser of flags
            code = ended.code
        assert code == 2
        [line] = capsys.readouterr().err.splitlines()
        return line

    return refused


def agent(*flags: str) -> subprocess.CompletedProcess[str]:
    """As users start it."""
    return subprocess.run(
        [sys.executable, "-m", "accelscope", "agent", *flags],
        env={**os.environ, "KUBERNETES_SERVICE_HOST": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("flags", "environment", "says"),
    [
        (["--exporter-port", "99999"], {}, ["--exporter-port", "99999", "65535"]),
        (["--exporter-port", "http"], {}, ["--exporter-port", "http"]),
        ([], {"EXPORTER_PORT": "-1"}, ["EXPORTER_PORT", "-1"]),
        (["--collection-interval", "soon"], {}, ["--collection-interval", "soon", "10s"]),
        ([], {"COLLECT_INTERVAL": "0"}, ["COLLECT_INTERVAL", "100ms"]),
        (["--log-level", "loud"], {}, ["--log-level", "loud", "warning"]),
        (["--labels", "rack"], {}, ["--labels", "rack"]),
        (["--dcgm-counters", "/x.csv"], {}, ["--dcgm-counters", "--dialect dcgm"]),
        (["--dcgm-hostname-label", "HOST"], {}, ["--dcgm-hostname-label", "HOST", "Hostname, hostname"]),
        (["--labels", "model=x"], {}, ["--labels", "model"]),
        (["--labels", "1a=x"], {}, ["--labels", "1a"]),
        (["--readers", "acme"], {}, ["--readers", "acme", "nvidia"]),
        (["--metrics-path", "metrics"], {}, ["--metrics-path", "metrics"]),
        (["--metrics-path", "/healthz"], {}, ["--metrics-path", "/healthz"]),
        (["--max-process-series", "-5"], {}, ["--max-process-series", "-5"]),
        (["--tls-certificate", "/x.pem"], {}, ["--tls-certificate", "--tls-key"]),
        (["--tls-client-ca", "/x.pem"], {}, ["--tls-client-ca", "--tls-certificate"]),
        (["--config-file", "/none/agent.yaml"], {}, ["/none/agent.yaml"]),
        (["--feature-labels", "yes"], {}, ["--feature-labels", "yes", "nfd"]),
        (["--feature-labels", "nfd", "--feature-domains", ""], {}, ["--feature-domains", "accelscope.io"]),
        (["--annotation-interval", "5m"], {}, ["--annotation-heartbeat", "--annotation-interval"]),
    ],
)
def test_an_invalid_setting_is_one_line_and_exit_code_2(
    refusal: Callable[..., str], flags: list[str], environment: dict[str, str], says: list[str]
) -> None:
    line = refusal(*flags, **environment)
    for word in says:
        assert word in line


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--exporter-port", "99999"], ["--exporter-port", "99999", "65535"]),
        (["--tls-certificate", "/none.pem", "--tls-key", "/none.key"], ["/none"]),
        (["--token-file", "/none/token"], ["/none/token"]),
        (["--dialect", "dcgm", "--dcgm-counters", "/none.csv"], ["--dcgm-counters: /none.csv: No such file"]),
        (["--exporter-host", "no such host"], ["no such host"]),
        (["--npu-annotation"], ["--npu-annotation", "--kube-api-url"]),
        (["--feature-labels", "node"], ["--feature-labels", "cluster"]),
    ],
)
def test_the_process_ends_with_one_line_and_exit_code_2(flags: list[str], says: list[str]) -> None:
    ended = agent(*flags)
    assert ended.returncode == 2, ended.stderr
    [line] = ended.stderr.splitlines()
    for word in says:
        assert word in line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("exporterPort: many\n", ["exporterPort", "many"]),
        ("exporterPrt: 9400\n", ["exporterPrt", "exporterPort"]),
        ("exporterPort: [9400\n", ["agent.yaml:2:", "not valid YAML"]),
        ("- a\n- b\n", []),
        ("logLevel: info\nlogLevel: debug\n", ["logLevel"]),
    ],
)
def test_an_invalid_file_is_reported_with_its_line(
    refusal: Callable[..., str], tmp_path: Path, text: str, says: list[str]
) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(text)
    line = refusal("--config-file", str(file))
    assert "agent.yaml" in line
    for word in says:
        assert word in line


def test_an_unknown_flag_is_named(refusal: Callable[..., str]) -> None:
    told = refusal("--exporter-prt", "1")
    assert told == "accelscope agent: unrecognized arguments: --exporter-prt 1 (see accelscope agent --help)"


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = agent("--exporter-host", "127.0.0.1", "--exporter-port", str(port))
    assert ended.returncode == 2
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("accelscope agent:")]
    assert str(port) in line
