"""A TLS proxy in front of the API server that answers as bad servers, proxies and networks do, on demand.

It ends TLS with a certificate of its own, whose authority its clients must trust, and asks the API server
with whatever the client sent. A fault gets the visit instead, and may still pass it on.
"""

import contextlib
import functools
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.certificates import Certificates
from tests.waiting import PATIENCE_SECONDS

_HEAD_LIMIT = 64 << 10
_PIECE_BYTES = 16 << 10
_HEADERS_PASSED_ON = ("accept", "authorization", "content-type", "user-agent")


class _Over(Exception):
    """Nothing more comes from this connection."""


@dataclass(eq=False)
class Visit:
    """One request, and what may be done about it."""

    method: str
    target: str
    headers: dict[str, str]  # lower-case names
    body: bytes
    _client: socket.socket = field(repr=False)
    _ask: Callable[["Visit"], bytes] = field(repr=False)
    arrived: float = field(default_factory=time.monotonic)
    ended: float | None = None  # when the answer was sent, or the connection was

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    def pass_on(self) -> bytes:
        """The API server's whole answer."""
        return self._ask(self)

    def send(self, answer: bytes) -> None:
        self._client.sendall(answer)

    def cut(self) -> None:
        """End the connection without a word of TLS, as a machine that dies does."""
        raise _Over

    def leave_waiting(self) -> None:
        """Until the client gives up."""
        self._client.recv(1)
        raise _Over


Fault = Callable[[Visit], None]


class FaultProxy:
    """`fault` is met by every request that comes while it is set. Use it in a with statement."""

    def __init__(self, certificates: Certificates, upstream: str, upstream_ca: Path) -> None:
        self.ca_file = certificates.ca
        self.fault: Fault | None = None
        self.visits: list[Visit] = []
        self._upstream = urlsplit(upstream).netloc
        self._trust = ssl.create_default_context(cafile=str(upstream_ca))
        self._serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._serving.load_cert_chain(certificates.server, certificates.server_key)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            for each in (self._listener, *self._open):
                _shut_down(each)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def waiting(self) -> Visit | None:
        """The last visit, if it has not had its answer."""
        last = self.visits[-1] if self.visits else None
        return last if last is not None and last.ended is None else None

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True, name="fault-proxy")
        with self._lock:
            if not self._closed:
                self._threads.append(thread)
                thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._start(functools.partial(self._serve, client))

    def _serve(self, plain: socket.socket) -> None:
        with self._held(plain):
            try:
                client = self._serving.wrap_socket(plain, server_side=True)
            except OSError:
                return  # a client that does not trust us, or has gone
            with self._held(client), contextlib.suppress(_Over, OSError):
                while True:
                    self._answer(client)

    @contextlib.contextmanager
    def _held(self, sock: socket.socket) -> Iterator[None]:
        """Whoever waits for it stops waiting when the proxy ends."""
        with self._lock:
            self._open.add(sock)
            if self._closed:
                _shut_down(sock)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(sock)
                sock.close()

    def _answer(self, client: socket.socket) -> None:
        visit = _received(client, self._asked)
        fault = self.fault
        self.visits.append(visit)
        try:
            if fault is None:
                visit.send(visit.pass_on())
            else:
                fault(visit)
        finally:
            visit.ended = time.monotonic()

    def _asked(self, visit: Visit) -> bytes:
        passed_on = {name: visit.headers[name] for name in _HEADERS_PASSED_ON if name in visit.headers}
        connection = http.client.HTTPSConnection(
            self._upstream, timeout=PATIENCE_SECONDS, context=self._trust
        )
        try:
            connection.request(visit.method, visit.target, visit.body or None, passed_on)
            response = connection.getresponse()
            kind = response.headers.get("content-type", "application/json")
            return written(response.status, response.read(), ("Content-Type", kind))
        except (OSError, http.client.HTTPException) as error:
            return written(502, str(error).encode())
        finally:
            connection.close()


def written(status: int, body: bytes = b"", *headers: tuple[str, str]) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} {http.client.responses[status]}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answering(answer: bytes) -> Fault:
    def fault(visit: Visit) -> None:
        visit.send(answer)

    return fault


def refusing(status: int, message: str, *headers: tuple[str, str]) -> Fault:
    """In Kubernetes' own form."""
    body = f'{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"{message}","code":{status}}}'
    return answering(written(status, body.encode(), ("Content-Type", "application/json"), *headers))


def refusing_token(token: str) -> Fault:
    """As if it had expired: 401 for this one, and others are passed on."""
    refuse = refusing(401, "Unauthorized")

    def fault(visit: Visit) -> None:
        if visit.token == token:
            refuse(visit)
        else:
            visit.send(visit.pass_on())

    return fault


def hanging(visit: Visit) -> None:
    visit.leave_waiting()


def cut_before_the_answer(visit: Visit) -> None:
    """It was done, and nobody is told."""
    visit.pass_on()
    visit.cut()


def cut_in_the_answer(visit: Visit) -> None:
    answer = visit.pass_on()
    visit.send(answer[: len(answer) // 2])
    visit.cut()


def _received(client: socket.socket, ask: Callable[[Visit], bytes]) -> Visit:
    received = b""
    while b"\r\n\r\n" not in received:
        if len(received) > _HEAD_LIMIT:
            raise _Over
        received += _piece(client)
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    length = int(headers.get("content-length", "0"))
    while len(body) < length:
        body += _piece(client)
    return Visit(method, target, headers, body, client, ask)


def _piece(client: socket.socket) -> bytes:
    piece = client.recv(_PIECE_BYTES)
    if not piece:
        raise _Over
    return piece


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not SSLSocket's own method, which would take the TLS state from under the thread that reads.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
