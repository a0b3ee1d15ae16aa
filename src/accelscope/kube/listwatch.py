"""List and watch without I/O: the next request, and the objects in the responses.

`ListSplitter` and `LineSplitter` split lists and watches while they arrive, so that no list is in memory as a
whole. `ItemStore` holds the decoded objects. `ListWatch` is the state machine of an informer.
"""

import json
import logging
import os
import re
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import Generic, TypeVar
from urllib.parse import quote

from accelscope.kube.endpoint import DecodeError, KubeError, Reason, one_line, reason_for_status

log = logging.getLogger(__name__)

ITEM_LIMIT = 16 << 20  # characters of one item or watch event; the limit of etcd is 1.5 MiB

# json's decoder reports incomplete and malformed values alike; only the position of the error distinguishes
# them. In an incomplete value it is at most this far from the end, except in strings (longest: -Infinity, an
# escape).
_CUT_OFF = 12
_SPACE = re.compile(r"[ \t\r\n]*")
_MEMBERS_LIMIT = 64  # of the document, besides its items; API servers write four
_SELF_DELIMITING = '{["'  # first characters of values whose end is unambiguous


class _JsonState(Enum):
    START = auto()
    FIRST_KEY = auto()
    KEY = auto()
    COLON = auto()
    VALUE = auto()
    AFTER_VALUE = auto()
    FIRST_ITEM = auto()
    ITEM = auto()
    AFTER_ITEM = auto()
    END = auto()


_PUNCTUATION = {
    _JsonState.START: {"{": _JsonState.FIRST_KEY},
    _JsonState.FIRST_KEY: {"}": _JsonState.END},
    _JsonState.COLON: {":": _JsonState.VALUE},
    _JsonState.AFTER_VALUE: {",": _JsonState.KEY, "}": _JsonState.END},
    _JsonState.FIRST_ITEM: {"]": _JsonState.AFTER_VALUE},
    _JsonState.AFTER_ITEM: {",": _JsonState.ITEM, "]": _JsonState.AFTER_VALUE},
}


