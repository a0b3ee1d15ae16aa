"""Events and changes for subscribers."""

import asyncio
from collections import Counter
from typing import Any, Literal

import pytest
from tests.fleet.loop import run
from tests.fleet.store.nodes import Clock, device, report, snapshot, store_of, usage

from accelscope.fleet.rows import ClusterView, NodeFailure, NodeUnchanged, SourceKind
from accelscope.fleet.store.events import EventKind, EventLog, Severity, StoreChange
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.query import RowQuery


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> FleetStore:
    return store_of("berlin", clock=clock)


def recorded(store: FleetStore) -> list[tuple[EventKind, Severity, str]]:
    return [(event.kind, event.severity, event.text) for event in store.events.after(0)]


@pytest.mark.parametrize(
    ("before", "after", "kind", "severity"),
    [
        ("ok", "warning", EventKind.DEVICE_WORSE, Severity.WARNING),
        ("warning", "critical", EventKind.DEVICE_WORSE, Severity.CRITICAL),
        ("critical", "warning", EventKind.DEVICE_BETTER, Severity.INFO),
        ("warning", "ok", EventKind.DEVICE_BETTER, Severity.INFO),
        ("ok", "lost", EventKind.DEVICE_LOST, Severity.CRITICAL),
        ("unknown", "lost", EventKind.DEVICE_LOST, Severity.CRITICAL),
        ("lost", "ok", EventKind.DEVICE_BACK, Severity.INFO),
        ("lost", "unknown", EventKind.DEVICE_BACK, Severity.INFO),
        ("ok", "unknown", None, None),
        ("unknown", "warning", None, None),
        ("ok", "ok", None, None),
    ],
)
def test_each_change_of_a_devices_health_is_one_event(
    store: FleetStore,
    clock: Clock,
    before: str,
    after: str,
    kind: EventKind | None,
    severity: Severity | None,
) -> None:
    for health in (before, before, after, after):
        store.take("berlin", report("n1", [device("a", health=health)], clock.advance(1)))
    events = store.events.after(0)
    assert [(event.kind, event.severity) for event in events] == ([(kind, severity)] if kind else [])
    for event in events:
        assert (event.cluster, event.node, event.device) == ("berlin", "n1", "nvidia:a")
        assert event.text == f"nvidia:a went from {before} to {after}"
        assert event.at == 1_000_003


def test_new_and_missing_devices_are_events_except_the_first_ones(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device("a"), device("b")], clock.now))
    store.take("berlin", report("n1", [device("b"), device("c")], clock.now))
    assert recorded(store) == [
        (EventKind.DEVICE_NEW, Severity.INFO, "nvidia:c appeared"),
        (EventKind.DEVICE_GONE, Severity.WARNING, "nvidia:a is no longer reported"),
    ]


def test_a_source_that_reports_fewer_devices_is_not_a_loss(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device("a"), device("b")], clock.now))
    clock.advance(60)
    store.take("berlin", report("n1", [device("a", health="unknown")], clock.now, SourceKind.EXEC))
    assert recorded(store) == []


def test_an_unreachable_cluster_is_one_event_without_events_of_its_nodes(
    store: FleetStore, clock: Clock
) -> None:
    store.take("berlin", report("n1", [device()], clock.now))
    for _ in range(2):
        store.describe(ClusterView(id="berlin", reachable=False, reason="refused", text="token revoked"))
        store.tick(clock.advance(60))
    store.describe(ClusterView(id="berlin", reachable=True))
    store.take("berlin", report("n1", [device()], clock.now))
    assert recorded(store) == [
        (EventKind.CLUSTER_UNREACHABLE, Severity.CRITICAL, "berlin is unreachable: token revoked"),
        (EventKind.CLUSTER_BACK, Severity.INFO, "berlin is reachable again"),
    ]


def test_a_flapping_node_has_an_event_each_time(store: FleetStore, clock: Clock) -> None:
    for _ in range(3):
        store.take("berlin", report("n1", [device()], clock.now))
        store.tick(clock.advance(60))
        store.tick(clock.advance(1))
    assert [kind for kind, _, _ in recorded(store)] == [
        EventKind.NODE_STALE,
        EventKind.NODE_BACK,
        EventKind.NODE_STALE,
        EventKind.NODE_BACK,
        EventKind.NODE_STALE,
    ]


