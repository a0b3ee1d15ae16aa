"""A real Prometheus scrapes an agent on a node that moves: counters count, and what is lost shows."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.agent_process import AgentProcess
from tests.e2e.prometheus_server import PrometheusServer, Series
from tests.waiting import wait_until

from accelscope.model import HealthState
from accelscope.simulate import Fault, FaultKind, SimulatedNode


class Watched(NamedTuple):
    node: SimulatedNode
    agent: AgentProcess
    prometheus: PrometheusServer


@pytest.fixture
def watched(moving_node: SimulatedNode, folder: Path, request: pytest.FixtureRequest) -> Iterator[Watched]:
    own = folder / request.node.name
    with (
        AgentProcess(moving_node.agent_settings(), own) as agent,
        PrometheusServer(own / "prometheus", {"accelscope": (agent.port, {})}) as prometheus,
    ):
        yield Watched(moving_node, agent, prometheus)


def by_device(series: list[Series]) -> dict[str, float]:
    return {one.labels["device"]: one.value for one in series}


def test_energy_grows_as_power_says(watched: Watched) -> None:
    prometheus = watched.prometheus
    wait_until(
        lambda: len(prometheus.query("count_over_time(accelerator_power_watts[1m]) >= 16")) == 8,
        "eight seconds of samples",
    )

    def agree() -> bool:
        rates = by_device(prometheus.query("rate(accelerator_energy_joules_total[6s])"))
        powers = by_device(prometheus.query("avg_over_time(accelerator_power_watts[6s])"))
        # Power is of an instant, and the range ends between two scrapes; a wrong unit would be far off.
        return len(rates) == 8 and all(math.isclose(rates[d], powers.get(d, 0), rel_tol=0.35) for d in rates)

    wait_until(agree, "energy grows as power says")
    assert prometheus.query("resets(accelerator_energy_joules_total[1m]) > 0") == []


def test_a_lost_device_shows_and_the_others_stay(watched: Watched) -> None:
    prometheus = watched.prometheus
    lost = watched.agent.settled().devices[3].id
    prometheus.until_holds("count(accelerator_up == 1)", 8)
    watched.node.set_faults([Fault(kind=FaultKind.LOST, device=3)])
    prometheus.until_holds(f'accelerator_up{{device="{lost}"}}', 0)
    [state] = prometheus.series(f'accelerator_health{{device="{lost}"}} == 1', 1)
    assert state.labels["state"] == HealthState.LOST.value
    prometheus.until_holds("count(accelerator_up == 1)", 7)
    assert prometheus.query(f'accelerator_power_watts{{device="{lost}"}}') == []
    prometheus.until_holds(f'count(accelerator_info{{device="{lost}"}})', 1)
    prometheus.until_holds("accelscope_reader_devices_expected", 8)
    prometheus.until_holds("accelscope_reader_devices_seen", 7)
    watched.node.set_faults([])
    prometheus.until_holds("count(accelerator_up == 1)", 8)
