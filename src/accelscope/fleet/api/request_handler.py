"""Handles requests: limits, access, parameters, ETag, compression, problems.

The ETag covers the data, not its age: a response in which only `age_seconds` and `at` have changed is not
sent again. A client that displays ages adds the time since the response.
"""

import asyncio
import gzip
import hashlib
import inspect
import logging
import os
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from accelscope.fleet.api.access import ANONYMOUS, TOKEN_HEADER, AccessControl, Caller
from accelscope.fleet.api.problem import MEDIA_TYPE, ApiLimits, Problem, ProblemKind, temporary
from accelscope.fleet.api.route import (
    ApiRoute,
    Call,
    EncodedResponse,
    FleetServices,
    ThreadedResponse,
    parse_parameters,
)
from accelscope.fleet.api.tables import filters_by_age
from accelscope.rate_limit import RateLimiter

# --- Encoding and sending -----------------------------------------------------
#
# Large responses are handled in pieces. A single call that encodes or compresses tens of megabytes keeps
# the GIL and blocks all threads, and a client that does not read is noticed only between two pieces.


_GZIP_FROM = 1024  # bytes
_THREAD_FROM = 128 << 10  # bytes; compressing more would block the event loop for milliseconds
_PIECE = 256 << 10  # bytes
_LEVEL = 1  # of gzip: half the time of level 2 for 10 % more bytes


@dataclass(frozen=True, slots=True)
class EncodedBody:
    pieces: tuple[bytes, ...] = ()
    encoding: str | None = None

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


@dataclass(frozen=True, slots=True)
class PreparedResponse:
    status: int
    headers: Mapping[str, str]
    body: EncodedBody = EncodedBody()


async def encode(result: object, *, compressed: bool, threads: asyncio.Semaphore) -> EncodedBody:
    """`threads` limits how many large responses are built at the same time."""
    if isinstance(result, ThreadedResponse):
        async with threads:
            return await asyncio.to_thread(_build, result, compressed)
    pieces = tuple(_pieces(result))
    body = EncodedBody(pieces)
    if not compressed or body.size < _GZIP_FROM:
        return body
    if body.size >= _THREAD_FROM:
        return await asyncio.to_thread(_compress, pieces)
    return EncodedBody((gzip.compress(b"".join(pieces), _LEVEL),), "gzip")


def _build(result: ThreadedResponse, compressed: bool) -> EncodedBody:
    pieces = _pieces(result.make())
    return _compress(pieces) if compressed else EncodedBody(tuple(pieces))


def _pieces(result: object) -> Iterable[bytes]:
    return result.pieces if isinstance(result, EncodedResponse) else (msgspec.json.encode(result),)


def _compress(pieces: Iterable[bytes]) -> EncodedBody:
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)  # 16: gzip format
    compressed = [stream.compress(piece) for piece in pieces]
    compressed.append(stream.flush())
    return EncodedBody(tuple(piece for piece in compressed if piece), "gzip")


async def send(request: web.Request, prepared: PreparedResponse) -> web.StreamResponse:
    """A small body is written at once; each piece of a large one waits until the client has read."""
    body = prepared.body
    if body.size <= _PIECE or request.method == "HEAD":
        response = web.Response(status=prepared.status, headers=prepared.headers, body=b"".join(body.pieces))
        await response.prepare(request)
        await response.write_eof()
        return response
    stream = web.StreamResponse(status=prepared.status, headers=prepared.headers)
    stream.content_length = body.size
    await stream.prepare(request)
    for piece in body.pieces:
        for start in range(0, len(piece), _PIECE):
            await stream.write(piece[start : start + _PIECE])
    await stream.write_eof()
    return stream


def accepts_gzip(accept_encoding: str) -> bool:
    encodings = accepted(accept_encoding)
    return encodings.get("gzip", encodings.get("*", False))


def accepted(header: str) -> dict[str, bool]:
    """The items of an Accept or Accept-Encoding header (RFC 9110); false for a weight of 0."""
    weights = {}
    for part in header.lower().split(","):
        named, _, weight = part.partition(";")
        weights[named.strip()] = weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return weights


log = logging.getLogger(__name__)

NO_FRAMES = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": f"default-src 'none'; {NO_FRAMES}",
}
_PARAMETERS_LIMIT = 256


