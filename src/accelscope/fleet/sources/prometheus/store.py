"""Client of the Prometheus HTTP API, PromQL expressions, and the targets that a store scrapes."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from accelscope.fleet.api_server import Reply, Session
from accelscope.fleet.clusters import AddressAccess, PrometheusEntry
from accelscope.fleet.sources.prometheus import families
from accelscope.fleet.sources.round import LoopThrottle
from accelscope.fleet.sources.snapshots import TEXT_LIMIT, cut
from accelscope.kube.endpoint import KubeError, Reason

# Characters with a meaning in regular expressions (RE2).
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def equal(label: str, value: str) -> str:
    return f"{label}={quoted(value)}"


def one_of(label: str, values: Iterable[str]) -> str:
    """Plain alternatives, which stores look up without matching every series."""
    alternatives = (_SPECIAL.sub(r"\\\g<0>", value) for value in values)
    return f"{label}=~{quoted('|'.join(alternatives))}"


def matching(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(equal(label, value) for label, value in labels.items())


def series(names: Iterable[str], *matchers: str) -> str:
    """Series of families by their names."""
    listed = tuple(names)
    if len(listed) == 1:
        return f"{listed[0]}{{{','.join(matchers)}}}"
    return f"{{{','.join((one_of('__name__', listed), *matchers))}}}"


def once(expression: str, labels: Iterable[str]) -> str:
    """With these labels only. What two replicas of a store scraped of the same target is one series then, and
    no label that a scrape put on it makes the answer longer."""
    return f"max by ({', '.join(labels)}) ({expression})"


T = TypeVar("T")

LIMIT_BYTES = 16 << 20  # of an answer, decompressed
_CONNECTIONS = 8
_SAMPLES_AT_ONCE = 1000  # some milliseconds
_GRACE_SECONDS = 2.0  # beyond the time that the store itself is given
_LONGEST_WARNING = 200  # characters


class Sample(msgspec.Struct, gc=False):
    metric: dict[str, str]
    value: tuple[float, str] = (0.0, "NaN")  # when it was evaluated, value

    @property
    def number(self) -> float | None:
        return finite(self.value[1])


class Run(msgspec.Struct, gc=False):
    """One series over time."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""
    warnings: list[str] = []
    is_partial: bool = False  # VictoriaMetrics' word for it


@dataclass(frozen=True, slots=True)
class Vector:
    """Values of one moment, each still to be decoded: a long answer is taken piece by piece."""

    at: float | None  # by the store's clock; None: there is no value
    samples: Sequence[msgspec.Raw]
    warnings: tuple[str, ...]  # why there may be more than this
    size: int  # of the answer, bytes


_answer_decoder = msgspec.json.Decoder(_Answer)
_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_samples_decoder = msgspec.json.Decoder(list[Sample])
_runs_decoder = msgspec.json.Decoder(list[Run])


async def each_sample(vector: Vector, loop_throttle: LoopThrottle, take: Callable[[Sample], None]) -> None:
    """Raises KubeError."""
    for start in range(0, len(vector.samples), _SAMPLES_AT_ONCE):
        async with loop_throttle.piece():
            for sample in _decoded(_samples_decoder, vector.samples[start : start + _SAMPLES_AT_ONCE]):
                take(sample)


def decoded_runs(runs: Sequence[msgspec.Raw]) -> list[Run]:
    """Raises KubeError."""
    return _decoded(_runs_decoder, runs)


