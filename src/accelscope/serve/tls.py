"""TLS of the server's connections. Import this module only if TLS is on: `ssl` takes 4 MiB of resident
memory."""

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE


class TlsStream:
    """TLS over a non-blocking socket, which it takes over."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        self._sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._unsent = b""

    def handshake(self) -> int:
        """Continue the handshake. Returns the event to wait for, or 0 when it is done."""
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            return EVENT_READ
        except ssl.SSLWantWriteError:
            return EVENT_WRITE
        return 0

    def certified(self) -> bool:
        """Whether the client has a certificate. The handshake fails if the client CA did not sign it."""
        return bool(self._sock.getpeercert())

    def receive(self, size: int) -> bytes | None:
        try:
            return self._sock.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return None

    def send(self, parts: Sequence[memoryview]) -> int:
        # After an incomplete write OpenSSL requires the same bytes again.
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
            self._sock.unwrap()  # sends close_notify, without waiting for the client's
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()
