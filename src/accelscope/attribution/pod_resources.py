"""What the kubelet says that containers hold: its pod-resources API, versions v1 and v1alpha1.

The field numbers below are those of the kubelet's published api.proto. Both versions use the same ones,
v1alpha1 fewer of them. The kubelet lists every pod of the node, also those that hold nothing and those that
have ended: the former are left out here, the latter by whoever knows the pods.
"""

import time
from dataclasses import dataclass

from accelscope.attribution.protobuf import fields, string, submessage
from accelscope.kube.errors import DecodeError
from accelscope.kube.unary import UnaryError, UnaryReason, unary_call

_NEWEST, _OLDEST = "v1", "v1alpha1"
_LEAST_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class HeldDevices:
    resource_name: str
    device_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimDevice:
    """One device of a claim, by the names that its driver publishes in ResourceSlices; empty where the
    kubelet is too old to tell."""

    driver: str
    pool: str
    device: str
    share_id: str | None = None
    cdi: tuple[str, ...] = ()  # fully qualified: vendor.com/class=name


@dataclass(frozen=True, slots=True)
class Claim:
    namespace: str
    name: str
    devices: tuple[ClaimDevice, ...]


@dataclass(frozen=True, slots=True)
class HeldContainer:
    name: str
    devices: tuple[HeldDevices, ...] = ()  # one per resource
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldPod:
    namespace: str
    name: str
    containers: tuple[HeldContainer, ...]  # those that hold something


class PodResourcesClient:
    def __init__(self, socket_path: str, timeout_seconds: float) -> None:
        self._socket_path = socket_path
        self._timeout_seconds = timeout_seconds
        self.version: str | None = None  # that the kubelet spoke at the last call; None: it failed

    def list(self) -> tuple[HeldPod, ...]:
        """The pods that hold something. Raises UnaryError. After an error the newest version is tried first
        again: another kubelet may have taken the place of the old."""
        deadline = time.monotonic() + self._timeout_seconds
        known, self.version = self.version, None
        version = known or _NEWEST
        try:
            answer = self._ask(version, deadline)
        except UnaryError as error:
            if known is not None or error.reason is not UnaryReason.UNIMPLEMENTED:
                raise
            version = _OLDEST
            answer = self._ask(version, deadline)
        try:
            pods = decode(answer)
        except DecodeError as error:
            raise UnaryError(UnaryReason.BAD_ANSWER, f"{self._socket_path}: {error}") from error
        self.version = version
        return pods

    def _ask(self, version: str, deadline: float) -> bytes:
        return unary_call(
            self._socket_path,
            f"/{version}.PodResourcesLister/List",
            timeout_seconds=max(deadline - time.monotonic(), _LEAST_SECONDS),
        )


def decode(message: bytes) -> tuple[HeldPod, ...]:
    """A ListPodResourcesResponse, of either version. Raises DecodeError."""
    pods = []
    for number, value in fields(message):
        if number == 1:
            pod = _pod(submessage(value))
            if pod.containers:
                pods.append(pod)
    return tuple(pods)


def _pod(message: memoryview) -> HeldPod:
    name = namespace = ""
    containers = []
    for number, value in fields(message):
        if number == 1:
            name = string(value)
        elif number == 2:
            namespace = string(value)
        elif number == 3:
            container = _container(submessage(value))
            if container is not None:
                containers.append(container)
    return HeldPod(namespace, name, tuple(containers))


def _container(message: memoryview) -> HeldContainer | None:
    name = ""
    # A resource may stand in several entries: one per NUMA node, and since 1.34 one per device.
    held: dict[str, dict[str, None]] = {}
    claims = []
    for number, value in fields(message):
        if number == 1:
            name = string(value)
        elif number == 2:
            resource, ids = _devices(submessage(value))
            held.setdefault(resource, {}).update(dict.fromkeys(ids))
        elif number == 5:
            claims.append(_claim(submessage(value)))
    devices = tuple(HeldDevices(resource, tuple(ids)) for resource, ids in held.items() if ids)
    if not devices and not claims:
        return None
    return HeldContainer(name, devices, tuple(dict.fromkeys(claims)))


def _devices(message: memoryview) -> tuple[str, list[str]]:
    resource, ids = "", []
    for number, value in fields(message):
        if number == 1:
            resource = string(value)
        elif number == 2:
            ids.append(string(value))
    return resource, ids


def _claim(message: memoryview) -> Claim:
    name = namespace = ""
    devices = []
    for number, value in fields(message):
        if number == 2:  # 1 was the class, which 1.31 took away
            name = string(value)
        elif number == 3:
            namespace = string(value)
        elif number == 4:
            devices.append(_claim_device(submessage(value)))
    return Claim(namespace, name, tuple(dict.fromkeys(devices)))


def _claim_device(message: memoryview) -> ClaimDevice:
    names = ["", "", ""]
    share_id: str | None = None
    cdi = []
    for number, value in fields(message):
        if number == 1:
            cdi += [string(name) for field, name in fields(submessage(value)) if field == 1]
        elif number in (2, 3, 4):
            names[number - 2] = string(value)
        elif number == 5:
            share_id = string(value) or None
    driver, pool, device = names
    return ClaimDevice(driver, pool, device, share_id, tuple(filter(None, cdi)))
