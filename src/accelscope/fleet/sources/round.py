"""What sources share: the loop that refreshes a source in rounds, a round over many nodes, rate limiting, and
waiting for discovery."""

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import structs

from accelscope.config.log import fields
from accelscope.fleet.api_server import Informer
from accelscope.fleet.rows import (
    ClusterSource,
    NodeFailure,
    NodeUpdate,
    SourceKind,
    SourceOutcome,
    SourceView,
    UpdateHandler,
)
from accelscope.kube.endpoint import KubeError, Reason, one_line

log = logging.getLogger(__name__)

T = TypeVar("T")

# Reasons of failures that probably affect all nodes: those of the server or the network, not of one node.
_COMMON = frozenset({"unreachable", "timeout", "tls", "unauthorized", "forbidden", "throttled"})
# Reasons of failures that end by themselves.
_TEMPORARY = frozenset({"not_ready", "throttled", "timeout", "partial"})


def is_temporary(reason: str) -> bool:
    return reason in _TEMPORARY


def merge_errors(errors: Iterable[KubeError | None]) -> KubeError | None:
    """One error for all of them, with the reason of one that an operator must fix, if there is one."""
    present = (error for error in errors if error is not None)
    in_order = sorted(present, key=lambda error: is_temporary(error.reason))
    if not in_order:
        return None
    return KubeError(in_order[0].reason, "; ".join(dict.fromkeys(error.text for error in in_order)))


class RefreshRound:
    """Passes updates on and counts them. It stops after `max_failures` common failures in a row, because
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
        """Raises ReportNeeded; the node then counts when it is reported again."""
        self._take(update)
        if isinstance(update, NodeFailure):
            self._failed[update.reason] += 1
            self._text[update.reason] = update.text
            common = update.reason in _COMMON and not update.incompatible
            self._failures_in_a_row = self._failures_in_a_row + 1 if common else 0
        else:
            self._answered += 1
            self._failures_in_a_row = 0

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
        """Up if a node responded, or if there was none to read. `reason` is an error in addition to the nodes
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


_QUEUE_LIMIT = 16  # responses that wait to be decoded
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
        """Waits for `pace`, and for a short time while too many responses wait to be decoded."""
        await pace.wait()
        while not self._room.is_set():
            try:
                async with asyncio.timeout(_QUEUE_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                break
            await pace.wait()
        await self.turn()

    async def turn(self) -> None:
        """Waits if much was done in this iteration: for work of a fraction of a millisecond."""
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
            error = merge_errors(informer.error for informer in informers)
            if error is None:
                return SourceOutcome(up=False, reason=Reason.TIMEOUT, text=_NO_LIST)
            return SourceOutcome(up=False, reason=error.reason, text=error.text)
        await asyncio.sleep(_POLL_SECONDS)
    return None


# --- The loop of a source -----------------------------------------------------

_JITTER_RATIO = 0.05


class SourceLoop:
    """Starts a round each interval, or immediately after a round that took longer. If a source raises an
    unexpected error, the round fails and the error is logged."""

    def __init__(
        self,
        source: ClusterSource,
        *,
        cluster: str,
        take: UpdateHandler,
        on_change: Callable[[], None],
        obstacle: Callable[[], SourceOutcome | None],
        interval_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`obstacle` returns the outcome of a round that cannot succeed, which is then skipped. `on_change`
        is called when `view` changes."""
        self.source = source
        self.view = SourceView(kind=source.kind.value)
        self.errors: Counter[str] = Counter()  # by reason: failed rounds, and nodes that did not respond
        self.rounds = 0
        self.first_round = asyncio.Event()  # set when the first round has finished
        self._cluster = cluster
        self._take = take
        self._on_change = on_change
        self._obstacle = obstacle
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._requested = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False

    @property
    def kind(self) -> SourceKind:
        return self.source.kind

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            waiting, self._waiting = self._waiting, []
            self._requested.clear()
            try:
                await self._round()
            finally:
                self._release(waiting)
            jitter = 1 + _JITTER_RATIO * (2 * random.random() - 1)  # noqa: S311
            await self._rest(began + self._interval_seconds * jitter - time.monotonic())

    async def refresh(self) -> None:
        """Starts a round now, or after the current one, and returns when it has finished. Returns immediately
        if the loop is closed."""
        if self._closed:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._requested.set()
        await done

    def wake(self) -> None:
        self._requested.set()

    async def close(self) -> None:
        self._closed = True
        self._release(self._waiting)
        await self.source.close()

    @staticmethod
    def _release(waiting: list[asyncio.Future[None]]) -> None:
        for one in waiting:
            if not one.done():  # the waiting task may be cancelled
                one.set_result(None)

    async def _rest(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._requested.wait()
        except TimeoutError:
            return

    async def _round(self) -> None:
        outcome = self._obstacle()
        began = time.perf_counter()
        if outcome is None:
            try:
                outcome = await self.source.refresh(self.take)
            except Exception:
                log.exception(
                    "unexpected error in a source",
                    extra=fields(cluster=self._cluster, source=self.kind.value),
                )
                outcome = SourceOutcome(up=False, reason="internal", text="see the log of the fleet")
        self._finish(outcome, time.perf_counter() - began)

    def take(self, update: NodeUpdate) -> None:
        if isinstance(update, NodeFailure):
            self.errors[update.reason] += 1
        self._take(update)

    def _finish(self, outcome: SourceOutcome, seconds: float) -> None:
        now = self._clock()
        self.rounds += 1
        self.first_round.set()
        if not outcome.up:
            self.errors[outcome.reason or "unknown"] += 1
        before = self.view
        reason = None if outcome.reason is None else str(outcome.reason)  # a plain string, not an enum member
        self.view = structs.replace(
            before,
            up=outcome.up,
            reason=reason,
            text=outcome.text,
            refreshed_at=now,
            succeeded_at=now if outcome.up else before.succeeded_at,
            duration_seconds=round(seconds, 3),
            # A source that failed as a whole reports 0 nodes; keep the last number.
            expected=outcome.expected if outcome.up or outcome.expected else before.expected,
            answered=outcome.answered,
            errors=self.errors.total(),
        )
        # Failures of single nodes become events of the store and are not logged here.
        if before.up is not outcome.up or (not outcome.up and before.reason != outcome.reason):
            self._log(outcome)
        self._on_change()

    def _log(self, outcome: SourceOutcome) -> None:
        labels = {"cluster": self._cluster, "source": self.kind.value}
        if outcome.up:
            numbers = {"nodes": outcome.expected, "answered": outcome.answered}
            log.info("source is up", extra=fields(**labels, **numbers))
        else:
            log.warning("source is down", extra=fields(**labels, reason=outcome.reason, error=outcome.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """How often clusters are read, and with how much load."""

    interval_seconds: float = 15.0  # from the start of one round of a source to the next
    timeout_seconds: float = 10.0  # of one request
    concurrency: int = 64  # concurrent requests to agents, per cluster
    per_second: float = 500.0  # started requests to agents, per cluster

    @property
    def covered_seconds(self) -> float:
        """How long a reading of an agent keeps the exec source from reading its node."""
        return max(60.0, 3 * self.interval_seconds)
