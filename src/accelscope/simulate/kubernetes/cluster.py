"""A cluster of one simulated node, with the pods that the node currently runs.

with SimulatedCluster(node, "/tmp/node/kubernetes") as cluster:
    node.write(at=60.0)
    cluster.agent_settings()
"""

import math
import secrets
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from accelscope.serve import Tls
from accelscope.simulate import spec as identity
from accelscope.simulate.kubernetes import objects
from accelscope.simulate.kubernetes.api_server import (
    NODES,
    PODS,
    Api,
    ApiServer,
    Connection,
    Listener,
    ObjectHistory,
    bound_to_loopback,
)
from accelscope.simulate.node import SimulatedNode
from accelscope.simulate.pods import SimulatedContainer, SimulatedPod, derived_pod_name
from accelscope.simulate.spec import PodOwner, PodQos

# --- kubelet --------------------------------------------------------------
# The kubelet's PodResources socket: unary gRPC calls over HTTP/2.


_READ_SIZE = 1 << 16
_UNIMPLEMENTED = "12"
_HEADERS = [(":status", "200"), ("content-type", "application/grpc")]


class GrpcServer:
    """`answer` returns the message for a method, or None for an unknown method."""

    def __init__(self, answer: Callable[[str], bytes | None]) -> None:
        self._answer = answer

    def serve(self, connection: Connection) -> None:
        _Session(self._answer, connection).run()


class _Session:
    def __init__(self, answer: Callable[[str], bytes | None], connection: Connection) -> None:
        from h2.config import H2Configuration  # noqa: PLC0415 - a node without pods does not need it
        from h2.connection import H2Connection  # noqa: PLC0415

        self._answer = answer
        self._sock = connection.sock
        self._http: H2Connection = H2Connection(H2Configuration(client_side=False, header_encoding=False))
        self._methods: dict[int, str] = {}  # by stream
        self._unsent: dict[int, bytes] = {}  # by stream: waits for the client's flow control

    def run(self) -> None:
        from h2.exceptions import ProtocolError  # noqa: PLC0415

        self._http.initiate_connection()
        self._flush()
        while received := self._sock.recv(_READ_SIZE):
            try:
                self._take(self._http.receive_data(received))
            except ProtocolError:
                self._flush()  # sends the error
                return
            self._send_what_fits()
            self._flush()

    def _take(self, events: Iterable[object]) -> None:
        from h2 import events as h2_events  # noqa: PLC0415

        for event in events:
            match event:
                case h2_events.RequestReceived(stream_id=int(stream), headers=headers):
                    self._methods[stream] = _path(headers or ())
                case h2_events.DataReceived(stream_id=int(stream), flow_controlled_length=int(length)):
                    self._http.acknowledge_received_data(length, stream)
                case h2_events.StreamEnded(stream_id=int(stream)):
                    self._begin_answer(stream, self._methods.pop(stream, ""))
                case h2_events.StreamReset(stream_id=int(stream)):
                    self._methods.pop(stream, None)
                    self._unsent.pop(stream, None)
                case _:
                    pass  # the library has answered settings, pings and window updates

    def _begin_answer(self, stream: int, method: str) -> None:
        message = self._answer(method)
        if message is None:
            status = [("grpc-status", _UNIMPLEMENTED), ("grpc-message", f"unknown method {method}")]
            self._http.send_headers(stream, [*_HEADERS, *status], end_stream=True)
            return
        self._http.send_headers(stream, _HEADERS)
        self._unsent[stream] = b"\0" + len(message).to_bytes(4, "big") + message

    def _send_what_fits(self) -> None:
        for stream in tuple(self._unsent):
            left = memoryview(self._unsent[stream])
            while left:
                size = min(self._http.local_flow_control_window(stream), self._http.max_outbound_frame_size)
                if size <= 0:
                    break
                self._http.send_data(stream, bytes(left[:size]))
                left = left[size:]
            if left:
                self._unsent[stream] = bytes(left)
                continue
            del self._unsent[stream]
            self._http.send_headers(stream, [("grpc-status", "0")], end_stream=True)

    def _flush(self) -> None:
        waiting = self._http.data_to_send()
        if waiting:
            self._sock.sendall(waiting)


