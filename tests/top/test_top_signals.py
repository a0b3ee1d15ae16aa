"""Signals reach only the selected process of the same user."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.top.views import process
from tests.waiting import PATIENCE_SECONDS

from accelscope.top.screen.app import SignalError, _started, aim

NOBODY = 65534


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield started
    started.kill()
    started.wait()


def test_own_child_gets_the_signal(child: subprocess.Popen[bytes]) -> None:
    seen = process(child.pid, 0, name="python3", user="me", started_at=_started(child.pid))
    target = aim(seen, seen_at=time.time())
    assert (target.pid, target.name, target.user) == (child.pid, "python3", "me")
    target.send(signal.SIGTERM)
    target.close()
    assert child.wait(PATIENCE_SECONDS) == -signal.SIGTERM


def test_a_process_that_ended_between_question_and_answer_is_told(child: subprocess.Popen[bytes]) -> None:
    target = aim(process(child.pid, 0, name="python3"), seen_at=time.time())
    child.kill()
    child.wait()
    with pytest.raises(SignalError, match="has ended"):
        target.send(signal.SIGTERM)
    target.close()


def test_another_process_of_the_same_pid_is_not_aimed_at(child: subprocess.Popen[bytes]) -> None:
    seen = process(child.pid, 0, name="python3")
    with pytest.raises(SignalError, match="a different process"):
        aim(seen, seen_at=time.time() - 3600)
    with pytest.raises(SignalError, match="a different process"):
        aim(replace(seen, started_at=time.time() - 3600), seen_at=time.time())


def test_what_is_gone_or_of_another_proc_is_refused(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    seen = process(child.pid, 0)
    with pytest.raises(SignalError, match="not from /proc of this machine"):
        aim(seen, seen_at=time.time(), proc_root=str(tmp_path))
    child.kill()
    child.wait()
    with pytest.raises(SignalError, match="has ended"):
        aim(seen, seen_at=time.time())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of somebody else")
def test_process_of_another_user_is_refused_to_root_too() -> None:
    with subprocess.Popen(["sleep", "600"], user=NOBODY) as other:
        with pytest.raises(SignalError, match="belongs to nobody; signals can only be sent to your own"):
            aim(process(other.pid, 0, name="sleep", user="nobody"), seen_at=time.time())
        assert other.poll() is None
        other.kill()
