"""Every feature of the chart adds only the privileges that it needs."""

import re
from typing import Any

import pytest
from tests.deploy.conftest import Render, Template
from tests.deploy.objects import agents, container, device_plugin, environment, host_paths, of_kind, rights
from tests.deploy.values import VENDORS

from accelscope.sinks import ACCELSCOPE, DOMAINS

QUIET = {"hostPID": False, "pods": "off", "podResources": False}
STATE = "/var/lib/accelscope/metrics-accelscope-{}"
LIST_PODS = {("", "pods", "list"), ("", "pods", "watch")}
LIST_SLICES = {
    ("resource.k8s.io", "resourceslices", "list"),
    ("resource.k8s.io", "resourceslices", "watch"),
}
PATCH_NODES = {("", "nodes", "patch")}


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
def test_every_permission_belongs_to_a_feature(
    render: Render, values: dict[str, Any], expected: set[tuple[str, str, str]]
) -> None:
    objects = render(**values)
    assert rights(objects) == expected
    made = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    assert made == {pod["serviceAccountName"] for pod in agents(objects).values()}
    for pod in agents(objects).values():
        assert pod["automountServiceAccountToken"] is False
        tokens = [volume for volume in pod["volumes"] if volume["name"] == "api-token"]
        own = rights(objects, pod["serviceAccountName"])
        assert bool(tokens) == bool(own), "a token only for who may do something with it"


@pytest.mark.parametrize(
    ("node_object", "writing"),
    [
        ({}, set()),
        ({"npuAnnotation": True}, {"ascend", "any"}),
        ({"devicesAnnotation": True}, {*VENDORS, "any"}),
        ({"featureLabels": "node"}, {*VENDORS, "any"}),
        ({"npuAnnotation": True, "featureLabels": "nfd"}, {"ascend", "any"}),
        ({"npuAnnotation": True, "featureLabels": "node"}, {*VENDORS, "any"}),
    ],
)
@pytest.mark.parametrize("attribution", [{}, QUIET], ids=["pods", "quiet"])
def test_only_agents_that_write_to_nodes_may_patch_them(
    render: Render, attribution: dict[str, Any], node_object: dict[str, Any], writing: set[str]
) -> None:
    objects = render(
        agents={"any": {"enabled": True}},
        attribution=attribution,
        nodeObject=node_object,
        serviceAccount={"name": "watchers"},
    )
    reading = set() if attribution else LIST_PODS | LIST_SLICES
    for vendor, pod in agents(objects).items():
        expected = reading | (PATCH_NODES if vendor in writing else set())
        assert rights(objects, pod["serviceAccountName"]) == expected, vendor


def test_annotation_without_a_writing_agent_adds_no_permission(render: Render) -> None:
    objects = render(
        agents={"ascend": {"enabled": False}}, attribution=QUIET, nodeObject={"npuAnnotation": True}
    )
    assert rights(objects) == set()
    assert not of_kind(objects, "ValidatingAdmissionPolicy")


def test_existing_account_is_used_by_all_agents(render: Render) -> None:
    objects = render(serviceAccount={"create": False, "name": "theirs"}, nodeObject={"npuAnnotation": True})
    assert {pod["serviceAccountName"] for pod in agents(objects).values()} == {"theirs"}
    assert not of_kind(objects, "ServiceAccount")
    assert rights(objects, "theirs") == rights(objects) == LIST_PODS | LIST_SLICES | PATCH_NODES
    [policy] = of_kind(objects, "ValidatingAdmissionPolicy")
    assert own_annotations(policy) == {"theirs": {"k8s-monitor.io/npu-metrics"}}


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


def test_dcmi_is_mounted_at_the_path_of_the_node(render: Render) -> None:
    """The device plugin passes these paths to containers, so they must be those of the node."""
    values: dict[str, Any] = {
        "agents": {"ascend": {"driver": {"dcmi": "/opt/dcmi"}}},
        "devicePlugin": {"enabled": True, "vendor": "ascend"},
    }
    objects = render(**values)
    for pod in (agents(objects)["ascend"], device_plugin(objects)):
        assert "/opt/dcmi" in host_paths(pod)
        places = {each["mountPath"] for each in container(pod)["volumeMounts"]}
        assert "/opt/dcmi" in places
        assert "/usr/local/dcmi" not in places
        assert environment(pod)["LD_LIBRARY_PATH"] == "/opt/dcmi"
    assert "LD_LIBRARY_PATH" not in environment(agents(render())["ascend"])


