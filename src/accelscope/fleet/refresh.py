"""Keeps the store current: runs each cluster of the list, reloads the list, and drives the store's clock.

Each cluster has its own connections, limits and tasks, so that a failing cluster does not affect the others.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from accelscope.config import ConfigError
from accelscope.config.log import fields
from accelscope.fleet.api_server import Informer, Session
from accelscope.fleet.api_server.objects import (
    NodeObject,
    decode_agent_pod,
    decode_driver_pod,
    decode_node,
    pod_key,
)
from accelscope.fleet.clusters import AgentsEntry, ClusterEntry, ExecEntry
from accelscope.fleet.rows import (
    ClusterSource,
    ClusterView,
    NodeFailure,
    NodeReport,
    NodeUpdate,
    NodeValues,
    ReportNeeded,
    SourceKind,
    SourceOutcome,
)
from accelscope.fleet.sources.agents import AgentsSource, AgentTransport, DirectTransport, ProxyTransport
from accelscope.fleet.sources.annotations import AnnotationsSource
from accelscope.fleet.sources.exec import ExecSource
from accelscope.fleet.sources.prometheus import PrometheusSource
from accelscope.fleet.sources.round import LoopThrottle, Pacing, RequestPacer, SourceLoop
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.kube.endpoint import KubeError, Reason
from accelscope.kube.listwatch import all_nodes, pods_in
from accelscope.vendors import declarations

log = logging.getLogger(__name__)

# --- Reachability -------------------------------------------------------------

# Needs no permission and does not read etcd, but rejects invalid tokens.
_PROBE_PATH = "/version"
_ANSWER_LIMIT = 64 << 10
_RETRY_SECONDS = 5.0  # while the server is unreachable
# Errors from a server that is reachable and has authenticated the client.
_REACHABLE = frozenset({Reason.FORBIDDEN, Reason.NOT_FOUND, Reason.THROTTLED, Reason.TOO_LARGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachability:
    reachable: bool | None = None  # None: not tried yet
    reason: str | None = None
    text: str | None = None
    succeeded_at: float | None = None


class ReachabilityProbe:
    """Checks with one small request per interval that the API server responds and accepts the credentials. An
    open watch does not show this: it stays open after its token is revoked."""

    def __init__(
        self,
        session: Session,
        *,
        cluster: str,
        interval_seconds: float,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._cluster = cluster
        self._interval_seconds = interval_seconds
        self._changed = changed
        self._clock = clock
        self._wake = asyncio.Event()
        self.result = Reachability()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            await self._probe()
            up = self.result.reachable
            wait = self._interval_seconds if up else min(_RETRY_SECONDS, self._interval_seconds)
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def wake(self) -> None:
        self._wake.set()

    async def _probe(self) -> None:
        before = self.result
        try:
            await self._session.get(_PROBE_PATH, limit_bytes=_ANSWER_LIMIT)
        except KubeError as error:
            if error.reason not in _REACHABLE:
                self.result = Reachability(
                    reachable=False,
                    reason=error.reason.value,
                    text=error.text,
                    succeeded_at=before.succeeded_at,
                )
                if before.reachable is not False or before.reason != error.reason:
                    extra = fields(cluster=self._cluster, reason=error.reason.value, error=error.text)
                    log.warning("cluster is unreachable", extra=extra)
                self._changed()
                return
        self.result = Reachability(reachable=True, succeeded_at=self._clock())
        if not before.reachable:
            log.info("cluster is reachable", extra=fields(cluster=self._cluster))
        self._changed()


# --- Accelerators, according to Node objects ------------------------------------


# Node labels written by device plugins, operators, node-feature-discovery and the agent.
_LABEL = re.compile(
    "|".join(
        pattern
        for name, vendor in declarations().items()
        for pattern in (rf"accelscope\.io/{name}\.count", *vendor.node_labels)
    ),
    re.ASCII,
)
_FALSE = frozenset({"false", "0"})


def has_accelerators(nodes: Iterable[NodeObject]) -> bool:
    return any(any(node.accelerators.values()) or _is_labelled(node) for node in nodes)


def _is_labelled(node: NodeObject) -> bool:
    return any(value not in _FALSE and _LABEL.fullmatch(label) for label, value in node.labels.items())


# --- Agent coverage -------------------------------------------------------------


_INTERVALS_MISSED = 3


class AgentCoverage:
    """The nodes whose GPUs an agent reports, which therefore need no commands in driver pods.

    The age of the reading counts, not the time of the response: an agent whose collection hangs still
    responds that nothing has changed. Only vendors whose devices can be read in driver pods matter.
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.time) -> None:
        """A reading covers its node for `seconds`, or for three intervals of the agent if that is longer.
        `clock` returns seconds since the epoch."""
        self._seconds = seconds
        self._clock = clock
        # By node, in the order of the last reading: the end of its coverage, and the seconds of each reading.
        self._until: dict[str, tuple[float, float]] = {}

    def update(self, update: NodeUpdate) -> None:
        if update.source is not SourceKind.AGENTS:
            return
        if isinstance(update, NodeReport):
            self._until.pop(update.node, None)
            if any(declarations()[device.vendor].driver_pods for device in update.snapshot.devices):
                covered_seconds = max(
                    self._seconds, _INTERVALS_MISSED * (update.snapshot.interval_seconds or 0.0)
                )
                self._cover(update.node, update.taken_at, covered_seconds)
        elif isinstance(update, NodeValues):
            if (covered := self._until.pop(update.node, None)) is not None:
                self._cover(update.node, update.taken_at, covered[1])
        elif isinstance(update, NodeFailure) and update.incompatible:
            self._until.pop(update.node, None)

    def _cover(self, node: str, taken_at: float, seconds: float) -> None:
        self._until[node] = taken_at + seconds, seconds
        self._expire(next(iter(self._until)))  # drops removed nodes over time

    def __call__(self, node: str) -> bool:
        self._expire(node)
        return node in self._until

    def _expire(self, node: str) -> None:
        if node in self._until and self._clock() >= self._until[node][0]:
            del self._until[node]


