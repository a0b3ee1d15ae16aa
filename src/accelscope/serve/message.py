"""HTTP/1.1 requests and responses as bytes, with content negotiation and without I/O."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote


class ServeError(Exception):
    """The server cannot start, or cannot load new files. The text is one line."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for each client."""

    line_bytes: int = 8 * 1024  # request line
    head_bytes: int = 16 * 1024  # request line and header fields
    body_bytes: int = 4 * 1024  # no route uses a body; a small one is read and ignored
    head_seconds: float = 5.0  # for the handshake, and for the head from its first byte
    deferred_seconds: float = 10.0  # for a response from another thread
    response_seconds: float = 30.0  # for sending the whole response
    idle_seconds: float = 120.0  # between requests
    linger_seconds: float = 1.0  # after the last response, for the client to read it and close
    slow_seconds: float = 1.0  # slower requests and responses may be dropped if the server is full
    connections: int = 256


# --- content negotiation: Accept and Accept-Encoding with q-values (RFC 9110, 12)


def accepts(header: str | None, candidates: Sequence[str]) -> str | None:
    """The media type that the client prefers; None if it accepts none of them.

    Candidates are full types such as `text/plain; version=0.0.4` in the server's order of preference, which
    decides ties and is used without a header. Parameters that both sides have must be equal; others such as
    `charset` and `escaping` are ignored.
    """
    ranges = [_media_range(*each) for each in _weighted(header or "")]
    if not ranges:
        return candidates[0] if candidates else None
    best: str | None = None
    best_quality = 0.0
    for candidate in candidates:
        quality = _quality(candidate, ranges)
        if quality > best_quality:
            best, best_quality = candidate, quality
    return best


def choose_encoding(header: str | None, available: Collection[str]) -> str:
    """The encoding to send; `identity` unless the client accepts another available one."""
    weights = {coding: quality for coding, _, quality in _weighted(header or "")}
    wildcard = weights.get("*", 0.0)
    best = "identity"
    best_quality = weights.get("identity", 0.0)
    for coding in available:
        quality = weights.get(coding, 0.0 if coding == "identity" else wildcard)
        # Prefer compression at equal quality.
        if coding != "identity" and quality > 0 and quality >= best_quality:
            best, best_quality = coding, quality
    return best


