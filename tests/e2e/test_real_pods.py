"""Pods of a real cluster that pose as users of simulated devices: the agent names them, by their processes
and by what the kubelet gave them, and both say the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.agent_process import AgentProcess
from tests.e2e.kubernetes import images
from tests.e2e.kubernetes.cluster import PATIENCE_SECONDS, Cluster
from tests.e2e.kubernetes.offered import offering
from tests.waiting import wait_until

from accelscope.model import PodUsage, Snapshot, UnattributedReason
from accelscope.simulate import SimulatedNode
from accelscope.simulate.description import read_node

RESOURCE = "nvidia.com/gpu"
NAMESPACE = "real-pods"
DEVICES = {"nvidia": {"devices": [{"model": "a100-40gb", "count": 3}]}}
RIGHTS = """\
apiVersion: v1
kind: Namespace
metadata: {name: real-pods}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: real-pods}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: real-pods-agent}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: real-pods-agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: real-pods-agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: real-pods}]
"""


def container(name: str, image: str, **more: Any) -> dict[str, Any]:
    sleep = ["python3", "-c", "import signal; signal.pause()"]
    return {"name": name, "image": image, "imagePullPolicy": "Never", "command": sleep, **more}


def held(count: int) -> dict[str, Any]:
    return {"resources": {"limits": {RESOURCE: str(count)}}}


def pod(name: str, *containers: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"containers": list(containers), "terminationGracePeriodSeconds": 0},
    }


@pytest.fixture(scope="module")
def gpus(folder: Path) -> SimulatedNode:
    """Three GPUs that nobody uses yet."""
    node = SimulatedNode(read_node(yaml.safe_dump({"node": "real", **DEVICES})), folder / "gpus")
    node.build()
    return node


@pytest.fixture(scope="module")
def image(cluster: Cluster) -> str:
    made = images.base_image()
    cluster.import_image(made)
    return made.tag


@pytest.fixture(scope="module")
def uuids(gpus: SimulatedNode, folder: Path) -> list[str]:
    with AgentProcess(gpus.agent_settings(), folder / "first") as agent:
        shown = agent.until(lambda s: all(d.uuid for d in s.devices) and len(s.devices) == 3, "all three")
        return [device.uuid or "" for device in shown.devices]


@pytest.fixture(scope="module")
def users(cluster: Cluster, uuids: list[str], image: str, folder: Path) -> Iterator[None]:
    """`pair` holds two GPUs in one container and has a second one, `single` holds one, `guest` uses what it
    was not given."""
    cluster.apply(RIGHTS)
    with offering(cluster.device_plugins_folder, folder, RESOURCE, uuids):
        wait_until(
            lambda: cluster.get(f"node/{cluster.node_name}")["status"]["allocatable"].get(RESOURCE) == "3",
            "the kubelet offers three GPUs",
            PATIENCE_SECONDS,
        )
        pods = [
            pod("pair", container("trainer", image, **held(2)), container("logger", image), team="research"),
            pod("single", container("server", image, **held(1)), team="serving"),
            pod("guest", container("peek", image)),
        ]
        cluster.apply(*pods)
        for each in pods:
            cluster.wait_for(f"pod/{each['metadata']['name']}", "condition=Ready", namespace=NAMESPACE)
        yield
        cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=true")
        cluster.kubectl("delete", "clusterrole,clusterrolebinding", "real-pods-agent")


def held_by(cluster: Cluster, name: str) -> list[str]:
    """The uuids that a container was given, by its own environment."""
    return cluster.exec(
        name, "python3", "-c", "import os; print(os.environ['OFFERED'])", namespace=NAMESPACE
    ).split(",")


@pytest.fixture(scope="module")
def placed(cluster: Cluster, users: None, uuids: list[str], folder: Path) -> SimulatedNode:
    """The same GPUs, used by the processes of those pods."""
    where = {uuid.strip(): number for number, uuid in enumerate(uuids)}
    [first, second] = [where[uuid.strip()] for uuid in held_by(cluster, "pair")]
    [third] = [where[uuid.strip()] for uuid in held_by(cluster, "single")]

    def process(name: str, container: str, device: int, gibibytes: int) -> dict[str, Any]:
        [pid] = cluster.processes_of(name, container, NAMESPACE)
        return {"name": name, "device": device, "pid": pid, "memory": f"{gibibytes}GiB"}

    trainer = {**process("pair", "trainer", first, 10), "devices": [first, second], "spans_devices": True}
    del trainer["device"]
    processes = [
        trainer,
        process("single", "server", third, 7),
        process("guest", "peek", third, 2),
    ]
    description = yaml.safe_dump({"node": "real", **DEVICES, "processes": processes})
    node = SimulatedNode(read_node(description), folder / "placed")
    node.build()
    return node


@pytest.fixture(scope="module")
def agent(cluster: Cluster, placed: SimulatedNode, folder: Path) -> Iterator[AgentProcess]:
    token = folder / "token"
    token.write_text(cluster.token_for("agent", namespace=NAMESPACE))
    settings = {
        **placed.agent_settings(),
        "proc_root": "/proc",  # the kernel's own: these are real processes
        "node_name": cluster.node_name,
        "pod_source": "api-server",
        "kube_api_url": cluster.api_url,
        "kube_ca_file": str(cluster.ca_file),
        "kube_token_file": str(token),
        "pod_resources_socket": str(cluster.pod_resources_socket),
        "pod_labels": "team",
    }
    with AgentProcess(settings, folder / "agent") as running:
        until_all_is_told(running)
        yield running


def until_all_is_told(agent: AgentProcess) -> None:
    def told() -> bool:
        snapshot = agent.snapshot()
        up = all(state.up for state in snapshot.attribution)
        return up and len(used(snapshot)) == 4 and len(snapshot.allocations) == 3

    wait_until(told, "processes, the API server and the kubelet tell of the pods", PATIENCE_SECONDS)


def used(snapshot: Snapshot) -> list[PodUsage]:
    return [usage for usage in snapshot.pod_usages if usage.processes]


def test_every_process_is_put_down_to_its_pod_and_container(agent: AgentProcess) -> None:
    named = {
        (p.owner.namespace, p.owner.pod, p.owner.container) for p in agent.snapshot().processes if p.owner
    }
    assert named == {
        (NAMESPACE, "pair", "trainer"),
        (NAMESPACE, "single", "server"),
        (NAMESPACE, "guest", "peek"),
    }


def test_the_kubelet_says_the_same_of_who_holds_what(agent: AgentProcess) -> None:
    snapshot = agent.snapshot()
    by_process = {(u.device, u.pod, u.container) for u in used(snapshot) if u.pod != "guest"}
    by_kubelet = {(a.device, a.pod, a.container) for a in snapshot.allocations}
    assert by_process == by_kubelet
    assert all(u.allocated == 1 for u in used(snapshot) if u.pod != "guest")
    [guest] = [u for u in used(snapshot) if u.pod == "guest"]
    assert (guest.allocated, guest.memory_used_bytes) == (0, 2 << 30)


def test_sources_are_up_and_pods_have_their_labels(agent: AgentProcess) -> None:
    wanted = dict.fromkeys(("processes", "pods", "pod-resources"), (True, None))
    snapshot = agent.until(
        lambda s: {state.source: (state.up, state.error) for state in s.attribution} == wanted, "all are up"
    )
    assert {(p.name, p.labels) for p in snapshot.pods} == {
        ("pair", (("team", "research"),)),
        ("single", (("team", "serving"),)),
        ("guest", ()),
    }


def test_parts_add_up(agent: AgentProcess) -> None:
    snapshot = agent.snapshot()
    for device in snapshot.devices:
        of_pods = sum(u.memory_used_bytes or 0 for u in snapshot.pod_usages if u.device == device.id)
        of_others = sum(u.memory_used_bytes or 0 for u in snapshot.unattributed if u.device == device.id)
        assert of_pods + of_others == device.memory_used_bytes


def test_a_kubelet_that_restarts_is_asked_again(cluster: Cluster, agent: AgentProcess) -> None:
    cluster.restart_kubelet()
    until_all_is_told(agent)


def test_an_api_server_that_restarts_is_watched_again(cluster: Cluster, agent: AgentProcess) -> None:
    cluster.stop_api_server()
    try:
        assert agent.get("/metrics").status == 200
        assert len(used(agent.snapshot())) == 4
    finally:
        cluster.start_api_server()
    cluster.apply(pod("late", container("late", images.base_image().tag)))
    cluster.wait_for("pod/late", "condition=Ready", namespace=NAMESPACE)
    wait_until(
        lambda: all(state.up for state in agent.snapshot().attribution),
        "the watch is there again",
        PATIENCE_SECONDS,
    )


def test_a_pod_that_is_deleted_is_gone_from_the_page(cluster: Cluster, agent: AgentProcess) -> None:
    cluster.kubectl("delete", "pod/single", "--namespace", NAMESPACE, "--wait=true")
    wait_until(lambda: b'pod="single"' not in agent.get("/metrics").body, "it is gone", PATIENCE_SECONDS)
    # The simulated driver still shows its process, whose pid nobody has any more.
    wait_until(
        lambda: (
            UnattributedReason.PROCESS_GONE in {p.owner.reason for p in agent.snapshot().processes if p.owner}
        ),
        "the process is gone",
    )