# --- Sources ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenedSource:
    source: ClusterSource
    needs_api_server: bool  # cannot work while the API server is unreachable


def open_sources(
    entry: ClusterEntry,
    session: Session | None,
    nodes: Informer[NodeObject] | None,
    *,
    pacing: Pacing,
    loop_throttle: LoopThrottle,
    is_covered: Callable[[str], bool],
) -> list[OpenedSource]:
    """The sources of the entry, in order of precedence. Call it in a running loop; the caller closes them."""
    opened: list[OpenedSource] = []
    if session is not None and nodes is not None:
        if entry.agents is not None:
            agents = _agents(entry.agents, session, pacing, loop_throttle)
            opened.append(OpenedSource(agents, needs_api_server=entry.agents.via == "proxy"))
        if entry.exec is not None:
            commands = _exec(entry.exec, session, loop_throttle, is_covered)
            opened.append(OpenedSource(commands, needs_api_server=True))
        if entry.annotations is not None:
            opened.append(
                OpenedSource(AnnotationsSource(nodes, loop_throttle=loop_throttle), needs_api_server=True)
            )
    if entry.prometheus is not None:
        opened.append(
            OpenedSource(
                PrometheusSource(entry.prometheus, loop_throttle=loop_throttle), needs_api_server=False
            )
        )
    return opened


def _agents(
    entry: AgentsEntry, session: Session, pacing: Pacing, loop_throttle: LoopThrottle
) -> AgentsSource:
    reach: AgentTransport
    if entry.via == "direct":
        reach = DirectTransport(entry, connections=pacing.concurrency, timeout_seconds=pacing.timeout_seconds)
    else:
        reach = ProxyTransport(session, entry)
    return AgentsSource(
        session.informer(
            pods_in(entry.namespace, entry.label_selector), decode=decode_agent_pod, key=pod_key
        ),
        reach,
        pace=RequestPacer(pacing.per_second),
        loop_throttle=loop_throttle,
        concurrency=pacing.concurrency,
        token_file=entry.token_file,
    )


def _exec(
    entry: ExecEntry, session: Session, loop_throttle: LoopThrottle, is_covered: Callable[[str], bool]
) -> ExecSource:
    pods = [
        session.informer(
            pods_in(namespace),
            decode=decode_driver_pod,
            key=pod_key,
            keep=lambda pod: pod.container is not None,
        )
        for namespace in entry.namespaces
    ]
    return ExecSource(session, pods, entry, is_covered=is_covered, loop_throttle=loop_throttle)


