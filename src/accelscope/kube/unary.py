"""A unary gRPC call over a unix socket, for the kubelet's API.

grpcio takes 22 MiB, and the budget of the whole agent is 25 MiB. A unary call is one HTTP/2 request with a
prefix of five bytes before the message, so `h2` is enough (2 MiB, imported at the first call). Each call
opens a connection: there is one call per collection, and no state to recover after a restart of the kubelet.
"""

import errno
import re
import socket
import time
from enum import StrEnum
from typing import TYPE_CHECKING

from accelscope.kube.endpoint import one_line

if TYPE_CHECKING:
    from h2.events import Event

LIMIT_BYTES = 16 * 1024 * 1024

_STREAM = 1  # id of a client's first stream
_RECEIVE_BYTES = 64 * 1024
_FRAME_HEAD_BYTES = 9
_FRAME_LIMIT = 16_384  # the default of HTTP/2
_PREFIX_BYTES = 5  # of a message: compression flag and length
_REQUEST_LIMIT = 16 * 1024 - _PREFIX_BYTES  # one frame
_HEADER_LIMIT = 64 * 1024
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class UnaryReason(StrEnum):
    NO_SOCKET = "no_socket"
    REFUSED = "refused"
    NO_PERMISSION = "no_permission"
    TIMEOUT = "timeout"
    UNIMPLEMENTED = "unimplemented"
    UNAVAILABLE = "unavailable"
    SERVER_ERROR = "server_error"
    BAD_ANSWER = "bad_answer"
    TOO_LARGE = "too_large"


