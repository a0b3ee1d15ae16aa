"""Running a driver's tool: whatever it does, the caller gets an answer or a reason, in time."""

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes import runs
from tests.programs import program, script
from tests.waiting import PATIENCE_SECONDS, growing_patience, wait_until

from accelscope.vendors.common import tool as module
from accelscope.vendors.common.contract import ReaderError
from accelscope.vendors.common.tool import Tool, end_running_tools, start_no_more_tools

SLEEPS_SECONDS = 100


def tool(folder: Path, lines: str, *, timeout: float = PATIENCE_SECONDS, limit: int = 1000) -> Tool:
    return Tool(str(script(folder / "tool", lines)), timeout_seconds=timeout, limit_bytes=limit)


def reason(tool: Tool) -> str:
    with pytest.raises(ReaderError) as caught:
        tool.run(["--query"])
    return caught.value.reason


def test_output_complaint_and_exit_code(tmp_path: Path) -> None:
    output = tool(tmp_path, 'echo "out $1"; echo err >&2; exit 3').run(["--query"])
    assert (output.text, output.complaint, output.exit_code) == ("out --query\n", "err\n", 3)


def test_arguments_meet_no_shell(tmp_path: Path) -> None:
    assert tool(tmp_path, 'printf "%s" "$1"').run(["$(id); `id`"]).text == "$(id); `id`"


def test_it_runs_without_terminal_and_in_a_known_language(tmp_path: Path) -> None:
    assert tool(tmp_path, 'echo "$LC_ALL"; cat').run([]).text == "C\n"


def test_what_is_not_utf8_is_replaced(tmp_path: Path) -> None:
    assert tool(tmp_path, r"printf 'a\377b'").run([]).text == "a�b"


def test_a_tool_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    for seconds in growing_patience(1.0, pids):
        hanging = tool(tmp_path, f"sleep {SLEEPS_SECONDS} & echo $! $$ > {pids}; wait", timeout=seconds)
        began = time.monotonic()
        assert reason(hanging) == "tool_timeout"
        assert time.monotonic() - began < SLEEPS_SECONDS / 2
    for pid in pids.read_text().split():
        wait_until(lambda pid=int(pid): not runs(pid), f"{pid} has ended")  # type: ignore[misc]


def test_a_tool_that_closes_its_output_but_does_not_end(tmp_path: Path) -> None:
    assert reason(tool(tmp_path, f"exec >&- 2>&-; sleep {SLEEPS_SECONDS}", timeout=0.3)) == "tool_timeout"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("kill -9 $$", "tool_killed"),
        ("yes", "tool_output_too_big"),
    ],
)
def test_reasons(tmp_path: Path, script: str, expected: str) -> None:
    assert reason(tool(tmp_path, script)) == expected


def test_a_missing_tool(tmp_path: Path) -> None:
    missing = Tool(str(tmp_path / "none"), timeout_seconds=PATIENCE_SECONDS)
    assert missing.find() is None
    assert reason(missing) == "tool_missing"


def test_a_tool_that_cannot_be_started(tmp_path: Path) -> None:
    path = program(tmp_path / "tool", b"\x7fELF nonsense")
    assert reason(Tool(str(path), timeout_seconds=PATIENCE_SECONDS)) == "tool_not_started"


def test_floods_on_the_error_channel_do_not_block_it(tmp_path: Path) -> None:
    output = tool(tmp_path, "head -c 1000000 /dev/zero >&2; echo done").run([])
    assert output.text == "done\n"
    assert len(output.complaint) < 200_000


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    def descriptors() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    quick = tool(tmp_path, "echo")
    quick.run([])
    before = descriptors()
    for _ in range(5):
        quick.run([])
    (tmp_path / "h").mkdir()
    hanging = tool(tmp_path / "h", f"sleep {SLEEPS_SECONDS}", timeout=0.05)
    reason(hanging)
    wait_until(lambda: descriptors() <= before)


def test_children_that_outlive_a_killed_tool_are_killed_too(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    for seconds in growing_patience(1.0, pid):
        orphaning = tool(tmp_path, f"sleep {SLEEPS_SECONDS} & echo $! > {pid}; kill -9 $$", timeout=seconds)
        assert reason(orphaning) == "tool_timeout"
    wait_until(lambda: not runs(int(pid.read_text())), "the child has ended")


def test_a_shorter_time_for_one_run(tmp_path: Path) -> None:
    slow = tool(tmp_path, f"sleep {SLEEPS_SECONDS}")
    began = time.monotonic()
    with pytest.raises(ReaderError) as caught:
        slow.run([], timeout_seconds=0.1)
    assert caught.value.reason == "tool_timeout"
    assert time.monotonic() - began < SLEEPS_SECONDS / 2


def in_a_thread(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_the_end_of_the_program_ends_what_runs_with_its_children(tmp_path: Path) -> None:
    pids, told = tmp_path / "pids", tmp_path / "told"
    lines = f"sleep {SLEEPS_SECONDS} & echo $! $$ > {pids}; touch {told}; wait"
    hanging, reasons = tool(tmp_path, lines), list[str]()
    thread = in_a_thread(lambda: reasons.append(reason(hanging)))
    wait_until(told.exists, "it runs")
    end_running_tools()
    for pid in pids.read_text().split():
        wait_until(lambda pid=int(pid): not runs(pid), f"{pid} has ended")  # type: ignore[misc]
    thread.join(PATIENCE_SECONDS)
    assert reasons == ["tool_killed"]


def test_the_end_of_the_program_waits_for_one_that_is_just_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def slowly(*given: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(popen(*given, **options))  # type: ignore[call-overload]
        time.sleep(0.3)
        return started[0]

    hanging = tool(tmp_path, f"exec sleep {SLEEPS_SECONDS}")
    monkeypatch.setattr(subprocess, "Popen", slowly)
    thread = in_a_thread(lambda: reason(hanging))
    wait_until(lambda: started, "it is being started")
    end_running_tools()
    wait_until(lambda: not runs(started[0].pid), "it has ended")
    thread.join(PATIENCE_SECONDS)


def test_at_the_end_of_the_program_none_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_over", False)  # and again after this test
    started = tmp_path / "started"
    start_no_more_tools()
    assert reason(tool(tmp_path, f"touch {started}")) == "tool_not_started"
    assert not started.exists()
