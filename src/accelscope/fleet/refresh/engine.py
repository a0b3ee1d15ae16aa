"""Keeps the store current: runs the clusters of the list, reloads the list, and drives the store's clock."""

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

READY_AFTER_SECONDS = 30.0  # even if some clusters were not tried yet
_TICK_SECONDS = 1.0
_MORE_SECONDS = 0.01  # between two ticks while the store has more to do
_RESTART_SECONDS = 10.0  # before a cluster is restarted after an unexpected error


class ClusterList(Protocol):
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
        """`each_minute` is called with the time in seconds since the epoch, `each_list` with the list of
        clusters at the start and after each change. Raises ConfigError if the list cannot be read."""
        self._store = store
        self._list = clusters
        self._pacing = pacing
        self._each_minute = each_minute
        self._each_list = each_list
        self._clock = clock
        self._entries = clusters.load()
        store.declare([declared_view(entry) for entry in self._entries])
        self.loop_throttle = LoopThrottle()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._runs: dict[str, ClusterRun] = {}
        self._started_at = time.monotonic()
        self.lag_seconds = 0.0  # delay of the last tick: how long the event loop was blocked
        self.reloads: dict[str, int] = {}  # of the list, by result

    @property
    def runs(self) -> Mapping[str, ClusterRun]:
        return self._runs

    async def run(self) -> None:
        """Runs until cancelled."""
        await self._pass_list_on()
        for entry in self._entries:
            self._start(entry)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._tick())
                group.create_task(self._count_minutes())
        finally:
            await self._stop(list(self._tasks))

    async def refresh(self, cluster: str) -> None:
        """Refreshes one cluster and returns when it is done. Does nothing if it is not in the list."""
        run = self._runs.get(cluster)
        if run is not None:
            await run.refresh()

    def unready(self) -> str | None:
        """Why the fleet is not ready; None: it is ready."""
        tried = sum(run.tried for run in self._runs.values())
        waiting = len(self._entries) - tried
        if not waiting or time.monotonic() - self._started_at > READY_AFTER_SECONDS:
            return None
        return f"{waiting} of {len(self._entries)} clusters were not tried yet"

    async def _tick(self) -> None:
        due = time.monotonic()
        while True:
            try:
                while self._store.tick(self._clock()):
                    await asyncio.sleep(_MORE_SECONDS)
            except Exception:
                log.exception("unexpected error in the store's tick")
            try:
                if self._list.changed():
                    await self._reload()
            except Exception:
                log.exception("unexpected error while reloading the list of clusters")
            due = max(due + _TICK_SECONDS, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            self.lag_seconds = max(0.0, time.monotonic() - due)

    async def _count_minutes(self) -> None:
        """Aligned to the wall clock, so that several processes record the same minutes."""
        while True:
            await asyncio.sleep(60 - self._clock() % 60)
            try:
                await self._each_minute(self._clock())
            except Exception:
                log.exception("unexpected error while recording a minute")

    async def _reload(self) -> None:
        try:
            entries = self._list.load()
        except ConfigError as error:
            self._count("rejected")
            log.error("the new list of clusters is invalid, the old one stays: %s", error)  # noqa: TRY400
            return
        before = {entry.id: entry for entry in self._entries}
        after = {entry.id: entry for entry in entries}
        ended = [id_ for id_, entry in before.items() if after.get(id_) != entry]
        await self._stop([id_ for id_ in ended if id_ in self._tasks])
        self._apply(entries, before)
        await self._pass_list_on()
        self._count("applied")
        log.info(
            "list of clusters reloaded",
            extra=fields(
                added=",".join(after.keys() - before.keys()),
                removed=",".join(before.keys() - after.keys()),
                changed=",".join(id_ for id_ in ended if id_ in after),
            ),
        )

    async def _pass_list_on(self) -> None:
        if self._each_list is not None:
            await self._each_list(self._entries)

    def _apply(self, entries: Sequence[ClusterEntry], before: Mapping[str, ClusterEntry]) -> None:
        """If an id now belongs to another cluster, its old readings are dropped."""
        self._entries = tuple(entries)
        others = [e.id for e in entries if e.id in before and not _same_cluster(e, before[e.id])]
        self._store.declare([declared_view(entry) for entry in entries], others=others)
        for entry in entries:
            if entry.id not in self._tasks:
                self._start(entry)

    def _start(self, entry: ClusterEntry) -> None:
        run = ClusterRun(
            entry, self._store, pacing=self._pacing, loop_throttle=self.loop_throttle, clock=self._clock
        )
        self._runs[entry.id] = run
        self._tasks[entry.id] = asyncio.create_task(self._run_cluster(run), name=f"cluster {entry.id}")

    async def _run_cluster(self, run: ClusterRun) -> None:
        while True:
            try:
                await run.run()
            except Exception:
                log.exception("unexpected error in a cluster", extra=fields(cluster=run.entry.id))
                await asyncio.sleep(_RESTART_SECONDS)
            else:
                return

    async def _stop(self, ids: Sequence[str]) -> None:
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
