"""Agentless: a vendor's tool in its driver pods, where no agent reports the node."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from accelscope.fleet.api_server import ExecResult, Informer, Session
from accelscope.fleet.api_server.objects import DriverPod, pod_key
from accelscope.fleet.clusters import ExecEntry
from accelscope.fleet.rows import NodeFailure, NodeUnchanged, SourceKind, SourceOutcome, Take
from accelscope.fleet.sources.round import LoopShare, Pace, Round, joined, not_found_yet
from accelscope.fleet.sources.snapshots import TEXT_LIMIT, reported
from accelscope.kube.errors import KubeError, one_line
from accelscope.parsing import ParseError
from accelscope.vendors import declarations
from accelscope.vendors.common.agentless import DriverTool, ToolOutput, ToolReading

OUTPUT_LIMIT = 2 << 20  # bytes of one command
_LEAST_PATIENCE = 8  # failures in a row
_MOST_ADDRESSES = 1024  # of devices, remembered of one node
_RENEWED_EARLY = 0.9  # of its time to live: a round that begins a little early is not for nothing


@dataclass(slots=True)
class _Node:
    """What is remembered of one node."""

    asked_at: float = float("-inf")  # by the steady clock, of the last good answer
    ids_by_address: dict[str, str] = field(default_factory=dict)


class ExecSource:
    kind = SourceKind.EXEC

    def __init__(
        self,
        session: Session,
        pods: Sequence[Informer[DriverPod]],
        entry: ExecEntry,
        *,
        is_covered: Callable[[str], bool],
        loop_share: LoopShare,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`pods`: one for each namespace. `is_covered`: whether an agent tells of a node's GPUs."""
        self._session = session
        self._pods = pods
        self._entry = entry
        self._is_covered = is_covered
        self._pace = Pace(entry.per_second)
        self._loop_share = loop_share
        self._clock = clock
        self._monotonic = monotonic
        self._nodes: dict[str, _Node] = {}
        self._tools: dict[str, DriverTool] = {}  # by pod: after an upgrade there is another
        self._sees_devices = False
        self.commands = 0  # run, since the start

    def sees_accelerators(self) -> bool:
        return self._sees_devices

    async def refresh(self, take: Take) -> SourceOutcome:
        if (unknown := await not_found_yet(*self._pods)) is not None:
            return unknown
        pods = self._driver_pods()
        self._nodes = {node: known for node, known in self._nodes.items() if node in pods}
        there = {pod_key(pod) for pod in pods.values()}
        self._tools = {key: tool for key, tool in self._tools.items() if key in there}
        asked = {node: pod for node, pod in pods.items() if not self._is_covered(node)}
        this = Round(take, patience=max(self._entry.concurrency, _LEAST_PATIENCE))

        async def ask(node: str) -> None:
            await self._ask_node(node, asked[node], this)

        await this.over(asked, ask, at_once=min(self._entry.concurrency, len(asked)))
        lost = self._lost(pods)
        if lost is None:
            return this.outcome(len(asked))
        if not pods:
            return SourceOutcome(up=False, reason=lost.reason, text=lost.text)
        return this.outcome(len(asked), reason=lost.reason, text=lost.text)

    async def close(self) -> None:
        for pods in self._pods:
            await pods.close()

    def _driver_pods(self) -> Mapping[str, DriverPod]:
        """One for each node; while a pod is replaced by another, the one that is ready."""
        found: dict[str, DriverPod] = {}
        for pods in self._pods:
            for pod in pods.items.values():
                if pod.node is not None and pod.container is not None:
                    before = found.get(pod.node)
                    if before is None or (pod.ready and not before.ready):
                        found[pod.node] = pod
        return found

    def _lost(self, found: Mapping[str, DriverPod]) -> KubeError | None:
        """Why pods may be missing in what was found. A namespace that could never be looked into is nobody's
        loss where another has them."""
        return joined(pods.error for pods in self._pods if not found or pods.synced.is_set())

    async def _ask_node(self, node: str, pod: DriverPod, this: Round) -> None:
        known = self._nodes.setdefault(node, _Node())
        tool = self._tools.get(pod_key(pod)) or self._tools.setdefault(pod_key(pod), _tool_of(pod))
        began = self._monotonic()
        if began - known.asked_at < _RENEWED_EARLY * self._entry.ttl_seconds:
            this.say(NodeUnchanged(node=node, source=self.kind))
            return
        if not pod.ready:
            text = f"the driver's pod {pod.namespace}/{pod.name} is not ready"
            this.say(NodeFailure(node=node, source=self.kind, reason="not_ready", text=text))
            return
        try:
            taken_at = self._clock()
            reading = await self._read(pod, tool)
        except KubeError as error:
            this.say(NodeFailure(node=node, source=self.kind, reason=error.reason, text=error.text))
            return
        failed = reading.devices.error
        if failed is not None and not reading.devices.devices and failed.reason != "no_devices":
            this.say(self._failure(node, tool, failed))
            return
        async with self._loop_share.piece():
            snapshot = tool.snapshot(
                node,
                reading,
                taken_at=taken_at,
                interval_seconds=self._entry.ttl_seconds,
                ids_by_address=known.ids_by_address,
            )
            saying = reported(node, self.kind, taken_at, snapshot)
            this.say(saying)
        known.ids_by_address = _kept_ids(known.ids_by_address)
        if isinstance(saying, NodeFailure):
            return
        known.asked_at = began
        self._sees_devices = self._sees_devices or bool(snapshot.devices)

    async def _read(self, pod: DriverPod, tool: DriverTool) -> ToolReading:
        questions = tool.questions()
        command = next(questions)
        while True:
            result = await self._run(pod, command)
            try:
                command = questions.send(ToolOutput(_text(result), result.exit_code))
            except StopIteration as end:
                reading: ToolReading = end.value
                return reading

    async def _run(self, pod: DriverPod, command: Sequence[str]) -> ExecResult:
        assert pod.container is not None
        await self._pace.wait()
        self.commands += 1
        return await self._session.exec(
            pod.namespace,
            pod.name,
            pod.container,
            command,
            timeout_seconds=self._entry.timeout_seconds,
            limit_bytes=OUTPUT_LIMIT,
        )

    def _failure(self, node: str, tool: DriverTool, error: ParseError) -> NodeFailure:
        return NodeFailure(
            node=node, source=self.kind, reason=error.reason, text=f"{tool.name}: {one_line(error.text)}"
        )


def _tool_of(pod: DriverPod) -> DriverTool:
    assert pod.vendor is not None
    declared = declarations()[pod.vendor]
    assert declared.driver_pods is not None
    made: DriverTool = declared.load(declared.driver_pods.tool)()
    return made


def _kept_ids(by_address: dict[str, str]) -> dict[str, str]:
    """The last ones, without texts that no report would hold: a tool may print others each time."""
    short = [item for item in by_address.items() if max(map(len, item)) <= TEXT_LIMIT]
    return dict(short[-_MOST_ADDRESSES:])


def _text(result: ExecResult) -> str:
    """Messages may stand in either; rows stand in the first."""
    text = result.stdout.decode("utf-8", "replace")
    if result.exit_code and not text.strip():
        return result.stderr.decode("utf-8", "replace")
    return text
