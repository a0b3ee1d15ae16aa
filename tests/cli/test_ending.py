"""Commands that read this node leave no tool behind, and end although a driver hangs."""

import os
import threading
from pathlib import Path

import pytest
from tests.processes import runs
from tests.programs import script
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.cli.output import to_the_end
from accelscope.vendors.common import tool
from accelscope.vendors.common.contract import ReaderError
from accelscope.vendors.common.tool import Tool


@pytest.fixture(autouse=True)
def tools_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of these tests too."""
    monkeypatch.setattr(tool, "_over", False)


class Beside:
    """A thread that runs a tool that hangs, and then, whatever came of it, another."""

    def __init__(self, folder: Path) -> None:
        self.pid, self.second = folder / "pid", folder / "second"
        self._first = script(
            folder / "first-smi", f"echo $$ > {self.pid}.new; mv {self.pid}.new {self.pid}; exec sleep 600"
        )
        self._next = script(folder / "next-smi", f"touch {self.second}")
        self.reasons: list[str] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()
        wait_until(self.pid.exists, "the tool runs")

    def _work(self) -> None:
        for program in (self._first, self._next):
            try:
                Tool(str(program), timeout_seconds=PATIENCE_SECONDS).run([])
            except ReaderError as error:
                self.reasons.append(error.reason)

    def has_ended(self) -> bool:
        self._thread.join(PATIENCE_SECONDS)
        return not runs(int(self.pid.read_text())) and not self.second.exists()


def test_no_tool_outlives_a_command(tmp_path: Path) -> None:
    beside = Beside(tmp_path)

    def command() -> tuple[int, bool]:
        beside.start()
        return 3, False

    assert to_the_end(command) == 3
    assert beside.has_ended()
    assert beside.reasons == ["tool_killed", "tool_not_started"]


def test_nor_one_that_is_interrupted(tmp_path: Path) -> None:
    beside = Beside(tmp_path)

    def command() -> tuple[int, bool]:
        beside.start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        to_the_end(command)
    assert beside.has_ended()


def test_a_call_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(BaseException):
        pass

    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(Ended, match="2"):
        to_the_end(lambda: (2, True))
