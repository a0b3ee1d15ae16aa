"""Nodes, agents' pods and driver pods of a simulated cluster, as its API server shows them."""

import json
import time
from collections.abc import Mapping
from typing import Any

from accelscope.simulate import identity
from accelscope.simulate.fleet.fleet_node import FleetNode
from accelscope.simulate.kubernetes.objects import node_document, node_labels
from accelscope.simulate.vendor import DriverPod

AGENT_NAMESPACE, AGENT_PORT = "accelscope-system", 9400
_AGENT_LABELS = {
    "app.kubernetes.io/name": "accelscope",
    "app.kubernetes.io/component": "agent",
    "app.kubernetes.io/instance": "accelscope",
}
_AGENT = "accelscope-agent"


def agent_pod_name(node: FleetNode) -> str:
    return f"{_AGENT}-{node.tag}"


def driver_pod_name(node: FleetNode, pod: DriverPod) -> str:
    return f"{pod.daemon_set}-{node.tag}"


class NodeObjects:
    """Documents of one node. The Node's text is kept, since it is written again with each annotation."""

    def __init__(self, node: FleetNode, *, epoch: float) -> None:
        simulated, self._node, self._epoch = node.variant.node, node, epoch
        labels = {**node_labels(simulated.spec), "kubernetes.io/hostname": node.name}
        document = node_document(simulated.spec, simulated.pods, labels, epoch=epoch)
        document["metadata"] |= {"name": node.name, "uid": identity.uuid(int(node.tag), "node")}
        capacity = {**document["status"]["capacity"], **simulated.capacity()}
        document["status"] |= {"capacity": capacity, "allocatable": capacity}
        document["status"]["addresses"][1]["address"] = node.name
        self._text = json.dumps(document)

    def node(self, annotations: Mapping[str, str]) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._text)
        document["metadata"]["annotations"] |= annotations
        return document

    def agent_pod(self) -> dict[str, Any]:
        container = {
            "name": "agent",
            "image": "registry.example.com/accelscope:1.0",
            "ports": [{"name": "metrics", "containerPort": AGENT_PORT, "protocol": "TCP"}],
        }
        name = agent_pod_name(self._node)
        return self._pod(name, AGENT_NAMESPACE, _AGENT_LABELS, _AGENT, container)

    def driver_pod(self, pod: DriverPod) -> dict[str, Any]:
        container = {"name": pod.container, "image": pod.image}
        name = driver_pod_name(self._node, pod)
        return self._pod(name, pod.namespace, pod.labels, pod.daemon_set, container)

    def _pod(
        self,
        name: str,
        namespace: str,
        labels: Mapping[str, str],
        owner: str,
        container: Mapping[str, Any],
    ) -> dict[str, Any]:
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._epoch - 86_400))
        tag = int(self._node.tag)
        address = f"10.{128 + tag // 62_500}.{tag // 250 % 250}.{tag % 250 + 1}"
        conditions = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "generateName": f"{owner}-",
                "namespace": namespace,
                "uid": identity.uuid(tag, namespace, name),
                "creationTimestamp": created,
                "labels": dict(labels),
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "DaemonSet",
                        "name": owner,
                        "uid": identity.uuid(0, namespace, owner),
                        "controller": True,
                    }
                ],
            },
            "spec": {"nodeName": self._node.name, "containers": [container], "hostPID": True},
            "status": {
                "phase": "Running",
                "podIP": address,
                "podIPs": [{"ip": address}],
                "conditions": [{"type": kind, "status": "True"} for kind in conditions],
                "containerStatuses": [
                    {
                        "name": container["name"],
                        "ready": True,
                        "started": True,
                        "restartCount": 0,
                        "state": {"running": {"startedAt": created}},
                    }
                ],
            },
        }
