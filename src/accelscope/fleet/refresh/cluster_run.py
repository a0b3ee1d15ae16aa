"""One cluster: its session, its Node watch and its sources, from when it is in the list until it leaves.

Whatever a cluster does stays here: it has its own connections, its own limits and its own tasks.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from msgspec import structs

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
from accelscope.fleet.refresh.source_loop import Pacing, SourceLoop
from accelscope.fleet.rows import (
    ClusterSource,
    ClusterView,
    NodeFailure,
    NodeReport,
    NodeUnchanged,
    NodeUpdate,
    SourceKind,
    SourceOutcome,
)
from accelscope.fleet.sources.agents import AgentsSource, DirectReach, ProxyReach, Reach
from accelscope.fleet.sources.annotations import AnnotationsSource
from accelscope.fleet.sources.exec import ExecSource
from accelscope.fleet.sources.prometheus import PrometheusSource
from accelscope.fleet.sources.round import LoopThrottle, Pace
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.listwatch import all_nodes, pods_in
from accelscope.vendors import declarations

# --- beat ------------------------------------------------------------
# Whether an API server answers and takes our credentials: one small request each interval.
#
# Watches do not tell: one that is open stays so after its token was revoked.


log = logging.getLogger(__name__)

# Public, made without asking the store behind the server; and a bad token is refused here too.
_PATH = "/version"
_ANSWER_LIMIT = 64 << 10
_SOONER_SECONDS = 5.0  # while it is out of reach
# Said by a server that is there, and that knows who asks.
_THERE = frozenset({Reason.FORBIDDEN, Reason.NOT_FOUND, Reason.THROTTLED, Reason.TOO_LARGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachability:
    reachable: bool | None = None  # None: not tried yet
    reason: str | None = None
    text: str | None = None
    succeeded_at: float | None = None


class ReachabilityProbe:
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
        self._sooner = asyncio.Event()
        self.standing = Reachability()

    async def run(self) -> None:
        while True:
            self._sooner.clear()
            await self._ask()
            up = self.standing.reachable
            wait = self._interval_seconds if up else min(_SOONER_SECONDS, self._interval_seconds)
            try:
                async with asyncio.timeout(wait):
                    await self._sooner.wait()
            except TimeoutError:
                continue

    def ask_soon(self) -> None:
        self._sooner.set()

    async def _ask(self) -> None:
        before = self.standing
        try:
            await self._session.get(_PATH, limit_bytes=_ANSWER_LIMIT)
        except KubeError as error:
            if error.reason not in _THERE:
                self.standing = Reachability(
                    reachable=False,
                    reason=error.reason.value,
                    text=error.text,
                    succeeded_at=before.succeeded_at,
                )
                if before.reachable is not False or before.reason != error.reason:
                    said = fields(cluster=self._cluster, reason=error.reason.value, error=error.text)
                    log.warning("a cluster is out of reach", extra=said)
                self._changed()
                return
        self.standing = Reachability(reachable=True, succeeded_at=self._clock())
        if not before.reachable:
            log.info("a cluster is within reach", extra=fields(cluster=self._cluster))
        self._changed()


# --- capability ------------------------------------------------------------
# Whether a cluster has accelerators, by its Node objects.


# What device plugins, operators, discovery and our own agent write.
_LABEL = re.compile(
    "|".join(
        pattern
        for name, vendor in declarations().items()
        for pattern in (rf"accelscope\.io/{name}\.count", *vendor.node_labels)
    ),
    re.ASCII,
)
_NO = frozenset({"false", "0"})


def has_accelerators(nodes: Iterable[NodeObject]) -> bool:
    return any(any(node.accelerators.values()) or _is_labelled(node) for node in nodes)


def _is_labelled(node: NodeObject) -> bool:
    return any(value not in _NO and _LABEL.fullmatch(label) for label, value in node.labels.items())


# --- cover ------------------------------------------------------------
# Which nodes' GPUs an agent tells of: they need not be asked by other means.
#
# By the age of what it read, not by when it answered: an agent whose collection hangs goes on answering that
# nothing has changed.


_INTERVALS_MISSED = 3


class AgentCoverage:
    """Of the vendors whose devices can be read in driver pods."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.time) -> None:
        """For so many seconds, or three of the agent's intervals where that is longer. `clock` as that of
        readings, in seconds since the epoch."""
        self._seconds = seconds
        self._clock = clock
        self._until: dict[str, float] = {}  # by node; the last that was heard of is last

    def hear(self, saying: NodeUpdate) -> None:
        if saying.source is not SourceKind.AGENTS:
            return
        if isinstance(saying, NodeReport):
            self._until.pop(saying.node, None)
            if any(declarations()[device.vendor].driver_pods for device in saying.snapshot.devices):
                patience = max(self._seconds, _INTERVALS_MISSED * (saying.snapshot.interval_seconds or 0.0))
                self._until[saying.node] = saying.taken_at + patience
                self._forget(next(iter(self._until)))  # of one that has left nobody else asks
        elif isinstance(saying, NodeFailure) and saying.incompatible:
            self._until.pop(saying.node, None)

    def __call__(self, node: str) -> bool:
        self._forget(node)
        return node in self._until

    def _forget(self, node: str) -> None:
        """If its time is over."""
        if node in self._until and self._clock() >= self._until[node]:
            del self._until[node]


