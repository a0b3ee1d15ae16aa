"""Pod and Node objects of the simulated API server, as complete and as large as real ones."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from accelscope.simulate import spec as identity
from accelscope.simulate.pods import SimulatedContainer, SimulatedPod, template_hash
from accelscope.simulate.spec import NodeSpec, PodOwner, PodQos
from accelscope.simulate.vendor import simulated_vendor


def hami_annotations(pod: SimulatedPod, node: str) -> dict[str, str]:
    shared = any(grant.share for container in pod.containers for grant in container.grants)
    if not shared:
        return {}
    return {
        "hami.io/vgpu-node": node,
        "hami.io/bind-phase": "success",
        "hami.io/vgpu-devices-to-allocate": ";",
        "hami.io/vgpu-devices-allocated": "".join(map(_container, pod.containers)),
    }


def _container(container: SimulatedContainer) -> str:
    """HAMi's annotation of a pod: device, type, MiB and percent of the cores; each share ends with a colon,
    each container with a semicolon."""
    shares = (
        f"{grant.device.id},{grant.device.hami_type},"
        f"{grant.share.memory_bytes >> 20},{grant.share.cores_percent}:"
        for grant in container.grants
        if grant.share is not None
    )
    return "".join(shares) + ";"


_QOS = {PodQos.GUARANTEED: "Guaranteed", PodQos.BURSTABLE: "Burstable", PodQos.BESTEFFORT: "BestEffort"}
_API_GROUPS = {"Job": "batch/v1"}
_ADDRESS = "10.20.0.11"


def pod_document(
    spec: NodeSpec, pod: SimulatedPod, phase: str, *, epoch: float, wanted_bytes: int = 0
) -> dict[str, Any]:
    """`epoch` is the wall-clock time of simulated time 0."""
    created = _timestamp(epoch + max(pod.begin, -86_400.0))
    annotations = hami_annotations(pod, spec.name)
    metadata: dict[str, Any] = {
        "name": pod.name,
        "generateName": f"{pod.name.rpartition('-')[0]}-",
        "namespace": pod.namespace,
        "uid": pod.uid,
        "creationTimestamp": created,
        "labels": dict(pod.labels),
        **({"annotations": annotations} if annotations else {}),
        **({"ownerReferences": [_owner(spec.seed, pod.owner)]} if pod.owner else {}),
        "managedFields": _managed_fields(pod, created),
    }
    document = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {
            "volumes": [_token_volume(spec.seed, pod)],
            "containers": [_container_objects(spec.seed, pod, container) for container in pod.containers],
            "restartPolicy": "Never" if pod.owner and pod.owner.kind == "Job" else "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "nodeName": spec.name,
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": _pod_status(pod, phase, created),
    }
    _pad(document, wanted_bytes, spec.seed)
    return document


def node_document(
    spec: NodeSpec, pods: Iterable[SimulatedPod], labels: Mapping[str, str], *, epoch: float
) -> dict[str, Any]:
    created = _timestamp(epoch - 30 * 86_400)
    allocated = Counter(grant.resource for pod in pods for box in pod.containers for grant in box.grants)
    capacity = {
        "cpu": "96",
        "memory": "1056270412Ki",
        "pods": "110",
        **{k: str(n) for k, n in allocated.items()},
    }
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": spec.name,
            "uid": identity.uuid(spec.seed, "node"),
            "creationTimestamp": created,
            "labels": dict(labels),
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": "10.244.3.0/24"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "addresses": [
                {"type": "InternalIP", "address": _ADDRESS},
                {"type": "Hostname", "address": spec.name},
            ],
            "nodeInfo": {"kubeletVersion": "v1.33.4", "containerRuntimeVersion": "containerd://2.1.4"},
        },
    }


def node_labels(spec: NodeSpec) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "bare-metal",
        "topology.kubernetes.io/region": "simulated",
        "topology.kubernetes.io/zone": "simulated-1",
    }
    for vendor in spec.vendors:
        labels |= simulated_vendor(vendor).node_labels
    return labels | dict(spec.node_labels)


def _timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _owner(seed: int, owner: PodOwner) -> dict[str, Any]:
    """The direct controller of the pod: for a Deployment, its ReplicaSet."""
    kind, name = owner.kind, str(owner.name)
    if kind == "Deployment":
        kind, name = "ReplicaSet", f"{name}-{template_hash(seed, owner)}"
    return {
        "apiVersion": _API_GROUPS.get(kind, "apps/v1"),
        "kind": kind,
        "name": name,
        "uid": identity.uuid(seed, "owner", kind, name),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _container_objects(seed: int, pod: SimulatedPod, container: SimulatedContainer) -> dict[str, Any]:
    allocated = Counter(grant.resource for grant in container.grants)
    limits = {resource: str(count) for resource, count in allocated.items()}
    return {
        "name": container.name,
        "image": _image(container),
        "env": [{"name": "POD_NAMESPACE", "value": pod.namespace}],
        "resources": {"limits": limits, "requests": limits} if limits else {},
        "volumeMounts": [
            {
                "name": _token_volume(seed, pod)["name"],
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _image(container: SimulatedContainer) -> str:
    return f"registry.example.com/{container.name}:1.0"


def _token_volume(seed: int, pod: SimulatedPod) -> dict[str, Any]:
    sources = [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]
    name = f"kube-api-access-{identity.hex_id(seed, 'volume', pod.uid)[:5]}"
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


def _toleration(state: str) -> dict[str, Any]:
    key = f"node.kubernetes.io/{state}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def _pod_status(pod: SimulatedPod, phase: str, created: str) -> dict[str, Any]:
    running = phase == "Running"
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [
        {
            "type": kind,
            "status": "True" if running or kind in ("Initialized", "PodScheduled") else "False",
            "lastProbeTime": None,
            "lastTransitionTime": created,
        }
        for kind in kinds
    ]
    status: dict[str, Any] = {"phase": phase, "conditions": conditions, "qosClass": _QOS[pod.qos]}
    if phase == "Pending":
        return status
    last = {"startedAt": created}
    state = {"running": last} if running else {"terminated": {**last, "exitCode": 0, "reason": "Completed"}}
    return status | {
        "hostIP": _ADDRESS,
        "podIP": "10.244.3.7",
        "podIPs": [{"ip": "10.244.3.7"}],
        "startTime": created,
        "containerStatuses": [
            {
                "name": container.name,
                "state": state,
                "lastState": {},
                "ready": running,
                "restartCount": 0,
                "image": _image(container),
                "imageID": f"registry.example.com/{container.name}@sha256:{container.id[::-1]}",
                "containerID": f"containerd://{container.id}",
                "started": running,
            }
            for container in pod.containers
        ],
    }


def _managed_fields(pod: SimulatedPod, created: str) -> list[dict[str, Any]]:
    """`managedFields`, which are a large part of every real object."""
    containers: dict[str, Any] = {
        f'k:{{"name":"{container.name}"}}': {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}
        for container in pod.containers
    }
    written = {
        "kube-controller-manager": {
            "f:metadata": {"f:labels": {".": {}, **{f"f:{name}": {} for name, _ in pod.labels}}},
            "f:spec": {"f:containers": containers, "f:restartPolicy": {}, "f:schedulerName": {}},
        },
        "kubelet": {"f:status": {"f:containerStatuses": {}, "f:phase": {}, "f:podIP": {}, "f:startTime": {}}},
    }
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": created,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        for manager, fields in written.items()
    ]


def _pad(document: dict[str, Any], wanted_bytes: int, seed: int) -> None:
    """Pads the pod to about the wanted size, with environment variables of the first container."""
    environment = document["spec"]["containers"][0]["env"]
    missing = wanted_bytes - len(json.dumps(document, separators=(",", ":")))
    for number in range(missing // 100):
        value = identity.hex_id(seed, "setting", number)
        environment.append({"name": f"SETTING_{number:04}", "value": value})  # about 100 bytes each
