"""One connection to a server: blocking, with deadlines, and closable by another thread."""

import select
import socket
import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from accelscope.kube.endpoint import Endpoint, wire_name
from accelscope.kube.errors import KubeError, Reason

if TYPE_CHECKING:
    from accelscope.kube.tls import Trust

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
            from accelscope.kube.tls import tls_error  # noqa: PLC0415 - brings ssl

            if (problem := tls_error(error, self._endpoint)) is not None:
                return problem
        return KubeError(Reason.UNREACHABLE, f"{url}: {doing}: {error.strerror or error or 'closed'}")


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # never connected, or gone already: nobody waits
        # Not SSLSocket's own method, which would take the TLS state from under the reading thread.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