# --- open sources ------------------------------------------------------------
# The sources that a cluster's entry names, opened.


@dataclass(frozen=True, slots=True)
class OpenedSource:
    source: ClusterSource
    by_api_server: bool  # nothing of it can be had while the API server is out of reach


def open_sources(
    entry: ClusterEntry,
    session: Session | None,
    nodes: Informer[NodeObject] | None,
    *,
    pacing: Pacing,
    loop_share: LoopThrottle,
    is_covered: Callable[[str], bool],
) -> list[OpenedSource]:
    """In the order of precedence. To be called in a running loop; each is to be closed."""
    opened: list[OpenedSource] = []
    if session is not None and nodes is not None:
        if entry.agents is not None:
            agents = _agents(entry.agents, session, pacing, loop_share)
            opened.append(OpenedSource(agents, by_api_server=entry.agents.via == "proxy"))
        if entry.exec is not None:
            commands = _exec(entry.exec, session, loop_share, is_covered)
            opened.append(OpenedSource(commands, by_api_server=True))
        if entry.annotations is not None:
            opened.append(OpenedSource(AnnotationsSource(nodes, loop_share=loop_share), by_api_server=True))
    if entry.prometheus is not None:
        opened.append(
            OpenedSource(PrometheusSource(entry.prometheus, loop_share=loop_share), by_api_server=False)
        )
    return opened


def _agents(entry: AgentsEntry, session: Session, pacing: Pacing, loop_share: LoopThrottle) -> AgentsSource:
    reach: Reach
    if entry.via == "direct":
        reach = DirectReach(entry, connections=pacing.concurrency, timeout_seconds=pacing.timeout_seconds)
    else:
        reach = ProxyReach(session, entry)
    return AgentsSource(
        session.follow(pods_in(entry.namespace, entry.label_selector), decode=decode_agent_pod, key=pod_key),
        reach,
        pace=Pace(pacing.per_second),
        loop_share=loop_share,
        concurrency=pacing.concurrency,
        token_file=entry.token_file,
    )


def _exec(
    entry: ExecEntry, session: Session, loop_share: LoopThrottle, is_covered: Callable[[str], bool]
) -> ExecSource:
    pods = [
        session.follow(
            pods_in(namespace),
            decode=decode_driver_pod,
            key=pod_key,
            keep=lambda pod: pod.container is not None,
        )
        for namespace in entry.namespaces
    ]
    return ExecSource(session, pods, entry, is_covered=is_covered, loop_share=loop_share)


_NODES_SECONDS = 2.0  # between two looks at the Node watch


def declared_view(entry: ClusterEntry) -> ClusterView:
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
        loop_share: LoopThrottle,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.entry = entry
        self.loops: tuple[SourceLoop, ...] = ()
        self._store = store
        self._pacing = pacing
        self._loop_share = loop_share
        self._clock = clock
        self._cover = AgentCoverage(pacing.covered_seconds, clock=clock)
        self._beat: ReachabilityProbe | None = None
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
        view = declared_view(self.entry)
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
                self._beat = ReachabilityProbe(
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

    def _loop(self, opened: OpenedSource) -> SourceLoop:
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

    def _standing(self) -> Reachability:
        if self._beat is not None:
            standing = self._beat.standing
            lost = None if self._nodes is None else self._nodes.error
            if standing.reachable and lost is not None:
                return Reachability(
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
        return Reachability(
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

    def _take(self, saying: NodeUpdate) -> None:
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
