"""How fast a source goes: requests that begin each second, and its part of the event loop."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_CROWD = 16  # answers that wait to be worked on: more of them only make each other late
_PATIENCE_SECONDS = 0.1
_BEGUN_AT_ONCE = 8  # requests, in one pass of the loop: some two milliseconds


class Pace:
    """At most so many begin each second, evenly: a thousand nodes do not meet an API server at once."""

    def __init__(self, per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap_seconds = 1.0 / per_second
        self._clock = clock
        self._next = float("-inf")

    async def wait(self) -> None:
        now = self._clock()
        turn = max(now, self._next)
        self._next = turn + self._gap_seconds
        if turn > now:
            await asyncio.sleep(turn - now)


class LoopShare:
    """Work of milliseconds, one piece in each pass of the event loop, however many answers came at once, and
    a few requests that begin: whoever asks the API meanwhile waits for one of them and not for all. One for
    the whole process."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._begun = 0  # in this pass
        self._to_begin: deque[asyncio.Future[None]] = deque()
        self._room = asyncio.Event()
        self._room.set()

    @asynccontextmanager
    async def piece(self) -> AsyncIterator[None]:
        self._waiting += 1
        if self._waiting >= _CROWD:
            self._room.clear()
        try:
            async with self._lock:
                yield
                await asyncio.sleep(0)
        finally:
            self._waiting -= 1
            if self._waiting < _CROWD:
                self._room.set()

    async def room(self, pace: Pace) -> None:
        """Wait for one's turn by `pace`, and while more answers are there than can be worked on: to ask for
        more would only have them all come at once. Not for long, since answers may be slow to come."""
        await pace.wait()
        while not self._room.is_set():
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                break
            await pace.wait()
        await self._turn()

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._begun:
            loop.call_soon(self._next_pass)
        elif self._begun >= _BEGUN_AT_ONCE:
            turn: asyncio.Future[None] = loop.create_future()
            self._to_begin.append(turn)
            await turn
            return
        self._begun += 1

    def _next_pass(self) -> None:
        self._begun = 0
        while self._to_begin and self._begun < _BEGUN_AT_ONCE:
            turn = self._to_begin.popleft()
            if not turn.done():  # who waited for it may have gone
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_pass)
