"""A quick version of the trial: fails if the detection of anomalies breaks."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.fleet.trends.nodes import FAULT_MINUTE, VICTIM, Fault, Load, Node, faulty_nodes, well_nodes
from tests.fleet.trends.trial import poisson_interval, quantile, watch

SEED = 11


def _nodes(minutes: int) -> Iterator[Node]:
    for fault in (Fault.FAST, Fault.SLOW_WHOLE, Fault.THROTTLED, Fault.BRAKE_WHOLE, Fault.ECC, Fault.HUNG):
        yield from faulty_nodes(SEED, Load.WAVE, fault, 1, minutes)


def test_faults_are_found_under_moving_load() -> None:
    nodes = list(_nodes(FAULT_MINUTE + 75))
    found = {
        alarm.node
        for alarm in asyncio.run(watch(nodes, FAULT_MINUTE + 75))
        if alarm.minute >= FAULT_MINUTE and alarm.subject.endswith((f"#{VICTIM}", "/victim"))
    }
    assert [node.name for node in nodes if node.name not in found] == []


@pytest.mark.parametrize("load", list(Load))
def test_nodes_without_a_fault_raise_no_alarm(load: Load) -> None:
    assert asyncio.run(watch(list(well_nodes(SEED, load, 2, 240)), 240)) == []


def test_the_interval_of_a_rate_is_exact() -> None:
    assert poisson_interval(0) == pytest.approx((0, 3.689), abs=0.001)
    assert poisson_interval(4) == pytest.approx((1.090, 10.242), abs=0.001)
    assert quantile([5, 1, 9, 7], 0.5) == 5
    assert quantile(list(range(1, 21)), 0.9) == 18
