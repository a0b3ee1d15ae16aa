"""The agents of a cluster: found by a watch on their pods, read at `/snapshot`.

An agent tells how old its reading is, so that nobody's clock has to be right, and answers 304 while it has no
new one.
"""

import asyncio
import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from accelscope.files import open_regular
from accelscope.fleet.api_server import Informer, Reply, Session, pod_proxy_path
from accelscope.fleet.api_server.objects import AgentPod, pod_key
from accelscope.fleet.clusters import AddressAccess, AgentsEntry
from accelscope.fleet.rows import NodeFailure, NodeReport, NodeUnchanged, SourceKind, SourceOutcome, Take
from accelscope.fleet.sources.round import LoopShare, Pace, Round, not_found_yet, passes_by_itself
from accelscope.fleet.sources.snapshots import (
    BadDocument,
    Decoded,
    Heard,
    IncompatibleSchema,
    TooLarge,
    decode_snapshot,
    glance,
    reported,
    together,
)
from accelscope.kube.errors import KubeError, Reason, one_line
from accelscope.model import Snapshot

# --- reach ------------------------------------------------------------
# How an agent is reached: through the API server's pod proxy, or straight at its pod's address.


_PATH = "/snapshot"
_PORT_NAME = "metrics"  # of the agent's container, by our chart


class Reach(Protocol):
    """`get` raises KubeError. The limit is for what is decompressed."""

    async def get(self, pod: AgentPod, headers: Mapping[str, str], limit_bytes: int) -> Reply: ...

    async def close(self) -> None: ...


class ProxyReach:
    """The API server talks to agents for us: it must be let to their port, and we to `pods/proxy`."""

    def __init__(self, session: Session, entry: AgentsEntry) -> None:
        self._session = session
        self._entry = entry

    async def get(self, pod: AgentPod, headers: Mapping[str, str], limit_bytes: int) -> Reply:
        path = pod_proxy_path(pod.namespace, pod.name, port_of(pod, self._entry), _PATH, self._entry.scheme)
        return await self._session.get(path, headers=headers, limit_bytes=limit_bytes)

    async def close(self) -> None:
        """The session is not ours."""


class DirectReach:
    """One pool of connections for all agents of a cluster; CA and client certificate are for all of them."""

    def __init__(self, entry: AgentsEntry, *, connections: int, timeout_seconds: float) -> None:
        self._entry = entry
        access = AddressAccess(
            url=f"{entry.scheme}://agents.invalid",  # each request says which
            ca_file=entry.ca_file,
            insecure_skip_tls_verify=entry.insecure_skip_tls_verify,
            tls_server_name=entry.tls_server_name,
            client_certificate_file=entry.client_certificate_file,
            client_key_file=entry.client_key_file,
            plain_http=True,
        )
        # Without the environment: the proxy that it names is not for addresses of pods.
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
    """The entry's where it says another than the usual; else the pod's own word for it."""
    usual = AgentsEntry().port
    return entry.port if entry.port != usual else pod.ports.get(_PORT_NAME, usual)


AGE_HEADER = "x-accelscope-age"
TOKEN_HEADER = "X-AccelScope-Token"  # noqa: S105 - a header: the pod proxy drops Authorization
_TOKEN_LIMIT = 64 << 10  # bytes of the file
_LEAST_PATIENCE = 16  # failures in a row
# A node with eight devices says some 100 KB. Larger documents come few at a time, so that a cluster which
# sends nothing but them does not fill the memory.
_USUAL_BYTES = 1 << 20
_MOST_BYTES = 16 << 20
_LARGE_AT_ONCE = 2
_LEFT_ALONE_SECONDS = 300.0  # an agent that sends even more
# Of all agents that share a node with others, in one cluster, compressed: their last readings are kept here.
_MOST_BYTES_KEPT = 256 << 20
_NOT_MODIFIED = 304
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_SNAPSHOT = msgspec.json.Decoder(Snapshot)


