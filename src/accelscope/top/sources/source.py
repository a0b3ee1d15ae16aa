"""What every source of views is."""

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, EndpointError
from accelscope.kube.errors import KubeError, Reason
from accelscope.top.view.shown import Kind, Overview, Sums, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is looked at. Sources of few nodes give all they have; a fleet gives what is asked for."""

    node: tuple[str, str] | None = None  # cluster and node; None: the overview
    cluster: str | None = None  # of the overview: nodes of this cluster only
    sort: str = ""  # of the overview's nodes, as the fleet's API spells it; empty: what matters first
    text: str = ""  # that is found in a node
    page: int = 0


class Source(Protocol):
    """`read` is called by one thread, which it may keep waiting for as long as its timeouts say."""

    kind: Kind
    title: str

    def start(self) -> None: ...

    def read(self, question: Question) -> View:
        """What is known now. Never raises for what is wrong at the other end: the view says it."""

    def settle(self) -> None:
        """For those who look once: wait, within reason, for what needs two readings or comes later."""

    def hurry(self, interval_seconds: float) -> None:
        """How often `read` will be called."""

    def refresh(self) -> None:
        """The next `read` is to tell what is so now: what was known before is not enough."""

    def stop(self) -> None: ...


def look(source: Source, question: Question) -> View:
    """What the source reads; where that fails by a fault of ours, a view that says so. The next one may be
    well again."""
    try:
        return source.read(question)
    except Exception as fault:  # noqa: BLE001 - it is shown, and costs this view only
        overview = question.node is None and source.kind is Kind.FLEET
        return View(
            kind=source.kind,
            title=source.title,
            at=time.time(),
            overview=Overview(sums=Sums()) if overview else None,
            error=f"a fault of accelscope top itself: {type(fault).__name__}: {fault}",
        )


# --- client ------------------------------------------------------------
# JSON documents of an agent or a fleet over the blocking HTTP client.


_MOST = 1 << 64  # no counter, size, time or measured value is larger
_MOST_DIGITS = 400  # of an integer; a longer one is not converted
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):[0-9]{1,5}(/[!-~]*)?")


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
    secure = scheme == "https"
    return Endpoint(
        url,
        token_file=credentials.token_file,
        ca_file=credentials.ca_file if secure else None,
        client_certificate=credentials.client_certificate if secure else None,
        client_key=credentials.client_key if secure else None,
        skip_tls_verify=credentials.insecure and secure,
        allow_http=True,  # agents in a cluster serve plain http unless they are configured otherwise
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
    headers: Mapping[str, str]  # lower-case names
    document: Any = None
    unchanged: bool = False  # the document is still the one that the sent tag names, and is not repeated


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


class JsonClient:
    """Gets JSON documents of an agent or a fleet. For one thread."""

    def __init__(self, endpoint: Endpoint, *, timeout_seconds: float, limit_bytes: int) -> None:
        self._client = Client(endpoint, timeout_seconds=timeout_seconds, user_agent="accelscope-top")
        self._limit = limit_bytes

    def get(self, path: str, tag: str | None = None) -> Answer:
        """The JSON document, unless the server still has what `tag` names. Raises KubeError."""
        etag = tag if tag is not None and tag.isascii() and tag.isprintable() else None
        answer = self._client.request("GET", path, etag=etag, limit_bytes=self._limit)
        if answer.status == 304:
            return Answer(answer.headers, unchanged=True)
        try:
            return Answer(answer.headers, decoded(answer.body))
        except ValueError as error:
            raise KubeError(Reason.BAD_ANSWER, f"{self._client.endpoint.url}: {error}") from None

    def close(self) -> None:
        self._client.close()


def is_fleet(client: JsonClient) -> bool:
    """Whether a fleet answers at this URL: for users who gave the URL of the other kind of server."""
    return _has_key(client, "/api/v1/version", "snapshot_schema")


def is_agent(client: JsonClient) -> bool:
    return _has_key(client, "/snapshot", "schema_version")


def _has_key(client: JsonClient, path: str, key: str) -> bool:
    try:
        found = client.get(path).document
    except KubeError:
        return False
    return isinstance(found, Mapping) and key in found
