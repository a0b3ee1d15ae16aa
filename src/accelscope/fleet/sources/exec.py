"""The exec source, without agents: runs a vendor's tool in its driver pods."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from accelscope.fleet.api_server import ExecResult, Informer, Session
from accelscope.fleet.api_server.objects import DriverPod, pod_key
from accelscope.fleet.clusters import ExecEntry
from accelscope.fleet.rows import NodeFailure, NodeUnchanged, SourceKind, SourceOutcome, UpdateHandler
from accelscope.fleet.sources.round import (
    LoopThrottle,
    RefreshRound,
    RequestPacer,
    merge_errors,
    wait_for_discovery,
)
from accelscope.fleet.sources.snapshots import TEXT_LIMIT, make_report
from accelscope.kube.endpoint import KubeError, one_line
from accelscope.parsing import ParseError
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import CommandOutput, DriverTool, ToolReading

OUTPUT_LIMIT = 2 << 20  # bytes of one command
_MIN_FAILURES = 8  # in a row, before a refresh ends early
_MAX_ADDRESSES = 1024  # of devices of one node
_RENEWAL_SHARE = 0.9  # of the time to live, because refreshes do not begin at exact intervals


@dataclass(slots=True)
class _NodeState:
    """The state of one node."""

    read_at: float = float("-inf")  # monotonic clock
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
        loop_throttle: LoopThrottle,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`pods` has one informer for each namespace. `is_covered` returns whether an agent reports the GPUs
        of a node."""
        self._session = session
        self._pods = pods
        self._entry = entry
        self._is_covered = is_covered
        self._pace = RequestPacer(entry.per_second)
        self._loop_throttle = loop_throttle
        self._clock = clock
        self._monotonic = monotonic
        self._nodes: dict[str, _NodeState] = {}
        self._tools: dict[str, DriverTool] = {}  # by pod, because an upgrade replaces the pod
        self._sees_devices = False
        self.commands = 0  # run, since the start

    def sees_accelerators(self) -> bool:
        return self._sees_devices

    async def refresh(self, take: UpdateHandler) -> SourceOutcome:
        if (unknown := await wait_for_discovery(*self._pods)) is not None:
            return unknown
        pods = self._driver_pods()
        self._nodes = {node: known for node, known in self._nodes.items() if node in pods}
        there = {pod_key(pod) for pod in pods.values()}
        self._tools = {key: tool for key, tool in self._tools.items() if key in there}
        requested = {node: pod for node, pod in pods.items() if not self._is_covered(node)}
        refresh_round = RefreshRound(take, max_failures=max(self._entry.concurrency, _MIN_FAILURES))

        async def read(node: str) -> None:
            await self._read_node(node, requested[node], refresh_round)

        await refresh_round.run(requested, read, at_once=min(self._entry.concurrency, len(requested)))
        lost = self._lost(pods)
        if lost is None:
            return refresh_round.outcome(len(requested))
        if not pods:
            return SourceOutcome(up=False, reason=lost.reason, text=lost.text)
        return refresh_round.outcome(len(requested), reason=lost.reason, text=lost.text)

    async def close(self) -> None:
        for pods in self._pods:
            await pods.close()

    def _driver_pods(self) -> Mapping[str, DriverPod]:
        """One for each node; while a pod is replaced, the one that is ready."""
        found: dict[str, DriverPod] = {}
        for pods in self._pods:
            for pod in pods.items.values():
                if pod.node is not None and pod.container is not None:
                    before = found.get(pod.node)
                    if before is None or (pod.ready and not before.ready):
                        found[pod.node] = pod
        return found

    def _lost(self, found: Mapping[str, DriverPod]) -> KubeError | None:
        """The error if pods may be missing. A namespace that could never be listed does not matter if another
        one has pods."""
        return merge_errors(pods.error for pods in self._pods if not found or pods.synced.is_set())

    async def _read_node(self, node: str, pod: DriverPod, refresh_round: RefreshRound) -> None:
        known = self._nodes.setdefault(node, _NodeState())
        tool = self._tools.get(pod_key(pod)) or self._tools.setdefault(pod_key(pod), _tool_of(pod))
        began = self._monotonic()
        if began - known.read_at < _RENEWAL_SHARE * self._entry.ttl_seconds:
            refresh_round.report(NodeUnchanged(node=node, source=self.kind))
            return
        if not pod.ready:
            text = f"the driver's pod {pod.namespace}/{pod.name} is not ready"
            refresh_round.report(NodeFailure(node=node, source=self.kind, reason="not_ready", text=text))
            return
        try:
            taken_at = self._clock()
            reading = await self._read(pod, tool)
        except KubeError as error:
            refresh_round.report(
                NodeFailure(node=node, source=self.kind, reason=error.reason, text=error.text)
            )
            return
        failed = reading.devices.error
        if failed is not None and not reading.devices.devices and failed.reason != "no_devices":
            refresh_round.report(self._failure(node, tool, failed))
            return
        async with self._loop_throttle.piece():
            snapshot = tool.snapshot(
                node,
                reading,
                taken_at=taken_at,
                interval_seconds=self._entry.ttl_seconds,
                ids_by_address=known.ids_by_address,
            )
            update = make_report(node, self.kind, taken_at, snapshot)
            refresh_round.report(update)
        known.ids_by_address = _kept_ids(known.ids_by_address)
        if isinstance(update, NodeFailure):
            return
        known.read_at = began
        self._sees_devices = self._sees_devices or bool(snapshot.devices)

    async def _read(self, pod: DriverPod, tool: DriverTool) -> ToolReading:
        questions = tool.questions()
        command = next(questions)
        while True:
            result = await self._run(pod, command)
            try:
                command = questions.send(CommandOutput(_text(result), result.exit_code))
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
    """The last ones, without overlong texts: a tool may print others each time."""
    short = [item for item in by_address.items() if max(map(len, item)) <= TEXT_LIMIT]
    return dict(short[-_MAX_ADDRESSES:])


def _text(result: ExecResult) -> str:
    """The output; for a failed command without output, the error output."""
    text = result.stdout.decode("utf-8", "replace")
    if result.exit_code and not text.strip():
        return result.stderr.decode("utf-8", "replace")
    return text
