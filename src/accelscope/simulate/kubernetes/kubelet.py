"""The kubelet's PodResources socket: unary gRPC calls over HTTP/2."""

from collections.abc import Callable, Iterable

from accelscope.simulate.kubernetes.api_server import Connection
from accelscope.simulate.pods import SimulatedContainer, SimulatedPod

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
