"""The states of a node: fresh, stale, removed, incompatible and unread."""

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.fleet.store.nodes import Clock, KubernetesNode, device, process, report, snapshot, store_of, usage

from accelscope.fleet.rows import (
    ClusterView,
    DeviceRow,
    NodeFailure,
    NodeReport,
    NodeRow,
    NodeUnchanged,
    SourceKind,
)
from accelscope.fleet.store.events import EventKind
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.node_rows import NodeRecord
from accelscope.fleet.store.query import RowQuery
from accelscope.model import Vendor
from accelscope.model.wire import snapshot_document

AGENTS, EXEC, PROMETHEUS = SourceKind.AGENTS, SourceKind.EXEC, SourceKind.PROMETHEUS
ANNOTATIONS = SourceKind.ANNOTATIONS


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> FleetStore:
    return store_of("berlin", clock=clock)


def nodes(store: FleetStore) -> dict[str, NodeRow]:
    return {row.node: row for row in store.nodes.rows(store.nodes.select(RowQuery(limit=1000)).positions)}


def devices(store: FleetStore) -> dict[str, DeviceRow]:
    return {row.id: row for row in store.devices.rows(store.devices.select(RowQuery(limit=1000)).positions)}


def nodes_of(store: FleetStore, cluster: str) -> dict[str, NodeRow]:
    rows = store.nodes.rows(store.nodes.select(RowQuery(limit=1000)).positions)
    return {row.node: row for row in rows if row.cluster == cluster}


def kinds(store: FleetStore) -> list[EventKind]:
    return [event.kind for event in store.events.after(0)]


def failure(node: str, source: SourceKind = AGENTS, *, incompatible: bool = False) -> NodeFailure:
    text = "agent 9.0 speaks schema 2.0, this reads 1.1" if incompatible else "no response within 5 s"
    return NodeFailure(node=node, source=source, reason="timeout", text=text, incompatible=incompatible)


def test_a_reading_is_fresh_then_stale_then_removed(store: FleetStore, clock: Clock) -> None:
    d = device("a")
    shown = snapshot([d], usages=[usage("team/job", d)], processes=[process(7, d)])
    store.take("berlin", report("n1", shown, clock.now))
    clock.advance(59)
    store.tick()
    assert nodes(store)["n1"].state == devices(store)["nvidia:a"].state == "fresh"
    assert nodes(store)["n1"].age_seconds == 59
    clock.advance(1)
    store.tick()
    assert nodes(store)["n1"].state == devices(store)["nvidia:a"].state == "stale"
    assert nodes(store)["n1"].reason == "no new reading"
    assert [row.state for row in store.pods.rows(store.pods.positions())] == ["stale"]
    assert [row.state for row in store.processes.rows(store.processes.positions())] == ["stale"]
    clock.advance(839)
    store.tick()
    assert store.clusters["berlin"].devices == 1
    clock.advance(1)
    store.tick()
    assert not nodes(store)
    assert len(store.devices) == len(store.pods) == len(store.processes) == 0
    assert (store.clusters["berlin"].nodes, store.clusters["berlin"].devices) == (0, 0)
    assert kinds(store) == [EventKind.NODE_STALE, EventKind.NODE_FORGOTTEN]


@pytest.mark.parametrize(
    ("interval", "stale_after"), [(None, 60), (5.0, 60), (20.0, 60), (60.0, 180), (1e9, 900)]
)
def test_a_reading_is_stale_after_three_intervals_but_not_after_its_removal(
    interval: float | None, stale_after: float, clock: Clock
) -> None:
    store = store_of("berlin", clock=clock)
    store.take("berlin", report("n1", snapshot([device()], interval_seconds=interval), clock.now))
    store.tick(clock.now + stale_after - 1)
    assert nodes(store)["n1"].state == "fresh"
    store.tick(clock.now + stale_after)
    assert stale_after == 900 or nodes(store)["n1"].state == "stale"


def test_an_unchanged_reading_continues_to_age(store: FleetStore, clock: Clock) -> None:
    """Its collection may hang while its server responds."""
    store.take("berlin", report("n1", [device()], clock.now))
    for _ in range(30):
        clock.advance(2)
        store.take("berlin", NodeUnchanged(node="n1", source=AGENTS))
        store.tick()
    assert nodes(store)["n1"].state == "stale"
    clock.advance(900)
    store.tick()
    store.take("berlin", NodeUnchanged(node="n1", source=AGENTS))
    assert nodes(store)["n1"].state == "unread"
    assert nodes(store)["n1"].reason == "its last reading has expired"


