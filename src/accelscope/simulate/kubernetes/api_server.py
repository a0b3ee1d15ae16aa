"""The API server of a simulated node's cluster: the simulated API over HTTP, a thread for each connection."""

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from accelscope.simulate.kubernetes.api import JSON, Api, ApiAnswer, Watch, failure

_JOIN_SECONDS = 10.0
_POLL_SECONDS = 0.5  # how often a watch checks whether its client is still connected


class Connection:
    """One client. `sock` may be replaced by a TLS socket before anything is read."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.dropped = threading.Event()

    def drop(self) -> None:
        """Ends it from another thread: pending reads and writes return at once."""
        self.dropped.set()
        with suppress(OSError):
            # The method of a TLS socket would remove the encryption.
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


def bound_to_loopback() -> socket.socket:
    """Binds a free port. A socket keeps its port while it does not listen only if it was bound to a given
    port, so a first socket finds a free one."""
    with socket.socket() as finder:
        finder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        finder.bind(("127.0.0.1", 0))
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(finder.getsockname())
        return sock


class Listener:
    """Serves a bound socket, with a thread that accepts connections and one for each of them. While it is
    silenced, connections are refused and the address stays bound."""

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
        """Stops listening and drops all connections."""
        if self._acceptor is not None:
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes accept; the port stays bound
            self._acceptor.join(_JOIN_SECONDS)
            self._acceptor = None
        self.drop_connections()

    def drop_connections(self) -> None:
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            connection.drop()
        for thread in connections.values():
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)

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
            with suppress(OSError):  # the client disconnected or was dropped
                self._serve(connection)
        finally:
            connection.sock.close()
            with self._lock:
                del self._connections[connection]


class ApiServer:
    """`serve` handles one connection, in a thread of its own."""

    def __init__(self, api: Api, token_file: Path, *, tls: ssl.SSLContext | None = None) -> None:
        self.api = api
        self._token_file = token_file
        self._tls = tls
        self._lock = threading.Lock()
        self._requests: list[str] = []

    def requests(self) -> tuple[str, ...]:
        """The paths of all requests, with their queries, in order."""
        with self._lock:
            return tuple(self._requests)

    def answer(self, path: str, authorization: str | None) -> ApiAnswer | Watch:
        with self._lock:
            self._requests.append(path)
        if authorization != f"Bearer {self._token_file.read_text().strip()}":
            return failure(401, "Unauthorized", "Unauthorized")
        url = urlsplit(path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        return self.api.answer(url.path, query, time.monotonic())

    def serve(self, connection: Connection) -> None:
        if self._tls is not None:
            connection.sock = self._tls.wrap_socket(
                connection.sock, server_side=True, do_handshake_on_connect=False
            )
            if connection.dropped.is_set():  # while the socket was replaced
                return
            connection.sock.do_handshake()
        _Handler(self, connection)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "simulated"

    def __init__(self, server: ApiServer, connection: Connection) -> None:
        self._server = server
        self._dropped = connection.dropped
        super().__init__(connection.sock, ("", 0), None)  # type: ignore[arg-type]  # serves until the end

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Logs nothing."""

    def do_GET(self) -> None:
        answer = self._server.answer(self.path, self.headers.get("Authorization"))
        if isinstance(answer, Watch):
            self._send_watch(answer)
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _send_watch(self, watch: Watch) -> None:
        self.send_response(200)
        self.send_header("Content-Type", JSON)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        changed = self._server.api.history.changed
        while True:
            with changed:
                now = time.monotonic()
                text = watch.new_events(now)
                if not text and not watch.ended and not self._dropped.is_set():
                    changed.wait(min(watch.wait(now), _POLL_SECONDS))
                    text = watch.new_events(time.monotonic())
            if text:
                self.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            if watch.ended:
                self.wfile.write(b"0\r\n\r\n")
                return
            if self._dropped.is_set() or select.select([self.connection], [], [], 0)[0]:
                self.close_connection = True  # readable during a watch means that the client disconnected
                return