def _weighted(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Elements of a list header: lower-case value, parameters, quality. Invalid elements are ignored."""
    for element in header.split(","):
        value, *rest = (part.strip() for part in element.split(";"))
        parameters = {}
        quality = 1.0
        for part in rest:
            name, _, text = part.partition("=")
            if name.strip().lower() == "q":
                quality = _quality_value(text.strip())
                break  # what follows q is an extension, not a parameter of the type
            parameters[name.strip().lower()] = text.strip().strip('"').lower()
        if value:
            yield value.lower(), parameters, quality


def _quality_value(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return min(quality, 1.0) if quality > 0 else 0.0  # 0 for NaN


_MediaRange = tuple[str, str, dict[str, str], float]


def _media_range(value: str, parameters: dict[str, str], quality: float) -> _MediaRange:
    kind, _, subtype = value.partition("/")
    return kind, subtype, parameters, quality


def _quality(candidate: str, ranges: Sequence[_MediaRange]) -> float:
    """The quality of the most specific range that matches the candidate."""
    value, own, _ = next(_weighted(candidate))
    kind, _, subtype = value.partition("/")
    best = (-1, 0.0)
    for range_kind, range_subtype, parameters, quality in ranges:
        if range_kind not in ("*", kind) or range_subtype not in ("*", subtype):
            continue
        shared = [name for name in parameters if name in own]
        if any(parameters[name] != own[name] for name in shared):
            continue
        specificity = (range_kind != "*") + (range_subtype != "*") + len(shared)
        best = max(best, (specificity, quality))
    return best[1]


_REASONS = {
    200: "OK",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    414: "URI Too Long",
    417: "Expectation Failed",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}

PLAIN_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str  # decoded; never with control characters
    query: str  # as sent, without the question mark
    headers: Mapping[str, str]  # lower-case names; several of one name are joined with commas
    peer: str = ""  # address of the client
    certified: bool = False  # the client has a certificate signed by the client CA


@dataclass(frozen=True, slots=True)
class Response:
    """A response whose bytes are ready. `bodies` has the same content by encoding: always `identity`, and
    others such as `gzip`. The client's Accept-Encoding determines which is sent."""

    bodies: Mapping[str, bytes]
    status: int = 200
    content_type: str = PLAIN_TEXT
    headers: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for text in (self.content_type, *(part for header in self.headers for part in header)):
            if "\r" in text or "\n" in text:
                raise ValueError("header with a line break")

    @classmethod
    def not_modified(cls, *headers: tuple[str, str]) -> "Response":
        return cls({"identity": b""}, 304, headers=headers)

    @classmethod
    def text(cls, status: int, text: str, *headers: tuple[str, str]) -> "Response":
        """A short plain text; a newline is added."""
        return cls({"identity": f"{text}\n".encode()}, status, headers=headers)

    def encode(self, request: Request | None, *, close: bool) -> tuple[bytes, bytes]:
        """Head and body to send. `request` is None if it could not be parsed."""
        coding = "identity"
        if request is not None and len(self.bodies) > 1:
            coding = choose_encoding(request.headers.get("accept-encoding"), self.bodies)
        body = self.bodies[coding]
        lines = [f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Status')}"]
        if self.status != 304:  # which has no content
            lines += [f"Content-Type: {self.content_type}", f"Content-Length: {len(body)}"]
        if coding != "identity":
            lines.append(f"Content-Encoding: {coding}")
        if len(self.bodies) > 1:
            lines.append("Vary: Accept-Encoding")
        lines += [f"{name}: {value}" for name, value in self.headers]
        if close:
            lines.append("Connection: close")
        head = "\r\n".join(lines) + "\r\n\r\n"
        return head.encode("latin-1"), b"" if request is not None and request.method == "HEAD" else body


class RequestError(Exception):
    """An invalid request. The connection is closed after this response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.response = Response.text(status, text)


@dataclass(frozen=True, slots=True)
class Head:
    """The parsed head of a request."""

    request: Request
    keep_alive: bool
    body_bytes: int


_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - a name in RFC 9110
_REQUEST_LINE = re.compile(rf"({_TOKEN}) (\S+) HTTP/([0-9])\.([0-9])", re.ASCII)
_NAME = re.compile(_TOKEN, re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_TARGET = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*)?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.ASCII)

_FIELDS_LIMIT = 100


def parse_head(head: bytes, *, peer: str = "", certified: bool = False) -> Head:
    """Parse the head, without the empty line. Raises RequestError."""
    first, *lines = head.decode("latin-1").split("\n")
    line = _REQUEST_LINE.fullmatch(first.removesuffix("\r"))
    if line is None:
        raise RequestError(400, "not an HTTP request")
    method, target, major, minor = line.groups()
    if major != "1":
        raise RequestError(505, "only HTTP/1.1 and HTTP/1.0 are supported")
    headers = _fields(lines)
    if minor != "0" and "host" not in headers:
        raise RequestError(400, "missing Host header")
    path, query = _split_target(target)
    wants = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    request = Request(method, path, query, headers, peer, certified)
    return Head(request, keep_alive=minor != "0" and "close" not in wants, body_bytes=_body_bytes(headers))


def _fields(lines: list[str]) -> dict[str, str]:
    if len(lines) > _FIELDS_LIMIT:
        raise RequestError(431, f"more than {_FIELDS_LIMIT} header fields")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.removesuffix("\r").partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not colon or _NAME.fullmatch(name) is None or _CONTROL.search(value):
            raise RequestError(400, "malformed header line")
        if name in headers:
            if name in ("host", "content-length"):
                raise RequestError(400, f"duplicate {name} header")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def _split_target(target: str) -> tuple[str, str]:
    parts = _TARGET.fullmatch(target)
    if parts is None:
        raise RequestError(400, "malformed request target")
    try:
        path = unquote(parts[1] or "/", errors="strict")
    except UnicodeDecodeError:
        raise RequestError(400, "the path is not UTF-8") from None
    if not path.isprintable():
        raise RequestError(400, "the path contains control characters")
    return path, parts[2] or ""


def _body_bytes(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length")
    if "transfer-encoding" in headers:
        if length is not None:
            raise RequestError(400, "both Content-Length and Transfer-Encoding are present")
        raise RequestError(411, "Content-Length is required")
    if length is None:
        return 0
    if not re.fullmatch(r"[0-9]{1,18}", length, re.ASCII):
        raise RequestError(400, "Content-Length is not a number")
    return int(length)
