"""From looks at a driver to what a kubelet is told. A look is one letter a time:

g good, w warning, u answers without a word about health, b the driver says it is bad, e it does not answer,
x the driver as a whole does not, - the driver does not show it, a there is no driver, i a damaged answer."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.deviceplugin.health import HealthLedger, HealthRule
from accelscope.deviceplugin.watch import DriverWatch, Look
from accelscope.model import Device, Health, HealthState, Reading, Vendor
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError, Survey

STATES = {"g": "ok", "w": "warning", "u": "unknown", "b": "critical"}


def device(state: str = "ok", name: str = "a") -> Device:
    return Device(vendor=Vendor("furiosa"), id=name, health=Health(HealthState(state)))


def look(letter: str) -> Look:
    if letter in STATES:
        return Look((device(STATES[letter]),))
    return {
        "e": Look(failed={"a": ReaderError("timeout", "no answer")}),
        "x": Look(error=ReaderError("tool_missing", "no tool")),
        "-": Look(),
        "a": Look(error=DriverAbsent("not loaded")),
        "i": Look(complete=False),
    }[letter]


def told(ledger: HealthLedger) -> str:
    found = list(ledger.listed())
    return "." if not found else "H" if found[0].healthy else "U"


def history(looks: str, rule: HealthRule | None = None) -> str:
    """After each look: H healthy, U unhealthy, . not on the list."""
    ledger = HealthLedger(rule or HealthRule(bad=3, good=2, unanswered=5))
    after = ""
    for letter in looks:
        ledger.take(look(letter))
        after += told(ledger)
    return after


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param("g", "H", id="good from the start"),
        pytest.param("b", "U", id="bad from the start"),
        pytest.param("u", "H", id="a driver that never tells is taken as it is"),
        pytest.param("gbb", "HHH", id="two bad looks are none"),
        pytest.param("gbbb", "HHHU", id="three are"),
        pytest.param("geee", "HHHU", id="not answering is bad too"),
        pytest.param("gbebgg", "HHHUUH", id="of either kind, in a row"),
        pytest.param("gbbgbbg", "HHHHHHH", id="not in a row"),
        pytest.param("gbgbgbgb", "HHHHHHHH", id="a driver that flaps does not flap the kubelet"),
        pytest.param("gbbbgbggg", "HHHUUUUHH", id="good must be in a row as well"),
        pytest.param("gwww", "HHHH", id="a warning is no reason to take it away"),
        pytest.param("guuuuuuuu", "HHHHHHHHH", id="unknown keeps healthy"),
        pytest.param("gbbbuuuuu", "HHHUUUUUU", id="unknown keeps what the driver called bad"),
        pytest.param("geeeuu", "HHHUUH", id="answering again is enough where the driver never tells"),
        pytest.param("geueueue", "HHHHHHHH", id="one that answers between is not lost"),
        pytest.param("gbubub", "HHHHHU", id="unknown between bad ones hides none of them"),
        pytest.param("gbxbxb", "HHHHHU", id="nor does a driver that cannot be asked"),
        pytest.param("g-x-x-", "HHHHH.", id="nor of looks at which it was gone"),
        pytest.param("ge-e-e", "HHHUUU", id="now gone, now not answering: never good"),
        pytest.param("gb-", "HHH", id="of any kind: two are none"),
        pytest.param("gbb-", "HHHU", id="of any kind: three are"),
        pytest.param("gbb---", "HHHUU.", id="bad, then gone"),
        pytest.param("gxxxxbx", "HHHHHHU", id="one bad look vouches for nothing"),
        pytest.param("gbbbgxgg", "HHHUUUUH", id="nor are good ones in a row around a driver that is silent"),
        pytest.param("gxxxx", "HHHHH", id="a driver that cannot be asked leaves things as they were"),
        pytest.param("gxxxxxgg", "HHHHHUUH", id="for so long"),
        pytest.param("giiii", "HHHHH", id="a damaged answer says nothing about who is missing"),
        pytest.param("g--", "HHH", id="gone for a moment"),
        pytest.param("g---", "HHH.", id="gone"),
        pytest.param("gaaa", "HHH.", id="its driver unloaded"),
        pytest.param("g---gg", "HHH..H", id="and back"),
        pytest.param("g---bbgg", "HHH....H", id="back and bad is not back"),
        pytest.param("x-", "..", id="never seen"),
    ],
)
def test_rule(looks: str, expected: str) -> None:
    assert history(looks) == expected


def test_each_fall_takes_longer_to_be_trusted_again() -> None:
    ledger = HealthLedger(HealthRule(bad=1, good=2))
    ledger.take(look("g"))
    waits = []
    for _ in range(4):
        ledger.take(look("b"))
        wait = 0
        while told(ledger) == "U":
            ledger.take(look("g"))
            wait += 1
        waits.append(wait)
    assert waits == [2, 4, 8, 16]


def test_a_driver_that_was_silent_is_trusted_no_sooner_than_others() -> None:
    rule = HealthRule(bad=3, good=2, unanswered=5)
    looks = "g" * 20 + "xxxxx" + "gg" + "g" * 20 + "xxxxx" + "gggg"
    expected = "H" * 20 + "HHHHU" + "UH" + "H" * 20 + "HHHHU" + "UUUH"
    assert history(looks, rule) == expected


def test_falls_long_ago_are_forgiven() -> None:
    ledger = HealthLedger(HealthRule(bad=1, good=2))
    for letter in "gbggbgggg" + "g" * 300 + "bg":
        ledger.take(look(letter))
    assert told(ledger) == "U"
    ledger.take(look("g"))
    assert told(ledger) == "H"


def test_unanswered_may_last_for_ever() -> None:
    assert history("g" + "x" * 500, HealthRule(unanswered=0)) == "H" * 501


@given(st.text("gwubexai-", max_size=60))
def test_the_kubelet_hears_less_than_happens(looks: str) -> None:
    after = history(looks)
    for at in range(1, len(after)):
        told_of = [letter for letter in looks[: at + 1] if letter not in "xi"]
        if after[at - 1] == "H" and after[at] != "H":
            silent = sum(letter in "xi" for letter in looks[: at + 1])
            assert set(told_of[-3:]) <= set("ube-a") or silent >= 5
        if after[at - 1] == "U" and after[at] == "H":
            assert looks[at] in "gwu"


@given(st.text("gwubexai-", max_size=20), st.text("bexai-", min_size=7, max_size=20))
def test_what_is_never_good_does_not_stay_healthy(looks: str, never_good: str) -> None:
    """At most two bad looks and four unanswered ones, in whatever order they come."""
    assert history(looks + never_good)[-1] != "H"


class Driver:
    """A reader whose devices do as they are told: a Device, an error to raise, or an event to wait for."""

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


def test_one_that_fails_does_not_cost_the_others() -> None:
    driver = Driver(k1=device(name="a"), k2=device(name="b"))
    watching = watch(driver)
    assert {each.id for each in watching.look().devices} == {"a", "b"}
    driver.devices["k2"] = DeviceLost("fell off the bus")
    seen = watching.look()
    assert ([d.id for d in seen.devices], list(seen.failed)) == (["a"], ["b"])
    driver.devices["k2"] = RuntimeError("a fault in the reader")
    assert watching.look().failed["b"].reason == "internal"
    assert {c.reason: c.count for c in watching.state.errors} == {"lost": 1, "internal": 1}
    assert (watching.state.up, watching.state.devices_seen, watching.state.devices_expected) == (True, 1, 2)


def test_a_call_that_hangs_is_left_behind_and_not_made_again() -> None:
    hung = threading.Event()
    driver = Driver(k1=device(name="a"))
    watching = watch(driver)
    watching.look()
    driver.devices["k1"] = hung
    watching._device_seconds = 0.1
    try:
        assert watching.look().failed["a"].reason == "timeout"
        assert "has not come back" in str(watching.look().failed["a"])
        assert watching.state.abandoned_calls == 1
    finally:
        hung.set()


def test_a_name_that_moved_to_another_device_has_not_failed() -> None:
    driver = Driver(npu0=device(name="a"), npu1=device(name="b"))
    watching = watch(driver)
    watching.look()
    driver.devices = {"npu0": device(name="b"), "npu1": ReaderError("gone", "gone")}
    seen = watching.look()
    assert ([d.id for d in seen.devices], dict(seen.failed)) == (["b"], {})


def test_a_driver_that_cannot_be_asked() -> None:
    driver = Driver(k1=device())
    driver.error = DriverAbsent("nothing here")
    watching = watch(driver)
    assert isinstance(watching.look().error, DriverAbsent)
    assert (watching.state.found, watching.state.errors) == (False, ())
    driver.error = ReaderError("tool_missing", "no tool")
    assert str(watching.look().error) == "no tool"
    assert (watching.state.found, watching.state.up) == (True, False)
