"""The blocking HTTP client: one kept connection for requests, one for each stream, all with deadlines."""

import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from accelscope.kube.endpoint import Endpoint, TokenFile, wire_name
from accelscope.kube.errors import KubeError, Reason, refusal
from accelscope.kube.message import AnswerParser, CutOff, Head, MessageError, write_request

if TYPE_CHECKING:
    from accelscope.kube.endpoint import Trust

_RECEIVE_BYTES = 16 << 10  # as much as a TLS record holds

# A peer that vanished without a word is noticed within a minute, also on a watch that is silent by itself.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class Connection:
    """Deadlines are instants of time.monotonic(). Everything raises KubeError only."""

    def __init__(self, endpoint: Endpoint, trust: "Trust | None") -> None:
        self._endpoint = endpoint
        self._trust = trust
        # A descriptor must not be closed, and its number reused, while another thread shuts it down.
        self._lock = Lock()
        self._sock: socket.socket | None = None
        self._interrupted = False

    def open(self, deadline: float) -> None:
        host, port = self._endpoint.host, self._endpoint.port
        try:
            addresses = socket.getaddrinfo(wire_name(host), port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            text = f"{self._endpoint.url}: the host cannot be found: {getattr(error, 'strerror', error)}"
            raise KubeError(Reason.UNREACHABLE, text) from None
        failure: OSError | None = None
        for family, kind, protocol, _, address in addresses:
            try:
                self._connect(socket.socket(family, kind, protocol), address, deadline)
            except OSError as error:
                self.close()
                failure = error
            else:
                return
        raise self._explained(failure or OSError("it has no address"), "cannot connect") from None

    def send(self, content: bytes, deadline: float) -> None:
        try:
            self._waiting(deadline).sendall(content)
        except OSError as error:
            raise self._explained(error, "cannot send") from None

    def receive(self, deadline: float) -> bytes:
        """Empty at the end of the connection."""
        try:
            return self._waiting(deadline).recv(_RECEIVE_BYTES)
        except OSError as error:
            raise self._explained(error, "cannot receive") from None

    def usable(self) -> bool:
        """Whether a connection that rests is still there: nothing should come before the next request."""
        if self._sock is None:
            return False
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return not poll.poll(0)

    def interrupt(self) -> None:
        """From another thread: whoever waits here stops waiting at once."""
        with self._lock:
            self._interrupted = True
            if self._sock is not None:
                _shut_down(self._sock)

    def close(self) -> None:
        with self._lock:
            if self._sock is not None:
                self._sock.close()
                self._sock = None

    def _connect(self, sock: socket.socket, address: tuple[Any, ...], deadline: float) -> None:
        self._hold(sock)
        self._waiting(deadline).connect(address)
        for option in _KEEPALIVE:
            sock.setsockopt(*option)
        if self._trust is not None:
            secured = self._trust.wrap(sock)
            self._hold(secured)
            self._waiting(deadline)
            secured.do_handshake()

    def _hold(self, sock: socket.socket) -> None:
        with self._lock:
            self._sock = sock
            if self._interrupted:
                _shut_down(sock)

    def _waiting(self, deadline: float) -> socket.socket:
        """The socket, with what is left of the time."""
        if self._interrupted or self._sock is None:
            raise ConnectionAbortedError("closed")
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._sock

    def _explained(self, error: OSError, doing: str) -> KubeError:
        url = self._endpoint.url
        if isinstance(error, TimeoutError):
            return KubeError(Reason.TIMEOUT, f"{url}: {doing}: no answer in time")
        if self._trust is not None:
            from accelscope.kube.endpoint import tls_error  # noqa: PLC0415 - brings ssl

            if (problem := tls_error(error, self._endpoint)) is not None:
                return problem
        return KubeError(Reason.UNREACHABLE, f"{url}: {doing}: {error.strerror or error or 'closed'}")


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # never connected, or gone already: nobody waits
        # Not SSLSocket's own method, which would take the TLS state from under the reading thread.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


class Exchange:
    """Deadlines are instants of time.monotonic(). Everything raises KubeError only."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        self._url = url
        self._parser = AnswerParser()
        self._begun = b""  # of the body, what came together with the head
        self.answered = False  # whether anything came back at all

    @property
    def reusable(self) -> bool:
        return self._parser.reusable

    def begin(self, request: bytes, deadline: float) -> Head:
        """Send the request and wait for the answer's head."""
        self._connection.send(request, deadline)
        while self._parser.head is None:
            self._begun = self._more(deadline)
        if self._parser.head.headers.get("content-encoding", "identity").lower() != "identity":
            raise KubeError(Reason.BAD_ANSWER, f"{self._url}: the answer is compressed, though not asked for")
        return self._parser.head

    def next_piece(self, deadline: float) -> bytes:
        """Of the body what comes next; empty at its end."""
        piece, self._begun = self._begun, b""
        while not piece and not self._parser.finished:
            piece = self._more(deadline)
        return piece

    def pieces(self, deadline: float, limit_bytes: int) -> Iterator[bytes]:
        """The body, as long as it is not more than this."""
        expected = self._parser.body_bytes
        size = 0 if expected is None else expected
        while size <= limit_bytes and (piece := self.next_piece(deadline)):
            size += len(piece) if expected is None else 0
            yield piece
        if size > limit_bytes:
            raise KubeError(Reason.TOO_LARGE, f"{self._url}: the answer has more than {limit_bytes} bytes")

    def _more(self, deadline: float) -> bytes:
        received = self._connection.receive(deadline)
        try:
            if received:
                self.answered = True
                return self._parser.feed(received)
            self._parser.close()
        except CutOff as error:
            raise KubeError(Reason.UNREACHABLE, f"{self._url}: {error}") from None
        except MessageError as error:
            raise KubeError(Reason.BAD_ANSWER, f"{self._url}: {error}") from None
        return b""


JSON = "application/json"
_REFUSAL_BYTES = 64 << 10  # a Status object is far smaller
_NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes


@dataclass(frozen=True, slots=True, repr=False)
class _Request:
    content: bytes
    token: str | None
    conditional: bool  # 304 is a valid answer


class Client:
    """Safe for use by several threads. Raises KubeError only."""

    def __init__(
        self, endpoint: Endpoint, *, timeout_seconds: float = 10.0, user_agent: str = "accelscope"
    ) -> None:
        self.endpoint = endpoint
        self.timeout_seconds = timeout_seconds
        self._user_agent = user_agent
        self._token = TokenFile(endpoint.token_file) if endpoint.token_file is not None else None
        self._trust: Trust | None = None
        if endpoint.secure:
            from accelscope.kube import endpoint as tls  # noqa: PLC0415 - brings ssl

            self._trust = tls.Trust(endpoint)
        self._lock = Lock()
        self._rests: Connection | None = None

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str | None = None,
        accept: str = JSON,
        etag: str | None = None,
        limit_bytes: int = 4 << 20,
    ) -> Answer:
        """The whole response if its status is 2xx, or 304 where an `etag` is sent. Any other status is a
        KubeError."""
        deadline = time.monotonic() + self.timeout_seconds
        request = self._request(method, path, accept=accept, body=body, content_type=content_type, etag=etag)
        if (rested := self._rested()) is not None:
            exchange = Exchange(rested, self.endpoint.url)
            try:
                return self._answer(rested, exchange, request, deadline, limit_bytes)
            except KubeError as error:
                # A server may close a kept connection just when a request is on its way. What creates
                # something is not sent twice, for it may have been done.
                if exchange.answered or error.reason is not Reason.UNREACHABLE or method == "POST":
                    raise
        connection = Connection(self.endpoint, self._trust)
        try:
            connection.open(deadline)
        except KubeError:
            connection.close()
            raise
        exchange = Exchange(connection, self.endpoint.url)
        return self._answer(connection, exchange, request, deadline, limit_bytes)

    def stream(
        self,
        path: str,
        *,
        idle_seconds: float,
        total_seconds: float | None = None,
        accept: str = JSON,
        any_status: bool = False,
    ) -> "Stream":
        """The response to a GET, its body piece by piece. Nothing is sent before the stream is entered. With
        `any_status`, a status that is not 2xx is no error."""

        def begin(exchange: Exchange, connection: Connection, deadline: float) -> Head:
            request = self._request("GET", path, accept=accept)
            if self._trust is not None and self._trust.refresh():
                self.close()
            connection.open(deadline)
            head = exchange.begin(request.content, deadline)
            if not any_status:
                self._check(exchange, head, request, deadline)
            return head

        connection = Connection(self.endpoint, self._trust)
        return Stream(
            connection,
            Exchange(connection, self.endpoint.url),
            begin,
            begin_seconds=self.timeout_seconds,
            idle_seconds=idle_seconds,
            total_seconds=total_seconds,
        )

    def token_generation(self) -> int:
        """Changes when the token file has another content: what was refused may be tried again."""
        return self._token.generation() if self._token is not None else 0

    def close(self) -> None:
        """Let go of the kept connection; streams have their own."""
        with self._lock:
            connection, self._rests = self._rests, None
        if connection is not None:
            connection.close()

    def _request(
        self,
        method: str,
        path: str,
        *,
        accept: str,
        body: bytes | None = None,
        content_type: str | None = None,
        etag: str | None = None,
    ) -> _Request:
        headers = [
            ("Host", self.endpoint.authority),
            ("User-Agent", self._user_agent),
            ("Accept", accept),
            ("Accept-Encoding", "identity"),
        ]
        token = self._token.read() if self._token is not None else None
        if token is not None:
            headers.append(("Authorization", f"Bearer {token}"))
        if content_type is not None:
            headers.append(("Content-Type", content_type))
        if etag is not None:
            headers.append(("If-None-Match", etag))
        content = write_request(method, self.endpoint.base_path + path, headers, body)
        return _Request(content, token, conditional=etag is not None)

    def _rested(self) -> Connection | None:
        """The kept connection, if it can still be used."""
        renewed = self._trust is not None and self._trust.refresh()
        with self._lock:
            connection, self._rests = self._rests, None
        if connection is not None and (renewed or not connection.usable()):
            connection.close()
            return None
        return connection

    def _answer(
        self,
        connection: Connection,
        exchange: Exchange,
        request: _Request,
        deadline: float,
        limit_bytes: int,
    ) -> Answer:
        kept = False
        try:
            head = exchange.begin(request.content, deadline)
            self._check(exchange, head, request, deadline)
            body = b"".join(exchange.pieces(deadline, limit_bytes))
            with self._lock:
                if exchange.reusable and self._rests is None:
                    self._rests, kept = connection, True
        finally:
            if not kept:
                connection.close()
        return Answer(head.status, head.headers, body)

    def _check(self, exchange: Exchange, head: Head, request: _Request, deadline: float) -> None:
        """Raises what an answer that is no success means; its text is worth less than its status."""
        if 200 <= head.status < 300 or (head.status == _NOT_MODIFIED and request.conditional):
            return
        body = bytearray()
        try:
            for piece in exchange.pieces(deadline, _REFUSAL_BYTES):
                body += piece
        except KubeError:
            pass  # cut off or too long: what there is of it will do
        raise refusal(head.status, head.headers, bytes(body), url=self.endpoint.url, secret=request.token)


