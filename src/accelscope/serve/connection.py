"""One client's connection: a state machine that never blocks and that the server's loop drives.

A connection reads one request, answers it, and only then looks at the next, so that a client that pipelines
holds one answer at most. What it waits for is in `interest` and `deadline`; the loop does the waiting.
"""

import re
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from selectors import EVENT_READ, EVENT_WRITE
from typing import TYPE_CHECKING, Protocol

from accelscope.serve.message import Head, Limits, Refusal, Request, Response, parse_head
from accelscope.serve.routing import Continuation, Deferred

if TYPE_CHECKING:
    import ssl


# --- stream ------------------------------------------------------------
# Bytes to and from one client without ever waiting: plain TCP here, TLS in `tls`.


class Stream(Protocol):
    """All of these raise OSError when the client is gone or breaks the rules of the transport."""

    def receive(self, size: int) -> bytes | None:
        """What has arrived, b"" at the end, None if nothing has arrived yet."""

    def send(self, parts: Sequence[memoryview]) -> int:
        """How many bytes of the parts, taken together, went out; 0 if the client has to read first."""

    def pending(self) -> bool:
        """Whether bytes have arrived that the selector does not know of."""

    def finish(self) -> None:
        """Tell the client that nothing more will come."""

    def close(self) -> None:
        """Let go of the socket."""


class PlainStream:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def peek(self) -> bytes | None:
        """The first byte, left where it is."""
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
_LINGER_BYTES = 1 << 20  # what a client may still send after it was refused
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_TLS_HANDSHAKE = b"\x16"  # type of the first record of any TLS client


class Phase(Enum):
    HANDSHAKE = auto()
    READING = auto()  # waits for a request, or for the rest of one
    WAITING = auto()  # another thread makes the answer
    WRITING = auto()
    LINGERING = auto()  # all is sent; closing at once could destroy what the client has not read yet
    CLOSED = auto()