def _path(headers: Iterable[tuple[bytes, bytes]]) -> str:
    return dict(headers).get(b":path", b"").decode("ascii", "replace")


# --- pod resources ------------------------------------------------------------
# The kubelet's answer to "who holds which device": messages of its API `podresources/v1`, encoded by hand.
#
# ListPodResourcesResponse {1: PodResources}, PodResources {1: name, 2: namespace, 3: ContainerResources},
# ContainerResources {1: name, 2: ContainerDevices}, ContainerDevices {1: resource, 2: ids, 3: TopologyInfo},
# TopologyInfo {1: NUMANode}, NUMANode {1: ID}.


LIST = "/v1.PodResourcesLister/List"
_VARINT, _BYTES = 0, 2  # wire types


def list_response(pods: Iterable[SimulatedPod]) -> bytes:
    return b"".join(_field(1, _pod(pod)) for pod in pods)


def _pod(pod: SimulatedPod) -> bytes:
    containers = b"".join(_field(3, _container(container)) for container in pod.containers)
    return _text(1, pod.name) + _text(2, pod.namespace) + containers


def _container(container: SimulatedContainer) -> bytes:
    """Ids of one resource on one NUMA node are one entry."""
    groups: dict[tuple[str, int], list[str]] = {}
    for grant in container.grants:
        groups.setdefault((grant.resource, grant.device.numa_node), []).append(grant.device_id)
    devices = b"".join(_field(2, _devices(*group, ids)) for group, ids in groups.items())
    return _text(1, container.name) + devices


def _devices(resource: str, numa_node: int, ids: Iterable[str]) -> bytes:
    message = _text(1, resource) + b"".join(_text(2, device_id) for device_id in ids)
    if numa_node >= 0:
        # proto3 omits a zero, so NUMA node 0 is an empty message.
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


# --- cluster --------------------------------------------------------------


_LONGEST_SOCKET_PATH = 107


