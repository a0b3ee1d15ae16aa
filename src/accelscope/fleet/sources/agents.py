"""The agents source: a watch discovers the pods of agents, and their snapshots are read at `/snapshot`.

An agent reports the age of its reading, so that clocks need not be synchronised, and responds with 304
if it has no new reading.
"""

import asyncio
import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Protocol, TypeGuard

import msgspec
from msgspec import Struct, structs

from accelscope.files import open_regular
from accelscope.fleet.api_server import Informer, Reply, Session, pod_proxy_path
from accelscope.fleet.api_server.objects import AgentPod, pod_key
from accelscope.fleet.clusters import AddressAccess, AgentsEntry
from accelscope.fleet.rows import (
    NodeFailure,
    NodeReport,
    NodeUnchanged,
    ReportNeeded,
    SourceKind,
    SourceOutcome,
    UpdateHandler,
)
from accelscope.fleet.sources.round import (
    LoopThrottle,
    RefreshRound,
    RequestPacer,
    is_temporary,
    wait_for_discovery,
)
from accelscope.fleet.sources.snapshots import (
    AgentSnapshot,
    BadDocument,
    DecodedSnapshot,
    IncompatibleSchema,
    SnapshotTooLarge,
    decode_light,
    decode_snapshot,
    decode_update,
    make_report,
    merge_agents,
)
from accelscope.kube.endpoint import KubeError, Reason, one_line
from accelscope.model import Snapshot
from accelscope.model.update import CONTENT_TYPE as UPDATE_TYPE
from accelscope.model.update import NO_STRUCTURE, STRUCTURE_HEADER

_PATH = "/snapshot"
_PORT_NAME = "metrics"  # of the agent's container, by our chart


class AgentTransport(Protocol):
    """`get` raises KubeError. The limit applies to the decompressed body."""

    async def get(self, pod: AgentPod, headers: Mapping[str, str], limit_bytes: int) -> Reply: ...

    async def close(self) -> None: ...


class ProxyTransport:
    """Requests through the API server's pod proxy. Needs permission for `pods/proxy`, and the API server must
    reach the port of the agents."""

    def __init__(self, session: Session, entry: AgentsEntry) -> None:
        self._session = session
        self._entry = entry

    async def get(self, pod: AgentPod, headers: Mapping[str, str], limit_bytes: int) -> Reply:
        path = pod_proxy_path(pod.namespace, pod.name, port_of(pod, self._entry), _PATH, self._entry.scheme)
        return await self._session.get(path, headers=headers, limit_bytes=limit_bytes)

    async def close(self) -> None:
        """The session belongs to the cluster."""


class DirectTransport:
    """Requests to the addresses of the pods, with one connection pool for all agents of a cluster."""

    def __init__(self, entry: AgentsEntry, *, connections: int, timeout_seconds: float) -> None:
        self._entry = entry
        access = AddressAccess(
            url=f"{entry.scheme}://agents.invalid",  # each request has its own address
            ca_file=entry.ca_file,
            insecure_skip_tls_verify=entry.insecure_skip_tls_verify,
            tls_server_name=entry.tls_server_name,
            client_certificate_file=entry.client_certificate_file,
            client_key_file=entry.client_key_file,
            plain_http=True,
        )
        # Without the environment: its proxy settings do not apply to addresses of pods.
        self._session = Session(access, connections=connections, timeout_seconds=timeout_seconds, environ={})

    async def get(self, pod: AgentPod, headers: Mapping[str, str], limit_bytes: int) -> Reply:
        if pod.ip is None:
            raise KubeError(Reason.UNREACHABLE, f"the pod {pod.name} has no address")
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        at = f"{self._entry.scheme}://{host}:{port_of(pod, self._entry)}"
        return await self._session.get(_PATH, headers=headers, limit_bytes=limit_bytes, at=at)

    async def close(self) -> None:
        await self._session.close()


def port_of(pod: AgentPod, entry: AgentsEntry) -> int:
    """The port of the entry if it is not the default, else the named port of the pod."""
    default = AgentsEntry().port
    return entry.port if entry.port != default else pod.ports.get(_PORT_NAME, default)