def test_a_reading_that_has_expired_is_not_shown(store: FleetStore, clock: Clock) -> None:
    for _ in range(3):
        store.take("berlin", report("n1", [device()], clock.now - 3600))
        store.tick()
        clock.advance(10)
    assert nodes(store)["n1"].state == "unread"
    assert not devices(store)
    assert kinds(store) == []


def test_a_clock_that_is_ahead_does_not_keep_a_node_fresh(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device()], clock.now + 5000))
    assert nodes(store)["n1"].age_seconds == 0
    store.tick(clock.advance(60))
    assert nodes(store)["n1"].state == "stale"


def test_a_failure_is_reported_beside_the_last_reading(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device()], clock.now))
    store.take("berlin", failure("n1"))
    row = nodes(store)["n1"]
    assert (row.state, row.reason, row.devices) == ("fresh", "no response within 5 s", 1)
    store.take("berlin", NodeUnchanged(node="n1", source=AGENTS))
    assert nodes(store)["n1"].reason is None
    store.take("berlin", failure("n1"))
    store.tick(clock.advance(60))
    row = nodes(store)["n1"]
    assert (row.state, row.reason, row.devices) == ("stale", "no response within 5 s", 1)
    store.take("berlin", report("n1", [device()], clock.now))
    row = nodes(store)["n1"]
    assert (row.state, row.reason) == ("fresh", None)
    assert kinds(store) == [EventKind.NODE_STALE, EventKind.NODE_BACK]


def test_a_node_that_never_responded_is_listed_until_it_is_removed(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", failure("n1"))
    row = nodes(store)["n1"]
    assert (row.state, row.reason, row.source, row.taken_at) == (
        "unread",
        "no response within 5 s",
        None,
        None,
    )
    store.tick(clock.advance(899))
    assert "n1" in nodes(store)
    store.tick(clock.advance(1))
    assert not nodes(store)
    assert kinds(store) == []


def test_an_incompatible_agent_removes_its_devices(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device()], clock.now))
    for _ in range(2):
        store.take("berlin", failure("n1", incompatible=True))
    row = nodes(store)["n1"]
    assert (row.state, row.reason) == ("incompatible", "agent 9.0 speaks schema 2.0, this reads 1.1")
    assert not devices(store)
    assert store.snapshot("berlin", "n1") is None
    store.take("berlin", report("n1", [device()], clock.now))
    assert nodes(store)["n1"].state == "fresh"
    assert kinds(store) == [EventKind.NODE_INCOMPATIBLE, EventKind.NODE_BACK]


def test_nodes_that_should_have_been_read_are_shown(store: FleetStore, clock: Clock) -> None:
    with_devices = KubernetesNode({"nvidia.com/gpu": 8}, {"zone": "a"})
    store.node_objects("berlin", {"n1": with_devices, "cpu": KubernetesNode(labels={"zone": "b"})})
    store.tick()
    assert {name: (row.state, row.reason) for name, row in nodes(store).items()} == {
        "n1": ("unread", "no source reported it")
    }
    store.take("berlin", report("n1", [device()], clock.now))
    store.take("berlin", report("cpu", [], clock.now))
    assert {name: row.state for name, row in nodes(store).items()} == {"n1": "fresh", "cpu": "fresh"}
    clock.advance(900)
    while store.tick():
        pass
    assert {name: row.state for name, row in nodes(store).items()} == {"n1": "unread"}
    store.node_objects("berlin", {})
    store.tick()
    assert not nodes(store)


def test_labels_come_from_the_node_object_or_from_the_agent(store: FleetStore, clock: Clock) -> None:
    shown = replace(snapshot([device()]), node_labels=(("zone", "from the agent"),))
    store.take("berlin", report("n1", shown, clock.now))
    assert store.labels("berlin", "n1") == {"zone": "from the agent"}
    store.node_objects("berlin", {"n1": KubernetesNode(labels={"zone": "a"})})
    assert store.labels("berlin", "n1") == {"zone": "a"}
    assert store.labels("berlin", "nowhere") == store.labels("nowhere", "n1") == {}


def test_a_changed_label_increases_the_generation(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device()], clock.now))
    store.node_objects("berlin", {"n1": KubernetesNode(labels={"zone": "a"})})
    before = store.generation
    store.node_objects("berlin", {"n1": KubernetesNode(labels={"zone": "a"})})
    assert store.generation == before, "an equal Node object is not a change"
    store.node_objects("berlin", {"n1": KubernetesNode(labels={"zone": "b"})})
    assert store.generation > before


