"""The chart: every feature brings its own privilege and no other; the agent understands what it is told."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.conftest import CHART, Render
from tests.deploy.objects import (
    FOREIGN_ENVIRONMENT,
    agent_settings,
    agents,
    container,
    environment,
    host_paths,
    of_kind,
    rights,
    settings_text,
)

import accelscope
from accelscope.agent.settings import AgentSettings
from accelscope.config.declaration import environment_name, key_name, settings_of

Template = Callable[[dict[str, Any]], subprocess.CompletedProcess[str]]

VENDORS = ["nvidia", "amd", "ascend", "furiosa"]
QUIET = {"hostPID": False, "pods": "off", "podResources": False}
LIST_PODS = {("", "pods", "list"), ("", "pods", "watch")}
LIST_SLICES = {
    ("resource.k8s.io", "resourceslices", "list"),
    ("resource.k8s.io", "resourceslices", "watch"),
}
PATCH_NODES = {("", "nodes", "patch")}

# Values that switch on all that they can, to see that the agent takes what the chart writes.
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


def test_chart_is_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == accelscope.__version__


def test_lint_has_nothing_to_say(helm: str) -> None:
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


# --- what the agent is told ----------------------------------------------------------------------------


@pytest.mark.parametrize("values", [{}, {"attribution": QUIET}, EVERYTHING], ids=["default", "quiet", "all"])
def test_agent_understands_what_it_is_told(render: Render, values: dict[str, Any], tmp_path: Path) -> None:
    objects = render(**values)
    file = tmp_path / "agent.yaml"
    file.write_text(settings_text(objects))
    known = {environment_name(declared.name) for declared in settings_of(AgentSettings)}
    for vendor, pod in agents(objects).items():
        assert set(environment(pod)) <= known | FOREIGN_ENVIRONMENT
        settings = agent_settings(objects, vendor, str(file))
        assert settings.readers == (tuple(VENDORS) if vendor == "any" else (vendor,))
        assert settings.node_name == "node-1"
        assert settings.exporter_port == container(pod)["ports"][0]["containerPort"]


def test_features_reach_the_agent(render: Render, tmp_path: Path) -> None:
    objects = render(**EVERYTHING)
    file = tmp_path / "agent.yaml"
    file.write_text(settings_text(objects))
    ascend = agent_settings(objects, "ascend", str(file))
    assert ascend.npu_annotation
    assert ascend.devices_annotation
    assert ascend.feature_labels == "nfd"
    assert ascend.token_review
    assert ascend.pod_source == "kubelet"
    assert ascend.kubelet_address == "https://192.0.2.1:10250"
    assert not agent_settings(objects, "amd", str(file)).npu_annotation, "it has no Ascend chip to write of"


def test_without_the_kubelets_folder_its_socket_is_not_asked(render: Render, tmp_path: Path) -> None:
    objects = render(attribution=QUIET)
    file = tmp_path / "agent.yaml"
    file.write_text(settings_text(objects))
    settings = agent_settings(objects, "amd", str(file))
    assert settings.pod_resources_socket == ""
    assert settings.pod_source == "off"
    assert not settings.resource_slices


def test_no_service_can_change_a_setting(render: Render) -> None:
    """A Service "exporter" would become EXPORTER_PORT=tcp://... in every pod beside it."""
    assert all(pod["enableServiceLinks"] is False for pod in agents(render()).values())


def test_roll_out_only_for_settings_that_need_a_restart(render: Render) -> None:
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