class ListSplitter:
    """Yields the items of a List document one at a time. Each iterator of feed() must be exhausted before the
    next call. Raises KubeError: bad_answer if it is not a list, too_large for an item beyond the limit."""

    def __init__(self, limit: int = ITEM_LIMIT) -> None:
        self._limit = limit
        self._decode_bytes = getincrementaldecoder("utf-8")()
        self._decode = json.JSONDecoder().raw_decode
        self._at = _JsonState.START
        self._key: object = None
        self._buffer = ""
        self._pending: list[str] = []
        self._pending_size = 0
        self._need = 0  # characters that must be there before parsing is tried again
        self._metadata: dict[str, object] = {}
        self._has_items = False
        self._members = 0

    @property
    def resource_version(self) -> str | None:
        version = self._metadata.get("resourceVersion")
        return version if isinstance(version, str) and version else None

    @property
    def continue_token(self) -> str | None:
        """Set if another response has more items."""
        token = self._metadata.get("continue")
        return token if isinstance(token, str) and token else None

    def feed(self, content: bytes) -> Iterator[object]:
        text = self._text(content, final=False)
        if text:
            self._pending.append(text)
            self._pending_size += len(text)
        # An incomplete item is parsed again only once its size has doubled. Otherwise a large item that
        # arrives in small pieces would be parsed again and again.
        if self._pending_size >= self._need:
            yield from self._take(final=False)

    def close(self) -> Iterator[object]:
        """The document is complete: yields the remaining items."""
        self._pending.append(self._text(b"", final=True))
        yield from self._take(final=True)
        if self._at is not _JsonState.END:
            raise KubeError(Reason.BAD_ANSWER, "the list is truncated")
        if not self._has_items:  # another document, which is not an empty list
            raise KubeError(Reason.BAD_ANSWER, "the response is not a list")

    def _text(self, content: bytes, *, final: bool) -> str:
        try:
            return self._decode_bytes.decode(content, final)
        except UnicodeDecodeError:
            raise KubeError(Reason.BAD_ANSWER, "the list is not UTF-8") from None

    def _take(self, *, final: bool) -> Iterator[object]:
        self._buffer += "".join(self._pending)
        self._pending.clear()
        position = 0
        while (position := _after_space(self._buffer, position)) < len(self._buffer):
            next_at = _PUNCTUATION.get(self._at, {}).get(self._buffer[position])
            if next_at is not None:
                self._at = next_at
                position += 1
                continue
            if self._at is _JsonState.VALUE and self._key == "items" and self._buffer[position] == "[":
                self._at = _JsonState.FIRST_ITEM
                self._has_items = True
                position += 1
                continue
            if self._at not in (
                _JsonState.FIRST_KEY,
                _JsonState.KEY,
                _JsonState.VALUE,
                _JsonState.FIRST_ITEM,
                _JsonState.ITEM,
            ):
                raise KubeError(Reason.BAD_ANSWER, "not a JSON document with a list of items")
            value, end = self._value(position, final=final)
            if end is None:
                break
            position = end
            if self._at in (_JsonState.FIRST_ITEM, _JsonState.ITEM):
                self._at = _JsonState.AFTER_ITEM
                yield value
            else:
                self._top_level(value)
        self._buffer = self._buffer[position:]
        self._pending_size = len(self._buffer)
        self._need = min(2 * len(self._buffer), self._limit + 1)
        if len(self._buffer) > self._limit:
            raise KubeError(Reason.TOO_LARGE, f"a list item has more than {self._limit} characters")

    def _value(self, start: int, *, final: bool) -> tuple[object, int | None]:
        """The value at this position and its end; None if it is incomplete."""
        text = self._buffer
        try:
            value, end = self._decode(text, start)
        except json.JSONDecodeError as error:
            cut_off = error.pos >= len(text) - _CUT_OFF or error.msg.startswith("Unterminated string")
            if cut_off and not final:
                return None, None
            raise KubeError(Reason.BAD_ANSWER, f"the list is not JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise KubeError(Reason.BAD_ANSWER, f"cannot parse the list: {error}") from None
        open_ended = text[start] not in _SELF_DELIMITING and end + 2 >= len(text)
        if open_ended and not final and not text[end:].strip(".eE+-"):
            return None, None  # a number may continue
        return value, end

    def _top_level(self, value: object) -> None:
        if self._at is _JsonState.VALUE:
            if self._key == "metadata" and isinstance(value, dict):
                self._metadata = value
            elif self._key == "items":
                if value is not None:  # Go writes an empty list as null
                    raise KubeError(Reason.BAD_ANSWER, "the response is not a list")
                self._has_items = True
            self._at = _JsonState.AFTER_VALUE
            return
        if not isinstance(value, str):
            raise KubeError(Reason.BAD_ANSWER, "not a JSON document with a list of items")
        self._members += 1
        if self._members > _MEMBERS_LIMIT:
            raise KubeError(Reason.BAD_ANSWER, "not a JSON document with a list of items")
        self._key = value
        self._at = _JsonState.COLON


class LineSplitter:
    """Yields the lines of a watch, one event each. An incomplete last line is dropped."""

    def __init__(self, limit: int = ITEM_LIMIT) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0

    def feed(self, content: bytes) -> Iterator[bytes]:
        *whole, rest = content.split(b"\n")
        for line in whole:
            self._hold(line)
            joined = b"".join(self._pending)
            self._pending, self._size = [], 0
            if joined.strip():
                yield joined
        if rest:
            self._hold(rest)

    def _hold(self, piece: bytes) -> None:
        self._pending.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise KubeError(Reason.TOO_LARGE, f"a watch event has more than {self._limit} bytes")


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


REFUSED = (Reason.UNAUTHORIZED, Reason.FORBIDDEN)  # another token may be accepted
NOT_GRANTED = (*REFUSED, Reason.NOT_FOUND)  # a right or an object is missing

_BACKOFF_LIMIT_SECONDS = 60.0
_RETRY_AFTER_LIMIT_SECONDS = 600.0
_SHORT_WATCH_SECONDS = 1.0  # a watch without events that ends sooner is an error
_RELIST_FAILURES = 3  # server errors in a row after which objects are listed again
_OBJECTS_AT_ONCE = 50  # a few milliseconds of decoding
_INTERNAL = "internal"  # reason of an unexpected error
_NO_ADVICE: Mapping[Reason, str] = MappingProxyType({})

RESOURCE_SLICE_VERSIONS = ("v1", "v1beta2", "v1beta1")  # newest first


@dataclass(frozen=True, slots=True)
class Collection:
    """The objects to list and watch. Several paths are the same objects in several versions of the API; the
    first version that the server has is used."""

    paths: tuple[str, ...]
    field_selector: str | None = None
    label_selector: str | None = None

    def list_path(self, path: str, *, from_cache: bool = True, continue_token: str | None = None) -> str:
        """From the server's watch cache, which is cheap, or from its store."""
        if continue_token is not None:
            return self._query(path, ("continue", continue_token))
        return self._query(path, ("resourceVersion", "0")) if from_cache else self._query(path)

    def watch_path(self, path: str, resource_version: str, timeout_seconds: int) -> str:
        return self._query(
            path,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(timeout_seconds)),
        )

    def _query(self, path: str, *parameters: tuple[str, str]) -> str:
        if self.label_selector is not None:
            parameters = (("labelSelector", self.label_selector), *parameters)
        if self.field_selector is not None:
            parameters = (("fieldSelector", self.field_selector), *parameters)
        return with_query(path, parameters)


