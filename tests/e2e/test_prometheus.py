"""A real Prometheus scrapes real agents on a still node: every way of connecting, every number."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.agent_process import AgentProcess
from tests.certificates import Certificates, make_certificates
from tests.e2e.prometheus_server import PrometheusServer, Series
from tests.waiting import wait_until

from accelscope.model import Device, Snapshot
from accelscope.simulate import SimulatedNode

TOKEN = "let-prometheus-in"


class Scraped(NamedTuple):
    agent: AgentProcess  # the one that serves plain HTTP to anybody
    prometheus: PrometheusServer
    snapshot: Snapshot  # that agent's


@pytest.fixture(scope="module")
def scraped(frozen_node: SimulatedNode, folder: Path) -> Iterator[Scraped]:
    """Three agents, of which each is scraped in the ways that should succeed and in those that should not."""
    certificates = make_certificates(folder)
    token_file = folder / "token"
    token_file.write_text(f"{TOKEN}\n")
    node = frozen_node.agent_settings()
    https = {"tls_certificate": str(certificates.server), "tls_key": str(certificates.server_key)}
    trust = certificates.trust()
    with ExitStack() as stack:
        plain = stack.enter_context(AgentProcess(node, folder / "plain"))
        guarded = stack.enter_context(
            AgentProcess(
                {**node, **https, "token_file": str(token_file)}, folder / "guarded", trust=trust, token=TOKEN
            )
        )
        mutual = stack.enter_context(
            AgentProcess(
                {**node, **https, "tls_client_ca": str(certificates.ca)}, folder / "mutual", trust=trust
            )
        )
        snapshot = plain.settled()
        jobs = {
            "plain": (plain.port, {}),
            "token": (guarded.port, scrape_config(certificates, token=TOKEN)),
            "wrong-token": (guarded.port, scrape_config(certificates, token="a-guess")),
            "no-token": (guarded.port, scrape_config(certificates)),
            "certificate": (mutual.port, scrape_config(certificates, client=True)),
            "no-certificate": (mutual.port, scrape_config(certificates)),
            "http-to-https": (guarded.port, {}),
        }
        prometheus = stack.enter_context(PrometheusServer(folder / "prometheus", jobs))
        yield Scraped(plain, prometheus, snapshot)


def scrape_config(
    certificates: Certificates, *, client: bool = False, token: str | None = None
) -> dict[str, object]:
    tls = {"ca_file": str(certificates.ca)}
    if client:
        tls |= {"cert_file": str(certificates.client), "key_file": str(certificates.client_key)}
    config: dict[str, object] = {"scheme": "https", "tls_config": tls}
    if token is not None:
        config["authorization"] = {"credentials": token}
    return config


@pytest.mark.parametrize("job", ["plain", "token", "certificate"])
def test_it_is_scraped(scraped: Scraped, job: str) -> None:
    scraped.prometheus.until_holds(f'up{{job="{job}"}}', 1)
    scraped.prometheus.until_holds(f'count(accelerator_up{{job="{job}"}} == 1)', 8)


@pytest.mark.parametrize(
    ("job", "error"),
    [("wrong-token", "401"), ("no-token", "401"), ("no-certificate", "403"), ("http-to-https", "400")],
)
def test_it_is_refused(scraped: Scraped, job: str, error: str) -> None:
    prometheus = scraped.prometheus
    prometheus.until_holds(f'up{{job="{job}"}}', 0)
    wait_until(lambda: error in prometheus.targets()[job]["lastError"], f"it is told {error}")
    assert prometheus.query(f'{{__name__=~"accel.*", job="{job}"}}') == []


def by_device(series: list[Series]) -> dict[str, float]:
    return {one.labels["device"]: one.value for one in series}


# Families with one series a device, and where the snapshot holds the same number.
PER_DEVICE: tuple[tuple[str, Callable[[Device], float | None]], ...] = (
    ("accelerator_up", lambda d: not d.stale),
    ("accelerator_utilization_ratio", lambda d: d.utilization_ratio),
    ("accelerator_tensor_active_ratio", lambda d: d.tensor_active_ratio),
    ("accelerator_memory_total_bytes", lambda d: d.memory_total_bytes),
    ("accelerator_memory_used_bytes", lambda d: d.memory_used_bytes),
    ("accelerator_temperature_celsius", lambda d: d.temperature_celsius),
    ("accelerator_power_watts", lambda d: d.power_watts),
    ("accelerator_power_limit_watts", lambda d: d.power_limit_watts),
    ("accelerator_energy_joules_total", lambda d: d.energy_joules),
    ("accelerator_pcie_generation", lambda d: d.pcie.generation if d.pcie else None),
    ("accelerator_pcie_replays_total", lambda d: d.pcie.replays_total if d.pcie else None),
    ("accelerator_link_transmit_bytes_total", lambda d: sum(li.transmit_bytes_total or 0 for li in d.links)),
)


@pytest.mark.parametrize("job", ["plain", "token", "certificate"])
@pytest.mark.parametrize(("family", "value"), PER_DEVICE, ids=[family for family, _ in PER_DEVICE])
def test_values_in_prometheus_are_those_of_the_snapshot(
    scraped: Scraped, job: str, family: str, value: Callable[[Device], float | None]
) -> None:
    expected = {d.id: float(v) for d in scraped.snapshot.devices if (v := value(d)) is not None}
    assert len(expected) == 8
    assert by_device(scraped.prometheus.series(f'{family}{{job="{job}"}}', 8)) == expected


def test_processes_in_prometheus_are_those_of_the_snapshot(scraped: Scraped) -> None:
    processes = scraped.snapshot.processes
    found = scraped.prometheus.series('accelerator_process_memory_bytes{job="plain"}', 32)
    assert len(processes) == 32
    assert {(s.labels["device"], s.labels["pid"], s.labels["name"]): s.value for s in found} == {
        (p.device, str(p.pid), p.name): p.memory_bytes for p in processes
    }


def test_a_sum_over_devices_counts_each_byte_once(scraped: Scraped) -> None:
    used = sum(d.memory_used_bytes or 0 for d in scraped.snapshot.devices)
    scraped.prometheus.until_holds('sum(accelerator_memory_used_bytes{job="plain"})', used)


def test_prometheus_is_answered_in_openmetrics(scraped: Scraped) -> None:
    scraped.prometheus.until_holds('up{job="plain"}', 1)
    metadata = scraped.prometheus.metadata("plain")
    # Only OpenMetrics declares units, and counters by their name without the suffix.
    assert metadata["accelerator_memory_used_bytes"]["unit"] == "bytes"
    assert metadata["accelerator_energy_joules"]["type"] == "counter"
    assert metadata["accelerator_power_watts"]["type"] == "gauge"
    assert all(entry["help"] for entry in metadata.values())


def test_no_sample_is_lost_on_the_way(scraped: Scraped) -> None:
    def on_the_page() -> int:
        """What is counted may begin to be at any time."""
        lines = scraped.agent.get("/metrics").body.decode().splitlines()
        return sum(1 for line in lines if not line.startswith("#"))

    for count in ("scrape_samples_scraped", "scrape_samples_post_metric_relabeling"):
        wait_until(
            lambda count=count: scraped.prometheus.holds(f'{count}{{job="plain"}}', on_the_page()),  # type: ignore[misc]
            f"{count} is what the page has",
        )


def test_a_stopped_agent_is_down(scraped: Scraped) -> None:
    """Last, since it stops the agent."""
    scraped.agent.stop()
    scraped.prometheus.until_holds('up{job="plain"}', 0)
    scraped.prometheus.until_holds('up{job="token"}', 1)
