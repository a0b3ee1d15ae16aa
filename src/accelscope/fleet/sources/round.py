"""What sources share: a refresh over many nodes, rate limiting, and waiting for discovery."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from accelscope.fleet.api_server import Informer
from accelscope.fleet.rows import NodeFailure, NodeUpdate, SourceOutcome, UpdateHandler
from accelscope.kube.endpoint import KubeError, Reason, one_line

T = TypeVar("T")

# Reasons of failures that probably affect all nodes: those of the server or the network, not of one node.
_COMMON = frozenset({"unreachable", "timeout", "tls", "unauthorized", "forbidden", "throttled"})
# Reasons of failures that end by themselves.
_TEMPORARY = frozenset({"not_ready", "throttled", "timeout", "partial"})


def is_temporary(reason: str) -> bool:
    return reason in _TEMPORARY


def merged_error(errors: Iterable[KubeError | None]) -> KubeError | None:
    """One error for all of them, with the reason of one that an operator must fix, if there is one."""
    present = (error for error in errors if error is not None)
    in_order = sorted(present, key=lambda error: is_temporary(error.reason))
    if not in_order:
        return None
    return KubeError(in_order[0].reason, "; ".join(dict.fromkeys(error.text for error in in_order)))


class RefreshRound:
    """Passes updates on and counts them. It gives up after `max_failures` common failures in a row, because
    the remaining nodes would probably fail too while the readings of others age."""

    def __init__(self, take: UpdateHandler, *, max_failures: int) -> None:
        self._take = take
        self._max_failures = max_failures
        self._failures_in_a_row = 0
        self._answered = 0
        self._failed: Counter[str] = Counter()
        self._text: dict[str, str] = {}  # the last one by reason

    @property
    def gave_up(self) -> bool:
        return self._failures_in_a_row >= self._max_failures

    def report(self, update: NodeUpdate) -> None:
        if isinstance(update, NodeFailure):
            self._failed[update.reason] += 1
            self._text[update.reason] = update.text
            common = update.reason in _COMMON and not update.incompatible
            self._failures_in_a_row = self._failures_in_a_row + 1 if common else 0
        else:
            self._answered += 1
            self._failures_in_a_row = 0
        self._take(update)

    async def run(self, items: Iterable[T], read: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
        waiting = iter(items)

        async def work() -> None:
            while not self.gave_up:
                item = next(waiting, None)
                if item is None:
                    return
                await read(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())

    def outcome(self, expected: int, *, reason: str | None = None, text: str | None = None) -> SourceOutcome:
        """Up if a node answered, or if there was none to read. `reason` is an error in addition to the nodes
        that failed."""
        errors = [] if reason is None else [(reason, text or reason)]
        failed = {word: count for word, count in self._failed.items() if word != reason}
        if failed:
            words = sorted(failed, key=lambda word: (is_temporary(word), -failed[word]))
            by_reason = "; ".join(f"{word} {failed[word]}: {self._text[word]}" for word in words)
            errors.append((words[0], f"{sum(failed.values())} of {expected} nodes failed ({by_reason})"))
        # Errors that an operator must fix come first, however many pods are not ready.
        errors.sort(key=lambda error: is_temporary(error[0]))
        return SourceOutcome(
            up=self._answered > 0 or not self._failed,
            expected=expected,
            answered=self._answered,
            reason=errors[0][0] if errors else None,
            text=one_line("; ".join(text for _, text in errors)) or None,
        )


_QUEUE_LIMIT = 16  # answers that wait to be decoded
_QUEUE_SECONDS = 0.1
_STARTED_AT_ONCE = 8  # requests in one iteration of the event loop: about two milliseconds


class RequestPacer:
    """Spreads requests evenly over time, at most `per_second`, to protect the API server."""

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


class LoopThrottle:
    """Limits the work in each iteration of the event loop to one piece of some milliseconds and a few new
    requests, so that API requests to the fleet wait only for one piece. There is one throttle per process."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._begun = 0  # in this iteration of the loop
        self._to_begin: deque[asyncio.Future[None]] = deque()
        self._room = asyncio.Event()
        self._room.set()

    @asynccontextmanager
    async def piece(self) -> AsyncIterator[None]:
        self._waiting += 1
        if self._waiting >= _QUEUE_LIMIT:
            self._room.clear()
        try:
            async with self._lock:
                yield
                await asyncio.sleep(0)
        finally:
            self._waiting -= 1
            if self._waiting < _QUEUE_LIMIT:
                self._room.set()

    async def wait(self, pace: RequestPacer) -> None:
        """Waits for `pace`, and for a short time while too many answers wait to be decoded."""
        await pace.wait()
        while not self._room.is_set():
            try:
                async with asyncio.timeout(_QUEUE_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                break
            await pace.wait()
        await self._turn()

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._begun:
            loop.call_soon(self._next_pass)
        elif self._begun >= _STARTED_AT_ONCE:
            turn: asyncio.Future[None] = loop.create_future()
            self._to_begin.append(turn)
            await turn
            return
        self._begun += 1

    def _next_pass(self) -> None:
        self._begun = 0
        while self._to_begin and self._begun < _STARTED_AT_ONCE:
            turn = self._to_begin.popleft()
            if not turn.done():  # the waiting task may have been cancelled
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_pass)


_DISCOVERY_SECONDS = 15.0
_POLL_SECONDS = 0.05
_NO_LIST = f"the API server did not send a list within {_DISCOVERY_SECONDS:g} s"


async def wait_for_discovery(*informers: Informer[Any]) -> SourceOutcome | None:
    """Waits for the first complete list of one of the informers. Returns the failure if there is none."""
    deadline = time.monotonic() + _DISCOVERY_SECONDS
    while not any(informer.synced.is_set() for informer in informers):
        if all(informer.error is not None for informer in informers) or time.monotonic() > deadline:
            error = merged_error(informer.error for informer in informers)
            if error is None:
                return SourceOutcome(up=False, reason=Reason.TIMEOUT, text=_NO_LIST)
            return SourceOutcome(up=False, reason=error.reason, text=error.text)
        await asyncio.sleep(_POLL_SECONDS)
    return None