def with_query(path: str, parameters: Iterable[tuple[str, str]]) -> str:
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters)
    return f"{path}?{query}" if query else path


def pods_of(node: str) -> Collection:
    return Collection(("/api/v1/pods",), f"spec.nodeName={node}")


def pods_in(namespace: str, label_selector: str | None = None) -> Collection:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    return Collection((path,), label_selector=label_selector)


def all_nodes() -> Collection:
    return Collection(("/api/v1/nodes",))


def one_node(name: str) -> Collection:
    """A collection of one Node. With this selector, a role restricted by `resourceNames` is sufficient."""
    return Collection(("/api/v1/nodes",), f"metadata.name={name}")


def node_path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def resource_slices_of(node: str, versions: tuple[str, ...] = RESOURCE_SLICE_VERSIONS) -> Collection:
    paths = tuple(f"/apis/resource.k8s.io/{version}/resourceslices" for version in versions)
    return Collection(paths, f"spec.nodeName={node}")


def random_ratio() -> float:
    """0 <= x < 1. On some builds the module `random` imports hashlib, which takes 3.6 MiB."""
    return int.from_bytes(os.urandom(4)) / 2**32


class Backoff:
    """Exponential backoff. NOT_GRANTED errors have their own count, because an API server denies allowed
    requests for some seconds after its start. A rejected token is retried rarely; the caller watches for a
    new one meanwhile."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.failures = 0  # consecutive
        self._not_granted = 0  # NOT_GRANTED errors among them

    def succeeded(self) -> None:
        self.failures = self._not_granted = 0

    def failed(self, error: KubeError | None = None) -> float:
        """Count a failure and return the seconds to wait."""
        self.failures += 1
        if error is None:
            return self.pause(self.failures)
        if error.reason is Reason.UNAUTHORIZED:
            return _BACKOFF_LIMIT_SECONDS * (0.75 + 0.25 * self._random())
        failures = self.failures
        if error.reason in NOT_GRANTED:
            self._not_granted += 1
            failures = self._not_granted
        return max(self.pause(failures), min(error.retry_after or 0.0, _RETRY_AFTER_LIMIT_SECONDS))

    def pause(self, failures: int) -> float:
        """1 to 2 s after the first failure, up to 30 to 60 s. The jitter spreads the retries of many
        nodes."""
        shortest = min(2.0 ** min(failures - 1, 10), _BACKOFF_LIMIT_SECONDS / 2)
        return shortest * (1 + self._random())


T = TypeVar("T")


class ItemStore(Generic[T]):
    """The objects of a list and its watch. `items` is replaced and never modified, so other threads can use a
    reference to it. `version` increases with each replacement. Objects that cannot be decoded are skipped and
    counted."""

    def __init__(
        self,
        decode: Callable[[object], T],
        key: Callable[[T], str],
        keep: Callable[[T], bool] | None = None,
    ) -> None:
        self._decode = decode
        self._key = key
        self._keep = keep
        self.items: Mapping[str, T] = {}
        self.version = 0
        self.resource_version: str | None = None  # where a watch continues; None: list first
        self.rejected = 0  # number of objects that could not be decoded

    def read(self, document: object, found: dict[str, T]) -> None:
        """Decode an object of a list into `found`. replace() publishes the complete list."""
        item = self._decoded(document)
        if item is not None and (self._keep is None or self._keep(item)):
            found[self._key(item)] = item

    def replace(self, found: Mapping[str, T], resource_version: str | None = None) -> None:
        self.resource_version = resource_version
        if found != self.items:
            self._publish(found)

    def apply(self, event: object) -> None:
        """Apply one watch event. Raises KubeError for an event of type ERROR (reason gone: list again) and
        for anything that is not an event."""
        kind = event.get("type") if isinstance(event, dict) else None
        document = event.get("object") if isinstance(event, dict) else None
        if kind == "ERROR":
            raise _error(document)
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not isinstance(document, dict):
            raise KubeError(Reason.BAD_ANSWER, "malformed watch event")
        if kind != "BOOKMARK":
            self._change(document, gone=kind == "DELETED")
        metadata = document.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(version, str) and version:
            self.resource_version = version

    def _change(self, document: object, *, gone: bool) -> None:
        item = self._decoded(document)
        if item is None:
            return
        key = self._key(item)
        known = self.items.get(key)
        if gone or (self._keep is not None and not self._keep(item)):
            if known is not None:
                self._publish({other: item for other, item in self.items.items() if other != key})
        elif item != known:  # most changes concern fields that are not decoded
            self._publish({**self.items, key: item})

    def _publish(self, items: Mapping[str, T]) -> None:
        self.items = items
        self.version += 1

    def _decoded(self, document: object) -> T | None:
        try:
            return self._decode(document)
        except DecodeError:
            self.rejected += 1
            return None


def _error(status: object) -> KubeError:
    fields = status if isinstance(status, dict) else {}
    code, message = fields.get("code"), fields.get("message")
    reason = reason_for_status(code) if isinstance(code, int) else Reason.BAD_ANSWER
    return KubeError(reason, f"the server ended the watch: {message if isinstance(message, str) else code}")


@dataclass(frozen=True, slots=True)
class Request:
    """GET `path`, pass the body to feed() as it arrives, then call end()."""

    path: str
    watch: bool
    idle_seconds: float | None  # timeout between pieces of the body; None: the default of the client
    total_seconds: float | None  # timeout of the whole body; None: unlimited


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next request. If it was refused, stop waiting when the credentials change."""

    seconds: float
    refused: bool = False


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """`up` means that the items are current, apart from a disconnect of a few seconds."""

    up: bool = False
    reason: str | None = "starting"  # keyword; None while it is up
    error: str | None = None  # the last error; it stays after the source has recovered
    last_success: float | None = None  # Unix time
    errors: Mapping[str, int] = field(default_factory=dict)  # by reason, since the start


