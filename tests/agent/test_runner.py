"""One reader under deadlines: what hangs costs itself, and nothing else."""

import errno
import threading
import time
from collections.abc import Callable, Iterator
from queue import Queue

import pytest
from tests.no_threads import no_threads
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.agent.runner import Deadlines, Result, Runner
from accelscope.model import (
    Device,
    EccCount,
    ErrorCount,
    Health,
    HealthState,
    Process,
    Reading,
    Rejection,
    Vendor,
)
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError, Survey
from accelscope.vendors.common.health import HealthTracker

DEADLINES = Deadlines(survey_seconds=2, device_seconds=2, pass_seconds=50)


class Clock:
    """A clock that only tests and readers advance, so a busy machine misses no deadline."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class ScriptedReader:
    """Answers as the test says, and takes `seconds` for a device; a key in `gates` waits until its gate
    opens."""

    vendor = Vendor("nvidia")

    def __init__(self, clock: Clock, *keys: str) -> None:
        self.keys = list(keys)
        self.clock = clock
        self.held: Queue[str] = Queue()  # calls that began to wait at their gates
        self.errors: dict[str, Exception] = {}
        self.gates: dict[str, threading.Event] = {}
        self.asked: list[str] = []
        self.ids: dict[str, str] = {}
        self.closed = threading.Event()
        self.seconds = 0.0
        self.memory_errors = 0
        self.health = Health(HealthState.UNKNOWN)
        self.complete = True
        self.expected = 0

    def survey(self) -> Survey:
        self._go_through("")
        return Survey("script", tuple(self.keys), "1.0", complete=self.complete, expected=self.expected)

    def read(self, key: str) -> Reading:
        self._go_through(key)
        self.clock.now += self.seconds
        id_ = self.ids.get(key, f"nvidia:GPU-{key}")
        device = Device(
            vendor=Vendor("nvidia"),
            id=id_,
            index=int(key),
            power_watts=100.0,
            health=self.health,
            read_at=self.clock(),
            ecc=(EccCount("uncorrected", False, self.memory_errors),),
            errors=(ErrorCount("xid", "13", 1, 5.0),),
        )
        return Reading(device, (Process(pid=1, device=id_),), (Rejection("x", "unreadable"),))

    def close(self) -> None:
        self.closed.set()

    def hang(self, key: str) -> None:
        self.gates[key] = threading.Event()

    def release(self, key: str) -> None:
        self.gates.pop(key).set()

    def _go_through(self, key: str) -> None:
        self.asked.append(key)
        gate = self.gates.get(key)
        if gate is not None:
            self.held.put(key)
            gate.wait(PATIENCE_SECONDS)
        error = self.errors.get(key)
        if error is not None:
            raise error


class Run:
    """Drives a runner as the collector does."""

    def __init__(self, reader: ScriptedReader, deadlines: Deadlines = DEADLINES) -> None:
        self.changed = threading.Condition()
        self.reader = reader
        self.runner = Runner(reader, deadlines=deadlines, changed=self.changed, monotonic=reader.clock)

    def one_pass(self) -> Result:
        with self.changed:
            self.runner.begin()
            end = time.monotonic() + PATIENCE_SECONDS
            while self.runner.busy:
                assert time.monotonic() < end
                self.changed.wait(0.01)
                if not self.reader.held.empty():
                    self._let_deadline_pass(self.reader.held.get())
            return self.runner.result()

    def as_far_as(self, key: str) -> Result:
        """The result during a pass, while this device is read."""
        self.reader.hang(key)
        with self.changed:
            self.runner.begin()
        assert self.reader.held.get(timeout=PATIENCE_SECONDS) == key
        with self.changed:
            return self.runner.result()

    def _let_deadline_pass(self, key: str) -> None:
        deadlines = self.runner.deadlines
        self.reader.clock.now += deadlines.device_seconds if key else deadlines.survey_seconds
        self.runner.abandon_overdue()

    def close(self) -> None:
        for gate in self.reader.gates.values():
            gate.set()
        with self.changed:
            self.runner.stop()


@pytest.fixture
def opened() -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def open_run(*keys: str, deadlines: Deadlines = DEADLINES) -> Run:
        runs.append(Run(ScriptedReader(Clock(), *keys), deadlines))
        return runs[-1]

    yield open_run
    for run in runs:
        run.close()


def counts(result: Result) -> dict[str, int]:
    return {c.reason: c.count for c in result.state.errors}


def states(result: Result) -> dict[str, tuple[bool, HealthState]]:
    return {d.id: (d.stale, d.health.state) for d in result.devices}


FRESH = (False, HealthState.UNKNOWN)
STALE = (True, HealthState.UNKNOWN)
LOST = (True, HealthState.LOST)


def test_a_pass_returns_devices_processes_and_counts(opened: Callable[..., Run]) -> None:
    result = opened("0", "1").one_pass()
    assert states(result) == {"nvidia:GPU-0": FRESH, "nvidia:GPU-1": FRESH}
    assert len(result.processes) == 2
    assert result.state.up
    assert result.state.found
    assert (result.state.devices_seen, result.state.devices_expected) == (2, 2)
    assert [(c.reason, c.count) for c in result.state.rejected] == [("unreadable", 2)]


def test_memory_errors_get_a_date_when_they_increase(opened: Callable[..., Run]) -> None:
    run = opened("0")
    run.one_pass()
    run.reader.memory_errors = 3
    assert run.one_pass().devices[0].ecc == (EccCount("uncorrected", False, 3, last_seen=100.0),)


def test_only_the_hung_device_is_stale_and_it_is_not_read_until_its_call_returns(
    opened: Callable[..., Run],
) -> None:
    run = opened("0", "1", "2")
    run.one_pass()
    run.reader.hang("1")
    result = run.one_pass()
    assert states(result) == {"nvidia:GPU-0": FRESH, "nvidia:GPU-1": STALE, "nvidia:GPU-2": FRESH}
    assert counts(result) == {"timeout": 1}
    assert result.state.abandoned_calls == 1
    assert result.devices[1].power_watts is None
    assert result.devices[1].errors
    assert len(result.processes) == 2

    run.reader.asked.clear()
    result = run.one_pass()
    assert run.reader.asked == ["", "0", "2"]
    assert states(result)["nvidia:GPU-1"] == STALE
    assert counts(result) == {"timeout": 1}

    run.reader.release("1")
    wait_until(lambda: run.one_pass().state.abandoned_calls == 0)
    assert states(run.one_pass())["nvidia:GPU-1"] == FRESH


def test_a_hung_survey_makes_all_devices_stale_and_loses_one_thread(opened: Callable[..., Run]) -> None:
    run = opened("0", "1")
    run.one_pass()
    threads = threading.active_count()
    run.reader.hang("")
    for _ in range(3):
        result = run.one_pass()
    assert set(states(result).values()) == {STALE}
    assert not result.state.up
    assert "within 2 s" in (result.state.reason or "")
    assert threading.active_count() <= threads + 1
    run.reader.release("")
    wait_until(lambda: run.one_pass().state.up)


def test_a_blocked_library_costs_one_deadline_per_pass(
    opened: Callable[..., Run],
) -> None:
    keys = [str(n) for n in range(20)]
    run = opened(*keys, deadlines=Deadlines(survey_seconds=1, device_seconds=0.1, pass_seconds=0.25))
    for key in keys:
        run.reader.hang(key)
    result = run.one_pass()
    assert result.state.abandoned_calls == 3
    assert set(states(result).values()) == {STALE}
    assert len(result.devices) == 20
    assert counts(result) == {"timeout": 3, "deadline": 17}


def test_a_device_that_was_never_read_is_listed(opened: Callable[..., Run]) -> None:
    run = opened("0", "1")
    run.reader.hang("1")
    assert states(run.one_pass()) == {"nvidia:GPU-0": FRESH, "nvidia:unidentified-1": STALE}


@pytest.mark.parametrize(
    ("reason", "state"), [("lost", HealthState.LOST), ("reset_required", HealthState.CRITICAL)]
)
def test_a_device_that_the_driver_reports_as_lost(
    opened: Callable[..., Run], reason: str, state: HealthState
) -> None:
    run = opened("0", "1")
    run.one_pass()
    run.reader.errors["1"] = DeviceLost("GPU is lost", reason=reason)
    result = run.one_pass()
    assert states(result) == {"nvidia:GPU-0": FRESH, "nvidia:GPU-1": (True, state)}
    assert result.devices[1].health.cause == reason
    assert counts(result) == {reason: 1}
    assert (result.state.devices_seen, result.state.devices_expected) == (1, 2)
    run.reader.errors.clear()
    assert states(run.one_pass())["nvidia:GPU-1"] == FRESH


def test_a_device_that_the_driver_no_longer_lists_is_lost(opened: Callable[..., Run]) -> None:
    run = opened("0", "1", "2")
    run.one_pass()
    run.reader.keys = ["0", "1"]
    run.reader.ids = {"1": "nvidia:GPU-2"}  # the indices move up
    result = run.one_pass()
    assert states(result) == {"nvidia:GPU-0": FRESH, "nvidia:GPU-1": LOST, "nvidia:GPU-2": FRESH}
    assert (result.state.devices_seen, result.state.devices_expected) == (2, 3)


def test_a_device_with_a_new_key_is_not_lost_before_it_is_read(opened: Callable[..., Run]) -> None:
    run = opened("0", "1", "2")
    before = run.one_pass()
    run.reader.keys = ["7", "8"]
    run.reader.ids = {"7": "nvidia:GPU-1", "8": "nvidia:GPU-2"}
    middle = run.as_far_as("8")
    assert (middle.devices, middle.processes) == (before.devices, before.processes)
    assert middle.state.up
    run.reader.release("8")
    assert states(run.one_pass()) == {"nvidia:GPU-0": LOST, "nvidia:GPU-1": FRESH, "nvidia:GPU-2": FRESH}


def test_the_first_pass_shows_devices_read_so_far(opened: Callable[..., Run]) -> None:
    run = opened("0", "1")
    assert states(run.as_far_as("1")) == {"nvidia:GPU-0": FRESH}
    run.reader.release("1")
    assert len(run.one_pass().devices) == 2


def test_a_node_without_the_driver_is_no_error(opened: Callable[..., Run]) -> None:
    run = opened()
    run.reader.errors[""] = DriverAbsent("no library")
    result = run.one_pass()
    assert (result.state.found, result.state.up) == (False, False)
    assert counts(result) == {}
    run.reader.errors.clear()
    run.reader.keys = ["0"]
    result = run.one_pass()
    assert (result.state.found, result.state.up) == (True, True)


def test_a_driver_that_disappears_is_an_error(opened: Callable[..., Run]) -> None:
    run = opened("0")
    run.one_pass()
    run.reader.errors[""] = DriverAbsent("no library")
    result = run.one_pass()
    assert (result.state.found, result.state.up) == (True, False)
    assert counts(result) == {"driver_absent": 1}
    assert states(result) == {"nvidia:GPU-0": STALE}


def test_an_unexpected_error_in_a_reader_is_counted(
    opened: Callable[..., Run], caplog: pytest.LogCaptureFixture
) -> None:
    run = opened("0", "1")
    run.reader.errors["0"] = ZeroDivisionError("oops")
    result = run.one_pass()
    assert counts(result) == {"internal": 1}
    assert states(result)["nvidia:GPU-1"] == FRESH
    run.one_pass()
    assert sum("ZeroDivisionError" in (r.exc_text or "") for r in caplog.records) == 1


def test_a_state_is_logged_when_it_changes_not_every_pass(
    opened: Callable[..., Run], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def levels() -> list[str]:
        return [r.levelname for r in caplog.records if r.name == "accelscope.agent.runner"]

    run = opened("0", "1")
    for _ in range(3):
        run.one_pass()
    assert levels() == ["INFO"]
    run.reader.errors["1"] = ReaderError("driver_error", "unknown error")
    for _ in range(3):
        run.one_pass()
    assert levels() == ["INFO", "INFO", "WARNING"]
    assert "nvidia:GPU-1: unknown: driver_error: unknown error" in caplog.text


def test_the_expected_number_of_devices_can_be_set(opened: Callable[..., Run]) -> None:
    run = opened("0")
    run.runner.expected = 8
    state = run.one_pass().state
    assert (state.devices_seen, state.devices_expected) == (1, 8)


def test_stop_closes_the_reader_only_if_no_call_is_running(opened: Callable[..., Run]) -> None:
    idle, hung = opened("0"), opened("0")
    idle.one_pass()
    hung.reader.hang("0")
    hung.one_pass()
    for run in (idle, hung):
        with run.changed:
            run.runner.stop()
    assert idle.reader.closed.wait(PATIENCE_SECONDS)
    assert not hung.reader.closed.wait(0.2)


def test_slow_devices_do_not_starve_the_others(opened: Callable[..., Run]) -> None:
    keys = [str(n) for n in range(6)]
    run = opened(*keys, deadlines=Deadlines(survey_seconds=5, device_seconds=5, pass_seconds=0.15))
    run.reader.seconds = 0.1
    for _ in range(4):
        run.one_pass()
    assert set(run.reader.asked) == {"", *keys}


def test_devices_missing_from_incomplete_output_are_not_lost(opened: Callable[..., Run]) -> None:
    run = opened("0", "1")
    run.one_pass()
    run.reader.keys = ["0"]
    run.reader.complete = False
    result = run.one_pass()
    assert states(result) == {"nvidia:GPU-0": FRESH, "nvidia:GPU-1": STALE}
    assert "incomplete" in (result.devices[1].health.reason or "")


def test_devices_on_the_bus_count_as_expected(opened: Callable[..., Run]) -> None:
    run = opened("0")
    run.reader.expected = 2
    state = run.one_pass().state
    assert (state.devices_seen, state.devices_expected) == (1, 2)


def test_a_pass_without_a_thread_is_reported_and_the_next_one_tries_again(
    opened: Callable[..., Run],
) -> None:
    run = opened("0")
    with no_threads():
        result = run.one_pass()
    assert result.state.found
    assert not result.state.up
    assert counts(result) == {"exhausted": 1}
    assert states(run.one_pass()) == {"nvidia:GPU-0": FRESH}


def test_without_file_descriptors_for_an_import_the_health_is_decided_later(
    opened: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptors(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    run = opened("0", "1")
    with monkeypatch.context() as exhausted:
        exhausted.setattr(HealthTracker, "__init__", no_descriptors)
        assert states(run.one_pass()) == {"nvidia:GPU-0": FRESH, "nvidia:GPU-1": FRESH}
        run.reader.errors["1"] = DeviceLost("GPU is lost")
        assert states(run.one_pass()) == {"nvidia:GPU-0": FRESH, "nvidia:GPU-1": LOST}
    assert run.one_pass().devices[1].health.since is not None


def test_a_device_with_errors_is_unknown_and_not_ok_until_its_errors_can_be_judged(
    opened: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptors(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    run = opened("0")
    run.reader.health = Health(HealthState.OK)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(HealthTracker, "__init__", no_descriptors)
        [device] = run.one_pass().devices
        assert (device.health.state, device.health.cause) == (HealthState.UNKNOWN, "exhausted")


@pytest.mark.parametrize("hung", ["", "1"])
def test_without_a_thread_after_an_abandoned_call_no_device_looks_fresh(
    opened: Callable[..., Run], hung: str
) -> None:
    run = opened("0", "1", "2")
    run.one_pass()
    run.reader.hang(hung)
    with no_threads():
        result = run.one_pass()
    assert states(result)["nvidia:GPU-1"] == STALE
    assert states(result)["nvidia:GPU-2"] == STALE
    assert result.state.abandoned_calls == 1
    run.reader.release(hung)
    wait_until(lambda: set(states(run.one_pass()).values()) == {FRESH})


def test_a_device_listed_again_during_its_abandoned_call_stays_stale(
    opened: Callable[..., Run],
) -> None:
    run = opened("0")
    run.one_pass()
    run.reader.hang("0")
    run.one_pass()
    run.reader.keys = []
    before = run.one_pass().state.last_success
    run.reader.keys = ["0"]
    result = run.one_pass()
    assert states(result) == {"nvidia:GPU-0": STALE}
    assert "no answer" in (result.devices[0].health.reason or "")
    assert not result.state.up
    assert result.state.last_success == before
    run.reader.release("0")
    wait_until(lambda: states(run.one_pass()) == {"nvidia:GPU-0": FRESH})


def test_a_device_with_two_keys_is_shown_once(opened: Callable[..., Run]) -> None:
    run = opened("0", "1")
    run.one_pass()
    run.reader.hang("0")
    run.one_pass()
    run.reader.ids = {"1": "nvidia:GPU-0"}  # the indices moved while a call was out
    assert states(run.one_pass()) == {"nvidia:GPU-0": FRESH, "nvidia:GPU-1": LOST}
