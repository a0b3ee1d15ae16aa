"""A server per test and a client that sees every byte."""

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from tests.waiting import PATIENCE_SECONDS

from accelscope.serve import Handler, Response, Route, Server
from accelscope.serve import server as serve_loop


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes


class Client:
    """Raw HTTP over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._received = b""

    def send(self, content: bytes) -> "Client":
        self.sock.sendall(content)
        return self

    def get(self, path: str = "/metrics", *fields: str, method: str = "GET") -> Answer:
        lines = [f"{method} {path} HTTP/1.1", "Host: x", *fields, "", ""]
        return self.send("\r\n".join(lines).encode()).answer(with_body=method != "HEAD")

    def answer(self, *, with_body: bool = True) -> Answer:
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        size = int(headers["content-length"]) if with_body else 0
        while len(self._received) < size:
            self._receive()
        body, self._received = self._received[:size], self._received[size:]
        return Answer(int(first.split()[1]), headers, body)

    def is_closed(self) -> bool:
        """Waits for the server's end; anything that it still sends is a mistake."""
        try:
            return self._received + self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def _receive(self) -> None:
        chunk = self.sock.recv(65536)
        if not chunk:
            raise ConnectionError(f"the server closed after {self._received[:200]!r}")
        self._received += chunk


def _page(_: object) -> Response:
    return Response({"identity": b"page\n"})


ROUTES: Mapping[str, Handler | Route] = {
    "/metrics": _page,
    "/healthz": Route(lambda _: Response.text(200, "ok"), guarded=False),
}


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Start a server with these routes (a page and a probe) and options."""
    started: list[Server] = []

    def start(routes: Mapping[str, Handler | Route] = ROUTES, **options: Any) -> Server:
        server = Server(routes, **{"host": "127.0.0.1", **options})
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    opened: list[Client] = []

    def open_to(server: Server, host: str = "127.0.0.1", receive_buffer: int | None = None) -> Client:
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        opened.append(Client(sock))
        sock.settimeout(PATIENCE_SECONDS)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.connect((host, server.address[1]))
        return opened[-1]

    yield open_to
    for client in opened:
        client.sock.close()  # of TLS, if the test put that over it


@pytest.fixture
def quick_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at certificate and token files all the time."""
    monkeypatch.setattr(serve_loop, "_REFRESH_SECONDS", 0.02)
