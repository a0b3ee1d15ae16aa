"""Recent history: readings are recorded by the minute, and missing ones are gaps."""

import logging
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fleet.loop import run
from tests.fleet.store.nodes import GIB, Clock, device, report, snapshot, store_of, usage

from accelscope.fleet.history import FleetHistory, HistoryLimits
from accelscope.fleet.history_rings import NOWHERE, HistorySeries, Rings
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.model import Device

START = 1_000_020.0  # some seconds into a minute
FIRST = START - START % 60


class Fleet:
    """A store and its history; `minute` lets one pass and records it."""

    def __init__(self, *clusters: str, limits: HistoryLimits | None = None) -> None:
        self.clock = Clock(START)
        self.store: FleetStore = store_of(*clusters, clock=self.clock)
        self.history = FleetHistory(limits)

    def read(
        self, cluster: str, node: str, *devices: Device, usages: Mapping[str, Device] | None = None
    ) -> None:
        given_usages = [
            usage(pod, of, allocated=1, utilization_ratio=0.25, memory_used_bytes=GIB)
            for pod, of in (usages or {}).items()
        ]
        self.store.take(cluster, report(node, snapshot(devices, usages=given_usages), self.clock.now))

    def minute(self, count: int = 1) -> None:
        for _ in range(count):
            run(self.history.record(self.store, self.clock.now))
            self.clock.advance(60)
            while self.store.tick(self.clock.now):
                pass

    def device(self, id_: str, cluster: str = "a", node: str = "n1") -> HistorySeries:
        return self.history.device(cluster, node, f"nvidia:{id_}", 0, self.clock.now)


def gpu(id_: str, **values: object) -> Device:
    return device(id_, model="H100", memory_total_bytes=80 * GIB, **values)  # type: ignore[arg-type]


def test_a_device_has_a_value_for_each_minute() -> None:
    fleet = Fleet("a")
    for power in (100.0, 200.0):
        fleet.read("a", "n1", gpu("x", power_watts=power, utilization_ratio=0.123456))
        fleet.minute()
    series = fleet.device("x")
    assert (series.start + 58 * 60, series.step_seconds) == (FIRST, 60)
    assert series.fields["power_watts"][-2:] == [100.0, 200.0]
    assert series.fields["utilization_ratio"][-1] == 0.1235
    assert series.fields["temperature_celsius"] == [None] * 60
    assert series.source == "ring"


def test_a_series_contains_only_the_requested_time() -> None:
    fleet = Fleet("a")
    for power in (1.0, 2.0, 3.0, 4.0):
        fleet.read("a", "n1", gpu("x", power_watts=power))
        fleet.minute()
    series = fleet.history.device("a", "n1", "nvidia:x", FIRST + 60, FIRST + 120)
    assert (series.start, series.fields["power_watts"]) == (FIRST + 60, [2.0, 3.0])
    assert fleet.history.device("a", "n1", "nvidia:x", FIRST + 9000, FIRST + 9999).fields["power_watts"] == []


def test_a_stale_device_leaves_a_gap_and_never_a_zero() -> None:
    fleet = Fleet("a")
    fleet.read("a", "n1", gpu("x", power_watts=100.0))
    fleet.minute(4)  # without new readings
    fleet.read("a", "n1", gpu("x", power_watts=300.0))
    fleet.minute()
    known = fleet.device("x").fields["power_watts"]
    assert known[-5] == 100.0
    assert None in known[-4:-1]
    assert known[-1] == 300.0
    total = fleet.history.summary("fleet", None, 0, fleet.clock.now).fields
    assert None in total["power_watts"][-4:-1]
    assert 0 not in total["devices"]