AGE_HEADER = "x-accelscope-age"
_STRUCTURE = STRUCTURE_HEADER.lower()
TOKEN_HEADER = "X-AccelScope-Token"  # noqa: S105 - a header: the pod proxy drops Authorization
_TOKEN_LIMIT = 64 << 10  # bytes of the file
_MIN_FAILURES = 16  # in a row, before a refresh ends early
# The document of a node with eight devices is about 100 KB. Few larger documents are received at a time, so
# that a cluster with many of them does not fill the memory.
_SMALL_BYTES = 1 << 20
_MAX_BYTES = 16 << 20
_LARGE_AT_ONCE = 2
_SKIP_SECONDS = 300.0  # an agent that sends even more is skipped
# Compressed, of all agents in one cluster that share a node with others: their last readings are stored here.
_STORED_BYTES_LIMIT = 256 << 20
_NOT_MODIFIED = 304
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_SNAPSHOT = msgspec.json.Decoder(Snapshot)


class _StoredAgentReading(Struct, frozen=True, kw_only=True, gc=False):
    """The last reading of an agent that shares its node with others: it is merged with theirs whenever one of
    them has a new reading. Compressed, because objects take ten times the memory."""

    document: bytes  # gzip or zlib
    taken_at: float
    remark: str | None
    failure: str | None = None  # of the last request

    def decompressed(self) -> AgentSnapshot:
        return AgentSnapshot(
            snapshot=_SNAPSHOT.decode(zlib.decompress(self.document, _GZIP_OR_ZLIB)),
            taken_at=self.taken_at,
            failure=self.failure,
            remark=self.remark,
        )


class _AgentState(Struct, gc=False):
    """The state of one pod."""

    tag: str | None = None
    structure: str | None = None  # of its last snapshot
    large: bool = False  # its document exceeds _SMALL_BYTES
    skipped_until: float = float("-inf")  # monotonic clock
    last: _StoredAgentReading | None = None  # only where a node has several agents


@dataclass(frozen=True, slots=True)
class _AgentResponse:
    reply: Reply
    received_at: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class _AgentFailure:
    reason: str
    text: str
    incompatible: bool = False