def finite(text: str) -> float | None:
    """Stores write NaN and Inf where there is no value."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class PromqlStore:
    """Methods raise KubeError, whose message contains neither token nor tenant."""

    def __init__(self, entry: PrometheusEntry) -> None:
        self.matchers = matching(entry.matchers)  # of all series of the cluster
        self._timeout_seconds = entry.timeout_seconds
        self._headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if entry.tenant is not None:
            self._headers["X-Scope-OrgID"] = entry.tenant
        access = AddressAccess(
            url=entry.url,
            token_file=entry.token_file,
            ca_file=entry.ca_file,
            insecure_skip_tls_verify=entry.insecure_skip_tls_verify,
            tls_server_name=entry.tls_server_name,
            client_certificate_file=entry.client_certificate_file,
            client_key_file=entry.client_key_file,
            plain_http=True,  # where there is no token
        )
        self._session = Session(
            access, connections=_CONNECTIONS, timeout_seconds=entry.timeout_seconds + _GRACE_SECONDS
        )

    async def vector(self, query: str, *, at: float | None = None) -> Vector:
        """`at`: by the store's clock, which is what is asked first where it is not given."""
        parameters = {"query": query}
        if at is not None:
            parameters["time"] = f"{at:.3f}"
        answer, size = await self._ask("query", "vector", parameters)
        samples = _listed(answer)
        first = _decoded(_samples_decoder, samples[:1])
        return Vector(first[0].value[0] if first else None, samples, _warnings(answer), size)

    async def matrix(self, query: str, *, start: float, end: float, step: float) -> Sequence[msgspec.Raw]:
        parameters = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        answer, _ = await self._ask("query_range", "matrix", parameters)
        return _listed(answer)

    async def close(self) -> None:
        await self._session.close()

    async def _ask(self, what: str, kind: str, parameters: Mapping[str, str]) -> tuple[_Answer, int]:
        form = {
            **parameters,
            "timeout": f"{self._timeout_seconds:g}s",
            "partial_response": "true",  # Thanos: a part, and a warning, where a store of several is gone
            "nocache": "1",  # VictoriaMetrics: values of now, not of half a minute ago
        }
        reply = await self._session.post(
            f"/api/v1/{what}", urlencode(form).encode(), headers=self._headers, limit_bytes=LIMIT_BYTES
        )
        answer = _answer(reply)
        if answer.status != "success":
            raise KubeError(Reason.BAD_ANSWER, f"the store answered: {answer.error or answer.status}")
        if answer.data.result_type != kind:
            found = answer.data.result_type or "nothing"
            raise KubeError(Reason.BAD_ANSWER, f"the store answered with {found[:40]}, not with a {kind}")
        return answer, len(reply.body)


def _answer(reply: Reply) -> _Answer:
    try:
        return _answer_decoder.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise KubeError(
            Reason.BAD_ANSWER, "what came is no answer of a Prometheus-compatible store"
        ) from None


