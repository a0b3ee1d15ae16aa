"""A simulated Kubernetes API server without I/O: objects with resource versions, list, get and watch.

The API server of a simulated node (threads) and those of a simulated fleet (asyncio) are drivers of this.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
JSON = "application/json"
# Kind of the objects, and the fields that they may be selected by.
COLLECTIONS = {
    PODS: ("Pod", ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase")),
    NODES: ("Node", ("metadata.name",)),
}
_FIRST_VERSION = 184_467
_KEPT_EVENTS = 4096
_USUAL_WATCH_SECONDS = 1800.0
_VERSION = {"major": "1", "minor": "33", "gitVersion": "v1.33.4", "platform": "linux/amd64"}
_PATH = re.compile(r"/api/v1/(?:namespaces/(?P<namespace>[^/]+)/)?(?P<kind>pods|nodes)(?:/(?P<name>[^/]+))?")
_LABEL = "label:"  # before the name of a label among the fields of an object
_SET = re.compile(r"(?P<name>[\w./-]+)\s+(?P<word>in|notin)\s+\((?P<values>[^()]*)\)")
_EQUAL = re.compile(r"(?P<name>[\w./-]+)\s*(?P<word>==|!=|=)\s*(?P<value>[\w.-]*)")
_THERE = re.compile(r"(?P<word>!?)\s*(?P<name>[\w./-]+)")
_BETWEEN = re.compile(r",(?![^()]*\))")  # commas, except those of a set

Matches = Callable[[Mapping[str, str]], bool]


class Expired(Exception):
    """What happened after that version is no longer known."""


@dataclass(frozen=True, slots=True)
class Stored:
    fields: Mapping[str, str]  # what field selectors ask for
    text: bytes


@dataclass(frozen=True, slots=True)
class Change:
    version: int
    collection: str
    kind: str  # ADDED, MODIFIED, DELETED
    object: Stored


class History:
    """All collections of a cluster count their versions together, as they do in etcd."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._version = _FIRST_VERSION
        self._oldest = _FIRST_VERSION  # a watch may begin here
        self._changes: list[Change] = []
        self._objects: dict[str, dict[str, Stored]] = {}

    @property
    def version(self) -> int:
        return self._version

    def put(self, collection: str, key: str, document: Mapping[str, Any]) -> None:
        with self.changed:
            objects = self._objects.setdefault(collection, {})
            kind = "MODIFIED" if key in objects else "ADDED"
            self._note(collection, key, kind, dict(_fields(document)), document)

    def remove(self, collection: str, key: str) -> None:
        with self.changed:
            stored = self._objects[collection][key]
            self._note(collection, key, "DELETED", stored.fields, json.loads(stored.text))
            del self._objects[collection][key]

    def _note(
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
        stored = Stored(fields, text)
        self._objects[collection][key] = stored
        self._changes.append(Change(self._version, collection, kind, stored))
        if len(self._changes) > _KEPT_EVENTS:
            self._oldest = self._changes[_KEPT_EVENTS // 2 - 1].version
            del self._changes[: _KEPT_EVENTS // 2]
        self.changed.notify_all()

    def forget(self) -> None:
        """What etcd's compaction does, after a change of something that nobody here watches."""
        with self.changed:
            self._version += 1
            self._oldest = self._version
            self._changes.clear()

    def listed(self, collection: str) -> tuple[int, list[Stored]]:
        """The version of it all, and the objects."""
        with self.changed:
            return self._version, list(self._objects.get(collection, {}).values())

    def check(self, version: int) -> None:
        """Whether a watch may begin there. Raises Expired."""
        if version < self._oldest:
            raise Expired

    def changes_after(self, collection: str, version: int) -> list[Change]:
        """In the order in which they happened."""
        with self.changed:
            return [
                change
                for change in self._changes
                if change.version > version and change.collection == collection
            ]


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What an object can be selected by."""
    metadata = document["metadata"]
    yield "metadata.name", metadata["name"]
    for name, value in metadata["labels"].items():
        yield f"{_LABEL}{name}", value
    if document["kind"] == "Pod":
        yield "metadata.namespace", metadata["namespace"]
        yield "spec.nodeName", document["spec"]["nodeName"]
        yield "status.phase", document["status"]["phase"]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: str = JSON


def failure(code: int, reason: str, text: str) -> Answer:
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": text,
        "reason": reason,
        "code": code,
    }
    return Answer(code, _compact(document))


class Watch:
    """A watch that is open. The driver sends what `news` returns, now and whenever the history has changed or
    `wait` seconds have passed, until `ended`."""

    def __init__(
        self,
        history: History,
        collection: str,
        wanted: Matches,
        version: int,
        first: Iterable[Change],
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

    def news(self, now: float) -> bytes:
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
    """Answers requests that are authorized. `bookmark_seconds` are between two bookmarks of a watch."""

    def __init__(self, history: History, *, bookmark_seconds: float = 60.0) -> None:
        self.history = history
        self.bookmark_seconds = bookmark_seconds
        self.expired_is_an_answer = False  # 410 as the answer itself, not as an event of the watch

    def answer(self, path: str, query: Mapping[str, str], now: float) -> Answer | Watch:
        """`now` is the driver's monotonic clock."""
        if match := _PATH.fullmatch(path):
            try:
                return self._objects(match, query, now)
            except ValueError as error:
                return failure(400, "BadRequest", str(error))
        if path == "/version":
            return Answer(200, _compact(_VERSION))
        if path in ("/livez", "/readyz", "/healthz"):
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")

    def _objects(self, match: re.Match[str], query: Mapping[str, str], now: float) -> Answer | Watch:
        """Raises ValueError for a query that cannot be answered."""
        collection, namespace = PODS if match["kind"] == "pods" else NODES, match["namespace"]
        if match["name"] is not None:
            return self._one(collection, unquote(match["name"]), namespace)
        wanted = _selected_by(query, collection, namespace)
        if query.get("watch") in ("true", "1"):
            return self._watch(collection, wanted, query, now)
        return self._list(collection, wanted, query)

    def _one(self, collection: str, name: str, namespace: str | None) -> Answer:
        for stored in self.history.listed(collection)[1]:
            here = namespace in (None, stored.fields.get("metadata.namespace"))
            if here and stored.fields["metadata.name"] == name:
                return Answer(200, stored.text)
        return failure(404, "NotFound", f'{collection.rpartition("/")[2]} "{name}" not found')

    def _list(self, collection: str, wanted: Matches, query: Mapping[str, str]) -> Answer:
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
        return Answer(200, head[:-1] + b',"items":[' + b",".join(chosen) + b"]}")

    def _watch(
        self, collection: str, wanted: Matches, query: Mapping[str, str], now: float
    ) -> Answer | Watch:
        since, seconds = query.get("resourceVersion", ""), query.get("timeoutSeconds", _USUAL_WATCH_SECONDS)
        first: list[Change] = []
        if since in ("", "0"):
            version, objects = self.history.listed(collection)
            first = [Change(version, collection, "ADDED", stored) for stored in objects]
        elif since.isdigit():
            version = int(since)
            try:
                self.history.check(version)
            except Expired:
                expired = failure(
                    410, "Expired", f"too old resource version: {version} ({self.history.version})"
                )
                return expired if self.expired_is_an_answer else Answer(200, _event("ERROR", expired.body))
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


def _selected_by(query: Mapping[str, str], collection: str, namespace: str | None) -> Matches:
    """Whether an object with these fields is asked for. Raises ValueError."""
    terms = [_field_term(term, collection) for term in _terms(query.get("fieldSelector", ""))]
    terms += [_label_term(term) for term in _terms(query.get("labelSelector", ""))]
    if namespace is not None:
        terms.append(lambda fields: fields.get("metadata.namespace") == namespace)
    return lambda fields: all(term(fields) for term in terms)


def _terms(text: str) -> list[str]:
    return [term.strip() for term in _BETWEEN.split(text) if term.strip()]


def _field_term(term: str, collection: str) -> Matches:
    match = _EQUAL.fullmatch(term)
    if match is None or match["name"] not in COLLECTIONS[collection][1]:
        raise ValueError(f"field label not supported: {term}")
    return _equal(match["name"], match["value"], differs=match["word"] == "!=")


def _label_term(term: str) -> Matches:
    if match := _EQUAL.fullmatch(term):
        return _equal(f"{_LABEL}{match['name']}", match["value"], differs=match["word"] == "!=")
    if match := _SET.fullmatch(term):
        name, wanted = f"{_LABEL}{match['name']}", match["word"] == "in"
        values = frozenset(value.strip() for value in match["values"].split(","))
        return lambda fields: (fields.get(name) in values) is wanted
    if match := _THERE.fullmatch(term):
        name, there = f"{_LABEL}{match['name']}", not match["word"]
        return lambda fields: (name in fields) is there
    raise ValueError(f"unable to parse requirement: {term}")


def _equal(name: str, value: str, *, differs: bool) -> Matches:
    return lambda fields: (fields.get(name) == value) is not differs