@pytest.mark.parametrize(
    ("values", "vendor", "expected"),
    [
        ({}, "nvidia", {"/var/lib/kubelet/pod-resources", STATE.format("nvidia")}),
        (
            {"attribution": {"kubeletFolder": "/data/kubelet"}},
            "amd",
            {"/data/kubelet/pod-resources", STATE.format("amd")},
        ),
        ({"attribution": {"stateFolder": ""}}, "amd", {"/var/lib/kubelet/pod-resources"}),
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
def test_only_required_host_paths_are_mounted(
    render: Render, values: dict[str, Any], vendor: str, expected: set[str]
) -> None:
    pod = agents(render(**values))[vendor]
    assert host_paths(pod) == expected
    writable = [mount["name"] for mount in container(pod)["volumeMounts"] if not mount.get("readOnly")]
    assert set(writable) <= {"features", "scratch", "state"}


def test_each_agent_has_a_state_folder_that_survives_a_rollout(render: Render) -> None:
    pods = agents(render(attribution={"stateFolder": "/data/state"}))
    folders = set()
    for vendor, pod in pods.items():
        [state] = [volume["hostPath"] for volume in pod["volumes"] if volume["name"] == "state"]
        assert state["type"] == "DirectoryOrCreate"
        assert state["path"].startswith("/data/state/")
        [mount] = [mount for mount in container(pod)["volumeMounts"] if mount["name"] == "state"]
        assert environment(pod)["STATE_FOLDER"] == mount["mountPath"]
        assert pod["securityContext"]["runAsUser"] == 0, "who may write what the kubelet made"
        folders.add(state["path"])
        assert vendor in state["path"]
    assert len(folders) == len(pods)
    for off in ({"stateFolder": ""}, {"podResources": False}):
        for pod in agents(render(attribution=off)).values():
            assert "STATE_FOLDER" not in environment(pod)
            assert "state" not in {volume["name"] for volume in pod["volumes"]}


def test_host_pid_is_on_by_default_and_can_be_disabled(render: Render) -> None:
    assert all(pod["hostPID"] for pod in agents(render()).values())
    assert not any("hostPID" in pod for pod in agents(render(attribution={"hostPID": False})).values())


def test_nothing_writes_to_nodes_by_default(render: Render) -> None:
    assert not of_kind(render(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def own_annotations(policy: dict[str, Any]) -> dict[str, set[str]]:
    """Keys that each account may write according to the policy."""
    [condition] = policy["spec"]["matchConditions"]
    account = r"'system:serviceaccount:metrics:(.+?)'"
    [chosen] = [
        each["expression"] for each in policy["spec"]["variables"] if each["name"] == "ownAnnotations"
    ]
    found = re.findall(rf"username == {account} \? \[(.*?)\] :", chosen)
    assert [name for name, _ in found] == re.findall(account, condition["expression"])
    return {name: set(re.findall(r"'(.+?)'", keys)) for name, keys in found}


NPU_METRICS, DEVICES = "k8s-monitor.io/npu-metrics", "accelscope.io/devices"
COMMON, OF_NPUS = "accelscope", "accelscope-npu-annotation"


@pytest.mark.parametrize(
    ("node_object", "annotations", "label_patterns"),
    [
        ({"npuAnnotation": True}, {OF_NPUS: {NPU_METRICS}}, set()),
        (
            {"devicesAnnotation": True},
            {COMMON: {DEVICES, *(f"{DEVICES}.{vendor}" for vendor in VENDORS)}},
            set(),
        ),
        (
            {"npuAnnotation": True, "devicesAnnotation": True},
            {
                COMMON: {DEVICES, f"{DEVICES}.nvidia", f"{DEVICES}.amd", f"{DEVICES}.furiosa"},
                OF_NPUS: {DEVICES, f"{DEVICES}.ascend", NPU_METRICS},
            },
            set(),
        ),
        (
            {"npuAnnotation": True, "featureLabels": "node", "featureDomains": ["furiosa.ai"]},
            {COMMON: set(), OF_NPUS: {NPU_METRICS}},
            {"^(furiosa[.]ai/(npu|driver|firmware)[.])"},
        ),
    ],
)
def test_policy_allows_only_enabled_keys(
    render: Render,
    node_object: dict[str, Any],
    annotations: dict[str, set[str]],
    label_patterns: set[str],
) -> None:
    objects = render(nodeObject=node_object)
    [policy] = of_kind(objects, "ValidatingAdmissionPolicy")
    [binding] = of_kind(objects, "ValidatingAdmissionPolicyBinding")
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    assert own_annotations(policy) == annotations
    new, old = changes(policy)
    assert set(patterns(" ".join(new))) == label_patterns
    assert len(patterns(" ".join(old))) == 2, "what was on before can be removed"


def changes(policy: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Expressions of the policy for current and previous annotations and labels."""
    said = [
        each["expression"] for each in policy["spec"]["validations"] if "its own" in each.get("message", "")
    ]
    parted = [re.split(r" && variables\.old\w+\.all\(", each) for each in said]
    return [new for new, _ in parted], [old for _, old in parted]


def patterns(expression: str) -> list[str]:
    return re.findall(r"matches\('(.+?)'\)", expression)


@pytest.mark.parametrize(
    "node_object",
    [
        {"npuAnnotation": True},
        {"devicesAnnotation": True},
        {"featureLabels": "node", "featureDomains": ["accelscope.io"]},
    ],
)
@pytest.mark.parametrize(
    ("annotation", "removable"),
    [
        (NPU_METRICS, True),
        (DEVICES, True),
        (f"{DEVICES}.ascend", True),
        (f"{DEVICES}.amd-furiosa", True),
        ("accelscope.io/other", False),
        ("node.alpha.kubernetes.io/ttl", False),
    ],
)
def test_keys_of_a_disabled_sink_may_be_removed(
    render: Render, node_object: dict[str, Any], annotation: str, removable: bool
) -> None:
    [policy] = of_kind(render(nodeObject=node_object), "ValidatingAdmissionPolicy")
    _, old = changes(policy)
    [of_annotations], [of_labels] = map(patterns, old)
    assert bool(re.search(of_annotations, annotation)) == removable
    for domain in DOMAINS:
        assert re.search(
            of_labels, f"{domain}/npu.count" if domain != ACCELSCOPE else f"{domain}/nvidia.count"
        )


def test_policy_rejects_with_the_reason_forbidden(render: Render) -> None:
    """Without a reason the API server returns 422, as for an invalid Node."""
    [policy] = of_kind(render(nodeObject={"npuAnnotation": True}), "ValidatingAdmissionPolicy")
    assert {each.get("reason") for each in policy["spec"]["validations"]} == {"Forbidden"}


@pytest.mark.parametrize(
    ("kubernetes", "node_object", "rendered"),
    [
        ("1.29.4", {"npuAnnotation": True}, False),
        ("1.29.4", {"npuAnnotation": True, "admissionPolicy": False}, True),
        ("1.29.4", {}, True),
        ("1.29.4", {"featureLabels": "nfd"}, True),
        ("1.30.0-gke.100", {"npuAnnotation": True}, True),
    ],
)
def test_policy_fails_on_old_kubernetes_versions(
    template: Template, kubernetes: str, node_object: dict[str, Any], rendered: bool
) -> None:
    done = template({"nodeObject": node_object}, kubernetes=kubernetes)
    assert (done.returncode == 0) == rendered, done.stderr
    if not rendered:
        assert "nodeObject.admissionPolicy: needs Kubernetes 1.30 or newer, this is v1.29.4" in done.stderr


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
def test_policy_allows_only_labels_of_accelscope(render: Render, label: str, allowed: bool) -> None:
    [policy] = of_kind(render(nodeObject={"featureLabels": "node"}), "ValidatingAdmissionPolicy")
    found = patterns(policy["spec"]["validations"][-1]["expression"])
    assert len(found) == 2
    assert {bool(re.search(pattern, label)) for pattern in found} == {allowed}
