"""Keeps the store current: a run for each cluster of the list, the list itself, and the passing of time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from accelscope.config import ConfigError
from accelscope.config.log import fields
from accelscope.fleet.clusters import ClusterEntry
from accelscope.fleet.refresh.cluster_run import ClusterRun, declared_view
from accelscope.fleet.refresh.source_loop import Pacing
from accelscope.fleet.sources.round import LoopThrottle
from accelscope.fleet.store.fleet_store import FleetStore

log = logging.getLogger(__name__)

READY_AFTER_SECONDS = 30.0  # also where clusters have not been tried yet: the others are worth being asked
_TICK_SECONDS = 1.0
_MORE_SECONDS = 0.01  # between two ticks while there is more to do
_AGAIN_SECONDS = 10.0  # until a run that failed for a fault of ours is begun anew


class ClusterList(Protocol):
    """Where clusters are listed."""

    def changed(self) -> bool: ...

    def load(self) -> tuple[ClusterEntry, ...]:
        """Raises ConfigError."""
        ...


class Engine:
    def __init__(
        self,
        store: FleetStore,
        clusters: ClusterList,
        *,
        pacing: Pacing,
        each_minute: Callable[[float], Awaitable[None]],
        each_list: Callable[[Sequence[ClusterEntry]], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`each_minute` is called with the time, seconds since the epoch; `each_list` with the whole list of
        clusters, at first and when it has changed. Raises ConfigError for a list that cannot be read."""
        self._store = store
        self._list = clusters
        self._pacing = pacing
        self._each_minute = each_minute
        self._each_list = each_list
        self._clock = clock
        self._entries = clusters.load()
        store.declare([declared_view(entry) for entry in self._entries])
        self.loop_share = LoopThrottle()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._runs: dict[str, ClusterRun] = {}
        self._started_at = time.monotonic()
        self.lag_seconds = 0.0  # by which the last tick came late: how long something held the loop
        self.reloads: dict[str, int] = {}  # of the list, by what came of them

    @property
    def runs(self) -> Mapping[str, ClusterRun]:
        return self._runs

    async def run(self) -> None:
        """Until it is cancelled."""
        await self._tell_list()
        for entry in self._entries:
            self._begin(entry)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tick())
                group.create_task(self._count_minutes())
        finally:
            await self._end(list(self._tasks))

    async def refresh(self, cluster: str) -> None:
        """Have one read anew; returns when that is done. Passed over if it is not in the list."""
        run = self._runs.get(cluster)
        if run is not None:
            await run.refresh()

    def unready(self) -> str | None:
        tried = sum(run.tried for run in self._runs.values())
        waiting = len(self._entries) - tried
        if not waiting or time.monotonic() - self._started_at > READY_AFTER_SECONDS:
            return None
        return f"{waiting} of {len(self._entries)} clusters have not been tried yet"

    async def _tick(self) -> None:
        due = time.monotonic()
        while True:
            try:
                while self._store.tick(self._clock()):
                    await asyncio.sleep(_MORE_SECONDS)
            except Exception:  # the loop outlives a fault of ours
                log.exception("the store could not keep time in a way that was not foreseen")
            try:
                if self._list.changed():
                    await self._reload()
            except Exception:  # the loop outlives a fault of ours
                log.exception("the list of clusters could not be taken up in a way that was not foreseen")
            due = max(due + _TICK_SECONDS, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            self.lag_seconds = max(0.0, time.monotonic() - due)

    async def _count_minutes(self) -> None:
        """As the clock shows them, so that minutes of several processes are the same."""
        while True:
            await asyncio.sleep(60 - self._clock() % 60)
            try:
                await self._each_minute(self._clock())
            except Exception:  # the loop outlives a fault of ours
                log.exception("a minute could not be recorded in a way that was not foreseen")

    async def _reload(self) -> None:
        try:
            entries = self._list.load()
        except ConfigError as error:
            self._count("rejected")
            log.error("the new list of clusters is bad, the old one stays: %s", error)  # noqa: TRY400
            return
        before = {entry.id: entry for entry in self._entries}
        after = {entry.id: entry for entry in entries}
        ended = [id_ for id_, entry in before.items() if after.get(id_) != entry]
        await self._end([id_ for id_ in ended if id_ in self._tasks])  # one may not run, for a fault of ours
        self._take_up(entries, before)
        await self._tell_list()
        self._count("applied")
        log.info(
            "the list of clusters was taken up",
            extra=fields(
                added=",".join(after.keys() - before.keys()),
                removed=",".join(before.keys() - after.keys()),
                changed=",".join(id_ for id_ in ended if id_ in after),
            ),
        )

    async def _tell_list(self) -> None:
        if self._each_list is not None:
            await self._each_list(self._entries)

    def _take_up(self, entries: Sequence[ClusterEntry], before: Mapping[str, ClusterEntry]) -> None:
        """What was read of another cluster under the same id is not this one's."""
        self._entries = tuple(entries)
        others = [e.id for e in entries if e.id in before and not _same_cluster(e, before[e.id])]
        self._store.declare([declared_view(entry) for entry in entries], others=others)
        for entry in entries:
            if entry.id not in self._tasks:
                self._begin(entry)

    def _begin(self, entry: ClusterEntry) -> None:
        run = ClusterRun(
            entry, self._store, pacing=self._pacing, loop_share=self.loop_share, clock=self._clock
        )
        self._runs[entry.id] = run
        self._tasks[entry.id] = asyncio.create_task(self._kept_up(run), name=f"cluster {entry.id}")

    async def _kept_up(self, run: ClusterRun) -> None:
        while True:
            try:
                await run.run()
            except Exception:
                log.exception(
                    "a cluster failed in a way that was not foreseen", extra=fields(cluster=run.entry.id)
                )
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return

    async def _end(self, ids: Sequence[str]) -> None:
        tasks = [self._tasks.pop(id_) for id_ in ids]
        for id_ in ids:
            del self._runs[id_]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _count(self, result: str) -> None:
        self.reloads[result] = self.reloads.get(result, 0) + 1


def _same_cluster(entry: ClusterEntry, before: ClusterEntry) -> bool:
    return (entry.access, entry.prometheus, entry.gpu == "false") == (
        before.access,
        before.prometheus,
        before.gpu == "false",
    )
