"""`accelscope simulate`."""

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
import yaml
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.cli import simulate
from accelscope.simulate import load_node, ready_made


@pytest.fixture(autouse=True)
def _cache(native_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(native_cache.parent))


def command(*words: object) -> int:
    parser = argparse.ArgumentParser(prog="accelscope")
    simulate.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["simulate", *map(str, words)])
    return simulate.run(arguments)


def test_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(ready_made())
    assert all(len(line.split()) > 3 and line.endswith(".") for line in lines)
    assert "8 nvidia" in next(line for line in lines if line.startswith("nvidia-h100x8"))
    assert command("list", "--vendor", "nvidia") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == list(ready_made("nvidia"))
    assert command("show", "nvidia-mig") == 0
    assert capsys.readouterr().out == load_node("nvidia-mig").text


def test_build_prints_how_to_use_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "node"
    folder.mkdir()  # an empty one will do
    assert command("build", "nvidia-mig", folder, "--at", "60") == 0
    output = capsys.readouterr().out
    assert f"--nvml-library {folder}/lib/libnvidia-ml.so.1" in output
    assert f"LD_LIBRARY_PATH={folder}/lib PATH={folder}/bin:" in output
    assert "system.time_us=60000000\n" in (folder / "state/nvml").read_text()
    settings = yaml.safe_load((folder / "agent.yaml").read_text())
    assert settings["nvmlLibrary"] == f"{folder}/lib/libnvidia-ml.so.1"
    assert "kubeApiUrl" not in settings  # nothing serves it


def test_faults_are_set_listed_and_cleared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "node"
    command("build", "nvidia-h100x8", folder)
    capsys.readouterr()

    def shown(*words: object) -> str:
        assert command("fault", folder, *words) == 0
        return capsys.readouterr().out.strip()

    assert shown() == "set: nothing"
    assert shown("hang", "--device", 3) == "set: hang of device 3"
    assert "gpu3.fault=hang\n" in (folder / "state/nvml").read_text()
    assert shown("tool_error", "--error", "no_devices") == "set: hang of device 3, tool_error"
    assert shown("hang", "--device", 3, "--clear") == "set: tool_error"
    assert "gpu3.fault" not in (folder / "state/nvml").read_text()
    assert shown("tool_hang", "--tool", "nvidia-smi") == "set: tool_error, tool_hang of nvidia-smi"
    assert shown("--clear") == "set: nothing"
    assert command("fault", folder, "hang", "--device", 3, "--clear") == 2
    assert "hang is not set; set: nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("build", "nvidia-h100x9", "new"), "nvidia-h100x9: No such file or directory; ready-made nodes: "),
        (("fault", "nowhere", "hot"), "nowhere: not a simulated node: No such file or directory"),
        (("fault", "node", "hot"), "simulate: --device: hot needs a device; allowed: 0 to 2\n"),
        (("show", "not-yaml.yaml"), "simulate: not-yaml.yaml:2: not valid YAML: "),
        (("show", "bad.yaml"), 'simulate: bad.yaml: unknown key "colour"; allowed: node,'),
        (("show", "latin.yaml"), "simulate: latin.yaml: not UTF-8 text"),
        (("fault", "spoilt", "hot"), "simulate: spoilt/node.yaml:2: not valid YAML: "),
        (("fault", "node", "tool_error"), "--error: tool_error needs one of: no_devices,"),
        (("fault", "node", "hot", "--device", "0", "--cause", "ppt"), '--cause: "ppt"'),
        (
            ("fault", "node", "tool_hang", "--tool", "amd-smi"),
            '--tool: "amd-smi" is not nvidia-smi',
        ),
        (
            ("fault", "node", "xid", "--device", "0", "--code", "0"),
            "is not a whole number from 1",
        ),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    command("build", "nvidia-mig", "node")
    Path("spoilt").mkdir()
    for name in ("not-yaml.yaml", "spoilt/node.yaml"):
        Path(name).write_text("seed: [\n")
    Path("bad.yaml").write_text("colour: blue\n")
    Path("latin.yaml").write_bytes(b"node: caf\xe9\n")
    capsys.readouterr()
    assert command(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith("accelscope simulate: ")
    assert text in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("fault", "node", "tired"), '"tired" is not one of lost, vanished,'),
        (("build", "nvidia-mig", "node", "--at", "soon"), '"soon" is not a duration of at least 0s'),
        (("run", "nvidia-mig", "node", "--period", "0"), '"0" is not a duration of at least 50ms'),
        (("fault", "node", "hot", "--device", "x"), '"x" is not a whole number'),
        (("fleet-fault", "clusters", "hot", "--device", "x"), '"x" is not a whole number'),
        (("fault", "node", "xid", "--code", "79h"), '"79h" is not a number such as 31'),
        (("fleet", "clusters", "--interval", "-5"), '"-5" is not a duration from 100ms to 24h'),
        (("fleet", "clusters", "--interval", "x"), '"x" is not a duration from 100ms to 24h'),
        (("fleet-fault", "clusters", "xid", "--code", "79h"), '"79h" is not a number such as 31'),
        (("fleet-fault", "clusters", "api_slow", "--seconds", "x"), '"x" is not a duration from 0s to 1h'),
        (("list", "--vendor", "matrox"), "invalid choice: 'matrox' (choose from 'nvidia'"),
    ],
)
def test_bad_options_name_what_is_allowed(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        command(*words)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    assert command("build", "nvidia-mig", file) == 1
    assert capsys.readouterr().err == f"accelscope simulate: {file}: Not a directory\n"


def test_a_bad_file_of_faults_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "node"
    command("build", "nvidia-mig", folder)
    capsys.readouterr()
    for content, problem in ((b"- [\n", ":2: not valid YAML: "), (b"caf\xe9\n", ": not UTF-8 text")):
        (folder / "faults.yaml").write_bytes(content)
        assert command("fault", folder) == 2
        assert capsys.readouterr().err.startswith(f"accelscope simulate: faults.yaml{problem}")


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    """As in `accelscope simulate build ... | head`."""
    words = [sys.executable, "-m", "accelscope", "simulate", "build", "nvidia-mig", str(tmp_path / "node")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE_SECONDS) == 141


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (("--help",), "simulate run nvidia-h100x8"),
        (("fault", "--help"), "calls on the device"),
    ):
        with pytest.raises(SystemExit):
            command(*words)
        assert text in capsys.readouterr().out


