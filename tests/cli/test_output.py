"""Standard output that cannot be written, as processes meet it, with Python's buffer and without."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.cli import files
from accelscope.cli.main import main

FULL = Path("/dev/full")
SAID = "accelscope: cannot write the output: No space left on device\n"
COMMANDS = [
    ["--help"],
    ["--version"],
    ["agent", "--help"],
    ["capture", "--dry-run"],
    ["completion", "bash"],
    ["doctor", "--device-timeout", "30s"],
    ["files"],
    ["parse", "--list"],
    ["simulate", "list"],
]


@pytest.fixture(params=["buffered", "unbuffered"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return inherited if request.param == "buffered" else {**inherited, "PYTHONUNBUFFERED": "1"}


def run(words: list[str], environment: dict[str, str], output: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "accelscope", *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_line(words: list[str], environment: dict[str, str]) -> None:
    with FULL.open("wb") as full:
        assert run(words, environment, full.fileno()) == (2, SAID)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_who_has_gone_is_not_told(words: list[str], environment: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert run(words, environment, writing) == (141, "")
    finally:
        os.close(writing)


def test_a_refusal_keeps_its_code_where_it_cannot_be_read(environment: dict[str, str]) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "accelscope", "files", "--to", "x"],
            stderr=full,
            env=environment,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 2


def test_an_agent_whose_log_is_full_ends_well(environment: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    words = ["agent", "--exporter-host=127.0.0.1", f"--exporter-port={port}", f"--proc-root={tmp_path}"]
    with FULL.open("wb") as full:
        process = subprocess.Popen([sys.executable, "-m", "accelscope", *words], stderr=full, env=environment)
    try:
        wait_until(lambda: listens(port), "it listens")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# A command that leaves a driver's call hanging.
HANGING = """
import sys
from accelscope.cli.output import to_the_end
from accelscope.cli.output import to_the_last_line
def command():
    print("something")
    return 0, True
sys.exit(to_the_last_line(lambda: to_the_end(command)))
"""


def test_a_full_disk_is_told_also_where_a_call_hangs(environment: dict[str, str]) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", HANGING],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, SAID)


def test_what_a_command_fails_by_is_not_taken_for_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "elsewhere")

    monkeypatch.setattr(files, "_print_or_copy", fail)
    with pytest.raises(OSError, match="elsewhere"):
        main(["files"])


# Ctrl-C at the moment at which the module that is named is looked for.
INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
from accelscope.cli.main import main
sys.exit(main(["files"]))
"""


@pytest.mark.parametrize("module", ["argparse", "accelscope.cli.output", "accelscope.cli.files"])
def test_an_interrupt_while_it_starts_is_not_told(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