@dataclass(slots=True)
class Traffic:
    """Current and total load, for limits and metrics."""

    requests: dict[tuple[str, int], int] = field(default_factory=dict)  # by route and status
    seconds: dict[str, float] = field(default_factory=dict)  # by route, until the response is sent
    active: int = 0
    unsent_bytes: int = 0

    def count(self, route: str, status: int) -> None:
        self.requests[route, status] = self.requests.get((route, status), 0) + 1

    def spend(self, route: str, seconds: float) -> None:
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds


class RequestHandler:
    def __init__(self, fleet: FleetServices, access: AccessControl, limits: ApiLimits) -> None:
        self.traffic = Traffic()
        self._fleet = fleet
        self._access = access
        self._limits = limits
        self._requests = RateLimiter(limits.requests)
        self._large = asyncio.Semaphore(limits.large_responses)
        self._secret = os.urandom(16)  # makes ETags of another process invalid

    def handler(self, route: ApiRoute) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._exchange(request, route)

        return handle

    async def _exchange(self, request: web.Request, route: ApiRoute) -> web.StreamResponse:
        if route.stream is None:
            return await self._bounded(
                request, route.path, lambda: self._prepare(request, route), probe=route.probe
            )
        response = await self._stream(request, route)
        self.traffic.count(route.path, response.status)
        return response

    async def respond(
        self, request: web.Request, counted_as: str, prepared: PreparedResponse
    ) -> web.StreamResponse:
        """Sends a response that needs no token. It is not rate-limited: clients behind a proxy share an
        address, and rejecting costs as much as responding."""

        async def make() -> PreparedResponse:
            return prepared

        return await self._bounded(request, counted_as, make)

    async def _bounded(
        self,
        request: web.Request,
        counted_as: str,
        make: Callable[[], Awaitable[PreparedResponse]],
        *,
        probe: bool = False,
    ) -> web.StreamResponse:
        """Probes always get a response: a busy server must not be restarted."""
        began = time.perf_counter()
        if probe:
            response = await self._send(request, await make())
        else:
            response = await self._if_not_busy(request, make)
        self.traffic.count(counted_as, response.status)
        self.traffic.spend(counted_as, time.perf_counter() - began)
        return response

    async def _if_not_busy(
        self, request: web.Request, make: Callable[[], Awaitable[PreparedResponse]]
    ) -> web.StreamResponse:
        if self.traffic.active >= self._limits.concurrent_requests:
            return problem_response(temporary(ProblemKind.BUSY, "too many concurrent requests", 1.0), request)
        self.traffic.active += 1
        try:
            return await self._send_if_room(request, await make())
        finally:
            self.traffic.active -= 1

    async def _stream(self, request: web.Request, route: ApiRoute) -> web.StreamResponse:
        assert route.stream is not None
        try:
            call = await self._admit(request, route)
            return await route.stream(call)
        except Problem as problem:
            return problem_response(problem, request)

    async def _prepare(self, request: web.Request, route: ApiRoute) -> PreparedResponse:
        try:
            call = await self._admit(request, route)
            etag = self._etag(call, route)
            if etag is not None and etag_matches(request.headers.get("If-None-Match"), etag):
                return PreparedResponse(304, _headers(route, etag))
            return await self._answer(call, route, etag)
        except Problem as problem:
            return _prepared_problem(problem, request)
        except Exception:
            log.exception("unexpected error while handling %s", route.path)
            return _prepared_problem(Problem(ProblemKind.INTERNAL, "see the log of the fleet"), request)

    async def _admit(self, request: web.Request, route: ApiRoute) -> Call:
        if request.body_exists and (request.content_length is None or request.content_length > 0):
            raise Problem(
                ProblemKind.BODY_TOO_LARGE, "requests must not have a body", headers={"Connection": "close"}
            )
        peer = request.remote or ""
        caller = ANONYMOUS if route.scope is None else await self._access.admit(request.headers, peer)
        counted_as = f"address {peer}" if caller is ANONYMOUS else f"token {caller.name}"
        if wait := self._requests.take(counted_as, time.monotonic()):
            raise temporary(ProblemKind.TOO_MANY_REQUESTS, "rate limit exceeded", wait)
        _check_rights(caller, route, request.headers)
        try:
            query = parse_qsl(
                request.rel_url.raw_query_string,
                keep_blank_values=True,
                max_num_fields=_PARAMETERS_LIMIT,
                errors="strict",
            )
        except ValueError:
            raise Problem(
                ProblemKind.BAD_PARAMETER, "the query is not UTF-8 or has too many parameters"
            ) from None
        values = parse_parameters(route.parameters, request.match_info, query)
        filters = urlencode(sorted(pair for pair in query if pair[0] not in ("cursor", "limit")))
        return Call(
            fleet=self._fleet,
            caller=caller,
            counted_as=counted_as,
            values=values,
            query_key=f"{request.rel_url.raw_path}?{filters}",
            now=time.time(),
            request=request,
            admitted_again=lambda: self._access.admit(request.headers, peer),
        )

    def _etag(self, call: Call, route: ApiRoute) -> str | None:
        if not route.cached or filters_by_age(call.values):
            return None
        key = f"{call.generation} {call.caller.view} {call.request.raw_path}"
        return f'W/"{hashlib.blake2b(key.encode(), key=self._secret, digest_size=12).hexdigest()}"'

    async def _answer(self, call: Call, route: ApiRoute, etag: str | None) -> PreparedResponse:
        assert route.handle is not None
        result = route.handle(call)
        if inspect.isawaitable(result):
            result = await result
        compressed = accepts_gzip(call.request.headers.get("Accept-Encoding", ""))
        body = await encode(result, compressed=compressed, threads=self._large)
        headers = _headers(route, etag) | {"Content-Type": route.media_type}
        if body.encoding is not None:
            headers["Content-Encoding"] = body.encoding
        return PreparedResponse(route.status, headers, body)

    async def _send_if_room(self, request: web.Request, prepared: PreparedResponse) -> web.StreamResponse:
        size = prepared.body.size
        if self.traffic.unsent_bytes + size > self._limits.unsent_bytes:
            problem = temporary(ProblemKind.BUSY, "too many responses are waiting for slow clients", 1.0)
            return problem_response(problem, request)
        self.traffic.unsent_bytes += size
        try:
            return await self._send(request, prepared)
        finally:
            self.traffic.unsent_bytes -= size

    async def _send(self, request: web.Request, prepared: PreparedResponse) -> web.StreamResponse:
        """Sends with a deadline, so that a client that does not read is disconnected."""
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                return await send(request, prepared)
        except (TimeoutError, ConnectionError):  # does not read, or has disconnected
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=prepared.status)  # only for the metrics


