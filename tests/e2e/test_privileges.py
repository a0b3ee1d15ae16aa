"""Each feature gets its own privilege and no other, as the API server sees it; and with a privilege missing
the agent stays up and says which."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.deploy.values import NO_AGENTS
from tests.e2e.kubernetes.agent_image import agent_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import (
    ENOUGH_CPU,
    NAMESPACE,
    PATIENCE_SECONDS,
    Deployed,
    Release,
    labelled,
    namespace,
    on_simulated,
)
from tests.e2e.kubernetes.footprint import peak_memory_bytes
from tests.waiting import wait_until

from accelscope.model import Snapshot
from accelscope.simulate import SimulatedNode
from accelscope.simulate.description import read_node

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:accelscope"
ANNOTATORS = f"{ACCOUNT}-npu-annotation"  # of the agents that write the NPUs' annotation
# No label says that there are such cards.
NOWHERE = {**NO_AGENTS, "furiosa": {"enabled": True}, "ascend": {"enabled": True}}
QUIET = {"hostPID": False, "pods": "off", "podResources": False}
LIST_PODS = {"list pods", "watch pods"}
LIST_SLICES = {"list resourceslices.resource.k8s.io", "watch resourceslices.resource.k8s.io"}
LIST_NODES = {"list nodes", "watch nodes"}
REVIEWS = {
    "create tokenreviews.authentication.k8s.io",
    "create subjectaccessreviews.authorization.k8s.io",
}
NEVER = {
    "get secrets",
    "list secrets",
    "get configmaps",
    "get pods/exec",
    "create pods/exec",
    "get nodes/proxy",
    "create nodes/proxy",
    "update nodes",
    "patch nodes/status",
    "patch pods",
    "create pods",
}
ASKED = LIST_PODS | LIST_SLICES | LIST_NODES | REVIEWS | NEVER | {"patch nodes", "get nodes/pods"}

# Its process is nobody's: no /proc has such a number.
GPU = {
    "node": "gpu",
    "nvidia": {"devices": [{"model": "a100-40gb"}]},
    "processes": [{"name": "train", "device": 0, "memory": "9GiB"}],
}
TOOL_MIB = 96  # a Python program with its libraries; the simulated one has nothing but its weight
AMD = {
    "node": "amd",
    "amd": {"amd_smi": {"cost_ms": 250, "memory_mb": TOOL_MIB}, "devices": [{"model": "mi300x", "count": 2}]},
}


@pytest.fixture(scope="module")
def release(cluster: Cluster, folder: Path) -> Iterator[Release]:
    cluster.import_image(agent_image())
    with ExitStack() as stack:
        stack.enter_context(namespace(cluster))
        labels = [f"agents.accelscope.io/{vendor}=true" for vendor in ("amd", "nvidia")]
        stack.enter_context(labelled(cluster, *labels))
        made = Release(cluster, folder)
        stack.callback(made.remove)
        yield made


def granted(cluster: Cluster, account: str = ACCOUNT) -> set[str]:
    """Of what is asked about, what the API server would let an account of agents do."""
    return {asked for asked in ASKED if _may(cluster, account, asked)}


def _may(cluster: Cluster, account: str, asked: str) -> bool:
    verb, _, kind = asked.partition(" ")
    name, _, group = kind.partition(".")
    resource, _, subresource = name.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": account,
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{NAMESPACE}",
                "system:authenticated",
            ],
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": resource,
                "subresource": subresource,
            },
        },
    }
    reply = cluster.api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert reply.status == 201, reply.body
    return bool(reply.json()["status"]["allowed"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, LIST_PODS | LIST_SLICES),
        ({"attribution": QUIET}, set()),
        ({"attribution": {**QUIET, "pods": "api-server"}}, LIST_PODS),
        ({"attribution": {**QUIET, "pods": "kubelet"}}, {"get nodes/pods"}),
        ({"attribution": {**QUIET, "podResources": True}}, LIST_SLICES),
        ({"attribution": {**QUIET, "nodeLabels": ["zone"]}}, LIST_NODES),
        ({"attribution": QUIET, "nodeObject": {"devicesAnnotation": True}}, {"patch nodes"}),
        ({"attribution": QUIET, "nodeObject": {"featureLabels": "node"}}, {"patch nodes"}),
        ({"attribution": QUIET, "nodeObject": {"featureLabels": "nfd"}}, set()),
        ({"attribution": QUIET, "http": {"tokenReview": True}}, REVIEWS),
    ],
    ids=[
        "default",
        "none",
        "pods",
        "kubelet",
        "claims",
        "node-labels",
        "annotation",
        "labels",
        "nfd",
        "reviews",
    ],
)
def test_rights_come_and_go_with_their_feature(
    release: Release, values: dict[str, Any], expected: set[str]
) -> None:
    release.put({"agents": NOWHERE, **values})
    # What is granted or taken away reaches the API server's authorizer a moment later.
    wait_until(lambda: granted(release.cluster) == expected, f"the account may {expected or 'nothing'}")


def test_only_agents_that_write_the_npu_annotation_may(release: Release) -> None:
    release.put({"agents": NOWHERE, "nodeObject": {"npuAnnotation": True}})
    reading = LIST_PODS | LIST_SLICES
    wait_until(
        lambda: granted(release.cluster, ANNOTATORS) == {"patch nodes", *reading}, "one account may write"
    )
    wait_until(lambda: granted(release.cluster) == reading, "the other may not")


@pytest.fixture(scope="module")
def gpus(folder: Path) -> SimulatedNode:
    node = SimulatedNode(read_node(yaml.safe_dump(GPU)), folder / "gpus")
    node.build(at=1000.0)
    return node


class Missing(NamedTuple):
    """What the snapshot says of a source or sink whose privilege is missing."""

    what: str
    reason: str
    error: str  # a part of what people are told


MISSING = [
    Missing("processes", "hidden", "hostPID: true"),
    Missing("pods", "forbidden", "pods is forbidden"),
    Missing("pod-resources", "no_socket", "/var/lib/kubelet/pod-resources"),
    Missing("annotation", "forbidden", "cannot patch resource"),
    Missing("labels", "forbidden", "cannot patch resource"),
]


def troubles(snapshot: Snapshot) -> dict[str, tuple[str | None, str | None]]:
    """By source or sink that is not up."""
    sources = {state.source: (state.reason, state.error) for state in snapshot.attribution if not state.up}
    sinks = {state.sink: (state.reason, state.error) for state in snapshot.sinks if not state.up}
    return {**sources, **sinks}


@pytest.fixture(scope="module")
def wanted(gpus: SimulatedNode) -> dict[str, Any]:
    """Values with which every source and sink has something to do."""
    nvidia = {"enabled": True, "runtimeClassName": "", **on_simulated(gpus)}
    return {
        "agents": {**NO_AGENTS, "nvidia": nvidia},
        "nodeObject": {"devicesAnnotation": True, "featureLabels": "node"},
        "config": {"collectionInterval": "1s"},
        "resources": ENOUGH_CPU,
    }


@pytest.fixture(scope="module")
def deprived(cluster: Cluster, release: Release, wanted: dict[str, Any], folder: Path) -> Deployed:
    """It is to do everything, and has none of the privileges for it."""
    kubelet = folder / "kubelet"
    (kubelet / "pod-resources").mkdir(parents=True)
    without = {
        "attribution": {"hostPID": False, "kubeletFolder": str(kubelet)},
        "rbac": {"create": False},
    }
    release.put({**wanted, **without})
    agent = release.agent("nvidia")
    agent.until_rolled_out()
    expected = {missing.what: missing.reason for missing in MISSING}
    agent.until(
        lambda s: {what: reason for what, (reason, _) in troubles(s).items()} == expected, "all is tried"
    )
    return agent


@pytest.mark.parametrize("missing", MISSING, ids=[missing.what for missing in MISSING])
def test_the_page_says_what_is_missing(deprived: Deployed, missing: Missing) -> None:
    _, error = troubles(deprived.snapshot())[missing.what]
    assert missing.error in (error or "")
    kind = "sink" if missing.what in ("annotation", "labels") else "attribution_source"
    page = deprived.page()
    subject = "sink" if kind == "sink" else "source"
    [up] = [line for line in page if line.startswith(f'accelscope_{kind}_up{{{subject}="{missing.what}"')]
    assert up.endswith(" 0")
    assert any(
        line.startswith(f'accelscope_{kind}_last_error_info{{{subject}="{missing.what}"')
        and f'reason="{missing.reason}"' in line
        for line in page
    )


def test_an_agent_without_privileges_stays_up(deprived: Deployed) -> None:
    snapshot = deprived.snapshot()
    assert [device.health.state.value for device in snapshot.devices] == ["ok"]
    assert deprived.ready()
    assert deprived.restarts() == 0


def test_a_right_that_is_granted_is_used_without_a_restart(
    deprived: Deployed, release: Release, wanted: dict[str, Any], folder: Path
) -> None:
    before = deprived.pod()["metadata"]["name"]
    kubelet = {"hostPID": False, "kubeletFolder": str(folder / "kubelet")}
    release.put({**wanted, "attribution": kubelet})
    deprived.until(lambda s: "pods" not in troubles(s), "the right is used")
    assert {"processes", "pod-resources"} <= troubles(deprived.snapshot()).keys()
    assert deprived.pod()["metadata"]["name"] == before


def test_a_right_that_is_taken_away_is_missed(release: Release, wanted: dict[str, Any]) -> None:
    """And the socket that another user may not open."""
    release.put({**wanted, "podSecurityContext": {"runAsUser": 65532, "runAsNonRoot": True}})
    agent = release.agent("nvidia")
    agent.until_rolled_out()
    cluster = release.cluster
    bindings = (f"accelscope.{NAMESPACE}", f"own-node.accelscope.{NAMESPACE}")
    cluster.kubectl("delete", "clusterrolebinding", *bindings)
    agent.restart_pod()
    snapshot = agent.until(
        lambda s: {"pods", "pod-resources", "annotation"} <= troubles(s).keys(), "it misses them"
    )
    found = troubles(snapshot)
    assert found["pods"][0] == "forbidden"
    assert found["pod-resources"][0] == "no_permission"
    assert agent.ready()
    clear_node(cluster)


def clear_node(cluster: Cluster) -> None:
    """As docs/install.md does it."""
    name = cluster.node_name
    cluster.kubectl("annotate", f"node/{name}", "accelscope.io/devices.nvidia-")
    options = ("--server-side", "--field-manager=accelscope-nvidia", "--force-conflicts", "--filename=-")
    nothing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    cluster.kubectl("apply", *options, input=yaml.safe_dump(nothing))
    labels = cluster.get(f"node/{name}")["metadata"]["labels"]
    assert not [label for label in labels if label.startswith("accelscope.io/")]


def test_a_heavy_tool_has_room_of_its_own(
    release: Release, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = SimulatedNode(read_node(yaml.safe_dump(AMD)), folder / "rocm")
    node.build(at=1000.0)
    entry = on_simulated(node, tool_interval="1s")
    # What the chart itself points at the folder of ROCm.
    environment = {n: v for n, v in entry["env"].items() if n not in ("AMD_SMI_PATH", "ROCM_SMI_PATH")}
    amd = {"enabled": True, "env": environment, "tools": {"enabled": True, "rocmRoot": str(node.folder)}}
    config = {"collectionInterval": "1s"}
    release.put({"agents": {**NO_AGENTS, "amd": amd}, "config": config, "resources": ENOUGH_CPU})
    agent = release.agent("amd")
    pod = agent.until_rolled_out()
    [container] = pod["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == "256Mi"
    agent.until(
        lambda s: [device.energy_joules is not None for device in s.devices] == [True, True],
        "amd-smi has told what only it knows",
    )
    wait_until(
        lambda: peak_memory_bytes(agent.container_id()) > TOOL_MIB << 20, "the tool has run", PATIENCE_SECONDS
    )
    peak = peak_memory_bytes(agent.container_id())
    with capsys.disabled():
        print(f"\ne2e: an agent with an amd-smi of {TOOL_MIB} MiB: {peak / 2**20:.1f} MiB at most, of 256")
    assert agent.restarts() == 0