class SimulatedCluster:
    """Serves while the context is entered. `folder` contains the token, and the kubelet's socket if its path
    is short enough.

    With `tls` the API server uses TLS, and its clients trust `ca_file`. Each pod is padded to about
    `pod_bytes`; `extra_pods` is the number of pods without devices."""

    def __init__(
        self,
        node: SimulatedNode,
        folder: Path | str,
        *,
        tls: Tls | None = None,
        ca_file: Path | str | None = None,
        pod_bytes: int = 0,
        extra_pods: int = 0,
        bookmark_seconds: float = 60.0,
    ) -> None:
        self._node = node
        self._folder = Path(folder).absolute()
        self._tls = tls
        self._ca_file = ca_file
        self._pod_bytes = pod_bytes
        self._pods = (*node.pods, *(_bystander(node.spec.seed, number) for number in range(extra_pods)))
        self._phases: dict[str, str] = {}  # by uid, of existing pods
        self._lock = threading.Lock()
        self._history = ObjectHistory()
        self._labels = objects.node_labels(node.spec)
        self._token_file = self._folder / "token"
        self._bookmark_seconds = bookmark_seconds
        self._stack = ExitStack()
        self._socket_path = self._folder / "kubelet.sock"
        self._kubelet: Listener | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder.mkdir(parents=True, exist_ok=True)
            self.rotate_token()
            self._place_socket(stack)
            self._show_node()
            self._refresh()
            stack.enter_context(self._node.notifying(self._refresh))
            api = Api(self._history, bookmark_seconds=self._bookmark_seconds)
            self._api = ApiServer(api, self._token_file, tls=_context(self._tls))
            listener = bound_to_loopback()
            self._port: int = listener.getsockname()[1]
            self._api_listener = Listener(listener, self._api.serve, "simulated API server")
            stack.callback(self._api_listener.close)
            self._api_listener.listen()
            stack.callback(self.kubelet_down)
            self.kubelet_up()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def agent_settings(self) -> dict[str, str]:
        """The agent's settings that point it at this cluster."""
        settings = {
            "node_name": self._node.spec.name,
            "pod_source": "api-server",
            "kube_api_url": f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}",
            "kube_token_file": str(self._token_file),
            "pod_resources_socket": str(self._socket_path),
        }
        if self._ca_file is not None:
            settings["kube_ca_file"] = str(self._ca_file)
        return settings

    def requests(self) -> tuple[str, ...]:
        """The paths of all requests to the API server, with their queries, in order."""
        return self._api.requests()

    def api_down(self) -> None:
        """Refuses connections, and ends the existing ones."""
        self._api_listener.silence()

    def api_up(self) -> None:
        self._api_listener.listen()

    def disconnect(self) -> None:
        """Ends all connections to the API server at once."""
        self._api_listener.drop_connections()

    def expire_versions(self, *, as_status: bool = False) -> None:
        """Expires all resource versions: a watch from one gets an event with 410, or 410 as the status of the
        response. Open watches continue."""
        self._api.api.expired_as_status = as_status
        self._history.expire_versions()

    def rotate_token(self) -> None:
        """Invalidates the old token."""
        scratch = self._token_file.with_suffix(".new")
        scratch.write_text(secrets.token_urlsafe(32))
        scratch.replace(self._token_file)

    def label_node(self, labels: Mapping[str, str | None]) -> None:
        """Sets labels of the Node; None removes one."""
        changed = {**self._labels, **labels}
        self._labels = {name: value for name, value in changed.items() if value is not None}
        self._show_node()

    def kubelet_down(self) -> None:
        """Removes the socket, as during a restart of the kubelet."""
        if self._kubelet is not None:
            self._kubelet.close()
            self._socket_path.unlink(missing_ok=True)
            self._kubelet = None

    def kubelet_up(self) -> None:
        if self._kubelet is None:
            self._socket_path.unlink(missing_ok=True)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.bind(str(self._socket_path))
            self._kubelet = Listener(sock, GrpcServer(self._pod_resources).serve, "simulated kubelet")
            self._kubelet.listen()

    def _place_socket(self, stack: ExitStack) -> None:
        if len(str(self._socket_path).encode()) > _LONGEST_SOCKET_PATH:
            short = stack.enter_context(tempfile.TemporaryDirectory(prefix="kubelet-"))
            self._socket_path = Path(short) / "kubelet.sock"

    def _pod_resources(self, method: str) -> bytes | None:
        if method != LIST:
            return None
        with self._lock:
            return list_response(pod for pod in self._pods if pod.uid in self._phases)

    def _show_node(self) -> None:
        spec = self._node.spec
        document = objects.node_document(spec, self._pods, self._labels, epoch=self._node.epoch)
        self._history.put(NODES, spec.name, document)

    def _refresh(self) -> None:
        """Updates the pods to what the node currently runs."""
        at = self._node.at
        with self._lock:
            for pod in self._pods:
                before = self._phases.get(pod.uid)
                if pod.runs_at(at):
                    if before is None and math.isfinite(pod.begin):
                        self._show(pod, "Pending")  # pods that start while the node runs
                    if before != "Running":
                        self._show(pod, "Running")
                elif pod.done_at(at):
                    if before == "Running":
                        self._show(pod, "Succeeded")
                elif before is not None:
                    del self._phases[pod.uid]
                    self._history.remove(PODS, pod.uid)

    def _show(self, pod: SimulatedPod, phase: str) -> None:
        spec = self._node.spec
        document = objects.pod_document(
            spec, pod, phase, epoch=self._node.epoch, wanted_bytes=self._pod_bytes
        )
        self._phases[pod.uid] = phase
        self._history.put(PODS, pod.uid, document)


def _context(tls: Tls | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    return context


def _bystander(seed: int, number: int) -> SimulatedPod:
    owner = PodOwner("Deployment", f"web-{number}")
    return SimulatedPod(
        namespace="web",
        name=derived_pod_name(seed, owner, ("bystander", number)),
        uid=identity.uuid(seed, "bystander", number),
        qos=PodQos.BURSTABLE,
        labels=(("app.kubernetes.io/name", f"web-{number}"),),
        owner=owner,
        containers=(
            SimulatedContainer(name="web", id=identity.hex_id(seed, "bystander", number), grants=()),
        ),
        begin=-math.inf,
        until=math.inf,
    )
