"""Requests and answers of HTTP/1.1 as bytes, from the client's side: no sockets here."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

HEAD_LIMIT = 64 << 10  # bytes of status line and header fields
FIELDS_LIMIT = 200
CHUNK_LINE_LIMIT = 1024  # bytes of a chunk's size and extensions
_INTERIM_LIMIT = 10  # answers 1xx before the real one

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110's word for a name
_NAME = re.compile(_TOKEN, re.ASCII)
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([^\r\n]*))?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_HEX = re.compile(rb"[0-9A-Fa-f]{1,15}")


class MessageError(ValueError):
    """Bytes that are no answer."""


class CutOff(MessageError):
    """An answer that ends too early."""


@dataclass(frozen=True, slots=True)
class Head:
    status: int
    headers: Mapping[str, str]  # lower-case names; several of one name are joined with commas
    keep_alive: bool


def write_request(
    method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes | None = None
) -> bytes:
    """Content-Length is added. Raises ValueError for what would not be one request on the wire."""
    if _NAME.fullmatch(method) is None:
        raise ValueError(f"not a method: {method!r}")
    if re.fullmatch(r"/[!-~]*", target, re.ASCII) is None or "#" in target:
        raise ValueError(f"not a path: {target!r}")
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers:
        if _NAME.fullmatch(name) is None or not value.isascii() or _CONTROL.search(value):
            raise ValueError(f"header {name!r} cannot be sent")  # its value may be a secret
        lines.append(f"{name}: {value}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode("ascii") + (body or b"")


class _At(Enum):
    HEAD = auto()
    LENGTH = auto()  # a body of a known length
    CLOSE = auto()  # a body that ends with the connection
    CHUNK_LINE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    DONE = auto()


class AnswerParser:
    """One answer, fed as it arrives. `head` is there as soon as it is whole."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self._at = _At.HEAD
        self._buffer = bytearray()
        self._left = 0  # bytes still to come of the body or chunk
        self._lines: list[str] = []
        self._line_bytes = 0
        self._interim = 0

    @property
    def finished(self) -> bool:
        return self._at is _At.DONE

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on the same connection."""
        return self.finished and self.head is not None and self.head.keep_alive and not self._buffer

    @property
    def body_bytes(self) -> int | None:
        """How much of the body is still to come, where the head says it."""
        return self._left if self._at is _At.LENGTH else None

    def feed(self, content: bytes) -> bytes:
        """What of the body is in these bytes. Raises MessageError."""
        buffer = self._buffer
        buffer += content
        body: list[bytes] = []
        position = 0
        while self._at is not _At.DONE:
            before, at = position, self._at
            if at in (_At.LENGTH, _At.CHUNK, _At.CLOSE):
                size = len(buffer) - position
                if at is not _At.CLOSE:
                    size = min(size, self._left)
                    self._left -= size
                if size:
                    body.append(bytes(buffer[position : position + size]))
                    position += size
                if at is not _At.CLOSE and not self._left:
                    self._at = _At.DONE if at is _At.LENGTH else _At.CHUNK_END
            else:
                position = self._line(position)
            if position == before and self._at is at:
                break
        del buffer[:position]
        return body[0] if len(body) == 1 else b"".join(body)

    def close(self) -> None:
        """The connection ended. Raises CutOff where the answer is not whole."""
        if self._at is _At.CLOSE:
            self._at = _At.DONE
        elif self._at is not _At.DONE:
            raise CutOff("the connection was closed in the middle of the answer")

    def _line(self, position: int) -> int:
        """Take one line, if it is whole; the position after it."""
        buffer = self._buffer
        limit = CHUNK_LINE_LIMIT if self._at in (_At.CHUNK_LINE, _At.CHUNK_END) else HEAD_LIMIT
        limit -= self._line_bytes
        end = buffer.find(b"\n", position, position + limit)
        if end < 0:
            if len(buffer) - position >= limit:
                raise MessageError("a head or chunk line that is too long")
            return position
        if end == position or buffer[end - 1] != 0x0D:
            raise MessageError("a line that does not end with CR LF")
        line = bytes(buffer[position : end - 1])
        if self._at is _At.CHUNK_LINE:
            self._chunk_line(line)
        elif self._at is _At.CHUNK_END:
            if line:
                raise MessageError("a chunk that is longer than it says")
            self._at = _At.CHUNK_LINE
        else:
            self._line_bytes += end + 1 - position
            self._head_line(line)
        return end + 1

    def _head_line(self, line: bytes) -> None:
        if line:
            if len(self._lines) > FIELDS_LIMIT:
                raise MessageError(f"more than {FIELDS_LIMIT} header fields")
            self._lines.append(line.decode("latin-1"))
            if len(self._lines) == 1 and self._at is _At.HEAD and not _STATUS_LINE.fullmatch(self._lines[0]):
                raise MessageError("this is not an answer of HTTP/1.1")
            return
        lines, self._lines, self._line_bytes = self._lines, [], 0
        if self._at is _At.TRAILER:
            self._at = _At.DONE
            return
        status_line = _STATUS_LINE.fullmatch(lines[0]) if lines else None
        if status_line is None:
            raise MessageError("this is not an answer of HTTP/1.1")
        status = int(status_line[2])
        headers = _fields(lines[1:])
        if status == 101:
            raise MessageError("the server changes to another protocol")
        if status < 200:
            self._interim += 1
            if self._interim > _INTERIM_LIMIT:
                raise MessageError("too many interim answers")
            return
        self._begin(status, headers, minor=status_line[1])

    def _begin(self, status: int, headers: dict[str, str], *, minor: str) -> None:
        options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
        keep_alive = "close" not in options if minor == "1" else "keep-alive" in options
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None and length is not None:
            raise MessageError("both Content-Length and Transfer-Encoding are given")
        if status in (204, 304):
            self._at = _At.DONE
        elif coding is not None:
            if coding.lower() != "chunked":
                raise MessageError(f"an unknown transfer coding: {coding}")
            self._at = _At.CHUNK_LINE
        elif length is not None:
            # Proxies that repeat the field with the same value mean one.
            values = {value.strip() for value in length.split(",")}
            if len(values) != 1 or not _DIGITS.fullmatch(value := values.pop()):
                raise MessageError("Content-Length is not a number")
            self._left = int(value)
            self._at = _At.LENGTH if self._left else _At.DONE
        else:
            self._at, keep_alive = _At.CLOSE, False
        self.head = Head(status, headers, keep_alive)

    def _chunk_line(self, line: bytes) -> None:
        size = line.partition(b";")[0].strip(b" \t")
        if not _HEX.fullmatch(size):
            raise MessageError("a chunk without a size")
        self._left = int(size, 16)
        self._at = _At.CHUNK if self._left else _At.TRAILER


def _fields(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not colon or _NAME.fullmatch(name) is None or _CONTROL.search(value):
            raise MessageError("a header line is malformed")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
