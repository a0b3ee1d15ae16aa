"""A slow source beside the collections: asked without waiting, dropped when too old."""

import threading
import time

import pytest
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.vendors.common.contract import ReaderError
from accelscope.vendors.common.tool import LastResult, PeriodicRunner


def test_asking_never_waits() -> None:
    gate = threading.Event()
    slow = PeriodicRunner(lambda: gate.wait(PATIENCE_SECONDS), 60.0, name="slow")
    assert slow.latest() == LastResult()
    gate.set()
    wait_until(lambda: slow.latest().value is True)
    slow.close()


def test_a_failed_run_is_told_once_and_keeps_the_last_answer() -> None:
    answers: list[int | None] = [1, None, 3]

    def source() -> int:
        answer = answers.pop(0) if answers else 3
        if answer is None:
            raise ReaderError("tool_timeout", "no answer")
        return answer

    background = PeriodicRunner(source, 0.02, name="source")
    reasons: list[str] = []

    def third() -> bool:
        latest = background.latest()
        reasons.extend(latest.failures)
        return latest.value == 3

    wait_until(third)
    assert reasons == ["tool_timeout"]
    background.close()


def test_a_fault_in_a_run_is_told_and_does_not_end_the_runs(caplog: pytest.LogCaptureFixture) -> None:
    answers = [0, 0, 1]
    background = PeriodicRunner(lambda: 1 // (answers.pop(0) if answers else 1), 0.02, name="faulty")
    reasons: list[str] = []

    def answered() -> bool:
        latest = background.latest()
        reasons.extend(latest.failures)
        return latest.value == 1

    wait_until(answered)
    background.close()
    assert reasons == ["internal", "internal"]
    said = [record.message for record in caplog.records if record.name == "accelscope.vendors.common.tool"]
    assert said == ["faulty: unexpected error"]


def test_an_old_answer_is_no_answer() -> None:
    now = [0.0]
    stopped = threading.Event()

    def source() -> int:
        if now[0] > 0:
            stopped.wait(PATIENCE_SECONDS)
        return 1

    background = PeriodicRunner(source, 10.0, name="old", monotonic=lambda: now[0])
    wait_until(lambda: background.latest().value == 1)
    now[0] = 29.0
    assert background.latest() == LastResult(1, 29.0)
    now[0] = 31.0
    assert background.latest() == LastResult(None, 31.0)
    stopped.set()
    background.close()


def test_who_looks_once_waits_for_the_first_answer() -> None:
    gate = threading.Event()
    threading.Timer(0.1, gate.set).start()
    slow = PeriodicRunner(lambda: gate.wait(PATIENCE_SECONDS), 60.0, name="slow")
    assert slow.latest(time.monotonic() + PATIENCE_SECONDS).value is True
    slow.close()


def test_a_first_run_that_fails_is_waited_for_no_longer() -> None:
    def fails() -> None:
        raise ReaderError("tool_killed", "it was killed")

    background = PeriodicRunner(fails, 60.0, name="fails")
    latest = background.latest(time.monotonic() + PATIENCE_SECONDS)
    assert latest.failures == ("tool_killed",)
    assert str(latest.failure) == "it was killed"
    again = background.latest()
    assert (again.failures, again.failure) == ((), latest.failure)
    background.close()


def test_the_first_answer_is_waited_for_once_and_not_for_ever() -> None:
    gate = threading.Event()
    hanging = PeriodicRunner(lambda: gate.wait(PATIENCE_SECONDS), 60.0, name="hanging")
    assert hanging.latest(time.monotonic() + 0.05) == LastResult()
    assert hanging.latest(time.monotonic() + PATIENCE_SECONDS) == LastResult(), "without waiting again"
    gate.set()
    hanging.close()
