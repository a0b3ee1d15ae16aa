"""A scraping client on bare sockets, so that what is timed is the server and not an HTTP library."""

import socket
import ssl
import time
from dataclasses import dataclass
from typing import Self

ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
_CHUNK = 1 << 18


class ScrapeFailed(Exception):
    """The server did not answer with a page."""


@dataclass(frozen=True, slots=True)
class Scrape:
    seconds: float  # from before connecting (or, on a kept connection, sending) to the last byte
    body: bytes
    kept: bool  # the server leaves the connection open
    compressed: bool


class Scraper:
    """Keep-alive within a `with` block, a new connection for each scrape outside of one."""

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None, compressed: bool = True) -> None:
        self._port = port
        self._tls = tls
        self._connection: socket.socket | None = None
        self._request = (
            f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: {ACCEPT}\r\n"
            f"Accept-Encoding: {'gzip' if compressed else 'identity'}\r\nUser-Agent: bench\r\n\r\n"
        ).encode()

    def __enter__(self) -> Self:
        self._connection = self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def scrape(self) -> Scrape:
        if self._connection is not None:
            started = time.perf_counter()
            return self._ask(self._connection, started)
        started = time.perf_counter()
        with self._connect() as connection:
            return self._ask(connection, started)

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            return self._tls.wrap_socket(connection, server_hostname="127.0.0.1")
        return connection

    def _ask(self, connection: socket.socket, started: float) -> Scrape:
        connection.sendall(self._request)
        received = bytearray()
        while (end := received.find(b"\r\n\r\n")) < 0:
            _receive(connection, received)
        status, *lines = bytes(received[:end]).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if status.split()[1] != "200":
            raise ScrapeFailed(status)
        del received[: end + 4]
        kept = not status.startswith("HTTP/1.0") and headers.get("connection", "").lower() != "close"
        if headers.get("transfer-encoding") == "chunked":
            body = _chunks(connection, received)
        elif "content-length" in headers:
            while len(received) < int(headers["content-length"]):
                _receive(connection, received)
            body = bytes(received)
        else:
            body = _rest(connection, received)
        seconds = time.perf_counter() - started
        return Scrape(seconds, body, kept, headers.get("content-encoding") == "gzip")


def _receive(connection: socket.socket, received: bytearray) -> None:
    chunk = connection.recv(_CHUNK)
    if not chunk:
        raise ScrapeFailed("the connection ended in the middle of an answer")
    received += chunk


def _rest(connection: socket.socket, received: bytearray) -> bytes:
    while chunk := connection.recv(_CHUNK):
        received += chunk
    return bytes(received)


def _chunks(connection: socket.socket, received: bytearray) -> bytes:
    body = bytearray()
    while True:
        while (end := received.find(b"\r\n")) < 0:
            _receive(connection, received)
        size = int(received[:end].split(b";")[0], 16)
        while len(received) < end + 4 + size:
            _receive(connection, received)
        if size == 0:
            return bytes(body)
        body += received[end + 2 : end + 2 + size]
        del received[: end + 4 + size]


def percentile(values: list[float], share: float) -> float:
    """Nearest rank: a value that was measured."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def series_of(page: bytes) -> int:
    return sum(1 for line in page.splitlines() if line and not line.startswith(b"#"))
