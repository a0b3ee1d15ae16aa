"""What the plugin asks of the kubelet: to be registered, and who else serves a resource."""

from pathlib import Path
from typing import Any

import grpc

from accelscope.deviceplugin.messages import allocatable_pb2, device_plugin_pb2
from accelscope.deviceplugin.service import own_options

VERSION = "v1beta1"
SOCKET_NAME = "kubelet.sock"

_REGISTER = f"/{VERSION}.Registration/Register"
_ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"
_ALLOCATED = "/v1.PodResourcesLister/List"
# A proxy that the environment names is for the network, not for a socket of this machine.
_CHANNEL = (("grpc.enable_http_proxy", 0),)


class KubeletError(Exception):
    """`reason` can be counted; the text is one line for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def mark(socket: Path) -> tuple[int, int, int] | None:
    """Differs when another kubelet made the socket; None: there is none. An inode may come again."""
    try:
        status = socket.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def register(socket: Path, *, endpoint: str, resource: str, timeout_seconds: float) -> None:
    """Raises KubeletError."""
    request = device_plugin_pb2.RegisterRequest(
        version=VERSION, endpoint=endpoint, resource_name=resource, options=own_options()
    )
    try:
        _call(socket, _REGISTER, request, device_plugin_pb2.Empty, timeout_seconds)
    except grpc.RpcError as error:
        raise _refusal(error, socket, resource) from error


def served_ids(socket: Path, resource: str, timeout_seconds: float) -> tuple[str, ...]:
    """Device ids that the kubelet has to give under that name, whoever serves it. Raises KubeletError."""
    try:
        answer = _call(
            socket,
            _ALLOCATABLE,
            device_plugin_pb2.Empty(),
            allocatable_pb2.AllocatableResources,
            timeout_seconds,
        )
    except grpc.RpcError as error:
        details = _details(error)
        raise KubeletError("pod_resources", f"{socket} does not tell who serves what: {details}") from error
    ids = (each for entry in answer.devices if entry.resource_name == resource for each in entry.device_ids)
    return tuple(dict.fromkeys(ids))


def held_ids(socket: Path, timeout_seconds: float) -> dict[str, frozenset[str]]:
    """Device ids that containers hold, each with the names of its resources. Raises KubeletError."""
    try:
        answer = _call(
            socket, _ALLOCATED, device_plugin_pb2.Empty(), allocatable_pb2.AllocatedResources, timeout_seconds
        )
    except grpc.RpcError as error:
        raise KubeletError("pod_resources", f"no answer from {socket}: {_details(error)}") from error
    found: dict[str, set[str]] = {}
    for devices in (entry for pod in answer.pods for each in pod.containers for entry in each.devices):
        for device_id in devices.device_ids:
            found.setdefault(device_id, set()).add(devices.resource_name)
    return {device_id: frozenset(resources) for device_id, resources in found.items()}


def _call(socket: Path, method: str, request: Any, answer: Any, timeout_seconds: float) -> Any:
    with grpc.insecure_channel(f"unix:{socket}", options=_CHANNEL) as channel:
        ask = channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return ask(request, timeout=timeout_seconds)


def _refusal(error: Any, socket: Path, resource: str) -> KubeletError:
    code, details = error.code(), _details(error)
    if code is grpc.StatusCode.UNAVAILABLE:
        return KubeletError("unavailable", f"no kubelet answers on {socket}: {details}")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return KubeletError("timeout", f"the kubelet on {socket} does not answer")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return KubeletError(
            "version", f"who answers on {socket} does not know device plugins of version {VERSION}: {details}"
        )
    if "version" in details.lower():
        return KubeletError(
            "version", f"this kubelet does not take device plugins of version {VERSION}: {details}"
        )
    return KubeletError("refused", f"the kubelet refuses to register {resource}: {details}")


def _details(error: Any) -> str:
    return " ".join(str(error.details() or error.code().name).split())[:300]
