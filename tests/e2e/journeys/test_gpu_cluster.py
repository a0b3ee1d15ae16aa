"""A cluster with GPUs, of which somebody would like to know which pod does nothing with what it holds."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.journeys.guide import block, promql
from tests.e2e.journeys.owners import Owner
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import ENOUGH_CPU, NAMESPACE, on_simulated, runtime_class
from tests.e2e.kubernetes.npus import NULL
from tests.e2e.kubernetes.prometheus import PATIENCE_SECONDS, discovering
from tests.e2e.prometheus_server import PrometheusApi
from tests.monitoring.grafana_queries import fill_in
from tests.repository import CHART
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode

INSTALL, DASHBOARDS, WHICH_POD = "docs/install.md", "docs/dashboards.md", "docs/attribution.md"
LABEL = "agents.accelscope.io/nvidia"
IDLE_SECONDS = "3"  # in place of an hour


@pytest.fixture(scope="module")
def gpu_owner(cluster: Cluster, owner: Owner, used_gpus: SimulatedNode) -> Iterator[Owner]:
    """Of a node with two GPUs: the pod `train` works on its own, `idle` holds the other."""
    for path in (used_gpus.folder / "dev").glob("nvidia*"):  # which the doctor opens
        path.unlink()
        os.mknod(path, 0o666 | stat.S_IFCHR, NULL)
    agent = {**on_simulated(used_gpus), "resources": ENOUGH_CPU}
    owner.node_has({"agents": {"nvidia": agent}, "config": {"collectionInterval": "1s"}})
    with ExitStack() as stack:
        stack.enter_context(runtime_class(cluster, "nvidia"))
        stack.callback(cluster.kubectl, "label", f"node/{cluster.node_name}", f"{LABEL}-")
        yield owner


def test_from_the_chart_to_the_pod_that_is_idle(
    cluster: Cluster, gpu_owner: Owner, used_gpus: SimulatedNode, folder: Path
) -> None:
    """Left out: `docker build` and `docker push`, for which buildah and an import stand here (there is no
    registry), and Grafana itself: its sidecar's ConfigMaps are read, and what the panel would ask is asked.
    The operator's kinds are known and nobody acts upon them, so that Prometheus gets its job and its rules
    from the files that the pages name for one without operator. The test does not wait for an hour."""
    gpu_owner.run(block(INSTALL, "Select nodes", f"{LABEL}=true"))
    said = gpu_owner.run(block(INSTALL, "Install with Helm", "helm install"))
    assert 'daemon set "accelscope-nvidia" successfully rolled out' in said
    said = gpu_owner.run(block(INSTALL, "Install with Helm", "accelscope doctor"))
    assert "2 of 2 devices" in said
    assert "# HELP " in said

    gpu_owner.run(block(DASHBOARDS, "Get them", "helm upgrade"))
    with discovering(cluster, folder / "prometheus", scrape_config(), NAMESPACE) as prometheus:
        panel = panels(cluster, "AccelScope / Namespaces and pods")["Pods idle for longer than selected"]
        choice = dict.fromkeys(("cluster", "namespace", "vendor", "model"), ".*")
        idle_pods(prometheus, fill_in(panel["targets"][0]["expr"], {**choice, "idle": IDLE_SECONDS}))

        question = promql(WHICH_POD, "Example queries", "sort_desc(accelerator_pod_idle_seconds")
        assert ">= 3600" in question
        idle_pods(prometheus, question.replace("3600", IDLE_SECONDS))


def scrape_config() -> dict[str, Any]:
    """The example and the rules as they are, for a Prometheus that is in a hurry."""
    example = yaml.safe_load((CHART / "examples" / "scrape-config.yaml").read_text())
    hurry = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    return {"global": hurry, "rule_files": [str(CHART / "rules" / "*.yaml")], **example}


def panels(cluster: Cluster, title: str) -> dict[str, Any]:
    """Of a dashboard, as Grafana's sidecar finds it."""
    words = ("get", "configmaps", f"--namespace={NAMESPACE}", "--selector=grafana_dashboard=1")
    found = json.loads(cluster.kubectl(*words, "--output=json"))["items"]
    dashboards = [json.loads(text) for each in found for text in each["data"].values()]
    by_title = {each["title"]: each for each in dashboards}
    return {panel["title"]: panel for panel in by_title[title]["panels"]}


def idle_pods(prometheus: PrometheusApi, question: str) -> None:
    def answers() -> set[str]:
        return {each.labels["pod"] for each in prometheus.query(question)}

    wait_until(lambda: answers() == {"idle"}, question, PATIENCE_SECONDS)
