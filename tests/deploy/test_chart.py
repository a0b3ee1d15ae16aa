"""The chart's agents: settings, scheduling and scraping."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.conftest import Render, Template
from tests.deploy.objects import (
    FOREIGN_ENVIRONMENT,
    agent_settings,
    agents,
    container,
    environment,
    host_paths,
    of_kind,
    read_objects,
    settings_text,
)
from tests.deploy.values import VENDORS
from tests.repository import CHART

import accelscope
from accelscope.agent.settings import AgentSettings
from accelscope.config.settings import environment_name, key_name, settings_of
from accelscope.vendors import declarations

QUIET = {"hostPID": False, "pods": "off", "podResources": False}

# Values that enable as much as possible, to check that the agent accepts the chart's settings.
EVERYTHING: dict[str, Any] = {
    "agents": {
        "any": {"enabled": True},
        "nvidia": {"driverRoot": "/run/nvidia/driver"},
        "amd": {"tools": {"enabled": True}, "openFiles": True},
    },
    "attribution": {
        "pods": "kubelet",
        "podLabels": ["team"],
        "nodeLabels": ["topology.kubernetes.io/zone"],
        "userNames": True,
    },
    "nodeObject": {"npuAnnotation": True, "devicesAnnotation": True, "featureLabels": "nfd"},
    "http": {
        "port": 9410,
        "tls": {"secretName": "tls", "clientCASecretName": "ca"},
        "tokenSecretName": "token",
        "tokenReview": True,
    },
    "config": {"collectionInterval": "5s", "dialect": ["dcgm", "vgpu"], "shares": {"models": {"*": 2}}},
    "scrape": {"by": "serviceMonitor"},
    "networkPolicy": {"enabled": True},
}


def test_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == accelscope.__version__


def test_helm_lint_passes(helm: str) -> None:
    done = subprocess.run(
        [helm, "lint", "--strict", "--set=image.registry=registry.test", str(CHART)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    assert "ERROR" not in done.stdout
    assert "WARNING" not in done.stdout


# --- settings of the agent -----------------------------------------------------------------------------


@pytest.mark.parametrize("values", [{}, {"attribution": QUIET}, EVERYTHING], ids=["default", "quiet", "all"])
def test_agent_accepts_the_rendered_settings(render: Render, values: dict[str, Any], tmp_path: Path) -> None:
    objects = render(**values)
    file = tmp_path / "agent.yaml"
    file.write_text(settings_text(objects))
    known = {environment_name(declared.name) for declared in settings_of(AgentSettings)}
    for vendor, pod in agents(objects).items():
        assert set(environment(pod)) <= known | FOREIGN_ENVIRONMENT
        settings = agent_settings(objects, vendor, str(file))
        assert settings.readers == (VENDORS if vendor == "any" else (vendor,))
        assert settings.node_name == "node-1"
        assert settings.exporter_port == container(pod)["ports"][0]["containerPort"]


def test_features_reach_the_agent(render: Render, tmp_path: Path) -> None:
    objects = render(**EVERYTHING)
    file = tmp_path / "agent.yaml"
    file.write_text(settings_text(objects))
    ascend = agent_settings(objects, "ascend", str(file))
    assert ascend.vendor_annotations["npu_annotation"]
    assert ascend.devices_annotation
    assert ascend.feature_labels == "nfd"
    assert ascend.token_review
    assert ascend.pod_source == "kubelet"
    assert ascend.kubelet_address == "https://192.0.2.1:10250"
    amd = agent_settings(objects, "amd", str(file))
    assert not amd.vendor_annotations["npu_annotation"], "it has no Ascend chip to write of"


def test_without_the_kubelet_folder_its_socket_is_not_used(render: Render, tmp_path: Path) -> None:
    objects = render(attribution=QUIET)
    file = tmp_path / "agent.yaml"
    file.write_text(settings_text(objects))
    settings = agent_settings(objects, "amd", str(file))
    assert settings.pod_resources_socket == ""
    assert settings.pod_source == "off"
    assert not settings.resource_slices


def test_no_service_can_change_a_setting(render: Render) -> None:
    """A Service "exporter" would set EXPORTER_PORT=tcp://... in every pod of its namespace."""
    assert all(pod["enableServiceLinks"] is False for pod in agents(render()).values())