# --- who may do what ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, LIST_PODS | LIST_SLICES),
        ({"attribution": {"resourceSlices": False}}, LIST_PODS),
        ({"attribution": {"podResources": False}}, LIST_PODS),
        ({"attribution": {**QUIET, "podResources": True}}, LIST_SLICES),
        ({"attribution": QUIET}, set()),
        ({"attribution": {**QUIET, "pods": False}}, set()),
        ({"attribution": {**QUIET, "pods": "kubelet"}}, {("", "nodes/pods", "get")}),
        ({"attribution": {**QUIET, "nodeLabels": ["zone"]}}, {("", "nodes", "list"), ("", "nodes", "watch")}),
        ({"attribution": QUIET, "nodeObject": {"npuAnnotation": True}}, PATCH_NODES),
        ({"attribution": QUIET, "nodeObject": {"devicesAnnotation": True}}, PATCH_NODES),
        ({"attribution": QUIET, "nodeObject": {"featureLabels": "node"}}, PATCH_NODES),
        ({"attribution": QUIET, "nodeObject": {"featureLabels": "nfd"}}, set()),
        (
            {"attribution": QUIET, "http": {"tokenReview": True}},
            {
                ("authentication.k8s.io", "tokenreviews", "create"),
                ("authorization.k8s.io", "subjectaccessreviews", "create"),
            },
        ),
    ],
)
def test_every_right_belongs_to_a_feature(
    render: Render, values: dict[str, Any], expected: set[tuple[str, str, str]]
) -> None:
    objects = render(**values)
    assert rights(objects) == expected
    for pod in agents(objects).values():
        assert pod["automountServiceAccountToken"] is False
        tokens = [volume for volume in pod["volumes"] if volume["name"] == "api-token"]
        assert bool(tokens) == bool(expected), "a token only for who may do something with it"