class UnaryError(Exception):
    """The call failed. `reason` is a metric label, `text` one human-readable line."""

    def __init__(self, reason: UnaryReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


# gRPC status codes with a reason of their own.
_STATUS_REASONS = {
    4: UnaryReason.TIMEOUT,
    7: UnaryReason.NO_PERMISSION,
    12: UnaryReason.UNIMPLEMENTED,
    14: UnaryReason.UNAVAILABLE,
}
_UNAVAILABLE_STATUSES = (b"429", b"502", b"503", b"504")  # HTTP statuses of a proxy


def unary_call(
    socket_path: str,
    method: str,
    request: bytes = b"",
    *,
    timeout_seconds: float,
    limit_bytes: int = LIMIT_BYTES,
) -> bytes:
    """Call `/package.Service/Method` and return the response message. The timeout includes connecting. Raises
    UnaryError."""
    deadline = time.monotonic() + timeout_seconds
    call = _Call(method, request, timeout_seconds, limit_bytes)
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:  # no descriptor is free
        raise _not_connected(socket_path, error, timeout_seconds) from error
    with connection:
        try:
            connection.settimeout(timeout_seconds)
            connection.connect(socket_path)
        except OSError as error:
            raise _not_connected(socket_path, error, timeout_seconds) from error
        try:
            while not call.done:
                outgoing = call.outgoing()
                if outgoing:
                    connection.settimeout(_left(deadline))
                    connection.sendall(outgoing)
                connection.settimeout(_left(deadline))
                received = connection.recv(_RECEIVE_BYTES)
                if not received:
                    raise UnaryError(
                        UnaryReason.BAD_ANSWER,
                        f"{socket_path}: the connection was closed before the response",
                    )
                call.receive(received)
        except TimeoutError as error:
            raise UnaryError(
                UnaryReason.TIMEOUT, f"{socket_path}: no response to {method} within {timeout_seconds:.3g} s"
            ) from error
        except OSError as error:
            raise UnaryError(
                UnaryReason.BAD_ANSWER, f"{socket_path}: connection error: {error.strerror or error}"
            ) from error
    return call.message()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _not_connected(path: str, error: OSError, timeout_seconds: float) -> UnaryError:
    if isinstance(error, TimeoutError):
        return UnaryError(UnaryReason.TIMEOUT, f"{path}: no connection within {timeout_seconds:.3g} s")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return UnaryError(
            UnaryReason.NO_SOCKET,
            f"{path}: no such socket; the kubelet is not running, or its folder is not mounted",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return UnaryError(
            UnaryReason.NO_PERMISSION, f"{path}: permission denied; the kubelet's sockets require root"
        )
    if error.errno == errno.EAGAIN:
        return UnaryError(UnaryReason.UNAVAILABLE, f"{path}: the socket's queue is full")
    if error.errno == errno.ECONNREFUSED:
        return UnaryError(UnaryReason.REFUSED, f"{path}: connection refused; is the kubelet running?")
    return UnaryError(UnaryReason.REFUSED, f"{path}: cannot connect: {error.strerror or error}")


class _Call:
    """The HTTP/2 exchange without I/O."""

    def __init__(self, method: str, request: bytes, timeout_seconds: float, limit_bytes: int) -> None:
        # Imported here, so that a node without a kubelet does not load it.
        import h2.config  # noqa: PLC0415
        import h2.connection  # noqa: PLC0415
        import h2.events  # noqa: PLC0415
        import h2.settings  # noqa: PLC0415

        if len(request) > _REQUEST_LIMIT:
            raise ValueError(f"the request has more than {_REQUEST_LIMIT} bytes")
        self.done = False
        self._frame_left = 0  # remaining bytes of the current frame
        self._frame_head = b""  # the part of the next frame's head that has arrived
        self._method = method
        self._limit = limit_bytes
        self._body = bytearray()
        self._unacknowledged_bytes = 0  # for flow control
        self._status: int | None = None
        self._status_text = ""
        self._events = h2.events
        # Headers as bytes, because a malformed one may not be text.
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self._http.local_settings = h2.settings.Settings(
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: _HEADER_LIMIT,
            }
        )
        self._http.initiate_connection()
        self._http.send_headers(
            _STREAM,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "accelscope"),
                ("grpc-timeout", f"{min(max(1, int(timeout_seconds * 1000)), 99_999_999)}m"),
            ],
        )
        self._http.send_data(_STREAM, b"\0" + len(request).to_bytes(4, "big") + request, end_stream=True)

    def outgoing(self) -> bytes:
        return self._http.data_to_send()

    def receive(self, received: bytes) -> None:
        """Raises UnaryError as soon as the call cannot succeed any more."""
        from h2.exceptions import H2Error  # noqa: PLC0415 - already imported

        self._check_frames(received)
        try:
            for event in self._http.receive_data(received):
                self._take(event)
            if self._unacknowledged_bytes and not self.done:
                # Without this the server stops after 64 KiB.
                self._http.acknowledge_received_data(self._unacknowledged_bytes, _STREAM)
                self._unacknowledged_bytes = 0
        except H2Error as error:
            raise self._bad_response(f"not HTTP/2: {one_line(str(error)) or type(error).__name__}") from error

    def _check_frames(self, received: bytes) -> None:
        """Reject a frame by the length in its head. h2 would first buffer all of it, up to 16 MiB."""
        view = self._frame_head + received
        at = self._frame_left
        while at + _FRAME_HEAD_BYTES <= len(view):
            length = int.from_bytes(view[at : at + 3])
            if length > _FRAME_LIMIT:
                raise self._bad_response("not HTTP/2: a frame is too large")
            at += _FRAME_HEAD_BYTES + length
        self._frame_head = view[at:]
        self._frame_left = max(0, at - len(view))

    def message(self) -> bytes:
        """The response message, after `done`. Raises UnaryError."""
        if self._status is None:
            raise self._bad_response("the response has no gRPC status")
        if self._status != 0:
            reason = _STATUS_REASONS.get(self._status, UnaryReason.SERVER_ERROR)
            detail = f": {self._status_text}" if self._status_text else ""
            raise UnaryError(reason, f"{self._method}: gRPC status {self._status}{detail}")
        length = self._message_bytes()
        if length is None or len(self._body) != _PREFIX_BYTES + length:
            raise self._bad_response("the message is truncated")
        return bytes(memoryview(self._body)[_PREFIX_BYTES:])

    def _take(self, event: "Event") -> None:
        events = self._events
        if isinstance(event, events.ResponseReceived):
            self._take_response(dict(event.headers))
        elif isinstance(event, events.TrailersReceived):
            self._take_status(dict(event.headers))
        elif isinstance(event, events.DataReceived):
            self._take_data(event.data)
            self._unacknowledged_bytes += event.flow_controlled_length
        elif isinstance(event, events.StreamEnded):
            self.done = True
        elif isinstance(event, events.StreamReset):
            raise self._bad_response(f"the server reset the call (HTTP/2 error {int(event.error_code)})")
        elif isinstance(event, events.ConnectionTerminated) and not self.done:
            if event.error_code:
                raise self._bad_response(
                    f"the server closed the connection (HTTP/2 error {int(event.error_code)})"
                )
            raise UnaryError(UnaryReason.UNAVAILABLE, f"{self._method}: the server is shutting down")

    def _take_response(self, headers: dict[bytes, bytes]) -> None:
        status = headers.get(b":status", b"")
        if status in _UNAVAILABLE_STATUSES:
            raise UnaryError(UnaryReason.UNAVAILABLE, f"{self._method}: HTTP status {status.decode()}")
        if status != b"200" or not headers.get(b"content-type", b"").startswith(b"application/grpc"):
            raise self._bad_response(
                f"not a gRPC response (HTTP status {one_line(status.decode('latin-1'))})"
            )
        self._take_status(headers)  # a response without a message has the status here

    def _take_status(self, headers: dict[bytes, bytes]) -> None:
        status = headers.get(b"grpc-status")
        if status is None:
            return
        if not re.fullmatch(rb"[0-9]{1,9}", status):
            raise self._bad_response("the gRPC status is not a number")
        self._status = int(status)
        message = _ESCAPE.sub(lambda escape: bytes((int(escape[1], 16),)), headers.get(b"grpc-message", b""))
        self._status_text = one_line(message.decode(errors="replace"))

    def _take_data(self, received: bytes) -> None:
        self._body += received
        length = self._message_bytes()
        if length is None:
            return
        if self._body[0]:
            raise self._bad_response("unexpected compressed message")
        if length > self._limit:
            raise UnaryError(
                UnaryReason.TOO_LARGE,
                f"{self._method}: the response has {length} bytes, the limit is {self._limit}",
            )
        if len(self._body) > _PREFIX_BYTES + length:
            raise self._bad_response("more than one message")

    def _message_bytes(self) -> int | None:
        if len(self._body) < _PREFIX_BYTES:
            return None
        return int.from_bytes(self._body[1:_PREFIX_BYTES], "big")

    def _bad_response(self, text: str) -> UnaryError:
        return UnaryError(UnaryReason.BAD_ANSWER, f"{self._method}: {text}")
