"""The asyncio HTTP client: aiohttp with size limits, deadlines and one kind of error."""

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
from accelscope.fleet.api_server.route import ConnectionParameters
from accelscope.kube.errors import KubeError, Reason, error_for_response
from accelscope.kube.tls import tls_error_text


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status of success, or 304."""

    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes  # decompressed
    gzip: bytes | None = None  # the body as it came, where it came compressed in one piece


PIECE_BYTES = 64 << 10  # what is handed on at a time; decoding it takes about a millisecond
_GZIP = 16 + zlib.MAX_WBITS


class GzipDecoder:
    """gzip, never more than a piece at a time, whatever it grows to."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self.members = 1

    def feed(self, content: bytes) -> Iterator[bytes]:
        """Raises KubeError."""
        while content:
            if self._member.eof:  # several may follow each other
                self._member = zlib.decompressobj(_GZIP)
                self.members += 1
            try:
                piece = self._member.decompress(content, PIECE_BYTES)
            except zlib.error:
                raise KubeError(Reason.BAD_ANSWER, "the answer is not what it was compressed to") from None
            content = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if piece:
                yield piece

    def close(self) -> None:
        """Raises KubeError where the end is missing."""
        if not self._member.eof:
            raise KubeError(Reason.BAD_ANSWER, "the compressed answer ends in the middle")


class BodyReader:
    """Not decompressed by aiohttp, which would take a bomb for what it says. The limit holds for what comes
    and for what it grows to. Everything raises KubeError and what aiohttp raises."""

    def __init__(self, response: aiohttp.ClientResponse, limit_bytes: int | None) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            raise KubeError(Reason.BAD_ANSWER, "the answer is compressed in a way that was not asked for")
        self._content = response.content
        self._inflater = GzipDecoder() if encoding == "gzip" else None
        self._limit = limit_bytes
        self._check(response.content_length or 0)

    async def pieces(
        self, idle_seconds: float | None = None, wire: list[bytes] | None = None
    ) -> AsyncIterator[bytes]:
        """TimeoutError if nothing comes for that long. `wire` gets what came as it came."""
        came = grown = 0
        while True:
            async with asyncio.timeout(idle_seconds):
                received = await self._content.readany()
            if not received:
                break
            came += len(received)
            self._check(came)
            if wire is not None:
                wire.append(received)
            for piece in _cut(received) if self._inflater is None else self._inflater.feed(received):
                grown += len(piece)
                self._check(grown)
                yield piece
        if self._inflater is not None and came:  # 304 names the encoding of what it does not send
            self._inflater.close()

    async def whole(self) -> tuple[bytes, bytes | None]:
        """And, where it was compressed, as it came: if that is one member, which is all that `zlib` reads."""
        wire: list[bytes] = []
        parts: list[bytes] = []
        async for piece in self.pieces(wire=wire):
            parts.append(piece)
            if len(parts) > 1:
                await asyncio.sleep(0)  # others are to have their turn while a long one is decompressed
        single = self._inflater is not None and self._inflater.members == 1
        return b"".join(parts), b"".join(wire) if single else None

    def _check(self, size: int) -> None:
        if self._limit is not None and size > self._limit:
            raise KubeError(Reason.TOO_LARGE, f"the answer has more than {self._limit} bytes")


def _cut(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]


# What a request may end with beside an answer. ValueError: a URL or header that cannot be sent.
FAILURES = (aiohttp.ClientError, OSError, ValueError)


def explained(error: Exception, route: ConnectionParameters, url: str) -> KubeError:
    """`url` is that of the server."""
    if isinstance(error, KubeError):
        return error
    reason, told = next((reason, told) for kind, reason, told in _KINDS if isinstance(error, kind))
    return KubeError(reason, f"{url}: {told(error, route)}")


def _by(route: ConnectionParameters) -> str:
    return "" if route.proxy is None else f" by way of the proxy {shown_proxy(route.proxy)}"


def _not_trusted(error: Exception, route: ConnectionParameters) -> str:
    cause = getattr(error, "certificate_error", error)
    told = getattr(cause, "verify_message", None) or "it cannot be verified"
    by = route.authority or "the system's authorities"
    return f"the server's certificate is not trusted: {told} (CA: {by})"


def _tls(error: Exception, _: ConnectionParameters) -> str:
    cause = getattr(error, "os_error", error)
    return tls_error_text(cause) if isinstance(cause, ssl.SSLError) else "the TLS handshake failed"


def _not_connected(error: Exception, route: ConnectionParameters) -> str:
    cause = getattr(error, "os_error", error)
    return f"cannot connect{_by(route)}: {getattr(cause, 'strerror', None) or type(cause).__name__}"


