"""The relabelings of docs/switching, as a real Prometheus applies them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.agent_process import AgentProcess
from tests.e2e.prometheus_server import PrometheusServer
from tests.repository import REPOSITORY

from accelscope.simulate import SimulatedNode

GUIDES = REPOSITORY / "docs" / "switching"
CLASHING = (
    "accelerator_memory_used_bytes",
    "accelerator_memory_total_bytes",
    "accelerator_temperature_celsius",
)
# What the rules of NVIDIA's operator record under these names.
RULES = [
    {"record": "accelerator_memory_used_bytes", "expr": "DCGM_FI_DEV_MEM_COPY_UTIL"},
    {"record": "accelerator_memory_total_bytes", "expr": "DCGM_FI_DEV_FB_TOTAL"},
    {"record": "accelerator_temperature_celsius", "expr": "DCGM_FI_DEV_GPU_TEMP"},
]


def documented(guide: str, kind: str) -> list[dict[str, Any]]:
    """The rules of the guide, from the chart's spelling to that of Prometheus' own configuration."""
    text = (GUIDES / f"{guide}.md").read_text()
    [block] = [b for b in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if f" {kind}:" in b]
    rules = yaml.safe_load(block)["scrape"]["endpoint"][kind]
    return [
        {re.sub(r"([A-Z])", lambda m: f"_{m[1].lower()}", key): value for key, value in rule.items()}
        for rule in rules
    ]


@pytest.fixture(scope="module")
def prometheus(frozen_node: SimulatedNode, folder: Path) -> Iterator[PrometheusServer]:
    counters = folder / "counters.csv"
    counters.write_text(
        "".join(f"DCGM_FI_DEV_{name}, gauge, x\n" for name in ("MEM_COPY_UTIL", "FB_TOTAL", "GPU_TEMP"))
    )
    settings = {**frozen_node.agent_settings(), "dialect": "dcgm", "dcgm_counters": str(counters)}
    with AgentProcess(settings, folder / "agent") as agent:
        agent.settled()
        # Labels that service discovery gives, given by hand: `__meta_` ones may be set in a static config.
        target = {
            "targets": [f"127.0.0.1:{agent.port}"],
            "labels": {
                "__meta_kubernetes_pod_label_accelscope_io_agent": "nvidia",
                "__meta_kubernetes_pod_node_name": "worker-1",
            },
        }
        job: dict[str, object] = {
            "job_name": "accelscope",
            "static_configs": [target],
            "honor_labels": True,
            "relabel_configs": documented("dcgm-exporter", "relabelings"),
            "metric_relabel_configs": documented("dcgm-exporter", "metricRelabelings"),
        }
        ascend: dict[str, object] = {
            "job_name": "accelscope-ascend",
            "static_configs": [
                {**target, "labels": {"__meta_kubernetes_pod_label_accelscope_io_agent": "ascend"}}
            ],
            "relabel_configs": documented("npu-exporter", "relabelings"),
            "metric_relabel_configs": [{"source_labels": ["__name__"], "regex": ".+", "action": "drop"}],
        }
        # The server waits for targets by the label `job`, which the relabelings set.
        jobs = {"nvidia-dcgm-exporter": (agent.port, job), "npu-exporter": (agent.port, ascend)}
        with PrometheusServer(folder / "prometheus", jobs, rules=RULES) as server:
            yield server


def test_targets_have_the_job_and_node_that_old_alerts_select(prometheus: PrometheusServer) -> None:
    prometheus.until_holds('up{job="nvidia-dcgm-exporter", kubernetes_node="worker-1"}', 1)
    prometheus.until_holds('up{job="npu-exporter"}', 1)


@pytest.mark.parametrize("name", CLASHING)
def test_recorded_and_native_series_are_kept_apart(prometheus: PrometheusServer, name: str) -> None:
    native = prometheus.series(f"native_{name}", 8)
    recorded = prometheus.series(name, 8)
    assert all(series.labels["UUID"] for series in recorded)
    assert all("UUID" not in series.labels for series in native)


def test_other_native_families_keep_their_names(prometheus: PrometheusServer) -> None:
    prometheus.series("accelerator_memory_free_bytes", 8)
