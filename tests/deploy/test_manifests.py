"""The plain manifests: what the chart renders, and what each use may do."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.conftest import REPOSITORY
from tests.deploy.objects import (
    agent_settings,
    agents,
    container,
    host_paths,
    of_kind,
    plugin_settings,
    rights,
    settings_text,
)

import accelscope

MANIFESTS = REPOSITORY / "deploy" / "manifests"
USES = sorted(path.stem for path in (MANIFESTS / "values").glob("*.yaml"))
PLUGIN = "device-plugin"
OF_AGENTS = [use for use in USES if use != PLUGIN]


def manifest(use: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((MANIFESTS / f"{use}.yaml").read_text()) if each is not None]


def test_as_the_chart_renders(helm: str) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / "manifests"), "--check"],
        env={**os.environ, "HELM": helm},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_one_for_each_file_of_values() -> None:
    assert sorted(path.stem for path in MANIFESTS.glob("*.yaml")) == USES


@pytest.mark.parametrize("use", OF_AGENTS)
def test_agent_understands_its_settings(use: str, tmp_path: Path) -> None:
    objects = manifest(use)
    file = tmp_path / "agent.yaml"
    file.write_text(settings_text(objects))
    assert agents(objects)
    for vendor in agents(objects):
        assert agent_settings(objects, vendor, str(file)).readers == (vendor,)


@pytest.mark.parametrize("use", USES)
def test_no_image_is_made_up(use: str) -> None:
    """REGISTRY is no valid name, so that a manifest applied as it is fails by saying so."""
    objects = manifest(use)
    images = {container(each["spec"]["template"]["spec"])["image"] for each in of_kind(objects, "DaemonSet")}
    assert images == {f"REGISTRY/accelscope:{accelscope.__version__}"}


@pytest.mark.parametrize("use", USES)
def test_helm_is_not_named(use: str) -> None:
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
    ],
)
def test_rights_of_each_use(use: str, resources: set[str]) -> None:
    objects = manifest(use)
    granted = rights(objects)
    assert {resource for _, resource, _ in granted} == resources
    assert {verb for _, resource, verb in granted if resource == "nodes"} <= {"patch"}
    assert bool(of_kind(objects, "ValidatingAdmissionPolicy")) == ("nodes" in resources)


def test_restricted_needs_nothing_of_the_node() -> None:
    for pod in agents(manifest("agent-restricted")).values():
        assert host_paths(pod) == set()
        assert "hostPID" not in pod
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container(pod)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_device_plugin_alone(tmp_path: Path) -> None:
    objects = manifest(PLUGIN)
    kinds = sorted(each["kind"] for each in objects)
    assert kinds == ["ConfigMap", "DaemonSet", "Namespace", "Service", "ServiceAccount"]
    settings = plugin_settings(objects, tmp_path / "config.yaml")
    assert (settings.vendor, settings.default_pe, settings.exporter_port) == ("furiosa", "Fusion", 9401)