# The first that fits counts. The texts of others than these repeat what was to be sent.
_KINDS: tuple[tuple[type[Exception], Reason, Callable[[Exception, ConnectionParameters], str]], ...] = (
    (TimeoutError, Reason.TIMEOUT, lambda _, route: f"no answer in time{_by(route)}"),
    (aiohttp.ClientConnectorCertificateError, Reason.TLS, _not_trusted),
    (ssl.SSLCertVerificationError, Reason.TLS, _not_trusted),
    (
        aiohttp.ClientConnectorDNSError,
        Reason.UNREACHABLE,
        lambda _, route: f"the host cannot be found{_by(route)}",
    ),
    (
        aiohttp.ClientHttpProxyError,
        Reason.UNREACHABLE,
        lambda error, route: f"refused with {getattr(error, 'status', 'an error')}{_by(route)}",
    ),
    (aiohttp.ClientSSLError, Reason.TLS, _tls),
    (ssl.SSLError, Reason.TLS, _tls),
    (aiohttp.ClientConnectorError, Reason.UNREACHABLE, _not_connected),
    (aiohttp.ClientResponseError, Reason.BAD_ANSWER, lambda *_: "what came is no HTTP answer"),
    (aiohttp.ClientPayloadError, Reason.UNREACHABLE, lambda *_: "the answer ends in the middle"),
    (aiohttp.ClientConnectionError, Reason.UNREACHABLE, lambda *_: "the connection ended without an answer"),
    (OSError, Reason.UNREACHABLE, _not_connected),
    (Exception, Reason.BAD_ANSWER, lambda error, _: f"the request failed ({type(error).__name__})"),
)


def shown_proxy(proxy: str) -> str:
    """Without user and password."""
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"


def masked(error: KubeError, secrets: tuple[str, ...]) -> KubeError:
    """The same, where a server repeated what we showed it."""
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
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0)  # each request has a time of its own beside
# Of what callers send: not to be shown, should a server repeat it.
_SECRET_HEADERS = frozenset({"authorization", "x-accelscope-token"})
# A peer that vanished without a word is noticed within a minute, also on a watch that is silent by itself.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


