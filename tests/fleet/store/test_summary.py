"""Sums by group, compared with the same sums made row by row."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fleet.store.nodes import GIB, Clock, device, report, snapshot, store_of, usage

from accelscope.fleet.rows import DeviceRow, PodRow
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.query import Condition, QueryError, RowQuery
from accelscope.fleet.store.summary import GROUP_FIELDS, SummaryRow, namespaces, summarize
from accelscope.model import Vendor

_ratios = st.none() | st.sampled_from([0.0, 0.25, 1.0])


@st.composite
def fleets(draw: st.DrawFn) -> FleetStore:
    clock = Clock()
    store = store_of("berlin", "oslo", clock=clock)
    for cluster in ("berlin", "oslo"):
        for node in ("n1", "n2"):
            devices = [
                device(
                    str(place),
                    vendor=draw(st.sampled_from([Vendor("nvidia"), Vendor("amd")])),
                    health=draw(st.sampled_from(["ok", "warning", "lost", "unknown"])),
                    model=draw(st.none() | st.sampled_from(["H100", "MI300X"])),
                    utilization_ratio=draw(_ratios),
                    memory_total_bytes=draw(st.none() | st.just(80 * GIB)),
                    memory_used_bytes=draw(st.none() | st.just(3 * GIB)),
                    temperature_celsius=draw(st.none() | st.sampled_from([40.0, 80.0])),
                    power_watts=draw(st.none() | st.just(128.0)),
                    energy_joules=draw(st.none() | st.just(1024.0)),
                )
                for place in range(draw(st.integers(0, 3)))
            ]
            usages = [
                usage(
                    f"{draw(st.sampled_from(['red', 'blue']))}/{draw(st.sampled_from(['x', 'y']))}",
                    d,
                    container=draw(st.sampled_from(["main", "side"])),
                    allocated=draw(st.integers(0, 1)),
                    idle_seconds=draw(st.none() | st.sampled_from([10.0, 5000.0])),
                    device_share_ratio=draw(st.none() | st.sampled_from([0.0, 0.125, 1.0, 9.0])),
                    utilization_ratio=draw(_ratios),
                    memory_used_bytes=draw(st.none() | st.just(GIB)),
                    energy_joules=draw(st.none() | st.just(512.0)),
                    processes=draw(st.integers(0, 2)),
                )
                for d in devices
                for _ in range(draw(st.integers(0, 3)))
            ]
            store.take(cluster, report(node, snapshot(devices, usages=usages), clock.now))
    if draw(st.booleans()):
        store.declare([view for view in store.clusters.values() if view.id == "oslo"])
    return store


Key = tuple[str | None, ...]
DeviceKey = tuple[str, str, str]


def plainly(
    store: FleetStore, group_by: Sequence[str], spaces: Sequence[str] | None = None
) -> dict[Key, dict[str, Any]]:
    """The same sums, device by device; with namespaces, only their use."""
    devices = {(row.cluster, row.node, row.id): row for row in store.devices.rows(store.devices.positions())}
    pods_of: dict[DeviceKey, list[PodRow]] = defaultdict(list)
    for pod in store.pods.rows(store.pods.positions()):
        if spaces is None or pod.namespace in spaces:
            pods_of[pod.cluster, pod.node, pod.device].append(pod)
    items: dict[Key, list[tuple[DeviceRow, list[PodRow]]]] = defaultdict(list)
    by_namespace = "namespace" in group_by
    if not group_by:
        items[()] = []
    for key, row in devices.items():
        shares: dict[str | None, list[PodRow]] = defaultdict(list)
        if by_namespace:
            for pod in pods_of[key]:
                shares[pod.namespace].append(pod)
        else:
            shares[None] = pods_of[key]
        if spaces is not None and not pods_of[key]:
            continue
        for namespace, pods in shares.items():
            group = tuple(namespace if f == "namespace" else getattr(row, f) for f in group_by)
            items[group].append((row, pods))
    return {group: _sums(found, by_namespace or spaces is not None) for group, found in items.items()}


def _sums(items: list[tuple[DeviceRow, list[PodRow]]], of_namespaces: bool) -> dict[str, Any]:
    def total(values: Iterable[float | None]) -> float | None:
        """None if no device reports a value."""
        reported = [value for value in values if value is not None]
        return sum(reported) if reported or not items else None

    def own(of_device: Callable[[DeviceRow], Any], of_pod: Callable[[PodRow], Any]) -> list[Any]:
        if not of_namespaces:
            return [of_device(row) for row, _ in items]
        shares = [[v for pod in pods if (v := of_pod(pod)) is not None] for _, pods in items]
        return [sum(share) if share else None for share in shares]

    def ratio(parts: list[float | None], wholes: list[float | None]) -> Any:
        both = [(p, w) for p, w in zip(parts, wholes, strict=True) if p is not None and w is not None]
        whole = sum(w for _, w in both)
        return pytest.approx(sum(p for p, _ in both) / whole) if whole else None

    used = [v for v in own(lambda d: d.utilization_ratio, lambda p: p.utilization_ratio) if v is not None]
    heat = [row.temperature_celsius for row, _ in items if row.temperature_celsius is not None]
    idle_times = [[pod.idle_seconds for pod in pods if pod.allocated] for _, pods in items]
    pods = [pod for _, found in items for pod in found]
    return {
        "nodes": len({(row.cluster, row.node) for row, _ in items}),
        "devices": len(items),
        "devices_lost": sum(row.health == "lost" for row, _ in items),
        "devices_unhealthy": sum(row.health in ("warning", "lost") for row, _ in items),
        "devices_stale": 0,
        "devices_allocated": sum(bool(containers) for containers in idle_times),
        "devices_idle": pytest.approx(
            sum(pod.device_share_ratio or 0 for pod in pods if (pod.idle_seconds or 0) >= 3600), abs=0.001
        ),
        "memory_total_bytes": total(row.memory_total_bytes for row, _ in items),
        "memory_used_bytes": total(own(lambda d: d.memory_used_bytes, lambda p: p.memory_used_bytes)),
        "memory_used_ratio": ratio(
            own(lambda d: d.memory_used_bytes, lambda p: p.memory_used_bytes),
            [row.memory_total_bytes for row, _ in items],
        ),
        "utilization_ratio": pytest.approx(sum(used) / len(used)) if used else None,
        "temperature_celsius": pytest.approx(sum(heat) / len(heat)) if heat else None,
        "temperature_max_celsius": max(heat, default=None),
        "power_watts": total(row.power_watts for row, _ in items),
        "power_limit_watts": total(
            row.power_limit_watts if row.power_watts is not None else None for row, _ in items
        ),
        "power_limit_ratio": ratio(
            [row.power_watts for row, _ in items], [row.power_limit_watts for row, _ in items]
        ),
        "pods": len({(pod.cluster, pod.node, pod.namespace, pod.pod) for pod in pods}),
        "containers": len({(p.cluster, p.node, p.namespace, p.pod, p.container) for p in pods}),
        "processes": total(own(lambda d: d.processes, lambda p: p.processes)) or 0,
    }


@settings(max_examples=80)
@given(
    fleets(),
    st.lists(st.sampled_from(GROUP_FIELDS), unique=True, max_size=3),
    st.none() | st.sampled_from([["red"], ["red", "blue"], ["green"]]),
)
def test_sums_equal_sums_made_row_by_row(
    store: FleetStore, group_by: list[str], spaces: list[str] | None
) -> None:
    wanted = plainly(store, group_by, spaces)
    where = () if spaces is None else (Condition("namespace", "in", spaces),)
    rows = summarize(store, where, group_by)
    found = {tuple(getattr(row, field) for field in group_by): row for row in rows}
    assert list(found) == sorted(wanted, key=lambda key: [(text is None, text or "") for text in key])
    for key, sums in wanted.items():
        assert {name: getattr(found[key], name) for name in sums} == sums
    for row in rows:
        assert row.devices_idle <= row.devices_allocated <= row.devices
        assert all(getattr(row, field) is None for field in set(GROUP_FIELDS) - set(group_by))


def test_without_devices_sums_are_zero_and_means_are_absent() -> None:
    store = store_of(clock=Clock())
    assert summarize(store) == [
        SummaryRow(
            nodes=0,
            devices=0,
            devices_lost=0,
            devices_unhealthy=0,
            devices_stale=0,
            devices_allocated=0,
            devices_idle=0,
            memory_total_bytes=0,
            memory_used_bytes=0,
            memory_used_ratio=None,
            utilization_ratio=None,
            temperature_celsius=None,
            temperature_max_celsius=None,
            power_watts=0,
            power_limit_watts=0,
            power_limit_ratio=None,
            pods=0,
            containers=0,
            processes=0,
        )
    ]
    for field in GROUP_FIELDS:
        assert summarize(store, (), (field,)) == []
    assert namespaces(store) == []


@pytest.fixture
def store() -> FleetStore:
    clock = Clock()
    store = store_of("berlin", "oslo", clock=clock)
    shared, alone = device("shared", utilization_ratio=0.75), device("alone", health="warning")
    usages = [
        usage("red/x", shared, allocated=1, idle_seconds=5000.0, utilization_ratio=0.25, memory_used_bytes=1),
        usage("blue/y", shared, allocated=1, idle_seconds=10.0, utilization_ratio=0.5, memory_used_bytes=2),
    ]
    store.take("berlin", report("n1", snapshot([shared, alone], usages=usages), clock.now))
    clock.advance(30)
    store.take("oslo", report("n1", [device("far")], clock.now))
    store.tick(clock.advance(30))
    return store


def test_a_shared_device_counts_in_each_namespace_with_its_use(store: FleetStore) -> None:
    rows = {row.namespace: row for row in summarize(store, (), ("namespace",))}
    assert {
        name: (row.devices, row.utilization_ratio, row.memory_used_bytes) for name, row in rows.items()
    } == {
        "red": (1, 0.25, 1),
        "blue": (1, 0.5, 2),
    }
    assert {name: row.devices_idle for name, row in rows.items()} == {"red": 0.5, "blue": 0}
    [whole] = summarize(store)
    assert (whole.devices, whole.devices_allocated, whole.devices_idle, whole.pods) == (3, 1, 0.5, 2)


def test_a_device_shared_by_selected_namespaces_counts_once_with_their_use() -> None:
    store = store_of("berlin", clock=(clock := Clock()))
    shared = device("shared", power_watts=300.0)
    usages = [
        usage(pod, shared, utilization_ratio=ratio, memory_used_bytes=GIB, processes=1)
        for pod, ratio in (("red/x", 0.25), ("blue/y", 0.5), ("green/z", 0.125))
    ]
    store.take("berlin", report("n1", snapshot([shared], usages=usages), clock.now))
    both = [Condition("namespace", "in", ["red", "blue"])]
    for group_by in ((), ("cluster",)):
        [row] = summarize(store, both, group_by)
        assert (row.devices, row.power_watts, row.pods) == (1, 300.0, 2)
        assert (row.utilization_ratio, row.memory_used_bytes, row.processes) == (0.75, 2 * GIB, 2)
    assert [row.devices for row in summarize(store, both, ("namespace",))] == [1, 1]


def test_the_idle_time_is_a_parameter(store: FleetStore) -> None:
    [row] = summarize(store, idle_after_seconds=5)
    assert row.devices_idle == 1


def test_stale_devices_are_counted_and_listed_as_stale(store: FleetStore) -> None:
    rows = {row.cluster: (row.devices, row.devices_stale) for row in summarize(store, (), ("cluster",))}
    assert rows == {"berlin": (2, 2), "oslo": (1, 0)}


@pytest.mark.parametrize(
    ("where", "devices", "pods"),
    [
        ([Condition("cluster", "in", ["berlin"])], 2, 2),
        ([Condition("health", "=", "warning")], 1, 0),
        ([Condition("namespace", "=", "red")], 1, 1),
        ([Condition("namespace", "=", "red"), Condition("health", "=", "warning")], 0, 0),
        ([Condition("cluster", "=", "nowhere")], 0, 0),
    ],
)
def test_sums_cover_only_the_selected_devices(
    store: FleetStore, where: list[Condition], devices: int, pods: int
) -> None:
    [row] = summarize(store, where)
    assert (row.devices, row.pods) == (devices, pods)


def test_a_namespace_has_one_row_per_cluster(store: FleetStore) -> None:
    rows = [(row.cluster, row.namespace, row.pods, row.containers, row.devices) for row in namespaces(store)]
    assert rows == [("berlin", "blue", 1, 1, 1), ("berlin", "red", 1, 1, 1)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: summarize(store, (), ("colour",)),
        lambda store: summarize(store, [Condition("colour", "=", "red")]),
    ],
)
def test_the_error_names_an_unknown_field(store: FleetStore, ask: Callable[[FleetStore], object]) -> None:
    with pytest.raises(QueryError, match="'colour'"):
        ask(store)


def test_many_groups_are_grouped_by_sorting(store: FleetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    every = ("cluster", "node", "health", "vendor")
    before = summarize(store, (), every)
    monkeypatch.setattr("accelscope.fleet.store.summary._DENSE_LIMIT", 1)
    assert summarize(store, (), every) == before
    assert store.devices.select(RowQuery()).total == 3


def test_a_sum_beyond_64_bits_is_not_negative() -> None:
    store = store_of("berlin", clock=(clock := Clock()))
    vast = [device(str(number), memory_total_bytes=2**61, memory_used_bytes=2**70) for number in range(8)]
    store.take("berlin", report("n1", vast, clock.now))
    [row] = summarize(store)
    assert row.memory_total_bytes == row.memory_used_bytes == 2**62
    shown = store.devices.rows(store.devices.select(RowQuery(limit=9)).positions)
    assert {(row.memory_total_bytes, row.memory_used_bytes) for row in shown} == {(2**61, None)}


def test_sums_of_power_and_limit_are_over_the_same_devices() -> None:
    """Otherwise a fleet of NPUs without limits and a few GPUs with them shows 18.7 kW of 10.4 kW."""
    store = store_of("a", clock=Clock())
    devices = [
        device("limited", power_watts=300.0, power_limit_watts=700.0),
        device("silent", power_limit_watts=700.0),
        device("unlimited", vendor=Vendor("ascend"), power_watts=2000.0),
    ]
    store.take("a", report("n", devices, 1_000_000.0))
    [whole] = summarize(store)
    assert (whole.power_watts, whole.power_limit_watts) == (2300.0, 700.0)
    assert whole.power_limit_ratio == pytest.approx(300 / 700)
    [without] = summarize(store, (Condition("vendor", "=", "ascend"),))
    assert (without.power_watts, without.power_limit_watts, without.power_limit_ratio) == (2000.0, None, None)


def test_the_memory_ratio_is_over_devices_that_report_both_values() -> None:
    store = store_of("a", clock=Clock())
    devices = [
        device("both", memory_used_bytes=20 * GIB, memory_total_bytes=80 * GIB),
        device("used", memory_used_bytes=70 * GIB),
        device("total", memory_total_bytes=10 * GIB),
    ]
    store.take("a", report("n", devices, 1_000_000.0))
    [whole] = summarize(store)
    assert (whole.memory_used_bytes, whole.memory_total_bytes) == (90 * GIB, 90 * GIB)
    assert whole.memory_used_ratio == 0.25


def test_a_summary_has_no_sum_of_lifetime_energy() -> None:
    assert "energy_joules" not in SummaryRow.__struct_fields__