def problem_response(problem: Problem, request: web.BaseRequest) -> web.Response:
    refusal = _prepared_problem(problem, request)
    return web.Response(status=refusal.status, headers=refusal.headers, body=b"".join(refusal.body.pieces))


def _prepared_problem(problem: Problem, request: web.BaseRequest) -> PreparedResponse:
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-store", "Content-Type": MEDIA_TYPE, **problem.headers}
    return PreparedResponse(
        problem.kind.status, headers, EncodedBody((problem.body(request.rel_url.raw_path),))
    )


def _check_rights(caller: Caller, route: ApiRoute, headers: Mapping[str, str]) -> None:
    if route.scope is not None and not caller.may(route.scope):
        raise Problem(ProblemKind.FORBIDDEN, f"the token does not have the scope {route.scope}")
    if route.all_clusters and caller.clusters is not None:
        raise Problem(
            ProblemKind.FORBIDDEN, "the token is limited to some clusters, and this route covers all"
        )
    if route.method != "GET" and headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise Problem(ProblemKind.FORBIDDEN, "cross-site requests are not allowed")


def _headers(route: ApiRoute, etag: str | None) -> dict[str, str]:
    headers = {**SECURITY_HEADERS, "Vary": f"Accept-Encoding, Authorization, {TOKEN_HEADER}"}
    if etag is not None:
        headers["ETag"] = etag
        headers["Cache-Control"] = "private, no-cache"
    else:
        headers["Cache-Control"] = "no-store"
    if route.content_security_policy is not None:
        headers["Content-Security-Policy"] = route.content_security_policy
    return headers


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    if if_none_match is None:
        return False
    opaque = etag.removeprefix("W/")
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return opaque in tags