def test_sums_cover_only_the_requested_clusters() -> None:
    fleet = Fleet("a", "b")
    fleet.read("a", "n1", gpu("x", utilization_ratio=0.2, power_watts=100.0, temperature_celsius=50.0))
    fleet.read(
        "b",
        "n1",
        gpu("y", utilization_ratio=0.8, power_watts=200.0, temperature_celsius=70.0, health="warning"),
        gpu("z", utilization_ratio=0.8, power_watts=200.0),
        gpu("untold"),
    )
    fleet.minute()

    def last(scope: str, key: str | None, clusters: tuple[str, ...] | None = None) -> dict[str, float | None]:
        series = fleet.history.summary(scope, key, 0, fleet.clock.now, clusters=clusters)  # type: ignore[arg-type]
        return {name: values[-1] for name, values in series.fields.items()}

    whole = last("fleet", None)
    assert whole == {
        "devices": 4,
        "devices_unhealthy": 1,
        "devices_allocated": 0,
        "utilization_ratio": 0.6,  # of the three that report it
        "memory_used_bytes": None,
        "memory_total_bytes": None,
        "power_watts": 500.0,
        "temperature_max_celsius": 70.0,
    }
    assert last("vendor", "nvidia") == last("model", "H100") == whole
    assert last("cluster", "a")["power_watts"] == last("fleet", None, ("a",))["power_watts"] == 100.0
    assert last("model", "H100", ("b",))["devices"] == 3
    assert last("vendor", "amd")["devices"] is None


def test_used_and_total_memory_are_of_the_same_devices() -> None:
    fleet = Fleet("a")
    both, total_only = gpu("x", memory_used_bytes=20 * GIB), gpu("y")
    used_only = device("z", model="H100", memory_used_bytes=30 * GIB)
    fleet.read("a", "n1", both, total_only, used_only)
    fleet.minute()
    fields = fleet.history.summary("fleet", None, 0, fleet.clock.now).fields
    assert (fields["memory_used_bytes"][-1], fields["memory_total_bytes"][-1]) == (20 * GIB, 80 * GIB)


def test_a_namespace_has_its_own_use_of_shared_devices() -> None:
    fleet = Fleet("a")
    shared, alone = gpu("x", utilization_ratio=1.0, power_watts=300.0), gpu("y", power_watts=100.0)
    fleet.read("a", "n1", shared, alone, usages={"one/p": shared, "two/q": shared, "one/r": alone})
    fleet.minute()
    one = fleet.history.summary("namespace", "one", 0, fleet.clock.now).fields
    two = fleet.history.summary("namespace", "two", 0, fleet.clock.now).fields
    assert (one["devices"][-1], two["devices"][-1]) == (2, 1)
    assert (one["devices_allocated"][-1], one["power_watts"][-1]) == (2, 400.0)
    assert (one["memory_used_bytes"][-1], two["memory_used_bytes"][-1]) == (2 * GIB, GIB)
    assert one["utilization_ratio"][-1] == 0.25


def test_a_pods_utilisation_is_the_mean_of_its_devices() -> None:
    fleet = Fleet("a")
    first, second = gpu("x"), gpu("y")
    usages = [
        usage("ns/p", first, utilization_ratio=0.4, memory_used_bytes=GIB),
        usage("ns/p", first, container="side", utilization_ratio=0.2, memory_used_bytes=GIB),
        usage("ns/p", second, utilization_ratio=0.2, memory_used_bytes=GIB),
        usage("ns/silent", second),
    ]
    fleet.store.take("a", report("n1", snapshot([first, second], usages=usages), fleet.clock.now))
    fleet.minute()
    pod = fleet.history.pod("a", "ns", "p", 0, fleet.clock.now)
    assert (pod.namespace, pod.fields["utilization_ratio"][-1]) == ("ns", 0.4)
    assert pod.fields["memory_used_bytes"][-1] == 3 * GIB
    silent = fleet.history.pod("a", "ns", "silent", 0, fleet.clock.now).fields
    assert (silent["utilization_ratio"][-1], silent["memory_used_bytes"][-1]) == (None, None)


def test_minutes_without_a_record_are_gaps() -> None:
    fleet = Fleet("a")
    fleet.read("a", "n1", gpu("x", power_watts=1.0))
    fleet.minute()
    fleet.clock.advance(120)
    fleet.read("a", "n1", gpu("x", power_watts=2.0))
    fleet.minute()
    assert fleet.device("x").fields["power_watts"][-4:] == [1.0, None, None, 2.0]


def test_setting_the_clock_back_drops_later_minutes() -> None:
    fleet = Fleet("a")
    for power in (1.0, 2.0, 3.0):
        fleet.read("a", "n1", gpu("x", power_watts=power))
        fleet.minute()
    fleet.clock.now = START + 60
    fleet.read("a", "n1", gpu("x", power_watts=9.0))
    fleet.minute()
    assert fleet.device("x").fields["power_watts"][-2:] == [1.0, 9.0]


