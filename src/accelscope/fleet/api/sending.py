"""Answers as bytes, and bytes to their reader: in pieces where they are many.

Pieces, because a call that encodes, joins or compresses tens of megabytes at once keeps all threads waiting,
also when it is made in one of its own; and because a reader who takes nothing shows between two pieces only.
"""

import asyncio
import gzip
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from aiohttp import web

from accelscope.fleet.api.route import Document, Large

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
