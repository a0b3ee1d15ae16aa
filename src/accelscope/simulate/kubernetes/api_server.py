"""A Kubernetes API server for one node: list and watch of its pods and of the Node itself, for a token."""

import json
import select
import ssl
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from accelscope.simulate.kubernetes.history import Change, Expired, History, Stored
from accelscope.simulate.kubernetes.listener import Connection

_USUAL_WATCH_SECONDS = 1800.0
_LOOK_SECONDS = 0.5  # how often a watch looks whether its client is still there
# Path, kind of its objects, and what they may be selected by.
COLLECTIONS = {
    "/api/v1/pods": ("Pod", ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase")),
    "/api/v1/nodes": ("Node", ("metadata.name",)),
}


class ApiServer:
    """Answers one connection after the other in `serve`, each in a thread of its own."""

    def __init__(
        self,
        history: History,
        token_file: Path,
        *,
        tls: ssl.SSLContext | None = None,
        bookmark_seconds: float = 60.0,
    ) -> None:
        self.history = history
        self.bookmark_seconds = bookmark_seconds
        self.expired_is_an_answer = False  # 410 as the answer itself, not as an event of the watch
        self._token_file = token_file
        self._tls = tls
        self._lock = threading.Lock()
        self._requests: list[str] = []

    def requests(self) -> tuple[str, ...]:
        """Paths that were asked for, with their queries, in order."""
        with self._lock:
            return tuple(self._requests)

    def note(self, path: str) -> None:
        with self._lock:
            self._requests.append(path)

    def admits(self, authorization: str | None) -> bool:
        return authorization == f"Bearer {self._token_file.read_text().strip()}"

    def serve(self, connection: Connection) -> None:
        if self._tls is not None:
            connection.sock = self._tls.wrap_socket(
                connection.sock, server_side=True, do_handshake_on_connect=False
            )
            if connection.dropped.is_set():  # while the socket was changing hands
                return
            connection.sock.do_handshake()
        _Handler(self, connection)


class _BadSelector(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "simulated"

    def __init__(self, api: ApiServer, connection: Connection) -> None:
        self._api = api
        self._dropped = connection.dropped
        super().__init__(connection.sock, ("", 0), None)  # type: ignore[arg-type]  # serves until the end

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
        """Nothing: the cluster keeps what was asked for."""

    def do_GET(self) -> None:
        self._api.note(self.path)
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if not self._api.admits(self.headers.get("Authorization")):
            self._fail(401, "Unauthorized", "Unauthorized")
        elif url.path in COLLECTIONS:
            self._collection(url.path, query)
        elif url.path.startswith("/api/v1/nodes/"):
            self._one_node(url.path.removeprefix("/api/v1/nodes/"))
        else:
            self._answer(404, b"404 page not found\n", "text/plain; charset=utf-8")

    def _collection(self, path: str, query: Mapping[str, str]) -> None:
        try:
            wanted = _selector(path, query)
        except _BadSelector as error:
            self._fail(400, "BadRequest", str(error))
            return
        if query.get("watch") in ("true", "1"):
            self._watch(path, query, wanted)
            return
        version, objects = self._api.history.listed(path)
        kind = COLLECTIONS[path][0]
        head = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}}
        items = b",".join(stored.text for stored in objects if _matches(stored, wanted))
        self._answer(200, json.dumps(head).encode()[:-1] + b',"items":[' + items + b"]}")

    def _one_node(self, name: str) -> None:
        for stored in self._api.history.listed("/api/v1/nodes")[1]:
            if stored.fields["metadata.name"] == name:
                self._answer(200, stored.text)
                return
        self._fail(404, "NotFound", f'nodes "{name}" not found')

    def _watch(self, path: str, query: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        history = self._api.history
        since = query.get("resourceVersion", "")
        first: list[Change] = []
        if since in ("", "0"):
            version, objects = history.listed(path)
            first = [Change(version, path, "ADDED", stored) for stored in objects]
        elif since.isdigit():
            version = int(since)
            try:
                history.check(version)
            except Expired:
                self._expired(version, history.version)
                return
        else:
            self._fail(400, "BadRequest", f"Invalid value: {since!r}: resourceVersion")
            return
        try:
            seconds = float(query.get("timeoutSeconds", _USUAL_WATCH_SECONDS))
        except ValueError:
            self._fail(400, "BadRequest", "timeoutSeconds is no number")
            return
        self._begin_stream()
        for change in first:
            self._send_change(change, wanted)
        self._follow(path, wanted, version, seconds, bookmarks=query.get("allowWatchBookmarks") == "true")

    def _follow(
        self, path: str, wanted: Mapping[str, str], version: int, seconds: float, *, bookmarks: bool
    ) -> None:
        history, start = self._api.history, time.monotonic()
        bookmarked = start
        while True:
            now = time.monotonic()
            due = bookmarked + self._api.bookmark_seconds if bookmarks else start + seconds
            with history.changed:
                changes = history.changes_after(path, version)
                if not changes and not self._dropped.is_set():
                    history.changed.wait(max(0.0, min(due - now, start + seconds - now, _LOOK_SECONDS)))
                    changes = history.changes_after(path, version)
                seen = history.version
            for change in changes:
                self._send_change(change, wanted)
            version = seen
            now = time.monotonic()
            ended = now >= start + seconds
            if bookmarks and (ended or now >= due):
                self._send_event("BOOKMARK", _bookmark(path, version))
                bookmarked = now
            if ended:
                self.wfile.write(b"0\r\n\r\n")
                return
            if self._dropped.is_set() or select.select([self.connection], [], [], 0)[0]:
                self.close_connection = True  # nothing is sent during a watch but the end
                return

    def _send_change(self, change: Change, wanted: Mapping[str, str]) -> None:
        if _matches(change.object, wanted):
            self._send_event(change.kind, change.object.text)

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send_event(self, kind: str, text: bytes) -> None:
        line = b'{"type":"' + kind.encode() + b'","object":' + text + b"}\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

    def _expired(self, version: int, current: int) -> None:
        text = f"too old resource version: {version} ({current})"
        if self._api.expired_is_an_answer:
            self._fail(410, "Expired", text)
            return
        self._begin_stream()
        self._send_event("ERROR", _status(410, "Expired", text))
        self.wfile.write(b"0\r\n\r\n")

    def _fail(self, code: int, reason: str, text: str) -> None:
        self._answer(code, _status(code, reason, text))

    def _answer(self, code: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _selector(path: str, query: Mapping[str, str]) -> dict[str, str]:
    """Field names and wanted values. Raises _BadSelector."""
    if "labelSelector" in query:
        raise _BadSelector("this simulated API server knows no label selectors")
    wanted = {}
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        name, equals, value = term.replace("==", "=").partition("=")
        if not equals or name not in COLLECTIONS[path][1]:
            raise _BadSelector(f"field label not supported: {name}")
        wanted[name] = value
    return wanted


def _matches(stored: Stored, wanted: Mapping[str, str]) -> bool:
    return all(stored.fields.get(name) == value for name, value in wanted.items())


def _status(code: int, reason: str, text: str) -> bytes:
    document: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": text,
        "reason": reason,
        "code": code,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _bookmark(path: str, version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    document = {"kind": COLLECTIONS[path][0], "apiVersion": "v1", "metadata": metadata}
    return json.dumps({**document, "spec": {}, "status": {}}, separators=(",", ":")).encode()
