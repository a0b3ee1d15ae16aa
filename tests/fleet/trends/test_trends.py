"""Anomalies are marked with a reason; what a changing load explains is not."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.fleet.loop import run
from tests.fleet.store.nodes import GIB, Clock, device, report, snapshot, store_of, usage

from accelscope.fleet.detectors import StuckJobDetector, baseline
from accelscope.fleet.history import FleetHistory
from accelscope.fleet.history_rings import NOWHERE
from accelscope.fleet.store.events import EventKind
from accelscope.fleet.trends import AnomalyMarks, DeviceHistory, Trends
from accelscope.model import FAULT_THROTTLES, Device, EccCount, ErrorCount, PodUsage, Throttle

START = 1_000_020.0
POD = "ml/train"


@dataclass
class Minute:
    """One device and the pod on it; None: absent."""

    utilization: float | None = 0.9
    power: float | None = 600.0
    temperature: float | None = 60.0
    memory: float | None = 40.0  # GiB
    pod: str | None = POD
    pod_utilization: float | None = 0.9
    pod_memory: float | None = 39.0  # GiB
    throttled: str | None = None
    ecc: int | None = 0
    errors: int = 0
    neighbours: tuple[tuple[float, float], ...] = ()  # power and temperature
    limit: float | None = 700.0
    stale: bool = False


@dataclass
class MonitoredDevice:
    clock: Clock = field(default_factory=lambda: Clock(START))
    forget_after_seconds: float = 900.0

    def __post_init__(self) -> None:
        self.store = store_of("a", clock=self.clock, forget_after_seconds=self.forget_after_seconds)
        self.history = FleetHistory()
        self.trends = Trends(self.history)

    def read(self, minutes: Iterable[Minute]) -> "MonitoredDevice":
        run(self._read_all(minutes), 60)
        return self

    async def _read_all(self, minutes: Iterable[Minute]) -> None:
        for minute in minutes:
            await self._read(minute)

    async def _read(self, minute: Minute) -> None:
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
        temperature_celsius=minute.temperature,
        memory_total_bytes=80 * GIB,
        memory_used_bytes=None if minute.memory is None else int(minute.memory * GIB),
        throttles=() if minute.throttled is None else (Throttle(minute.throttled, True),),
        ecc=() if minute.ecc is None else (EccCount("uncorrected", False, minute.ecc),),
        errors=(ErrorCount("xid", "31", minute.errors),) if minute.errors else (),
    )
    others = [
        device(
            f"other-{n}",
            model="H100",
            power_watts=power,
            power_limit_watts=700.0,
            temperature_celsius=temperature,
        )
        for n, (power, temperature) in enumerate(minute.neighbours)
    ]
    if minute.pod is None:
        return [known, *others], []
    allocated = usage(
        minute.pod,
        known,
        allocated=1,
        processes=1,
        utilization_ratio=minute.pod_utilization,
        memory_used_bytes=None if minute.pod_memory is None else int(minute.pod_memory * GIB),
    )
    return [known, *others], [allocated]


def moving(minutes: int, make: Callable[[int, random.Random], Minute] | None = None) -> list[Minute]:
    """A changing load: utilisation, power and temperature are correlated."""
    chance = random.Random(5)
    found = []
    for minute in range(minutes):
        busy = 0.5 + 0.4 * chance.random()
        found.append(
            Minute(
                utilization=busy,
                pod_utilization=busy,
                power=100 + 550 * busy + chance.gauss(0, 5),
                temperature=round(30 + 40 * busy + chance.gauss(0, 1)),
            )
            if make is None
            else make(minute, chance)
        )
    return found


def test_a_changing_load_is_not_an_anomaly() -> None:
    monitored = MonitoredDevice().read(moving(90))
    assert (monitored.device, monitored.pod, monitored.began) == (None, None, [])


def test_an_overheating_device_is_marked_with_its_usual_temperature_until_it_has_cooled() -> None:
    monitored = (
        MonitoredDevice().read(Minute() for _ in range(35)).read(Minute(temperature=85.0) for _ in range(2))
    )
    assert monitored.device is None  # two minutes are not enough
    monitored.read([Minute(temperature=85.0)])
    assert monitored.device == "temperature 85 °C, usually 60 ± 1 °C under this load"
    monitored.read(
        Minute(temperature=84.0) for _ in range(70)
    )  # longer than the history: the threshold stays
    assert monitored.device is not None
    monitored.read(Minute() for _ in range(9))
    assert monitored.device is not None
    monitored.read([Minute()])
    assert monitored.device is None
    assert len(monitored.began) == len(monitored.ended) == 1


def test_an_anomaly_that_lasts_for_hours_becomes_the_baseline() -> None:
    monitored = (
        MonitoredDevice().read(Minute() for _ in range(35)).read(Minute(temperature=85.0) for _ in range(250))
    )
    assert monitored.device is None
    assert len(monitored.began) == 1


def test_a_hot_device_that_is_throttled_and_draws_less_power_is_marked() -> None:
    monitored = (
        MonitoredDevice()
        .read(Minute() for _ in range(35))
        .read(Minute(temperature=85.0, power=300.0) for _ in range(3))
    )
    assert monitored.device is not None


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(Minute(), Minute(temperature=64.0), id="a few degrees"),
        pytest.param(Minute(power=80.0, utilization=0.0, temperature=35.0), Minute(), id="a job begins"),
        pytest.param(
            Minute(),
            Minute(power=80.0, utilization=0.0, temperature=35.0, memory=0.5, pod=None),
            id="a job ends",
        ),
        pytest.param(
            Minute(power=None, temperature=None),
            Minute(power=None, temperature=90.0),
            id="nothing to compare with",
        ),
        pytest.param(
            Minute(power=300.0), Minute(power=600.0, temperature=80.0), id="never worked so hard before"
        ),
        pytest.param(Minute(), Minute(temperature=30.0), id="cooler"),
        pytest.param(Minute(), Minute(throttled="sw_power_cap"), id="at a configured power limit"),
        pytest.param(Minute(), Minute(pod="ml/other", power=300.0), id="another job draws less"),
        pytest.param(Minute(), Minute(utilization=0.1, power=100.0), id="less to do"),
        pytest.param(Minute(ecc=7), Minute(ecc=0), id="counters reset"),
        pytest.param(Minute(), Minute(errors=2), id="two errors"),
        pytest.param(Minute(ecc=None), Minute(ecc=5), id="errors before counting began"),
    ],
)
def test_no_anomaly_is_reported(before: Minute, now: Minute) -> None:
    monitored = MonitoredDevice().read([before] * 40).read([now] * 20)
    assert monitored.device is None
    assert monitored.began == []


def test_no_anomaly_is_reported_without_enough_history() -> None:
    monitored = (
        MonitoredDevice().read(Minute() for _ in range(15)).read(Minute(temperature=95.0) for _ in range(10))
    )
    assert monitored.device is None


def test_a_device_without_power_readings_is_compared_with_all_of_its_minutes() -> None:
    known = Minute(power=None, limit=None)
    monitored = (
        MonitoredDevice().read([known] * 35).read([Minute(power=None, limit=None, temperature=85.0)] * 3)
    )
    assert monitored.device == "temperature 85 °C, usually 60 ± 1 °C under this load"


def test_a_device_hotter_than_its_neighbours_needs_no_history() -> None:
    beside = ((600.0, 60.0), (590.0, 62.0), (610.0, 61.0))
    monitored = MonitoredDevice().read([Minute(temperature=80.0, neighbours=beside)] * 4)
    assert monitored.device == "temperature 80 °C, 61 °C on devices of its model and node under the same load"


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(((600.0, 60.0), (600.0, 60.0)), id="too few"),
        pytest.param(((200.0, 40.0), (200.0, 40.0), (200.0, 40.0)), id="under less load"),
        pytest.param(((600.0, 70.0), (600.0, 70.0), (600.0, 70.0)), id="a small difference"),
    ],
)
def test_a_device_is_not_compared_with_too_few_or_different_neighbours(
    beside: tuple[tuple[float, float], ...],
) -> None:
    assert MonitoredDevice().read([Minute(temperature=80.0, neighbours=beside)] * 10).device is None


def test_a_device_that_draws_less_power_at_the_same_utilization() -> None:
    monitored = MonitoredDevice().read([Minute()] * 45).read([Minute(power=330.0)] * 3)
    assert monitored.device is None
    assert (
        monitored.read([Minute(power=330.0)]).device == "power 330 W, usually 600 ± 1 W at this utilisation"
    )


@pytest.mark.parametrize("reason", sorted(FAULT_THROTTLES))
def test_throttling_is_an_anomaly_where_it_is_rare(reason: str) -> None:
    hot = Minute(throttled=reason)
    monitored = MonitoredDevice().read([Minute()] * 35).read([hot] * 3)
    assert monitored.device == "throttled by heat or power supply at 60 °C, usually not throttled"
    assert MonitoredDevice().read([hot, Minute()] * 30).read([hot] * 5).device is None


def test_memory_errors_are_reported_at_once_and_until_ten_minutes_after_the_last() -> None:
    monitored = MonitoredDevice().read([Minute(ecc=2)] * 3)
    assert monitored.device is None  # counted before
    monitored.read([Minute(ecc=3)])
    assert monitored.device == "1 uncorrected memory error in 10 minutes"
    monitored.read([Minute(ecc=3)] * 9)
    assert monitored.device is not None
    monitored.read([Minute(ecc=3)])
    assert monitored.device is None


def test_several_reasons_are_joined() -> None:
    monitored = MonitoredDevice().read([Minute()] * 35).read([Minute(temperature=85.0, errors=4)] * 3)
    assert monitored.device == "4 errors in 10 minutes; temperature 85 °C, usually 60 ± 1 °C under this load"


HUNG = Minute(utilization=0.0, pod_utilization=None, power=80.0, temperature=35.0)


def test_a_hung_job_marks_its_pod_and_not_the_device() -> None:
    monitored = MonitoredDevice().read([Minute()] * 30).read([HUNG] * 9)
    assert monitored.pod is None
    monitored.read([HUNG])
    assert monitored.pod == "idle for 10 minutes with 39.0 GiB allocated, usually 90% busy"
    assert monitored.device is None
    monitored.read([HUNG] * 80)
    assert monitored.pod is not None
    monitored.read([Minute()] * 2)
    assert monitored.pod is None


def test_a_hung_job_without_a_pod_marks_the_device() -> None:
    busy, idle = Minute(pod=None), Minute(pod=None, utilization=0.0, power=80.0, temperature=35.0)
    monitored = MonitoredDevice().read([busy] * 30).read([idle] * 10)
    assert monitored.device == "idle for 10 minutes with 40.0 GiB allocated, usually 90% busy"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(
            [Minute()] * 30,
            Minute(utilization=0.0, pod_utilization=None, pod_memory=1.0),
            id="memory released",
        ),
        pytest.param([Minute(), HUNG] * 20, HUNG, id="usually bursty"),
        pytest.param([Minute()] * 10, HUNG, id="too young"),
        pytest.param([Minute(pod_utilization=None)] * 40, HUNG, id="utilization never reported"),
    ],
)
def test_an_idle_pod_is_not_always_hung(before: list[Minute], now: Minute) -> None:
    assert MonitoredDevice().read(before).read([now] * 15).pod is None


def test_memory_that_grows_steadily_is_a_leak() -> None:
    monitored = MonitoredDevice().read(Minute(pod_memory=20 + minute / 10) for minute in range(90))
    assert monitored.pod == "memory grows by 6.0 GiB per hour, full in 9 hours"
    monitored.read([Minute(pod_memory=29.0)] * 60)
    assert monitored.pod is None


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(lambda minute: 20 + min(minute, 30) / 10, id="up to a point"),
        pytest.param(lambda minute: 20 + 5 * (minute % 7), id="up and down"),
        pytest.param(lambda minute: 20 + minute / 200, id="full only in days"),
        pytest.param(lambda minute: 20 + 10 * (minute > 40), id="one step"),
        pytest.param(lambda minute: 40 - abs(minute - 60) / 10, id="up for an hour, then down"),
    ],
)
def test_memory_that_changes_is_not_always_a_leak(memory: Callable[[int], float]) -> None:
    assert MonitoredDevice().read(Minute(pod_memory=memory(minute)) for minute in range(120)).pod is None


def test_an_anomaly_stays_while_its_node_is_stale() -> None:
    monitored = MonitoredDevice().read([Minute()] * 35).read([Minute(temperature=85.0)] * 3)
    assert monitored.device is not None
    monitored.read([Minute(stale=True)] * 12)
    assert monitored.device is not None
    assert monitored.ended == []


def test_an_anomaly_ends_when_its_history_has_expired() -> None:
    monitored = (
        MonitoredDevice(forget_after_seconds=3 * 3600.0)
        .read([Minute()] * 35)
        .read([Minute(temperature=85.0)] * 3)
    )
    monitored.read([Minute(stale=True)] * 59)
    assert monitored.device is not None
    monitored.read([Minute(stale=True)] * 2)
    assert monitored.device is None  # its row is still there
    assert len(monitored.ended) == 1
    assert monitored.trends.unusual == {"device": 0, "pod": 0}
    monitored.read([Minute()] * 3)
    assert monitored.device is None
    assert len(monitored.began) == len(monitored.ended) == 1


def test_saved_history_is_a_baseline_after_a_restart(tmp_path: Path) -> None:
    monitored = MonitoredDevice().read([Minute()] * 35)
    path = tmp_path / "history"
    run(monitored.history.save(path))
    again = MonitoredDevice(Clock(monitored.clock.now))
    again.history.load(path)
    assert again.read([Minute(temperature=85.0)] * 3).device is not None


def test_the_number_of_marks_is_limited() -> None:
    monitored = MonitoredDevice()
    marks = AnomalyMarks(monitored.history.pods, (StuckJobDetector(),), limit=2)
    rings = monitored.history.pods
    rings.begin(1)
    for number in range(4):
        slot = rings.slot(("a", "ns", f"p{number}"))
        marks._reasons[slot] = {0: "odd"}
    assert len(marks.texts()) == 2
    assert (marks.marked, marks.unmarked) == (2, 2)


def test_a_few_outliers_do_not_move_the_baseline() -> None:
    values = np.array([[10.0] * 18 + [99.0, np.nan]], np.float32)
    seen = baseline(values, np.ones(values.shape, np.bool_))
    assert (seen.minutes[0], seen.median[0], seen.spread[0], seen.high[0]) == (19, 10.0, 0.0, 10.0)
    nothing = baseline(values, np.zeros(values.shape, np.bool_))
    assert nothing.minutes[0] == 0
    assert np.isnan(nothing.median[0])


def test_the_baseline_of_a_device_starts_when_any_of_its_pods_changes() -> None:
    past = DeviceHistory()
    past.grow_to(3)

    def read(minute: int, devices: dict[int, list[int]]) -> list[float]:
        pairs = [(device, pod) for device, pods in devices.items() for pod in pods]
        on, pods = (np.array([pair[n] for pair in pairs], np.intp) for n in (0, 1))
        past.take_pods(np.array(list(devices), np.intp), on, pods, minute)
        return list(map(float, past.same_pods(slice(0, 3), minute)))

    assert read(5, {0: [7, 8], 1: [9], 2: []})[:2] == [0, 0]
    assert read(6, {0: [8, 7], 1: [9, 7], 2: []})[:2] == [1, 0]
    assert read(7, {0: [7]})[:2] == [0, 1]  # device 1 was not read
    assert read(8, {1: [7, 9], 2: [NOWHERE]}) == [1, 2, 0]
    past.reset(np.array([1]))
    assert np.isnan(read(9, {})[1])
