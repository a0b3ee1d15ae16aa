"""The plain manifests: up to date with the chart, and their permissions."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.objects import (
    agent_settings,
    agents,
    container,
    fleet_clusters,
    fleet_settings,
    host_paths,
    local_rights,
    of_kind,
    plugin_settings,
    read_objects,
    rights,
    settings_text,
)
from tests.repository import MANIFESTS, REPOSITORY

import accelscope
from accelscope.fleet.clusters import AGENTS_SELECTOR

USES = sorted(path.stem for path in (MANIFESTS / "values").glob("*.yaml"))
PLUGIN, FLEET = "device-plugin", "fleet"
READERS = ["fleet-reader", "fleet-reader-exec"]  # accounts without pods
OF_AGENTS = [use for use in USES if use not in (PLUGIN, FLEET, *READERS)]


def manifest(use: str) -> list[dict[str, Any]]:
    return read_objects((MANIFESTS / f"{use}.yaml").read_text())


def test_manifests_are_up_to_date(helm: str) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / "manifests"), "--check"],
        env={**os.environ, "HELM": helm},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_one_manifest_for_each_values_file() -> None:
    assert sorted(path.stem for path in MANIFESTS.glob("*.yaml")) == USES


@pytest.mark.parametrize("use", OF_AGENTS)
def test_agent_accepts_its_settings(use: str, tmp_path: Path) -> None:
    objects = manifest(use)
    file = tmp_path / "agent.yaml"
    file.write_text(settings_text(objects))
    assert agents(objects)
    for vendor in agents(objects):
        assert agent_settings(objects, vendor, str(file)).readers == (vendor,)


@pytest.mark.parametrize("use", USES)
def test_image_registry_is_a_placeholder(use: str) -> None:
    """REGISTRY is not a valid name, so applying the unchanged manifest fails with a clear message."""
    running = of_kind(manifest(use), "DaemonSet", "Deployment")
    images = {container(each["spec"]["template"]["spec"])["image"] for each in running}
    name = "accelscope-fleet" if use == FLEET else "accelscope"
    assert images == (set() if use in READERS else {f"REGISTRY/{name}:{accelscope.__version__}"})
    assert ("Replace REGISTRY" in (MANIFESTS / f"{use}.yaml").read_text()) == bool(images)


@pytest.mark.parametrize("use", USES)
def test_manifests_do_not_mention_helm(use: str) -> None:
    text = (MANIFESTS / f"{use}.yaml").read_text()
    assert not re.search(r"managed-by|# Source:|helm\.sh", text)


@pytest.mark.parametrize(
    ("use", "resources"),
    [
        ("agent", {"pods", "resourceslices"}),
        ("agent-restricted", set()),
        ("device-plugin", set()),
        ("npu-annotation", {"nodes"}),
        ("feature-discovery", {"nodes"}),
        ("feature-discovery-nfd", set()),
        ("fleet", {"nodes", "pods", "pods/proxy"}),
        ("fleet-reader", {"nodes", "pods", "pods/proxy"}),
        ("fleet-reader-exec", {"nodes", "pods", "pods/exec"}),
    ],
)
def test_permissions_of_each_use(use: str, resources: set[str]) -> None:
    objects = manifest(use)
    granted = rights(objects)
    assert {resource for _, resource, _ in granted} == resources
    of_nodes = {verb for _, resource, verb in granted if resource == "nodes"}
    assert of_nodes <= ({"patch"} if use in OF_AGENTS else {"get", "list", "watch"})
    assert bool(of_kind(objects, "ValidatingAdmissionPolicy")) == ("patch" in of_nodes)


def test_fleet_reads_the_agents_of_the_agent_manifest(tmp_path: Path) -> None:
    [namespace] = of_kind(manifest("agent"), "Namespace")
    agents_namespace = namespace["metadata"]["name"]
    [own] = fleet_clusters(manifest(FLEET), tmp_path).values()
    assert own.agents is not None
    assert own.agents.namespace == agents_namespace
    for use, account in ((FLEET, "accelscope-fleet"), ("fleet-reader", "accelscope-fleet-reader")):
        assert local_rights(manifest(use), account).keys() == {"", agents_namespace}
    assert fleet_settings(manifest(FLEET), tmp_path).tokens_file is not None


@pytest.mark.parametrize("use", sorted({*USES} - {*READERS}))
def test_fleet_does_not_read_other_pods_as_agents(use: str) -> None:
    """The fleet would mix the data of two agents for the same devices, and these have no pods."""
    selector = dict(each.split("=") for each in AGENTS_SELECTOR.split(","))
    running = of_kind(manifest(use), "DaemonSet", "Deployment")
    assert running
    for each in running:
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert (selector.items() <= labels.items()) == (use in ("agent", "agent-restricted"))


def test_reader_manifests_share_one_account() -> None:
    """Both can be applied together: objects that both contain are equal."""

    def identity(each: dict[str, Any]) -> tuple[str, ...]:
        return each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]

    agents_only, exec_only = ({identity(each): each for each in manifest(use)} for use in READERS)
    common = agents_only.keys() & exec_only.keys()
    assert {kind for kind, _, _ in common} == {
        "Namespace",
        "ServiceAccount",
        "Secret",
        "ClusterRole",
        "ClusterRoleBinding",
    }
    assert all(agents_only[each] == exec_only[each] for each in common)
    rest = (agents_only.keys() ^ exec_only.keys()) - common
    assert {namespace for _, namespace, _ in rest} == {"accelscope-system", "gpu-operator"}


def test_restricted_agent_uses_nothing_of_the_node() -> None:
    for pod in agents(manifest("agent-restricted")).values():
        assert host_paths(pod) == set()
        assert "hostPID" not in pod
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container(pod)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_device_plugin_manifest_contains_no_agents(tmp_path: Path) -> None:
    objects = manifest(PLUGIN)
    kinds = sorted(each["kind"] for each in objects)
    assert kinds == ["ConfigMap", "DaemonSet", "Namespace", "Service", "ServiceAccount"]
    settings = plugin_settings(objects, tmp_path / "config.yaml")
    assert (settings.vendor, settings.exporter_port) == ("furiosa", 9401)
    assert settings.division_settings["default_pe"] == "Fusion"
