"""Nodes, agents' pods and driver pods of a simulated cluster, as its API server shows them."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from accelscope.simulate import identity
from accelscope.simulate.fleet.annotation import NPU_METRICS
from accelscope.simulate.fleet.names import Names
from accelscope.simulate.fleet.node import NodeModel
from accelscope.simulate.kubernetes.objects import node_document, node_labels

AGENT_NAMESPACE, AGENT_PORT = "accelscope-system", 9400
DRIVER_NAMESPACE, DRIVER_CONTAINER = "gpu-operator", "nvidia-driver-ctr"
_AGENT_LABELS = {
    "app.kubernetes.io/name": "accelscope",
    "app.kubernetes.io/component": "agent",
    "app.kubernetes.io/instance": "accelscope",
}
_DRIVER_LABELS = {
    "app": "nvidia-driver-daemonset",
    "app.kubernetes.io/component": "nvidia-driver",
    "nvidia.com/precompiled": "false",
}


def agent_pod_name(names: Names) -> str:
    return f"accelscope-agent-{names.tag}"


def driver_pod_name(names: Names) -> str:
    return f"nvidia-driver-daemonset-{names.tag}"


class NodeObjects:
    """Documents of one node. The Node's text is kept, since it is written again with each annotation."""

    def __init__(self, model: NodeModel, name: str, names: Names, *, epoch: float) -> None:
        spec = model.spec
        self._name, self._names, self._epoch = name, names, epoch
        labels = {**node_labels(spec), "kubernetes.io/hostname": name}
        document = node_document(spec, model.pods, labels, epoch=epoch)
        document["metadata"] |= {"name": name, "uid": names.id(document["metadata"]["uid"])}
        capacity = {**document["status"]["capacity"], **_accelerators(model)}
        document["status"] |= {"capacity": capacity, "allocatable": capacity}
        document["status"]["addresses"][1]["address"] = name
        self._node = json.dumps(document)

    def node(self, annotation: str | None) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._node)
        if annotation is not None:
            document["metadata"]["annotations"][NPU_METRICS] = annotation
        return document

    def agent_pod(self) -> dict[str, Any]:
        container = {
            "name": "agent",
            "image": "registry.example.com/accelscope:1.0",
            "ports": [{"name": "metrics", "containerPort": AGENT_PORT, "protocol": "TCP"}],
        }
        name = agent_pod_name(self._names)
        return self._pod(name, AGENT_NAMESPACE, _AGENT_LABELS, "accelscope-agent", container)

    def driver_pod(self) -> dict[str, Any]:
        container = {"name": DRIVER_CONTAINER, "image": "nvcr.io/nvidia/driver:590.48.01-ubuntu24.04"}
        name = driver_pod_name(self._names)
        return self._pod(name, DRIVER_NAMESPACE, _DRIVER_LABELS, "nvidia-driver-daemonset", container)

    def _pod(
        self,
        name: str,
        namespace: str,
        labels: Mapping[str, str],
        owner: str,
        container: Mapping[str, Any],
    ) -> dict[str, Any]:
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._epoch - 86_400))
        tag = int(self._names.tag)
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
            "spec": {"nodeName": self._name, "containers": [container], "hostPID": True},
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


def _accelerators(model: NodeModel) -> dict[str, str]:
    """What the vendors' plugins offer in all."""
    counts: Counter[str] = Counter()
    for vendor, own in model.spec.vendors.items():
        for device in range(own.device_count):
            parts = own.instances(device)
            for instance in range(parts) if parts is not None else (None,):
                counts[model.drivers[vendor].plugin_device(device, instance, None).resource] += 1
    return {resource: str(count) for resource, count in counts.items()}