class Connection:
    """Methods that take `now` may raise OSError: then the client is gone, or speaks garbage."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        peer: str,
        answer: Callable[[Request], Response | Deferred],
        deliver: Callable[["Connection", Deferred, Response | Continuation], None],
        limits: Limits,
        now: float,
        context: "ssl.SSLContext | None" = None,
    ) -> None:
        self.descriptor = sock.fileno()
        self.context = context
        self.phase = Phase.READING if context is None else Phase.HANDSHAKE
        self.interest = EVENT_READ  # 0: nothing of the socket
        self.deadline = now + limits.head_seconds
        self.since = now  # it began to shake hands, read this request, write this answer, or idle
        self.retiring = False  # to be closed after the next answer: its certificate is no longer in force
        self._plain = PlainStream(sock)
        self._tls: TlsStream | None = None
        self._stream: Stream = self._plain
        self._peer = peer
        self._answer = answer
        self._deliver = deliver  # for answers from other threads: has `complete` called in the loop's thread
        self._limits = limits
        self._certified = False
        self._buffer = bytearray()
        self._ended = False  # the client will send no more
        self._served = False
        self._head: Head | None = None  # the request being answered
        self._deferred: Deferred | None = None
        self._close_after = False
        self._out: list[memoryview] = []
        self._lingered = 0  # bytes

    @property
    def spare(self) -> bool:
        """Between requests, or done: nobody loses anything if it is closed."""
        idle = self.phase is Phase.READING and self._served and not self._buffer
        return idle or self.phase is Phase.LINGERING

    def proceed(self, now: float) -> None:
        """The socket is ready for what `interest` says."""
        if self.phase is Phase.HANDSHAKE:
            self._shake_hands(now)
        if self.phase is Phase.READING:
            self._read(now)
        elif self.phase is Phase.WRITING:
            self._write(now)
        elif self.phase is Phase.LINGERING:
            self._linger()

    def expire(self, now: float) -> None:
        """The deadline has passed."""
        if self.phase is Phase.READING and self._buffer:
            self.refuse(Response.text(408, "the request did not arrive in time"), now)
        elif self.phase is Phase.WAITING:
            self.refuse(Response.text(503, "the answer took too long"), now)
        else:
            self.phase = Phase.CLOSED

    def complete(self, deferred: Deferred, answer: Response | Continuation, now: float) -> None:
        """The answer that another thread gave; one that comes too late is thrown away."""
        if self.phase is Phase.WAITING and self._deferred is deferred:
            self._take(answer if isinstance(answer, Response) else answer(), now)

    def refuse(self, response: Response, now: float) -> None:
        """Give this answer to whatever the client wants, then close."""
        self._close_after = True
        self._respond(response, now)

    def close(self) -> None:
        self.phase = Phase.CLOSED
        self._stream.close()

    def _shake_hands(self, now: float) -> None:
        if self._tls is None:
            first = self._plain.peek()
            if first is None:
                return
            if first != _TLS_HANDSHAKE:
                if not first.isalpha():
                    raise ConnectionAbortedError
                self.refuse(Response.text(400, "this port speaks HTTPS: use https://"), now)
                return

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
        """Take what has arrived, up to a little more than one request may be."""
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
                break  # that was all; of TLS the selector does not know what is left
        if fresh and self._buffer and self._served:
            self.since = now
            self.deadline = now + self._limits.head_seconds

    def _next_request(self, now: float) -> bool:
        """Begin to answer if a whole request is there."""
        try:
            head = self._take_head()
        except Refusal as refusal:
            self.refuse(refusal.response, now)
            return True
        if head is None:
            return False
        self._head = head
        self._close_after = not head.keep_alive
        self._take(self._answer(head.request), now)
        return True

    def _take(self, response: Response | Deferred, now: float) -> None:
        if isinstance(response, Response):
            self._respond(response, now)
            return
        self._deferred = response
        self.phase = Phase.WAITING
        self.interest = 0
        self.deadline = now + self._limits.deferred_seconds
        response.when_complete(lambda answer: self._deliver(self, response, answer))

    def _take_head(self) -> Head | None:
        limits, buffer = self._limits, self._buffer
        while buffer.startswith((b"\r", b"\n")):  # empty lines before a request are ignored (RFC 9112, 2.2)
            del buffer[:1]
        if not buffer:
            return None
        end = _HEAD_END.search(buffer)
        size = end.start() if end else len(buffer)
        line = buffer.find(b"\n", 0, size)
        if (size if line < 0 else line) > limits.line_bytes:
            raise Refusal(414, f"the request line is longer than {limits.line_bytes} bytes")
        if size > limits.head_bytes:
            raise Refusal(431, f"the header is longer than {limits.head_bytes} bytes")
        if end is None:
            if not buffer[:1].isalpha():
                raise Refusal(400, "this is not an HTTP request")
            return None
        head = parse_head(bytes(buffer[:size]), peer=self._peer, certified=self._certified)
        if head.body_bytes > limits.body_bytes:
            raise Refusal(413, "no request here takes a body")
        whole = end.end() + head.body_bytes
        if len(buffer) < whole:
            if "expect" in head.request.headers:
                raise Refusal(417, "no request here takes a body")
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
        # What is here already waits for its turn all the same: a writable socket is reported at once.
        self.interest = EVENT_WRITE if more else EVENT_READ
        self.deadline = now + (self._limits.head_seconds if more else self._limits.idle_seconds)

    def _linger(self) -> None:
        chunk = self._stream.receive(_CHUNK)
        if chunk is None:
            return
        self._lingered += len(chunk)
        if not chunk or self._lingered > _LINGER_BYTES:
            self.phase = Phase.CLOSED


# --- tls ------------------------------------------------------------
# TLS of the server's streams.
#
# Imported only where TLS is on: `ssl` takes some 5 MiB.


class TlsStream:
    """TLS over a socket that does not block. Takes the socket over."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        self._sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._unsent = b""

    def handshake(self) -> int:
        """Go on with the handshake: the event to wait for, 0 when it is done."""
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            return EVENT_READ
        except ssl.SSLWantWriteError:
            return EVENT_WRITE
        return 0

    def certified(self) -> bool:
        """Whether the client showed a certificate; one that the client CA did not sign ends the handshake."""
        return bool(self._sock.getpeercert())

    def receive(self, size: int) -> bytes | None:
        try:
            return self._sock.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return None

    def send(self, parts: Sequence[memoryview]) -> int:
        # OpenSSL wants to see the same bytes again after it had to stop, so they are joined once.
        self._unsent = self._unsent or b"".join(parts)
        try:
            sent = self._sock.send(self._unsent)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        self._unsent = b""
        return sent

    def pending(self) -> bool:
        return self._sock.pending() > 0

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            self._sock.unwrap()  # says goodbye; the client's goodbye is not waited for
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()