class Stream:
    """The body of one response, piece by piece. Entering sends the request and raises KubeError for a status
    that is not 2xx; `head` is set from then on. close() may be called by any thread at any time and ends a
    wait at once; the iteration then ends as if the body had."""

    def __init__(
        self,
        connection: Connection,
        exchange: Exchange,
        begin: Callable[[Exchange, Connection, float], Head],
        *,
        begin_seconds: float,
        idle_seconds: float,
        total_seconds: float | None,
    ) -> None:
        self._connection = connection
        self._exchange = exchange
        self._begin = begin
        self._begin_seconds = begin_seconds
        self._idle_seconds = idle_seconds
        self._total_seconds = total_seconds
        self._closed = False

    def __enter__(self) -> Self:
        now = time.monotonic()
        self._end = None if self._total_seconds is None else now + self._total_seconds
        try:
            self.head = self._begin(self._exchange, self._connection, now + self._begin_seconds)
        except KubeError:
            self._connection.close()
            raise
        return self

    def __iter__(self) -> Iterator[bytes]:
        while True:
            deadline = time.monotonic() + self._idle_seconds
            if self._end is not None:
                deadline = min(deadline, self._end)
            try:
                piece = self._exchange.next_piece(deadline)
            except KubeError:
                if self._closed:
                    return
                raise
            if not piece or self._closed:
                return
            yield piece

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def close(self) -> None:
        self._closed = True
        self._connection.interrupt()
