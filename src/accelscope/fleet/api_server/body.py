"""The body of an answer piece by piece: bounded in size and, where it is compressed, in what it grows to."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator

import aiohttp

from accelscope.kube.errors import KubeError, Reason

PIECE_BYTES = 64 << 10  # what is handed on at a time; decoding it takes about a millisecond
_GZIP = 16 + zlib.MAX_WBITS


class Inflater:
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


class Body:
    """Not decompressed by aiohttp, which would take a bomb for what it says. The limit holds for what comes
    and for what it grows to. Everything raises KubeError and what aiohttp raises."""

    def __init__(self, response: aiohttp.ClientResponse, limit_bytes: int | None) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            raise KubeError(Reason.BAD_ANSWER, "the answer is compressed in a way that was not asked for")
        self._content = response.content
        self._inflater = Inflater() if encoding == "gzip" else None
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
