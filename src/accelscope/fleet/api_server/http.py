"""The asyncio HTTP client: aiohttp with size limits, deadlines and KubeError as the only error."""

import asyncio
import socket
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from accelscope import __version__
from accelscope.fleet.api_server.connection import ConnectionParameters
from accelscope.kube.endpoint import KubeError, Reason, error_for_response
from accelscope.kube.tls import tls_error_text


@dataclass(frozen=True, slots=True)
class Reply:
    """A response with status 2xx or 304."""

    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes  # decompressed
    gzip: bytes | None = None  # the compressed body as received, if it is a single gzip member


PIECE_BYTES = 64 << 10  # processed at a time; decoding it takes about a millisecond
_GZIP = 16 + zlib.MAX_WBITS


class GzipDecoder:
    """Decompresses gzip in pieces of bounded size."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self.members = 1

    def feed(self, content: bytes) -> Iterator[bytes]:
        """Raises KubeError."""
        while content:
            if self._member.eof:  # gzip allows several members
                self._member = zlib.decompressobj(_GZIP)
                self.members += 1
            try:
                piece = self._member.decompress(content, PIECE_BYTES)
            except zlib.error:
                raise KubeError(Reason.BAD_ANSWER, "the response is not valid gzip") from None
            content = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if piece:
                yield piece

    def close(self) -> None:
        """Raises KubeError if the data is incomplete."""
        if not self._member.eof:
            raise KubeError(Reason.BAD_ANSWER, "the compressed response is incomplete")


class BodyReader:
    """Reads a body with a size limit for the received and for the decompressed bytes. It decompresses itself,
    because aiohttp has no limit (zip bombs). Methods raise KubeError and the errors of aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse, limit_bytes: int | None) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            raise KubeError(Reason.BAD_ANSWER, "the response has an unsupported Content-Encoding")
        self._content = response.content
        self._decoder = GzipDecoder() if encoding == "gzip" else None
        self._limit = limit_bytes
        self._check(response.content_length or 0)

    async def pieces(
        self, idle_seconds: float | None = None, wire: list[bytes] | None = None
    ) -> AsyncIterator[bytes]:
        """Raises TimeoutError if nothing is received for `idle_seconds`. Received bytes are appended to
        `wire`."""
        received_bytes = decoded_bytes = 0
        while True:
            async with asyncio.timeout(idle_seconds):
                received = await self._content.readany()
            if not received:
                break
            received_bytes += len(received)
            self._check(received_bytes)
            if wire is not None:
                wire.append(received)
            for piece in _split(received) if self._decoder is None else self._decoder.feed(received):
                decoded_bytes += len(piece)
                self._check(decoded_bytes)
                yield piece
        if self._decoder is not None and received_bytes:  # 304 has the header but no body
            self._decoder.close()

    async def whole(self) -> tuple[bytes, bytes | None]:
        """The decompressed body, and the gzip body if it has a single member (`zlib` reads only one)."""
        wire: list[bytes] = []
        parts: list[bytes] = []
        async for piece in self.pieces(wire=wire):
            parts.append(piece)
            if len(parts) > 1:
                await asyncio.sleep(0)  # lets other tasks run while a long body is decompressed
        single = self._decoder is not None and self._decoder.members == 1
        return b"".join(parts), b"".join(wire) if single else None

    def _check(self, size: int) -> None:
        if self._limit is not None and size > self._limit:
            raise KubeError(Reason.TOO_LARGE, f"the response is larger than {self._limit} bytes")


def _split(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]


# Errors of a request. ValueError: an invalid URL or header.
FAILURES = (aiohttp.ClientError, OSError, ValueError)


def to_kube_error(error: Exception, connection: ConnectionParameters, url: str) -> KubeError:
    """`url` is the URL of the server, without path."""
    if isinstance(error, KubeError):
        return error
    reason, describe = next((reason, text) for kind, reason, text in _KINDS if isinstance(error, kind))
    return KubeError(reason, f"{url}: {describe(error, connection)}")


def _via_proxy(connection: ConnectionParameters) -> str:
    return "" if connection.proxy is None else f" via proxy {redacted_proxy(connection.proxy)}"


def _not_trusted(error: Exception, connection: ConnectionParameters) -> str:
    cause = getattr(error, "certificate_error", error)
    detail = getattr(cause, "verify_message", None) or "it cannot be verified"
    authority = connection.authority or "system"
    return f"the server's certificate is not trusted: {detail} (CA: {authority})"


def _tls(error: Exception, _: ConnectionParameters) -> str:
    cause = getattr(error, "os_error", error)
    return tls_error_text(cause) if isinstance(cause, ssl.SSLError) else "the TLS handshake failed"


def _not_connected(error: Exception, connection: ConnectionParameters) -> str:
    cause = getattr(error, "os_error", error)
    text = getattr(cause, "strerror", None) or type(cause).__name__
    return f"cannot connect{_via_proxy(connection)}: {text}"


