"""Which nodes need not be asked by commands, since an agent tells of them."""

from dataclasses import replace

from tests.fleet.store.nodes import Clock

from accelscope.fleet.refresh.cluster_run import AgentCoverage
from accelscope.fleet.rows import NodeFailure, NodeReport, NodeUnchanged, SourceKind
from accelscope.model import AgentState, Device, Snapshot, Vendor

AGENTS = SourceKind.AGENTS


def report(
    clock: Clock,
    *,
    vendor: Vendor = Vendor("nvidia"),
    source: SourceKind = AGENTS,
    age: float = 0.0,
    interval_seconds: float | None = None,
) -> NodeReport:
    shown = Snapshot(
        node="n1",
        taken_at=0.0,
        agent=AgentState(version="1", started_at=0.0),
        interval_seconds=interval_seconds,
        devices=(Device(vendor=vendor, id="a"),),
    )
    return NodeReport(node="n1", source=source, taken_at=clock.now - age, snapshot=shown)


def test_an_agent_whose_collection_hangs_covers_its_node_no_longer_than_its_reading_is_fresh() -> None:
    clock = Clock()
    cover = AgentCoverage(60.0, clock=clock)
    cover.hear(report(clock, age=20.0))
    for _ in range(3):
        assert cover("n1")
        clock.now += 13
        cover.hear(NodeUnchanged(node="n1", source=AGENTS))
    clock.now += 2
    assert not cover("n1")
    cover.hear(report(clock))
    assert cover("n1")


def test_an_agent_that_reads_seldom_has_three_of_its_intervals() -> None:
    clock = Clock()
    cover = AgentCoverage(60.0, clock=clock)
    cover.hear(report(clock, interval_seconds=100.0))
    clock.now += 299
    assert cover("n1")
    clock.now += 2
    assert not cover("n1")


def test_nodes_that_have_left_are_forgotten() -> None:
    clock = Clock()
    cover = AgentCoverage(60.0, clock=clock)
    for number in range(100):
        cover.hear(replace(report(clock), node=f"n{number}"))
        clock.now += 61
    assert len(cover._until) <= 2


def test_only_agents_that_show_gpus_cover() -> None:
    clock = Clock()
    cover = AgentCoverage(60.0, clock=clock)
    cover.hear(report(clock, source=SourceKind.ANNOTATIONS))
    assert not cover("n1")
    cover.hear(report(clock))
    cover.hear(NodeFailure(node="n1", source=AGENTS, reason="timeout", text="it took too long"))
    assert cover("n1")
    cover.hear(
        NodeFailure(node="n1", source=AGENTS, reason="incompatible", text="schema 2", incompatible=True)
    )
    assert not cover("n1")
    cover.hear(report(clock))
    cover.hear(report(clock, vendor=Vendor("amd")))
    assert not cover("n1")
