"""One round over many nodes: so many at a time, and given up where nobody can be reached."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from accelscope.fleet.api_server import Informer
from accelscope.fleet.rows import NodeFailure, Saying, SourceOutcome, Take
from accelscope.kube.errors import KubeError, Reason, one_line

T = TypeVar("T")

# Of failures that would be the next node's too: the server's or the way's, not the node's. An answer that is
# too large is its node's own.
_ALL_ALIKE = frozenset({"unreachable", "timeout", "tls", "unauthorized", "forbidden", "throttled"})
# Of failures that end without anybody doing anything: a pod starts, a server is asked less often.
_PASSING = frozenset({"not_ready", "throttled", "timeout", "partial"})


def passes_by_itself(reason: str) -> bool:
    return reason in _PASSING


def joined(errors: Iterable[KubeError | None]) -> KubeError | None:
    """One for all of them, with the reason of one that somebody has to mend, if there is such a one."""
    there = sorted(
        (error for error in errors if error is not None), key=lambda one: passes_by_itself(one.reason)
    )
    if not there:
        return None
    return KubeError(there[0].reason, "; ".join(dict.fromkeys(error.text for error in there)))


class Round:
    """Hands sayings on and counts them. `given_up` when so many failed in a row, and none answered between
    them, that the rest would wait for nothing: what is known of the others ages meanwhile."""

    def __init__(self, take: Take, *, patience: int) -> None:
        self._take = take
        self._patience = patience
        self._failed_alike = 0
        self._answered = 0
        self._failed: Counter[str] = Counter()
        self._text: dict[str, str] = {}  # by reason, the last

    @property
    def given_up(self) -> bool:
        return self._failed_alike >= self._patience

    def say(self, saying: Saying) -> None:
        if isinstance(saying, NodeFailure):
            self._failed[saying.reason] += 1
            self._text[saying.reason] = saying.text
            alike = saying.reason in _ALL_ALIKE and not saying.incompatible
            self._failed_alike = self._failed_alike + 1 if alike else 0
        else:
            self._answered += 1
            self._failed_alike = 0
        self._take(saying)

    async def over(self, items: Iterable[T], ask: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
        waiting = iter(items)

        async def work() -> None:
            while not self.given_up:
                item = next(waiting, None)
                if item is None:
                    return
                await ask(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())

    def outcome(self, expected: int, *, reason: str | None = None, text: str | None = None) -> SourceOutcome:
        """Up if a node answered, or if there was none to ask. `reason`: what is wrong beside the nodes that
        failed."""
        wrong = [] if reason is None else [(reason, text or reason)]
        failed = {word: count for word, count in self._failed.items() if word != reason}
        if failed:
            words = sorted(failed, key=lambda word: (passes_by_itself(word), -failed[word]))
            by_reason = "; ".join(f"{word} {failed[word]}: {self._text[word]}" for word in words)
            wrong.append((words[0], f"{sum(failed.values())} of {expected} nodes failed ({by_reason})"))
        # What somebody has to mend comes first, however many pods are merely not ready.
        wrong.sort(key=lambda one: passes_by_itself(one[0]))
        return SourceOutcome(
            up=self._answered > 0 or not self._failed,
            expected=expected,
            answered=self._answered,
            reason=wrong[0][0] if wrong else None,
            text=one_line("; ".join(text for _, text in wrong)) or None,
        )


# --- pace ------------------------------------------------------------
# How fast a source goes: requests that begin each second, and its part of the event loop.


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


# --- discovery ------------------------------------------------------------
# Pods, or nodes, that a source needs to know of before it can ask anything.


_DISCOVERY_PATIENCE_SECONDS = 15.0
_LOOK_SECONDS = 0.05
_NO_LIST = f"the API server did not send the list of them within {_DISCOVERY_PATIENCE_SECONDS:g} s"


async def not_found_yet(*followed: Informer[Any]) -> SourceOutcome | None:
    """Why there is nothing to go by: none of them has had a whole list yet. None: one at least has."""
    deadline = time.monotonic() + _DISCOVERY_PATIENCE_SECONDS
    while not any(one.synced.is_set() for one in followed):
        if all(one.error is not None for one in followed) or time.monotonic() > deadline:
            error = joined(one.error for one in followed)
            if error is None:
                return SourceOutcome(up=False, reason=Reason.TIMEOUT, text=_NO_LIST)
            return SourceOutcome(up=False, reason=error.reason, text=error.text)
        await asyncio.sleep(_LOOK_SECONDS)
    return None