def test_recording_a_minute_twice_keeps_the_last() -> None:
    fleet = Fleet("a")
    fleet.read("a", "n1", gpu("x", power_watts=1.0), gpu("gone", power_watts=1.0))
    run(fleet.history.record(fleet.store, fleet.clock.now))
    fleet.read("a", "n1", gpu("x", power_watts=2.0))
    run(fleet.history.record(fleet.store, fleet.clock.now))
    assert fleet.device("x").fields["power_watts"][-2:] == [None, 2.0]
    assert fleet.device("gone").fields["power_watts"][-1] is None


def test_keys_without_room_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet("a", limits=HistoryLimits(devices=2))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            fleet.read("a", "n1", *(gpu(id_, power_watts=1.0) for id_ in "wxyz"))
            fleet.minute()
    assert fleet.history.dropped == {"devices": 2}
    assert [record.message for record in caplog.records].count(
        "history is full; charts and sums are incomplete"
    ) == 1
    assert fleet.history.summary("fleet", None, 0, fleet.clock.now).fields["devices"][-1] == 4


def test_a_device_that_left_makes_room_after_an_hour() -> None:
    fleet = Fleet("a", limits=HistoryLimits(devices=1))
    fleet.read("a", "n1", gpu("old", power_watts=1.0))
    fleet.minute()
    for _ in range(58):
        fleet.read("a", "n1", gpu("new", power_watts=2.0))
        fleet.minute()
    assert fleet.device("old").fields["power_watts"][1] == 1.0
    assert fleet.history.dropped == {"devices": 1}
    for _ in range(3):
        fleet.read("a", "n1", gpu("new", power_watts=2.0))
        fleet.minute()
    assert fleet.history.dropped == {}
    assert fleet.device("new").fields["power_watts"][-2:] == [None, 2.0]
    assert fleet.device("old").fields["power_watts"] == [None] * 60


def test_only_gaps_are_filled_from_a_store() -> None:
    fleet = Fleet("a")
    fleet.read("a", "n1", gpu("x", power_watts=5.0))
    fleet.minute()

    def remembered(device_id: str, start: float, values: list[float | None]) -> HistorySeries:
        return HistorySeries(
            scope="device",
            key=f"nvidia:{device_id}",
            cluster="a",
            node="n1",
            start=start,
            step_seconds=60.0,
            fields={"power_watts": values},
            source="prometheus",
        )

    long_ago: list[float | None] = [7.0] * 90
    run(
        fleet.history.fill(
            [
                remembered("x", FIRST - 120, [1.0, None, 3.0, 4.0]),
                remembered("x", FIRST - 62 * 60 - 90 * 60, long_ago),
                remembered("nobody", FIRST, [1.0]),
            ]
        )
    )
    assert fleet.device("x").fields["power_watts"][-3:] == [1.0, None, 5.0]
    assert 7.0 not in fleet.device("x").fields["power_watts"]


@settings(max_examples=30)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["n1", "n2", "n3"]),
            st.dictionaries(st.sampled_from("uvwxyz"), st.integers(1, 9), min_size=1, max_size=6),
            max_size=3,
        ),
        max_size=12,
    )
)
def test_rows_that_move_in_their_table_keep_their_history(minutes: list[dict[str, dict[str, int]]]) -> None:
    """Nodes return with other devices in another order, and other rows take their positions."""
    fleet = Fleet("a")
    expected: dict[tuple[str, str], list[float | None]] = {}
    for number, nodes in enumerate(minutes):
        for node, powers in nodes.items():
            fleet.read("a", node, *(gpu(id_, power_watts=float(power)) for id_, power in powers.items()))
            for id_ in powers:
                expected.setdefault((node, id_), [None] * number)
        fleet.minute()
        for (node, id_), past in expected.items():
            read = nodes.get(node, {}).get(id_)
            past.append(None if read is None else float(read))
    for (node, id_), past in expected.items():
        assert fleet.device(id_, node=node).fields["power_watts"][60 - len(minutes) :] == past


def test_slots_are_reused_only_when_all_minutes_are_gaps() -> None:
    rings = Rings(["value"], 3, limit=1, page_slots=1)
    for minute in range(1, 4):
        rings.begin(minute)
        if minute == 1:
            assert rings.slot(("first",)) == 0
        rings.recycle()
        assert rings.slot(("second",)) == NOWHERE
    rings.begin(4)
    assert rings.recycle() == [0]
    assert rings.slot(("second",)) == 0
