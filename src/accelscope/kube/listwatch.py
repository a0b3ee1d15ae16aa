"""List and watch without I/O: what to request next, and what the responses mean."""

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

from accelscope.kube.errors import DecodeError, KubeError, Reason, one_line, reason_of

# --- items ------------------------------------------------------------
# Lists and watches taken apart while they arrive, so that none is in memory whole.


ITEM_LIMIT = 16 << 20  # characters of one item or watch event; etcd takes 1.5 MiB

# json's decoder cannot tell "not whole yet" from "wrong", but where it stopped does: of what can be cut off,
# only a string makes it stop more characters before the end than these (the others: -Infinity, an escape).
_CUT_OFF = 12
_SPACE = re.compile(r"[ \t\r\n]*")
_MEMBERS = 64  # of the document, beside its items; API servers write four
_SELF_DELIMITING = '{["'  # a value that begins with these shows where it ends


class _At(Enum):
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
    _At.START: {"{": _At.FIRST_KEY},
    _At.FIRST_KEY: {"}": _At.END},
    _At.COLON: {":": _At.VALUE},
    _At.AFTER_VALUE: {",": _At.KEY, "}": _At.END},
    _At.FIRST_ITEM: {"]": _At.AFTER_VALUE},
    _At.AFTER_ITEM: {",": _At.ITEM, "]": _At.AFTER_VALUE},
}