def test_the_log_is_bounded_and_its_numbers_grow() -> None:
    log = EventLog(limit=3)
    assert (log.last_id, log.after(0)) == (0, [])
    for number in range(5):
        log.add(EventKind.NODE_BACK, Severity.INFO, str(number), at=0.0, cluster="berlin")
    assert [event.id for event in log.after(0)] == [3, 4, 5]
    assert [event.id for event in log.after(4)] == [5]
    assert [event.id for event in log.after(99)] == []
    assert (log.first_id, log.last_id, len(log)) == (3, 5, 3)


def test_first_and_last_ids_of_clusters_are_independent_of_others() -> None:
    log = EventLog(limit=4)
    for cluster in ("oslo", "berlin", "oslo", "berlin", "berlin", "berlin"):
        log.add(EventKind.NODE_BACK, Severity.INFO, "", at=0.0, cluster=cluster)
    assert [event.id for event in log.after(0)] == [1, 3, 5, 6]
    assert (log.first_id_of(None), log.last_id_of(None)) == (5, 6)
    assert (log.first_id_of({"oslo"}), log.last_id_of({"oslo"})) == (1, 3)
    assert (log.first_id_of({"berlin"}), log.last_id_of({"berlin"})) == (5, 6)
    assert (log.first_id_of({"rome"}), log.last_id_of({"rome"})) == (1, 0)
    assert [log.last_id_of({"oslo"}, until=until) for until in (0, 1, 2, 3, 4)] == [0, 1, 1, 3, 3]


def test_a_storm_in_one_cluster_displaces_only_its_own_events() -> None:
    log = EventLog(limit=10)

    def happen(cluster: str, times: int) -> None:
        for _ in range(times):
            log.add(EventKind.NODE_BACK, Severity.INFO, "", at=0.0, cluster=cluster)

    happen("oslo", 2)
    happen("berlin", 50)
    happen("rome", 1)
    assert [(event.id, event.cluster) for event in log.after(0)] == [
        (1, "oslo"),
        (2, "oslo"),
        *((number, "berlin") for number in range(46, 53)),
        (53, "rome"),
    ]
    assert [event.id for event in log.after(50)] == [51, 52, 53]
    assert (log.first_id, log.last_id, len(log)) == (46, 53, 10)  # 3 to 45 are missing
    happen("rome", 50)
    assert Counter(event.cluster for event in log.after(0)) == {"oslo": 2, "berlin": 4, "rome": 4}
    for number in range(40):
        happen(f"c{number}", 1)
    assert len(log) == 10
    assert [event.id for event in log.after(0)] == sorted(event.id for event in log.after(0))
    assert log.after(0)[-1].id == log.last_id


@pytest.mark.parametrize("kind", ["device", "pod"])
def test_an_anomaly_stays_in_rows_until_it_is_cleared(
    store: FleetStore, clock: Clock, kind: Literal["device", "pod"]
) -> None:
    shown = snapshot([device()], usages=[usage("team/job", device())])
    key = ("berlin", "n1", "nvidia:a") if kind == "device" else ("berlin", "team", "job")
    table = store.devices if kind == "device" else store.pods

    def unusual() -> list[str | None]:
        return [row.unusual for row in table.rows(table.positions())]

    store.take("berlin", report("n1", shown, clock.now))
    store.set_unusual(kind, {key: "hotter than usual", ("berlin", "no", "such"): "x"})
    assert unusual() == ["hotter than usual"]
    store.take("berlin", report("n1", shown, clock.now))
    assert unusual() == ["hotter than usual"]
    store.set_unusual(kind, {key: "much hotter than usual"})
    assert unusual() == ["much hotter than usual"]
    generation = store.generation
    store.set_unusual(kind, {key: "much hotter than usual"})
    assert store.generation == generation
    store.set_unusual(kind, {key: None})
    store.take("berlin", report("n1", shown, clock.now))
    assert unusual() == [None]
    assert [kind for kind, _, _ in recorded(store)] == [EventKind.UNUSUAL_BEGAN, EventKind.UNUSUAL_ENDED]


