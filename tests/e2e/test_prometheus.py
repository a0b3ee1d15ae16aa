"""A real Prometheus scrapes a real agent: every way of connecting, and every number as the agent holds it."""

import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.agent_process import AgentProcess, wait_until
from tests.e2e.certificates import Certificates
from tests.e2e.prometheus_server import PrometheusServer, Series

from accelscope.model import Device, HealthState
from accelscope.simulate import Fault, FaultKind, SimulatedNode, load_node

TOKEN = "let-prometheus-in"


@pytest.fixture
def scraped(frozen_node: SimulatedNode, tmp_path: Path) -> Iterator[tuple[AgentProcess, PrometheusServer]]:
    with AgentProcess(frozen_node.agent_settings(), tmp_path) as agent:
        agent.settled()
        with PrometheusServer(tmp_path / "prometheus", agent.port) as prometheus:
            yield agent, prometheus


def by_device(series: list[Series]) -> dict[str, float]:
    return {one.labels["device"]: one.value for one in series}


# Families with one series a device, and where the snapshot holds the same number.
PER_DEVICE: tuple[tuple[str, Callable[[Device], float | None]], ...] = (
    ("accelerator_up", lambda d: not d.stale),
    ("accelerator_utilization_ratio", lambda d: d.utilization_ratio),
    ("accelerator_memory_total_bytes", lambda d: d.memory_total_bytes),
    ("accelerator_memory_used_bytes", lambda d: d.memory_used_bytes),
    ("accelerator_temperature_celsius", lambda d: d.temperature_celsius),
    ("accelerator_power_watts", lambda d: d.power_watts),
    ("accelerator_power_limit_watts", lambda d: d.power_limit_watts),
    ("accelerator_energy_joules_total", lambda d: d.energy_joules),
    ("accelerator_pcie_generation", lambda d: d.pcie.generation if d.pcie else None),
    ("accelerator_pcie_replays_total", lambda d: d.pcie.replays_total if d.pcie else None),
)


def test_values_in_prometheus_are_those_of_the_snapshot(
    scraped: tuple[AgentProcess, PrometheusServer],
) -> None:
    agent, prometheus = scraped
    snapshot = agent.snapshot()
    assert len(snapshot.devices) == 8
    for family, value in PER_DEVICE:
        expected = {d.id: float(v) for d in snapshot.devices if (v := value(d)) is not None}
        assert expected, f"{family}: the node has no value to compare"
        assert by_device(prometheus.query(family)) == expected, family


def test_processes_in_prometheus_are_those_of_the_snapshot(
    scraped: tuple[AgentProcess, PrometheusServer],
) -> None:
    agent, prometheus = scraped
    processes = agent.snapshot().processes
    found = prometheus.query("accelerator_process_memory_bytes")
    assert len(processes) == 32
    assert {(s.labels["device"], s.labels["pid"], s.labels["name"]): s.value for s in found} == {
        (p.device, str(p.pid), p.name): p.memory_bytes for p in processes
    }


def test_links_in_prometheus_are_those_of_the_snapshot(
    scraped: tuple[AgentProcess, PrometheusServer],
) -> None:
    agent, prometheus = scraped
    found = prometheus.query('accelerator_link_transmit_bytes_total{kind="nvlink"}')
    expected = {
        (device.id, str(link.index)): link.transmit_bytes_total
        for device in agent.snapshot().devices
        for link in device.links
        if link.transmit_bytes_total is not None
    }
    assert expected
    assert {(s.labels["device"], s.labels["link"]): s.value for s in found} == expected


def test_sums_over_devices_count_each_byte_once(scraped: tuple[AgentProcess, PrometheusServer]) -> None:
    agent, prometheus = scraped
    used = sum(d.memory_used_bytes or 0 for d in agent.snapshot().devices)
    assert prometheus.value("sum(accelerator_memory_used_bytes)") == used


def test_prometheus_is_answered_in_openmetrics(scraped: tuple[AgentProcess, PrometheusServer]) -> None:
    _, prometheus = scraped
    metadata = prometheus.metadata()
    # Only OpenMetrics declares units, and a counter without its suffix.
    assert metadata["accelerator_memory_used_bytes"]["unit"] == "bytes"
    assert metadata["accelerator_energy_joules"]["type"] == "counter"
    assert metadata["accelerator_power_watts"]["type"] == "gauge"
    assert all(entry["help"] for entry in metadata.values())


def test_no_sample_is_dropped_on_the_way(scraped: tuple[AgentProcess, PrometheusServer]) -> None:
    agent, prometheus = scraped
    lines = agent.get("/metrics").body.decode().splitlines()
    page = sum(1 for line in lines if not line.startswith("#"))
    wait_until(
        lambda: prometheus.holds("scrape_samples_scraped", page), "Prometheus has as many samples as the page"
    )
    assert prometheus.holds("scrape_samples_post_metric_relabeling", page)


def test_a_stopped_agent_is_down(frozen_node: SimulatedNode, tmp_path: Path) -> None:
    with AgentProcess(frozen_node.agent_settings(), tmp_path) as agent:
        prometheus = PrometheusServer(tmp_path / "prometheus", agent.port)
        with prometheus:
            wait_until(lambda: prometheus.holds("up", 1), "the target is up")
            agent.stop()
            wait_until(lambda: prometheus.holds("up", 0), "the target is down")


def guarded(certificates: Certificates, **more: Path) -> dict[str, str]:
    """The agent's settings for HTTPS."""
    return {
        "tls_certificate": str(certificates.server),
        "tls_key": str(certificates.server_key),
        **{name: str(path) for name, path in more.items()},
    }


