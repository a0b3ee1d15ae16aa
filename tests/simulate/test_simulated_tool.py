"""The tool that knows its answers by heart: which it gives, what a run costs, how it fails."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from accelscope.simulate.faults import Fault, FaultKind
from accelscope.simulate.folder import write_bytes
from accelscope.simulate.node import Installation
from accelscope.simulate.spec import ToolCost
from accelscope.simulate.vendor import Tool, ToolAnswer

ERRORS = {"no_driver": ToolAnswer(text="driver is not there\n", error_text="dlopen failed\n", exit_code=255)}
LINES = "".join(f"line {number} of the répórt\n" for number in range(40))
ANSWERS = (
    ToolAnswer(patterns=("--version",), text="probe 1.2\n"),
    ToolAnswer(patterns=("info -i 3*",), text="no such card\n", exit_code=4),
    ToolAnswer(patterns=("info", "info -i ?", "info *--format?json*"), text=LINES, error_text="a warning\n"),
    ToolAnswer(patterns=("raw",), text=b"\xff\x00\n\n@@"),
)


class Probe:
    """A tool in a folder."""

    def __init__(self, folder: Path, cache: Path, **more: object) -> None:
        self.tool = Tool(name="probe", errors=ERRORS, **more)  # type: ignore[arg-type]
        self.path = folder / "bin" / "probe"
        self._folder = folder
        Installation(folder, cache, [self.tool.installed]).build()
        self.say(ANSWERS)

    def say(self, answers: Iterable[ToolAnswer], *faults: Fault) -> None:
        name, content = self.tool.state_file(answers, faults)
        write_bytes(self._folder / name, content)

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.path, *words], capture_output=True, check=False, timeout=60, env=environment
        )


@pytest.fixture
def probe(tmp_path: Path, native_cache: Path) -> Probe:
    return Probe(tmp_path, native_cache)


@pytest.mark.parametrize(
    ("command", "output", "errors", "code"),
    [
        ("--version", b"probe 1.2\n", b"", 0),
        ("info", LINES.encode(), b"a warning\n", 0),
        ("info -i 2", LINES.encode(), b"a warning\n", 0),
        ("info -i 3", b"no such card\n", b"", 4),  # the first that fits
        ("info --verbose --format json", LINES.encode(), b"a warning\n", 0),
        ("info --format=json", LINES.encode(), b"a warning\n", 0),
        ("raw", b"\xff\x00\n\n@@", b"", 0),
        ("information", b"", b"probe: invalid arguments: information\n", 2),
        ("", b"", b"probe: invalid arguments: \n", 2),
    ],
)
def test_the_first_answer_that_fits_is_given(
    probe: Probe, command: str, output: bytes, errors: bytes, code: int
) -> None:
    result = probe.run(*command.split())
    assert (result.stdout, result.stderr, result.returncode) == (output, errors, code)


def test_a_missing_state_file_is_reported(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "state" / "probe").unlink()
    result = probe.run("info")
    assert result.returncode == 1
    assert b"no state" in result.stderr


def test_a_run_costs_what_is_stated(tmp_path: Path, native_cache: Path) -> None:
    probe = Probe(tmp_path, native_cache, cost=ToolCost(cpu_milliseconds=150, memory_mib=48))
    program = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        "use = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(use.ru_utime + use.ru_stime, use.ru_maxrss)"
    )
    command = [sys.executable, "-c", program, str(probe.path), "--version"]
    seconds, kibibytes = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.split()
    assert 0.15 <= float(seconds) < 5
    assert int(kibibytes) >= 48 << 10


def test_a_tool_can_be_run_as_soon_as_it_is_there(tmp_path: Path, native_cache: Path) -> None:
    """Also where other threads start children all the time, which for a moment have open what this process
    has open: a program that anyone has open for writing cannot be executed."""
    done = threading.Event()

    def start_children() -> None:
        while not done.is_set():
            subprocess.run(["true"], check=True, timeout=60)

    threads = [threading.Thread(target=start_children) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(100):
            assert Probe(tmp_path / str(number), native_cache).run("--version").returncode == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_output_is_spoilt_by_faults(probe: Probe) -> None:
    def spoilt(kind: FaultKind) -> subprocess.CompletedProcess[bytes]:
        probe.say(ANSWERS, Fault(kind=kind))
        return probe.run("info")

    whole = LINES.encode()
    truncated = spoilt(FaultKind.TOOL_TRUNCATED)
    assert truncated.returncode == 0
    assert whole.startswith(truncated.stdout)
    assert 0 < len(truncated.stdout) < len(whole)
    killed = spoilt(FaultKind.TOOL_KILLED)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, truncated.stdout)
    garbage = spoilt(FaultKind.TOOL_GARBAGE).stdout
    assert garbage
    assert b"line" not in garbage
    foreign = spoilt(FaultKind.TOOL_NON_UTF8).stdout
    with pytest.raises(UnicodeDecodeError):
        foreign.decode()
    damaged = [one != other for one, other in zip(foreign.split(b"\n"), whole.split(b"\n"), strict=True)]
    assert 0 < sum(damaged) < len(damaged) / 2


def test_errors_come_instead_of_any_answer(probe: Probe) -> None:
    probe.say(ANSWERS, Fault(kind=FaultKind.TOOL_ERROR, error="no_driver"))
    for command in ("info", "--version", "whatever"):
        result = probe.run(command)
        assert (result.stdout, result.stderr) == (b"driver is not there\n", b"dlopen failed\n")
        assert result.returncode == 255


def test_faults_of_another_tool_are_not_its_own(probe: Probe) -> None:
    probe.say(ANSWERS, Fault(kind=FaultKind.TOOL_GARBAGE, tool="other"))
    assert probe.run("--version").stdout == b"probe 1.2\n"


@pytest.mark.parametrize("whole", [True, False], ids=["the tool", "one answer"])
def test_it_hangs_until_it_has_another_answer(probe: Probe, whole: bool) -> None:
    if whole:
        probe.say(ANSWERS, Fault(kind=FaultKind.TOOL_HANG))
    else:
        probe.say([ToolAnswer(patterns=("info",), hangs=True), *ANSWERS])
        assert probe.run("--version").stdout == b"probe 1.2\n"
    results: list[bytes] = []
    waiting = threading.Thread(target=lambda: results.append(probe.run("info").stdout))
    waiting.start()
    time.sleep(0.2)
    assert results == []
    probe.say(ANSWERS)
    waiting.join(60)
    assert results == [LINES.encode()]


def test_without_its_library_it_does_not_start(tmp_path: Path, native_cache: Path) -> None:
    probe = Probe(tmp_path, native_cache, library="libvendor.so")
    missing = probe.run("--version")
    assert missing.returncode == 127
    assert missing.stderr.endswith(
        b"error while loading shared libraries: libvendor.so: "
        b"cannot open shared object file: No such file or directory\n"
    )
    write_bytes(tmp_path / "opt/driver/lib64/libvendor.so", b"")
    path = f"{tmp_path}/elsewhere:{tmp_path}/opt/driver/lib64"
    assert probe.run("--version", LD_LIBRARY_PATH=path).stdout == b"probe 1.2\n"
