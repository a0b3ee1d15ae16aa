"""Bytes to and from one client without ever waiting: plain TCP here, TLS in `tls`."""

import socket
from collections.abc import Sequence
from typing import Protocol


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