class _LastReading(Struct, frozen=True, kw_only=True, gc=False):
    """The last reading of an agent that shares its node with others: it is merged with theirs each time that
    one of them has a new one. Compressed, since as objects it takes ten times the memory."""

    document: bytes  # gzip or zlib
    taken_at: float
    remark: str | None
    trouble: str | None = None  # why the agent did not answer this time

    def heard(self) -> Heard:
        return Heard(
            snapshot=_SNAPSHOT.decode(zlib.decompress(self.document, _GZIP_OR_ZLIB)),
            taken_at=self.taken_at,
            trouble=self.trouble,
            remark=self.remark,
        )


class _Agent(Struct, gc=False):
    """What is remembered of one pod."""

    tag: str | None = None
    large: bool = False  # its document is beyond the usual
    left_alone_until: float = float("-inf")  # by the steady clock
    last: _LastReading | None = None  # only where a node has several agents


@dataclass(frozen=True, slots=True)
class _Answer:
    reply: Reply
    came_at: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class _Trouble:
    reason: str
    text: str
    incompatible: bool = False


class AgentsSource:
    kind = SourceKind.AGENTS

    def __init__(
        self,
        pods: Informer[AgentPod],
        reach: Reach,
        *,
        pace: Pace,
        loop_share: LoopShare,
        concurrency: int,
        token_file: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pods = pods
        self._reach = reach
        self._pace = pace
        self._loop_share = loop_share
        self._concurrency = concurrency
        self._token_file = token_file
        self._clock = clock
        # Of this cluster: one that sends slowly must not keep others from sending theirs. What is worked on
        # is one of all clusters, by the share of the loop.
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)  # held while a large answer comes and is worked on
        self._agents: dict[str, _Agent] = {}
        self._bytes_kept = 0
        self._sees_devices = False

    def sees_accelerators(self) -> bool:
        return self._sees_devices

    async def refresh(self, take: Take) -> SourceOutcome:
        if (unknown := await not_found_yet(self._pods)) is not None:
            return unknown
        try:
            headers = self._token_header()
        except OSError as error:
            text = f"{self._token_file}: {error.strerror or 'not a token'}"
            return SourceOutcome(up=False, reason=Reason.UNAUTHORIZED, text=text)
        pods = self._pods.items
        self._agents = {key: agent for key, agent in self._agents.items() if key in pods}
        kept = (agent.last for agent in self._agents.values())
        self._bytes_kept = sum(len(last.document) for last in kept if last is not None)
        nodes: dict[str, list[AgentPod]] = {}
        for pod in pods.values():
            if pod.node is not None:
                nodes.setdefault(pod.node, []).append(pod)
        this = Round(take, patience=max(self._concurrency, _LEAST_PATIENCE))

        async def ask(node: str) -> None:
            await self._ask_node(node, nodes[node], headers, this)

        await this.over(nodes, ask, at_once=min(self._concurrency, len(nodes)))
        lost = self._pods.error  # what is known of them is no longer current
        if lost is not None:
            return this.outcome(len(nodes), reason=lost.reason, text=lost.text)
        return this.outcome(len(nodes))

    async def close(self) -> None:
        await self._pods.close()
        await self._reach.close()

    async def _ask_node(
        self, node: str, pods: list[AgentPod], headers: Mapping[str, str], this: Round
    ) -> None:
        ready = [pod for pod in pods if pod.ready]
        if not ready:
            text = f"the agent's pod {pods[0].name} is not ready"
            this.say(NodeFailure(node=node, source=self.kind, reason="not_ready", text=text))
            return
        # Of an agent beside others that is not ready now, its devices are still named.
        asked = [pod for pod in pods if pod.ready or (len(pods) > 1 and self._agent(pod).last is not None)]
        if not any(self._agent(pod).large for pod in asked):
            answers = await self._ask_all(asked, headers)
            if not any(self._agent(pod).large for pod in asked):
                await self._say(node, asked, answers, this)
                return
        async with self._large:
            answers = [await self._ask(pod, headers, asked, _MOST_BYTES) for pod in asked]
            await self._say(node, asked, answers, this)

    async def _ask_all(
        self, pods: Sequence[AgentPod], headers: Mapping[str, str]
    ) -> Sequence[_Answer | _Trouble]:
        asked = [self._ask(pod, headers, pods, _USUAL_BYTES) for pod in pods]
        if len(asked) == 1:  # without a task of its own: ten thousand nodes are asked each time
            return [await asked[0]]
        return await asyncio.gather(*asked)

    async def _ask(
        self, pod: AgentPod, headers: Mapping[str, str], asked: Sequence[AgentPod], limit_bytes: int
    ) -> _Answer | _Trouble:
        agent = self._agent(pod)
        if not pod.ready:
            return _Trouble("not_ready", f"the agent's pod {pod.name} is not ready")
        if time.monotonic() < agent.left_alone_until:
            return _Trouble(Reason.TOO_LARGE, f"{pod.name} sends more than {_MOST_BYTES} bytes")
        if agent.tag is not None and (agent.last is not None or len(asked) == 1):
            headers = {**headers, "If-None-Match": agent.tag}
        await self._loop_share.room(self._pace)
        try:
            reply = await self._reach.get(pod, headers, limit_bytes)
        except KubeError as error:
            agent.large = error.reason is Reason.TOO_LARGE
            if agent.large and limit_bytes == _MOST_BYTES:
                agent.left_alone_until = time.monotonic() + _LEFT_ALONE_SECONDS
            return _Trouble(error.reason, error.text)
        if reply.status != _NOT_MODIFIED:
            agent.large = len(reply.body) > _USUAL_BYTES
        return _Answer(reply, self._clock())

    async def _say(
        self, node: str, pods: Sequence[AgentPod], answers: Sequence[_Answer | _Trouble], this: Round
    ) -> None:
        if len(pods) > 1:
            async with self._loop_share.piece():
                self._say_together(node, pods, answers, this)
        elif _is_unchanged(answers[0]):
            this.say(NodeUnchanged(node=node, source=self.kind))
        else:
            async with self._loop_share.piece():
                self._say_alone(node, pods[0], answers[0], this)

    def _agent(self, pod: AgentPod) -> _Agent:
        return self._agents.setdefault(pod_key(pod), _Agent())

    def _say_alone(self, node: str, pod: AgentPod, answer: _Answer | _Trouble, this: Round) -> None:
        read = self._read(pod, answer, glance)
        if isinstance(read, _Trouble):
            this.say(self._failure(node, read))
            return
        heard, document = read
        this.say(
            NodeReport(
                node=node,
                source=self.kind,
                taken_at=heard.taken_at,
                snapshot=heard.snapshot,
                document=document,
                remark=heard.remark,
            )
        )
        assert isinstance(answer, _Answer)
        # Not before it was taken: whoever has the tag says that it has the reading.
        agent = self._agent(pod)
        agent.tag, agent.last = answer.reply.headers.get("etag"), None

    def _say_together(
        self, node: str, pods: Sequence[AgentPod], answers: Sequence[_Answer | _Trouble], this: Round
    ) -> None:
        troubles: list[_Trouble] = []
        news = False
        for pod, answer in zip(pods, answers, strict=True):
            agent = self._agent(pod)
            if _is_unchanged(answer):
                if agent.last is not None and agent.last.trouble is not None:
                    news = True
                    agent.last = structs.replace(agent.last, trouble=None)
                continue
            news = True
            trouble = self._take_one(pod, agent, answer)
            if trouble is not None:
                troubles.append(trouble)
                if agent.last is not None:
                    agent.last = structs.replace(agent.last, trouble=trouble.text)
        if len(troubles) == len(pods):
            this.say(self._failure(node, _all_of(troubles)))
        elif not news:
            this.say(NodeUnchanged(node=node, source=self.kind))
        else:
            kept = (self._agent(pod).last for pod in pods)
            self._say_whole(node, pods, together([last.heard() for last in kept if last is not None]), this)

    def _take_one(self, pod: AgentPod, agent: _Agent, answer: _Answer | _Trouble) -> _Trouble | None:
        """The reading of one agent of several. Why there is none, where there is none."""
        read = self._read(pod, answer, decode_snapshot)
        if isinstance(read, _Trouble):
            return read
        heard, document = read
        document = document or zlib.compress(msgspec.json.encode(heard.snapshot), 1)
        more = len(document) - (0 if agent.last is None else len(agent.last.document))
        if len(document) > _USUAL_BYTES or self._bytes_kept + more > _MOST_BYTES_KEPT:
            text = f"{pod.name}: agents that share a node with others have sent more than can be kept of them"
            return _Trouble(Reason.TOO_LARGE, text)
        self._bytes_kept += more
        assert isinstance(answer, _Answer)
        agent.last = _LastReading(document=document, taken_at=heard.taken_at, remark=heard.remark)
        agent.tag = answer.reply.headers.get("etag")
        return None

    def _say_whole(self, node: str, pods: Sequence[AgentPod], whole: Heard, this: Round) -> None:
        saying = reported(node, self.kind, whole.taken_at, whole.snapshot, remark=whole.remark)
        this.say(saying)
        if isinstance(saying, NodeFailure):
            for pod in pods:  # none of it was taken
                self._agent(pod).tag = None

    def _read(
        self, pod: AgentPod, answer: _Answer | _Trouble, decode: Callable[[bytes], Decoded]
    ) -> tuple[Heard, bytes] | _Trouble:
        """The reading, and the document where it can be kept as it came."""
        if isinstance(answer, _Trouble):
            return answer
        reply = answer.reply
        if len(reply.body) > _USUAL_BYTES and len(reply.gzip or reply.body) > _USUAL_BYTES:
            # A real one compresses to a tenth. What does not is noise, and would take as much to be kept.
            text = f"{pod.name} sent {len(reply.body)} bytes that do not come compressed to {_USUAL_BYTES}"
            return _Trouble(Reason.TOO_LARGE, text)
        try:
            decoded = decode(reply.body)
        except BadDocument as error:
            return _Trouble(Reason.BAD_ANSWER, f"{pod.name} sent no snapshot: {error}")
        except TooLarge as error:
            return _Trouble(Reason.TOO_LARGE, f"{pod.name} sent too much: {error}")
        except IncompatibleSchema as error:
            return _Trouble("incompatible", f"{pod.name}: {error}", incompatible=True)
        self._sees_devices = self._sees_devices or bool(decoded.snapshot.devices)
        heard = Heard(
            snapshot=decoded.snapshot,
            taken_at=_taken_at(reply.headers, decoded.snapshot.taken_at, answer.came_at),
            remark=decoded.remark,
        )
        return heard, (reply.gzip or b"") if decoded.whole else b""

    def _failure(self, node: str, trouble: _Trouble) -> NodeFailure:
        return NodeFailure(
            node=node,
            source=self.kind,
            reason=trouble.reason,
            text=trouble.text,
            incompatible=trouble.incompatible,
        )

    def _token_header(self) -> Mapping[str, str]:
        """Read anew each time: tokens are rotated. Raises OSError."""
        if self._token_file is None:
            return {}
        with open_regular(Path(self._token_file)) as file:
            token = file.read(_TOKEN_LIMIT).decode("latin-1").strip()
        if not token or not token.isprintable() or not token.isascii():
            raise OSError
        return {TOKEN_HEADER: token}


def _all_of(troubles: Sequence[_Trouble]) -> _Trouble:
    """One for all agents of a node. What an operator has to mend comes before what passes by itself."""
    first, *_ = in_order = sorted(troubles, key=lambda trouble: passes_by_itself(trouble.reason))
    text = one_line("; ".join(dict.fromkeys(trouble.text for trouble in in_order)))
    return _Trouble(first.reason, text, incompatible=any(trouble.incompatible for trouble in troubles))


def _is_unchanged(answer: _Answer | _Trouble) -> bool:
    return isinstance(answer, _Answer) and answer.reply.status == _NOT_MODIFIED


def _taken_at(headers: Mapping[str, str], taken_at: float, now: float) -> float:
    """When the agent read, by our clock. Its own clock counts only where it tells no age, and then what its
    answer says of the time tells by how much it is off."""
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