def test_the_remark_of_a_reading_is_the_reason_of_a_fresh_node(store: FleetStore, clock: Clock) -> None:
    lacking = replace(report("n1", [device()], clock.now), remark="omitted: power_watts")
    store.take("berlin", lacking)
    assert (nodes(store)["n1"].state, nodes(store)["n1"].reason) == ("fresh", "omitted: power_watts")
    store.take("berlin", report("n1", [device()], clock.advance(5)))
    assert nodes(store)["n1"].reason is None


@pytest.mark.parametrize(("kind", "limit"), [("devices", 3), ("processes", 2)])
def test_rows_of_a_cluster_are_limited(clock: Clock, kind: str, limit: int) -> None:
    store = FleetStore(devices_limit=3, processes_limit=2, clock=clock)
    store.declare([ClusterView(id="berlin"), ClusterView(id="oslo")])
    pair = [device("a"), device("b")]
    running = [process(1, pair[0]), process(2, pair[0])] if kind == "processes" else []
    shown = snapshot(pair if kind == "devices" else pair[:1], processes=running)
    for _ in range(2):  # a reading that replaces itself counts once
        store.take("berlin", report("n1", shown, clock.now))
    store.take("oslo", report("n1", shown, clock.now))
    store.take("berlin", report("n2", shown, clock.now))
    refused = nodes_of(store, "berlin")["n2"]
    assert (refused.state, refused.devices) == ("unread", 0)
    assert refused.reason == f"its cluster exceeds the limit of {limit} {kind}"
    assert {row.state for row in (*nodes_of(store, "oslo").values(), nodes_of(store, "berlin")["n1"])} == {
        "fresh"
    }
    store.take("berlin", report("n1", [], clock.now))  # frees its rows
    store.take("berlin", report("n2", shown, clock.now))
    assert nodes_of(store, "berlin")["n2"].state == "fresh"


def test_a_node_that_is_read_after_its_object_was_listed_has_labels(store: FleetStore, clock: Clock) -> None:
    """A Node object without allocatable devices, for example without a device plugin."""
    store.node_objects("berlin", {"n1": KubernetesNode(labels={"zone": "a"})})
    store.tick()
    assert not nodes(store)
    store.take("berlin", report("n1", [device()], clock.now))
    assert store.labels("berlin", "n1") == {"zone": "a"}
    store.node_objects("berlin", {})
    assert store.labels("berlin", "n1") == {}


def test_a_higher_source_counts_while_it_is_fresh(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device(utilization_ratio=0.1)], clock.now, PROMETHEUS))
    assert devices(store)["nvidia:a"].source == "prometheus"
    store.take("berlin", report("n1", [device(utilization_ratio=0.2)], clock.now, AGENTS))
    store.take("berlin", report("n1", [device(utilization_ratio=0.3)], clock.now, EXEC))
    row = devices(store)["nvidia:a"]
    assert (row.source, row.utilization_ratio, nodes(store)["n1"].source) == ("agents", 0.2, "agents")
    clock.advance(50)
    store.take("berlin", report("n1", [device(utilization_ratio=0.4)], clock.now, EXEC))
    store.tick(clock.advance(10))
    row = devices(store)["nvidia:a"]
    assert (row.source, row.utilization_ratio, row.state) == ("exec", 0.4, "fresh")
    store.tick(clock.advance(60))
    row = devices(store)["nvidia:a"]
    assert (row.source, row.state) == ("agents", "stale")
    assert nodes(store)["n1"].state == "stale"
    store.take("berlin", report("n1", [device(utilization_ratio=0.5)], clock.now, EXEC))
    row = devices(store)["nvidia:a"]
    assert (row.source, row.state) == ("exec", "fresh")


def test_a_lower_source_does_not_take_over_when_all_sources_fail(store: FleetStore, clock: Clock) -> None:
    """When a cluster is unreachable, a rarely written annotation stays fresh for longer but is not newer."""
    store.take("berlin", report("n1", [device(utilization_ratio=0.2)], clock.now, AGENTS))
    seldom = snapshot([device(utilization_ratio=0.3)], interval_seconds=60.0)
    store.take("berlin", report("n1", seldom, clock.advance(5), ANNOTATIONS))
    store.tick(clock.advance(90))
    row = devices(store)["nvidia:a"]
    assert (row.source, row.utilization_ratio, row.state) == ("agents", 0.2, "stale")
    store.take("berlin", report("n1", seldom, clock.now, ANNOTATIONS))
    row = devices(store)["nvidia:a"]
    assert (row.source, row.utilization_ratio, row.state) == ("annotations", 0.3, "fresh")


