"""Refreshes one source of one cluster in rounds."""

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
        self.errors: Counter[str] = Counter()  # by reason: failed rounds, and nodes that did not answer
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
                outcome = await self.source.refresh(self._take_update)
            except Exception:
                log.exception(
                    "unexpected error in a source",
                    extra=fields(cluster=self._cluster, source=self.kind.value),
                )
                outcome = SourceOutcome(up=False, reason="internal", text="see the log of the fleet")
        self._finish(outcome, time.perf_counter() - began)

    def _take_update(self, update: NodeUpdate) -> None:
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
