"""Requests to an API server or a kubelet, blocking: one kept connection for requests, one for each stream."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from accelscope.kube.connection import Connection
from accelscope.kube.endpoint import Endpoint, TokenFile
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.exchange import Exchange
from accelscope.kube.message import Head, write_request
from accelscope.kube.refusal import refusal

if TYPE_CHECKING:
    from accelscope.kube.tls import Trust

JSON = "application/json"
_REFUSAL_BYTES = 64 << 10  # a Status object is far smaller


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes


@dataclass(frozen=True, slots=True, repr=False)
class _Request:
    content: bytes
    token: str | None


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
            from accelscope.kube import tls  # noqa: PLC0415 - brings ssl

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
        limit_bytes: int = 4 << 20,
    ) -> Answer:
        """The whole answer, if its status is 2xx; any other status is a KubeError."""
        deadline = time.monotonic() + self.timeout_seconds
        request = self._request(method, path, accept, body, content_type)
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
        self, path: str, *, idle_seconds: float, total_seconds: float | None = None, accept: str = JSON
    ) -> "Stream":
        """An answer to GET whose body is taken piece by piece. Nothing is asked before it is entered."""

        def begin(exchange: Exchange, connection: Connection, deadline: float) -> None:
            request = self._request("GET", path, accept, None, None)
            if self._trust is not None and self._trust.refresh():
                self.close()
            connection.open(deadline)
            head = exchange.begin(request.content, deadline)
            self._check(exchange, head, request, deadline)

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
        self, method: str, path: str, accept: str, body: bytes | None, content_type: str | None
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
        return _Request(write_request(method, self.endpoint.base_path + path, headers, body), token)

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
        if 200 <= head.status < 300:
            return
        body = bytearray()
        try:
            for piece in exchange.pieces(deadline, _REFUSAL_BYTES):
                body += piece
        except KubeError:
            pass  # cut off or too long: what there is of it will do
        raise refusal(head.status, head.headers, bytes(body), url=self.endpoint.url, secret=request.token)


class Stream:
    """The body of one answer, piece by piece. Entering asks, and raises KubeError for a status that is not
    2xx. close() may be called by any thread at any time and ends a wait at once; the iteration then ends as
    if the body had."""

    def __init__(
        self,
        connection: Connection,
        exchange: Exchange,
        begin: Callable[[Exchange, Connection, float], None],
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
            self._begin(self._exchange, self._connection, now + self._begin_seconds)
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