def test_a_lower_source_adds_the_vendors_that_no_higher_one_reports(store: FleetStore, clock: Clock) -> None:
    gpu, npu = device("gpu"), device("npu", vendor=Vendor("ascend"))
    both = snapshot(
        [replace(gpu, model="by annotation"), npu],
        processes=[process(1, gpu), process(2, npu)],
        usages=[usage("team/a", gpu), usage("team/b", npu)],
    )
    store.take("berlin", report("n1", snapshot([gpu], processes=[process(3, gpu)]), clock.now))
    store.take("berlin", report("n1", both, clock.now - 5, SourceKind.ANNOTATIONS))
    assert {row.id: (row.source, row.model) for row in devices(store).values()} == {
        "nvidia:gpu": ("agents", None),
        "ascend:npu": ("annotations", None),
    }
    row = nodes(store)["n1"]
    assert (row.source, row.vendors, row.devices) == ("agents,annotations", "ascend,nvidia", 2)
    assert row.taken_at == clock.now
    assert {(p.pid, p.device) for p in store.processes.rows(store.processes.positions())} == {
        (3, "nvidia:gpu"),
        (2, "ascend:npu"),
    }
    whole = store.snapshot("berlin", "n1")
    assert whole is not None
    assert [(d.id, d.model) for d in whole.devices] == [("nvidia:gpu", None), ("ascend:npu", None)]
    assert [p.pid for p in whole.processes] == [3, 2]
    assert [u.pod for u in whole.pod_usages] == ["b"]
    store.tick(clock.advance(57))
    assert {row.id: row.state for row in devices(store).values()} == {
        "nvidia:gpu": "fresh",
        "ascend:npu": "stale",
    }
    assert nodes(store)["n1"].state == "fresh"


@pytest.mark.parametrize("packed", [True, False])
def test_the_whole_snapshot_is_kept(store: FleetStore, clock: Clock, packed: bool) -> None:
    d = device("a", architecture="not a column", mig_enabled=False)
    shown = snapshot([d], processes=[process(7, d)], usages=[usage("team/job", d)], taken_at=5.0)
    document = gzip.compress(json.dumps(snapshot_document(shown)).encode()) if packed else b""
    store.take(
        "berlin",
        NodeReport(node="n1", source=AGENTS, taken_at=clock.now, snapshot=shown, document=document),
    )
    assert store.snapshot("berlin", "n1") == replace(shown, node="n1", taken_at=clock.now)
    assert store.snapshot("berlin", "n2") is store.snapshot("oslo", "n1") is None


def test_only_the_device_that_its_agent_could_not_read_is_stale(store: FleetStore, clock: Clock) -> None:
    failed = [device("b", stale=True, read_at=80.0), device("c", stale=True)]
    shown = snapshot([device("a"), *failed], taken_at=100.0)
    store.take("berlin", report("n1", shown, clock.now))
    assert {row.id: (row.state, row.age_seconds) for row in devices(store).values()} == {
        "nvidia:a": ("fresh", 0),
        "nvidia:b": ("stale", 20),
        "nvidia:c": ("stale", None),  # it was never read
    }
    assert nodes(store)["n1"].state == "fresh"


def test_duplicates_in_a_reading_are_stored_once(store: FleetStore, clock: Clock) -> None:
    d = device("a")
    shown = snapshot(
        [d, d],
        processes=[process(7, d), process(7, d), process(8, device("elsewhere"))],
        usages=[usage("team/job", d), usage("team/job", d)],
    )
    store.take("berlin", report("n1", shown, clock.now))
    assert (len(store.devices), len(store.processes), len(store.pods)) == (1, 1, 1)


def test_removing_a_cluster_removes_its_rows(clock: Clock) -> None:
    store = store_of("berlin", "oslo", clock=clock)
    for cluster in ("berlin", "oslo"):
        store.take(cluster, report("n1", [device(cluster)], clock.now))
    store.declare([ClusterView(id="oslo")])
    assert set(devices(store)) == {"nvidia:oslo"}
    assert (len(store.devices), list(store.clusters)) == (1, ["oslo"])
    store.take("berlin", report("n1", [device("late")], clock.now))
    store.describe(ClusterView(id="berlin", reachable=False))
    store.node_objects("berlin", {"n1": KubernetesNode({"nvidia.com/gpu": 1})})
    store.tick()
    assert set(devices(store)) == {"nvidia:oslo"}
    assert kinds(store) == [EventKind.CLUSTER_LEFT]


