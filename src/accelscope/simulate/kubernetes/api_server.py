"""The API server of one node's cluster: the simulated API over HTTP, a thread for each connection."""

import select
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from accelscope.simulate.kubernetes.api import JSON, Answer, Api, Watch, failure
from accelscope.simulate.kubernetes.listener import Connection

_LOOK_SECONDS = 0.5  # how often a watch looks whether its client is still there


class ApiServer:
    """Answers one connection after the other in `serve`, each in a thread of its own."""

    def __init__(self, api: Api, token_file: Path, *, tls: ssl.SSLContext | None = None) -> None:
        self.api = api
        self._token_file = token_file
        self._tls = tls
        self._lock = threading.Lock()
        self._requests: list[str] = []

    def requests(self) -> tuple[str, ...]:
        """Paths that were asked for, with their queries, in order."""
        with self._lock:
            return tuple(self._requests)

    def answer(self, path: str, authorization: str | None) -> Answer | Watch:
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
            if connection.dropped.is_set():  # while the socket was changing hands
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

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
        """Nothing: the server keeps the paths of requests."""

    def do_GET(self) -> None:
        answer = self._server.answer(self.path, self.headers.get("Authorization"))
        if isinstance(answer, Watch):
            self._follow(answer)
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _follow(self, watch: Watch) -> None:
        self.send_response(200)
        self.send_header("Content-Type", JSON)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        changed = self._server.api.history.changed
        while True:
            with changed:
                now = time.monotonic()
                text = watch.news(now)
                if not text and not watch.ended and not self._dropped.is_set():
                    changed.wait(min(watch.wait(now), _LOOK_SECONDS))
                    text = watch.news(time.monotonic())
            if text:
                self.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            if watch.ended:
                self.wfile.write(b"0\r\n\r\n")
                return
            if self._dropped.is_set() or select.select([self.connection], [], [], 0)[0]:
                self.close_connection = True  # a client sends nothing during a watch but its end
                return
