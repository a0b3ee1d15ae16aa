"""The kubelet's answer to "who holds which device": messages of its API `podresources/v1`, encoded by hand.

ListPodResourcesResponse {1: PodResources}, PodResources {1: name, 2: namespace, 3: ContainerResources},
ContainerResources {1: name, 2: ContainerDevices}, ContainerDevices {1: resource, 2: ids, 3: TopologyInfo},
TopologyInfo {1: NUMANode}, NUMANode {1: ID}.
"""

from collections.abc import Iterable

from accelscope.simulate.pods import SimulatedContainer, SimulatedPod

LIST = "/v1.PodResourcesLister/List"
_VARINT, _BYTES = 0, 2  # wire types


def list_response(pods: Iterable[SimulatedPod]) -> bytes:
    return b"".join(_field(1, _pod(pod)) for pod in pods)


def _pod(pod: SimulatedPod) -> bytes:
    containers = b"".join(_field(3, _container(container)) for container in pod.containers)
    return _text(1, pod.name) + _text(2, pod.namespace) + containers


def _container(container: SimulatedContainer) -> bytes:
    """Ids of one resource stand together where they are on one NUMA node."""
    groups: dict[tuple[str, int], list[str]] = {}
    for grant in container.grants:
        groups.setdefault((grant.resource, grant.device.numa_node), []).append(grant.device_id)
    devices = b"".join(_field(2, _devices(*group, ids)) for group, ids in groups.items())
    return _text(1, container.name) + devices


def _devices(resource: str, numa_node: int, ids: Iterable[str]) -> bytes:
    message = _text(1, resource) + b"".join(_text(2, device_id) for device_id in ids)
    if numa_node >= 0:
        # A zero is not written, as proto3 has it: the node is there, and empty.
        node = _varint(1 << 3 | _VARINT) + _varint(numa_node) if numa_node else b""
        message += _field(3, _field(1, node))
    return message


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
