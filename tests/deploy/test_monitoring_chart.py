"""The chart's PrometheusRule and dashboards: same content as the files, with labels for discovery."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.conftest import Render, Template
from tests.deploy.objects import Objects, of_kind
from tests.deploy.values import NO_AGENTS
from tests.repository import CHART

RULE_FILES = [CHART / "rules" / name for name in ("recording.yaml", "alerts.yaml")]
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
MOST_BYTES = 1 << 20  # of a ConfigMap


def groups_of_files() -> list[Any]:
    return [group for file in RULE_FILES for group in yaml.safe_load(file.read_text())["groups"]]


def rule(objects: Objects) -> dict[str, Any]:
    [found] = of_kind(objects, "PrometheusRule")
    return found


def alerts(objects: Objects) -> dict[str, Any]:
    rules = [each for group in rule(objects)["spec"]["groups"] for each in group["rules"]]
    return {each["alert"]: each for each in rules if "alert" in each}


def dashboards(objects: Objects) -> Objects:
    return [
        each
        for each in of_kind(objects, "ConfigMap")
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == "monitoring"
    ]


def test_rules_and_dashboards_are_off_by_default(render: Render) -> None:
    objects = render()
    assert not of_kind(objects, "PrometheusRule")
    assert not dashboards(objects)


def test_rules_are_equal_to_the_files(render: Render) -> None:
    assert rule(render(prometheusRule={"enabled": True}))["spec"]["groups"] == groups_of_files()


def test_promtool_accepts_the_rendered_rules(render: Render, tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (make test installs it)")
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rule(render(prometheusRule={"enabled": True}))["spec"]))
    done = subprocess.run(
        [promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_have_the_configured_labels_and_namespace(render: Render) -> None:
    given = {
        "enabled": True,
        "namespace": "monitoring",
        "labels": {"release": "stack"},
        "annotations": {"a": "b"},
    }
    metadata = rule(render(prometheusRule=given))["metadata"]
    assert metadata["namespace"] == "monitoring"
    assert metadata["labels"]["release"] == "stack"
    assert metadata["annotations"] == {"a": "b"}


def test_runbook_urls_use_the_configured_base(render: Render) -> None:
    plain = alerts(render(prometheusRule={"enabled": True}))
    assert not [name for name, each in plain.items() if "runbook_url" in each["annotations"]]
    url = "https://wiki.example.org/accelscope/alerts"
    told = alerts(render(prometheusRule={"enabled": True, "runbookBaseUrl": url}))
    assert all(each["annotations"]["runbook_url"] == f"{url}#{name.lower()}" for name, each in told.items())


def test_alerts_can_be_disabled_and_labelled(render: Render) -> None:
    all_of_them = alerts(render(prometheusRule={"enabled": True}))
    given = {
        "enabled": True,
        "disabledAlerts": ["AcceleratorIdleAllocation"],
        "alertLabels": {"team": "gpu", "severity": "loud"},
    }
    found = alerts(render(prometheusRule=given))
    assert all_of_them.keys() - found.keys() == {"AcceleratorIdleAllocation"}
    assert all(each["labels"]["team"] == "gpu" for each in found.values())
    assert found["AcceleratorLost"]["labels"]["severity"] == "critical"


def test_release_without_agents_has_no_alert_about_absent_agents(render: Render) -> None:
    found = alerts(render(agents=NO_AGENTS, prometheusRule={"enabled": True}))
    assert "AccelScopeAgentsAbsent" not in found
    assert "AccelScopeAgentDown" in found


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"prometheusRule": {"enabled": True, "disabledAlerts": ["AcceleratorLots"]}}, "AcceleratorLots"),
        (
            {"prometheusRule": {"enabled": True, "disabledAlerts": ["AcceleratorThrottled"]}},
            "AcceleratorThrottled; docs/alerts.md lists all alerts, and what replaced those of earlier",
        ),
        ({"prometheusRule": {"runbookBaseUrl": "wiki/alerts"}}, "runbookBaseUrl"),
        ({"prometheusRule": {"runbookBaseUrl": "https://wiki.example.org/a#b"}}, "runbookBaseUrl"),
        ({"prometheusRule": {"on": True}}, "on"),
        ({"grafanaDashboards": {"enabled": "yes"}}, "enabled"),
        (
            {
                "grafanaDashboards": {"enabled": True},
                "devicePlugin": {"enabled": True, "configMapName": "accelscope-dashboard-node"},
            },
            "accelscope-dashboard-node is already the ConfigMap of the dashboards",
        ),
    ],
)
def test_contradictory_values_are_rejected(
    template: Template, values: dict[str, Any], complaint: str
) -> None:
    done = template(values)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_dashboards_are_equal_to_the_files(render: Render) -> None:
    found = dashboards(render(grafanaDashboards={"enabled": True}))
    texts = {name: text for each in found for name, text in each["data"].items()}
    assert len(found) == len(texts) == len(DASHBOARDS)
    for file in DASHBOARDS:
        assert json.loads(texts[f"accelscope-{file.name}"]) == json.loads(file.read_text())


def test_dashboards_have_the_labels_of_the_sidecar(render: Render) -> None:
    plain = dashboards(render(grafanaDashboards={"enabled": True}))
    assert all(each["metadata"]["labels"]["grafana_dashboard"] == "1" for each in plain)
    assert all("annotations" not in each["metadata"] for each in plain)
    given = {
        "enabled": True,
        "namespace": "monitoring",
        "labels": {"team": "gpu"},
        "annotations": {"a": "b"},
        "folder": "Accelerators",
    }
    for each in dashboards(render(grafanaDashboards=given)):
        assert each["metadata"]["namespace"] == "monitoring"
        assert each["metadata"]["labels"]["team"] == "gpu"
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"] == {"a": "b", "grafana_folder": "Accelerators"}


def test_dashboards_fit_into_config_maps(render: Render) -> None:
    for each in dashboards(render(grafanaDashboards={"enabled": True})):
        assert len(json.dumps(each)) < MOST_BYTES / 2
        assert len(each["metadata"]["name"]) <= 63
