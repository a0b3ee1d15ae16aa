"""Anomalies are marked with a reason; what a changing load explains is not."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.fleet.loop import run
from tests.fleet.store.nodes import GIB, Clock, device, report, snapshot, store_of, usage

from accelscope.fleet.detectors import StuckJobDetector
from accelscope.fleet.history import FleetHistory
from accelscope.fleet.history_rings import NOWHERE
from accelscope.fleet.store.events import EventKind
from accelscope.fleet.trends import AnomalyMarks, PodPlacement, Trends
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
    others: tuple[tuple[float, float], ...] = ((600.0, 60.0),) * 3  # power and temperature
    shared: bool = False  # the pod is on the other devices, too
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
        power_limit_watts=700.0,
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
            utilization_ratio=minute.utilization,
            power_watts=power,
            temperature_celsius=temperature,
        )
        for n, (power, temperature) in enumerate(minute.others)
    ]
    if minute.pod is None:
        return [known, *others], []
    allocated = [
        usage(
            minute.pod,
            each,
            allocated=1,
            processes=1,
            utilization_ratio=minute.pod_utilization,
            memory_used_bytes=None if minute.pod_memory is None else int(minute.pod_memory * GIB),
        )
        for each in ([known, *others] if minute.shared else [known])
    ]
    return [known, *others], allocated


def moving(minutes: int, hotter: float = 0.0) -> list[Minute]:
    """A changing load: utilisation, power and temperature are correlated, and warm the device slowly."""
    chance = random.Random(5)
    found, warm = [], 30.0
    for minute in range(minutes):
        busy = 0.5 + 0.4 * ((minute // 7) % 2) * chance.random()
        power = 100 + 550 * busy + chance.gauss(0, 5)
        warm += 0.6 * (30 + power / 20 - warm)
        found.append(
            Minute(
                utilization=busy,
                pod_utilization=busy,
                power=power,
                temperature=round(warm + hotter + chance.gauss(0, 1)),
            )
        )
    return found


READY = 105  # minutes until temperatures are judged


def test_a_changing_load_is_not_an_anomaly() -> None:
    monitored = MonitoredDevice().read(moving(240))
    assert (monitored.device, monitored.pod, monitored.began) == (None, None, [])


def test_an_overheating_device_under_a_changing_load_is_marked() -> None:
    monitored = MonitoredDevice().read(moving(150)).read(moving(30, hotter=12.0))
    assert monitored.device is not None
    assert monitored.device.startswith("temperature ")


def test_an_overheating_device_is_marked_with_its_usual_temperature_until_it_has_cooled() -> None:
    monitored = MonitoredDevice().read([Minute()] * READY).read([Minute(temperature=85.0)] * 4)
    assert monitored.device is None  # one wrong reading is not an anomaly
    monitored.read([Minute(temperature=85.0)])
    assert monitored.device == "temperature 85 °C, usually 60 °C under this load"
    monitored.read([Minute(temperature=84.0)] * 230)  # longer than the history
    assert monitored.device is not None
    monitored.read([Minute()] * 9)
    assert monitored.device is not None
    monitored.read([Minute()])
    assert monitored.device is None
    assert len(monitored.began) == len(monitored.ended) == 1


def test_slow_overheating_is_marked() -> None:
    monitored = MonitoredDevice().read([Minute()] * READY)
    monitored.read(Minute(temperature=round(60 + min(12, 0.2 * n))) for n in range(75))
    assert monitored.device is not None


def test_an_anomaly_that_lasts_for_hours_becomes_the_baseline() -> None:
    monitored = MonitoredDevice().read([Minute()] * READY).read([Minute(temperature=85.0)] * 400)
    assert monitored.device is None
    assert len(monitored.began) == 1


def test_a_hot_device_that_is_throttled_and_draws_less_power_is_marked() -> None:
    hot = Minute(temperature=85.0, power=300.0, throttled="hw_thermal_slowdown")
    assert MonitoredDevice().read([Minute()] * READY).read([hot] * 3).device is not None


HALF_AS_BUSY = ((300.0, 45.0),) * 3


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(Minute(), Minute(temperature=63.0), id="a few degrees"),
        pytest.param(Minute(power=80.0, utilization=0.0, temperature=35.0), Minute(), id="a job begins"),
        pytest.param(
            Minute(),
            Minute(power=80.0, utilization=0.0, temperature=35.0, memory=0.5, pod=None),
            id="a job ends",
        ),
        pytest.param(
            Minute(power=None), Minute(power=None, temperature=90.0), id="temperature without power"
        ),
        pytest.param(
            Minute(power=300.0, others=HALF_AS_BUSY),
            Minute(power=600.0, temperature=90.0),
            id="never worked so hard before",
        ),
        pytest.param(
            Minute(), Minute(temperature=85.0, others=((600.0, 85.0),) * 3), id="the room is warmer"
        ),
        pytest.param(
            Minute(others=((600.0, 60.0),) * 2),
            Minute(temperature=90.0, others=((600.0, 60.0),) * 2),
            id="too few devices to compare with",
        ),
        pytest.param(Minute(), Minute(temperature=30.0), id="cooler"),
        pytest.param(Minute(), Minute(throttled="sw_power_cap"), id="at a configured power limit"),
        pytest.param(Minute(), Minute(pod="ml/other", power=300.0), id="another job draws less"),
        pytest.param(Minute(shared=True), Minute(shared=True, power=480.0), id="a little less power"),
        pytest.param(
            Minute(shared=True),
            Minute(shared=True, utilization=0.1, power=300.0),
            id="power of devices that are not busy",
        ),
        pytest.param(Minute(ecc=7), Minute(ecc=0), id="counters reset"),
        pytest.param(Minute(), Minute(errors=7), id="errors with a code"),
        pytest.param(Minute(ecc=None), Minute(ecc=5), id="errors before counting began"),
    ],
)
def test_no_anomaly_is_reported(before: Minute, now: Minute) -> None:
    monitored = MonitoredDevice().read([before] * READY).read([now] * 20)
    assert monitored.device is None
    assert monitored.began == []


def test_no_anomaly_is_reported_without_enough_history() -> None:
    monitored = MonitoredDevice().read([Minute()] * 80).read([Minute(temperature=95.0)] * 19)
    assert monitored.device is None


def test_one_minute_without_a_reading_does_not_end_an_anomaly() -> None:
    monitored = MonitoredDevice().read([Minute()] * READY).read([Minute(temperature=85.0)] * 5)
    monitored.read([Minute(stale=True)]).read([Minute(temperature=85.0)] * 12)
    assert (len(monitored.began), monitored.ended) == (1, [])


def test_a_device_that_draws_less_power_than_those_of_its_job_that_are_as_busy() -> None:
    monitored = MonitoredDevice().read([Minute(shared=True)] * 5)
    monitored.read([Minute(shared=True, power=330.0)] * 2)
    assert monitored.device is None
    monitored.read([Minute(shared=True, power=330.0)])
    assert monitored.device == "power 330 W, 600 W on devices of its job that are as busy"
    assert MonitoredDevice().read([Minute(power=330.0)] * 20).device is None  # of different jobs


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
    hot = Minute(temperature=85.0, throttled="hw_thermal_slowdown")
    monitored = MonitoredDevice().read([Minute()] * READY).read([hot] * 5)
    assert (
        monitored.device == "temperature 85 °C, usually 60 °C under this load; "
        "throttled by heat or power supply at 85 °C, usually not throttled"
    )


HUNG = Minute(utilization=0.0, pod_utilization=None, power=80.0, temperature=35.0)


def test_a_hung_job_marks_its_pod_and_not_the_device() -> None:
    monitored = MonitoredDevice().read([Minute()] * 180).read([HUNG] * 19)
    assert monitored.pod is None
    monitored.read([HUNG])
    assert monitored.pod == "idle for 20 minutes with 39.0 GiB allocated, usually 90% busy"
    assert monitored.device is None
    monitored.read([HUNG] * 80)
    assert monitored.pod is not None
    monitored.read([Minute()] * 2)
    assert monitored.pod is None


def test_a_hung_job_without_a_pod_marks_the_device() -> None:
    busy, idle = Minute(pod=None), Minute(pod=None, utilization=0.0, power=80.0, temperature=35.0)
    monitored = MonitoredDevice().read([busy] * 180).read([idle] * 20)
    assert monitored.device == "idle for 20 minutes with 40.0 GiB allocated, usually 90% busy"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(
            [Minute()] * 180,
            Minute(utilization=0.0, pod_utilization=None, pod_memory=1.0),
            id="memory released",
        ),
        pytest.param([Minute(), HUNG] * 120, HUNG, id="usually bursty"),
        pytest.param([*[Minute()] * 150, *[HUNG] * 9, *[Minute()] * 150], HUNG, id="it paused before"),
        pytest.param([Minute()] * 100, HUNG, id="too young"),
        pytest.param([Minute(pod_utilization=None)] * 200, HUNG, id="utilization never reported"),
    ],
)
def test_an_idle_pod_is_not_always_hung(before: list[Minute], now: Minute) -> None:
    assert MonitoredDevice().read(before).read([now] * 25).pod is None


def test_memory_that_grows_steadily_is_a_leak() -> None:
    monitored = MonitoredDevice().read(Minute(pod_memory=20 + minute / 10) for minute in range(200))
    assert monitored.pod == "memory grows by 6.0 GiB per hour, full in 7 hours"
    monitored.read([Minute(pod_memory=39.0)] * 120)
    assert monitored.pod is None


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(lambda minute: 20 + min(minute, 90) / 10, id="up to a point"),
        pytest.param(lambda minute: 60 - 40 * 0.985**minute, id="ever slower"),
        pytest.param(lambda minute: 20 + 5 * (minute % 7), id="up and down"),
        pytest.param(lambda minute: 20 + minute / 200, id="full only in days"),
        pytest.param(lambda minute: 20 + 10 * (minute > 140), id="one step"),
        pytest.param(lambda minute: 20 + 4 * (minute // 40), id="in steps"),
        pytest.param(lambda minute: 40 - abs(minute - 120) / 10, id="up for two hours, then down"),
    ],
)
def test_memory_that_changes_is_not_always_a_leak(memory: Callable[[int], float]) -> None:
    assert MonitoredDevice().read(Minute(pod_memory=memory(minute)) for minute in range(300)).began == []


def test_an_anomaly_stays_while_its_node_is_stale() -> None:
    monitored = MonitoredDevice().read([Minute()] * READY).read([Minute(temperature=85.0)] * 5)
    assert monitored.device is not None
    monitored.read([Minute(stale=True)] * 12)
    assert monitored.device is not None
    assert monitored.ended == []


def test_an_anomaly_ends_when_its_history_has_expired() -> None:
    monitored = (
        MonitoredDevice(forget_after_seconds=3 * 3600.0)
        .read([Minute()] * READY)
        .read([Minute(temperature=85.0)] * 5)
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
    monitored = MonitoredDevice().read([Minute()] * 60)
    path = tmp_path / "history"
    run(monitored.history.save(path))
    again = MonitoredDevice(Clock(monitored.clock.now))
    again.history.load(path)
    assert again.read([Minute()] * 60).read([Minute(temperature=85.0)] * 5).device is not None


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


def test_the_job_of_a_device_is_new_when_any_of_its_pods_changes() -> None:
    placement = PodPlacement()

    def changed(devices: dict[int, list[int]]) -> list[int]:
        pairs = [(device, pod) for device, pods in devices.items() for pod in pods]
        on, pods = (np.array([pair[n] for pair in pairs], np.intp) for n in (0, 1))
        return list(map(int, placement.changed(np.array(list(devices), np.intp), on, pods)))

    assert changed({0: [7, 8], 1: [9], 2: []}) == [0, 1]
    assert changed({0: [8, 7], 1: [9, 7], 2: []}) == [1]
    assert changed({0: [7]}) == [0]  # device 1 was not read
    assert changed({1: [7, 9], 2: [NOWHERE]}) == [2]
    placement.reset(np.array([1]))
    assert changed({0: [7], 1: [7, 9]}) == [1]
