"""Requests to an agent or a fleet: the blocking client's own connection, with an ETag's 304 as an answer."""

import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from accelscope.kube.connection import Connection
from accelscope.kube.endpoint import Endpoint, EndpointError, TokenFile, is_loopback
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.exchange import Exchange
from accelscope.kube.message import Head, write_request
from accelscope.kube.refusal import refusal

_REFUSAL_BYTES = 64 << 10
_MOST = 1 << 64  # no counter, size, time or measured value is beyond it
_MOST_DIGITS = 400  # of a whole number, before it is worth a look
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):[0-9]{1,5}(/[!-~]*)?")


class PlainEndpoint(Endpoint):
    """http to another machine, which an Endpoint refuses since a token would travel unencrypted: so it shows
    none. Agents in a cluster serve plain http unless they are told otherwise."""

    def __post_init__(self) -> None:
        try:
            checked = Endpoint("https" + self.url[self.url.index(":") :])
        except EndpointError as error:
            raise EndpointError(str(error).replace("https:", "http:", 1)) from None
        if self.token_file is not None or self.client_certificate is not None:
            raise EndpointError(f"{self.url}: a token is not sent over http to another machine; use https")
        port = urlsplit(self.url).port or 80
        for name, value in (
            ("secure", False),
            ("host", checked.host),
            ("port", port),
            ("base_path", checked.base_path),
        ):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What is shown to a server, and what it must show."""

    token_file: str | None = None
    ca_file: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    insecure: bool = False


def endpoint_of(url: str, credentials: Credentials) -> Endpoint:
    """A host and port alone are taken as http. Raises EndpointError, which says what is wrong."""
    if _HOST_AND_PORT.fullmatch(url) is not None and "@" not in url:
        url = f"http://{url}"
    scheme, host = "", ""
    with suppress(ValueError):  # an Endpoint says what is wrong, without what may be a password in it
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname or ""
    if _can_be_told(url):
        if scheme not in ("http", "https") or not host:
            raise EndpointError(f"{url}: not a URL; write http://HOST:PORT or https://HOST:PORT")
        if not _has_good_port(url):
            raise EndpointError(f"{url}: the port is not a whole number up to 65535")
    made = PlainEndpoint if scheme == "http" and not is_loopback(host) else Endpoint
    secure = scheme == "https"
    return made(
        url,
        token_file=credentials.token_file,
        ca_file=credentials.ca_file if secure else None,
        client_certificate=credentials.client_certificate if secure else None,
        client_key=credentials.client_key if secure else None,
        skip_tls_verify=credentials.insecure and secure,
    )


def _has_good_port(url: str) -> bool:
    try:
        urlsplit(url).port  # noqa: B018 - it is checked where it is read
    except ValueError:
        return False
    return True


def _can_be_told(url: str) -> bool:
    """Without what may be a password, a query, or more than a line."""
    return url.isascii() and url.isprintable() and not set(url) & set("@?# ")


@dataclass(frozen=True, slots=True)
class Answer:
    head: Head
    document: Any

    @property
    def unchanged(self) -> bool:
        """What was known is still so; there is no document."""
        return self.head.status == 304


def decoded(body: bytes) -> Any:
    """The JSON document, of numbers with which one can reckon. Raises ValueError, whose text says why not."""
    try:
        return json.loads(body, parse_float=_float, parse_int=_int, parse_constant=_constant)
    except _NumberError:
        raise
    except (ValueError, RecursionError):
        raise ValueError("the answer is not JSON") from None


class _NumberError(ValueError):
    def __init__(self, text: str) -> None:
        super().__init__(f"the answer has a number that cannot be: {text[:20]}")


def _float(text: str) -> float:
    value = float(text)
    if not -_MOST <= value <= _MOST:
        raise _NumberError(text)
    return value


def _int(text: str) -> int:
    if len(text) > _MOST_DIGITS or not -_MOST <= (value := int(text)) <= _MOST:
        raise _NumberError(text)
    return value


def _constant(text: str) -> float:
    raise _NumberError(text)


class Asker:
    """One kept connection. For one thread."""

    def __init__(self, endpoint: Endpoint, *, timeout_seconds: float, limit_bytes: int) -> None:
        self.endpoint = endpoint
        self._timeout = timeout_seconds
        self._limit = limit_bytes
        self._token = TokenFile(endpoint.token_file) if endpoint.token_file is not None else None
        self._trust = None
        if endpoint.secure:
            from accelscope.kube.tls import Trust  # noqa: PLC0415 - brings ssl

            self._trust = Trust(endpoint)
        self._rests: Connection | None = None

    def get(self, path: str, tag: str | None = None) -> Answer:
        """The JSON document, unless the server still has what `tag` names. Raises KubeError."""
        deadline = time.monotonic() + self._timeout
        request, token = self._request(path, tag)
        rested, self._rests = self._rests, None
        renewed = self._trust is not None and self._trust.refresh()
        if rested is not None:
            if not renewed and rested.usable():
                exchange = Exchange(rested, self.endpoint.url)
                try:
                    return self._answer(rested, exchange, request, token, deadline)
                except KubeError as error:
                    if exchange.answered or error.reason is not Reason.UNREACHABLE:
                        raise
            rested.close()
        connection = Connection(self.endpoint, self._trust)
        try:
            connection.open(deadline)
        except KubeError:
            connection.close()
            raise
        return self._answer(connection, Exchange(connection, self.endpoint.url), request, token, deadline)

    def close(self) -> None:
        rested, self._rests = self._rests, None
        if rested is not None:
            rested.close()

    def _request(self, path: str, tag: str | None) -> tuple[bytes, str | None]:
        headers = [
            ("Host", self.endpoint.authority),
            ("User-Agent", "accelscope-top"),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
        ]
        token = self._token.read() if self._token is not None else None
        if token is not None:
            headers.append(("Authorization", f"Bearer {token}"))
        if tag is not None and tag.isascii() and tag.isprintable():
            headers.append(("If-None-Match", tag))
        return write_request("GET", self.endpoint.base_path + path, headers), token

    def _answer(
        self, connection: Connection, exchange: Exchange, request: bytes, token: str | None, deadline: float
    ) -> Answer:
        kept = False
        try:
            head = exchange.begin(request, deadline)
            if head.status not in (200, 304):
                raise self._refused(exchange, head, token, deadline)
            body = b"".join(exchange.pieces(deadline, self._limit))
            if exchange.reusable:
                self._rests, kept = connection, True
        finally:
            if not kept:
                connection.close()
        return Answer(head, None if head.status == 304 else self._decoded(body))

    def _decoded(self, body: bytes) -> Any:
        try:
            return decoded(body)
        except ValueError as error:
            raise KubeError(Reason.BAD_ANSWER, f"{self.endpoint.url}: {error}") from None

    def _refused(self, exchange: Exchange, head: Head, token: str | None, deadline: float) -> KubeError:
        body = bytearray()
        try:
            for piece in exchange.pieces(deadline, _REFUSAL_BYTES):
                body += piece
        except KubeError:
            pass  # cut off or too long: what there is of it will do
        return refusal(head.status, head.headers, bytes(body), url=self.endpoint.url, secret=token)
