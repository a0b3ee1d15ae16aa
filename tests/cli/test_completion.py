"""`accelscope completion` in real shells: bash always, zsh and fish where they are installed."""

import os
import pty
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_SECONDS

from accelscope.cli.completion import SHELLS, completion_script
from accelscope.cli.main import COMMANDS, main, make_parser

# Typed before the tabulator key, in a folder that contains settings.yaml and nodes/, and the completed line.
TYPED = [
    ("accelscope age", "accelscope agent"),
    ("accelscope agent --exporter-h", "accelscope agent --exporter-host"),
    ("accelscope agent --log-level deb", "accelscope agent --log-level debug"),
    ("accelscope agent --config-file sett", "accelscope agent --config-file settings.yaml"),
    ("accelscope agent --proc-root nod", "accelscope agent --proc-root nodes"),
    ("accelscope parse nvidia-smi-x", "accelscope parse nvidia-smi-xml"),
    ("accelscope compare sett", "accelscope compare settings.yaml"),
    ("accelscope compare a b --output js", "accelscope compare a b --output json"),
    ("accelscope fleet token cr", "accelscope fleet token create"),
    ("accelscope simulate run nvidia-mig", "accelscope simulate run nvidia-mig"),
]
START = {
    "bash": (["bash", "--norc", "-i"], ". ./_accelscope"),
    "zsh": (["zsh", "-f", "-i"], "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D"),
}


@cache
def script(shell: str) -> str:
    return completion_script(make_parser(COMMANDS), shell)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "settings.yaml").touch()
    (tmp_path / "nodes").mkdir()
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_prints_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == script(shell) + "\n"


@pytest.mark.parametrize("shell", START)
@pytest.mark.parametrize(("typed", "completed"), TYPED)
def test_a_shell_completes_the_line(folder: Path, shell: str, typed: str, completed: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (folder / "_accelscope").write_text(script(shell))
    command, begin = START[shell]
    # The completed line becomes the arguments of a function that writes them down.
    lines = f'{begin}; accelscope() {{ echo "accelscope $*" >line; exit; }}\n{typed}\t\n'
    terminal, inside = pty.openpty()
    child = subprocess.Popen(
        command,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm"},
    )
    os.close(inside)
    os.write(terminal, lines.encode())
    while read(terminal):
        pass
    os.close(terminal)
    assert child.wait(PATIENCE_SECONDS) == 0
    assert (folder / "line").read_text().rstrip("/ \n") == completed


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the shell has closed it
        return b""


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("typed", "candidates"),
    [
        ("accelscope ", set(COMMANDS)),
        ("accelscope agent --log-level ", {"debug", "info", "warning", "error"}),
        ("accelscope parse rocm", {"rocm-smi-json", "rocm-smi-csv", "rocm-smi-table"}),
        ("accelscope simulate fleet-fault nodes agent_sl", {"agent_slow"}),
    ],
)
def test_fish_lists_candidates(folder: Path, typed: str, candidates: set[str]) -> None:
    (folder / "script").write_text(script("fish"))
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source ./script; complete --do-complete '{typed}'"],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    assert {line.partition("\t")[0] for line in done.stdout.splitlines()} >= candidates


@pytest.mark.parametrize("option", ["--nvml-library", "--clusters-file", "--default-pe", "--once"])
@pytest.mark.parametrize("shell", SHELLS)
def test_options_of_all_commands_are_in_the_script(shell: str, option: str) -> None:
    assert option.removeprefix("--") in script(shell)
