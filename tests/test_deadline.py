"""Calls with a deadline: one that hangs costs its thread and its key, and nothing else."""

import threading
from collections.abc import Iterator

import pytest
from tests.no_threads import no_threads
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.deadline import (
    CallInProgress,
    Calls,
    DeadlineExceeded,
    NoThreadAvailable,
    call_detached,
    call_with_deadline,
)


@pytest.fixture
def calls() -> Iterator[Calls]:
    opened = Calls("test-deadline")
    yield opened
    opened.close()


def workers() -> int:
    return sum(thread.name == "test-deadline" for thread in threading.enumerate())


def test_the_result_is_returned_and_the_worker_is_used_again(calls: Calls) -> None:
    idents = {calls.call(key, threading.get_ident, PATIENCE_SECONDS) for key in ("a", "b", "a")}
    assert len(idents) == 1
    assert threading.get_ident() not in idents
    assert workers() == 1
    calls.close()
    wait_until(lambda: workers() == 0)


def test_an_exception_is_raised_in_the_caller(calls: Calls) -> None:
    def fail() -> None:
        raise ValueError("of the call")

    with pytest.raises(ValueError, match="of the call"):
        calls.call("a", fail, PATIENCE_SECONDS)
    assert calls.call("a", lambda: 1, PATIENCE_SECONDS) == 1


def test_an_exception_that_is_a_result_is_returned(calls: Calls) -> None:
    result = ValueError("not raised")
    assert calls.call("a", lambda: result, PATIENCE_SECONDS) is result


def test_a_key_is_not_called_again_until_its_abandoned_call_returns(calls: Calls) -> None:
    gate = threading.Event()
    with pytest.raises(DeadlineExceeded, match=r"within 0\.01 s"):
        calls.call("a", gate.wait, 0.01)
    assert calls.abandoned == {"a"}
    with pytest.raises(CallInProgress):
        calls.call("a", lambda: 1, PATIENCE_SECONDS)
    assert calls.call("b", lambda: 2, PATIENCE_SECONDS) == 2
    assert workers() == 2, "the hung one, and one that replaces it"
    gate.set()
    wait_until(lambda: not calls.abandoned)
    assert calls.call("a", lambda: 3, PATIENCE_SECONDS) == 3, "the late result is discarded"
    wait_until(lambda: workers() == 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_call_that_ends_its_thread_does_not_block_its_key(calls: Calls) -> None:
    def leave() -> None:
        raise SystemExit

    with pytest.raises(DeadlineExceeded):
        calls.call("a", leave, 0.2)
    wait_until(lambda: not calls.abandoned)
    assert calls.call("a", lambda: 1, PATIENCE_SECONDS) == 1


def test_an_error_of_the_callback_costs_no_later_call() -> None:
    changed = threading.Condition()
    calls = Calls("test-deadline", changed)
    seen = threading.Event()

    def fail(_: object) -> None:
        seen.set()
        raise ValueError("of the callback")

    with changed:
        calls.begin("a", lambda: 1, PATIENCE_SECONDS, fail)
    assert seen.wait(PATIENCE_SECONDS)
    assert calls.call("b", lambda: 2, 5.0) == 2
    calls.close()


def test_calls_with_different_keys_run_at_the_same_time(calls: Calls) -> None:
    both = threading.Barrier(2)
    other = threading.Thread(target=calls.call, args=("a", both.wait, PATIENCE_SECONDS))
    other.start()
    calls.call("b", lambda: both.wait(PATIENCE_SECONDS), PATIENCE_SECONDS)
    other.join()


def test_without_a_thread_nothing_is_remembered_as_running(calls: Calls) -> None:
    with no_threads():
        with pytest.raises(NoThreadAvailable, match="can't start new thread"):
            calls.call("a", lambda: 1, PATIENCE_SECONDS)
        call_detached("a", lambda: None)
    assert calls.call("a", lambda: 1, PATIENCE_SECONDS) == 1


def test_a_loop_begins_calls_one_after_the_other_and_abandons_those_that_are_overdue() -> None:
    now = 100.0
    changed = threading.Condition()
    calls = Calls("test-deadline", changed, lambda: now)
    gate, results = threading.Event(), list[int]()

    def done(result: int) -> None:
        results.append(result)
        changed.notify_all()
        if result < 3:
            calls.begin(str(result), lambda: result + 1, 5.0, done)

    with changed:
        calls.begin("hangs", gate.wait, 10.0, lambda _: results.append(99))
        calls.begin("0", lambda: 1, 5.0, done)
        assert calls.deadline() == 105.0
        assert changed.wait_for(lambda: len(results) == 3, PATIENCE_SECONDS)
        assert (calls.running, calls.deadline(), calls.abandon_overdue()) == (("hangs",), 110.0, [])
        now = 110.0
        assert (calls.abandon_overdue(), calls.running, calls.deadline()) == (["hangs"], (), None)
    gate.set()
    wait_until(lambda: not calls.abandoned)
    calls.close()
    assert results == [1, 2, 3]


def test_whoever_waits_learns_of_an_earlier_deadline() -> None:
    changed = threading.Condition()
    calls = Calls("test-deadline", changed)
    gate = threading.Event()

    def done(_: object) -> None:
        calls.begin("second", gate.wait, 1.0, lambda _: None)

    with changed:
        calls.begin("first", lambda: None, 2 * PATIENCE_SECONDS, done)
        assert changed.wait_for(lambda: calls.running == ("second",), PATIENCE_SECONDS)
    gate.set()
    calls.close()


def test_a_call_that_is_begun_before_the_end_is_made() -> None:
    changed = threading.Condition()
    calls = Calls("test-deadline", changed)
    made = threading.Event()

    def done(_: object) -> None:
        calls.begin("second", made.set, PATIENCE_SECONDS, lambda _: None)
        calls.close()

    with changed:
        calls.begin("first", lambda: None, PATIENCE_SECONDS, done)
    assert made.wait(PATIENCE_SECONDS)
    wait_until(lambda: workers() == 0)


def test_a_single_call_leaves_no_worker_behind() -> None:
    assert call_with_deadline("test-deadline", lambda: 1, PATIENCE_SECONDS) == 1
    wait_until(lambda: workers() == 0)