@contextmanager
def running(*words: object) -> Iterator[IO[str]]:
    """`accelscope simulate run`, and what it prints."""
    program = (
        "import argparse, sys; from accelscope.cli import simulate; p = argparse.ArgumentParser();"
        "simulate.add_parser(p.add_subparsers()); sys.exit(simulate.run(p.parse_args()))"
    )
    command = [sys.executable, "-c", program, "simulate", "run", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


def test_run_updates_the_node_until_it_is_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    with running("nvidia-mig", folder, "--period", "0.05") as output:
        assert any(line.startswith("moving") for line in output)
        state = folder / "state/nvml"
        before = state.read_text()
        wait_until(lambda: state.read_text() != before, "the node moves")
        assert command("fault", folder, "lost", "--device", 2) == 0
        wait_until(lambda: "gpu2.fault=lost\n" in state.read_text(), "the fault is taken up")
        assert command("build", "nvidia-mig", folder) == 1  # not while it runs


def test_run_serves_the_cluster_of_a_node_with_pods(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    with running("nvidia-shared", folder) as output:
        printed = "".join(itertools.takewhile(lambda line: not line.startswith("moving"), output))
        settings = yaml.safe_load((folder / "agent.yaml").read_text())
        assert f"--kube-api-url {settings['kubeApiUrl']} " in printed
        assert settings["nodeName"] == "nvidia-shared"
        assert Path(settings["podResourcesSocket"]).is_socket()
        token = Path(settings["kubeTokenFile"]).read_text()
        request = urllib.request.Request(
            f"{settings['kubeApiUrl']}/api/v1/pods", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            pods = json.load(answer)["items"]
    assert {pod["metadata"]["namespace"] for pod in pods} > {"inference", "research", "vision"}
    assert not Path(settings["podResourcesSocket"]).exists()


@pytest.mark.parametrize("words", [("nvidia-shared", "--no-kubernetes"), ("amd-radeon",)])
def test_run_without_a_cluster(words: tuple[str, ...], tmp_path: Path) -> None:
    with running(words[0], tmp_path / "node", *words[1:]) as output:
        printed = "".join(itertools.takewhile(lambda line: not line.startswith("moving"), output))
    assert "--proc-root" in printed
    assert "--kube" not in printed
    assert not (tmp_path / "node/kubernetes").exists()
