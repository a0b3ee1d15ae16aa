"""Nodes and pods reduced to the fields that the fleet needs: 20 KB become a few hundred bytes."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import msgspec

from accelscope.kube.endpoint import DecodeError
from accelscope.vendors import VendorDeclaration, declarations

DEVICES = "accelscope.io/devices"

_ANNOTATION_BYTES = 64 << 10  # sixteen chips need about 3 KB
_LABELS = 500
_LONGEST_LABEL, _LONGEST_LABEL_VALUE = 253 + 1 + 63, 63  # the limits of API servers
_LONGEST_ADDRESS = 64  # characters of an IP address
_PORTS = 64  # per pod
_SHARED_TEXTS = 10_000
_VENDORS = 8  # annotations per vendor
# Resources of the vendors' domains that are not devices: shares of memory and cores, network functions.
_NOT_A_DEVICE = re.compile(
    r"mem|core$|cores|percent|priority|rdma|sriov|hostdev|nic\b|^ib", re.ASCII | re.IGNORECASE
)
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def resources_of(vendors: Iterable[VendorDeclaration]) -> re.Pattern[str]:
    """Matches resource names in the vendors' domains; the group is the part after the domain."""
    domains = "|".join(re.escape(vendor.resource_domain) for vendor in vendors if vendor.resource_domain)
    return re.compile(rf"(?:[a-z0-9-]+\.)*(?:{domains})/(.+)", re.ASCII)


_RESOURCES = resources_of(declarations().values())


