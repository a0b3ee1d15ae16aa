"""One cluster: its session, its Node watch and its sources, from when it is in the list until it leaves.

Whatever a cluster does stays here: it has its own connections, its own limits and its own tasks.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from msgspec import structs

from accelscope.config.log import fields
from accelscope.fleet.api_server import Informer, Session
from accelscope.fleet.api_server.objects import NodeObject, decode_node
from accelscope.fleet.cluster_view import ClusterView
from accelscope.fleet.clusters import ClusterEntry
from accelscope.fleet.refresh.beat import Beat, Standing
from accelscope.fleet.refresh.capability import has_accelerators
from accelscope.fleet.refresh.cover import Cover
from accelscope.fleet.refresh.open_sources import Opened, open_sources
from accelscope.fleet.refresh.pacing import Pacing
from accelscope.fleet.refresh.source_loop import SourceLoop
from accelscope.fleet.report import NodeReport, NodeUnchanged, Saying, SourceKind, SourceOutcome
from accelscope.fleet.sources.pace import LoopShare
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.kube.errors import Reason
from accelscope.kube.listwatch import all_nodes

log = logging.getLogger(__name__)

_NODES_SECONDS = 2.0  # between two looks at the Node watch


def declared(entry: ClusterEntry) -> ClusterView:
    """What the list says of a cluster that nobody has asked yet."""
    return ClusterView(
        id=entry.id,
        name=entry.name,
        simulated=entry.simulated,
        gpu={"true": True, "false": False}.get(entry.gpu),
        gpu_setting=entry.gpu,
    )


class ClusterRun:
    def __init__(
        self,
        entry: ClusterEntry,
        store: FleetStore,
        *,
        pacing: Pacing,
        loop_share: LoopShare,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.entry = entry
        self.loops: tuple[SourceLoop, ...] = ()
        self._store = store
        self._pacing = pacing
        self._loop_share = loop_share
        self._clock = clock
        self._cover = Cover(pacing.covered_seconds, clock=clock)
        self._beat: Beat | None = None
        self._nodes: Informer[NodeObject] | None = None
        self._has_accelerators = False  # by its Node objects
        self._not_taken: set[str] = set()  # nodes whose reading could not be stored

    @property
    def tried(self) -> bool:
        """Whether all of it was asked once."""
        if self.entry.gpu == "false":
            return True
        beaten = self._beat is None or self._beat.standing.reachable is not None
        return bool(self.loops) and beaten and all(loop.rounds for loop in self.loops)

    @property
    def view(self) -> ClusterView:
        standing = self._standing()
        view = declared(self.entry)
        return structs.replace(
            view,
            gpu=view.gpu if view.gpu is not None else self._gpu(),
            reachable=standing.reachable,
            reason=standing.reason,
            text=standing.text,
            succeeded_at=standing.succeeded_at,
            sources=[loop.view for loop in self.loops],
        )

    async def run(self) -> None:
        """Until it is cancelled. A cluster without accelerators, by its entry, is not asked for anything."""
        if self.entry.gpu == "false":
            self._describe()
            return
        async with AsyncExitStack() as stack:
            session: Session | None = None
            if self.entry.access is not None:
                session = Session(
                    self.entry.access,
                    connections=self._pacing.concurrency + 8,  # beside the agents: lists and the beat
                    timeout_seconds=self._pacing.timeout_seconds,
                )
                stack.push_async_callback(session.close)
                self._beat = Beat(
                    session,
                    cluster=self.entry.id,
                    interval_seconds=self._pacing.interval_seconds,
                    changed=self._stood,
                    clock=self._clock,
                )
                self._nodes = session.follow(all_nodes(), decode=decode_node, key=lambda node: node.name)
                stack.push_async_callback(self._nodes.close)
            opened = open_sources(
                self.entry,
                session,
                self._nodes,
                pacing=self._pacing,
                loop_share=self._loop_share,
                is_covered=self._cover,
            )
            self.loops = tuple(self._loop(one) for one in opened)
            for loop in self.loops:
                stack.push_async_callback(loop.close)
            async with asyncio.TaskGroup() as group:
                if self._beat is not None:
                    group.create_task(self._beat.run())
                    group.create_task(self._follow_nodes())
                for loop in self.loops:
                    group.create_task(self._run(loop))

    async def refresh(self) -> None:
        """Every source, at once; returns when all have ended their round."""
        if self._beat is not None:
            self._beat.ask_soon()
        await asyncio.gather(*(loop.now() for loop in self.loops))

    async def _run(self, loop: SourceLoop) -> None:
        """Where an agent tells of a node, no command is run there: commands wait until agents were asked."""
        if loop.kind is SourceKind.EXEC:
            for other in self.loops:
                if other.kind is SourceKind.AGENTS:
                    await other.asked_once.wait()
        await loop.run()

    def _loop(self, opened: Opened) -> SourceLoop:
        return SourceLoop(
            opened.source,
            cluster=self.entry.id,
            take=self._take,
            described=self._describe,
            hindrance=self._out_of_reach if opened.by_api_server else _nothing,
            interval_seconds=self._pacing.interval_seconds,
            clock=self._clock,
        )

    def _out_of_reach(self) -> SourceOutcome | None:
        """A thousand requests to a server that is not there would end one by one, each in its own time."""
        standing = self._standing()
        if standing.reachable is not False:
            return None
        return SourceOutcome(up=False, reason=standing.reason, text=standing.text)

    def _standing(self) -> Standing:
        if self._beat is not None:
            standing = self._beat.standing
            lost = None if self._nodes is None else self._nodes.error
            if standing.reachable and lost is not None:
                return Standing(
                    reachable=True,
                    reason=lost.reason.value,
                    text=f"nodes: {lost.text}",
                    succeeded_at=standing.succeeded_at,
                )
            return standing
        views = [loop.view for loop in self.loops]
        times = [view.succeeded_at for view in views if view.succeeded_at is not None]
        down = next((view for view in views if view.up is False), None)
        tried = any(view.up is not None for view in views)
        return Standing(
            reachable=any(view.up for view in views) if tried else None,
            reason=None if down is None else down.reason,
            text=None if down is None else down.text,
            succeeded_at=max(times, default=None),
        )

    def _stood(self) -> None:
        """After each beat: sources that were held back go on as soon as the server is there again."""
        assert self._beat is not None
        if self._beat.standing.reachable:
            for loop in self.loops:
                if loop.view.up is False and loop.view.reason in _BY_THE_WAY:
                    loop.wake()
        self._describe()

    def _gpu(self) -> bool | None:
        if self._has_accelerators or any(loop.source.sees_accelerators() for loop in self.loops):
            return True
        seen = self._nodes is None or self._nodes.synced.is_set()
        return False if self.tried and seen else None

    async def _follow_nodes(self) -> None:
        assert self._nodes is not None
        version, refused = -1, None
        while True:
            if self._nodes.synced.is_set() and self._nodes.version != version:
                version = self._nodes.version
                async with self._loop_share.piece():
                    self._store.node_objects(self.entry.id, self._nodes.items)
                    self._has_accelerators = has_accelerators(self._nodes.items.values())
                self._describe()
            error = self._nodes.error
            reason = None if error is None else error.reason
            if reason is not refused:
                refused = reason
                if error is not None:
                    said = fields(cluster=self.entry.id, reason=error.reason.value, error=error.text)
                    log.warning("nodes cannot be watched", extra=said)
                self._describe()
            await asyncio.sleep(_NODES_SECONDS if version >= 0 else 0.1)

    def _take(self, saying: Saying) -> None:
        self._cover.hear(saying)
        try:
            self._store.take(self.entry.id, saying)
        except Exception:
            # One node's reading must not cost the others theirs.
            if saying.node not in self._not_taken:
                self._not_taken.add(saying.node)
                log.exception(
                    "a reading could not be stored",
                    extra=fields(cluster=self.entry.id, node=saying.node, source=saying.source.value),
                )
        else:
            if isinstance(saying, NodeReport | NodeUnchanged):
                self._not_taken.discard(saying.node)

    def _describe(self) -> None:
        self._store.describe(self.view)


_BY_THE_WAY = frozenset({Reason.UNREACHABLE, Reason.TIMEOUT, Reason.TLS, Reason.UNAUTHORIZED})


def _nothing() -> SourceOutcome | None:
    return None
