"""The health of a device from its driver's problems and its errors, without a driver."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from accelscope.model import Device, ErrorCount, Health, HealthState, Pcie, Reading, Vendor
from accelscope.vendors.common.contract import Paths
from accelscope.vendors.common.error_codes import Clearing, ErrorCode, Severity
from accelscope.vendors.common.health import (
    RECENT_SECONDS,
    ErrorHistory,
    Evidence,
    HealthTracker,
    SeenError,
    cause_of,
    choose,
    ends,
    event_between,
    explained,
    health_of_error,
    is_over,
)

OK, WARNING, CRITICAL = HealthState.OK, HealthState.WARNING, HealthState.CRITICAL
UNKNOWN, LOST = HealthState.UNKNOWN, HealthState.LOST
State = tuple[HealthState, str | None, float | None]


def problem(state: HealthState, cause: str, since: float | None = None) -> Health:
    return Health(state, cause=cause, since=since)


@pytest.mark.parametrize(
    ("problems", "present", "chosen"),
    [
        ([], None, None),
        ([(WARNING, "throttled"), (CRITICAL, "xid_48")], None, "xid_48"),
        ([(CRITICAL, "xid_48"), (LOST, "lost")], "xid_48", "lost"),
        # A device that does not answer: a warning of before is uncertain now, a fatal error is not.
        ([(UNKNOWN, "timeout"), (WARNING, "xid_94")], "xid_94", "timeout"),
        ([(UNKNOWN, "timeout"), (CRITICAL, "xid_119")], "timeout", "xid_119"),
        # Equally severe: the present cause stays, then the driver's first problem, then the oldest error.
        ([(WARNING, "throttled"), (WARNING, "ecc_uncorrected")], "ecc_uncorrected", "ecc_uncorrected"),
        ([(WARNING, "throttled"), (WARNING, "ecc_uncorrected")], None, "throttled"),
        ([(CRITICAL, "xid_95", 20.0), (CRITICAL, "xid_48", 10.0)], None, "xid_48"),
        ([(CRITICAL, "xid_95", 20.0), (CRITICAL, "xid_48", 10.0)], "xid_95", "xid_95"),
        ([(CRITICAL, "xid_48", 10.0), (CRITICAL, "row_remap_failed")], None, "row_remap_failed"),
    ],
)
def test_the_most_severe_cause_decides_and_does_not_alternate(
    problems: list[Any], present: str | None, chosen: str | None
) -> None:
    assert choose([problem(*each) for each in problems], present).cause == chosen


def entry(severity: Severity = "critical", until: Clearing | None = "reset") -> ErrorCode:
    return ErrorCode("48", "uncorrectable memory error", severity, "hardware", "Reset it", until, "https://x")


def test_an_error_states_what_it_is_what_to_do_and_what_ends_it() -> None:
    assert health_of_error(SeenError("xid", "48", 5.0, 9.0), entry()) == Health(
        CRITICAL,
        "XID 48 (uncorrectable memory error)",
        cause="xid_48",
        action="Reset it",
        origin="hardware",
        since=5.0,
        until="reset",
    )


def test_information_does_not_affect_the_health() -> None:
    assert health_of_error(SeenError("xid", "13", 5.0, 9.0), entry("info", None)) is None


@pytest.mark.parametrize(
    ("kind", "code", "cause"),
    [
        ("xid", "48", "xid_48"),
        ("ras", "umc.ue", "ras_umc_ue"),
        ("axi", "axi_post_error", "axi_post_error"),
        ("npu", "80E01801", "npu_80e01801"),
    ],
)
def test_the_cause_is_a_keyword(kind: str, code: str, cause: str) -> None:
    assert cause_of(kind, code) == cause


@pytest.mark.parametrize(
    ("until", "seconds", "over"),
    [
        (None, RECENT_SECONDS - 1, False),
        (None, RECENT_SECONDS, True),
        ("reset", 10 * RECENT_SECONDS, False),
        ("reboot", 10 * RECENT_SECONDS, False),
    ],
)
def test_only_an_error_that_does_not_last_ends_with_time(
    until: Clearing | None, seconds: float, over: bool
) -> None:
    assert is_over(entry(until=until), SeenError("xid", "48", 5.0, 9.0), 9.0 + seconds) is over


@pytest.mark.parametrize(
    ("event", "ended"),
    [
        ("reset", {None, "reset"}),
        ("driver_reload", {None, "reset", "driver_reload"}),
        ("reboot", {None, "reset", "driver_reload", "reboot"}),
        ("replacement", {None, "reset", "driver_reload", "reboot", "replacement"}),
    ],
)
def test_an_event_ends_what_a_smaller_one_ends(event: Clearing, ended: set[str | None]) -> None:
    lasting: tuple[Clearing | None, ...] = (None, "reset", "driver_reload", "reboot", "replacement")
    assert {until for until in lasting if ends(event, until)} == ended


BEFORE = Evidence(1.0, "boot-1", "nvidia:5", "serial-1", {"energy": 1000.0, "replays": 4.0})


@pytest.mark.parametrize(
    ("after", "event"),
    [
        (Evidence(2.0, "boot-1", "nvidia:5", "serial-1", {"energy": 1100.0, "replays": 4.0}), None),
        (Evidence(2.0), None),  # nothing could be read
        (Evidence(2.0, counters={"energy": 999.0}), None),  # an older value of another source
        (Evidence(2.0, counters={"energy": 12.0}), "reset"),
        (Evidence(2.0, counters={"energy": 1100.0, "replays": 0.0}), "reset"),
        (Evidence(2.0, "boot-1", "nvidia:6"), "driver_reload"),
        (Evidence(2.0, "boot-1", "nvidia:6", counters={"energy": 12.0}), "driver_reload"),
        (Evidence(2.0, "boot-2", "nvidia:6", counters={"energy": 12.0}), "reboot"),
        (Evidence(2.0, "boot-2", "nvidia:6", "serial-2"), "replacement"),
    ],
)
def test_evidence_of_events(after: Evidence, event: str | None) -> None:
    assert event_between(BEFORE, after) == event


def test_a_request_for_a_reset_that_is_gone_shows_the_reset() -> None:
    assert event_between(Evidence(1.0, reset_requested=True), Evidence(2.0)) == "reset"
    assert event_between(Evidence(1.0), Evidence(2.0, reset_requested=True)) is None


class Gpu:
    """A GPU whose readings the test makes."""

    def __init__(self, tmp_path: Path, histories: Mapping[str, ErrorHistory] | None = None) -> None:
        self.folder = tmp_path
        self.tracker = HealthTracker(
            Vendor("nvidia"), Paths(proc=tmp_path / "proc", sys=tmp_path / "sys"), histories
        )
        self.errors: dict[str, ErrorCount] = {}
        self.energy = 1e6
        self.previous: Device | None = None
        self.boot("boot-1")
        (tmp_path / "sys/module/nvidia").mkdir(parents=True, exist_ok=True)

    def boot(self, boot_id: str) -> None:
        file = self.folder / "proc/sys/kernel/random/boot_id"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(boot_id)

    def reload_driver(self) -> None:
        modules = self.folder / "sys/module"
        (modules / "new").mkdir()
        (modules / "nvidia").rmdir()
        (modules / "new").rename(modules / "nvidia")

    def xid(self, code: str, at: float) -> None:
        count = self.errors[code].count if code in self.errors else 0
        self.errors[code] = ErrorCount("xid", code, count + 1, at)

    def device(self, now: float, health: Health) -> Device:
        return Device(
            vendor=Vendor("nvidia"),
            id="nvidia:GPU-1",
            read_at=now,
            health=health,
            energy_joules=self.energy,
            pcie=Pcie(replays_total=3),
            errors=tuple(self.errors.values()),
        )

    def read(self, now: float, *problems: Health) -> State:
        self.energy += 10.0
        device = self.device(now, problems[0] if problems else Health(OK))
        self.tracker.observe(Reading(device, problems=problems), self.previous, now)
        self.previous = device
        health = self.tracker.decide(device, problems, now).health
        return health.state, health.cause, health.since


@pytest.fixture
def gpu(tmp_path: Path) -> Gpu:
    return Gpu(tmp_path)


HEALTHY: State = (OK, None, None)


def test_a_fatal_error_stays_until_the_reset(gpu: Gpu) -> None:
    gpu.xid("48", 100.0)
    assert gpu.read(101.0) == (CRITICAL, "xid_48", 100.0)
    assert gpu.read(101.0 + 10 * RECENT_SECONDS) == (CRITICAL, "xid_48", 100.0)
    gpu.energy = 0.0
    assert gpu.read(102.0 + 10 * RECENT_SECONDS) == HEALTHY
    gpu.xid("48", 103.0 + 10 * RECENT_SECONDS)
    assert gpu.read(104.0 + 10 * RECENT_SECONDS)[0] is CRITICAL


def test_an_error_after_the_last_reading_is_not_ended_by_a_reset_since_then(gpu: Gpu) -> None:
    gpu.xid("48", 100.0)
    gpu.read(101.0)
    gpu.energy = 0.0
    gpu.xid("95", 102.0)
    assert gpu.read(103.0) == (CRITICAL, "xid_95", 102.0)


@pytest.mark.parametrize(
    ("code", "reset", "driver_reload", "reboot"),
    [("48", True, True, True), ("119", True, True, True), ("79", False, False, True)],
)
def test_each_event_ends_what_it_can(
    tmp_path: Path, code: str, reset: bool, driver_reload: bool, reboot: bool
) -> None:
    def do_reset(gpu: Gpu) -> None:
        gpu.energy = 0.0

    def do_reboot(gpu: Gpu) -> None:
        gpu.boot("boot-2")

    for name, event, ends_it in (
        ("reset", do_reset, reset),
        ("reload", Gpu.reload_driver, driver_reload),
        ("reboot", do_reboot, reboot),
    ):
        gpu = Gpu(tmp_path / name)
        gpu.xid(code, 100.0)
        assert gpu.read(101.0)[0] is CRITICAL
        event(gpu)
        assert (gpu.read(102.0) == HEALTHY) is ends_it


def test_an_error_of_an_application_does_not_make_the_device_unhealthy(gpu: Gpu) -> None:
    for code in ("13", "31", "43"):
        gpu.xid(code, 100.0)
    assert gpu.read(101.0) == HEALTHY


def test_a_warning_ends_ten_minutes_after_the_last_error(gpu: Gpu) -> None:
    gpu.xid("94", 100.0)
    assert gpu.read(101.0) == (WARNING, "xid_94", 100.0)
    gpu.xid("94", 400.0)
    assert gpu.read(100.0 + RECENT_SECONDS) == (WARNING, "xid_94", 100.0)
    assert gpu.read(400.0 + RECENT_SECONDS) == HEALTHY


def test_a_device_that_answers_again_after_it_had_to_be_reset_was_reset(gpu: Gpu) -> None:
    gpu.xid("48", 100.0)
    gpu.tracker.observe_failure("nvidia:GPU-1", 101.0)
    assert gpu.read(102.0) == HEALTHY


def test_a_device_that_does_not_answer_keeps_its_fatal_error(gpu: Gpu) -> None:
    gpu.xid("119", 100.0)
    gpu.read(101.0)
    silent = gpu.device(101.0, Health(UNKNOWN, "timeout: no answer", cause="timeout"))
    health = gpu.tracker.decide(silent, (), 102.0).health
    assert (health.state, health.cause) == (CRITICAL, "xid_119")


def test_the_time_of_a_state_is_that_of_its_cause(gpu: Gpu) -> None:
    throttled, pending = problem(WARNING, "throttled"), problem(WARNING, "row_remap_pending")
    assert gpu.read(101.0, throttled) == (WARNING, "throttled", 101.0)
    assert gpu.read(102.0, pending, throttled) == (WARNING, "throttled", 101.0)
    assert gpu.read(103.0, pending) == (WARNING, "row_remap_pending", 103.0)
    assert gpu.read(104.0) == HEALTHY


def test_a_later_process_goes_on_with_the_errors_of_an_earlier_one(tmp_path: Path) -> None:
    first = Gpu(tmp_path)
    first.xid("48", 100.0)
    first.xid("94", 100.0)
    first.read(101.0)
    histories = first.tracker.lasting()
    assert [error.code for error in histories["nvidia:GPU-1"].errors.values()] == ["48"]
    second = Gpu(tmp_path, histories)
    second.energy = first.energy
    assert second.read(200.0) == (CRITICAL, "xid_48", 100.0)
    third = Gpu(tmp_path, histories)
    third.energy = 0.0
    assert third.read(200.0) == HEALTHY


def test_a_driver_that_resets_the_device_after_an_error_has_ended_it(tmp_path: Path) -> None:
    tracker = HealthTracker(Vendor("amd"), Paths(proc=tmp_path, sys=tmp_path))

    def read(now: float, energy: float, *errors: ErrorCount) -> HealthState:
        device = Device(
            vendor=Vendor("amd"),
            id="amd:1",
            read_at=now,
            health=Health(OK),
            energy_joules=energy,
            errors=errors,
        )
        tracker.observe(Reading(device), previous[-1] if previous else None, now)
        previous.append(device)
        return tracker.decide(device, (), now).health.state

    previous: list[Device] = []
    assert read(100.0, 1e6) is OK
    assert read(115.0, 5.0, ErrorCount("ras", "umc.ue", 1, 115.0)) is OK
    assert read(130.0, 1e4, ErrorCount("ras", "umc.ue", 2, 130.0)) is CRITICAL
    assert read(145.0, 5.0, ErrorCount("ras", "umc.ue", 2, 130.0)) is OK


def test_the_codes_that_a_driver_lists_explain_its_own_state() -> None:
    alarm = Health(CRITICAL, "the driver reports Alarm: hot", "Alarm", "driver_alarm")
    worse, other = entry(), ErrorCode("81078603", "link down", "warning", None, "Check it", None, "https://x")
    explained_health = explained(alarm, "npu", (other, worse))
    assert (explained_health.state, explained_health.reason) == (CRITICAL, "the driver reports Alarm: hot")
    assert (explained_health.cause, explained_health.until) == ("npu_48", "reset")
    assert explained(alarm, "npu", ()) == alarm


def test_devices_and_codes_without_end_take_no_memory_without_end(gpu: Gpu) -> None:
    for number in range(1500):
        gpu.xid(str(number + 1), 100.0)
        lost = Device(vendor=Vendor("nvidia"), id=f"nvidia:{number}", health=Health(LOST, cause="lost"))
        gpu.tracker.observe_failure(lost.id, 100.0)
        assert gpu.tracker.decide(lost, (), 100.0).health.state is LOST
    assert gpu.read(101.0)[0] is OK  # its history has no room
    assert len(gpu.tracker.lasting()) == 0


def test_a_fatal_error_is_not_lost_among_many_warnings(gpu: Gpu) -> None:
    for number in range(100):
        gpu.xid(str(1000 + number), 100.0)
    assert gpu.read(101.0)[0] is WARNING
    gpu.xid("48", 102.0)
    assert gpu.read(103.0) == (CRITICAL, "xid_48", 102.0)