# The first match counts. The texts of other errors are not used: they may contain the request.
_KINDS: tuple[tuple[type[Exception], Reason, Callable[[Exception, ConnectionParameters], str]], ...] = (
    (TimeoutError, Reason.TIMEOUT, lambda _, connection: f"timeout{_via_proxy(connection)}"),
    (aiohttp.ClientConnectorCertificateError, Reason.TLS, _not_trusted),
    (ssl.SSLCertVerificationError, Reason.TLS, _not_trusted),
    (
        aiohttp.ClientConnectorDNSError,
        Reason.UNREACHABLE,
        lambda _, connection: f"host not found{_via_proxy(connection)}",
    ),
    (
        aiohttp.ClientHttpProxyError,
        Reason.UNREACHABLE,
        lambda error, connection: (
            f"the proxy responded with {getattr(error, 'status', 'an error')}{_via_proxy(connection)}"
        ),
    ),
    (aiohttp.ClientSSLError, Reason.TLS, _tls),
    (ssl.SSLError, Reason.TLS, _tls),
    (aiohttp.ClientConnectorError, Reason.UNREACHABLE, _not_connected),
    (aiohttp.ClientResponseError, Reason.BAD_ANSWER, lambda *_: "the response is not valid HTTP"),
    (aiohttp.ClientPayloadError, Reason.UNREACHABLE, lambda *_: "the response is incomplete"),
    (
        aiohttp.ClientConnectionError,
        Reason.UNREACHABLE,
        lambda *_: "the connection was closed without a response",
    ),
    (OSError, Reason.UNREACHABLE, _not_connected),
    (Exception, Reason.BAD_ANSWER, lambda error, _: f"the request failed ({type(error).__name__})"),
)


def redacted_proxy(proxy: str) -> str:
    """The URL of the proxy without user and password."""
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"


def masked(error: KubeError, secrets: tuple[str, ...]) -> KubeError:
    """The error with secrets replaced: a server may repeat what was sent."""
    text = error.text
    for secret in secrets:
        text = text.replace(secret, "[token]")
    if text == error.text:
        return error
    return KubeError(error.reason, text, retry_after=error.retry_after, status=error.status)


USER_AGENT = f"accelscope-fleet/{__version__}"
_REFUSAL_BYTES = 64 << 10  # a Status object is far smaller
_REFUSAL_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_SWITCHING, _NOT_MODIFIED = 101, 304
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0)  # each request also has its own timeout
# Headers of callers that are removed from error texts.
_SECRET_HEADERS = frozenset({"authorization", "x-accelscope-token"})
# A lost peer is noticed within a minute, even on an idle watch.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


