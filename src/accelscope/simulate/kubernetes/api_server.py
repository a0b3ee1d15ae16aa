"""A simulated API server: its objects and requests, and a server for them with threads."""

import json
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

# --- objects and requests -------------------------------------------------
# A simulated API server without I/O: objects with resource versions, list, get and watch. The API server of a
# simulated node (threads), those of a simulated fleet and those of tests (asyncio) drive it.


PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
JSON = "application/json"
# The kind of the objects, and the fields of field selectors.
COLLECTIONS = {
    PODS: ("Pod", ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase")),
    NODES: ("Node", ("metadata.name",)),
}
_FIRST_VERSION = 184_467
_HISTORY_LIMIT = 4096  # changes
_DEFAULT_WATCH_SECONDS = 1800.0
_VERSION = {"major": "1", "minor": "33", "gitVersion": "v1.33.4", "platform": "linux/amd64"}
_PATH = re.compile(r"/api/v1/(?:namespaces/(?P<namespace>[^/]+)/)?(?P<kind>pods|nodes)(?:/(?P<name>[^/]+))?")
_LABEL = "label:"  # prefix of labels among the fields of an object
_SET = re.compile(r"(?P<name>[\w./-]+)\s+(?P<word>in|notin)\s+\((?P<values>[^()]*)\)")
_EQUAL = re.compile(r"(?P<name>[\w./-]+)\s*(?P<word>==|!=|=)\s*(?P<value>[\w.-]*)")
_EXISTS = re.compile(r"(?P<word>!?)\s*(?P<name>[\w./-]+)")
_SEPARATOR = re.compile(r",(?![^()]*\))")  # commas outside of a set

Selector = Callable[[Mapping[str, str]], bool]


class VersionExpired(Exception):
    """The changes since that version are no longer in the history."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    fields: Mapping[str, str]  # values for selectors
    text: bytes


@dataclass(frozen=True, slots=True)
class ObjectChange:
    version: int
    collection: str
    kind: str  # ADDED, MODIFIED, DELETED
    object: StoredObject


class ObjectHistory:
    """The objects of a cluster and their latest changes. All collections share one resource version, as in
    etcd."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._version = _FIRST_VERSION
        self._oldest = _FIRST_VERSION  # the oldest version that a watch may start from
        self._changes: list[ObjectChange] = []
        self._objects: dict[str, dict[str, StoredObject]] = {}

    @property
    def version(self) -> int:
        return self._version

    def put(self, collection: str, key: str, document: Mapping[str, Any]) -> None:
        with self.changed:
            objects = self._objects.setdefault(collection, {})
            kind = "MODIFIED" if key in objects else "ADDED"
            self._record(collection, key, kind, dict(_fields(document)), document)

    def remove(self, collection: str, key: str) -> None:
        with self.changed:
            stored = self._objects[collection][key]
            self._record(collection, key, "DELETED", stored.fields, json.loads(stored.text))
            del self._objects[collection][key]

    def _record(
        self,
        collection: str,
        key: str,
        kind: str,
        fields: Mapping[str, str],
        document: Mapping[str, Any],
    ) -> None:
        self._version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self._version)}
        text = json.dumps({**document, "metadata": metadata}, separators=(",", ":")).encode()
        stored = StoredObject(fields, text)
        self._objects[collection][key] = stored
        self._changes.append(ObjectChange(self._version, collection, kind, stored))
        if len(self._changes) > _HISTORY_LIMIT:
            self._oldest = self._changes[_HISTORY_LIMIT // 2 - 1].version
            del self._changes[: _HISTORY_LIMIT // 2]
        self.changed.notify_all()

    def expire_versions(self) -> None:
        """Drops all changes, like a compaction of etcd after a change in another collection."""
        with self.changed:
            self._version += 1
            self._oldest = self._version
            self._changes.clear()

    def listed(self, collection: str) -> tuple[int, list[StoredObject]]:
        """The current version, and the objects."""
        with self.changed:
            return self._version, list(self._objects.get(collection, {}).values())

    def check(self, version: int) -> None:
        """Whether a watch may begin there. Raises Expired."""
        if version < self._oldest:
            raise VersionExpired

    def changes_after(self, collection: str, version: int) -> list[ObjectChange]:
        """Oldest first."""
        with self.changed:
            return [
                change
                for change in self._changes
                if change.version > version and change.collection == collection
            ]


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The values for field and label selectors."""
    metadata = document["metadata"]
    yield "metadata.name", metadata["name"]
    for name, value in metadata["labels"].items():
        yield f"{_LABEL}{name}", value
    if document["kind"] == "Pod":
        yield "metadata.namespace", metadata["namespace"]
        yield "spec.nodeName", document["spec"]["nodeName"]
        yield "status.phase", document["status"]["phase"]


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    status: int
    body: bytes
    content_type: str = JSON


def failure(code: int, reason: str, text: str) -> ApiAnswer:
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": text,
        "reason": reason,
        "code": code,
    }
    return ApiAnswer(code, _compact(document))


class Watch:
    """An open watch. The driver sends what `new_events` returns, at once and whenever the history has changed
    or `wait` seconds have passed, until `ended`."""

    def __init__(
        self,
        history: ObjectHistory,
        collection: str,
        wanted: Selector,
        version: int,
        first: Iterable[ObjectChange],
        *,
        end: float,
        bookmark_seconds: float | None,
        now: float,
    ) -> None:
        self.ended = False
        self._history = history
        self._collection = collection
        self._wanted = wanted
        self._version = version
        self._first = list(first)
        self._end = end
        self._bookmark_seconds = bookmark_seconds
        self._bookmarked = now

    def new_events(self, now: float) -> bytes:
        with self._history.changed:
            changes = [*self._first, *self._history.changes_after(self._collection, self._version)]
            self._version = self._history.version
        self._first = []
        lines = [
            _event(change.kind, change.object.text)
            for change in changes
            if self._wanted(change.object.fields)
        ]
        self.ended = now >= self._end
        if self._bookmark_seconds is not None and (self.ended or now >= self._bookmark_due()):
            lines.append(_event("BOOKMARK", self._bookmark()))
            self._bookmarked = now
        return b"".join(lines)

    def wait(self, now: float) -> float:
        return max(0.0, min(self._end, self._bookmark_due()) - now)

    def _bookmark_due(self) -> float:
        return self._end if self._bookmark_seconds is None else self._bookmarked + self._bookmark_seconds

    def _bookmark(self) -> bytes:
        metadata = {"resourceVersion": str(self._version), "creationTimestamp": None}
        document = {"kind": COLLECTIONS[self._collection][0], "apiVersion": "v1", "metadata": metadata}
        return _compact({**document, "spec": {}, "status": {}})


class Api:
    """Answers authorized requests. `bookmark_seconds` is the time between two bookmarks of a watch."""

    def __init__(self, history: ObjectHistory, *, bookmark_seconds: float = 60.0) -> None:
        self.history = history
        self.bookmark_seconds = bookmark_seconds
        self.expired_as_status = False  # 410 as the status of the response, not as an event of the watch

    def answer(self, path: str, query: Mapping[str, str], now: float) -> ApiAnswer | Watch:
        """`now` is read from the driver's monotonic clock."""
        if match := _PATH.fullmatch(path):
            try:
                return self._objects(match, query, now)
            except ValueError as error:
                return failure(400, "BadRequest", str(error))
        if path == "/version":
            return ApiAnswer(200, _compact(_VERSION))
        if path in ("/livez", "/readyz", "/healthz"):
            return ApiAnswer(200, b"ok", "text/plain; charset=utf-8")
        return ApiAnswer(404, b"404 page not found\n", "text/plain; charset=utf-8")

    def _objects(self, match: re.Match[str], query: Mapping[str, str], now: float) -> ApiAnswer | Watch:
        """Raises ValueError for an invalid query."""
        collection, namespace = PODS if match["kind"] == "pods" else NODES, match["namespace"]
        if match["name"] is not None:
            return self._one(collection, unquote(match["name"]), namespace)
        wanted = _selected_by(query, collection, namespace)
        if query.get("watch") in ("true", "1"):
            return self._watch(collection, wanted, query, now)
        return self._list(collection, wanted, query)

    def _one(self, collection: str, name: str, namespace: str | None) -> ApiAnswer:
        for stored in self.history.listed(collection)[1]:
            here = namespace in (None, stored.fields.get("metadata.namespace"))
            if here and stored.fields["metadata.name"] == name:
                return ApiAnswer(200, stored.text)
        return failure(404, "NotFound", f'{collection.rpartition("/")[2]} "{name}" not found')

    def _list(self, collection: str, wanted: Selector, query: Mapping[str, str]) -> ApiAnswer:
        version, objects = self.history.listed(collection)
        chosen = [stored.text for stored in objects if wanted(stored.fields)]
        metadata = {"resourceVersion": str(version)}
        first, limit = _number(query.get("continue")), _number(query.get("limit"))
        if limit and first + limit < len(chosen):
            metadata["continue"] = str(first + limit)
        chosen = chosen[first : first + limit if limit else None]
        head = _compact(
            {"kind": f"{COLLECTIONS[collection][0]}List", "apiVersion": "v1", "metadata": metadata}
        )
        return ApiAnswer(200, head[:-1] + b',"items":[' + b",".join(chosen) + b"]}")

    def _watch(
        self, collection: str, wanted: Selector, query: Mapping[str, str], now: float
    ) -> ApiAnswer | Watch:
        since, seconds = query.get("resourceVersion", ""), query.get("timeoutSeconds", _DEFAULT_WATCH_SECONDS)
        first: list[ObjectChange] = []
        if since in ("", "0"):
            version, objects = self.history.listed(collection)
            first = [ObjectChange(version, collection, "ADDED", stored) for stored in objects]
        elif since.isdigit():
            version = int(since)
            try:
                self.history.check(version)
            except VersionExpired:
                expired = failure(
                    410, "Expired", f"too old resource version: {version} ({self.history.version})"
                )
                return expired if self.expired_as_status else ApiAnswer(200, _event("ERROR", expired.body))
        else:
            raise ValueError(f"Invalid value: {since!r}: resourceVersion")
        bookmarks = self.bookmark_seconds if query.get("allowWatchBookmarks") == "true" else None
        end = now + float(seconds)
        return Watch(
            self.history, collection, wanted, version, first, end=end, bookmark_seconds=bookmarks, now=now
        )


def _event(kind: str, text: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + text + b"}\n"


def _compact(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _selected_by(query: Mapping[str, str], collection: str, namespace: str | None) -> Selector:
    """Raises ValueError."""
    terms = [_field_term(term, collection) for term in _terms(query.get("fieldSelector", ""))]
    terms += [_label_term(term) for term in _terms(query.get("labelSelector", ""))]
    if namespace is not None:
        terms.append(lambda fields: fields.get("metadata.namespace") == namespace)
    return lambda fields: all(term(fields) for term in terms)


def _terms(text: str) -> list[str]:
    return [term.strip() for term in _SEPARATOR.split(text) if term.strip()]


def _field_term(term: str, collection: str) -> Selector:
    match = _EQUAL.fullmatch(term)
    if match is None or match["name"] not in COLLECTIONS[collection][1]:
        raise ValueError(f"field label not supported: {term}")
    return _equal(match["name"], match["value"], differs=match["word"] == "!=")


def _label_term(term: str) -> Selector:
    if match := _EQUAL.fullmatch(term):
        return _equal(f"{_LABEL}{match['name']}", match["value"], differs=match["word"] == "!=")
    if match := _SET.fullmatch(term):
        name, wanted = f"{_LABEL}{match['name']}", match["word"] == "in"
        values = frozenset(value.strip() for value in match["values"].split(","))
        return lambda fields: (fields.get(name) in values) is wanted
    if match := _EXISTS.fullmatch(term):
        name, expected = f"{_LABEL}{match['name']}", not match["word"]
        return lambda fields: (name in fields) is expected
    raise ValueError(f"unable to parse requirement: {term}")


def _equal(name: str, value: str, *, differs: bool) -> Selector:
    return lambda fields: (fields.get(name) == value) is not differs


# --- HTTP server ----------------------------------------------------------
# The same over HTTP, with a thread for each connection.


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