class _ReducedObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Stored while the object exists. It has no reference cycles, so the garbage collector can skip it."""


class NodeObject(_ReducedObject, frozen=True, kw_only=True, gc=False):
    name: str
    labels: Mapping[str, str]
    ready: bool
    accelerators: Mapping[str, int]  # allocatable by resource: nvidia.com/gpu, huawei.com/Ascend910 ...
    vendor_annotations: tuple[tuple[str, str], ...] = ()  # key and text of annotations that vendors declare
    devices_annotation: str | None = None  # accelscope.io/devices
    # accelscope.io/devices.<vendors> of agents that read only some vendors: key and text
    devices_by_vendor: tuple[tuple[str, str], ...] = ()


class AgentPod(_ReducedObject, frozen=True, kw_only=True, gc=False):
    namespace: str
    name: str
    node: str | None  # None: not scheduled yet
    ip: str | None
    ready: bool
    ports: Mapping[str, int]  # container ports by name


class DriverPod(_ReducedObject, frozen=True, kw_only=True, gc=False):
    namespace: str
    name: str
    node: str | None
    vendor: str | None  # None: not a driver pod
    container: str | None  # the container with the vendor's tool
    ready: bool  # the container is running and ready


class _JsonObject(msgspec.Struct, rename="camel"):
    """The fields that are read; all others are ignored."""


class _Metadata(_JsonObject):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Condition(_JsonObject):
    type: str = ""
    status: str = ""


class _NodeStatus(_JsonObject):
    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None
    conditions: list[_Condition] | None = None


class _Node(_JsonObject):
    metadata: _Metadata
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _Port(_JsonObject):
    container_port: int
    name: str = ""


class _Container(_JsonObject):
    name: str = ""
    ports: list[_Port] | None = None


class _PodSpec(_JsonObject):
    node_name: str = ""
    containers: list[_Container] = []


class _ContainerStatus(_JsonObject):
    name: str = ""
    ready: bool = False
    state: dict[str, Any] | None = None


class _PodStatus(_JsonObject):
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    pod_i_p: str | None = msgspec.field(default=None, name="podIP")


class _Pod(_JsonObject):
    metadata: _Metadata
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


P = TypeVar("P", bound=_JsonObject)

# Thousands of nodes have the same labels. `sys.intern` would never free them in Python 3.12.
_shared_texts: dict[str, str] = {}


def _shared(text: str) -> str:
    if len(_shared_texts) >= _SHARED_TEXTS:
        _shared_texts.clear()
    return _shared_texts.setdefault(text, text)


@cache
def vendor_annotations() -> Mapping[str, VendorDeclaration]:
    """Vendors by the name of the annotation that they declare."""
    vendors = declarations().values()
    return {vendor.annotation.name: vendor for vendor in vendors if vendor.annotation is not None}


def decode_node(document: object) -> NodeObject:
    """Raises DecodeError if it is not a node."""
    node = _read(document, _Node)
    annotations = node.metadata.annotations or {}
    return NodeObject(
        name=node.metadata.name,
        labels=_labels(node.metadata.labels or {}),
        ready=_is_true(node.status.conditions, "Ready"),
        accelerators=_accelerators(node.status.allocatable or {}, node.status.capacity or {}),
        vendor_annotations=tuple(
            (key, text) for key in vendor_annotations() if (text := _annotation(annotations, key)) is not None
        ),
        devices_annotation=_annotation(annotations, DEVICES),
        devices_by_vendor=tuple(
            (key, text)
            for key in sorted(annotations)
            if key.startswith(f"{DEVICES}.") and len(key) <= _LONGEST_LABEL
            if (text := _annotation(annotations, key)) is not None
        )[:_VENDORS],
    )


def decode_agent_pod(document: object) -> AgentPod:
    """Raises DecodeError if it is not a pod."""
    pod = _read(document, _Pod)
    ports = (port for container in pod.spec.containers for port in container.ports or ())
    return AgentPod(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name or None,
        ip=(pod.status.pod_i_p or "")[:_LONGEST_ADDRESS] or None,
        ready=_is_true(pod.status.conditions, "Ready") and pod.metadata.deletion_timestamp is None,
        ports={port.name: port.container_port for port in islice(ports, _PORTS) if 0 < len(port.name) <= 63},
    )


def decode_driver_pod(document: object) -> DriverPod:
    """Decodes any pod of a namespace with driver pods; `container` is None for other pods. Raises DecodeError
    if it is not a pod."""
    pod = _read(document, _Pod)
    vendor, container = _driver_container(pod)
    return DriverPod(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name or None,
        vendor=vendor,
        container=container,
        ready=pod.metadata.deletion_timestamp is None and container is not None and _runs(pod, container),
    )


def pod_key(pod: AgentPod | DriverPod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _driver_container(pod: _Pod) -> tuple[str, str] | tuple[None, None]:
    """The vendor and the name of the container."""
    names = {container.name for container in pod.spec.containers}
    for vendor, declared in declarations().items():
        if declared.driver_pods is not None:
            for name in declared.load(declared.driver_pods.containers)(pod.metadata.labels or {}):
                if name in names:
                    return vendor, name
    return None, None


def _runs(pod: _Pod, container: str) -> bool:
    statuses = pod.status.container_statuses or ()
    return any(
        status.name == container and status.ready and "running" in (status.state or {}) for status in statuses
    )


def _read(document: object, kind: type[P]) -> P:
    try:
        part = msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise DecodeError(str(error)) from None
    assert isinstance(part, _Node | _Pod)
    names = [part.metadata.name, part.metadata.namespace]
    if isinstance(part, _Pod):
        names.append(part.spec.node_name)
    if not names[0] or not all(not name or _NAME.fullmatch(name) for name in names):
        raise DecodeError("the object has an invalid name")
    return part


def _is_true(conditions: list[_Condition] | None, kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions or ())


def _labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    kept = (
        (key, value)
        for key, value in labels.items()
        if len(key) <= _LONGEST_LABEL and len(value) <= _LONGEST_LABEL_VALUE
        if key.isascii() and value.isascii()
    )
    return {_shared(key): _shared(value) for key, value in islice(kept, _LABELS)}


def _accelerators(allocatable: Mapping[str, object], capacity: Mapping[str, object]) -> Mapping[str, int]:
    """Allocatable devices by resource. 0 means that all devices are unhealthy; without capacity it means that
    the device plugin was removed, and the resource is omitted."""
    found: dict[str, int] = {}
    for resource, quantity in allocatable.items():
        match = _RESOURCES.fullmatch(resource) if len(resource) <= _LONGEST_LABEL else None
        count = _count(quantity)
        if match is None or _NOT_A_DEVICE.search(match[1]) or count is None:
            continue
        if count or _count(capacity.get(resource)):
            found[_shared(resource)] = count
    return found


def _count(quantity: object) -> int | None:
    if isinstance(quantity, str) and quantity.isascii() and quantity.isdigit() and len(quantity) <= 6:
        return int(quantity)
    return None


def _annotation(annotations: Mapping[str, str], key: str) -> str | None:
    """None for a text that is too long or contains lone surrogates, which cannot be encoded."""
    text = annotations.get(key)
    if text is None or len(text) > _ANNOTATION_BYTES:
        return None
    return text if text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text) else None
