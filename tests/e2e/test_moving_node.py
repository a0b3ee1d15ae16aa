"""A real Prometheus scrapes an agent on a node that moves: counters count, and what is lost shows."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.agent_process import AgentProcess, wait_until
from tests.e2e.prometheus_server import PrometheusServer, Series

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
    rates = by_device(prometheus.query("rate(accelerator_energy_joules_total[6s])"))
    powers = by_device(prometheus.query("avg_over_time(accelerator_power_watts[6s])"))
    assert len(rates) == 8
    for device, rate in rates.items():
        # Power is of an instant, and the range ends between two scrapes; a wrong unit would be far off.
        assert math.isclose(rate, powers[device], rel_tol=0.35), f"{device}: {rate} J/s, {powers[device]} W"
    assert prometheus.query("resets(accelerator_energy_joules_total[1m]) > 0") == []


def test_a_lost_device_shows_and_the_others_stay(watched: Watched) -> None:
    prometheus = watched.prometheus
    lost = watched.agent.settled().devices[3].id
    wait_until(lambda: prometheus.holds("count(accelerator_up == 1)", 8), "all devices are up")
    watched.node.set_faults([Fault(kind=FaultKind.LOST, device=3)])
    wait_until(lambda: prometheus.holds(f'accelerator_up{{device="{lost}"}}', 0), "the device is down")
    states = prometheus.query(f'accelerator_health{{device="{lost}"}} == 1')
    assert [series.labels["state"] for series in states] == [HealthState.LOST.value]
    assert prometheus.holds("count(accelerator_up == 1)", 7)
    assert prometheus.query(f'accelerator_power_watts{{device="{lost}"}}') == []
    assert prometheus.holds(f'count(accelerator_info{{device="{lost}"}})', 1)
    assert prometheus.holds("accelscope_reader_devices_expected", 8)
    assert prometheus.holds("accelscope_reader_devices_seen", 7)
    watched.node.set_faults([])
    wait_until(lambda: prometheus.holds("count(accelerator_up == 1)", 8), "the device is back")
