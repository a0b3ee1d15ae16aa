"""`accelscope completion`, asked by real shells: bash always, zsh and fish where they are installed."""

import os
import pty
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_SECONDS

from accelscope.cli.completion import SCRIPTS, commands_below
from accelscope.cli.main import COMMANDS, main, make_parser

# What is typed, in a folder with a file and a folder, and what can follow.
CASES = [
    ("accelscope ag", {"agent"}),
    ("accelscope ", set(COMMANDS)),
    ("accelscope --v", {"--version"}),
    ("accelscope completion ", set(SCRIPTS)),
    ("accelscope agent --tls-", {"--tls-certificate", "--tls-key", "--tls-client-ca"}),
    ("accelscope agent --log-level ", {"debug", "info", "warning", "error"}),
    ("accelscope agent --log-level debug --log-format j", {"json"}),
    ("accelscope agent --readers n", {"nvidia"}),
    ("accelscope agent --readers nvidia,a", {"nvidia,amd", "nvidia,ascend"}),
    ("accelscope agent --log-level debug,", set()),
    ("accelscope agent --config-file se", {"settings.yaml"}),
    ("accelscope agent --config-file settings.yaml --log-format t", {"text"}),
    ("accelscope agent --proc-root ", {"nodes/"}),
    ("accelscope agent --job-mapping-folder ", {"nodes/"}),
    ("accelscope fleet --state-folder ", {"nodes/"}),
    ("accelscope device-plugin --plugin-dir ", {"nodes/"}),
    ("accelscope agent --node-name ", set()),
    ("accelscope top --tree p", {"pod"}),
    ("accelscope parse rocm", {"rocm-smi-json", "rocm-smi-csv", "rocm-smi-table"}),
    ("accelscope parse nvidia-smi-xml se", {"settings.yaml"}),
    ("accelscope fleet token c", {"create"}),
    ("accelscope fleet token create --scope ", {"read", "admin"}),
    ("accelscope simulate li", {"list"}),
    ("accelscope simulate run nvidia-m", {"nvidia-mig", "nvidia-mixed"}),
    ("accelscope simulate run nvidia-mig no", {"nodes/"}),
    ("accelscope simulate fault nodes xi", {"xid"}),
    ("accelscope simulate fleet-fault nodes agent_sl", {"agent_slow"}),
    ("accelscope simulate fleet-fault nodes xi", {"xid"}),
    ("accelscope simulate fleet-fault nodes xid --vendor n", {"nvidia"}),
    ("accelscope files ch", {"chart"}),
    ("accelscope files chart --to n", {"nodes/"}),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "settings.yaml").touch()
    (tmp_path / "nodes").mkdir()
    return tmp_path


@cache
def script(shell: str) -> str:
    return SCRIPTS[shell](commands_below(make_parser(COMMANDS)))


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_command_prints_it(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == script(shell)


# Bash's own commands for a file or a folder need a line being edited; where they are asked for is told here.
IN_BASH = """
source ./script
compopt() {{ [[ $2 == dirnames ]] && compgen -d -S / -- "$current" || compgen -f -- "$current"; }}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_accelscope
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def ask_bash(folder: Path, line: str) -> set[str]:
    words = " ".join(f"'{word}'" for word in line.split(" "))
    return asked(["bash", "--norc", "-c", IN_BASH.format(words=words)], folder)


def ask_fish(folder: Path, line: str) -> set[str]:
    told = asked(["fish", "--no-config", "-c", f"source ./script; complete --do-complete '{line}'"], folder)
    return {each.partition("\t")[0] for each in told}


def asked(command: list[str], folder: Path) -> set[str]:
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}


@pytest.mark.parametrize(("line", "follow"), CASES)
def test_bash_completes(folder: Path, line: str, follow: set[str]) -> None:
    (folder / "script").write_text(script("bash"))
    assert ask_bash(folder, line) == follow


def test_bash_names_no_word_of_a_list_twice(folder: Path) -> None:
    (folder / "script").write_text(script("bash"))
    assert ask_bash(folder, "accelscope agent --readers amd,nvidia,") == {
        "amd,nvidia,ascend",
        "amd,nvidia,furiosa",
    }


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("line", "follow"), CASES)
def test_fish_completes(folder: Path, line: str, follow: set[str]) -> None:
    (folder / "script").write_text(script("fish"))
    assert ask_fish(folder, line) == follow


# Typed on a terminal: the shell finishes the word as soon as only one can follow.
TYPED = [
    ("accelscope age", "accelscope agent"),
    ("accelscope agent --config-file sett", "accelscope agent --config-file settings.yaml"),
    ("accelscope agent --log-level=deb", "accelscope agent --log-level=debug"),
    ("accelscope agent --readers nvidia,fu", "accelscope agent --readers nvidia,furiosa"),
    ("accelscope agent --readers=nvidia,fu", "accelscope agent --readers=nvidia,furiosa"),
    ("accelscope simulate build sett", "accelscope simulate build settings.yaml"),
    ("accelscope files --to nod", "accelscope files --to nodes"),
]
START = {
    "bash": (["bash", "--norc", "-i"], ". ./script"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; . ./script"),
}


@pytest.mark.parametrize("shell", START)
@pytest.mark.parametrize(("typed", "becomes"), TYPED)
def test_on_a_terminal(folder: Path, shell: str, typed: str, becomes: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (folder / "script").write_text(script(shell))
    command, begin = START[shell]
    # What the line has become is an argument of a command that writes it down.
    lines = f'{begin}; accelscope() {{ echo "accelscope $*" >told; exit; }}\n{typed}\t\n'
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
    assert (folder / "told").read_text().rstrip("/\n") == becomes


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_option_of_every_command_is_in_the_script(shell: str) -> None:
    made = script(shell)
    flags = {
        flag.lstrip("-")
        for command in commands_below(make_parser(COMMANDS))
        for option in command.options
        for flag in option.flags
    }
    assert len(flags) > 100
    assert [flag for flag in flags if flag not in made] == []


def test_settings_that_are_paths_complete_files() -> None:
    """A path is told by its metavar: nothing that ends like one may have another."""
    for command in commands_below(make_parser(COMMANDS)):
        for option in command.options:
            if option.flags[-1].endswith(("-file", "-folder", "-root", "-socket", "-certificate", "-key")):
                assert option.value is not None
                assert option.value.paths, (command.name, option.flags)