def _listed(answer: _Answer) -> Sequence[msgspec.Raw]:
    try:
        return _list_decoder.decode(answer.data.result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise KubeError(Reason.BAD_ANSWER, "the store's answer does not contain a list of series") from None


def _warnings(answer: _Answer) -> tuple[str, ...]:
    if answer.is_partial and not answer.warnings:
        return ("the answer is partial",)
    return tuple(warning[:_LONGEST_WARNING] for warning in answer.warnings)


def _decoded(decoder: "msgspec.json.Decoder[list[T]]", texts: Sequence[msgspec.Raw]) -> list[T]:
    try:
        return decoder.decode(b"[" + b",".join(texts) + b"]")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise KubeError(Reason.BAD_ANSWER, "the store's answer contains an invalid series") from None


TargetKey: TypeAlias = tuple[str, str]  # job, instance: what a store tells its targets apart by

TARGET_LABELS = ("job", "instance")
_FACTS = (families.BUILD_INFO, families.STARTED, families.COLLECTED)
MOST_TARGETS = 50_000  # of one cluster
_LONGEST_INTERVAL_SECONDS = 300.0  # stores look no further back for a current value


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    key: TargetKey
    node: str
    scraped_at: float  # by the store's clock
    collected_at: float | None = None  # by the node's; None: the store was not given our self-metrics
    started_at: float | None = None  # likewise
    version: str | None = None

    @property
    def reading(self) -> float:
        """Another for each page of the agent."""
        return self.scraped_at if self.collected_at is None else self.collected_at


@dataclass(frozen=True, slots=True)
class Targets:
    asked_at: float  # the moment of which all is told, by the store's clock
    targets: tuple[Target, ...]
    warnings: tuple[str, ...]


async def find_targets(store: PromqlStore, loop_throttle: LoopThrottle) -> Targets:
    """Raises KubeError. By the time of their last scrape, which an instant query tells only when it is asked
    for: the time that stands beside each value is that of the question."""
    times = " or ".join(
        once(f"timestamp({series((name,), *store.matchers)})", (*TARGET_LABELS, "node"))
        for name in (families.NODE_INFO, families.INFO)  # who keeps no self-metrics has the latter
    )
    scraped = await store.vector(times)
    if scraped.at is None:
        return Targets(0.0, (), scraped.warnings)
    labels = ("__name__", *TARGET_LABELS, "version")
    facts = await store.vector(once(series(_FACTS, *store.matchers), labels), at=scraped.at)
    found: dict[TargetKey, Target] = {}

    def add(sample: Sample) -> None:
        key, node, at = target_key(sample.metric), sample.metric.get("node"), sample.number
        if not node or at is None or max(map(len, (node, *key))) > TEXT_LIMIT:
            return
        if key not in found and len(found) >= MOST_TARGETS:
            raise KubeError(Reason.TOO_LARGE, f"the store has series of more than {MOST_TARGETS} agents")
        if key not in found or found[key].scraped_at < at:
            found[key] = Target(key=key, node=node, scraped_at=at)

    def describe(sample: Sample) -> None:
        if (target := found.get(target_key(sample.metric))) is not None:
            found[target.key] = _told(target, sample)

    await each_sample(scraped, loop_throttle, add)
    await each_sample(facts, loop_throttle, describe)
    return Targets(scraped.at, tuple(found.values()), scraped.warnings + facts.warnings)


def target_key(labels: Mapping[str, str]) -> TargetKey:
    return labels.get("job", ""), labels.get("instance", "")


def _told(target: Target, sample: Sample) -> Target:
    match sample.metric.get("__name__"):
        case families.BUILD_INFO:
            return replace(target, version=cut(sample.metric.get("version", "")) or None)
        case families.STARTED:
            return replace(target, started_at=sample.number)
        case families.COLLECTED:
            return replace(target, collected_at=sample.number)
    return target


@dataclass(frozen=True, slots=True)
class _Remembered:
    reading: float
    scraped_at: float
    not_before: float  # by the store's clock: when the reading cannot have been taken yet
    interval_seconds: float | None


class Ages:
    """When readings were taken, by the store's clock, and how far they are apart.

    An agent tells when it made its page by its own clock. Where that is behind, readings would look older
    than they are; but a page that was not there yet at the scrape before cannot be older than that scrape.
    """

    def __init__(self) -> None:
        self._remembered: dict[TargetKey, _Remembered] = {}

    def look(self, targets: Iterable[Target]) -> None:
        """At all that there are."""
        before, self._remembered = self._remembered, {}
        for target in targets:
            last = before.get(target.key)
            not_before, interval = float("-inf"), None
            if last is not None and last.reading == target.reading:
                not_before, interval = last.not_before, last.interval_seconds
            elif last is not None:
                not_before = last.scraped_at
                interval = min(target.scraped_at - last.scraped_at, _LONGEST_INTERVAL_SECONDS)
            self._remembered[target.key] = _Remembered(
                target.reading, target.scraped_at, not_before, interval
            )

    def taken_at(self, target: Target) -> float:
        return max(min(target.reading, target.scraped_at), self._remembered[target.key].not_before)

    def interval_seconds(self, target: Target) -> float | None:
        """As far as was seen; None: there was only one reading yet."""
        return self._remembered[target.key].interval_seconds