class AgentsSource:
    kind = SourceKind.AGENTS

    def __init__(
        self,
        pods: Informer[AgentPod],
        transport: AgentTransport,
        *,
        pace: RequestPacer,
        loop_throttle: LoopThrottle,
        concurrency: int,
        token_file: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pods = pods
        self._transport = transport
        self._pace = pace
        self._loop_throttle = loop_throttle
        self._concurrency = concurrency
        self._token_file = token_file
        self._clock = clock
        # Per cluster: a slow cluster must not delay the others. The loop throttle limits decoding over all
        # clusters.
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)  # acquired to receive and decode a large response
        self._agents: dict[str, _AgentState] = {}
        self._stored_bytes = 0
        self._sees_devices = False

    def sees_accelerators(self) -> bool:
        return self._sees_devices

    async def refresh(self, take: UpdateHandler) -> SourceOutcome:
        if (unknown := await wait_for_discovery(self._pods)) is not None:
            return unknown
        try:
            headers = self._token_header()
        except OSError as error:
            text = f"{self._token_file}: {error.strerror or 'not a token'}"
            return SourceOutcome(up=False, reason=Reason.UNAUTHORIZED, text=text)
        pods = self._pods.items
        self._agents = {key: agent for key, agent in self._agents.items() if key in pods}
        kept = (agent.last for agent in self._agents.values())
        self._stored_bytes = sum(len(last.document) for last in kept if last is not None)
        nodes: dict[str, list[AgentPod]] = {}
        for pod in pods.values():
            if pod.node is not None:
                nodes.setdefault(pod.node, []).append(pod)
        refresh_round = RefreshRound(take, max_failures=max(self._concurrency, _MIN_FAILURES))

        async def read(node: str) -> None:
            await self._read_node(node, nodes[node], headers, refresh_round)

        await refresh_round.run(nodes, read, at_once=min(self._concurrency, len(nodes)))
        lost = self._pods.error  # the list of pods may be outdated
        if lost is not None:
            return refresh_round.outcome(len(nodes), reason=lost.reason, text=lost.text)
        return refresh_round.outcome(len(nodes))

    async def read_whole(self, node: str, take: UpdateHandler) -> None:
        """Reads the node's whole snapshot, although only its values may have changed."""
        pods = [pod for pod in self._pods.items.values() if pod.node == node]
        if len(pods) != 1:
            return  # readings of several agents are whole
        agent = self._agent(pods[0])
        agent.tag = agent.structure = None
        with suppress(OSError):  # the next refresh reports it
            await self._read_node(node, pods, self._token_header(), RefreshRound(take, max_failures=1))

    async def close(self) -> None:
        await self._pods.close()
        await self._transport.close()

    async def _read_node(
        self, node: str, pods: list[AgentPod], headers: Mapping[str, str], refresh_round: RefreshRound
    ) -> None:
        ready = [pod for pod in pods if pod.ready]
        if not ready:
            text = f"the agent's pod {pods[0].name} is not ready"
            refresh_round.report(NodeFailure(node=node, source=self.kind, reason="not_ready", text=text))
            return
        # Devices of an agent that is not ready are still listed if another agent of the node is ready.
        requested = [
            pod for pod in pods if pod.ready or (len(pods) > 1 and self._agent(pod).last is not None)
        ]
        if not any(self._agent(pod).large for pod in requested):
            responses = await self._request_all(requested, headers)
            if not any(self._agent(pod).large for pod in requested):
                await self._report(node, requested, responses, headers, refresh_round)
                return
        async with self._large:
            responses = [await self._request(pod, headers, requested, _MAX_BYTES) for pod in requested]
            await self._report(node, requested, responses, headers, refresh_round)

    async def _request_all(
        self, pods: Sequence[AgentPod], headers: Mapping[str, str]
    ) -> Sequence[_AgentResponse | _AgentFailure]:
        requested = [self._request(pod, headers, pods, _SMALL_BYTES) for pod in pods]
        if len(requested) == 1:  # without a task: there may be ten thousand nodes
            return [await requested[0]]
        return await asyncio.gather(*requested)

    async def _request(
        self, pod: AgentPod, headers: Mapping[str, str], requested: Sequence[AgentPod], limit_bytes: int
    ) -> _AgentResponse | _AgentFailure:
        agent = self._agent(pod)
        if not pod.ready:
            return _AgentFailure("not_ready", f"the agent's pod {pod.name} is not ready")
        if time.monotonic() < agent.skipped_until:
            return _AgentFailure(Reason.TOO_LARGE, f"{pod.name} sends more than {_MAX_BYTES} bytes")
        if agent.tag is not None and (agent.last is not None or len(requested) == 1):
            headers = {**headers, "If-None-Match": agent.tag}
        if len(requested) == 1:
            headers = {**headers, STRUCTURE_HEADER: agent.structure or NO_STRUCTURE}
        await self._loop_throttle.wait(self._pace)
        try:
            reply = await self._transport.get(pod, headers, limit_bytes)
        except KubeError as error:
            agent.large = error.reason is Reason.TOO_LARGE
            if agent.large and limit_bytes == _MAX_BYTES:
                agent.skipped_until = time.monotonic() + _SKIP_SECONDS
            return _AgentFailure(error.reason, error.text)
        if reply.status != _NOT_MODIFIED:
            agent.large = len(reply.body) > _SMALL_BYTES
        return _AgentResponse(reply, self._clock())

    async def _report(
        self,
        node: str,
        pods: Sequence[AgentPod],
        responses: Sequence[_AgentResponse | _AgentFailure],
        headers: Mapping[str, str],
        refresh_round: RefreshRound,
    ) -> None:
        if len(pods) > 1:
            async with self._loop_throttle.piece():
                self._report_merged(node, pods, responses, refresh_round)
        elif _is_unchanged(responses[0]):
            refresh_round.report(NodeUnchanged(node=node, source=self.kind))
        elif _is_update(responses[0]) and self._agent(pods[0]).structure is None:
            text = f"{pods[0].name} sent an update without being asked for one"
            refresh_round.report(self._failure(node, _AgentFailure(Reason.BAD_ANSWER, text)))
        elif _is_update(responses[0]):
            await self._loop_throttle.turn()
            if not self._report_values(node, pods[0], responses[0], refresh_round):
                await self._read_node(node, list(pods), headers, refresh_round)
        else:
            async with self._loop_throttle.piece():
                self._report_single(node, pods[0], responses[0], refresh_round)

    def _agent(self, pod: AgentPod) -> _AgentState:
        return self._agents.setdefault(pod_key(pod), _AgentState())

    def _report_values(
        self, node: str, pod: AgentPod, response: _AgentResponse, refresh_round: RefreshRound
    ) -> bool:
        """False: they cannot be used, and the agent must send the whole snapshot."""
        agent, reply = self._agent(pod), response.reply
        taken_at = _taken_at(reply.headers, response.received_at, response.received_at)
        try:
            values = decode_update(
                reply.body,
                node=node,
                source=self.kind,
                taken_at=taken_at,
                structure=reply.headers.get(_STRUCTURE, ""),
            )
            refresh_round.report(values)
        except (BadDocument, ReportNeeded):
            agent.tag = agent.structure = None
            return False
        agent.tag = reply.headers.get("etag")
        return True

    def _report_single(
        self, node: str, pod: AgentPod, response: _AgentResponse | _AgentFailure, refresh_round: RefreshRound
    ) -> None:
        read = self._read(pod, response, decode_light)
        if isinstance(read, _AgentFailure):
            refresh_round.report(self._failure(node, read))
            return
        reading, document = read
        assert isinstance(response, _AgentResponse)
        headers = response.reply.headers
        # A snapshot with omitted parts has other rows than the agent's.
        structure = headers.get(_STRUCTURE) if reading.whole else None
        refresh_round.report(
            NodeReport(
                node=node,
                source=self.kind,
                taken_at=reading.taken_at,
                snapshot=reading.snapshot,
                structure=structure,
                document=document,
                remark=reading.remark,
            )
        )
        # Only after the report was accepted: sending the tag means that we have the reading.
        agent = self._agent(pod)
        agent.tag, agent.structure, agent.last = headers.get("etag"), structure, None

    def _report_merged(
        self,
        node: str,
        pods: Sequence[AgentPod],
        responses: Sequence[_AgentResponse | _AgentFailure],
        refresh_round: RefreshRound,
    ) -> None:
        failures: list[_AgentFailure] = []
        changed = False
        for pod, response in zip(pods, responses, strict=True):
            agent = self._agent(pod)
            if _is_unchanged(response):
                if agent.last is not None and agent.last.failure is not None:
                    changed = True
                    agent.last = structs.replace(agent.last, failure=None)
                continue
            changed = True
            failure = self._store_reading(pod, agent, response)
            if failure is not None:
                failures.append(failure)
                if agent.last is not None:
                    agent.last = structs.replace(agent.last, failure=failure.text)
        if len(failures) == len(pods):
            refresh_round.report(self._failure(node, _merged_failure(failures)))
        elif not changed:
            refresh_round.report(NodeUnchanged(node=node, source=self.kind))
        else:
            kept = (self._agent(pod).last for pod in pods)
            self._report_update(
                node,
                pods,
                merge_agents([last.decompressed() for last in kept if last is not None]),
                refresh_round,
            )

    def _store_reading(
        self, pod: AgentPod, agent: _AgentState, response: _AgentResponse | _AgentFailure
    ) -> _AgentFailure | None:
        """Stores the reading of one agent of several; returns the failure if there is none."""
        read = self._read(pod, response, decode_snapshot)
        if isinstance(read, _AgentFailure):
            return read
        reading, document = read
        document = document or zlib.compress(msgspec.json.encode(reading.snapshot), 1)
        more = len(document) - (0 if agent.last is None else len(agent.last.document))
        if len(document) > _SMALL_BYTES or self._stored_bytes + more > _STORED_BYTES_LIMIT:
            text = f"{pod.name}: readings of agents that share a node exceed the limit of their cluster"
            return _AgentFailure(Reason.TOO_LARGE, text)
        self._stored_bytes += more
        assert isinstance(response, _AgentResponse)
        agent.last = _StoredAgentReading(document=document, taken_at=reading.taken_at, remark=reading.remark)
        agent.tag = response.reply.headers.get("etag")
        return None

    def _report_update(
        self, node: str, pods: Sequence[AgentPod], whole: AgentSnapshot, refresh_round: RefreshRound
    ) -> None:
        update = make_report(node, self.kind, whole.taken_at, whole.snapshot, remark=whole.remark)
        refresh_round.report(update)
        if isinstance(update, NodeFailure):
            for pod in pods:  # the report was rejected
                self._agent(pod).tag = None

    def _read(
        self,
        pod: AgentPod,
        response: _AgentResponse | _AgentFailure,
        decode: Callable[[bytes], DecodedSnapshot],
    ) -> tuple[AgentSnapshot, bytes] | _AgentFailure:
        """The reading, and the received document if it can be stored unchanged."""
        if isinstance(response, _AgentFailure):
            return response
        reply = response.reply
        if len(reply.body) > _SMALL_BYTES and len(reply.gzip or reply.body) > _SMALL_BYTES:
            # Real documents compress to a tenth.
            text = f"{pod.name} sent {len(reply.body)} bytes that do not compress to {_SMALL_BYTES}"
            return _AgentFailure(Reason.TOO_LARGE, text)
        try:
            decoded = decode(reply.body)
        except BadDocument as error:
            return _AgentFailure(Reason.BAD_ANSWER, f"{pod.name} sent an invalid snapshot: {error}")
        except SnapshotTooLarge as error:
            return _AgentFailure(Reason.TOO_LARGE, f"{pod.name} sent a snapshot that is too large: {error}")
        except IncompatibleSchema as error:
            return _AgentFailure("incompatible", f"{pod.name}: {error}", incompatible=True)
        self._sees_devices = self._sees_devices or bool(decoded.snapshot.devices)
        reading = AgentSnapshot(
            snapshot=decoded.snapshot,
            taken_at=_taken_at(reply.headers, decoded.snapshot.taken_at, response.received_at),
            remark=decoded.remark,
            whole=decoded.whole,
        )
        return reading, (reply.gzip or b"") if decoded.whole else b""

    def _failure(self, node: str, failure: _AgentFailure) -> NodeFailure:
        return NodeFailure(
            node=node,
            source=self.kind,
            reason=failure.reason,
            text=failure.text,
            incompatible=failure.incompatible,
        )

    def _token_header(self) -> Mapping[str, str]:
        """Reads the file each time, because tokens are rotated. Raises OSError."""
        if self._token_file is None:
            return {}
        with open_regular(Path(self._token_file)) as file:
            token = file.read(_TOKEN_LIMIT).decode("latin-1").strip()
        if not token or not token.isprintable() or not token.isascii():
            raise OSError
        return {TOKEN_HEADER: token}


def _merged_failure(failures: Sequence[_AgentFailure]) -> _AgentFailure:
    """One failure for all agents of a node. Failures that an operator must fix come before temporary ones."""
    first, *_ = in_order = sorted(failures, key=lambda failure: is_temporary(failure.reason))
    text = one_line("; ".join(dict.fromkeys(failure.text for failure in in_order)))
    return _AgentFailure(first.reason, text, incompatible=any(failure.incompatible for failure in failures))


def _is_unchanged(response: _AgentResponse | _AgentFailure) -> bool:
    return isinstance(response, _AgentResponse) and response.reply.status == _NOT_MODIFIED


def _is_update(response: _AgentResponse | _AgentFailure) -> TypeGuard[_AgentResponse]:
    return isinstance(response, _AgentResponse) and response.reply.headers.get("content-type") == UPDATE_TYPE


def _taken_at(headers: Mapping[str, str], taken_at: float, now: float) -> float:
    """The time of the reading by our clock. Without an age header, the agent's own time is corrected by the
    Date header of its response."""
    age = _age(headers.get(AGE_HEADER, ""))
    if age is not None:
        return now - age
    try:
        there = parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, OverflowError):
        return min(taken_at, now)
    return min(taken_at + now - there, now)


def _age(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None