class Transport:
    """Everything raises KubeError only. Whoever waits for one of `connections` does so before the time of the
    request begins; watches and commands do not count among them."""

    def __init__(self, *, connections: int) -> None:
        self._slots = asyncio.Semaphore(connections)
        self._client: aiohttp.ClientSession | None = None
        self._closed = False

    async def fetch(
        self,
        method: str,
        route: ConnectionParameters,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        limit_bytes: int,
        timeout_seconds: float,
    ) -> Reply:
        """2xx and 304; any other status is a KubeError. Redirects are not followed: they would take the
        credentials along."""
        async with self._slots:
            try:
                async with asyncio.timeout(timeout_seconds):
                    response = await self._begun(method, route, url, headers, body)
                    try:
                        await _check(response, url)
                        content, gzip = b"", None
                        if response.status != _NOT_MODIFIED:  # which has no body, by HTTP
                            content, gzip = await BodyReader(response, limit_bytes).whole()
                    finally:
                        response.close()  # which lets go of nothing that was read to its end
            except (KubeError, *FAILURES) as error:
                raise _told(error, route, url, headers) from None
        fields = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status, fields, content, gzip)

    @asynccontextmanager
    async def stream(
        self,
        route: ConnectionParameters,
        url: str,
        *,
        headers: Mapping[str, str],
        begin_seconds: float,
        idle_seconds: float,
        limit_bytes: int | None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of an answer to GET while they come."""
        try:
            async with asyncio.timeout(begin_seconds):
                response = await self._begun("GET", route, url, headers, None)
                try:
                    await _check(response, url)
                    body = BodyReader(response, limit_bytes)
                except BaseException:
                    response.close()
                    raise
        except (KubeError, *FAILURES) as error:
            raise _told(error, route, url, {}) from None
        _keep_alive(response)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in body.pieces(idle_seconds):
                    yield piece
            except (KubeError, *FAILURES) as error:
                raise _told(error, route, url, {}) from None

        try:
            yield pieces()
        finally:
            response.close()  # what is left of it may never end

    @asynccontextmanager
    async def websocket(
        self,
        route: ConnectionParameters,
        url: str,
        *,
        protocols: tuple[str, ...],
        begin_seconds: float,
        limit_bytes: int,
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        handshake = _Handshake()
        async with aiohttp.ClientSession(
            connector=self._opened().connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=_TIMEOUT,
            trace_configs=[handshake.trace],
        ) as client:
            try:
                async with asyncio.timeout(begin_seconds):
                    connection = await client.ws_connect(
                        URL(url, encoded=True),
                        headers=_fields(route, {"Accept-Encoding": "identity"}),
                        protocols=protocols,
                        max_msg_size=limit_bytes,
                        timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                        ssl=route.tls or True,
                        server_hostname=route.tls_server_name,
                        proxy=route.proxy,
                    )
            except aiohttp.WSServerHandshakeError as error:
                raise _told(handshake.refusal(error, url), route, url, {}) from None
            except (KubeError, *FAILURES) as error:
                raise _told(error, route, url, {}) from None
            try:
                yield connection
            finally:
                # Its own timeout begins anew with each message, of which there may be no end.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await connection.close()

    async def close(self) -> None:
        self._closed = True
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _opened(self) -> aiohttp.ClientSession:
        """Made in the loop that uses it."""
        if self._closed:
            raise KubeError(Reason.UNREACHABLE, "the session is closed")
        if self._client is None:
            connector = aiohttp.TCPConnector(
                limit=0,
                ttl_dns_cache=30,
                keepalive_timeout=60.0,
                # Where asyncio itself ends TLS connections whose peer does not, aiohttp warns of this.
                enable_cleanup_closed=sys.version_info < (3, 12, 7),
            )
            self._client = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=_TIMEOUT,
            )
        return self._client

    async def _begun(
        self,
        method: str,
        route: ConnectionParameters,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> aiohttp.ClientResponse:
        fields = _fields(route, headers)
        if body is not None:
            fields.setdefault("Content-Type", "application/json")  # API servers take nothing else
        return await self._opened().request(
            method,
            URL(url, encoded=True),
            headers=fields,
            data=body,
            allow_redirects=False,
            ssl=route.tls or True,
            server_hostname=route.tls_server_name,
            proxy=route.proxy,
        )


class _Handshake:
    """aiohttp tells the status of a refused upgrade but not its body, which says why; a trace sees both."""

    def __init__(self) -> None:
        self.trace = aiohttp.TraceConfig()
        self.trace.on_request_end.append(self._answered)
        self._body = b""

    async def _answered(
        self, _: aiohttp.ClientSession, __: object, seen: aiohttp.TraceRequestEndParams
    ) -> None:
        if seen.response.status != _SWITCHING:
            self._body = await _refusal_body(seen.response)

    def refusal(self, error: aiohttp.WSServerHandshakeError, url: str) -> KubeError:
        fields = (
            {} if error.headers is None else {name.lower(): error.headers[name] for name in error.headers}
        )
        if error.status == _SWITCHING or 200 <= error.status < 400:
            offered = fields.get("upgrade", "something else")
            return KubeError(
                Reason.BAD_ANSWER,
                f"{_place(url)}: asked for WebSocket, the server speaks {offered[:40]} ({error.status}); "
                "does a proxy before it forbid WebSocket?",
            )
        return error_for_response(error.status, fields, self._body, url=_place(url))


async def _check(response: aiohttp.ClientResponse, url: str) -> None:
    """Raises what an answer that is no success means."""
    if 200 <= response.status < 300 or response.status == _NOT_MODIFIED:
        return
    fields = {name.lower(): value for name, value in response.headers.items()}
    raise error_for_response(response.status, fields, await _refusal_body(response), url=_place(url))


async def _refusal_body(response: aiohttp.ClientResponse) -> bytes:
    """What there is of it: its text is worth less than its status."""
    content = bytearray()
    with suppress(KubeError, *FAILURES):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            async for piece in BodyReader(response, _REFUSAL_BYTES).pieces():
                content += piece
    return bytes(content)


def _fields(route: ConnectionParameters, headers: Mapping[str, str]) -> CIMultiDict[str]:
    fields = CIMultiDict({"User-Agent": USER_AGENT, "Accept": "application/json"})
    fields["Accept-Encoding"] = "gzip" if route.compression else "identity"
    fields.update(headers)
    for name, value in route.credentials.headers:
        fields.add(name, value)
    return fields


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None and (sock := transport.get_extra_info("socket")) is not None:
        for option in _KEEPALIVE:
            sock.setsockopt(*option)


def _told(error: Exception, route: ConnectionParameters, url: str, headers: Mapping[str, str]) -> KubeError:
    place = _place(url)
    told = explained(error, route, place)
    if place not in told.text:
        told = KubeError(
            told.reason, f"{place}: {told.text}", retry_after=told.retry_after, status=told.status
        )
    secrets = [value for name, value in headers.items() if name.lower() in _SECRET_HEADERS]
    return masked(told, (*route.credentials.secrets, *secrets))


def _place(url: str) -> str:
    """The server, without path and query."""
    return str(URL(url, encoded=True).origin())
