"""HTTP/1.1 requests and responses as bytes, on the client's side and without I/O."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

HEAD_LIMIT = 64 << 10  # bytes of status line and header fields
FIELDS_LIMIT = 200
CHUNK_LINE_LIMIT = 1024  # bytes of a chunk's size and extensions
_INTERIM_LIMIT = 10  # 1xx responses before the final one

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - a name in RFC 9110
_NAME = re.compile(_TOKEN, re.ASCII)
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([^\r\n]*))?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_HEX = re.compile(rb"[0-9A-Fa-f]{1,15}")


class MessageError(ValueError):
    """The bytes are not a valid response."""


class TruncatedMessage(MessageError):
    """The response ends too early."""


@dataclass(frozen=True, slots=True)
class Head:
    status: int
    headers: Mapping[str, str]  # lower-case names; several of one name are joined with commas
    keep_alive: bool


def write_request(
    method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes | None = None
) -> bytes:
    """Adds Content-Length. Raises ValueError for anything that would not be exactly one request."""
    if _NAME.fullmatch(method) is None:
        raise ValueError(f"not a method: {method!r}")
    if re.fullmatch(r"/[!-~]*", target, re.ASCII) is None or "#" in target:
        raise ValueError(f"not a path: {target!r}")
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers:
        if _NAME.fullmatch(name) is None or not value.isascii() or _CONTROL.search(value):
            raise ValueError(f"invalid header {name!r}")  # without its value, which may be a secret
        lines.append(f"{name}: {value}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode("ascii") + (body or b"")


class _MessageState(Enum):
    HEAD = auto()
    LENGTH = auto()  # a body of a known length
    CLOSE = auto()  # a body that ends with the connection
    CHUNK_LINE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    DONE = auto()


class ResponseParser:
    """Parses one response as it arrives. `head` is set once it is complete."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self._at = _MessageState.HEAD
        self._buffer = bytearray()
        self._left = 0  # remaining bytes of the body or chunk
        self._lines: list[str] = []
        self._line_bytes = 0
        self._interim = 0

    @property
    def finished(self) -> bool:
        return self._at is _MessageState.DONE

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on the same connection."""
        return self.finished and self.head is not None and self.head.keep_alive and not self._buffer

    @property
    def body_bytes(self) -> int | None:
        """Remaining bytes of the body, if the head contains its length."""
        return self._left if self._at is _MessageState.LENGTH else None

    def feed(self, content: bytes) -> bytes:
        """Parse these bytes and return the part of the body in them. Raises MessageError."""
        buffer = self._buffer
        buffer += content
        body: list[bytes] = []
        position = 0
        while self._at is not _MessageState.DONE:
            before, at = position, self._at
            if at in (_MessageState.LENGTH, _MessageState.CHUNK, _MessageState.CLOSE):
                size = len(buffer) - position
                if at is not _MessageState.CLOSE:
                    size = min(size, self._left)
                    self._left -= size
                if size:
                    body.append(bytes(buffer[position : position + size]))
                    position += size
                if at is not _MessageState.CLOSE and not self._left:
                    self._at = _MessageState.DONE if at is _MessageState.LENGTH else _MessageState.CHUNK_END
            else:
                position = self._line(position)
            if position == before and self._at is at:
                break
        del buffer[:position]
        return body[0] if len(body) == 1 else b"".join(body)

    def close(self) -> None:
        """The connection was closed. Raises TruncatedMessage if the response is incomplete."""
        if self._at is _MessageState.CLOSE:
            self._at = _MessageState.DONE
        elif self._at is not _MessageState.DONE:
            raise TruncatedMessage("the connection was closed before the end of the response")

    def _line(self, position: int) -> int:
        """Parse one line if it is complete, and return the position after it."""
        buffer = self._buffer
        limit = (
            CHUNK_LINE_LIMIT
            if self._at in (_MessageState.CHUNK_LINE, _MessageState.CHUNK_END)
            else HEAD_LIMIT
        )
        limit -= self._line_bytes
        end = buffer.find(b"\n", position, position + limit)
        if end < 0:
            if len(buffer) - position >= limit:
                raise MessageError("a header or chunk line is too long")
            return position
        if end == position or buffer[end - 1] != 0x0D:
            raise MessageError("a line does not end with CR LF")
        line = bytes(buffer[position : end - 1])
        if self._at is _MessageState.CHUNK_LINE:
            self._chunk_line(line)
        elif self._at is _MessageState.CHUNK_END:
            if line:
                raise MessageError("a chunk is longer than its size")
            self._at = _MessageState.CHUNK_LINE
        else:
            self._line_bytes += end + 1 - position
            self._head_line(line)
        return end + 1

    def _head_line(self, line: bytes) -> None:
        if line:
            if len(self._lines) > FIELDS_LIMIT:
                raise MessageError(f"more than {FIELDS_LIMIT} header fields")
            self._lines.append(line.decode("latin-1"))
            if (
                len(self._lines) == 1
                and self._at is _MessageState.HEAD
                and not _STATUS_LINE.fullmatch(self._lines[0])
            ):
                raise MessageError("not an HTTP/1.1 response")
            return
        lines, self._lines, self._line_bytes = self._lines, [], 0
        if self._at is _MessageState.TRAILER:
            self._at = _MessageState.DONE
            return
        status_line = _STATUS_LINE.fullmatch(lines[0]) if lines else None
        if status_line is None:
            raise MessageError("not an HTTP/1.1 response")
        status = int(status_line[2])
        headers = _fields(lines[1:])
        if status == 101:
            raise MessageError("the server switches to another protocol")
        if status < 200:
            self._interim += 1
            if self._interim > _INTERIM_LIMIT:
                raise MessageError("too many interim responses")
            return
        self._begin(status, headers, minor=status_line[1])

    def _begin(self, status: int, headers: dict[str, str], *, minor: str) -> None:
        options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
        keep_alive = "close" not in options if minor == "1" else "keep-alive" in options
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None and length is not None:
            raise MessageError("both Content-Length and Transfer-Encoding are present")
        if status in (204, 304):
            self._at = _MessageState.DONE
        elif coding is not None:
            if coding.lower() != "chunked":
                raise MessageError(f"unsupported transfer coding: {coding}")
            self._at = _MessageState.CHUNK_LINE
        elif length is not None:
            # Some proxies repeat the field with the same value.
            values = {value.strip() for value in length.split(",")}
            if len(values) != 1 or not _DIGITS.fullmatch(value := values.pop()):
                raise MessageError("Content-Length is not a number")
            self._left = int(value)
            self._at = _MessageState.LENGTH if self._left else _MessageState.DONE
        else:
            self._at, keep_alive = _MessageState.CLOSE, False
        self.head = Head(status, headers, keep_alive)

    def _chunk_line(self, line: bytes) -> None:
        size = line.partition(b";")[0].strip(b" \t")
        if not _HEX.fullmatch(size):
            raise MessageError("a chunk has no size")
        self._left = int(size, 16)
        self._at = _MessageState.CHUNK if self._left else _MessageState.TRAILER


def _fields(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not colon or _NAME.fullmatch(name) is None or _CONTROL.search(value):
            raise MessageError("malformed header line")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