class ListWatch(Generic[T]):
    """The state machine of an informer. Its driver repeats: call next_step(), then send that request or
    pause. It reports the outcome with opened(), feed() and end(), or with failed() and broke().

    After a disconnect the watch resumes from the last resource version. Objects are listed again only if the
    server no longer has that version (410, as status or as event), or after repeated server errors. With
    `poll_seconds` the collection is listed at that interval and never watched.
    """

    def __init__(
        self,
        collection: Collection,
        store: ItemStore[T],
        *,
        list_seconds: float,
        poll_seconds: float | None = None,
        most_items: int | None = None,
        watch_seconds: tuple[int, int] = (240, 360),
        idle_margin_seconds: float = 30.0,
        advice: Mapping[Reason, str] = _NO_ADVICE,
        random: Callable[[], float] = random_ratio,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collection = collection
        self._list_seconds = list_seconds
        self._poll_seconds = poll_seconds
        self._most_items = most_items
        self._watch_seconds = watch_seconds
        self._idle_margin_seconds = idle_margin_seconds
        self._advice = advice
        self._random = random
        self._clock = clock
        self._monotonic = monotonic
        self._backoff = Backoff(random)
        self._gone = 0  # consecutive 410 errors without an event between them
        self._logged: set[type[Exception]] = set()  # each type of unexpected error is logged once
        self._pause: Pause | None = None
        self._list: _ListInProgress[T] | None = None
        self._watch: _WatchInProgress | None = None
        self._path = collection.paths[0]
        self.store = store
        self.synced = False  # there has been a complete list
        self.status = SourceStatus()
        self.failure: KubeError | None = None  # why items are not current

    def next_step(self) -> Request | Pause:
        pause, self._pause = self._pause, None
        if pause is not None and pause.seconds > 0:
            return pause
        if self.store.resource_version is None:
            return self._list_request()
        return self._watch_request(self.store.resource_version)

    def opened(self) -> None:
        """The server accepted the request."""
        if self._watch is not None:
            self._succeeded()

    def feed(self, content: bytes) -> Iterator[None]:
        """Process a piece of the body. Yields after every few objects, so that an event loop can run other
        tasks. Raises KubeError."""
        if self._list is not None:
            yield from self._take(self._list, self._list.splitter.feed(content))
        elif self._watch is not None:
            for number, line in enumerate(self._watch.lines.feed(content), 1):
                self._apply(self._watch, line)
                if number % _OBJECTS_AT_ONCE == 0:
                    yield
            if self._most_items is not None and len(self.store.items) > self._most_items:
                self.store.resource_version = None
                raise self._too_many(self._path)

    def end(self) -> Iterator[None]:
        """The body is complete. Yields like feed(). Raises KubeError."""
        if (listing := self._list) is not None:
            yield from self._take(listing, listing.splitter.close())
            self._end_page(listing)
        elif (watch := self._watch) is not None:
            self._watch = None
            self._end_watch(watch)

    def failed(self, error: KubeError) -> None:
        """The request failed, or its body was truncated or malformed."""
        listing, self._list, self._watch = self._list, None, None
        if (
            listing is not None
            and error.reason is Reason.NOT_FOUND
            and listing.version + 1 < len(self._collection.paths)
        ):
            self._list = _ListInProgress(listing.version + 1, listing.deadline)
            return
        if error.reason is Reason.GONE and self._poll_seconds is None:
            self.store.resource_version = None
            self._gone += 1
            if self._gone == 1:  # normal: servers keep versions for a few minutes only
                self._count(error.reason)
                return
        self._rest(self._backoff.failed(error), refused=error.reason in REFUSED)
        up = self.synced and self._backoff.failures < 2 and error.reason not in NOT_GRANTED
        self._count(error.reason)
        advice = self._advice.get(error.reason)
        text = error.text if advice is None else one_line(f"{advice}; {error.text}")
        self.status = replace(self.status, up=up, reason=None if up else str(error.reason), error=text)
        if not up:
            self.failure = error
        server_error = error.reason in (Reason.SERVER_ERROR, Reason.BAD_ANSWER, Reason.TOO_LARGE)
        if error.reason is Reason.NOT_FOUND or (server_error and self._backoff.failures >= _RELIST_FAILURES):
            self.store.resource_version = None

    def broke(self, fault: Exception) -> None:
        """An unexpected error: the items may be wrong and are listed again."""
        self._list = self._watch = None
        if type(fault) not in self._logged:
            self._logged.add(type(fault))
            log.error("unexpected error while watching %s", self._path, exc_info=fault)
        self.store.resource_version = None
        self._count(_INTERNAL)
        name = type(fault).__name__
        self.status = replace(self.status, up=False, reason=_INTERNAL, error=one_line(f"{name}: {fault}"))
        # The fleet shows this error to its callers, so it omits the message, which may contain a secret.
        self.failure = KubeError(Reason.BAD_ANSWER, f"{self._path}: unexpected error: {name}")
        self._rest(self._backoff.failed(), refused=False)

    def stopped(self) -> None:
        self.status = replace(self.status, up=False, reason="stopped")

    def _list_request(self) -> Request:
        listing = self._list
        if listing is None:
            listing = self._list = _ListInProgress(0, self._monotonic() + self._list_seconds)
        path = self._collection.list_path(
            self._collection.paths[listing.version],
            # An outdated cache may return a version that is already gone; then the store is read. A kubelet
            # has no cache.
            from_cache=self._gone < 2 and self._poll_seconds is None,
            continue_token=listing.continue_token,
        )
        left = listing.deadline - self._monotonic()
        return Request(path, watch=False, idle_seconds=None, total_seconds=max(left, 0.0))

    def _watch_request(self, version: str) -> Request:
        shortest, longest = self._watch_seconds
        seconds = shortest + int((longest - shortest) * self._random())
        self._watch = _WatchInProgress(self._monotonic())
        path = self._collection.watch_path(self._path, version, seconds)
        return Request(path, watch=True, idle_seconds=seconds + self._idle_margin_seconds, total_seconds=None)

    def _take(self, listing: "_ListInProgress[T]", documents: Iterator[object]) -> Iterator[None]:
        for document in documents:
            listing.count += 1  # also counts objects that cannot be decoded
            if self._most_items is not None and listing.count > self._most_items:
                raise self._too_many(self._collection.paths[listing.version])
            self.store.read(document, listing.found)
            if listing.count % _OBJECTS_AT_ONCE == 0:
                yield

    def _end_page(self, listing: "_ListInProgress[T]") -> None:
        path, splitter = self._collection.paths[listing.version], listing.splitter
        if splitter.continue_token is not None:
            listing.continue_token, listing.splitter = splitter.continue_token, ListSplitter()
            return
        self._list = None
        if self._poll_seconds is not None:
            self.store.replace(listing.found)
            self._backoff.succeeded()
            self._pause = Pause(self._poll_seconds)
        elif splitter.resource_version is None:
            raise KubeError(Reason.BAD_ANSWER, f"the list of {path} has no resource version")
        else:
            self._path = path
            self.store.replace(listing.found, splitter.resource_version)
        self.synced = True
        self._succeeded()

    def _apply(self, watch: "_WatchInProgress", line: bytes) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            raise KubeError(Reason.BAD_ANSWER, "a line of the watch is not JSON") from None
        self.store.apply(event)
        watch.had_event = True
        self._gone = 0
        self._backoff.succeeded()
        self._succeeded()

    def _end_watch(self, watch: "_WatchInProgress") -> None:
        if self._monotonic() - watch.began >= _SHORT_WATCH_SECONDS:
            self._backoff.succeeded()
        elif watch.had_event:
            self._pause = Pause(self._backoff.pause(1))
        else:
            raise KubeError(Reason.UNREACHABLE, "the server ended the watch immediately")

    def _succeeded(self) -> None:
        """Items are current."""
        status = self.status
        errors = status.errors
        if errors.get("bad_object", 0) != self.store.rejected:
            errors = {**errors, "bad_object": self.store.rejected}
        self.status = SourceStatus(True, None, status.error, self._clock(), errors)
        self.failure = None

    def _rest(self, seconds: float, *, refused: bool) -> None:
        self._pause = Pause(max(seconds, self._poll_seconds or 0.0), refused)

    def _count(self, reason: str) -> None:
        errors = dict(self.status.errors)
        errors[str(reason)] = errors.get(str(reason), 0) + 1
        self.status = replace(self.status, errors=errors)

    def _too_many(self, path: str) -> KubeError:
        return KubeError(Reason.TOO_LARGE, f"{path}: more than {self._most_items} objects")


class _ListInProgress(Generic[T]):
    def __init__(self, version: int, deadline: float) -> None:
        self.version = version  # index into the collection's paths
        self.deadline = deadline  # monotonic
        self.continue_token: str | None = None
        self.splitter = ListSplitter()
        self.found: dict[str, T] = {}
        self.count = 0


class _WatchInProgress:
    def __init__(self, began: float) -> None:
        self.began = began  # monotonic
        self.lines = LineSplitter()
        self.had_event = False