@pytest.mark.parametrize(
    ("values", "vendor", "user", "extra"),
    [
        ({}, "nvidia", 0, {}),
        ({"attribution": {"podResources": False}}, "nvidia", 65532, {}),
        ({"attribution": {"podResources": False}}, "furiosa", 65532, {}),
        ({"attribution": {"podResources": False}}, "ascend", 0, {"privileged": True}),
        ({"attribution": QUIET, "agents": {"ascend": {"privileged": False}}}, "ascend", 65532, {}),
        ({"attribution": QUIET, "nodeObject": {"featureLabels": "nfd"}}, "furiosa", 0, {}),
        ({"attribution": QUIET, "nodeObject": {"featureLabels": "node"}}, "furiosa", 65532, {}),
        ({"attribution": QUIET, "agents": {"amd": {"openFiles": True}}}, "amd", 0, {"add": ["SYS_PTRACE"]}),
        ({"attribution": QUIET, "agents": {"amd": {"openFiles": True}}}, "nvidia", 65532, {}),
        ({"agents": {"amd": {"tools": {"enabled": True}}}}, "amd", 0, {"privileged": True}),
        ({"agents": {"amd": {"tools": {"enabled": True}}}}, "furiosa", 0, {}),
        ({"agents": {"nvidia": {"driverRoot": "/run/nvidia/driver"}}}, "nvidia", 0, {"privileged": True}),
    ],
)
def test_least_privilege(
    render: Render, values: dict[str, Any], vendor: str, user: int, extra: dict[str, Any]
) -> None:
    pod = agents(render(**values))[vendor]
    assert pod["securityContext"]["runAsUser"] == user
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["securityContext"].get("runAsNonRoot", False) == (user != 0)
    context = container(pod)["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    if "privileged" in extra:
        assert context["privileged"] is True
        assert "allowPrivilegeEscalation" not in context, "the API server refuses both"
    else:
        assert context["capabilities"] == {"drop": ["ALL"], **extra}
        assert context["allowPrivilegeEscalation"] is False
        assert "privileged" not in context


@pytest.mark.parametrize(
    ("values", "vendor", "expected"),
    [
        ({}, "nvidia", {"/var/lib/kubelet/pod-resources"}),
        ({"attribution": {"kubeletFolder": "/data/kubelet"}}, "amd", {"/data/kubelet/pod-resources"}),
        ({"attribution": QUIET}, "furiosa", set()),
        (
            {"attribution": QUIET},
            "ascend",
            {"/usr/local/Ascend/driver", "/usr/local/sbin/npu-smi", "/usr/local/dcmi"},
        ),
        ({"attribution": QUIET, "agents": {"amd": {"tools": {"enabled": True}}}}, "amd", {"/opt/rocm"}),
        ({"attribution": {**QUIET, "userNames": True}}, "amd", {"/etc/passwd"}),
        (
            {"attribution": QUIET, "nodeObject": {"featureLabels": "nfd"}},
            "amd",
            {"/etc/kubernetes/node-feature-discovery/features.d"},
        ),
    ],
)
def test_only_these_folders_of_the_node(
    render: Render, values: dict[str, Any], vendor: str, expected: set[str]
) -> None:
    pod = agents(render(**values))[vendor]
    assert host_paths(pod) == expected
    writable = [mount["name"] for mount in container(pod)["volumeMounts"] if not mount.get("readOnly")]
    assert set(writable) <= {"features", "scratch"}


def test_host_processes_by_default_and_off_by_value(render: Render) -> None:
    assert all(pod["hostPID"] for pod in agents(render()).values())
    assert not any("hostPID" in pod for pod in agents(render(attribution={"hostPID": False})).values())


def test_nothing_writes_to_nodes_by_default(render: Render) -> None:
    assert not of_kind(render(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@pytest.mark.parametrize(
    ("node_object", "contained", "missing"),
    [
        ({"npuAnnotation": True}, ["'k8s-monitor.io/npu-metrics'"], ["accelscope.io/devices", "matches"]),
        ({"devicesAnnotation": True}, ["'accelscope.io/devices'"], ["npu-metrics", "matches"]),
        (
            {"featureLabels": "node", "featureDomains": ["furiosa.ai"]},
            ["matches('^(furiosa[.]ai/(npu|driver|firmware)[.])')"],
            ["accelscope[.]io", "beta", "npu-metrics"],
        ),
    ],
)
def test_policy_allows_only_what_is_switched_on(
    render: Render, node_object: dict[str, Any], contained: list[str], missing: list[str]
) -> None:
    objects = render(nodeObject=node_object)
    [policy] = of_kind(objects, "ValidatingAdmissionPolicy")
    [binding] = of_kind(objects, "ValidatingAdmissionPolicyBinding")
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    [condition] = policy["spec"]["matchConditions"]
    assert "'system:serviceaccount:metrics:accelscope'" in condition["expression"]
    expressions = " ".join(each["expression"] for each in policy["spec"]["validations"])
    assert all(text in expressions for text in contained)
    assert not any(text in expressions for text in missing)


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("accelscope.io/nvidia.count", True),
        ("accelscope.io/machine.vendor", True),
        ("beta.furiosa.ai/npu.family", True),
        ("beta.furiosa.ai/machine.name", True),
        ("beta.furiosa.ai/driver.version.major", True),
        ("furiosa.ai/npu.driver.version", True),
        ("furiosa.ai/driver.version.metadata", True),
        ("furiosa.ai/firmware.version", True),
        ("furiosa.ai/pool", False),
        ("agents.accelscope.io/amd", False),
        ("kubernetes.io/hostname", False),
        ("accelscopeXio/nvidia.count", False),
    ],
)
def test_policy_knows_our_labels(render: Render, label: str, allowed: bool) -> None:
    [policy] = of_kind(render(nodeObject={"featureLabels": "node"}), "ValidatingAdmissionPolicy")
    patterns = re.findall(r"matches\('(.+?)'\)", policy["spec"]["validations"][-1]["expression"])
    assert len(patterns) == 2
    assert {bool(re.search(pattern, label)) for pattern in patterns} == {allowed}


# --- where it runs -------------------------------------------------------------------------------------


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
def test_each_vendor_has_its_nodes(render: Render, vendor: str, label: str) -> None:
    pods = agents(render())
    having = [
        name
        for name, pod in pods.items()
        for term in terms(pod)
        if term["matchExpressions"][0]["key"] == label
    ]
    assert having == [vendor]


def test_nodes_are_replaced_and_emptied(render: Render) -> None:
    pods = agents(render(agents={"nvidia": {"nodes": ["pool=gpu"]}, "amd": {"nodes": []}}))
    [term] = terms(pods["nvidia"])
    assert term == {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}
    assert "affinity" not in pods["amd"]


def test_vendors_agents_stay_off_the_nodes_of_the_one_for_all(render: Render) -> None:
    pods = agents(render(agents={"any": {"enabled": True}, "amd": {"nodes": []}}))
    kept = {"key": "agents.accelscope.io/any", "operator": "NotIn", "values": ["true"]}
    assert list(pods) == ["amd", "any", "ascend", "furiosa", "nvidia"]
    assert all(kept in term["matchExpressions"] for name in VENDORS for term in terms(pods[name]))
    assert terms(pods["amd"]) == [{"matchExpressions": [kept]}]
    assert "NotIn" not in str(terms(pods["any"]))


# --- resources, page, scraping --------------------------------------------------------------------------


def test_memory_where_python_tools_run(render: Render) -> None:
    plain = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}
    pods = agents(render(agents={"amd": {"tools": {"enabled": True}}}))
    assert container(pods["nvidia"])["resources"] == plain
    assert container(pods["amd"])["resources"] == {**plain, "limits": {"cpu": "100m", "memory": "256Mi"}}
    own = {"tools": {"enabled": True}, "resources": {"limits": {"memory": "1Gi"}}}
    assert container(agents(render(agents={"amd": own}))["amd"])["resources"]["limits"]["memory"] == "1Gi"


