"""Nodes that an agent reports need no commands in driver pods."""

from dataclasses import replace

from tests.fleet.store.nodes import Clock

from accelscope.fleet.refresh import AgentCoverage
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


def test_coverage_ends_with_the_age_of_the_reading_although_the_agent_responds() -> None:
    clock = Clock()
    coverage = AgentCoverage(60.0, clock=clock)
    coverage.update(report(clock, age=20.0))
    for _ in range(3):
        assert coverage("n1")
        clock.now += 13
        coverage.update(NodeUnchanged(node="n1", source=AGENTS))
    clock.now += 2
    assert not coverage("n1")
    coverage.update(report(clock))
    assert coverage("n1")


def test_coverage_lasts_three_intervals_of_a_slow_agent() -> None:
    clock = Clock()
    coverage = AgentCoverage(60.0, clock=clock)
    coverage.update(report(clock, interval_seconds=100.0))
    clock.now += 299
    assert coverage("n1")
    clock.now += 2
    assert not coverage("n1")


def test_removed_nodes_are_dropped() -> None:
    clock = Clock()
    coverage = AgentCoverage(60.0, clock=clock)
    for number in range(100):
        coverage.update(replace(report(clock), node=f"n{number}"))
        clock.now += 61
    assert len(coverage._until) <= 2


def test_only_agents_that_report_gpus_cover_a_node() -> None:
    clock = Clock()
    coverage = AgentCoverage(60.0, clock=clock)
    coverage.update(report(clock, source=SourceKind.ANNOTATIONS))
    assert not coverage("n1")
    coverage.update(report(clock))
    coverage.update(NodeFailure(node="n1", source=AGENTS, reason="timeout", text="it took too long"))
    assert coverage("n1")
    coverage.update(
        NodeFailure(node="n1", source=AGENTS, reason="incompatible", text="schema 2", incompatible=True)
    )
    assert not coverage("n1")
    coverage.update(report(clock))
    coverage.update(report(clock, vendor=Vendor("amd")))
    assert not coverage("n1")
