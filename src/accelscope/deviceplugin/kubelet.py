"""The kubelet's side: calls to it, the plugin's socket in its folder, and registration."""

import errno
import logging
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from accelscope.deviceplugin.messages import allocatable_pb2, device_plugin_pb2
from accelscope.deviceplugin.metrics import Tally
from accelscope.deviceplugin.service import MAX_STREAMS, own_options

log = logging.getLogger(__name__)

VERSION = "v1beta1"
SOCKET_NAME = "kubelet.sock"

_REGISTER = f"/{VERSION}.Registration/Register"
_ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"
_ALLOCATED = "/v1.PodResourcesLister/List"
# Proxies in the environment do not apply to a unix socket.
_CHANNEL = (("grpc.enable_http_proxy", 0),)
_CALL_SECONDS = 5.0
_JUST_ALLOCATED_SECONDS = 60.0  # within which the kubelet lists a pod that it has admitted

_CONNECT_SECONDS = 2.0
_THREADS = MAX_STREAMS + 8  # each stream occupies one; the others answer calls
_STOP_SECONDS = 2.0
_OWNER_ONLY_UMASK = 0o177
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class KubeletError(Exception):
    """`reason` is the value of a metric's label; the text is one line for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def mark(socket: Path) -> tuple[int, int, int] | None:
    """Identifies the process that created the socket; None: there is no socket. The time of change is part of
    it, because an inode number can be reused."""
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
    """Device ids that the kubelet can allocate under that resource, of any plugin. Raises KubeletError."""
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
        raise KubeletError(
            "pod_resources", f"{socket} does not list the allocatable devices: {details}"
        ) from error
    ids = (each for entry in answer.devices if entry.resource_name == resource for each in entry.device_ids)
    return tuple(dict.fromkeys(ids))


def allocated_ids(socket: Path, timeout_seconds: float) -> dict[str, frozenset[str]]:
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
        call = channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=timeout_seconds)


def _refusal(error: Any, socket: Path, resource: str) -> KubeletError:
    code, details = error.code(), _details(error)
    if code is grpc.StatusCode.UNAVAILABLE:
        return KubeletError("unavailable", f"no kubelet answers on {socket}: {details}")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return KubeletError("timeout", f"the kubelet on {socket} does not answer")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return KubeletError(
            "version", f"the server on {socket} does not support device plugins of {VERSION}: {details}"
        )
    if "version" in details.lower():
        return KubeletError(
            "version", f"this kubelet does not support device plugins of {VERSION}: {details}"
        )
    return KubeletError("refused", f"the kubelet rejected the registration of {resource}: {details}")


def _details(error: Any) -> str:
    return " ".join(str(error.details() or error.code().name).split())[:300]


class Allocations:
    """The ids that containers hold: those that the kubelet lists, and those that were just allocated."""

    def __init__(self, socket: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._socket = Path(socket) if socket else None
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._listed: Mapping[str, frozenset[str]] = {}
        self._just_allocated: dict[str, float] = {}  # id -> when
        self.awaits_first_answer = bool(socket)
        self.unknown: str | None = "not asked yet" if socket else "--pod-resources-socket is empty"

    def refresh(self) -> None:
        """Ask the kubelet. While it does not answer, its last answer stays valid."""
        if self._socket is None:
            return
        try:
            listed = allocated_ids(self._socket, _CALL_SECONDS)
        except KubeletError as error:
            log.debug("%s", error)
            self.unknown = str(error)
            return
        with self._lock:
            self._listed = listed
            self.unknown = None
            self.awaits_first_answer = False

    def note(self, ids: Iterable[str]) -> None:
        """Add ids that were just allocated."""
        with self._lock:
            self._just_allocated.update(dict.fromkeys(ids, self._monotonic()))

    def allocated(self, resource: str) -> Mapping[str, frozenset[str]]:
        """Allocated ids and their resources; `resource` is that of the ids that were just allocated."""
        with self._lock:
            oldest = self._monotonic() - _JUST_ALLOCATED_SECONDS
            self._just_allocated = {
                each: when for each, when in self._just_allocated.items() if when > oldest
            }
            return {**dict.fromkeys(self._just_allocated, frozenset({resource})), **self._listed}


class PluginSocketError(Exception):
    """The plugin cannot listen on its socket. `reason` is the value of a metric's label; the text is one line
    for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def check_folder(folder: Path) -> None:
    """Raises PluginSocketError for a folder in which no socket can be made."""
    if not folder.is_dir():
        raise PluginSocketError(
            "no_folder", f"{folder} is not a folder: does this node run a kubelet, and is its folder mounted?"
        )
    scratch = folder / f".accelscope-{os.getpid()}"
    try:
        scratch.touch()  # permissions are not enough: a folder may be read-only even for root
        scratch.unlink(missing_ok=True)  # a starting kubelet may have removed it
    except FileNotFoundError as error:  # raised by file systems such as /proc
        raise PluginSocketError(
            "not_writable", f"no file can be created in {folder}: set --plugin-dir to the kubelet's folder"
        ) from error
    except OSError as error:
        problem = f"{folder} cannot be written to ({_text(error)})"
        if error.errno in _FORBIDDEN:
            problem = f"{folder} is not writable ({_text(error)}): run as root, and mount it without readOnly"
        raise PluginSocketError("not_writable", problem) from error