def test_https_also_for_probes_and_scrapes(render: Render) -> None:
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
def test_scraped_one_way_only(render: Render, by: str, annotated: bool, kinds: set[str]) -> None:
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
        ("dcgm,vgpu", ["exported_namespace", "exported_pod", "exported_container"]),
    ],
)
def test_exported_copies_only_for_dialects_that_had_them(
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
        name = "DCGM_FI_DEV_GPU_UTIL" if "DCGM" in rule["regex"] else "npu_chip_info_power"
        assert re.fullmatch(rule["regex"], f"{name};team-a")
        assert not re.fullmatch(rule["regex"], f"{name};"), "a device that nobody holds has no copy"


def test_network_policy_opens_what_features_need(render: Render) -> None:
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


# --- bad values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"image": {}}, "image.registry"),
        ({"hostPID": False}, "hostPID"),
        ({"agents": {"intel": {"enabled": True}}}, "intel"),
        ({"agents": {"amd": {"driverRoot": "/x"}}}, "driverRoot"),
        ({"attribution": {"pods": "docker"}}, "pods"),
        ({"nodeObject": {"featureLabels": "yes"}}, "featureLabels"),
        ({"nodeObject": {"featureDomains": ["example.org"]}}, "featureDomains"),
        ({"http": {"port": "9400"}}, "port"),
        ({"config": {"npuAnnotation": True}}, "set nodeObject.npuAnnotation instead"),
        ({"config": {"tokenFile": "/x"}}, "set http.tokenSecretName instead"),
        ({"scrape": {"by": "magic"}}, "by"),
        ({"scrape": {"by": "serviceMonitor"}, "service": {"enabled": False}}, "service.enabled"),
        ({"http": {"tls": {"clientCASecretName": "ca"}}}, "http.tls.secretName"),
        ({"agents": {"any": {"enabled": True, "nodes": []}}}, "agents.any.nodes"),
    ],
)
def test_bad_values_are_refused_by_name(template: Template, values: dict[str, Any], complaint: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_every_value_that_stands_for_a_setting_is_there() -> None:
    declared = (CHART / "templates" / "_features.tpl").read_text()
    [block] = re.findall(r'define "accelscope.ownSettings" -}}\n(.+?)\n{{- end', declared, re.DOTALL)
    known = {key_name(each.name) for each in settings_of(AgentSettings)}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for key, path in yaml.safe_load(block).items():
        assert key in known
        place = values
        for name in path.split("."):
            place = place[name]
