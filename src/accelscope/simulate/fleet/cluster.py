"""One cluster of a simulated fleet: its nodes, and their objects in its API server."""

import asyncio
import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from accelscope.simulate import spec
from accelscope.simulate import spec as identity
from accelscope.simulate.fleet.description import ClusterSpec
from accelscope.simulate.fleet.faults import FleetFault, FleetFaultKind, active_fault
from accelscope.simulate.fleet.node import FleetNode
from accelscope.simulate.kubernetes.api import NODES, PODS, Api, ObjectHistory
from accelscope.simulate.kubernetes.objects import node_document, node_labels
from accelscope.simulate.spec import NodeSpec
from accelscope.simulate.vendor import DriverPod, simulated_vendor

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
    """The Node object, agent pod and driver pods of one node. The Node is kept as text, because each
    annotation writes it again."""

    def __init__(self, node: FleetNode, *, epoch: float) -> None:
        simulated, self._node, self._epoch = node.variant.node, node, epoch
        labels = {**node_labels(simulated.spec), "kubernetes.io/hostname": node.name}
        document = node_document(simulated.spec, simulated.pods, labels, epoch=epoch)
        document["metadata"] |= {"name": node.name, "uid": spec.uuid(int(node.tag), "node")}
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
                "uid": spec.uuid(tag, namespace, name),
                "creationTimestamp": created,
                "labels": dict(labels),
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "DaemonSet",
                        "name": owner,
                        "uid": spec.uuid(0, namespace, owner),
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


_ANNOTATION_SECONDS = 60.0  # between two writes


class FleetCluster:
    def __init__(self, spec: ClusterSpec, nodes: Iterable[FleetNode], *, epoch: float) -> None:
        self.spec = spec
        self.token = secrets.token_urlsafe(32)
        self.nodes = {node.name: node for node in nodes}
        self.agent_urls = {  # of real agents that replace the simulated ones, by node
            name: group.agent_url
            for group in spec.groups
            if group.agent_url is not None
            for name in group.names()
        }
        self.agents: dict[str, FleetNode] = {}  # by pod
        self.drivers: dict[str, tuple[FleetNode, str, DriverPod]] = {}  # by pod, with the vendor
        self.history = ObjectHistory()
        self.api = Api(self.history)
        self.api.expired_as_status = True
        self.faults: tuple[FleetFault, ...] = ()  # of the API server
        self._epoch = epoch
        self._objects: dict[str, NodeObjects] = {}
        self.watchers = Watchers()
        for node in self.nodes.values():
            self._create(node, 0.0)

    def active_fault(self, kind: FleetFaultKind, at: float) -> FleetFault | None:
        return active_fault(self.faults, kind, at)

    def step(self, at: float, since: float) -> None:
        """Updates the objects to the time `at`, in seconds since the fleet started. The last step was at
        `since`."""
        before = self.history.version
        for node in self.nodes.values():
            gone = node.active_fault(FleetFaultKind.NODE_GONE, at) is not None
            forbidden = node.active_fault(FleetFaultKind.SINK_DOWN, at) is not None
            if gone and node.name in self._objects:
                self._delete(node)
            elif not gone and node.name not in self._objects:
                self._create(node, at)
            elif not gone and not forbidden and _is_due(node, at, since):
                self._update(node, at)
        if self.history.version != before:
            self.watchers.wake()

    def _create(self, node: FleetNode, at: float) -> None:
        objects = NodeObjects(node, epoch=self._epoch)
        self._objects[node.name] = objects
        self._update(node, at)
        if self.spec.agents:
            name = agent_pod_name(node)
            self.history.put(PODS, name, objects.agent_pod())
            self.agents[name] = node
        if self.spec.driver_pods:
            for vendor, pod in driver_pods(node.variant.spec):
                name = driver_pod_name(node, pod)
                self.history.put(PODS, name, objects.driver_pod(pod))
                self.drivers[name] = node, vendor, pod

    def _delete(self, node: FleetNode) -> None:
        del self._objects[node.name]
        self.history.remove(NODES, node.name)
        drivers = [driver_pod_name(node, pod) for _, pod in driver_pods(node.variant.spec)]
        for name in (agent_pod_name(node), *drivers):
            if self.agents.pop(name, None) is not None or self.drivers.pop(name, None) is not None:
                self.history.remove(PODS, name)

    def _update(self, node: FleetNode, at: float) -> None:
        self.history.put(NODES, node.name, self._objects[node.name].node(node.annotations(at)))


class Watchers:
    """Tasks that wait for changes of the objects."""

    def __init__(self) -> None:
        self._events: set[asyncio.Event] = set()

    @contextmanager
    def registered(self) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._events.add(event)
        try:
            yield event
        finally:
            self._events.discard(event)

    def wake(self) -> None:
        for event in self._events:
            event.set()


def _is_due(node: FleetNode, at: float, since: float) -> bool:
    """Whether the node's agent writes its annotation between `since` and `at`."""
    if not node.variant.recording.annotated:
        return False
    phase = identity.fraction(int(node.tag), "annotation") * _ANNOTATION_SECONDS
    return (at + phase) // _ANNOTATION_SECONDS > (since + phase) // _ANNOTATION_SECONDS


def driver_pods(spec: NodeSpec) -> Iterator[tuple[str, DriverPod]]:
    """The vendors of the node whose operator runs the driver in a pod, with that pod."""
    for vendor in spec.vendors:
        pod = simulated_vendor(vendor).driver_pod
        if pod is not None:
            yield vendor, pod
