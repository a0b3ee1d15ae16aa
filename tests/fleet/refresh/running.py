"""An engine that runs in a test, and its queries."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.waiting import PATIENCE_SECONDS

from accelscope.config import ConfigError
from accelscope.fleet.clusters import ClusterEntry
from accelscope.fleet.refresh import ClusterList, Engine
from accelscope.fleet.rows import ClusterView, SourceView
from accelscope.fleet.sources.round import Pacing
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.query import Condition, RowQuery

PACING = Pacing(interval_seconds=0.2, timeout_seconds=PATIENCE_SECONDS, concurrency=8, per_second=10_000)


class Clusters:
    """A list that a test changes."""

    def __init__(self, *entries: ClusterEntry) -> None:
        self.entries: tuple[ClusterEntry, ...] | ConfigError = entries
        self._seen: object = entries

    def put(self, *entries: ClusterEntry) -> None:
        self.entries = entries

    def changed(self) -> bool:
        before, self._seen = self._seen, self.entries
        return before is not self.entries

    def load(self) -> tuple[ClusterEntry, ...]:
        if isinstance(self.entries, ConfigError):
            raise self.entries
        return self.entries


class Running:
    def __init__(self, engine: Engine, store: FleetStore) -> None:
        self.engine = engine
        self.store = store

    def cluster(self, id_: str) -> ClusterView:
        return self.store.clusters[id_]

    def source(self, id_: str, kind: str) -> SourceView:
        return next(source for source in self.cluster(id_).sources if source.kind == kind)

    def nodes(self, **fields: str) -> list[Any]:
        query = RowQuery(
            where=tuple(Condition(name, "=", value) for name, value in fields.items()), limit=1000
        )
        return self.store.nodes.rows(self.store.nodes.select(query).positions)

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS / 2) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain: {dict(self.store.clusters)}"
            await asyncio.sleep(0.02)


async def nothing(_: float) -> None:
    """No minute passes in these tests."""


@asynccontextmanager
async def engine_over(
    *entries: ClusterEntry, clusters: ClusterList | None = None, pacing: Pacing = PACING, **store: float
) -> AsyncIterator[Running]:
    """An engine over these clusters, or over a list that changes."""
    fleet = FleetStore(**store)  # type: ignore[arg-type]
    engine = Engine(fleet, clusters or Clusters(*entries), pacing=pacing, each_minute=nothing)
    task = asyncio.create_task(engine.run())
    try:
        yield Running(engine, fleet)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