def test_an_anomaly_is_removed_with_its_device(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device("a")], clock.now))
    store.set_unusual("device", {("berlin", "n1", "nvidia:a"): "hot"})
    store.take("berlin", report("n1", [device("b")], clock.now))
    store.set_unusual("device", {})
    store.take("berlin", report("n1", [device("a")], clock.now))
    [row] = store.devices.rows(store.devices.positions())
    assert row.unusual is None


def test_the_generation_grows_when_a_response_would_change(store: FleetStore, clock: Clock) -> None:
    seen = [store.generation]

    def grew() -> bool:
        seen.append(store.generation)
        return seen[-1] > seen[-2]

    failed = NodeFailure(node="n1", source=SourceKind.AGENTS, reason="timeout", text="no answer")
    store.take("berlin", report("n1", [device()], clock.now))
    assert grew()
    store.take("berlin", NodeUnchanged(node="n1", source=SourceKind.AGENTS))
    assert not grew()
    store.take("berlin", failed)
    assert grew()
    store.take("berlin", failed)
    assert not grew()
    store.tick(clock.advance(10))
    assert not grew()
    store.tick(clock.advance(60))
    assert grew()
    store.describe(ClusterView(id="berlin", reachable=False))
    assert grew()
    store.describe(ClusterView(id="berlin", reachable=False))
    assert not grew()


def test_subscribers_get_changes_once_a_second(store: FleetStore, clock: Clock) -> None:
    async def follow() -> list[StoreChange]:
        subscription = store.subscribe()
        changes: list[StoreChange] = []
        waiting = asyncio.ensure_future(anext(subscription))
        store.tick(clock.now)
        changes.append(await waiting)  # the declaration of the cluster
        store.take("berlin", report("n1", [device()], clock.now))
        store.take("berlin", report("n2", [device()], clock.now))
        store.take("berlin", report("n1", [device(health="lost")], clock.now))
        store.tick(clock.advance(0.5))
        store.tick(clock.advance(0.5))
        changes.append(await anext(subscription))
        store.tick(clock.advance(1))  # no change
        store.describe(ClusterView(id="berlin", reachable=False))
        store.tick(clock.advance(1))
        changes.append(await anext(subscription))
        subscription.close()
        return changes + [change async for change in subscription]

    first, second, third = run(follow())
    assert first.clusters == ("berlin",)
    assert second.nodes == (("berlin", "n1"), ("berlin", "n2"))
    assert [event.kind for event in second.events] == [EventKind.DEVICE_LOST]
    assert (third.clusters, third.nodes) == (("berlin",), ())
    assert third.generation == store.generation > second.generation
    assert not any(change.resync for change in (first, second, third))


def test_a_slow_subscriber_gets_a_resync(store: FleetStore, clock: Clock) -> None:
    async def follow() -> StoreChange:
        subscription = store.subscribe()
        for _ in range(9):
            store.take("berlin", report("n1", [device()], clock.now))
            store.tick(clock.advance(1))
        change = await anext(subscription)
        subscription.close()
        subscription.close()
        return change

    change = run(follow())
    assert change.resync
    assert change.generation == store.generation


def test_closing_a_subscription_ends_the_wait(store: FleetStore) -> None:
    async def follow() -> list[StoreChange]:
        subscription = store.subscribe()
        asyncio.get_running_loop().call_soon(subscription.close)
        return [change async for change in subscription]

    assert run(follow()) == []


def test_rows_can_be_selected_by_anomalies(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device("a"), device("b")], clock.now))
    store.set_unusual("device", {("berlin", "n1", "nvidia:b"): "hot"})
    found = store.devices.select(RowQuery(search="hot"))
    assert [row.id for row in store.devices.rows(found.positions)] == ["nvidia:b"]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"index": 5, "model": "NVIDIA H100"}, "NVIDIA H100 #5"),
        ({"index": 0}, "nvidia #0"),
        ({"model": "NVIDIA H100"}, "nvidia:a"),
    ],
)
def test_events_name_devices_by_model_and_index(
    store: FleetStore, clock: Clock, fields: dict[str, Any], name: str
) -> None:
    store.take("berlin", report("n1", [device("a", **fields)], clock.now))
    store.take("berlin", report("n1", [device("a", health="warning", **fields)], clock.now))
    store.set_unusual("device", {("berlin", "n1", "nvidia:a"): "runs hot"})
    assert [text for _, _, text in recorded(store)] == [
        f"{name} went from ok to warning",
        f"{name}: runs hot",
    ]
