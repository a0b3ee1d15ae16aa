"""A simulated node with GPUs that real pods hold and use."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.agent_process import AgentProcess
from tests.e2e.kubernetes import images
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import PATIENCE_SECONDS, namespace
from tests.e2e.kubernetes.offered import offering
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode
from accelscope.simulate.description import read_node

WORKLOADS = "workloads"  # the pods' namespace
_RESOURCE = "nvidia.com/gpu"
_GPUS = {"node": "gpus", "nvidia": {"devices": [{"model": "a100-40gb", "count": 2}]}}


@contextmanager
def used_gpus(cluster: Cluster, folder: Path) -> Iterator[SimulatedNode]:
    """`train` holds one GPU and computes on it; `idle` holds the other, on which `guest` computes."""
    cluster.import_image(images.base_image())
    node = SimulatedNode(read_node(yaml.safe_dump(_GPUS)), folder / "gpus")
    node.build()
    with AgentProcess(node.agent_settings(), folder / "first") as first:
        uuids = [device.uuid or "" for device in first.settled().devices]
    with ExitStack() as stack:
        stack.enter_context(offering(cluster.device_plugins_folder, folder, _RESOURCE, uuids))
        wait_until(
            lambda: cluster.get(f"node/{cluster.node_name}")["status"]["allocatable"].get(_RESOURCE) == "2",
            "the kubelet offers two GPUs",
            PATIENCE_SECONDS,
        )
        stack.enter_context(namespace(cluster, WORKLOADS, "baseline"))
        pods = [
            _pod("train", "main", "sidecar", gpus=1, team="research"),
            _pod("idle", "main", gpus=1),
            _pod("guest", "peek"),
        ]
        cluster.apply(*pods)
        for each in pods:
            name = each["metadata"]["name"]
            cluster.wait_for(f"pod/{name}", "condition=Ready", namespace=WORKLOADS, seconds=PATIENCE_SECONDS)
        held = {name: uuids.index(_held_by(cluster, name)) for name in ("train", "idle")}
        processes = [
            {"name": "train", "device": held["train"], "pid": _node_pid(cluster, "train", "main")},
            {"name": "peek", "device": held["idle"], "pid": _node_pid(cluster, "guest", "peek")},
        ]
        node = SimulatedNode(read_node(yaml.safe_dump({**_GPUS, "processes": processes})), folder / "used")
        node.build(at=1000.0)
        yield node


def _pod(name: str, *containers: str, gpus: int = 0, **labels: str) -> dict[str, Any]:
    """A pod that does nothing; the first of its containers holds the GPUs."""
    command = ["python3", "-c", "import signal; signal.pause()"]
    image = {"image": images.base_image().tag, "imagePullPolicy": "Never", "command": command}
    specified: list[dict[str, Any]] = [{"name": each, **image} for each in containers]
    if gpus:
        specified[0]["resources"] = {"limits": {_RESOURCE: str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": WORKLOADS, "labels": labels},
        "spec": {"containers": specified, "terminationGracePeriodSeconds": 0},
    }


def _node_pid(cluster: Cluster, pod: str, container: str) -> int:
    """The number that the node has for a container's process: the machine counts otherwise."""
    [pid] = cluster.processes_of(pod, container, WORKLOADS)
    [line] = [
        text for text in Path(f"/proc/{pid}/status").read_text().splitlines() if text.startswith("NSpid:")
    ]
    return int(line.split()[2])


def _held_by(cluster: Cluster, pod: str) -> str:
    command = ("python3", "-c", "import os; print(os.environ['OFFERED'])")
    return cluster.exec(pod, *command, namespace=WORKLOADS, container="main").strip()