class Transport:
    """Methods raise only KubeError. The timeout of a request begins when one of `connections` is free.
    Watches and commands are not limited by `connections`."""

    def __init__(self, *, connections: int) -> None:
        self._slots = asyncio.Semaphore(connections)
        self._client: aiohttp.ClientSession | None = None
        self._closed = False

    async def fetch(
        self,
        method: str,
        connection: ConnectionParameters,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        limit_bytes: int,
        timeout_seconds: float,
    ) -> Reply:
        """Returns 2xx and 304; any other status raises KubeError. Redirects are not followed, because they
        would receive the credentials."""
        async with self._slots:
            try:
                async with asyncio.timeout(timeout_seconds):
                    response = await self._request(method, connection, url, headers, body)
                    try:
                        await _check(response, url)
                        content, gzip = b"", None
                        if response.status != _NOT_MODIFIED:  # has no body
                            content, gzip = await BodyReader(response, limit_bytes).whole()
                    finally:
                        response.close()  # no effect if the body was read completely
            except (KubeError, *FAILURES) as error:
                raise _masked_error(error, connection, url, headers) from None
        fields = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status, fields, content, gzip)

    @asynccontextmanager
    async def stream(
        self,
        connection: ConnectionParameters,
        url: str,
        *,
        headers: Mapping[str, str],
        begin_seconds: float,
        idle_seconds: float,
        limit_bytes: int | None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of a GET response in pieces, as they arrive."""
        try:
            async with asyncio.timeout(begin_seconds):
                response = await self._request("GET", connection, url, headers, None)
                try:
                    await _check(response, url)
                    body = BodyReader(response, limit_bytes)
                except BaseException:
                    response.close()
                    raise
        except (KubeError, *FAILURES) as error:
            raise _masked_error(error, connection, url, {}) from None
        _keep_alive(response)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in body.pieces(idle_seconds):
                    yield piece
            except (KubeError, *FAILURES) as error:
                raise _masked_error(error, connection, url, {}) from None

        try:
            yield pieces()
        finally:
            response.close()  # the rest may never end

    @asynccontextmanager
    async def websocket(
        self,
        connection: ConnectionParameters,
        url: str,
        *,
        protocols: tuple[str, ...],
        begin_seconds: float,
        limit_bytes: int,
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        handshake = _Handshake()
        async with aiohttp.ClientSession(
            connector=self._session().connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=_TIMEOUT,
            trace_configs=[handshake.trace],
        ) as client:
            try:
                async with asyncio.timeout(begin_seconds):
                    websocket = await client.ws_connect(
                        URL(url, encoded=True),
                        headers=_fields(connection, {"Accept-Encoding": "identity"}),
                        protocols=protocols,
                        max_msg_size=limit_bytes,
                        timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                        ssl=connection.tls or True,
                        server_hostname=connection.tls_server_name,
                        proxy=connection.proxy,
                    )
            except aiohttp.WSServerHandshakeError as error:
                raise _masked_error(handshake.refusal(error, url), connection, url, {}) from None
            except (KubeError, *FAILURES) as error:
                raise _masked_error(error, connection, url, {}) from None
            try:
                yield websocket
            finally:
                # The timeout of `close` restarts with each message.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await websocket.close()

    async def close(self) -> None:
        self._closed = True
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _session(self) -> aiohttp.ClientSession:
        """Created on first use, in the running loop."""
        if self._closed:
            raise KubeError(Reason.UNREACHABLE, "the session is closed")
        if self._client is None:
            connector = aiohttp.TCPConnector(
                limit=0,
                ttl_dns_cache=30,
                keepalive_timeout=60.0,
                # Newer versions of asyncio close such connections themselves, and aiohttp warns about it.
                enable_cleanup_closed=sys.version_info < (3, 12, 7),
            )
            self._client = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=_TIMEOUT,
            )
        return self._client

    async def _request(
        self,
        method: str,
        connection: ConnectionParameters,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> aiohttp.ClientResponse:
        fields = _fields(connection, headers)
        if body is not None:
            fields.setdefault("Content-Type", "application/json")  # required by API servers
        return await self._session().request(
            method,
            URL(url, encoded=True),
            headers=fields,
            data=body,
            allow_redirects=False,
            ssl=connection.tls or True,
            server_hostname=connection.tls_server_name,
            proxy=connection.proxy,
        )


class _Handshake:
    """Records the body of a rejected upgrade, which aiohttp does not return with the error."""

    def __init__(self) -> None:
        self.trace = aiohttp.TraceConfig()
        self.trace.on_request_end.append(self._on_request_end)
        self._body = b""

    async def _on_request_end(
        self, _: aiohttp.ClientSession, __: object, end: aiohttp.TraceRequestEndParams
    ) -> None:
        if end.response.status != _SWITCHING:
            self._body = await _refusal_body(end.response)

    def refusal(self, error: aiohttp.WSServerHandshakeError, url: str) -> KubeError:
        fields = (
            {} if error.headers is None else {name.lower(): error.headers[name] for name in error.headers}
        )
        if error.status == _SWITCHING or 200 <= error.status < 400:
            offered = fields.get("upgrade", "something else")
            return KubeError(
                Reason.BAD_ANSWER,
                f"{_origin(url)}: WebSocket expected, the server offers {offered[:40]} ({error.status}); "
                "check that proxies allow WebSocket",
            )
        return error_for_response(error.status, fields, self._body, url=_origin(url))


async def _check(response: aiohttp.ClientResponse, url: str) -> None:
    """Raises KubeError unless the status is 2xx or 304."""
    if 200 <= response.status < 300 or response.status == _NOT_MODIFIED:
        return
    fields = {name.lower(): value for name, value in response.headers.items()}
    raise error_for_response(response.status, fields, await _refusal_body(response), url=_origin(url))


async def _refusal_body(response: aiohttp.ClientResponse) -> bytes:
    """The body as far as it can be read; errors are ignored, since the status matters more."""
    content = bytearray()
    with suppress(KubeError, *FAILURES):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            async for piece in BodyReader(response, _REFUSAL_BYTES).pieces():
                content += piece
    return bytes(content)


def _fields(connection: ConnectionParameters, headers: Mapping[str, str]) -> CIMultiDict[str]:
    fields = CIMultiDict({"User-Agent": USER_AGENT, "Accept": "application/json"})
    fields["Accept-Encoding"] = "gzip" if connection.compression else "identity"
    fields.update(headers)
    for name, value in connection.credentials.headers:
        fields.add(name, value)
    return fields


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None and (sock := transport.get_extra_info("socket")) is not None:
        for option in _KEEPALIVE:
            sock.setsockopt(*option)


def _masked_error(
    error: Exception, connection: ConnectionParameters, url: str, headers: Mapping[str, str]
) -> KubeError:
    origin = _origin(url)
    kube_error = to_kube_error(error, connection, origin)
    if origin not in kube_error.text:
        kube_error = KubeError(
            kube_error.reason,
            f"{origin}: {kube_error.text}",
            retry_after=kube_error.retry_after,
            status=kube_error.status,
        )
    secrets = [value for name, value in headers.items() if name.lower() in _SECRET_HEADERS]
    return masked(kube_error, (*connection.credentials.secrets, *secrets))


def _origin(url: str) -> str:
    """The URL of the server, without path and query."""
    return str(URL(url, encoded=True).origin())
