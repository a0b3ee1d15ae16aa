"""What is out of habit is marked, with a reason; what a moving load explains is not."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.fleet.loop import run
from tests.fleet.store.nodes import GIB, Clock, device, report, snapshot, store_of, usage

from accelscope.fleet.history import History
from accelscope.fleet.store.events import EventKind
from accelscope.fleet.trends import Trends
from accelscope.fleet.trends.detectors import Stuck, usual
from accelscope.fleet.trends.trends import Marks
from accelscope.model import FAULT_THROTTLES, Device, EccCount, ErrorCount, PodUsage, Throttle

START = 1_000_020.0
POD = "ml/train"


@dataclass
class Minute:
    """One device and the pod on it; None: absent."""

    utilization: float | None = 0.9
    power: float | None = 600.0
    heat: float | None = 60.0
    memory: float | None = 40.0  # GiB
    pod: str | None = POD
    pod_utilization: float | None = 0.9
    pod_memory: float | None = 39.0  # GiB
    throttled: str | None = None
    ecc: int | None = 0
    errors: int = 0
    neighbours: tuple[tuple[float, float], ...] = ()  # power and heat
    limit: float | None = 700.0
    stale: bool = False


@dataclass
class Watched:
    clock: Clock = field(default_factory=lambda: Clock(START))
    forget_after_seconds: float = 900.0

    def __post_init__(self) -> None:
        self.store = store_of("a", clock=self.clock, forget_after_seconds=self.forget_after_seconds)
        self.history = History()
        self.trends = Trends(self.history)

    def see(self, minutes: Iterable[Minute]) -> "Watched":
        run(self._see_all(minutes), 60)
        return self

    async def _see_all(self, minutes: Iterable[Minute]) -> None:
        for minute in minutes:
            await self._see(minute)

    async def _see(self, minute: Minute) -> None:
        if not minute.stale:
            devices, usages = _node(minute)
            self.store.take("a", report("n1", snapshot(devices, usages=usages), self.clock.now))
        while self.store.tick(self.clock.now):
            pass
        await self.history.record(self.store, self.clock.now)
        await self.trends.update(self.store)
        self.clock.advance(60)

    @property
    def device(self) -> str | None:
        return self._unusual(self.store.devices.find(cluster="a", node="n1", id="nvidia:x"))

    def _unusual(self, position: int | None) -> str | None:
        assert position is not None
        value = self.store.devices.value("unusual", position)
        return None if value is None else str(value)

    @property
    def pod(self) -> str | None:
        position = self.store.pods.find(cluster="a", node="n1", pod="train")
        assert position is not None
        value = self.store.pods.value("unusual", position)
        return None if value is None else str(value)

    @property
    def began(self) -> list[str]:
        return [event.text for event in self.store.events.after(0) if event.kind is EventKind.UNUSUAL_BEGAN]

    @property
    def ended(self) -> list[str]:
        return [event.text for event in self.store.events.after(0) if event.kind is EventKind.UNUSUAL_ENDED]


def _node(minute: Minute) -> tuple[list[Device], list[PodUsage]]:
    known = device(
        "x",
        model="H100",
        utilization_ratio=minute.utilization,
        power_watts=minute.power,
        power_limit_watts=minute.limit,
        temperature_celsius=minute.heat,
        memory_total_bytes=80 * GIB,
        memory_used_bytes=None if minute.memory is None else int(minute.memory * GIB),
        throttles=() if minute.throttled is None else (Throttle(minute.throttled, True),),
        ecc=() if minute.ecc is None else (EccCount("uncorrected", False, minute.ecc),),
        errors=(ErrorCount("xid", "31", minute.errors),) if minute.errors else (),
    )
    others = [
        device(
            f"other-{n}", model="H100", power_watts=power, power_limit_watts=700.0, temperature_celsius=heat
        )
        for n, (power, heat) in enumerate(minute.neighbours)
    ]
    if minute.pod is None:
        return [known, *others], []
    held = usage(
        minute.pod,
        known,
        allocated=1,
        processes=1,
        utilization_ratio=minute.pod_utilization,
        memory_used_bytes=None if minute.pod_memory is None else int(minute.pod_memory * GIB),
    )
    return [known, *others], [held]


def moving(minutes: int, make: Callable[[int, random.Random], Minute] | None = None) -> list[Minute]:
    """A load that moves: utilisation, power and heat go together."""
    chance = random.Random(5)
    found = []
    for minute in range(minutes):
        busy = 0.5 + 0.4 * chance.random()
        found.append(
            Minute(
                utilization=busy,
                pod_utilization=busy,
                power=100 + 550 * busy + chance.gauss(0, 5),
                heat=round(30 + 40 * busy + chance.gauss(0, 1)),
            )
            if make is None
            else make(minute, chance)
        )
    return found


def test_a_load_that_moves_is_nothing_unusual() -> None:
    watched = Watched().see(moving(90))
    assert (watched.device, watched.pod, watched.began) == (None, None, [])


def test_a_hot_device_is_said_with_what_is_usual_and_no_longer_when_it_has_cooled() -> None:
    watched = Watched().see(Minute() for _ in range(35)).see(Minute(heat=85.0) for _ in range(2))
    assert watched.device is None  # two minutes are not enough
    watched.see([Minute(heat=85.0)])
    assert watched.device == "temperature 85 °C, usually 60 ± 1 at such a load"
    watched.see(
        Minute(heat=84.0) for _ in range(70)
    )  # longer than there is history: it does not get used to it
    assert watched.device is not None
    watched.see(Minute() for _ in range(9))
    assert watched.device is not None
    watched.see([Minute()])
    assert watched.device is None
    assert len(watched.began) == len(watched.ended) == 1


def test_after_hours_what_was_unusual_is_usual() -> None:
    watched = Watched().see(Minute() for _ in range(35)).see(Minute(heat=85.0) for _ in range(250))
    assert watched.device is None
    assert len(watched.began) == 1


def test_it_is_hot_also_when_it_slows_down_and_draws_less() -> None:
    watched = Watched().see(Minute() for _ in range(35)).see(Minute(heat=85.0, power=300.0) for _ in range(3))
    assert watched.device is not None


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(Minute(), Minute(heat=64.0), id="a few degrees"),
        pytest.param(Minute(power=80.0, utilization=0.0, heat=35.0), Minute(), id="a job begins"),
        pytest.param(
            Minute(), Minute(power=80.0, utilization=0.0, heat=35.0, memory=0.5, pod=None), id="a job ends"
        ),
        pytest.param(
            Minute(power=None, heat=None), Minute(power=None, heat=90.0), id="nothing to compare with"
        ),
        pytest.param(Minute(power=300.0), Minute(power=600.0, heat=80.0), id="never worked so hard before"),
        pytest.param(Minute(), Minute(heat=30.0), id="cooler"),
        pytest.param(Minute(), Minute(throttled="sw_power_cap"), id="at the limit that somebody set"),
        pytest.param(Minute(), Minute(pod="ml/other", power=300.0), id="another job draws less"),
        pytest.param(Minute(), Minute(utilization=0.1, power=100.0), id="less to do"),
        pytest.param(Minute(ecc=7), Minute(ecc=0), id="counters set back"),
        pytest.param(Minute(), Minute(errors=2), id="two errors"),
        pytest.param(Minute(ecc=None), Minute(ecc=5), id="errors of before it was counted"),
    ],
)
def test_this_is_nothing_unusual(before: Minute, now: Minute) -> None:
    watched = Watched().see([before] * 40).see([now] * 20)
    assert watched.device is None
    assert watched.began == []


def test_nothing_is_said_without_enough_history() -> None:
    watched = Watched().see(Minute() for _ in range(15)).see(Minute(heat=95.0) for _ in range(10))
    assert watched.device is None


def test_a_device_that_does_not_tell_its_power_is_held_against_all_of_its_minutes() -> None:
    known = Minute(power=None, limit=None)
    watched = Watched().see([known] * 35).see([Minute(power=None, limit=None, heat=85.0)] * 3)
    assert watched.device == "temperature 85 °C, usually 60 ± 1 at such a load"


def test_a_device_hotter_than_those_beside_it_needs_no_history() -> None:
    beside = ((600.0, 60.0), (590.0, 62.0), (610.0, 61.0))
    watched = Watched().see([Minute(heat=80.0, neighbours=beside)] * 4)
    assert watched.device == "temperature 80 °C, 61 °C on devices beside it that do the same"


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(((600.0, 60.0), (600.0, 60.0)), id="too few"),
        pytest.param(((200.0, 40.0), (200.0, 40.0), (200.0, 40.0)), id="they do less"),
        pytest.param(((600.0, 70.0), (600.0, 70.0), (600.0, 70.0)), id="it is not so far"),
    ],
)
def test_those_beside_it_may_say_nothing(beside: tuple[tuple[float, float], ...]) -> None:
    assert Watched().see([Minute(heat=80.0, neighbours=beside)] * 10).device is None


def test_a_device_that_draws_less_for_the_same_work() -> None:
    watched = Watched().see([Minute()] * 45).see([Minute(power=330.0)] * 3)
    assert watched.device is None
    assert (
        watched.see([Minute(power=330.0)]).device == "power 330 W, usually 600 ± 1 with as much utilisation"
    )


@pytest.mark.parametrize("reason", sorted(FAULT_THROTTLES))
def test_throttling_that_is_no_habit(reason: str) -> None:
    hot = Minute(throttled=reason)
    watched = Watched().see([Minute()] * 35).see([hot] * 3)
    assert watched.device == "slowed down by heat or its power supply at 60 °C, usually not"
    assert Watched().see([hot, Minute()] * 30).see([hot] * 5).device is None


def test_memory_errors_are_said_at_once_and_for_as_long_as_they_come() -> None:
    watched = Watched().see([Minute(ecc=2)] * 3)
    assert watched.device is None  # they were there before
    watched.see([Minute(ecc=3)])
    assert watched.device == "1 uncorrected memory error in 10 minutes"
    watched.see([Minute(ecc=3)] * 9)
    assert watched.device is not None
    watched.see([Minute(ecc=3)])
    assert watched.device is None


def test_several_reasons_are_said_together() -> None:
    watched = Watched().see([Minute()] * 35).see([Minute(heat=85.0, errors=4)] * 3)
    assert watched.device == "4 errors in 10 minutes; temperature 85 °C, usually 60 ± 1 at such a load"


HUNG = Minute(utilization=0.0, pod_utilization=None, power=80.0, heat=35.0)


def test_a_hung_job_is_its_pods_and_not_the_devices() -> None:
    watched = Watched().see([Minute()] * 30).see([HUNG] * 9)
    assert watched.pod is None
    watched.see([HUNG])
    assert watched.pod == "idle for 10 minutes with 39.0 GiB held, usually 90% busy"
    assert watched.device is None
    watched.see([HUNG] * 80)
    assert watched.pod is not None
    watched.see([Minute()] * 2)
    assert watched.pod is None


def test_where_no_pod_is_known_a_hung_job_is_the_devices() -> None:
    busy, idle = Minute(pod=None), Minute(pod=None, utilization=0.0, power=80.0, heat=35.0)
    watched = Watched().see([busy] * 30).see([idle] * 10)
    assert watched.device == "idle for 10 minutes with 40.0 GiB held, usually 90% busy"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(
            [Minute()] * 30, Minute(utilization=0.0, pod_utilization=None, pod_memory=1.0), id="let go"
        ),
        pytest.param([Minute(), HUNG] * 20, HUNG, id="pauses are its habit"),
        pytest.param([Minute()] * 10, HUNG, id="too young"),
        pytest.param([Minute(pod_utilization=None)] * 40, HUNG, id="its work was never told"),
    ],
)
def test_a_pod_that_idles_is_not_always_hung(before: list[Minute], now: Minute) -> None:
    assert Watched().see(before).see([now] * 15).pod is None


def test_memory_that_grows_and_grows() -> None:
    watched = Watched().see(Minute(pod_memory=20 + minute / 10) for minute in range(90))
    assert watched.pod == "memory grows by 6.0 GiB an hour, full in 9 hours"
    watched.see([Minute(pod_memory=29.0)] * 60)
    assert watched.pod is None


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(lambda minute: 20 + min(minute, 30) / 10, id="up to a point"),
        pytest.param(lambda minute: 20 + 5 * (minute % 7), id="up and down"),
        pytest.param(lambda minute: 20 + minute / 200, id="it will take days"),
        pytest.param(lambda minute: 20 + 10 * (minute > 40), id="one step"),
        pytest.param(lambda minute: 40 - abs(minute - 60) / 10, id="up for an hour, then down"),
    ],
)
def test_memory_that_moves_is_not_always_a_leak(memory: Callable[[int], float]) -> None:
    assert Watched().see(Minute(pod_memory=memory(minute)) for minute in range(120)).pod is None


def test_nothing_changes_while_nothing_is_read() -> None:
    watched = Watched().see([Minute()] * 35).see([Minute(heat=85.0)] * 3)
    assert watched.device is not None
    watched.see([Minute(stale=True)] * 12)
    assert watched.device is not None
    assert watched.ended == []


def test_what_was_unusual_ends_with_the_last_that_is_known_of_its_past() -> None:
    watched = Watched(forget_after_seconds=3 * 3600.0).see([Minute()] * 35).see([Minute(heat=85.0)] * 3)
    watched.see([Minute(stale=True)] * 59)
    assert watched.device is not None
    watched.see([Minute(stale=True)] * 2)
    assert watched.device is None  # its row is still there
    assert len(watched.ended) == 1
    assert watched.trends.unusual == {"device": 0, "pod": 0}
    watched.see([Minute()] * 3)
    assert watched.device is None
    assert len(watched.began) == len(watched.ended) == 1


def test_history_that_was_kept_over_a_restart_is_a_habit(tmp_path: Path) -> None:
    watched = Watched().see([Minute()] * 35)
    path = tmp_path / "history"
    run(watched.history.save(path))
    again = Watched(Clock(watched.clock.now))
    again.history.load(path)
    assert again.see([Minute(heat=85.0)] * 3).device is not None


def test_when_all_are_unusual_not_all_are_named() -> None:
    watched = Watched()
    marks = Marks(watched.history.pods, (Stuck(),), limit=2)
    rings = watched.history.pods
    rings.begin(1)
    for number in range(4):
        slot = rings.slot(("a", "ns", f"p{number}"))
        marks._reasons[slot] = {0: "odd"}
    assert len(marks.texts()) == 2
    assert (marks.named, marks.unnamed) == (2, 2)


def test_what_is_usual_is_not_moved_by_a_few_outliers() -> None:
    values = np.array([[10.0] * 18 + [99.0, np.nan]], np.float32)
    seen = usual(values, np.ones(values.shape, np.bool_))
    assert (seen.minutes[0], seen.middle[0], seen.spread[0], seen.high[0]) == (19, 10.0, 0.0, 10.0)
    nothing = usual(values, np.zeros(values.shape, np.bool_))
    assert nothing.minutes[0] == 0
    assert np.isnan(nothing.middle[0])
