"""A thread that accepts connections and one for each connection: all of them end when they are told to."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

_PATIENCE_SECONDS = 10.0  # for threads that have nothing left to wait for


class Connection:
    """One client. `sock` may be replaced by a wrapping one before anything is read."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.dropped = threading.Event()

    def drop(self) -> None:
        """End it from another thread: reads and writes that wait return at once."""
        self.dropped.set()
        with suppress(OSError):
            # Not the method of a TLS socket, which would go on in the clear.
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


def bound_to_loopback() -> socket.socket:
    """On a free port. The kernel lets a socket keep its port while it does not listen only if the port was
    named, so a first socket finds one and a second names it."""
    with socket.socket() as finder:
        finder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        finder.bind(("127.0.0.1", 0))
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(finder.getsockname())
        return sock


class Listener:
    """Serves a bound socket. While it does not listen, connections are refused, and the address stays its."""

    def __init__(self, sock: socket.socket, serve: Callable[[Connection], None], name: str) -> None:
        self._sock = sock
        self._serve = serve
        self._name = name
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}
        self._acceptor: threading.Thread | None = None

    def listen(self) -> None:
        if self._acceptor is None:
            self._sock.listen()
            self._acceptor = threading.Thread(target=self._accept, name=self._name, daemon=True)
            self._acceptor.start()

    def silence(self) -> None:
        """Neither listen nor serve any longer."""
        if self._acceptor is not None:
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes accept, and frees nothing but the queue
            self._acceptor.join(_PATIENCE_SECONDS)
            self._acceptor = None
        self.drop_connections()

    def drop_connections(self) -> None:
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            connection.drop()
        for thread in connections.values():
            if thread is not threading.current_thread():
                thread.join(_PATIENCE_SECONDS)

    def close(self) -> None:
        self.silence()
        self._sock.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            connection = Connection(sock)
            thread = threading.Thread(
                target=self._run, args=(connection,), name=f"{self._name} connection", daemon=True
            )
            with self._lock:
                self._connections[connection] = thread
                thread.start()

    def _run(self, connection: Connection) -> None:
        try:
            with suppress(OSError):  # a client that has gone, or has been dropped
                self._serve(connection)
        finally:
            connection.sock.close()
            with self._lock:
                del self._connections[connection]