class ListSplitter:
    """The items of a List document one at a time. What feed() gives must be taken to its end before more is
    fed. Raises KubeError: bad_answer for what is no list, too_large for an item beyond the limit."""

    def __init__(self, limit: int = ITEM_LIMIT) -> None:
        self._limit = limit
        self._decode_bytes = getincrementaldecoder("utf-8")()
        self._decode = json.JSONDecoder().raw_decode
        self._at = _At.START
        self._key: object = None
        self._buffer = ""
        self._pending: list[str] = []
        self._pending_size = 0
        self._need = 0  # how much must be there before it makes sense to look again
        self._metadata: dict[str, object] = {}
        self._has_items = False
        self._members = 0

    @property
    def resource_version(self) -> str | None:
        version = self._metadata.get("resourceVersion")
        return version if isinstance(version, str) and version else None

    @property
    def continue_token(self) -> str | None:
        """There are more items in another answer, to be asked for with this."""
        token = self._metadata.get("continue")
        return token if isinstance(token, str) and token else None

    def feed(self, content: bytes) -> Iterator[object]:
        text = self._text(content, final=False)
        if text:
            self._pending.append(text)
            self._pending_size += len(text)
        # An item that is not whole is looked at again only when twice as much of it is there: else a long one
        # that comes in small pieces would be read over and over.
        if self._pending_size >= self._need:
            yield from self._take(final=False)

    def close(self) -> Iterator[object]:
        """The document is over: what is left of it."""
        self._pending.append(self._text(b"", final=True))
        yield from self._take(final=True)
        if self._at is not _At.END:
            raise KubeError(Reason.BAD_ANSWER, "the list ends in the middle")
        if not self._has_items:  # some other document: that is not the same as a list of nothing
            raise KubeError(Reason.BAD_ANSWER, "the answer is not a list")

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
            if self._at is _At.VALUE and self._key == "items" and self._buffer[position] == "[":
                self._at = _At.FIRST_ITEM
                self._has_items = True
                position += 1
                continue
            if self._at not in (_At.FIRST_KEY, _At.KEY, _At.VALUE, _At.FIRST_ITEM, _At.ITEM):
                raise KubeError(Reason.BAD_ANSWER, "not a JSON document with a list of items")
            value, end = self._value(position, final=final)
            if end is None:
                break
            position = end
            if self._at in (_At.FIRST_ITEM, _At.ITEM):
                self._at = _At.AFTER_ITEM
                yield value
            else:
                self._top_level(value)
        self._buffer = self._buffer[position:]
        self._pending_size = len(self._buffer)
        self._need = min(2 * len(self._buffer), self._limit + 1)
        if len(self._buffer) > self._limit:
            raise KubeError(Reason.TOO_LARGE, f"one item of a list has more than {self._limit} characters")

    def _value(self, start: int, *, final: bool) -> tuple[object, int | None]:
        """The value at this place and where it ends; None if it is not whole yet."""
        text = self._buffer
        try:
            value, end = self._decode(text, start)
        except json.JSONDecodeError as error:
            cut_off = error.pos >= len(text) - _CUT_OFF or error.msg.startswith("Unterminated string")
            if cut_off and not final:
                return None, None
            raise KubeError(Reason.BAD_ANSWER, f"the list is not JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise KubeError(Reason.BAD_ANSWER, f"the list cannot be read: {error}") from None
        open_ended = text[start] not in _SELF_DELIMITING and end + 2 >= len(text)
        if open_ended and not final and not text[end:].strip(".eE+-"):
            return None, None  # a number may go on
        return value, end

    def _top_level(self, value: object) -> None:
        if self._at is _At.VALUE:
            if self._key == "metadata" and isinstance(value, dict):
                self._metadata = value
            elif self._key == "items":
                if value is not None:  # how Go writes a list of nothing
                    raise KubeError(Reason.BAD_ANSWER, "the answer is not a list")
                self._has_items = True
            self._at = _At.AFTER_VALUE
            return
        if not isinstance(value, str):
            raise KubeError(Reason.BAD_ANSWER, "not a JSON document with a list of items")
        self._members += 1
        if self._members > _MEMBERS:
            raise KubeError(Reason.BAD_ANSWER, "not a JSON document with a list of items")
        self._key = value
        self._at = _At.COLON


class LineSplitter:
    """The lines of a watch, one event each. A line that the connection's end cut off is never given."""

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
            raise KubeError(Reason.TOO_LARGE, f"one event of a watch has more than {self._limit} bytes")


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


log = logging.getLogger(__name__)

REFUSED = (Reason.UNAUTHORIZED, Reason.FORBIDDEN)  # with another token it may be allowed
NOT_GRANTED = (*REFUSED, Reason.NOT_FOUND)  # somebody must grant or create something first

_LONGEST_SECONDS = 60.0  # between two attempts
_RETRY_AFTER_SECONDS = 600.0  # a server may ask for a day; nobody means it
_SHORT_SECONDS = 1.0  # a watch that ends sooner is an error
_DOUBTFUL = 3  # errors of the server in a row, after which the resource version itself is in doubt
_OBJECTS_AT_ONCE = 50  # a few milliseconds of decoding
_INTERNAL = "internal"  # a reason: an unexpected error
_NO_ADVICE: Mapping[Reason, str] = MappingProxyType({})

RESOURCE_SLICE_VERSIONS = ("v1", "v1beta2", "v1beta1")  # newest first


@dataclass(frozen=True, slots=True)
class Collection:
    """What is listed and watched. Several paths are the same thing in several versions of the API, of which a
    server may have any: the first that it has is used."""

    paths: tuple[str, ...]
    field_selector: str | None = None
    label_selector: str | None = None

    def list_path(self, path: str, *, from_cache: bool = True, continue_token: str | None = None) -> str:
        """From the server's watch cache, which is cheap for it, or what its store has at this moment."""
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
    """A collection of one: with this selector a role that names the node by `resourceNames` suffices."""
    return Collection(("/api/v1/nodes",), f"metadata.name={name}")


def node_path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def resource_slices_of(node: str, versions: tuple[str, ...] = RESOURCE_SLICE_VERSIONS) -> Collection:
    paths = tuple(f"/apis/resource.k8s.io/{version}/resourceslices" for version in versions)
    return Collection(paths, f"spec.nodeName={node}")


def random_ratio() -> float:
    """0 <= x < 1; the module random would load OpenSSL on some builds."""
    return int.from_bytes(os.urandom(4)) / 2**32


class Backoff:
    """Of one thing that is tried until it succeeds. What was not granted is counted by itself: an API server
    that was out of reach for long forbids for some seconds after its start what it allows. A token that is
    not taken is not shown again and again: whoever waits looks for another one meanwhile."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.failures = 0  # in a row
        self._not_granted = 0  # among them

    def succeeded(self) -> None:
        self.failures = self._not_granted = 0

    def failed(self, error: KubeError | None = None) -> float:
        """Count it; how many seconds to wait."""
        self.failures += 1
        if error is None:
            return self.pause(self.failures)
        if error.reason is Reason.UNAUTHORIZED:
            return _LONGEST_SECONDS * (0.75 + 0.25 * self._random())
        failures = self.failures
        if error.reason in NOT_GRANTED:
            self._not_granted += 1
            failures = self._not_granted
        return max(self.pause(failures), min(error.retry_after or 0.0, _RETRY_AFTER_SECONDS))

    def pause(self, failures: int) -> float:
        """1 to 2 s after the first, 30 to 60 s at last: a thousand nodes do not come back all at once."""
        shortest = min(2.0 ** min(failures - 1, 10), _LONGEST_SECONDS / 2)
        return shortest * (1 + self._random())


T = TypeVar("T")


class ItemStore(Generic[T]):
    """The state behind a list and its watch. `items` is replaced whole and never changed, so a reader in
    another thread takes a reference; `version` increases whenever it is replaced. An object that cannot be
    decoded costs itself only."""

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
        self.resource_version: str | None = None  # where a watch goes on; None: a list is needed
        self.rejected = 0  # objects that could not be decoded

    def read(self, document: object, found: dict[str, T]) -> None:
        """Add an object of a list to what was found in it; replace() puts the whole list in force."""
        item = self._decoded(document)
        if item is not None and (self._keep is None or self._keep(item)):
            found[self._key(item)] = item

    def replace(self, found: Mapping[str, T], resource_version: str | None = None) -> None:
        self.resource_version = resource_version
        if found != self.items:
            self._publish(found)

    def apply(self, event: object) -> None:
        """Take one event of a watch. Raises KubeError for one of type ERROR (reason gone: list anew) and for
        what is no event."""
        kind = event.get("type") if isinstance(event, dict) else None
        document = event.get("object") if isinstance(event, dict) else None
        if kind == "ERROR":
            raise _error(document)
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not isinstance(document, dict):
            raise KubeError(Reason.BAD_ANSWER, "the watch gave something that is no event")
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
                self._publish({other: held for other, held in self.items.items() if other != key})
        elif item != known:  # most changes of an object are in fields that are not kept
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
    reason = reason_of(code) if isinstance(code, int) else Reason.BAD_ANSWER
    return KubeError(reason, f"the watch was ended: {message if isinstance(message, str) else code}")


@dataclass(frozen=True, slots=True)
class Request:
    """GET `path`; hand the body to feed() as it arrives, then call end()."""

    path: str
    watch: bool
    idle_seconds: float | None  # how long nothing may arrive; None: as for any request
    total_seconds: float | None  # for the whole body; None: without end


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next request; after a refusal, no longer than until there are other credentials."""

    seconds: float
    refused: bool = False


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """`up`: the items are current, except during a disconnect of a few seconds."""

    up: bool = False
    reason: str | None = "starting"  # a short word for why it is not up; None while it is
    error: str | None = None  # the last error, kept after the source is up again
    last_success: float | None = None  # seconds since the epoch
    errors: Mapping[str, int] = field(default_factory=dict)  # by reason, since the start


class ListWatch(Generic[T]):
    """The state machine behind an informer. A driver repeats: call next_step(), then make that request or
    pause. It reports what happens with opened(), feed() and end(), or failed() and broke().

    After a disconnect the watch is resumed from the last resource version. Objects are listed again only
    where the server no longer has that version (410, as status or as event), or where it is in doubt.
    With `poll_seconds` the collection is listed at that interval and never watched.
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
        self._backoff = Backoff(random)
        self._gone = 0  # times in a row that the version was gone, without an event between them
        self._logged: set[type[Exception]] = set()  # unexpected errors: each type is logged once
        self._pause: Pause | None = None
        self._list: _ListInProgress[T] | None = None
        self._watch: _WatchInProgress | None = None
        self._path = collection.paths[0]
        self.store = store
        self.synced = False  # there has been a whole list
        self.status = SourceStatus()
        self.failure: KubeError | None = (
            None  # why items are not current; None: they are, or never were asked
        )

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
        """Take a piece of the body. Yields after every few objects, so that an event loop can run others.
        Raises KubeError."""
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
        """The request did not succeed, or its body was cut off or malformed."""
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
            if self._gone == 1:  # nothing is wrong: servers keep versions for a few minutes only
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
        doubtful = error.reason in (Reason.SERVER_ERROR, Reason.BAD_ANSWER, Reason.TOO_LARGE)
        if error.reason is Reason.NOT_FOUND or (doubtful and self._backoff.failures >= _DOUBTFUL):
            self.store.resource_version = None

    def broke(self, fault: Exception) -> None:
        """An unexpected error: items must not pass for current, and are listed again."""
        self._list = self._watch = None
        if type(fault) not in self._logged:
            self._logged.add(type(fault))
            log.error("unexpected error while %s is watched", self._path, exc_info=fault)
        self.store.resource_version = None
        self._count(_INTERNAL)
        name = type(fault).__name__
        self.status = replace(self.status, up=False, reason=_INTERNAL, error=one_line(f"{name}: {fault}"))
        # The fleet shows it to its callers: without the message, which may contain a secret.
        self.failure = KubeError(Reason.BAD_ANSWER, f"{self._path}: unexpected error: {name}")
        self._rest(self._backoff.failed(), refused=False)

    def stopped(self) -> None:
        self.status = replace(self.status, up=False, reason="stopped")

    def _list_request(self) -> Request:
        listing = self._list
        if listing is None:
            listing = self._list = _ListInProgress(0, time.monotonic() + self._list_seconds)
        asked = self._collection.list_path(
            self._collection.paths[listing.version],
            # A cache that is behind may give a version that is gone already; then the store is asked. A
            # kubelet has neither.
            from_cache=self._gone < 2 and self._poll_seconds is None,
            continue_token=listing.continue_token,
        )
        left = listing.deadline - time.monotonic()
        return Request(asked, watch=False, idle_seconds=None, total_seconds=max(left, 0.0))

    def _watch_request(self, version: str) -> Request:
        shortest, longest = self._watch_seconds
        seconds = shortest + int((longest - shortest) * self._random())
        self._watch = _WatchInProgress(time.monotonic())
        path = self._collection.watch_path(self._path, version, seconds)
        return Request(path, watch=True, idle_seconds=seconds + self._idle_margin_seconds, total_seconds=None)

    def _take(self, listing: "_ListInProgress[T]", documents: Iterator[object]) -> Iterator[None]:
        for document in documents:
            # One that cannot be decoded counts too: it costs as much.
            listing.count += 1
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
            raise KubeError(Reason.BAD_ANSWER, "the watch gave a line that is not JSON") from None
        self.store.apply(event)
        watch.had_event = True
        self._gone = 0
        self._backoff.succeeded()
        self._succeeded()

    def _end_watch(self, watch: "_WatchInProgress") -> None:
        if time.monotonic() - watch.began >= _SHORT_SECONDS:
            self._backoff.succeeded()
        elif watch.had_event:
            self._pause = Pause(self._backoff.pause(1))
        else:
            raise KubeError(Reason.UNREACHABLE, "the server ended the watch at once")

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
        self.version = version  # which of the collection's paths
        self.deadline = deadline  # by the monotonic clock
        self.continue_token: str | None = None
        self.splitter = ListSplitter()
        self.found: dict[str, T] = {}
        self.count = 0


class _WatchInProgress:
    def __init__(self, began: float) -> None:
        self.began = began  # by the monotonic clock
        self.lines = LineSplitter()
        self.had_event = False