# --- Cluster ----------------------------------------------------------------------


_NODES_SECONDS = 2.0  # between two checks of the Node informer


def declared_view(entry: ClusterEntry) -> ClusterView:
    """The view of a cluster that was not tried yet."""
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
        loop_throttle: LoopThrottle,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.entry = entry
        self.loops: tuple[SourceLoop, ...] = ()
        self._store = store
        self._pacing = pacing
        self._loop_throttle = loop_throttle
        self._clock = clock
        self._coverage = AgentCoverage(pacing.covered_seconds, clock=clock)
        self._probe: ReachabilityProbe | None = None
        self._nodes: Informer[NodeObject] | None = None
        self._has_accelerators = False  # according to its Node objects
        self._not_stored: set[str] = set()  # nodes whose reading could not be stored

    @property
    def tried(self) -> bool:
        """Whether the API server and all sources were tried once."""
        if self.entry.gpu == "false":
            return True
        probed = self._probe is None or self._probe.result.reachable is not None
        return bool(self.loops) and probed and all(loop.rounds for loop in self.loops)

    @property
    def view(self) -> ClusterView:
        reachability = self._reachability()
        view = declared_view(self.entry)
        return structs.replace(
            view,
            gpu=view.gpu if view.gpu is not None else self._gpu(),
            reachable=reachability.reachable,
            reason=reachability.reason,
            text=reachability.text,
            succeeded_at=reachability.succeeded_at,
            sources=[loop.view for loop in self.loops],
        )

    async def run(self) -> None:
        """Runs until cancelled. A cluster that is declared without accelerators is not contacted."""
        if self.entry.gpu == "false":
            self._describe()
            return
        async with AsyncExitStack() as stack:
            session: Session | None = None
            if self.entry.access is not None:
                session = Session(
                    self.entry.access,
                    connections=self._pacing.concurrency + 8,  # 8 more than for agents: lists and the probe
                    timeout_seconds=self._pacing.timeout_seconds,
                )
                stack.push_async_callback(session.close)
                self._probe = ReachabilityProbe(
                    session,
                    cluster=self.entry.id,
                    interval_seconds=self._pacing.interval_seconds,
                    changed=self._probed,
                    clock=self._clock,
                )
                self._nodes = session.informer(all_nodes(), decode=decode_node, key=lambda node: node.name)
                stack.push_async_callback(self._nodes.close)
            opened = open_sources(
                self.entry,
                session,
                self._nodes,
                pacing=self._pacing,
                loop_throttle=self._loop_throttle,
                is_covered=self._coverage,
            )
            self.loops = tuple(self._loop(one) for one in opened)
            for loop in self.loops:
                stack.push_async_callback(loop.close)
            async with asyncio.TaskGroup() as group:
                if self._probe is not None:
                    group.create_task(self._probe.run())
                    group.create_task(self._follow_nodes())
                for loop in self.loops:
                    group.create_task(self._run(loop))

    async def refresh(self) -> None:
        """Refreshes all sources now; returns when all have finished a round."""
        if self._probe is not None:
            self._probe.wake()
        await asyncio.gather(*(loop.refresh() for loop in self.loops))

    async def read_whole(self, node: str) -> None:
        """Reads the node's whole snapshot from its agent."""
        for loop in self.loops:
            if isinstance(loop.source, AgentsSource):
                try:
                    await loop.source.read_whole(node, loop.take)
                except Exception:
                    extra = fields(cluster=self.entry.id, node=node)
                    log.exception("unexpected error while reading a node", extra=extra)

    async def _run(self, loop: SourceLoop) -> None:
        """The exec source waits for the first round of agents, since it skips the nodes that they cover."""
        if loop.kind is SourceKind.EXEC:
            for other in self.loops:
                if other.kind is SourceKind.AGENTS:
                    await other.first_round.wait()
        await loop.run()

    def _loop(self, opened: OpenedSource) -> SourceLoop:
        return SourceLoop(
            opened.source,
            cluster=self.entry.id,
            take=self._take,
            on_change=self._describe,
            obstacle=self._unreachable if opened.needs_api_server else lambda: None,
            interval_seconds=self._pacing.interval_seconds,
            clock=self._clock,
        )

    def _unreachable(self) -> SourceOutcome | None:
        """The outcome of sources while the API server is unreachable: no requests, which would all time
        out."""
        reachability = self._reachability()
        if reachability.reachable is not False:
            return None
        return SourceOutcome(up=False, reason=reachability.reason, text=reachability.text)

    def _reachability(self) -> Reachability:
        if self._probe is not None:
            reachability = self._probe.result
            error = None if self._nodes is None else self._nodes.error
            if reachability.reachable and error is not None:
                return Reachability(
                    reachable=True,
                    reason=error.reason.value,
                    text=f"nodes: {error.text}",
                    succeeded_at=reachability.succeeded_at,
                )
            return reachability
        views = [loop.view for loop in self.loops]
        times = [view.succeeded_at for view in views if view.succeeded_at is not None]
        down = next((view for view in views if view.up is False), None)
        tried = any(view.up is not None for view in views)
        return Reachability(
            reachable=any(view.up for view in views) if tried else None,
            reason=None if down is None else down.reason,
            text=None if down is None else down.text,
            succeeded_at=max(times, default=None),
        )

    def _probed(self) -> None:
        """Wakes sources that failed because the server was unreachable, once it responds again."""
        assert self._probe is not None
        if self._probe.result.reachable:
            for loop in self.loops:
                if loop.view.up is False and loop.view.reason in _CONNECTION_REASONS:
                    loop.wake()
        self._describe()

    def _gpu(self) -> bool | None:
        if self._has_accelerators or any(loop.source.sees_accelerators() for loop in self.loops):
            return True
        listed = self._nodes is None or self._nodes.synced.is_set()
        return False if self.tried and listed else None

    async def _follow_nodes(self) -> None:
        assert self._nodes is not None
        version, last_reason = -1, None
        while True:
            if self._nodes.synced.is_set() and self._nodes.version != version:
                version = self._nodes.version
                async with self._loop_throttle.piece():
                    self._store.node_objects(self.entry.id, self._nodes.items)
                    self._has_accelerators = has_accelerators(self._nodes.items.values())
                self._describe()
            error = self._nodes.error
            reason = None if error is None else error.reason
            if reason is not last_reason:
                last_reason = reason
                if error is not None:
                    extra = fields(cluster=self.entry.id, reason=error.reason.value, error=error.text)
                    log.warning("cannot watch nodes", extra=extra)
                self._describe()
            await asyncio.sleep(_NODES_SECONDS if version >= 0 else 0.1)

    def _take(self, update: NodeUpdate) -> None:
        """Raises ReportNeeded."""
        self._coverage.update(update)
        try:
            self._store.take(self.entry.id, update)
        except ReportNeeded:
            raise
        except Exception:
            # A fault with one reading must not affect other nodes.
            if update.node not in self._not_stored:
                self._not_stored.add(update.node)
                log.exception(
                    "unexpected error while storing a reading",
                    extra=fields(cluster=self.entry.id, node=update.node, source=update.source.value),
                )
        else:
            if not isinstance(update, NodeFailure):
                self._not_stored.discard(update.node)

    def _describe(self) -> None:
        self._store.describe(self.view)


_CONNECTION_REASONS = frozenset({Reason.UNREACHABLE, Reason.TIMEOUT, Reason.TLS, Reason.UNAUTHORIZED})

# --- All clusters of the list -------------------------------------------------

READY_AFTER_SECONDS = 30.0  # even if some clusters were not tried yet
_TICK_SECONDS = 1.0
_WHOLE_SECONDS = 2.0  # how long a request for details waits for an agent
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
        self._whole: dict[tuple[str, str], asyncio.Task[None]] = {}  # by cluster and node
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

    async def read_whole(self, cluster: str, node: str) -> None:
        """Makes the stored snapshot of the node as new as its rows, or returns after a deadline."""
        run = self._runs.get(cluster)
        if run is None or not self._store.has_newer_values(cluster, node):
            return
        key = cluster, node
        if key not in self._whole:
            self._whole[key] = asyncio.create_task(run.read_whole(node))
            self._whole[key].add_done_callback(lambda _: self._whole.pop(key, None))
        with suppress(TimeoutError):
            async with asyncio.timeout(_WHOLE_SECONDS):
                await asyncio.shield(self._whole[key])

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
