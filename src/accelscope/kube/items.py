"""Lists and watches taken apart while they arrive, so that none is in memory whole."""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from enum import Enum, auto

from accelscope.kube.errors import KubeError, Reason

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
