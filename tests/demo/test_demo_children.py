"""Processes of the demo: none is left behind, and one that fails says why."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.processes import runs
from tests.waiting import PATIENCE_SECONDS, wait_until
from tools.demo.children import ChildEnded, Children


def test_one_that_ends_early_is_named_with_its_last_lines(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        sleeper = children.start("sleeper", "sleep", "60")
        children.start("bad luck", "sh", "-c", "seq 100; echo no such port >&2; exit 3")
        with pytest.raises(ChildEnded) as error:
            children.wait_for(sleeper, lambda: False)
    told = str(error.value)
    assert told.startswith("bad luck ended with code 3. Its last lines:\n")
    assert told.endswith("    100\n    no such port")
    assert len(told.splitlines()) < 20


def test_one_that_ignores_being_told_to_end_is_ended_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.demo.children._END_SECONDS", 0.3)
    with Children(tmp_path) as children:
        stubborn = children.start("stubborn", "sh", "-c", "trap '' TERM; echo set; while :; do sleep 1; done")
        children.wait_for(stubborn, lambda: "set" in stubborn.said())
        began = time.monotonic()
    assert stubborn.process.returncode == -9
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_they_end_also_where_the_demo_is_killed(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from tools.demo.children import Children
children = Children(Path({str(tmp_path)!r}))
child = children.start("sleeper", "sleep", "600")
print(child.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -9
    wait_until(lambda: not runs(int(done.stdout)), "the child has ended")
