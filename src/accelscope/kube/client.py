"""A blocking HTTP client for the API server and the kubelet. It reuses one connection for requests, opens one
per stream, and has deadlines everywhere.
"""

import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from accelscope.kube.endpoint import Endpoint, KubeError, Reason, TokenFile, error_for_response, host_argument
from accelscope.kube.message import Head, MessageError, ResponseParser, TruncatedMessage, write_request

if TYPE_CHECKING:
    from accelscope.kube.tls import ClientTls

_RECEIVE_BYTES = 16 << 10  # the largest TLS record

# Detects a dead peer within a minute, even on a watch without events.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class Connection:
    """Deadlines are times of time.monotonic(). All methods raise only KubeError."""

    def __init__(self, endpoint: Endpoint, tls: "ClientTls | None") -> None:
        self._endpoint = endpoint
        self._tls = tls
        # One thread must not close a descriptor, whose number may be reused, while another shuts it down.
        self._lock = Lock()
        self._sock: socket.socket | None = None
        self._interrupted = False

    def open(self, deadline: float) -> None:
        host, port = self._endpoint.host, self._endpoint.port
        try:
            addresses = socket.getaddrinfo(host_argument(host), port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            text = f"{self._endpoint.url}: cannot resolve the host: {getattr(error, 'strerror', error)}"
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
        raise self._kube_error(failure or OSError("the host has no address"), "cannot connect") from None

    def send(self, content: bytes, deadline: float) -> None:
        try:
            self._ready(deadline).sendall(content)
        except OSError as error:
            raise self._kube_error(error, "cannot send") from None

    def receive(self, deadline: float) -> bytes:
        """Empty at the end of the connection."""
        try:
            return self._ready(deadline).recv(_RECEIVE_BYTES)
        except OSError as error:
            raise self._kube_error(error, "cannot receive") from None

    def usable(self) -> bool:
        """Whether an idle connection is still open. A readable one was closed, or has unexpected data."""
        if self._sock is None:
            return False
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return not poll.poll(0)

    def interrupt(self) -> None:
        """End a wait of another thread at once."""
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
        self._ready(deadline).connect(address)
        for option in _KEEPALIVE:
            sock.setsockopt(*option)
        if self._tls is not None:
            secured = self._tls.wrap(sock)
            self._hold(secured)
            self._ready(deadline)
            secured.do_handshake()

    def _hold(self, sock: socket.socket) -> None:
        with self._lock:
            self._sock = sock
            if self._interrupted:
                _shut_down(sock)

    def _ready(self, deadline: float) -> socket.socket:
        """The socket, with its timeout set to the remaining time."""
        if self._interrupted or self._sock is None:
            raise ConnectionAbortedError("closed")
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._sock

    def _kube_error(self, error: OSError, doing: str) -> KubeError:
        url = self._endpoint.url
        if isinstance(error, TimeoutError):
            return KubeError(Reason.TIMEOUT, f"{url}: {doing}: timed out")
        if self._tls is not None:
            from accelscope.kube.tls import tls_error  # noqa: PLC0415 - imports ssl

            if (problem := tls_error(error, self._endpoint)) is not None:
                return problem
        return KubeError(Reason.UNREACHABLE, f"{url}: {doing}: {error.strerror or error or 'closed'}")


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # not connected
        # SSLSocket.shutdown would drop the TLS state that the reading thread still uses.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


class Exchange:
    """One request and its response. Deadlines are times of time.monotonic(). All methods raise only
    KubeError."""

    def __init__(self, connection: Connection, url: str, *, gzip: bool = False) -> None:
        self._connection = connection
        self._url = url
        self._encodings = ("identity", "gzip") if gzip else ("identity",)
        self._parser = ResponseParser()
        self._first_piece = b""  # the part of the body that arrived together with the head
        self.answered = False  # whether any byte of a response arrived

    @property
    def reusable(self) -> bool:
        return self._parser.reusable

    def begin(self, request: bytes, deadline: float) -> Head:
        """Send the request and wait for the head of the response."""
        self._connection.send(request, deadline)
        while self._parser.head is None:
            self._first_piece = self._receive(deadline)
        if self._parser.head.headers.get("content-encoding", "identity").lower() not in self._encodings:
            raise KubeError(Reason.BAD_ANSWER, f"{self._url}: unexpected compressed response")
        return self._parser.head

    def next_piece(self, deadline: float) -> bytes:
        """The next piece of the body; empty at the end."""
        piece, self._first_piece = self._first_piece, b""
        while not piece and not self._parser.finished:
            piece = self._receive(deadline)
        return piece

    def pieces(self, deadline: float, limit_bytes: int) -> Iterator[bytes]:
        """The body. Raises KubeError if it is larger than the limit."""
        expected = self._parser.body_bytes
        size = 0 if expected is None else expected
        while size <= limit_bytes and (piece := self.next_piece(deadline)):
            size += len(piece) if expected is None else 0
            yield piece
        if size > limit_bytes:
            raise KubeError(Reason.TOO_LARGE, f"{self._url}: the response has more than {limit_bytes} bytes")

    def _receive(self, deadline: float) -> bytes:
        received = self._connection.receive(deadline)
        try:
            if received:
                self.answered = True
                return self._parser.feed(received)
            self._parser.close()
        except TruncatedMessage as error:
            raise KubeError(Reason.UNREACHABLE, f"{self._url}: {error}") from None
        except MessageError as error:
            raise KubeError(Reason.BAD_ANSWER, f"{self._url}: {error}") from None
        return b""


JSON = "application/json"
_ERROR_LIMIT = 64 << 10  # bytes; a Status object is far smaller
_NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes


@dataclass(frozen=True, slots=True, repr=False)
class _Request:
    content: bytes
    token: str | None
    conditional: bool  # 304 is a valid response


class Client:
    """Thread-safe. Raises only KubeError."""

    def __init__(
        self, endpoint: Endpoint, *, timeout_seconds: float = 10.0, user_agent: str = "accelscope"
    ) -> None:
        self.endpoint = endpoint
        self.timeout_seconds = timeout_seconds
        self._user_agent = user_agent
        self._token = TokenFile(endpoint.token_file) if endpoint.token_file is not None else None
        self._tls: ClientTls | None = None
        if endpoint.secure:
            from accelscope.kube import tls  # noqa: PLC0415 - imports ssl

            self._tls = tls.ClientTls(endpoint)
        self._lock = Lock()
        self._idle: Connection | None = None

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
    ) -> Response:
        """The complete response if its status is 2xx, or 304 if an `etag` was sent. Any other status raises
        KubeError."""
        deadline = time.monotonic() + self.timeout_seconds
        request = self._request(method, path, accept=accept, body=body, content_type=content_type, etag=etag)
        if (idle := self._take_idle()) is not None:
            exchange = Exchange(idle, self.endpoint.url)
            try:
                return self._respond(idle, exchange, request, deadline, limit_bytes)
            except KubeError as error:
                # The server may close an idle connection while a request is on its way. A POST is not sent
                # twice, because the server may have processed it.
                if exchange.answered or error.reason is not Reason.UNREACHABLE or method == "POST":
                    raise
        connection = Connection(self.endpoint, self._tls)
        try:
            connection.open(deadline)
        except KubeError:
            connection.close()
            raise
        exchange = Exchange(connection, self.endpoint.url)
        return self._respond(connection, exchange, request, deadline, limit_bytes)

    def stream(
        self,
        path: str,
        *,
        idle_seconds: float,
        total_seconds: float | None = None,
        accept: str = JSON,
        accept_gzip: bool = False,
        any_status: bool = False,
    ) -> "Stream":
        """The response to a GET, with its body in pieces. The request is sent when the stream is entered.
        With `accept_gzip`, the body may be compressed. With `any_status`, a status other than 2xx is not an
        error."""

        def begin(exchange: Exchange, connection: Connection, deadline: float) -> Head:
            request = self._request("GET", path, accept=accept, gzip=accept_gzip)
            if self._tls is not None and self._tls.refresh():
                self.close()
            connection.open(deadline)
            head = exchange.begin(request.content, deadline)
            if not any_status:
                self._check(exchange, head, request, deadline)
            return head

        connection = Connection(self.endpoint, self._tls)
        return Stream(
            connection,
            Exchange(connection, self.endpoint.url, gzip=accept_gzip),
            begin,
            begin_seconds=self.timeout_seconds,
            idle_seconds=idle_seconds,
            total_seconds=total_seconds,
        )

    def token_generation(self) -> int:
        """Changes with the content of the token file: rejected requests can then be retried."""
        return self._token.generation() if self._token is not None else 0

    def close(self) -> None:
        """Close the idle connection. Streams have their own connections."""
        with self._lock:
            connection, self._idle = self._idle, None
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
        gzip: bool = False,
    ) -> _Request:
        headers = [
            ("Host", self.endpoint.authority),
            ("User-Agent", self._user_agent),
            ("Accept", accept),
            ("Accept-Encoding", "gzip" if gzip else "identity"),
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

    def _take_idle(self) -> Connection | None:
        """The idle connection, if it can still be used."""
        renewed = self._tls is not None and self._tls.refresh()
        with self._lock:
            connection, self._idle = self._idle, None
        if connection is not None and (renewed or not connection.usable()):
            connection.close()
            return None
        return connection

    def _respond(
        self,
        connection: Connection,
        exchange: Exchange,
        request: _Request,
        deadline: float,
        limit_bytes: int,
    ) -> Response:
        kept = False
        try:
            head = exchange.begin(request.content, deadline)
            self._check(exchange, head, request, deadline)
            body = b"".join(exchange.pieces(deadline, limit_bytes))
            with self._lock:
                if exchange.reusable and self._idle is None:
                    self._idle, kept = connection, True
        finally:
            if not kept:
                connection.close()
        return Response(head.status, head.headers, body)

    def _check(self, exchange: Exchange, head: Head, request: _Request, deadline: float) -> None:
        """Raise KubeError for a status that is not a success."""
        if 200 <= head.status < 300 or (head.status == _NOT_MODIFIED and request.conditional):
            return
        body = bytearray()
        try:
            for piece in exchange.pieces(deadline, _ERROR_LIMIT):
                body += piece
        except KubeError:
            pass  # truncated or too long: use what has arrived
        raise error_for_response(
            head.status, head.headers, bytes(body), url=self.endpoint.url, secret=request.token
        )


class Stream:
    """The body of one response in pieces. Entering sends the request, raises KubeError for a status other
    than 2xx, and sets `head`. close() may be called by any thread at any time: it ends a wait at once, and
    the iteration ends as at the end of the body."""

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