def answers(path: Path) -> bool:
    """Whether a server listens on the socket. Raises OSError if that cannot be determined."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:  # the server's queue is full
            return True
        return True


class PluginSocket:
    """A server on its socket, from `start()` to `stop()`."""

    def __init__(self, path: Path, handlers: Any) -> None:
        self.path = path
        self._handlers = handlers
        self._server: Any = None
        self._mark: tuple[int, int] | None = None

    def start(self) -> None:
        """Raises PluginSocketError."""
        check_folder(self.path.parent)
        _clear(self.path)
        server = grpc.server(ThreadPoolExecutor(_THREADS, thread_name_prefix="kubelet"), [self._handlers])
        # The kubelet runs as root. A later chmod would leave the socket open to others for a moment.
        mask = os.umask(_OWNER_ONLY_UMASK)
        try:
            server.add_insecure_port(f"unix:{self.path}")
        except RuntimeError as error:
            raise PluginSocketError("not_served", f"cannot listen on {self.path}: {error}") from error
        finally:
            os.umask(mask)
        server.start()
        self._server = server
        self._mark = _mark(self.path)

    @property
    def alive(self) -> bool:
        """Whether the socket still exists. A starting kubelet empties its folder."""
        return self._mark is not None and _mark(self.path) == self._mark

    def stop(self) -> None:
        """Leaves a socket that another process created in its place. Does nothing if not running."""
        if self._server is None:
            return
        ours = self.alive
        # grpcio removes the file by its name, even if it is another process's socket.
        aside = None if ours else _link_aside(self.path)
        self._server.stop(grace=0.5).wait(_STOP_SECONDS)
        self._server = self._mark = None
        if ours:
            self.path.unlink(missing_ok=True)
        elif aside is not None:
            aside.replace(self.path)


def _clear(path: Path) -> None:
    """Remove the socket of a plugin that was killed."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise PluginSocketError("not_a_socket", f"{path} exists and is not a socket: remove it")
    try:
        taken = answers(path)
    except OSError as error:
        raise PluginSocketError(
            "not_served", f"{path} exists and cannot be connected to: {_text(error)}"
        ) from error
    if taken:
        raise PluginSocketError(
            "occupied",
            f"another plugin listens on {path}: stop it, or set another --socket-name and --resource-name",
        )
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise PluginSocketError("not_writable", f"{path} cannot be removed: {_text(error)}") from error


def _link_aside(path: Path) -> Path | None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        aside.hardlink_to(path)
        return aside
    return None


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino  # unique while our socket is bound to it


def _text(error: OSError) -> str:
    return "no answer" if error.errno == errno.ETIMEDOUT else error.strerror or str(error)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """All in seconds."""

    first_retry: float = 1.0  # doubles at each failure
    longest_retry: float = 30.0
    stream: float = 10.0  # for the kubelet to open its stream after registration, or again
    takeover: float = 10.0  # for the kubelet to notice that an earlier plugin has ended
    first_answer: float = 60.0  # for the kubelet to list the allocated devices before the first offer


