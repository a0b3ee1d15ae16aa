"""From checks of a driver to the health that the kubelet sees. Each letter is the result of one check:

g good, w warning, u no health value, b the driver reports it as bad, e the device does not answer, x the
whole driver does not answer, - the driver does not list it, a there is no driver, i an incomplete answer."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.deviceplugin.health import HealthLedger, HealthRule
from accelscope.deviceplugin.watch import CheckResult, DriverWatch
from accelscope.model import Device, ErrorCount, Health, HealthState, Reading, Vendor
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError, Survey

STATES = {"g": "ok", "w": "warning", "u": "unknown", "b": "critical"}


def device(state: str = "ok", name: str = "a") -> Device:
    return Device(vendor=Vendor("furiosa"), id=name, health=Health(HealthState(state)))


def result(letter: str) -> CheckResult:
    if letter in STATES:
        return CheckResult((device(STATES[letter]),))
    return {
        "e": CheckResult(failed={"a": ReaderError("timeout", "no answer")}),
        "x": CheckResult(error=ReaderError("tool_missing", "no tool")),
        "-": CheckResult(),
        "a": CheckResult(error=DriverAbsent("not loaded")),
        "i": CheckResult(complete=False),
    }[letter]


def kubelet_view(ledger: HealthLedger) -> str:
    found = list(ledger.listed())
    return "." if not found else "H" if found[0].healthy else "U"


def history(checks: str, rule: HealthRule | None = None) -> str:
    """After each check: H healthy, U unhealthy, . not listed."""
    ledger = HealthLedger(rule or HealthRule(bad=3, good=2, unanswered=5))
    after = ""
    for letter in checks:
        ledger.record(result(letter))
        after += kubelet_view(ledger)
    return after


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        pytest.param("g", "H", id="good from the start"),
        pytest.param("b", "U", id="bad from the start"),
        pytest.param("u", "H", id="no health value counts as healthy"),
        pytest.param("gbb", "HHH", id="two bad checks change nothing"),
        pytest.param("gbbb", "HHHU", id="three bad checks do"),
        pytest.param("geee", "HHHU", id="not answering is bad too"),
        pytest.param("gbebgg", "HHHUUH", id="bad and unanswered add up"),
        pytest.param("gbbgbbg", "HHHHHHH", id="a good check resets the count"),
        pytest.param("gbgbgbgb", "HHHHHHHH", id="a driver that flaps does not flap the kubelet"),
        pytest.param("gbbbgbggg", "HHHUUUUHH", id="good must be in a row as well"),
        pytest.param("gwww", "HHHH", id="a warning stays healthy"),
        pytest.param("guuuuuuuu", "HHHHHHHHH", id="unknown keeps healthy"),
        pytest.param("gbbbuuuuu", "HHHUUUUUU", id="unknown keeps unhealthy"),
        pytest.param("geeeuu", "HHHUUH", id="without health values an answer is enough"),
        pytest.param("geueueue", "HHHHHHHH", id="an answer between resets the count"),
        pytest.param("gbubub", "HHHHHU", id="unknown between bad checks does not reset the count"),
        pytest.param("gbxbxb", "HHHHHU", id="nor does an unanswered check"),
        pytest.param("g-x-x-", "HHHHH.", id="nor the count of checks without the device"),
        pytest.param("ge-e-e", "HHHUUU", id="missing and unanswered add up"),
        pytest.param("gb-", "HHH", id="two of any kind change nothing"),
        pytest.param("gbb-", "HHHU", id="three of any kind do"),
        pytest.param("gbb---", "HHHUU.", id="bad, then gone"),
        pytest.param("gxxxxbx", "HHHHHHU", id="a bad check does not reset the unanswered ones"),
        pytest.param("gbbbgxgg", "HHHUUUUH", id="an unanswered check interrupts good ones"),
        pytest.param("gxxxx", "HHHHH", id="an unanswered check changes nothing"),
        pytest.param("gxxxxxgg", "HHHHHUUH", id="for a limited time"),
        pytest.param("giiii", "HHHHH", id="an incomplete answer changes nothing"),
        pytest.param("g--", "HHH", id="gone for a moment"),
        pytest.param("g---", "HHH.", id="gone"),
        pytest.param("gaaa", "HHH.", id="its driver unloaded"),
        pytest.param("g---gg", "HHH..H", id="and back"),
        pytest.param("g---bbgg", "HHH....H", id="back and bad is not back"),
        pytest.param("x-", "..", id="never seen"),
    ],
)
def test_health_after_each_check(checks: str, expected: str) -> None:
    assert history(checks) == expected


def test_each_failure_doubles_the_good_checks_that_are_needed() -> None:
    ledger = HealthLedger(HealthRule(bad=1, good=2))
    ledger.record(result("g"))
    waits = []
    for _ in range(4):
        ledger.record(result("b"))
        wait = 0
        while kubelet_view(ledger) == "U":
            ledger.record(result("g"))
            wait += 1
        waits.append(wait)
    assert waits == [2, 4, 8, 16]


def test_unanswered_checks_count_as_failures_for_that_too() -> None:
    rule = HealthRule(bad=3, good=2, unanswered=5)
    checks = "g" * 20 + "xxxxx" + "gg" + "g" * 20 + "xxxxx" + "gggg"
    expected = "H" * 20 + "HHHHU" + "UH" + "H" * 20 + "HHHHU" + "UUUH"
    assert history(checks, rule) == expected


def test_old_failures_do_not_count() -> None:
    ledger = HealthLedger(HealthRule(bad=1, good=2))
    for letter in "gbggbgggg" + "g" * 300 + "bg":
        ledger.record(result(letter))
    assert kubelet_view(ledger) == "U"
    ledger.record(result("g"))
    assert kubelet_view(ledger) == "H"


def test_unanswered_checks_may_be_ignored_forever() -> None:
    assert history("g" + "x" * 500, HealthRule(unanswered=0)) == "H" * 501


@given(st.text("gwubexai-", max_size=60))
def test_health_changes_only_after_several_checks(checks: str) -> None:
    after = history(checks)
    for at in range(1, len(after)):
        answered = [letter for letter in checks[: at + 1] if letter not in "xi"]
        if after[at - 1] == "H" and after[at] != "H":
            silent = sum(letter in "xi" for letter in checks[: at + 1])
            assert set(answered[-3:]) <= set("ube-a") or silent >= 5
        if after[at - 1] == "U" and after[at] == "H":
            assert checks[at] in "gwu"


@given(st.text("gwubexai-", max_size=20), st.text("bexai-", min_size=7, max_size=20))
def test_a_device_that_is_never_good_does_not_stay_healthy(checks: str, never_good: str) -> None:
    """At most two bad checks and four unanswered ones, in any order."""
    assert history(checks + never_good)[-1] != "H"


class Driver:
    """A reader whose devices are a Device to return, an error to raise, or an event to wait for."""

    vendor = Vendor("furiosa")

    def __init__(self, **devices: object) -> None:
        self.devices = dict(devices)
        self.error: Exception | None = None

    def survey(self) -> Survey:
        if self.error is not None:
            raise self.error
        return Survey("test", tuple(self.devices))

    def read(self, key: str) -> Reading:
        does = self.devices[key]
        if isinstance(does, threading.Event):
            does.wait(30)
            raise ReaderError("late", "late")
        if isinstance(does, Exception):
            raise does
        assert isinstance(does, Device)
        return Reading(does)

    def close(self) -> None:
        pass


def watch(driver: Driver, seconds: float = 30.0) -> DriverWatch:
    return DriverWatch(driver, survey_seconds=seconds, device_seconds=seconds)


def test_a_failing_device_does_not_affect_the_others() -> None:
    driver = Driver(k1=device(name="a"), k2=device(name="b"))
    watching = watch(driver)
    assert {each.id for each in watching.check().devices} == {"a", "b"}
    driver.devices["k2"] = DeviceLost("fell off the bus")
    seen = watching.check()
    assert ([d.id for d in seen.devices], list(seen.failed)) == (["a"], ["b"])
    driver.devices["k2"] = RuntimeError("a fault in the reader")
    assert watching.check().failed["b"].reason == "internal"
    assert {c.reason: c.count for c in watching.state.errors} == {"lost": 1, "internal": 1}
    assert (watching.state.up, watching.state.devices_seen, watching.state.devices_expected) == (True, 1, 2)


def test_a_call_that_hangs_is_abandoned_and_not_repeated() -> None:
    hung = threading.Event()
    driver = Driver(k1=device(name="a"))
    watching = watch(driver)
    watching.check()
    driver.devices["k1"] = hung
    watching._device_seconds = 0.1
    try:
        assert watching.check().failed["a"].reason == "timeout"
        assert "has not returned" in str(watching.check().failed["a"])
        assert watching.state.abandoned_calls == 1
    finally:
        hung.set()


def test_a_name_that_moved_to_another_device_has_not_failed() -> None:
    driver = Driver(npu0=device(name="a"), npu1=device(name="b"))
    watching = watch(driver)
    watching.check()
    driver.devices = {"npu0": device(name="b"), "npu1": ReaderError("gone", "gone")}
    seen = watching.check()
    assert ([d.id for d in seen.devices], dict(seen.failed)) == (["b"], {})


def test_a_driver_that_does_not_answer() -> None:
    driver = Driver(k1=device())
    driver.error = DriverAbsent("nothing here")
    watching = watch(driver)
    assert isinstance(watching.check().error, DriverAbsent)
    assert (watching.state.found, watching.state.errors) == (False, ())
    driver.error = ReaderError("tool_missing", "no tool")
    assert str(watching.check().error) == "no tool"
    assert (watching.state.found, watching.state.up) == (True, False)


def test_a_fatal_error_is_bad_until_the_event_that_ends_it_was_seen() -> None:
    """As in the agent: an error of an application is not bad, a fatal one lasts."""
    clock = [100.0]

    def gpu(energy: float, *xids: str) -> Device:
        errors = tuple(ErrorCount("xid", code, 1, 99.0) for code in xids)
        return Device(
            vendor=Vendor("nvidia"),
            id="a",
            health=Health(HealthState.OK),
            energy_joules=energy,
            errors=errors,
        )

    driver = Driver(k=gpu(1e6, "13"))
    driver.vendor = Vendor("nvidia")
    watching = DriverWatch(driver, survey_seconds=30, device_seconds=30, clock=lambda: clock[0])
    [healthy] = watching.check().devices
    assert healthy.health.state is HealthState.OK
    driver.devices["k"] = gpu(1e6, "13", "48")
    for _ in range(2):
        [failed] = watching.check().devices
        assert (failed.health.state, failed.health.cause) == (HealthState.CRITICAL, "xid_48")
        clock[0] += 3600
    driver.devices["k"] = gpu(5.0, "13", "48")
    [again] = watching.check().devices
    assert again.health.state is HealthState.OK
