"""What the kubelet says that containers hold: its pod-resources API, versions v1 and v1alpha1.

The messages are read straight from protobuf's wire format, which is a page of code; the numbers below are
those of the kubelet's published api.proto. Both versions use the same ones, v1alpha1 fewer of them. The
kubelet lists every pod of the node, also those that hold nothing and those that have ended: the former are
left out here, the latter by whoever knows the pods.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from accelscope.kube.errors import DecodeError
from accelscope.kube.unary import UnaryError, UnaryReason, unary_call

_NEWEST, _OLDEST = "v1", "v1alpha1"
_LEAST_SECONDS = 0.001

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


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
    for number, value in _fields(message):
        if number == 1:
            pod = _pod(_bytes(value))
            if pod.containers:
                pods.append(pod)
    return tuple(pods)


def _pod(message: memoryview) -> HeldPod:
    name = namespace = ""
    containers = []
    for number, value in _fields(message):
        if number == 1:
            name = _string(value)
        elif number == 2:
            namespace = _string(value)
        elif number == 3:
            container = _container(_bytes(value))
            if container is not None:
                containers.append(container)
    return HeldPod(namespace, name, tuple(containers))


def _container(message: memoryview) -> HeldContainer | None:
    name = ""
    # A resource may stand in several entries: one per NUMA node, and since 1.34 one per device.
    held: dict[str, dict[str, None]] = {}
    claims = []
    for number, value in _fields(message):
        if number == 1:
            name = _string(value)
        elif number == 2:
            resource, ids = _devices(_bytes(value))
            held.setdefault(resource, {}).update(dict.fromkeys(ids))
        elif number == 5:
            claims.append(_claim(_bytes(value)))
    devices = tuple(HeldDevices(resource, tuple(ids)) for resource, ids in held.items() if ids)
    if not devices and not claims:
        return None
    return HeldContainer(name, devices, tuple(dict.fromkeys(claims)))


def _devices(message: memoryview) -> tuple[str, list[str]]:
    resource, ids = "", []
    for number, value in _fields(message):
        if number == 1:
            resource = _string(value)
        elif number == 2:
            ids.append(_string(value))
    return resource, ids


def _claim(message: memoryview) -> Claim:
    name = namespace = ""
    devices = []
    for number, value in _fields(message):
        if number == 2:  # 1 was the class, which 1.31 took away
            name = _string(value)
        elif number == 3:
            namespace = _string(value)
        elif number == 4:
            devices.append(_claim_device(_bytes(value)))
    return Claim(namespace, name, tuple(dict.fromkeys(devices)))


def _claim_device(message: memoryview) -> ClaimDevice:
    names = ["", "", ""]
    share_id: str | None = None
    cdi = []
    for number, value in _fields(message):
        if number == 1:
            cdi += [_string(name) for field, name in _fields(_bytes(value)) if field == 1]
        elif number in (2, 3, 4):
            names[number - 2] = _string(value)
        elif number == 5:
            share_id = _string(value) or None
    driver, pool, device = names
    return ClaimDevice(driver, pool, device, share_id, tuple(filter(None, cdi)))


def _fields(message: bytes | memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """The fields of one message, in order, by number. Of those that are not length-delimited (no name or id
    is) only the length matters, so that they can be passed over."""
    view = memoryview(message)
    size = len(view)
    at = 0
    while at < size:
        key, at = _varint(view, at)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise DecodeError("not a protobuf message: a field number that cannot be")
        if kind == _LENGTH_DELIMITED:
            length, at = _varint(view, at)
            if length > size - at:
                raise DecodeError("a protobuf message that is cut short")
            yield number, view[at : at + length]
            at += length
            continue
        if kind == _VARINT:
            _, at = _varint(view, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
            if at > size:
                raise DecodeError("a protobuf message that is cut short")
        else:
            raise DecodeError(f"not a protobuf message: wire type {kind}")
        yield number, None


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    """The number that starts at `at`, and where the next thing starts."""
    value = 0
    for place, byte in enumerate(view[at : at + _MOST_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise DecodeError("a protobuf message that is cut short, or a number of more than 64 bits")


def _bytes(value: memoryview | None) -> memoryview:
    if value is None:
        raise DecodeError("not a ListPodResourcesResponse: a number where a message should be")
    return value


def _string(value: memoryview | None) -> str:
    try:
        return str(_bytes(value), "utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError("not a ListPodResourcesResponse: a name that is not UTF-8") from error
