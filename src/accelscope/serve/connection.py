"""A client's connection: a state machine that never blocks. The server's loop drives it.

A connection reads the next request only after it has sent the response to the previous one, so pipelining
uses no additional memory. `interest` and `deadline` are what the loop must wait for.
"""

import re
import socket
from collections.abc import Callable, Sequence
from enum import Enum, auto
from selectors import EVENT_READ, EVENT_WRITE
from typing import TYPE_CHECKING, Protocol

from accelscope.serve.message import Head, Limits, Request, RequestError, Response, parse_head
from accelscope.serve.routing import Continuation, DeferredResponse

if TYPE_CHECKING:
    import ssl

    from accelscope.certificates import TlsStream


class Stream(Protocol):
    """A non-blocking byte stream. All methods raise OSError if the connection is broken."""

    def receive(self, size: int) -> bytes | None:
        """Received bytes; b"" at the end of the stream, None if nothing has arrived yet."""

    def send(self, parts: Sequence[memoryview]) -> int:
        """Number of bytes sent; 0 if the buffer is full."""

    def pending(self) -> bool:
        """Whether there are received bytes that the selector does not report."""

    def finish(self) -> None:
        """Close the sending direction."""

    def close(self) -> None:
        """Close the socket."""


class PlainStream:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def peek(self) -> bytes | None:
        """The first byte, which stays in the buffer."""
        try:
            return self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None

    def receive(self, size: int) -> bytes | None:
        try:
            return self.sock.recv(size)
        except BlockingIOError:
            return None

    def send(self, parts: Sequence[memoryview]) -> int:
        try:
            return self.sock.sendmsg(parts)
        except BlockingIOError:
            return 0

    def pending(self) -> bool:
        return False

    def finish(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()


_CHUNK = 16 * 1024  # bytes per read; also the largest TLS record
_LINGER_BYTES = 1 << 20  # a client may still send this much after the last response
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_TLS_HANDSHAKE = b"\x16"  # type of the first record of any TLS client


class Phase(Enum):
    HANDSHAKE = auto()
    READING = auto()  # waits for a request, or for the rest of one
    WAITING = auto()  # another thread provides the response
    WRITING = auto()
    LINGERING = auto()  # all is sent; closing now could discard what the client has not read yet
    CLOSED = auto()


class Connection:
    """Methods with a parameter `now` raise OSError if the connection is broken."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        peer: str,
        answer: Callable[[Request], Response | DeferredResponse],
        deliver: Callable[["Connection", DeferredResponse, Response | Continuation], None],
        limits: Limits,
        now: float,
        context: "ssl.SSLContext | None" = None,
    ) -> None:
        self.descriptor = sock.fileno()
        self.context = context
        self.phase = Phase.READING if context is None else Phase.HANDSHAKE
        self.interest = EVENT_READ  # 0: no event of the socket
        self.deadline = now + limits.head_seconds
        self.since = now  # start of the handshake, request, response or idle time
        self.retiring = False  # close after the next response, because the certificate has changed
        self._plain = PlainStream(sock)
        self._tls: TlsStream | None = None
        self._stream: Stream = self._plain
        self._peer = peer
        self._answer = answer
        self._deliver = deliver  # makes the loop's thread call `complete`
        self._limits = limits
        self._certified = False
        self._buffer = bytearray()
        self._ended = False  # the client has closed its sending direction
        self._served = False
        self._head: Head | None = None  # of the current request
        self._deferred: DeferredResponse | None = None
        self._close_after = False
        self._out: list[memoryview] = []
        self._lingered = 0  # bytes

    @property
    def spare(self) -> bool:
        """Between requests, or done: it can be closed without loss."""
        idle = self.phase is Phase.READING and self._served and not self._buffer
        return idle or self.phase is Phase.LINGERING

    def proceed(self, now: float) -> None:
        """The socket is ready for `interest`."""
        if self.phase is Phase.HANDSHAKE:
            self._handshake(now)
        if self.phase is Phase.READING:
            self._read(now)
        elif self.phase is Phase.WRITING:
            self._write(now)
        elif self.phase is Phase.LINGERING:
            self._linger()

    def expire(self, now: float) -> None:
        """The deadline has passed."""
        if self.phase is Phase.READING and self._buffer:
            self.refuse(Response.text(408, "request timeout"), now)
        elif self.phase is Phase.WAITING:
            self.refuse(Response.text(503, "response timeout"), now)
        else:
            self.phase = Phase.CLOSED

    def complete(self, deferred: DeferredResponse, result: Response | Continuation, now: float) -> None:
        """Another thread has provided the response. It is dropped if the request has timed out."""
        if self.phase is Phase.WAITING and self._deferred is deferred:
            self._take(result if isinstance(result, Response) else result(), now)

    def refuse(self, response: Response, now: float) -> None:
        """Send this response to any request, then close."""
        self._close_after = True
        self._respond(response, now)

    def close(self) -> None:
        self.phase = Phase.CLOSED
        self._stream.close()

    def _handshake(self, now: float) -> None:
        if self._tls is None:
            first = self._plain.peek()
            if first is None:
                return
            if first != _TLS_HANDSHAKE:
                if not first.isalpha():
                    raise ConnectionAbortedError
                self.refuse(Response.text(400, "this port requires https://"), now)
                return

            from accelscope.certificates import TlsStream  # noqa: PLC0415 - imports ssl

            assert self.context is not None
            self._stream = self._tls = TlsStream(self.context, self._plain.sock)
        self.interest = self._tls.handshake()
        if not self.interest:
            self._certified = self._tls.certified()
            self.phase = Phase.READING
            self.interest = EVENT_READ

    def _read(self, now: float) -> None:
        if self._next_request(now):
            return
        self._fill(now)
        if self._next_request(now):
            return
        if self._ended:
            self.phase = Phase.CLOSED
        self.interest = EVENT_READ

    def _fill(self, now: float) -> None:
        """Read what has arrived, up to slightly more than the largest request."""
        limit = self._limits.head_bytes + self._limits.body_bytes + _CHUNK
        fresh = not self._buffer
        while len(self._buffer) < limit:
            chunk = self._stream.receive(_CHUNK)
            if chunk is None:
                break
            if not chunk:
                self._ended = True
                break
            self._buffer += chunk
            if self._tls is None and len(chunk) < _CHUNK:
                break  # no more data; with TLS the selector cannot report what OpenSSL has buffered
        if fresh and self._buffer and self._served:
            self.since = now
            self.deadline = now + self._limits.head_seconds

    def _next_request(self, now: float) -> bool:
        """Start the response if the request is complete."""
        try:
            head = self._take_head()
        except RequestError as refusal:
            self.refuse(refusal.response, now)
            return True
        if head is None:
            return False
        self._head = head
        self._close_after = not head.keep_alive
        self._take(self._answer(head.request), now)
        return True

    def _take(self, response: Response | DeferredResponse, now: float) -> None:
        if isinstance(response, Response):
            self._respond(response, now)
            return
        self._deferred = response
        self.phase = Phase.WAITING
        self.interest = 0
        self.deadline = now + self._limits.deferred_seconds
        response.when_complete(lambda result: self._deliver(self, response, result))

    def _take_head(self) -> Head | None:
        limits, buffer = self._limits, self._buffer
        while buffer.startswith((b"\r", b"\n")):  # RFC 9112, 2.2: ignore empty lines before a request
            del buffer[:1]
        if not buffer:
            return None
        end = _HEAD_END.search(buffer)
        size = end.start() if end else len(buffer)
        line = buffer.find(b"\n", 0, size)
        if (size if line < 0 else line) > limits.line_bytes:
            raise RequestError(414, f"the request line is longer than {limits.line_bytes} bytes")
        if size > limits.head_bytes:
            raise RequestError(431, f"the header is longer than {limits.head_bytes} bytes")
        if end is None:
            if not buffer[:1].isalpha():
                raise RequestError(400, "not an HTTP request")
            return None
        head = parse_head(bytes(buffer[:size]), peer=self._peer, certified=self._certified)
        if head.body_bytes > limits.body_bytes:
            raise RequestError(413, "request bodies are not allowed")
        whole = end.end() + head.body_bytes
        if len(buffer) < whole:
            if "expect" in head.request.headers:
                raise RequestError(417, "request bodies are not allowed")
            return None
        del buffer[:whole]
        return head

    def _respond(self, response: Response, now: float) -> None:
        self._close_after |= self.retiring
        request = self._head.request if self._head is not None else None
        self._head = self._deferred = None
        parts = response.encode(request, close=self._close_after)
        self._out = [memoryview(part) for part in parts if part]
        self.phase = Phase.WRITING
        self.interest = EVENT_WRITE
        self.since = now
        self.deadline = now + self._limits.response_seconds
        self._write(now)

    def _write(self, now: float) -> None:
        sent = self._stream.send(self._out)
        while self._out and sent >= len(self._out[0]):
            sent -= len(self._out.pop(0))
        if self._out:
            self._out[0] = self._out[0][sent:]
            return
        self._served = True
        self.since = now
        if self._close_after:
            self._stream.finish()
            self.phase = Phase.LINGERING
            self.interest = EVENT_READ
            self.deadline = now + self._limits.linger_seconds
            return
        self.phase = Phase.READING
        more = bool(self._buffer) or self._ended or self._stream.pending()
        # A writable socket is reported at once, so a request that is already here waits for its turn.
        self.interest = EVENT_WRITE if more else EVENT_READ
        self.deadline = now + (self._limits.head_seconds if more else self._limits.idle_seconds)

    def _linger(self) -> None:
        chunk = self._stream.receive(_CHUNK)
        if chunk is None:
            return
        self._lingered += len(chunk)
        if not chunk or self._lingered > _LINGER_BYTES:
            self.phase = Phase.CLOSED