def https(certificates: Certificates, *, client: bool = False, token: str | None = None) -> dict[str, object]:
    """Prometheus's settings for it."""
    tls = {"ca_file": str(certificates.ca)}
    if client:
        tls |= {"cert_file": str(certificates.client), "key_file": str(certificates.client_key)}
    scrape: dict[str, object] = {"scheme": "https", "tls_config": tls}
    if token is not None:
        scrape["authorization"] = {"credentials": token}
    return scrape


def test_tls_and_token(
    frozen_node: SimulatedNode, certificates: Certificates, token_file: Path, tmp_path: Path
) -> None:
    settings = frozen_node.agent_settings() | guarded(certificates, token_file=token_file)
    with AgentProcess(settings, tmp_path, trust=certificates.trust(), token=TOKEN) as agent:
        assert agent.get("/metrics", guarded=False).status == 401
        with PrometheusServer(tmp_path / "right", agent.port, https(certificates, token=TOKEN)) as prometheus:
            wait_until(lambda: prometheus.holds("up", 1), "the scrape with the token succeeds")
            assert prometheus.value("count(accelerator_up == 1)") == 8
        with PrometheusServer(
            tmp_path / "wrong", agent.port, https(certificates, token="guess")
        ) as prometheus:
            assert prometheus.holds("up", 0)
            assert "401" in prometheus.target()["lastError"]
            assert prometheus.query("accelerator_up") == []


def test_mutual_tls(frozen_node: SimulatedNode, certificates: Certificates, tmp_path: Path) -> None:
    settings = frozen_node.agent_settings() | guarded(certificates, tls_client_ca=certificates.ca)
    with AgentProcess(settings, tmp_path, trust=certificates.trust(with_client=True)) as agent:
        with PrometheusServer(tmp_path / "with", agent.port, https(certificates, client=True)) as prometheus:
            wait_until(lambda: prometheus.holds("up", 1), "the scrape with a certificate succeeds")
            assert prometheus.value("count(accelerator_up == 1)") == 8
        with PrometheusServer(tmp_path / "without", agent.port, https(certificates)) as prometheus:
            assert prometheus.holds("up", 0)
            assert prometheus.query("accelerator_up") == []


def test_plain_http_to_an_https_port_is_down(
    frozen_node: SimulatedNode, certificates: Certificates, tmp_path: Path
) -> None:
    settings = frozen_node.agent_settings() | guarded(certificates)
    with (
        AgentProcess(settings, tmp_path, trust=certificates.trust()) as agent,
        PrometheusServer(tmp_path / "prometheus", agent.port) as prometheus,
    ):
        assert prometheus.holds("up", 0)
        assert "400" in prometheus.target()["lastError"]


@pytest.fixture
def moving_node(tmp_path: Path) -> Iterator[SimulatedNode]:
    node = SimulatedNode(load_node("nvidia-h100x8"), tmp_path / "node")
    node.build()
    stop = threading.Event()
    mover = threading.Thread(target=node.run, args=(stop,), kwargs={"period": 0.2})
    mover.start()
    wait_until((tmp_path / "node/state/nvml").exists, "the node has a state")
    yield node
    stop.set()
    mover.join()


def test_energy_grows_as_power_says(moving_node: SimulatedNode, tmp_path: Path) -> None:
    with (
        AgentProcess(moving_node.agent_settings(), tmp_path) as agent,
        PrometheusServer(tmp_path / "prometheus", agent.port) as prometheus,
    ):
        # The range begins after the first samples, or it would be extrapolated to before them.
        wait_until(
            lambda: prometheus.query("count_over_time(accelerator_power_watts[8s]) >= 14") != [],
            "eight seconds of samples",
        )
        rates = by_device(prometheus.query("rate(accelerator_energy_joules_total[6s])"))
        powers = by_device(prometheus.query("avg_over_time(accelerator_power_watts[6s])"))
        assert len(rates) == 8
        for device, rate in rates.items():
            # Power is of an instant, and the range ends between two scrapes; a wrong unit would be far off.
            assert math.isclose(rate, powers[device], rel_tol=0.35), (
                f"{device}: {rate} J/s, {powers[device]} W"
            )
        assert prometheus.query("resets(accelerator_energy_joules_total[8s]) > 0") == []


def test_a_lost_device_shows(moving_node: SimulatedNode, tmp_path: Path) -> None:
    with (
        AgentProcess(moving_node.agent_settings(), tmp_path) as agent,
        PrometheusServer(tmp_path / "prometheus", agent.port) as prometheus,
    ):
        lost = agent.settled().devices[3].id
        wait_until(lambda: prometheus.holds("count(accelerator_up == 1)", 8), "all devices are up")
        moving_node.set_faults([Fault(kind=FaultKind.LOST, device=3)])
        wait_until(lambda: prometheus.holds(f'accelerator_up{{device="{lost}"}}', 0), "the device is down")
        states = prometheus.query(f'accelerator_health{{device="{lost}"}} == 1')
        assert [series.labels["state"] for series in states] == [HealthState.LOST.value]
        assert prometheus.value("count(accelerator_up == 1)") == 7
        wait_until(
            lambda: prometheus.query(f'accelerator_power_watts{{device="{lost}"}}') == [],
            "no power is claimed of a lost device",
        )
        assert prometheus.value("accelscope_reader_devices_expected") == 8
        assert prometheus.value("accelscope_reader_devices_seen") == 7
        assert prometheus.holds(f'count(accelerator_info{{device="{lost}"}})', 1)
