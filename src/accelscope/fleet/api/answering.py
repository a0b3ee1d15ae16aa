"""From a request to the bytes of its answer: limits, the door, parameters, ETag, gzip, problems.

An ETag is of the data, not of its age: `age_seconds` and `at` move on by themselves, and an answer with them
alone changed is not worth sending again. Whoever shows ages between two answers adds the time since.
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

from accelscope.allowance import Allowances
from accelscope.fleet.api import parameter
from accelscope.fleet.api.access import EVERYBODY, TOKEN_HEADER, AccessControl, Caller
from accelscope.fleet.api.problem import MEDIA_TYPE, ApiLimits, Problem, ProblemKind, later
from accelscope.fleet.api.route import Call, Document, Fleet, Large, Route
from accelscope.fleet.api.tables import asks_for_ages

# --- sending ------------------------------------------------------------
# Answers as bytes, and bytes to their reader: in pieces where they are many.
#
# Pieces, because a call that encodes, joins or compresses tens of megabytes at once keeps all threads
# waiting, also when it is made in one of its own; and because a reader who takes nothing shows between two
# pieces only.


_GZIP_FROM = 1024  # bytes; less does not pay
_THREAD_FROM = 128 << 10  # bytes; compressing so much would hold the loop for milliseconds
_PIECE = 256 << 10  # bytes
_LEVEL = 1  # of gzip: half the time of the next, a tenth larger


@dataclass(frozen=True, slots=True)
class Body:
    pieces: tuple[bytes, ...] = ()
    encoding: str | None = None

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


@dataclass(frozen=True, slots=True)
class Ready:
    """An answer as it is sent."""

    status: int
    headers: Mapping[str, str]
    body: Body = Body()


async def encoded(answer: object, *, compressed: bool, threads: asyncio.Semaphore) -> Body:
    """`threads` bounds how many large ones are made at the same time."""
    if isinstance(answer, Large):
        async with threads:
            return await asyncio.to_thread(_made, answer, compressed)
    pieces = tuple(_pieces(answer))
    body = Body(pieces)
    if not compressed or body.size < _GZIP_FROM:
        return body
    if body.size >= _THREAD_FROM:
        return await asyncio.to_thread(_compressed, pieces)
    return Body((gzip.compress(b"".join(pieces), _LEVEL),), "gzip")


def _made(answer: Large, compressed: bool) -> Body:
    pieces = _pieces(answer.make())
    return _compressed(pieces) if compressed else Body(tuple(pieces))


def _pieces(answer: object) -> Iterable[bytes]:
    return answer.pieces if isinstance(answer, Document) else (msgspec.json.encode(answer),)


def _compressed(pieces: Iterable[bytes]) -> Body:
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)  # 16: with gzip's header
    compressed = [stream.compress(piece) for piece in pieces]
    compressed.append(stream.flush())
    return Body(tuple(piece for piece in compressed if piece), "gzip")


async def send(request: web.Request, ready: Ready) -> web.StreamResponse:
    """One piece counts as sent when it is in a buffer; of several, each waits for the reader."""
    body = ready.body
    if body.size <= _PIECE or request.method == "HEAD":
        response = web.Response(status=ready.status, headers=ready.headers, body=b"".join(body.pieces))
        await response.prepare(request)
        await response.write_eof()
        return response
    stream = web.StreamResponse(status=ready.status, headers=ready.headers)
    stream.content_length = body.size
    await stream.prepare(request)
    for piece in body.pieces:
        for start in range(0, len(piece), _PIECE):
            await stream.write(piece[start : start + _PIECE])
    await stream.write_eof()
    return stream


def takes_gzip(accept_encoding: str) -> bool:
    taken = accepted(accept_encoding)
    return taken.get("gzip", taken.get("*", False))


def accepted(header: str) -> dict[str, bool]:
    """What an Accept or Accept-Encoding names, by RFC 9110; a weight of 0 is a no."""
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
    """What is going on, and what was: for limits and metrics."""

    requests: dict[tuple[str, int], int] = field(default_factory=dict)  # by route and status
    seconds: dict[str, float] = field(default_factory=dict)  # by route, until the answer is ready
    active: int = 0
    unsent_bytes: int = 0

    def count(self, route: str, status: int) -> None:
        self.requests[route, status] = self.requests.get((route, status), 0) + 1

    def spend(self, route: str, seconds: float) -> None:
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds


class Answering:
    def __init__(self, fleet: Fleet, access: AccessControl, limits: ApiLimits) -> None:
        self.traffic = Traffic()
        self._fleet = fleet
        self._access = access
        self._limits = limits
        self._requests = Allowances(limits.requests)
        self._large = asyncio.Semaphore(limits.large_answers)
        self._secret = os.urandom(16)  # so that generations of another process are not taken for ours

    def handler(self, route: Route) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._exchange(request, route)

        return handle

    async def _exchange(self, request: web.Request, route: Route) -> web.StreamResponse:
        if route.stream is None:
            return await self._bounded(
                request, route.path, lambda: self._ready(request, route), probe=route.probe
            )
        response = await self._streamed(request, route)
        self.traffic.count(route.path, response.status)
        return response

    async def give(self, request: web.Request, counted_as: str, ready: Ready) -> web.StreamResponse:
        """What lies ready and is open to everybody. Nobody's requests are counted: all who come through one
        proxy have its address, and to refuse costs as much as to answer."""

        async def made() -> Ready:
            return ready

        return await self._bounded(request, counted_as, made)

    async def _bounded(
        self,
        request: web.Request,
        counted_as: str,
        make: Callable[[], Awaitable[Ready]],
        *,
        probe: bool = False,
    ) -> web.StreamResponse:
        """A probe is always answered: a server that is busy is not to be ended for it."""
        began = time.perf_counter()
        if probe:
            response = await self._send(request, await make())
        else:
            response = await self._if_not_busy(request, make)
        self.traffic.count(counted_as, response.status)
        self.traffic.spend(counted_as, time.perf_counter() - began)
        return response

    async def _if_not_busy(
        self, request: web.Request, make: Callable[[], Awaitable[Ready]]
    ) -> web.StreamResponse:
        if self.traffic.active >= self._limits.concurrent_requests:
            return problem_response(
                later(ProblemKind.BUSY, "too many requests at the same time", 1.0), request
            )
        self.traffic.active += 1
        try:
            return await self._send_if_room(request, await make())
        finally:
            self.traffic.active -= 1

    async def _streamed(self, request: web.Request, route: Route) -> web.StreamResponse:
        assert route.stream is not None
        try:
            call = await self._admitted(request, route)
            return await route.stream(call)
        except Problem as problem:
            return problem_response(problem, request)

    async def _ready(self, request: web.Request, route: Route) -> Ready:
        try:
            call = await self._admitted(request, route)
            etag = self._etag(call, route)
            if etag is not None and confirms(request.headers.get("If-None-Match"), etag):
                return Ready(304, _headers(route, etag))
            return await self._answered(call, route, etag)
        except Problem as problem:
            return _refusal(problem, request)
        except Exception:
            # Whatever it is, it costs this answer only, and the log has all of it.
            log.exception("an answer could not be made: %s", route.path)
            return _refusal(Problem(ProblemKind.INTERNAL, "the log of the fleet says more"), request)

    async def _admitted(self, request: web.Request, route: Route) -> Call:
        if request.body_exists and (request.content_length is None or request.content_length > 0):
            raise Problem(
                ProblemKind.BODY_TOO_LARGE, "no route takes a body", headers={"Connection": "close"}
            )
        peer = request.remote or ""
        caller = EVERYBODY if route.scope is None else await self._access.admit(request.headers, peer)
        counted_as = f"address {peer}" if caller is EVERYBODY else f"token {caller.name}"
        if wait := self._requests.take(counted_as, time.monotonic()):
            raise later(ProblemKind.TOO_MANY_REQUESTS, "more requests than are allowed", wait)
        _check_rights(caller, route, request.headers)
        try:
            query = parse_qsl(
                request.rel_url.raw_query_string,
                keep_blank_values=True,
                max_num_fields=_PARAMETERS_LIMIT,
                errors="strict",
            )
        except ValueError:
            raise Problem(ProblemKind.BAD_PARAMETER, "the query is no UTF-8, or has too many parts") from None
        values = parameter.parse(route.parameters, request.match_info, query)
        asked = urlencode(sorted(pair for pair in query if pair[0] not in ("cursor", "limit")))
        return Call(
            fleet=self._fleet,
            caller=caller,
            counted_as=counted_as,
            values=values,
            question=f"{request.rel_url.raw_path}?{asked}",
            now=time.time(),
            request=request,
            admitted_again=lambda: self._access.admit(request.headers, peer),
        )

    def _etag(self, call: Call, route: Route) -> str | None:
        if not route.cached or asks_for_ages(call.values):
            return None
        said = f"{call.generation} {call.caller.view} {call.request.raw_path}"
        return f'W/"{hashlib.blake2b(said.encode(), key=self._secret, digest_size=12).hexdigest()}"'

    async def _answered(self, call: Call, route: Route, etag: str | None) -> Ready:
        assert route.handle is not None
        answer = route.handle(call)
        if inspect.isawaitable(answer):
            answer = await answer
        compressed = takes_gzip(call.request.headers.get("Accept-Encoding", ""))
        body = await encoded(answer, compressed=compressed, threads=self._large)
        headers = _headers(route, etag) | {"Content-Type": route.media_type}
        if body.encoding is not None:
            headers["Content-Encoding"] = body.encoding
        return Ready(route.status, headers, body)

    async def _send_if_room(self, request: web.Request, ready: Ready) -> web.StreamResponse:
        size = ready.body.size
        if self.traffic.unsent_bytes + size > self._limits.unsent_bytes:
            problem = later(ProblemKind.BUSY, "too many answers wait for their readers", 1.0)
            return problem_response(problem, request)
        self.traffic.unsent_bytes += size
        try:
            return await self._send(request, ready)
        finally:
            self.traffic.unsent_bytes -= size

    async def _send(self, request: web.Request, ready: Ready) -> web.StreamResponse:
        """Here rather than left to the server, so that a reader who takes nothing is dropped in time."""
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                return await send(request, ready)
        except (TimeoutError, ConnectionError):  # takes nothing, or has gone away
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=ready.status)  # for the count; nobody gets it


def problem_response(problem: Problem, request: web.BaseRequest) -> web.Response:
    refusal = _refusal(problem, request)
    return web.Response(status=refusal.status, headers=refusal.headers, body=b"".join(refusal.body.pieces))


def _refusal(problem: Problem, request: web.BaseRequest) -> Ready:
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-store", "Content-Type": MEDIA_TYPE, **problem.headers}
    return Ready(problem.kind.status, headers, Body((problem.body(request.rel_url.raw_path),)))


def _check_rights(caller: Caller, route: Route, headers: Mapping[str, str]) -> None:
    if route.scope is not None and not caller.may(route.scope):
        raise Problem(ProblemKind.FORBIDDEN, f"the token does not have the scope {route.scope}")
    if route.all_clusters and caller.clusters is not None:
        raise Problem(ProblemKind.FORBIDDEN, "this is about all clusters, and the token is for some of them")
    if route.method != "GET" and headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise Problem(ProblemKind.FORBIDDEN, "pages of another site may not have this done")


def _headers(route: Route, etag: str | None) -> dict[str, str]:
    headers = {**SECURITY_HEADERS, "Vary": f"Accept-Encoding, Authorization, {TOKEN_HEADER}"}
    if etag is not None:
        headers["ETag"] = etag
        headers["Cache-Control"] = "private, no-cache"
    else:
        headers["Cache-Control"] = "no-store"
    if route.content_security_policy is not None:
        headers["Content-Security-Policy"] = route.content_security_policy
    return headers


def confirms(if_none_match: str | None, etag: str) -> bool:
    if if_none_match is None:
        return False
    opaque = etag.removeprefix("W/")
    shown = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return opaque in shown
