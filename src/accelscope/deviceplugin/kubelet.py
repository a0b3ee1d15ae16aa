"""What the plugin asks of the kubelet: to be registered, and who else serves a resource."""

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
from accelscope.deviceplugin.service import MOST_STREAMS, own_options

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


# --- allocations ------------------------------------------------------------
# Which of the offered ids containers hold: what the kubelet lists, and what was given a moment ago.


log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0
_JUST_GIVEN_SECONDS = 60.0  # in which the kubelet lists a pod that it has admitted


class Allocations:
    """Asked by the plugin's two threads; calls of the kubelet add what they were given."""

    def __init__(self, socket: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._socket = Path(socket) if socket else None
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._listed: Mapping[str, frozenset[str]] = {}
        self._given: dict[str, float] = {}  # id -> when
        self.awaits_first_answer = bool(socket)
        self.unknown: str | None = "not asked yet" if socket else "--pod-resources-socket is empty"

    def refresh(self) -> None:
        """Ask the kubelet. While it does not answer, its last answer counts."""
        if self._socket is None:
            return
        try:
            listed = held_ids(self._socket, _CALL_SECONDS)
        except KubeletError as error:
            log.debug("%s", error)
            self.unknown = str(error)
            return
        with self._lock:
            self._listed = listed
            self.unknown = None
            self.awaits_first_answer = False

    def note(self, ids: Iterable[str]) -> None:
        """What a container was given now."""
        with self._lock:
            self._given.update(dict.fromkeys(ids, self._monotonic()))

    def held(self, resource: str) -> Mapping[str, frozenset[str]]:
        """Ids, each with the resources that it is held under; what was just given is of `resource`."""
        with self._lock:
            oldest = self._monotonic() - _JUST_GIVEN_SECONDS
            self._given = {each: when for each, when in self._given.items() if when > oldest}
            return {**dict.fromkeys(self._given, frozenset({resource})), **self._listed}


# --- endpoint ------------------------------------------------------------
# The plugin's own socket in the kubelet's folder.


_CONNECT_SECONDS = 2.0
_THREADS = MOST_STREAMS + 8  # each stream holds one; the others answer calls
_STOP_SECONDS = 2.0
_FOR_OWNER_ONLY = 0o177
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class EndpointError(Exception):
    """The socket cannot be served. `reason` can be counted; the text is one line for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def check_folder(folder: Path) -> None:
    """Raises EndpointError for a folder in which no socket can be made."""
    if not folder.is_dir():
        raise EndpointError(
            "no_folder", f"{folder} is not a folder: is this a node with a kubelet, and is it mounted here?"
        )
    scratch = folder / f".accelscope-{os.getpid()}"
    try:
        scratch.touch()  # what a user may do on paper says little: folders may be read-only even to root
        scratch.unlink(missing_ok=True)  # a kubelet that starts may have been faster
    except FileNotFoundError as error:  # as a file system of the kernel's own has it, such as /proc
        raise EndpointError(
            "not_writable", f"{folder} is no folder to write in: give the kubelet's with --plugin-dir"
        ) from error
    except OSError as error:
        problem = f"{folder} cannot be written to ({_text(error)})"
        if error.errno in _FORBIDDEN:
            problem = f"{folder} is not writable ({_text(error)}): run as root, and mount it without readOnly"
        raise EndpointError("not_writable", problem) from error


def answers(path: Path) -> bool:
    """Whether somebody listens on a socket. Raises OSError where that cannot be told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:  # there is a queue before it
            return True
        return True


class Endpoint:
    """A server on its socket, from `start()` to `stop()`."""

    def __init__(self, path: Path, handlers: Any) -> None:
        self.path = path
        self._handlers = handlers
        self._server: Any = None
        self._mark: tuple[int, int] | None = None

    def start(self) -> None:
        """Raises EndpointError."""
        check_folder(self.path.parent)
        _clear(self.path)
        server = grpc.server(ThreadPoolExecutor(_THREADS, thread_name_prefix="kubelet"), [self._handlers])
        # The kubelet is root. A mode that is set after the socket was made would leave it open for a moment.
        mask = os.umask(_FOR_OWNER_ONLY)
        try:
            server.add_insecure_port(f"unix:{self.path}")
        except RuntimeError as error:
            raise EndpointError("not_served", f"{self.path} cannot be listened on: {error}") from error
        finally:
            os.umask(mask)
        server.start()
        self._server = server
        self._mark = _mark(self.path)

    @property
    def alive(self) -> bool:
        """Whether the socket is still there. A kubelet that starts empties its folder."""
        return self._mark is not None and _mark(self.path) == self._mark

    def stop(self) -> None:
        """No harm if it is not running. Another's socket that took this one's place is left alone."""
        if self._server is None:
            return
        ours = self.alive
        # grpcio removes the file by its name, whosever it is by now.
        aside = None if ours else _kept_aside(self.path)
        self._server.stop(grace=0.5).wait(_STOP_SECONDS)
        self._server = self._mark = None
        if ours:
            self.path.unlink(missing_ok=True)
        elif aside is not None:
            aside.replace(self.path)


def _clear(path: Path) -> None:
    """Remove what a plugin that was killed left behind."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise EndpointError("not_a_socket", f"{path} is there and is not a socket: remove it")
    try:
        taken = answers(path)
    except OSError as error:
        raise EndpointError("not_served", f"{path} is there and cannot be asked: {_text(error)}") from error
    if taken:
        raise EndpointError(
            "occupied",
            f"another plugin answers on {path}: stop it, or give this one another --socket-name and "
            "--resource-name",
        )
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise EndpointError("not_writable", f"{path} cannot be removed: {_text(error)}") from error


def _kept_aside(path: Path) -> Path | None:
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
    return status.st_dev, status.st_ino  # which no other has while our socket is bound to it


def _text(error: OSError) -> str:
    return "no answer" if error.errno == errno.ETIMEDOUT else error.strerror or str(error)


# --- registration ------------------------------------------------------------
# Keeps the plugin known to the kubelet, whatever happens to either of them.
#
# A kubelet that starts empties its folder, makes its socket anew and has forgotten its plugins. One that
# lives may lose a plugin too. So the two sockets and the kubelet's stream are looked at every moment, and
# what is amiss is mended. What goes wrong is said once, and again only when something else goes wrong.


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds."""

    first_retry: float = 1.0  # doubled at each failure
    longest_retry: float = 30.0
    stream: float = 10.0  # for the kubelet to listen once it was told, or again
    takeover: float = 10.0  # for the kubelet to see that an earlier plugin has gone
    first_answer: float = 60.0  # for the kubelet to list what is allocated, before the first offer


class Registration:
    def __init__(
        self,
        *,
        folder: Path,
        endpoint_name: str,
        pod_resources: Path | None,
        handlers: Any,
        tally: Tally,
        patience: Patience | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kubelet = folder / SOCKET_NAME
        self._endpoint_name = endpoint_name
        self._endpoint = Endpoint(folder / endpoint_name, handlers)
        self._pod_resources = pod_resources
        self._tally = tally
        self._patience = patience or Patience()
        self._monotonic = monotonic
        self._mark: object = None  # of the kubelet's socket, when it was last tried
        self._registered_at: float | None = None
        self._served_since: float | None = None  # when the resource was first seen to be served by others
        self._failures = 0
        self._not_before = 0.0
        self._said = ""
        self._lock = threading.Lock()
        self._stopped = False
        self.trouble: str | None = "not registered yet"  # one line, for the readiness probe

    @property
    def registered(self) -> bool:
        return self._registered_at is not None

    def tick(self, resource: str) -> None:
        """See to it that the kubelet knows this plugin as the one that serves `resource`."""
        with self._lock:
            if not self._stopped:
                self._mend(resource)

    def _mend(self, resource: str) -> None:
        now = self._monotonic()
        current = mark(self._kubelet)
        if current != self._mark:  # another kubelet: what went wrong before says nothing
            self._mark, self._failures, self._not_before = current, 0, now
            self._registered_at = self._served_since = None
        if self.registered and not self._endpoint.alive:
            log.info("the plugin's socket is gone")
            self._registered_at, self._not_before = None, now
        if self.registered and self._is_heard(now):
            return
        if now < self._not_before:
            return
        try:
            self._serve()
            self._expect_kubelet()
            self._refuse_what_others_serve(resource, now)
            register(
                self._kubelet,
                endpoint=self._endpoint_name,
                resource=resource,
                timeout_seconds=_CALL_SECONDS,
            )
        except (EndpointError, KubeletError) as error:
            self._failed(error, now)
            return
        self._registered_at = self._monotonic()
        self._failures = 0
        self._served_since = None
        self.trouble = None
        self._said = ""
        self._tally.count("registrations")
        log.info("registered %s with the kubelet, through %s", resource, self._endpoint.path)

    def stop(self) -> None:
        """Waits for a call to the kubelet that is under way."""
        with self._lock:
            self._stopped = True
            self._endpoint.stop()
            self._registered_at = None
            self.trouble = "stopped"

    def _expect_kubelet(self) -> None:
        if self._mark is None:
            raise KubeletError("no_socket", f"{self._kubelet} is not there: waiting for the kubelet")

    def _serve(self) -> None:
        if not self._endpoint.alive:
            self._endpoint.stop()
            self._endpoint.start()

    def _is_heard(self, now: float) -> bool:
        """A kubelet that was told begins to listen at once; one that stopped has dropped the plugin."""
        if self._tally.listening:
            return True
        silent = self._tally.since_listened_seconds
        since_told = now - (self._registered_at or now)
        return min(since_told, since_told if silent is None else silent) < self._patience.stream

    def _refuse_what_others_serve(self, resource: str, now: float) -> None:
        """What the kubelet lists right after a plugin ended may still be that plugin's: it is given time."""
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
        if now - self._served_since < self._patience.takeover:
            raise KubeletError("served", f"{resource} is still served by a plugin that was here before")
        raise KubeletError(
            "served",
            f"another plugin serves {resource} ({len(ids)} devices, such as {ids[0]}): remove it, or give "
            "this one another --resource-name",
        )

    def _failed(self, error: EndpointError | KubeletError, now: float) -> None:
        patience = self._patience
        self._registered_at = None
        self._failures += 1
        taking_over = error.reason == "served" and now - (self._served_since or now) < patience.takeover
        wait = min(patience.longest_retry, patience.first_retry * 2 ** min(self._failures - 1, 16))
        if error.reason == "served":
            wait = patience.first_retry if taking_over else patience.longest_retry
        elif error.reason == "no_socket":
            wait = patience.first_retry
        self._not_before = now + wait
        self.trouble = str(error)
        if self.trouble == self._said:
            return
        self._said = self.trouble
        self._tally.count("registration_errors", error.reason)
        waiting = taking_over or error.reason == "no_socket"
        log.log(logging.INFO if waiting else logging.ERROR, "%s", self.trouble)
