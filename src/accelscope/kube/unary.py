"""One unary gRPC call over a unix socket, as the kubelet serves them.

grpcio would add 22 MiB to a process whose whole target is 25; a unary call is one HTTP/2 request with five
bytes before the message, so `h2` (2 MiB, loaded at the first call) does. Each call has a connection of its
own: there is one per collection, and a kubelet that was restarted is found again by itself.
"""

import errno
import re
import socket
import time
from enum import StrEnum
from typing import TYPE_CHECKING

from accelscope.kube.errors import one_line

if TYPE_CHECKING:
    from h2.events import Event

LIMIT_BYTES = 16 * 1024 * 1024

_STREAM = 1  # the first that a client opens
_RECEIVE_BYTES = 64 * 1024
_FRAME_HEAD_BYTES = 9
_MOST_FRAME_BYTES = 16_384  # what HTTP/2 allows unless more is agreed, which we do not
_PREFIX_BYTES = 5  # of a message: whether it is compressed, and its length
_MOST_REQUEST_BYTES = 16 * 1024 - _PREFIX_BYTES  # what one frame takes
_MOST_HEADER_BYTES = 64 * 1024
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
    """Why there is no answer: a word that can be counted, and one line for people."""

    def __init__(self, reason: UnaryReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


# Of gRPC's status codes, those that mean something of their own here.
_STATUS_REASONS = {
    4: UnaryReason.TIMEOUT,
    7: UnaryReason.NO_PERMISSION,
    12: UnaryReason.UNIMPLEMENTED,
    14: UnaryReason.UNAVAILABLE,
}
_BUSY = (b"429", b"502", b"503", b"504")  # HTTP's words for it, from a proxy before the server


def unary_call(
    socket_path: str,
    method: str,
    request: bytes = b"",
    *,
    timeout_seconds: float,
    limit_bytes: int = LIMIT_BYTES,
) -> bytes:
    """The answer's message; `method` is `/package.Service/Method`. `timeout_seconds` is for all of it: to
    connect, to ask and to be answered. Raises UnaryError."""
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
                        UnaryReason.BAD_ANSWER, f"{socket_path}: the connection was closed before the answer"
                    )
                call.receive(received)
        except TimeoutError as error:
            raise UnaryError(
                UnaryReason.TIMEOUT, f"{socket_path}: no answer to {method} within {timeout_seconds:.3g} s"
            ) from error
        except OSError as error:
            raise UnaryError(
                UnaryReason.BAD_ANSWER, f"{socket_path}: the connection broke off: {error.strerror or error}"
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
            f"{path}: no such socket; the kubelet does not run, or its folder is not mounted here",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return UnaryError(
            UnaryReason.NO_PERMISSION, f"{path}: permission denied; the kubelet's sockets are for root"
        )
    if error.errno == errno.EAGAIN:
        return UnaryError(UnaryReason.UNAVAILABLE, f"{path}: too many wait to be served already")
    if error.errno == errno.ECONNREFUSED:
        return UnaryError(UnaryReason.REFUSED, f"{path}: nobody serves this socket; is the kubelet running?")
    return UnaryError(UnaryReason.REFUSED, f"{path}: cannot connect: {error.strerror or error}")


class _Call:
    """The exchange without its socket: what to send, what came."""

    def __init__(self, method: str, request: bytes, timeout_seconds: float, limit_bytes: int) -> None:
        # Here, so that a node without a kubelet never loads it.
        import h2.config  # noqa: PLC0415
        import h2.connection  # noqa: PLC0415
        import h2.events  # noqa: PLC0415
        import h2.settings  # noqa: PLC0415

        if len(request) > _MOST_REQUEST_BYTES:
            raise ValueError(f"a request of more than {_MOST_REQUEST_BYTES} bytes is not supported")
        self.done = False
        self._frame_left = 0  # bytes of the last frame that are still to come
        self._frame_head = b""  # the part of the next one's head that came already
        self._method = method
        self._limit = limit_bytes
        self._body = bytearray()
        self._taken_bytes = 0  # for which the server has not been given new room
        self._status: int | None = None
        self._status_text = ""
        self._events = h2.events
        # Headers as bytes: what a garbled one holds need not be text.
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self._http.local_settings = h2.settings.Settings(
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: _MOST_HEADER_BYTES,
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
        """Raises UnaryError as soon as it is known that there will be no good answer."""
        from h2.exceptions import H2Error  # noqa: PLC0415 - loaded by now

        self._check_frames(received)
        try:
            for event in self._http.receive_data(received):
                self._take(event)
            if self._taken_bytes and not self.done:
                # Gives the server room to go on: without it an answer ends at 64 KiB.
                self._http.acknowledge_received_data(self._taken_bytes, _STREAM)
                self._taken_bytes = 0
        except H2Error as error:
            raise self._bad(f"not HTTP/2: {one_line(str(error)) or type(error).__name__}") from error

    def _check_frames(self, received: bytes) -> None:
        """Refuse a frame by the length that its head announces: h2 would keep all of it first, up to 16 MiB
        of whatever somebody else on this socket sends."""
        view = self._frame_head + received
        at = self._frame_left
        while at + _FRAME_HEAD_BYTES <= len(view):
            length = int.from_bytes(view[at : at + 3])
            if length > _MOST_FRAME_BYTES:
                raise self._bad("not HTTP/2: a frame that is too large")
            at += _FRAME_HEAD_BYTES + length
        self._frame_head = view[at:]
        self._frame_left = max(0, at - len(view))

    def message(self) -> bytes:
        """Once all has come. Raises UnaryError."""
        if self._status is None:
            raise self._bad("an answer without a status")
        if self._status != 0:
            reason = _STATUS_REASONS.get(self._status, UnaryReason.SERVER_ERROR)
            told = f": {self._status_text}" if self._status_text else ""
            raise UnaryError(reason, f"{self._method}: status {self._status}{told}")
        length = self._message_bytes()
        if length is None or len(self._body) != _PREFIX_BYTES + length:
            raise self._bad("the message is cut short")
        return bytes(memoryview(self._body)[_PREFIX_BYTES:])

    def _take(self, event: "Event") -> None:
        of = self._events
        if isinstance(event, of.ResponseReceived):
            self._take_response(dict(event.headers))
        elif isinstance(event, of.TrailersReceived):
            self._take_status(dict(event.headers))
        elif isinstance(event, of.DataReceived):
            self._take_data(event.data)
            self._taken_bytes += event.flow_controlled_length
        elif isinstance(event, of.StreamEnded):
            self.done = True
        elif isinstance(event, of.StreamReset):
            raise self._bad(f"the server gave the call up (HTTP/2 error {int(event.error_code)})")
        elif isinstance(event, of.ConnectionTerminated) and not self.done:
            if event.error_code:
                raise self._bad(f"the server ended the connection (HTTP/2 error {int(event.error_code)})")
            raise UnaryError(UnaryReason.UNAVAILABLE, f"{self._method}: the server is shutting down")

    def _take_response(self, headers: dict[bytes, bytes]) -> None:
        status = headers.get(b":status", b"")
        if status in _BUSY:
            raise UnaryError(UnaryReason.UNAVAILABLE, f"{self._method}: HTTP status {status.decode()}")
        if status != b"200" or not headers.get(b"content-type", b"").startswith(b"application/grpc"):
            raise self._bad(f"not a gRPC answer (HTTP status {one_line(status.decode('latin-1'))})")
        self._take_status(headers)  # an answer without a message has it there

    def _take_status(self, headers: dict[bytes, bytes]) -> None:
        status = headers.get(b"grpc-status")
        if status is None:
            return
        if not re.fullmatch(rb"[0-9]{1,9}", status):
            raise self._bad("a status that is no number")
        self._status = int(status)
        message = _ESCAPE.sub(lambda escape: bytes((int(escape[1], 16),)), headers.get(b"grpc-message", b""))
        self._status_text = one_line(message.decode(errors="replace"))

    def _take_data(self, received: bytes) -> None:
        self._body += received
        length = self._message_bytes()
        if length is None:
            return
        if self._body[0]:
            raise self._bad("the message is compressed, which was not asked for")
        if length > self._limit:
            raise UnaryError(
                UnaryReason.TOO_LARGE,
                f"{self._method}: an answer of {length} bytes, more than {self._limit} are not taken",
            )
        if len(self._body) > _PREFIX_BYTES + length:
            raise self._bad("more than one message")

    def _message_bytes(self) -> int | None:
        if len(self._body) < _PREFIX_BYTES:
            return None
        return int.from_bytes(self._body[1:_PREFIX_BYTES], "big")

    def _bad(self, text: str) -> UnaryError:
        return UnaryError(UnaryReason.BAD_ANSWER, f"{self._method}: {text}")