def test_only_settings_that_need_a_restart_cause_a_rollout(render: Render) -> None:
    declared = (CHART / "templates" / "_features.tpl").read_text()
    [listed] = re.findall(r'define "accelscope.reloadable" -}}\n(.+)\n', declared)
    reloadable = {
        key_name(each.name) for each in settings_of(AgentSettings) if each.reloadable and each.in_file
    }
    assert set(listed.split()) <= reloadable

    def stamp(**config: Any) -> Any:
        [daemonset, *_] = of_kind(render(config=config), "DaemonSet")
        return daemonset["spec"]["template"]["metadata"]["annotations"]["accelscope.io/settings"]

    assert stamp() == stamp(collectionInterval="5s", dialect=["dcgm"])
    assert stamp() != stamp(toolInterval="30s")


# --- scheduling ----------------------------------------------------------------------------------------


def terms(pod: dict[str, Any]) -> list[dict[str, Any]]:
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found = affinity["nodeSelectorTerms"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("vendor", "label"),
    [
        ("nvidia", "nvidia.com/gpu.present"),
        ("amd", "feature.node.kubernetes.io/amd-gpu"),
        ("ascend", "accelerator/huawei-npu"),
        ("furiosa", "feature.node.kubernetes.io/pci-1ed2.present"),
        ("furiosa", "feature.node.kubernetes.io/pci-1200_1ed2.present"),
    ],
)
def test_agents_run_on_nodes_of_their_vendor(render: Render, vendor: str, label: str) -> None:
    pods = agents(render())
    having = [
        name
        for name, pod in pods.items()
        for term in terms(pod)
        if term["matchExpressions"][0]["key"] == label
    ]
    assert having == [vendor]


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_node_labels_of_an_agent_are_those_that_its_vendor_declares(vendor: str) -> None:
    """Or its PCI vendor id alone, or the label that users set themselves."""
    labels = yaml.safe_load((CHART / "values.yaml").read_text())["agents"][vendor]["nodes"]
    declared = declarations()[vendor]
    pci = [f"feature.node.kubernetes.io/pci-{word}.present" for word in declared.words]
    own = f"agents.accelscope.io/{vendor}=true"
    assert own in labels
    for name in (label.partition("=")[0] for label in labels if label != own):
        assert name in pci or any(re.fullmatch(pattern, name) for pattern in declared.node_labels), name


def test_nodes_can_be_replaced_and_emptied(render: Render) -> None:
    pods = agents(render(agents={"nvidia": {"nodes": ["pool=gpu"]}, "amd": {"nodes": []}}))
    [term] = terms(pods["nvidia"])
    assert term == {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}
    assert "affinity" not in pods["amd"]


def test_vendor_agents_do_not_run_on_nodes_of_agents_any(render: Render) -> None:
    pods = agents(render(agents={"any": {"enabled": True}, "amd": {"nodes": []}}))
    assert list(pods) == sorted([*VENDORS, "any"])
    assert all(KEPT in term["matchExpressions"] for name in VENDORS for term in terms(pods[name]))
    assert terms(pods["amd"]) == [{"matchExpressions": [KEPT]}]
    assert "NotIn" not in str(terms(pods["any"]))


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KEPT = {"key": "agents.accelscope.io/any", "operator": "NotIn", "values": ["true"]}
RACK = {"key": "rack", "operator": "In", "values": ["7"]}
BY_NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
APART = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname"}]}}


@pytest.mark.parametrize(
    ("own", "fenced"),
    [
        ([{"matchExpressions": [RACK]}], [{"matchExpressions": [RACK, KEPT]}]),
        (
            [{"matchExpressions": [RACK]}, BY_NAME],
            [{"matchExpressions": [RACK, KEPT]}, {**BY_NAME, "matchExpressions": [KEPT]}],
        ),
        ([], [{"matchExpressions": [KEPT]}]),
    ],
    ids=["one term", "two terms", "of pods only"],
)
def test_custom_affinity_excludes_nodes_of_agents_any(
    render: Render, own: list[dict[str, Any]], fenced: list[dict[str, Any]]
) -> None:
    affinity = {**APART, **({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own}}} if own else {})}
    alone = agents(render(agents={"amd": {"affinity": affinity}}))["amd"]
    assert alone["affinity"] == affinity
    beside = agents(render(agents={"any": {"enabled": True}, "amd": {"affinity": affinity}}))["amd"]
    assert terms(beside) == fenced
    assert beside["affinity"]["podAntiAffinity"] == APART["podAntiAffinity"]


