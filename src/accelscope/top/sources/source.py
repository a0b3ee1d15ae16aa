"""Sources of views, and their HTTP client for JSON documents."""

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, EndpointError, KubeError, Reason
from accelscope.top.view.model import Overview, Sums, View, ViewKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to read from a fleet. Other sources return all their nodes."""

    node: tuple[str, str] | None = None  # cluster and node; None: the overview
    cluster: str | None = None  # in the overview, nodes of this cluster only
    sort: str = ""  # order of the nodes, in the syntax of the fleet's API; empty: the default
    text: str = ""  # filter of the nodes
    page: int = 0


class ViewSource(Protocol):
    """`read` is called by one thread and may block until its timeout."""

    kind: ViewKind
    title: str

    def start(self) -> None: ...

    def read(self, query: Query) -> View:
        """The current view. Problems of the other side are in the view, not exceptions."""

    def settle(self) -> None:
        """Before a single `read`: wait for values that need two readings or arrive later."""

    def hurry(self, interval_seconds: float) -> None:
        """Set the interval between calls of `read`."""

    def refresh(self) -> None:
        """The next `read` must not return cached values."""

    def stop(self) -> None: ...


def read_view(source: ViewSource, query: Query) -> View:
    """The view of the source, or a view with the error if it raises."""
    try:
        return source.read(query)
    except Exception as fault:  # noqa: BLE001 - shown to the user
        overview = query.node is None and source.kind is ViewKind.FLEET
        return View(
            kind=source.kind,
            title=source.title,
            at=time.time(),
            overview=Overview(sums=Sums()) if overview else None,
            error=f"unexpected error: {type(fault).__name__}: {fault}",
        )


# --- HTTP client

_NUMBER_LIMIT = 1 << 64  # no counter, size, time or measured value is larger
_DIGITS_LIMIT = 400  # longer integers are not converted
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):[0-9]{1,5}(/[!-~]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials of the client, and how it verifies servers."""

    token_file: str | None = None
    ca_file: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    insecure: bool = False


def endpoint_of(url: str, credentials: Credentials) -> Endpoint:
    """HOST:PORT without a scheme means http. Raises EndpointError."""
    if _HOST_AND_PORT.fullmatch(url) is not None and "@" not in url:
        url = f"http://{url}"
    scheme, host = "", ""
    with suppress(ValueError):  # Endpoint raises an error that contains no password
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname or ""
    if _is_printable(url):
        if scheme not in ("http", "https") or not host:
            raise EndpointError(f"{url}: not a URL; use http://HOST:PORT or https://HOST:PORT")
        if not _has_valid_port(url):
            raise EndpointError(f"{url}: the port is not a whole number up to 65535")
    secure = scheme == "https"
    return Endpoint(
        url,
        token_file=credentials.token_file,
        ca_file=credentials.ca_file if secure else None,
        client_certificate=credentials.client_certificate if secure else None,
        client_key=credentials.client_key if secure else None,
        skip_tls_verify=credentials.insecure and secure,
        allow_http=True,  # agents in a cluster use http by default
    )


def _has_valid_port(url: str) -> bool:
    try:
        urlsplit(url).port  # noqa: B018 - the property raises
    except ValueError:
        return False
    return True


def _is_printable(url: str) -> bool:
    """Whether the URL can be in an error: it contains no password, no query and no line break."""
    return url.isascii() and url.isprintable() and not set(url) & set("@?# ")


@dataclass(frozen=True, slots=True)
class JsonResponse:
    headers: Mapping[str, str]  # lower-case names
    document: Any = None
    unchanged: bool = False  # the document still has the ETag that was sent


def decode_json(body: bytes) -> Any:
    """The JSON document, without NaN and huge numbers. Raises ValueError."""
    try:
        return json.loads(body, parse_float=_float, parse_int=_int, parse_constant=_constant)
    except _NumberError:
        raise
    except (ValueError, RecursionError):
        raise ValueError("the response is not JSON") from None


class _NumberError(ValueError):
    def __init__(self, text: str) -> None:
        super().__init__(f"the response contains an invalid number: {text[:20]}")


def _float(text: str) -> float:
    value = float(text)
    if not -_NUMBER_LIMIT <= value <= _NUMBER_LIMIT:
        raise _NumberError(text)
    return value


def _int(text: str) -> int:
    if len(text) > _DIGITS_LIMIT or not -_NUMBER_LIMIT <= (value := int(text)) <= _NUMBER_LIMIT:
        raise _NumberError(text)
    return value


def _constant(text: str) -> float:
    raise _NumberError(text)


class JsonClient:
    """Gets JSON documents of an agent or a fleet. Not thread-safe."""

    def __init__(self, endpoint: Endpoint, *, timeout_seconds: float, limit_bytes: int) -> None:
        self._client = Client(endpoint, timeout_seconds=timeout_seconds, user_agent="accelscope-top")
        self._limit = limit_bytes

    def get(self, path: str, tag: str | None = None) -> JsonResponse:
        """The JSON document, unless it still has the ETag `tag`. Raises KubeError."""
        etag = tag if tag is not None and tag.isascii() and tag.isprintable() else None
        response = self._client.request("GET", path, etag=etag, limit_bytes=self._limit)
        if response.status == 304:
            return JsonResponse(response.headers, unchanged=True)
        try:
            return JsonResponse(response.headers, decode_json(response.body))
        except ValueError as error:
            raise KubeError(Reason.BAD_ANSWER, f"{self._client.endpoint.url}: {error}") from None

    def close(self) -> None:
        self._client.close()


def is_fleet(client: JsonClient) -> bool:
    """Whether the server is a fleet, for an error that says so."""
    return _has_key(client, "/api/v1/version", "snapshot_schema")


def is_agent(client: JsonClient) -> bool:
    return _has_key(client, "/snapshot", "schema_version")


def _has_key(client: JsonClient, path: str, key: str) -> bool:
    try:
        found = client.get(path).document
    except KubeError:
        return False
    return isinstance(found, Mapping) and key in found
