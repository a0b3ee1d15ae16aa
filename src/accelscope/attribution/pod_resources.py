"""What the kubelet says that containers hold: its pod-resources API, versions v1 and v1alpha1.

The field numbers below are those of the kubelet's published api.proto. Both versions use the same ones,
v1alpha1 fewer of them. The kubelet lists every pod of the node, also those that hold nothing and those that
have ended: the former are left out here, the latter by whoever knows the pods.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from accelscope.attribution.options import SourceLog
from accelscope.deadline import Calls, NoThread
from accelscope.kube.errors import DecodeError
from accelscope.kube.unary import UnaryError, UnaryReason, unary_call
from accelscope.model import AttributionSourceState

# --- protobuf ------------------------------------------------------------
# Reading protobuf's wire format, which is a page of code: the agent does without the package.


_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


def fields(message: bytes | memoryview) -> Iterator[tuple[int, memoryview | None]]:
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


def submessage(value: memoryview | None) -> memoryview:
    if value is None:
        raise DecodeError("not the expected message: a number where a message should be")
    return value


def string(value: memoryview | None) -> str:
    try:
        return str(submessage(value), "utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError("not the expected message: a name that is not UTF-8") from error


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


# --- holdings ------------------------------------------------------------
# What the kubelet says that pods hold: asked once per collection, beside the readers.
#
# A thread of its own asks, so that a kubelet that hangs delays no page.


log = logging.getLogger(__name__)

_KEPT_SECONDS = 60.0  # how long an answer stands in for those that fail to come: a kubelet's restart


class Holdings:
    def __init__(
        self,
        client: PodResourcesClient,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        *,
        in_cluster: bool,
    ) -> None:
        """`in_cluster`: there should be a kubelet."""
        self._client = client
        self._in_cluster = in_cluster
        self._monotonic = monotonic
        self._log = SourceLog("pod-resources", clock)
        self._changed = threading.Condition()
        self._calls = Calls("pod-resources", self._changed)
        self._pods: tuple[HeldPod, ...] = ()
        self._answered_at: float | None = None
        self._internal_error = ""  # the last one that was logged

    def begin(self) -> None:
        """Ask, unless a call is still under way. It has no deadline: a late answer is used too."""
        with self._changed:
            if self._calls.running:
                return
            try:
                self._calls.begin("", self._ask, math.inf, self._take)
            except NoThread as error:  # the next collection tries again
                self._log.failed("exhausted", f"the agent got no thread to ask in: {error}")

    def latest(self, wait_seconds: float) -> tuple[HeldPod, ...]:
        """The answer to the last `begin`, or what was known before if it does not come in time."""
        with self._changed:
            self._changed.wait_for(lambda: not self._calls.running, wait_seconds)
            if self._answered_at is None or self._monotonic() - self._answered_at > _KEPT_SECONDS:
                return ()
            return self._pods

    def state(self) -> AttributionSourceState:
        with self._changed:
            return self._log.state()

    def _ask(self) -> tuple[HeldPod, ...] | Exception:
        try:
            return self._client.list()
        except UnaryError as error:
            return error
        except Exception as error:  # a fault of ours costs this answer, not all that follow
            if (text := f"{type(error).__name__}: {error}") != self._internal_error:
                self._internal_error = text
                log.exception("unexpected error from the kubelet's pod-resources API")
            return error

    def _take(self, answer: tuple[HeldPod, ...] | Exception) -> None:
        if isinstance(answer, UnaryError):
            no_kubelet_here = answer.reason == UnaryReason.NO_SOCKET and not self._in_cluster
            self._log.failed(answer.reason, str(answer), expected=no_kubelet_here)
        elif isinstance(answer, Exception):
            self._log.failed("internal", f"{type(answer).__name__}: {answer}")
        else:
            self._pods, self._answered_at = answer, self._monotonic()
            self._log.detail = self._client.version
            self._log.succeeded()
