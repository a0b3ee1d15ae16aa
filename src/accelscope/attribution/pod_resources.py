"""Devices of containers from the kubelet's pod-resources API, versions v1 and v1alpha1.

The field numbers are those of the kubelet's published api.proto; v1alpha1 has a subset of those of v1. The
kubelet lists every pod of the node. Pods without devices are left out here; pods that have ended are left out
by `accelscope.attribution.allocations`.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from accelscope.attribution.options import SourceStatus
from accelscope.deadline import Calls, NoThreadAvailable
from accelscope.kube.endpoint import DecodeError
from accelscope.kube.unary import UnaryError, UnaryReason, unary_call
from accelscope.model import AttributionSourceState

log = logging.getLogger(__name__)

_NEWEST, _OLDEST = "v1", "v1alpha1"
_LEAST_SECONDS = 0.001
_KEPT_SECONDS = 60.0  # how long a response is used while calls fail: a restart of the kubelet


@dataclass(frozen=True, slots=True)
class ResourceDevices:
    resource_name: str
    device_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimDevice:
    """One device of a claim, by the names in the driver's ResourceSlices. Old kubelets leave them empty."""

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
class ContainerResources:
    name: str
    devices: tuple[ResourceDevices, ...] = ()  # one per resource
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    namespace: str
    name: str
    containers: tuple[ContainerResources, ...]  # those with devices or claims


class PodResourcesClient:
    def __init__(self, socket_path: str, timeout_seconds: float) -> None:
        self._socket_path = socket_path
        self._timeout_seconds = timeout_seconds
        self.version: str | None = None  # of the API at the last call; None if the call failed

    def list(self) -> tuple[PodResources, ...]:
        """The pods with devices or claims. Raises UnaryError. After an error the newest version is tried
        first, because the kubelet may have been upgraded."""
        deadline = time.monotonic() + self._timeout_seconds
        known, self.version = self.version, None
        version = known or _NEWEST
        try:
            response = self._call(version, deadline)
        except UnaryError as error:
            if known is not None or error.reason is not UnaryReason.UNIMPLEMENTED:
                raise
            version = _OLDEST
            response = self._call(version, deadline)
        try:
            pods = decode(response)
        except DecodeError as error:
            raise UnaryError(UnaryReason.BAD_ANSWER, f"{self._socket_path}: {error}") from error
        self.version = version
        return pods

    def _call(self, version: str, deadline: float) -> bytes:
        return unary_call(
            self._socket_path,
            f"/{version}.PodResourcesLister/List",
            timeout_seconds=max(deadline - time.monotonic(), _LEAST_SECONDS),
        )


class PodResourcesPoller:
    """Lists the pod resources once per collection, in a thread, so that a hanging kubelet delays nothing."""

    def __init__(
        self,
        client: PodResourcesClient,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        *,
        in_cluster: bool,
    ) -> None:
        """`in_cluster`: a missing kubelet is an error."""
        self._client = client
        self._in_cluster = in_cluster
        self._monotonic = monotonic
        self._status = SourceStatus("pod-resources", clock)
        self._changed = threading.Condition()
        self._calls = Calls("pod-resources", self._changed)
        self._pods: tuple[PodResources, ...] = ()
        self._updated_at: float | None = None
        self._logged_error = ""  # the last internal error that was logged

    def begin(self) -> None:
        """Start a call, unless one is running. It has no deadline: a late response is used too."""
        with self._changed:
            if self._calls.running:
                return
            try:
                self._calls.begin("", self._list, math.inf, self._update)
            except NoThreadAvailable as error:  # the next collection tries again
                self._status.failed("exhausted", f"the agent could not start a thread: {error}")

    def latest(self, wait_seconds: float) -> tuple[PodResources, ...]:
        """The result of the last `begin`, or the earlier one if the call does not finish in time."""
        with self._changed:
            self._changed.wait_for(lambda: not self._calls.running, wait_seconds)
            if self._updated_at is None or self._monotonic() - self._updated_at > _KEPT_SECONDS:
                return ()
            return self._pods

    def state(self) -> AttributionSourceState:
        with self._changed:
            return self._status.state()

    def _list(self) -> tuple[PodResources, ...] | Exception:
        try:
            return self._client.list()
        except UnaryError as error:
            return error
        except Exception as error:  # the next call is made nevertheless
            if (text := f"{type(error).__name__}: {error}") != self._logged_error:
                self._logged_error = text
                log.exception("unexpected error from the kubelet's pod-resources API")
            return error

    def _update(self, result: tuple[PodResources, ...] | Exception) -> None:
        if isinstance(result, UnaryError):
            no_kubelet = result.reason == UnaryReason.NO_SOCKET and not self._in_cluster
            self._status.failed(result.reason, str(result), expected=no_kubelet)
        elif isinstance(result, Exception):
            self._status.failed("internal", f"{type(result).__name__}: {result}")
        else:
            self._pods, self._updated_at = result, self._monotonic()
            self._status.detail = self._client.version
            self._status.succeeded()
        self._changed.notify_all()


def decode(message: bytes) -> tuple[PodResources, ...]:
    """A ListPodResourcesResponse, of either version. Raises DecodeError."""
    pods = []
    for number, value in fields(message):
        if number == 1:
            pod = _pod(submessage(value))
            if pod.containers:
                pods.append(pod)
    return tuple(pods)


def _pod(message: memoryview) -> PodResources:
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
    return PodResources(namespace, name, tuple(containers))


def _container(message: memoryview) -> ContainerResources | None:
    name = ""
    # A resource may have several entries: one per NUMA node, and since 1.34 one per device.
    resources: dict[str, dict[str, None]] = {}
    claims = []
    for number, value in fields(message):
        if number == 1:
            name = string(value)
        elif number == 2:
            resource, ids = _devices(submessage(value))
            resources.setdefault(resource, {}).update(dict.fromkeys(ids))
        elif number == 5:
            claims.append(_claim(submessage(value)))
    devices = tuple(ResourceDevices(resource, tuple(ids)) for resource, ids in resources.items() if ids)
    if not devices and not claims:
        return None
    return ContainerResources(name, devices, tuple(dict.fromkeys(claims)))


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
        if number == 2:  # 1 was the class, removed in 1.31
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


# Protobuf's wire format. Decoding it takes a page of code, so the agent needs no protobuf package.
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


def fields(message: bytes | memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """The fields of a message by number, in order. Fields that are not length-delimited have no value: names
    and ids always are."""
    view = memoryview(message)
    size = len(view)
    at = 0
    while at < size:
        key, at = _varint(view, at)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise DecodeError("not a protobuf message: invalid field number")
        if kind == _LENGTH_DELIMITED:
            length, at = _varint(view, at)
            if length > size - at:
                raise DecodeError("truncated protobuf message")
            yield number, view[at : at + length]
            at += length
            continue
        if kind == _VARINT:
            _, at = _varint(view, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
            if at > size:
                raise DecodeError("truncated protobuf message")
        else:
            raise DecodeError(f"not a protobuf message: wire type {kind}")
        yield number, None


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    """The number at `at`, and the offset after it."""
    value = 0
    for place, byte in enumerate(view[at : at + _MOST_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise DecodeError("truncated protobuf message, or a number of more than 64 bits")


def submessage(value: memoryview | None) -> memoryview:
    if value is None:
        raise DecodeError("not the expected message: a number instead of a message")
    return value


def string(value: memoryview | None) -> str:
    try:
        return str(submessage(value), "utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError("not the expected message: a name that is not UTF-8") from error
