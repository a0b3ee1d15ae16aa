"""A proxy in front of a simulated API server that injects faults into connections."""

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from accelscope.simulate.kubernetes.api_server import Connection, Listener, bound_to_loopback

Trouble = Callable[[Connection, bytes], None]  # with the request's head

_PIECE_BYTES = 1 << 16


class ApiFront:
    def __init__(self, port: int) -> None:
        """`port` is that of the API server, on this machine."""
        self._upstream = port
        self._trouble: Trouble | None = None
        self.troubled = 0  # requests that met with trouble
        sock = bound_to_loopback()
        self.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        self._listener = Listener(sock, self._serve, "front of the API server")

    def __enter__(self) -> Self:
        self._listener.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def make(self, trouble: Trouble | None) -> None:
        """For new and existing connections; None ends it."""
        self._trouble = trouble
        self._listener.drop_connections()

    def close(self) -> None:
        """Connections are refused, and those that there are end."""
        self._listener.silence()

    def open(self) -> None:
        self._listener.listen()

    def _serve(self, connection: Connection) -> None:
        trouble = self._trouble
        if trouble is None:
            self._relay(connection)
            return
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.sock.recv(_PIECE_BYTES)
            if not piece:
                return
            head += piece
        self.troubled += 1
        trouble(connection, head)

    def _relay(self, connection: Connection) -> None:
        client = connection.sock
        with socket.create_connection(("127.0.0.1", self._upstream)) as server:
            other = {client: server, server: client}
            while not connection.dropped.is_set():
                for sock in select.select([client, server], [], [], 0.2)[0]:
                    piece = sock.recv(_PIECE_BYTES)
                    if not piece:
                        return
                    other[sock].sendall(piece)


def answering(status: int, body: bytes, *headers: str) -> Trouble:
    lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    answer = "\r\n".join(lines).encode() + body

    def trouble(connection: Connection, _: bytes) -> None:
        connection.sock.sendall(answer)

    return trouble


def refusing(status: int, *headers: str) -> Trouble:
    """A Status object of Kubernetes."""
    return answering(status, b'{"kind":"Status","status":"Failure","message":"no"}', *headers)


def silent(connection: Connection, _: bytes) -> None:
    with suppress(OSError):
        connection.sock.recv(1)  # until the client gives up


def cutting(connection: Connection, _: bytes) -> None:
    """In the middle of a list."""
    connection.sock.sendall(
        b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"kind":"PodList","items":[{"meta'
    )
