"""The chart on a real cluster, from installation to removal: one agent for the cards of all vendors."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.values import NO_AGENTS, VENDORS
from tests.e2e.kubernetes.agent_image import agent_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import (
    ENOUGH_CPU,
    PATIENCE_SECONDS,
    RELEASE,
    Deployed,
    Release,
    labelled,
    namespace,
    objects_of_ours,
    on_simulated,
)
from tests.e2e.kubernetes.errors import CommandFailed
from tests.repository import CHART
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode, load_node

NEEDS_NO_RESTART = {"config": {"labels": {"rack": "7"}}}
IN_RACK_7 = ("accelerator_info{", 'rack="7"')
NEEDS_A_RESTART = {"config": {"toolInterval": "30s"}}


@pytest.fixture(scope="module")
def values(folder: Path) -> dict[str, Any]:
    """All that the chart can make beside the agent is switched on, so that something could be left behind."""
    node = SimulatedNode(load_node("mixed"), folder / "mixed")
    node.build(at=1000.0)
    return {
        "agents": {**NO_AGENTS, "any": {"enabled": True, **on_simulated(node)}},
        "nodeObject": {"devicesAnnotation": True, "annotationInterval": "1s"},
        "networkPolicy": {"enabled": True},
        "resources": ENOUGH_CPU,
    }


@pytest.fixture(scope="module")
def empty(cluster: Cluster) -> Iterator[set[tuple[str, str]]]:
    """A namespace for it, and what is there of ours before it is installed."""
    cluster.import_image(agent_image())
    with namespace(cluster), labelled(cluster, "agents.accelscope.io/any=true"):
        yield objects_of_ours(cluster)


@pytest.fixture(scope="module")
def release(
    cluster: Cluster, empty: set[tuple[str, str]], values: dict[str, Any], folder: Path
) -> Iterator[Release]:
    made = Release(cluster, folder)
    try:
        made.put(values)
        made.agent("any").until_rolled_out()
        yield made
    finally:
        made.remove()
        cluster.kubectl("annotate", f"node/{cluster.node_name}", "accelscope.io/devices-")


@pytest.fixture(scope="module")
def agent(release: Release) -> Deployed:
    return release.agent("any")


def name_of(agent: Deployed) -> str:
    return str(agent.pod()["metadata"]["name"])


def has_line(agent: Deployed, *parts: str) -> bool:
    return any(all(part in line for part in parts) for line in agent.page())


def test_lint_is_content(cluster: Cluster) -> None:
    said = cluster.helm("lint", "--strict", str(CHART), "--set=image.registry=registry.test")
    assert "1 chart(s) linted, 0 chart(s) failed" in said


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ("http.port=page", "/http/port"),
        ("attribution.pods=somehow", "/attribution/pods"),
        ("agents.intel.enabled=true", "intel"),
        ("nodeObject.featureLabels=some", "/nodeObject/featureLabels"),
        ("config.tokenReview=true", "http.tokenReview"),
        ("image.registry=", "image.registry"),
        ("agents.any.enabled=true,agents.any.nodes=", "agents.any.nodes"),
    ],
)
def test_wrong_values_are_refused_by_name(cluster: Cluster, bad: str, told: str) -> None:
    command = ("install", RELEASE, str(CHART), "--dry-run=server", "--namespace=default")
    with pytest.raises(CommandFailed) as refused:
        cluster.helm(*command, "--set=image.registry=registry.test", f"--set={bad}")
    assert told in str(refused.value)


def test_one_agent_reads_every_vendor(agent: Deployed) -> None:
    snapshot = agent.until(
        lambda s: len(s.devices) == 8 and all(reader.found and reader.up for reader in s.readers),
        "all devices are read",
    )
    assert {reader.vendor.value for reader in snapshot.readers} == set(VENDORS)
    assert snapshot.node == agent.cluster.node_name
    assert has_line(agent, "accelerator_power_watts{", 'vendor="furiosa"')


def test_it_writes_to_its_node_under_the_policy(agent: Deployed) -> None:
    agent.until(
        lambda s: any(sink.sink == "annotation" and sink.up for sink in s.sinks), "the annotation is written"
    )
    node = agent.cluster.get(f"node/{agent.cluster.node_name}")
    assert "accelscope.io/devices" in node["metadata"]["annotations"]


def test_some_settings_are_taken_up_without_a_restart(
    release: Release, agent: Deployed, values: dict[str, Any]
) -> None:
    before = name_of(agent)
    release.put({**values, **NEEDS_NO_RESTART})
    wait_until(lambda: has_line(agent, *IN_RACK_7), "the label is there", PATIENCE_SECONDS)
    assert name_of(agent) == before
    assert agent.restarts() == 0


def test_others_roll_the_daemonset(release: Release, agent: Deployed, values: dict[str, Any]) -> None:
    before = name_of(agent)
    release.put({**values, **NEEDS_A_RESTART})
    assert agent.until_rolled_out()["metadata"]["name"] != before
    agent.until(lambda s: len(s.devices) == 8, "the new pod reads")
    assert not has_line(agent, *IN_RACK_7)


def test_it_is_restarted(agent: Deployed) -> None:
    before = name_of(agent)
    words = (f"daemonset/{agent.daemonset}", f"--namespace={agent.namespace}")
    agent.cluster.kubectl("rollout", "restart", *words)
    assert agent.until_rolled_out()["metadata"]["name"] != before
    agent.until(lambda s: len(s.devices) == 8, "the new pod reads")


def test_an_agent_that_crashes_is_started_again(agent: Deployed) -> None:
    pid, *_tools = agent.cluster.processes_of(name_of(agent), "agent", agent.namespace)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: agent.restarts() == 1 and agent.ready(), "it runs again", PATIENCE_SECONDS)
    agent.until(lambda s: len(s.devices) == 8, "it reads again")


def test_it_is_rolled_back(release: Release, agent: Deployed) -> None:
    before = name_of(agent)
    release.helm("rollback", RELEASE, "2")  # with the label, and without the setting that needs a restart
    assert agent.until_rolled_out()["metadata"]["name"] != before
    wait_until(lambda: has_line(agent, *IN_RACK_7), "it is as it was", PATIENCE_SECONDS)
    history = release.helm("history", RELEASE)
    assert "Rollback to 2" in history


def test_it_is_removed_without_a_trace(release: Release, empty: set[tuple[str, str]]) -> None:
    """Last, since it ends the release."""
    there = objects_of_ours(release.cluster) - empty
    kinds = {kind for kind, _ in there}
    assert {"DaemonSet", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy"} <= kinds
    assert {"NetworkPolicy", "Service", "ServiceAccount", "ConfigMap", "Secret"} <= kinds
    release.remove()
    wait_until(lambda: objects_of_ours(release.cluster) == empty, "nothing is left", PATIENCE_SECONDS)