# --- resources, HTTP, scraping --------------------------------------------------------------------------


def test_memory_limit_is_higher_with_python_tools(render: Render) -> None:
    plain = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}
    pods = agents(render(agents={"amd": {"tools": {"enabled": True}}}))
    assert container(pods["nvidia"])["resources"] == plain
    assert container(pods["amd"])["resources"] == {**plain, "limits": {"cpu": "100m", "memory": "256Mi"}}
    own = {"tools": {"enabled": True}, "resources": {"limits": {"memory": "1Gi"}}}
    assert container(agents(render(agents={"amd": own}))["amd"])["resources"]["limits"]["memory"] == "1Gi"


def test_probes_and_scrapes_use_https(render: Render) -> None:
    objects = render(http={"tls": {"secretName": "tls"}}, scrape={"by": "podMonitor"})
    probes = [
        container(pod)[probe]
        for pod in agents(objects).values()
        for probe in ("livenessProbe", "readinessProbe")
    ]
    assert {probe["httpGet"]["scheme"] for probe in probes} == {"HTTPS"}
    [monitor] = of_kind(objects, "PodMonitor")
    assert monitor["spec"]["podMetricsEndpoints"][0]["scheme"] == "https"


@pytest.mark.parametrize(
    ("by", "annotated", "kinds"),
    [
        ("annotations", True, set()),
        ("none", False, set()),
        ("serviceMonitor", False, {"ServiceMonitor"}),
        ("podMonitor", False, {"PodMonitor"}),
    ],
)
def test_only_one_way_of_scraping_is_configured(
    render: Render, by: str, annotated: bool, kinds: set[str]
) -> None:
    objects = render(scrape={"by": by})
    for daemonset in of_kind(objects, "DaemonSet"):
        annotations = daemonset["spec"]["template"]["metadata"]["annotations"]
        assert ("prometheus.io/scrape" in annotations) == annotated
    assert {each["kind"] for each in objects if each["kind"].endswith("Monitor")} == kinds


@pytest.mark.parametrize(
    ("dialects", "copied"),
    [
        ([], []),
        (["amd", "furiosa"], []),
        (["dcgm"], ["exported_namespace", "exported_pod", "exported_container"]),
        (["npu-exporter"], ["exported_namespace"]),
        (["openshift"], ["exported_namespace", "exported_pod", "exported_container"]),
        ("dcgm,vgpu", ["exported_namespace", "exported_pod", "exported_container"]),
        (" vgpu , dcgm ", ["exported_namespace", "exported_pod", "exported_container"]),
        (
            "dcgm, npu-exporter",
            ["exported_namespace", "exported_pod", "exported_container", "exported_namespace"],
        ),
        (
            ["npu-exporter", "dcgm"],
            ["exported_namespace", "exported_pod", "exported_container", "exported_namespace"],
        ),
    ],
)
def test_exported_labels_are_added_only_for_dialects_that_need_them(
    render: Render, dialects: Any, copied: list[str]
) -> None:
    [monitor] = of_kind(
        render(scrape={"by": "serviceMonitor"}, config={"dialect": dialects}), "ServiceMonitor"
    )
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["honorLabels"] is True
    rules = endpoint.get("metricRelabelings", [])
    assert [rule["targetLabel"] for rule in rules] == copied
    for rule in rules:
        assert not re.fullmatch(rule["regex"], "accelerator_pod_processes;team-a")
        [name] = [
            name
            for word, name in (
                ("DCGM", "DCGM_FI_DEV_GPU_UTIL"),
                ("npu", "npu_chip_info_power"),
                ("gpu_utilization", "accelerator_gpu_utilization"),
            )
            if word in rule["regex"]
        ]
        assert re.fullmatch(rule["regex"], f"{name};team-a")
        assert not re.fullmatch(rule["regex"], f"{name};"), "a device that nobody holds has no copy"


