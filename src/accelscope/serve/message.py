"""Requests and responses of HTTP/1.1 as bytes: no sockets here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from accelscope.serve.negotiation import choose_encoding

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
    certified: bool = False  # the client showed a certificate that the client CA signed


@dataclass(frozen=True, slots=True)
class Response:
    """An answer whose bytes are ready. `bodies` are the same content by coding: `identity` always, `gzip` and
    others where they were made; the client's Accept-Encoding decides which is sent."""

    bodies: Mapping[str, bytes]
    status: int = 200
    content_type: str = PLAIN_TEXT
    headers: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for text in (self.content_type, *(part for header in self.headers for part in header)):
            if "\r" in text or "\n" in text:
                raise ValueError("a header with a line break")

    @classmethod
    def not_modified(cls, *headers: tuple[str, str]) -> "Response":
        return cls({"identity": b""}, 304, headers=headers)

    @classmethod
    def text(cls, status: int, text: str, *headers: tuple[str, str]) -> "Response":
        """A short plain answer; a newline is added."""
        return cls({"identity": f"{text}\n".encode()}, status, headers=headers)

    def encode(self, request: Request | None, *, close: bool) -> tuple[bytes, bytes]:
        """Head and body to send. Without a request (one that could not be read) the plain form is sent."""
        coding = "identity"
        if request is not None and len(self.bodies) > 1:
            coding = choose_encoding(request.headers.get("accept-encoding"), self.bodies)
        body = self.bodies[coding]
        lines = [f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Status')}"]
        if self.status != 304:  # which has no content: what is said of it would be said of what is not sent
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


class Refusal(Exception):
    """A request that cannot be served; the connection ends with this answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.response = Response.text(status, text)


@dataclass(frozen=True, slots=True)
class Head:
    """A request's head as parsed: the request, and what the connection must know about it."""

    request: Request
    keep_alive: bool
    body_bytes: int


_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110's word for a name
_REQUEST_LINE = re.compile(rf"({_TOKEN}) (\S+) HTTP/([0-9])\.([0-9])", re.ASCII)
_NAME = re.compile(_TOKEN, re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_TARGET = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*)?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.ASCII)

_FIELDS_LIMIT = 100


def parse_head(head: bytes, *, peer: str = "", certified: bool = False) -> Head:
    """Parse everything before the empty line. Raises Refusal."""
    first, *lines = head.decode("latin-1").split("\n")
    line = _REQUEST_LINE.fullmatch(first.removesuffix("\r"))
    if line is None:
        raise Refusal(400, "this is not an HTTP request")
    method, target, major, minor = line.groups()
    if major != "1":
        raise Refusal(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
    headers = _fields(lines)
    if minor != "0" and "host" not in headers:
        raise Refusal(400, "a Host header is missing")
    path, query = _split_target(target)
    wants = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    request = Request(method, path, query, headers, peer, certified)
    return Head(request, keep_alive=minor != "0" and "close" not in wants, body_bytes=_body_bytes(headers))


def _fields(lines: list[str]) -> dict[str, str]:
    if len(lines) > _FIELDS_LIMIT:
        raise Refusal(431, f"more than {_FIELDS_LIMIT} header fields")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.removesuffix("\r").partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not colon or _NAME.fullmatch(name) is None or _CONTROL.search(value):
            raise Refusal(400, "a header line is malformed")
        if name in headers:
            if name in ("host", "content-length"):
                raise Refusal(400, f"{name} is given twice")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def _split_target(target: str) -> tuple[str, str]:
    parts = _TARGET.fullmatch(target)
    if parts is None:
        raise Refusal(400, "the request target is malformed")
    try:
        path = unquote(parts[1] or "/", errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "the path is not UTF-8") from None
    if not path.isprintable():
        raise Refusal(400, "the path has control characters")
    return path, parts[2] or ""


def _body_bytes(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length")
    if "transfer-encoding" in headers:
        if length is not None:
            raise Refusal(400, "both Content-Length and Transfer-Encoding are given")
        raise Refusal(411, "bodies without a Content-Length are not taken")
    if length is None:
        return 0
    if not re.fullmatch(r"[0-9]{1,18}", length, re.ASCII):
        raise Refusal(400, "Content-Length is not a number")
    return int(length)