class Registration:
    """Keeps the plugin registered.

    A starting kubelet empties its folder, creates a new socket and does not remember its plugins. A running
    one may lose a plugin too. Each tick therefore checks both sockets and the kubelet's stream, and registers
    again if needed. An error is logged once, and again when it changes.
    """

    def __init__(
        self,
        *,
        folder: Path,
        endpoint_name: str,
        pod_resources: Path | None,
        handlers: Any,
        tally: Tally,
        timeouts: Timeouts | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kubelet = folder / SOCKET_NAME
        self._endpoint_name = endpoint_name
        self._endpoint = PluginSocket(folder / endpoint_name, handlers)
        self._pod_resources = pod_resources
        self._tally = tally
        self._timeouts = timeouts or Timeouts()
        self._monotonic = monotonic
        self._mark: object = None  # of the kubelet's socket at the last attempt
        self._registered_at: float | None = None
        self._served_since: float | None = None  # when another plugin was first seen to serve the resource
        self._failures = 0
        self._not_before = 0.0
        self._logged = ""
        self._lock = threading.Lock()
        self._stopped = False
        self.trouble: str | None = "not registered yet"  # one line, for the readiness probe

    @property
    def registered(self) -> bool:
        return self._registered_at is not None

    def tick(self, resource: str) -> None:
        """Register `resource` if the kubelet does not have this plugin for it."""
        with self._lock:
            if not self._stopped:
                self._register_if_needed(resource)

    def _register_if_needed(self, resource: str) -> None:
        now = self._monotonic()
        current = mark(self._kubelet)
        if current != self._mark:  # the kubelet restarted: earlier failures do not count
            self._mark, self._failures, self._not_before = current, 0, now
            self._registered_at = self._served_since = None
        if self.registered and not self._endpoint.alive:
            log.info("the plugin's socket was removed")
            self._registered_at, self._not_before = None, now
        if self.registered and self._is_watched(now):
            return
        if now < self._not_before:
            return
        try:
            self._serve()
            self._expect_kubelet()
            self._check_other_plugins(resource, now)
            register(
                self._kubelet,
                endpoint=self._endpoint_name,
                resource=resource,
                timeout_seconds=_CALL_SECONDS,
            )
        except (PluginSocketError, KubeletError) as error:
            self._failed(error, now)
            return
        self._registered_at = self._monotonic()
        self._failures = 0
        self._served_since = None
        self.trouble = None
        self._logged = ""
        self._tally.count("registrations")
        log.info("registered %s with the kubelet on %s", resource, self._endpoint.path)

    def stop(self) -> None:
        """Waits for a running call to the kubelet."""
        with self._lock:
            self._stopped = True
            self._endpoint.stop()
            self._registered_at = None
            self.trouble = "stopped"

    def _expect_kubelet(self) -> None:
        if self._mark is None:
            raise KubeletError("no_socket", f"{self._kubelet} does not exist: waiting for the kubelet")

    def _serve(self) -> None:
        if not self._endpoint.alive:
            self._endpoint.stop()
            self._endpoint.start()

    def _is_watched(self, now: float) -> bool:
        """Whether the kubelet has a stream open, or had one a moment ago. It opens one right after
        registration, and closes it when it drops the plugin."""
        if self._tally.listening:
            return True
        silent = self._tally.since_listened_seconds
        registered = now - (self._registered_at or now)
        return min(registered, registered if silent is None else silent) < self._timeouts.stream

    def _check_other_plugins(self, resource: str, now: float) -> None:
        """Raises KubeletError if another plugin serves the resource. The kubelet may list the devices of a
        plugin for some time after its end."""
        if self._pod_resources is None or self._tally.listening:
            return
        try:
            ids = served_ids(self._pod_resources, resource, _CALL_SECONDS)
        except KubeletError as error:
            log.debug("%s", error)
            return
        if not ids:
            self._served_since = None
            return
        self._served_since = now if self._served_since is None else self._served_since
        if now - self._served_since < self._timeouts.takeover:
            raise KubeletError("served", f"{resource} is still served by an earlier plugin")
        raise KubeletError(
            "served",
            f"another plugin serves {resource} ({len(ids)} devices, such as {ids[0]}): remove it, or set "
            "another --resource-name",
        )

    def _failed(self, error: PluginSocketError | KubeletError, now: float) -> None:
        timeouts = self._timeouts
        self._registered_at = None
        self._failures += 1
        taking_over = error.reason == "served" and now - (self._served_since or now) < timeouts.takeover
        wait = min(timeouts.longest_retry, timeouts.first_retry * 2 ** min(self._failures - 1, 16))
        if error.reason == "served":
            wait = timeouts.first_retry if taking_over else timeouts.longest_retry
        elif error.reason == "no_socket":
            wait = timeouts.first_retry
        self._not_before = now + wait
        self.trouble = str(error)
        if self.trouble == self._logged:
            return
        self._logged = self.trouble
        self._tally.count("registration_errors", error.reason)
        waiting = taking_over or error.reason == "no_socket"
        log.log(logging.INFO if waiting else logging.ERROR, "%s", self.trouble)
