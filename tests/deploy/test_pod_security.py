"""The chart's pods against the Pod Security Standards: they deviate from `restricted` only as far as a
feature needs, and docs/security.md lists it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.conftest import Render
from tests.deploy.objects import Objects, of_kind, read_objects
from tests.deploy.pod_security import Control, broken_of_baseline, broken_of_restricted
from tests.deploy.values import NO_AGENTS, VENDORS
from tests.repository import REPOSITORY

PLUGIN, FLEET = "device-plugin", "fleet"
ANY_AGENT = frozenset((*VENDORS, "any"))

HOST_PATH = frozenset({Control.HOST_PATH, Control.VOLUME_TYPES})
USER_0 = frozenset({Control.NON_ROOT, Control.NON_ROOT_USER})
# A privileged container cannot drop capabilities, and the API server rejects it if it forbids escalation.
PRIVILEGED = frozenset({Control.PRIVILEGED, Control.CAPABILITIES, Control.ESCALATION}) | USER_0
PTRACE = frozenset({Control.CAPABILITIES})
NAMESPACES = frozenset({Control.HOST_NAMESPACES})


@dataclass(frozen=True)
class Feature:
    """A row of docs/security.md: the values of a feature, and the controls that it breaks in which pods."""

    row: str  # the first of the row's values of the chart, as the page has it
    values: dict[str, Any]
    breaks: frozenset[Control] = frozenset()
    of: frozenset[str] = ANY_AGENT
    why: str = ""


OFF: dict[str, Any] = {
    "agents": {
        "any": {"enabled": True},
        "ascend": {"privileged": False, "driver": {"root": "", "npuSmi": "", "dcmi": ""}},
    },
    "attribution": {"hostPID": False, "pods": "off", "podResources": False},
}

# Of every agent.
COMMON = [
    Feature(
        "attribution.hostPID", {"attribution": {"hostPID": True}}, NAMESPACES, why="the node's process table"
    ),
    Feature(
        "attribution.podResources",
        {"attribution": {"podResources": True}},
        HOST_PATH | USER_0,
        why="the kubelet's socket, which is root's",
    ),
    Feature(
        "attribution.userNames",
        {"attribution": {"userNames": True}},
        HOST_PATH,
        why="/etc/passwd of the node",
    ),
    Feature(
        "nodeObject.featureLabels: nfd",
        {"nodeObject": {"featureLabels": "nfd"}},
        HOST_PATH | USER_0,
        why="a folder of NFD's, which is root's",
    ),
]
# Of one vendor's.
OF_VENDORS = [
    Feature(
        "agents.nvidia.driverRoot",
        {"agents": {"nvidia": {"driverRoot": "/run/nvidia/driver"}}},
        PRIVILEGED | HOST_PATH,
        frozenset({"nvidia"}),
        "device files that no runtime hands out",
    ),
    Feature(
        "agents.amd.tools.enabled",
        {"agents": {"amd": {"tools": {"enabled": True}}}},
        PRIVILEGED | HOST_PATH,
        frozenset({"amd"}),
        "device files, for amd-smi",
    ),
    Feature(
        "agents.amd.openFiles",
        {"agents": {"amd": {"openFiles": True}}},
        PTRACE | USER_0,
        frozenset({"amd"}),
        "what other users' processes have open",
    ),
    Feature(
        "agents.ascend",
        {
            "agents": {
                "ascend": {
                    "privileged": True,
                    "driver": {"root": "/usr/local/Ascend/driver", "npuSmi": "/usr/local/sbin/npu-smi"},
                }
            }
        },
        PRIVILEGED | HOST_PATH,
        frozenset({"ascend"}),
        "npu-smi shows others' chips to nobody else",
    ),
    Feature(
        "agents.furiosa.privileged",
        {"agents": {"furiosa": {"privileged": True, "hostPaths": [{"path": "/usr/bin/furiosa-smi"}]}}},
        PRIVILEGED | HOST_PATH,
        frozenset({"furiosa"}),
        "device files, for furiosa-smi",
    ),
]
DEVICE_PLUGIN = Feature(
    "devicePlugin.enabled",
    {"devicePlugin": {"enabled": True}},
    HOST_PATH | USER_0,
    frozenset({PLUGIN}),
    "a socket in the kubelet's folder, which is root's",
)
FLEET_ON = {"enabled": True, "auth": {"tokensSecretName": "tokens"}}
# Only permissions at the API server, or nothing: pods with these features are admitted at `restricted`.
HARMLESS = [
    Feature("agents.nvidia", {"agents": {"nvidia": {"enabled": True}}}),
    Feature("agents.amd", {"agents": {"amd": {"enabled": True}}}),
    Feature("agents.furiosa", {"agents": {"furiosa": {"enabled": True}}}),
    Feature("attribution.pods: api-server", {"attribution": {"pods": "api-server"}}),
    Feature("attribution.pods: kubelet", {"attribution": {"pods": "kubelet"}}),
    Feature("attribution.resourceSlices", {"attribution": {"resourceSlices": True}}),
    Feature("attribution.nodeLabels", {"attribution": {"nodeLabels": ["zone"]}}),
    Feature("nodeObject.npuAnnotation", {"nodeObject": {"npuAnnotation": True}}),
    Feature("nodeObject.devicesAnnotation", {"nodeObject": {"devicesAnnotation": True}}),
    Feature("nodeObject.featureLabels: node", {"nodeObject": {"featureLabels": "node"}}),
    Feature("http.tokenReview", {"http": {"tokenReview": True}}),
    Feature("fleet.enabled", {"fleet": FLEET_ON}),
    Feature("fleet.ownCluster.agents", {"fleet": {**FLEET_ON, "ownCluster": {"agents": {"via": "direct"}}}}),
    Feature("fleet.ownCluster.exec", {"fleet": {**FLEET_ON, "ownCluster": {"exec": {"enabled": True}}}}),
    Feature(
        "fleet.auth.tokenReviewCluster",
        {"fleet": {"enabled": True, "auth": {"tokenReviewCluster": "own"}, "state": {"size": "1Gi"}}},
    ),
    Feature("fleetReader", {"fleetReader": {"enabled": True, "exec": {"enabled": True}}}),
]
FEATURES = [*COMMON, *OF_VENDORS, DEVICE_PLUGIN, *HARMLESS]


def merged(*given: dict[str, Any]) -> dict[str, Any]:
    """Later values take precedence."""
    found: dict[str, Any] = {}
    for values in given:
        for key, value in values.items():
            both = isinstance(value, dict) and isinstance(found.get(key), dict)
            found[key] = merged(found[key], value) if both else value
    return found


def pods(objects: Objects) -> dict[str, dict[str, Any]]:
    """Specifications of all pods by vendor of the agent or by component."""
    running = of_kind(
        objects, "DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob", "Pod", "ReplicaSet"
    )
    found = {}
    for each in running:
        assert each["kind"] in ("DaemonSet", "Deployment"), (
            "the chart has learnt a kind that is not looked at"
        )
        labels = each["metadata"]["labels"]
        name = labels.get("accelscope.io/agent", labels["app.kubernetes.io/component"])
        found[name] = each["spec"]["template"]["spec"]
    return found


def expected(pod: str, *features: Feature) -> set[Control]:
    return {control for each in features if pod in each.of for control in each.breaks}


def in_order(controls: set[Control]) -> list[str]:
    return sorted(control.value for control in controls)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.row)
def test_each_feature_breaks_only_its_documented_controls(render: Render, feature: Feature) -> None:
    for name, pod in pods(render(**merged(OFF, feature.values))).items():
        assert in_order(broken_of_restricted(pod)) == in_order(expected(name, feature)), name
        assert bool(feature.breaks) == bool(feature.why), "a deviation has a reason"


EVERY_COMBINATION: list[tuple[Sequence[Feature], Sequence[Feature]]] = [
    (chosen, []) for count in range(5) for chosen in combinations(COMMON, count)
]


@pytest.mark.parametrize(
    ("chosen", "of_vendors"),
    [*EVERY_COMBINATION, ((), OF_VENDORS), (COMMON, OF_VENDORS)],
    ids=lambda features: "+".join(each.row.rpartition(".")[2] for each in features) or "none",
)
def test_combined_features_break_no_further_controls(
    render: Render, chosen: Sequence[Feature], of_vendors: Sequence[Feature]
) -> None:
    """Together with all harmless features."""
    features = [*HARMLESS, *of_vendors, *chosen]
    beside = {"http": {"tokenSecretName": "token"}}
    found = pods(render(**merged(OFF, beside, *(each.values for each in features))))
    assert found.keys() == {*ANY_AGENT, FLEET}
    for name, pod in found.items():
        assert in_order(broken_of_restricted(pod)) == in_order(expected(name, *features)), name


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("of_vendors", [[], OF_VENDORS], ids=["sysfs", "tools"])
def test_device_plugin_has_the_privileges_of_its_vendors_agent(
    render: Render, of_vendors: list[Feature], vendor: str
) -> None:
    on = {"agents": NO_AGENTS, "devicePlugin": {"enabled": True, "vendor": vendor}}
    objects = render(
        **merged(OFF, *(each.values for each in of_vendors), on, {"agents": {"any": {"enabled": False}}})
    )
    [(name, pod)] = pods(objects).items()
    assert name == PLUGIN
    # The plugin does not look for processes, so openFiles does not apply.
    borrowed = [each for each in of_vendors if each.breaks >= PRIVILEGED]
    allowed = expected(PLUGIN, DEVICE_PLUGIN) | expected(vendor, *borrowed)
    assert broken_of_restricted(pod) <= allowed
    assert expected(PLUGIN, DEVICE_PLUGIN) <= broken_of_restricted(pod)


def test_default_chart(render: Render) -> None:
    """The default privileges, listed in one place."""
    assert {name: in_order(broken_of_baseline(pod)) for name, pod in pods(render()).items()} == {
        "nvidia": ["Host Namespaces", "HostPath Volumes"],
        "amd": ["Host Namespaces", "HostPath Volumes"],
        "ascend": ["Host Namespaces", "HostPath Volumes", "Privileged Containers"],
        "furiosa": ["Host Namespaces", "HostPath Volumes"],
    }


@pytest.mark.parametrize(
    "manifest", sorted((REPOSITORY / "deploy" / "manifests").glob("*.yaml")), ids=lambda path: path.stem
)
def test_namespace_of_a_manifest_has_the_level_of_its_pods(manifest: Path) -> None:
    objects = read_objects(manifest.read_text())
    below = any(broken_of_baseline(pod) for pod in pods(objects).values())
    broken = any(broken_of_restricted(pod) for pod in pods(objects).values())
    [namespace] = of_kind(objects, "Namespace")
    level = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert level == ("privileged" if below else "baseline" if broken else "restricted")


# --- docs/security.md ------------------------------------------------------------------------------------

SIGNS = {
    NAMESPACES: r"`hostPID`",
    HOST_PATH: r"read-only|\*\*writable\*\*",
    USER_0: r"user 0",
    PTRACE: r"`SYS_PTRACE`",
    PRIVILEGED: r"^privileged|; privileged",
}


def told_privileges() -> dict[str, str]:
    """Rows by the first value of the chart in the row."""
    text = (REPOSITORY / "docs" / "security.md").read_text()
    table = text.partition("## Feature, privilege, why")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("| ") and not line.startswith("| feature")
    ]
    return {re.findall(r"`(.+?)`", value)[0]: privilege for _, value, _, privilege, *_ in rows}


def test_security_page_has_one_row_for_each_feature() -> None:
    assert sorted(told_privileges()) == sorted(each.row for each in FEATURES)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.row)
def test_security_page_lists_the_deviations(feature: Feature) -> None:
    privilege = told_privileges()[feature.row]
    told = {control for broken, sign in SIGNS.items() if re.search(sign, privilege) for control in broken}
    assert in_order(told) == in_order(set(feature.breaks))


# --- the checker -----------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    ],
    "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
}


def with_container(**fields: Any) -> dict[str, Any]:
    return {**GOOD, "containers": [merged(GOOD["containers"][0], fields)]}


def with_context(**fields: Any) -> dict[str, Any]:
    return with_container(securityContext=fields)


@pytest.mark.parametrize(
    ("pod", "of_baseline", "of_restricted"),
    [
        (GOOD, set(), set()),
        (with_context(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}), set(), set()),
        (with_context(runAsUser=65532), set(), set()),
        ({**GOOD, "hostNetwork": True}, {Control.HOST_NAMESPACES}, set()),
        ({**GOOD, "hostIPC": True}, {Control.HOST_NAMESPACES}, set()),
        ({**GOOD, "volumes": [{"name": "x", "hostPath": {}}]}, {Control.HOST_PATH}, {Control.VOLUME_TYPES}),
        ({**GOOD, "volumes": [{"name": "x", "nfs": {}}]}, set(), {Control.VOLUME_TYPES}),
        (merged(GOOD, {"securityContext": {"sysctls": [{"name": "kernel.sem"}]}}), {Control.SYSCTLS}, set()),
        (with_context(capabilities={"drop": ["ALL"], "add": ["CHOWN"]}), set(), {Control.CAPABILITIES}),
        (with_context(capabilities={"drop": ["KILL"]}), set(), {Control.CAPABILITIES}),
        (with_context(capabilities={"add": ["SYS_ADMIN"]}), {Control.CAPABILITIES}, set()),
        (with_context(privileged=True), {Control.PRIVILEGED}, set()),
        (with_context(procMount="Unmasked"), {Control.PROC_MOUNT}, set()),
        (with_context(appArmorProfile={"type": "Unconfined"}), {Control.APPARMOR}, set()),
        (with_context(seLinuxOptions={"type": "spc_t"}), {Control.SELINUX}, set()),
        (with_context(seLinuxOptions={"user": "system_u"}), {Control.SELINUX}, set()),
        (with_context(seccompProfile={"type": "Unconfined"}), {Control.SECCOMP}, set()),
        (with_context(seccompProfile={}), set(), {Control.SECCOMP}),
        (with_context(allowPrivilegeEscalation=True), set(), {Control.ESCALATION}),
        (with_context(runAsNonRoot=False), set(), {Control.NON_ROOT}),
        (with_context(runAsUser=0), set(), {Control.NON_ROOT_USER}),
        (with_container(ports=[{"containerPort": 1, "hostPort": 1}]), {Control.HOST_PORTS}, set()),
        (with_container(livenessProbe={"httpGet": {"host": "10.0.0.1"}}), {Control.HOST_PROBES}, set()),
        ({**GOOD, "initContainers": [{}]}, set(), {Control.ESCALATION, Control.CAPABILITIES}),
    ],
)  # fmt: skip
def test_checker_implements_the_standard(
    pod: dict[str, Any], of_baseline: set[Control], of_restricted: set[Control]
) -> None:
    assert in_order(broken_of_baseline(pod)) == in_order(of_baseline)
    assert in_order(broken_of_restricted(pod)) == in_order(of_baseline | of_restricted)