def test_relabelings_of_the_user_follow_those_of_the_chart(render: Render) -> None:
    job = {"targetLabel": "job", "replacement": "nvidia-dcgm-exporter"}
    drop = {"sourceLabels": ["__name__"], "regex": "accelerator_memory_used_bytes", "action": "drop"}
    [monitor] = of_kind(
        render(
            scrape={
                "by": "podMonitor",
                "endpoint": {"relabelings": [job], "metricRelabelings": [drop], "honorLabels": False},
            },
            config={"dialect": ["npu-exporter"]},
        ),
        "PodMonitor",
    )
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert [rule.get("targetLabel", rule.get("action")) for rule in endpoint["relabelings"]] == [
        "node",
        "labeldrop",
        "job",
    ]
    assert [rule.get("targetLabel") for rule in endpoint["metricRelabelings"]] == ["exported_namespace", None]
    assert endpoint["honorLabels"] is False, "what is no list is replaced"


def test_counters_file_is_mounted_with_the_settings(
    render: Render, template: Template, tmp_path: Path
) -> None:
    text = "# mine\n\nDCGM_FI_DEV_GPU_TEMP, gauge, Temperature (in C).\n"
    objects = render(config={"dialect": ["dcgm"]}, dcgmCounters=text)
    [settings] = [each for each in of_kind(objects, "ConfigMap") if "agent.yaml" in each["data"]]
    assert settings["data"]["dcgm-counters.csv"] == text
    file = tmp_path / "agent.yaml"
    file.write_text(settings["data"]["agent.yaml"])
    mounted = agent_settings(objects, "nvidia", str(file)).dialect_options["dcgm_counters"]
    assert mounted == "/etc/accelscope/settings/dcgm-counters.csv"
    for values, complaint in (
        ({"dcgmCounters": text}, "dcgmCounters needs dcgm in config.dialect"),
        (
            {"dcgmCounters": text, "config": {"dialect": "dcgm", "dcgmCounters": "/x.csv"}},
            "set only one of them",
        ),
    ):
        refused = template(values)
        assert refused.returncode != 0
        assert complaint in refused.stderr


def test_example_scrapes_only_the_agents_of_its_release(template: Template) -> None:
    example = yaml.safe_load((CHART / "examples" / "scrape-config.yaml").read_text())
    [job] = example["scrape_configs"]
    [discovery] = job["kubernetes_sd_configs"]
    assert discovery["namespaces"] == {"names": ["accelscope-system"]}, "that of docs/install.md"
    [selector] = discovery["selectors"]
    wanted = dict(pair.split("=") for pair in selector["label"].split(","))
    chosen = []
    for release in ("accelscope", "accelscope-two"):
        done = template({"devicePlugin": {"enabled": True}}, release=release)
        for daemonset in of_kind(read_objects(done.stdout), "DaemonSet"):
            if wanted.items() <= daemonset["spec"]["template"]["metadata"]["labels"].items():
                chosen.append(daemonset["metadata"]["name"])
    assert chosen == [f"accelscope-{vendor}" for vendor in sorted(VENDORS)]


def test_network_policy_allows_what_features_need(render: Render) -> None:
    def egress(**values: Any) -> list[Any]:
        [policy] = of_kind(render(networkPolicy={"enabled": True}, **values), "NetworkPolicy")
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        return [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]

    assert egress() == [443, 6443]
    assert egress(attribution={**QUIET, "pods": "kubelet"}) == [10250]
    assert egress(attribution=QUIET) == []
    assert not of_kind(render(), "NetworkPolicy")


def test_a_simulated_driver_can_be_mounted(render: Render) -> None:
    objects = render(
        agents={
            "any": {
                "enabled": True,
                "extraArgs": ["--sys-root=/node/sys"],
                "env": {"NVML_LIBRARY": "/node/nvml.so"},
            }
        },
        extraVolumes=[{"name": "node", "hostPath": {"path": "/srv/node"}}],
        extraVolumeMounts=[{"name": "node", "mountPath": "/node", "readOnly": True}],
    )
    pod = agents(objects)["any"]
    assert container(pod)["args"] == ["agent", "--sys-root=/node/sys"]
    assert environment(pod)["NVML_LIBRARY"] == "/node/nvml.so"
    assert "/srv/node" in host_paths(pod)