def test_a_cluster_that_is_declared_again_starts_empty(store: FleetStore, clock: Clock) -> None:
    store.take("berlin", report("n1", [device("before")], clock.now))
    store.declare([])
    store.declare([ClusterView(id="berlin")])
    assert not devices(store)
    store.take("berlin", report("n1", [device("after")], clock.now))
    store.tick()
    assert set(devices(store)) == {"nvidia:after"}
    assert store.clusters["berlin"].devices == 1


def test_a_reloaded_list_changes_its_settings_and_keeps_readings(clock: Clock) -> None:
    store = FleetStore(clock=clock)
    store.declare([ClusterView(id="berlin")])
    store.describe(ClusterView(id="berlin", reachable=True, succeeded_at=clock.now - 5))
    store.take("berlin", report("n1", [device()], clock.now))
    store.declare([ClusterView(id="berlin", name="Berlin 1", simulated=True)])
    view = store.clusters["berlin"]
    assert (view.name, view.reachable, view.age_seconds) == ("Berlin 1", True, 5)
    assert (view.nodes, view.devices) == (1, 1)
    assert nodes(store)["n1"].simulated
    assert devices(store)["nvidia:a"].simulated
    store.take("berlin", report("n1", [device()], clock.now))
    assert devices(store)["nvidia:a"].simulated


def test_a_reloaded_list_increases_the_generation_only_of_changed_clusters(clock: Clock) -> None:
    store = FleetStore(clock=clock)
    store.declare([ClusterView(id="berlin"), ClusterView(id="oslo")])
    store.describe(ClusterView(id="berlin", reachable=True, succeeded_at=clock.now))

    def changed_by(*views: ClusterView) -> set[str]:
        ids = ("berlin", "oslo", "secret")
        before = {id_: store.generation_of({id_}) for id_ in ids}
        store.declare(views)
        return {id_ for id_ in ids if store.generation_of({id_}) != before[id_]}

    berlin, oslo, secret = (ClusterView(id=id_) for id_ in ("berlin", "oslo", "secret"))
    renamed = ClusterView(id="oslo", name="Oslo 1")
    assert changed_by(berlin, oslo) == set()
    assert changed_by(secret, berlin, oslo) == {"secret"}
    assert changed_by(secret, berlin, renamed) == {"oslo"}
    assert changed_by(berlin, renamed) == {"secret"}
    assert changed_by(renamed, berlin) == {"berlin"}, "lists of both show another order"


def test_an_error_in_one_node_does_not_block_others(
    store: FleetStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("n1", "n2"):
        store.take("berlin", report(name, [device(name)], clock.now))
    whole = store._writer.refresh

    def broken(record: NodeRecord, *arguments: Any, **options: Any) -> int:
        if record.node == "n1":
            raise RuntimeError("a fault")
        return whole(record, *arguments, **options)

    monkeypatch.setattr(store._writer, "refresh", broken)
    clock.advance(61)
    with pytest.raises(RuntimeError):
        store.tick()
    store.tick()
    assert nodes(store)["n2"].state == "stale"
    assert store.clusters["berlin"].devices == 2
    monkeypatch.undo()
    clock.advance(60)
    store.tick()
    assert nodes(store)["n1"].state == "stale"


def test_thousands_of_stale_nodes_are_processed_over_several_ticks(store: FleetStore, clock: Clock) -> None:
    for number in range(500):
        store.take("berlin", report(f"n{number}", [device(str(number))], clock.now))
    clock.advance(60)
    ticks = 1
    while store.tick():
        ticks += 1
    assert ticks > 1
    assert {row.state for row in nodes(store).values()} == {"stale"}
    store.declare([])
    assert len(store.nodes) == 0
    while store.tick():
        pass
    assert len(store.devices) == 0


def test_an_unread_node_lists_the_failure_of_each_source(store: FleetStore) -> None:
    expected = {AGENTS: "the agent's pod agent-a is not ready", EXEC: "pods/exec is forbidden"}
    for source, text in expected.items():
        store.take("berlin", NodeFailure(node="n1", source=source, reason="any", text=text))
    row = nodes(store)["n1"]
    assert row.state == "unread"
    assert row.reason == "agents: the agent's pod agent-a is not ready; exec: pods/exec is forbidden"


def test_the_remark_of_a_reading_is_listed_beside_a_failure(store: FleetStore, clock: Clock) -> None:
    cut = replace(report("n1", [device("a")], clock.now), remark="texts were cut: model")
    store.take("berlin", cut)
    assert nodes(store)["n1"].reason == "texts were cut: model"
    store.take("berlin", failure("n1"))
    assert nodes(store)["n1"].reason == "no response within 5 s; texts were cut: model"
