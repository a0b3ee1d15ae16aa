"""One source of one cluster, round after round."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import structs

from accelscope.config.log import fields
from accelscope.fleet.rows import (
    ClusterSource,
    NodeFailure,
    NodeUpdate,
    SourceKind,
    SourceOutcome,
    SourceView,
    UpdateHandler,
)

log = logging.getLogger(__name__)

_JITTER_RATIO = 0.05


class SourceLoop:
    """Begins a round each interval, or as soon as the one before it has ended where that took longer. What a
    source raises against its promise costs it that round, and the log has all of it."""

    def __init__(
        self,
        source: ClusterSource,
        *,
        cluster: str,
        take: UpdateHandler,
        described: Callable[[], None],
        hindrance: Callable[[], SourceOutcome | None],
        interval_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`hindrance`: why it makes no sense to begin. `described` is told when `view` is another."""
        self.source = source
        self.view = SourceView(kind=source.kind.value)
        self.errors: Counter[str] = Counter()  # by reason: rounds that failed, and nodes that did not answer
        self.rounds = 0
        self.asked_once = asyncio.Event()  # set when the first round has ended
        self._cluster = cluster
        self._take = take
        self._described = described
        self._hindrance = hindrance
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._asked_for = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False

    @property
    def kind(self) -> SourceKind:
        return self.source.kind

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            waiting, self._waiting = self._waiting, []
            self._asked_for.clear()
            try:
                await self._round()
            finally:
                self._release(waiting)
            jitter = 1 + _JITTER_RATIO * (2 * random.random() - 1)  # noqa: S311 - no secret
            await self._rest(began + self._interval_seconds * jitter - time.monotonic())

    async def now(self) -> None:
        """Have a round begin at once, or after the one that is under way; returns when it has ended, and at
        once where none will begin any more."""
        if self._closed:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._asked_for.set()
        await done

    def wake(self) -> None:
        self._asked_for.set()

    async def close(self) -> None:
        self._closed = True
        self._release(self._waiting)
        await self.source.close()

    @staticmethod
    def _release(waiting: list[asyncio.Future[None]]) -> None:
        for one in waiting:
            if not one.done():  # who waited may have gone
                one.set_result(None)

    async def _rest(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._asked_for.wait()
        except TimeoutError:
            return

    async def _round(self) -> None:
        outcome = self._hindrance()
        began = time.perf_counter()
        if outcome is None:
            try:
                outcome = await self.source.refresh(self._heard)
            except Exception:
                log.exception(
                    "a source failed in a way that was not foreseen",
                    extra=fields(cluster=self._cluster, source=self.kind.value),
                )
                outcome = SourceOutcome(up=False, reason="internal", text="the log of the fleet says more")
        self._done(outcome, time.perf_counter() - began)

    def _heard(self, saying: NodeUpdate) -> None:
        if isinstance(saying, NodeFailure):
            self.errors[saying.reason] += 1
        self._take(saying)

    def _done(self, outcome: SourceOutcome, seconds: float) -> None:
        now = self._clock()
        self.rounds += 1
        self.asked_once.set()
        if not outcome.up:
            self.errors[outcome.reason or "unknown"] += 1
        before = self.view
        reason = None if outcome.reason is None else str(outcome.reason)  # not a member of some enumeration
        self.view = structs.replace(
            before,
            up=outcome.up,
            reason=reason,
            text=outcome.text,
            refreshed_at=now,
            succeeded_at=now if outcome.up else before.succeeded_at,
            duration_seconds=round(seconds, 3),
            # One that failed as a whole does not know; one whose nodes all failed does.
            expected=outcome.expected if outcome.up or outcome.expected else before.expected,
            answered=outcome.answered,
            errors=self.errors.total(),
        )
        # Single nodes that fail while others answer are the store's events.
        if before.up is not outcome.up or (not outcome.up and before.reason != outcome.reason):
            self._log(outcome)
        self._described()

    def _log(self, outcome: SourceOutcome) -> None:
        about = {"cluster": self._cluster, "source": self.kind.value}
        if outcome.up:
            numbers = {"nodes": outcome.expected, "answered": outcome.answered}
            log.info("a source answers", extra=fields(**about, **numbers))
        else:
            log.warning("a source is down", extra=fields(**about, reason=outcome.reason, error=outcome.text))


# --- pacing ------------------------------------------------------------
# How often and how hard clusters are asked.


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    interval_seconds: float = 15.0  # between the beginnings of two rounds of a source
    timeout_seconds: float = 10.0  # of one request
    concurrency: int = 64  # requests to agents at a time, in each cluster
    per_second: float = 500.0  # requests to agents that begin, in each cluster

    @property
    def covered_seconds(self) -> float:
        """How long what an agent said keeps its node from being asked otherwise."""
        return max(60.0, 3 * self.interval_seconds)
