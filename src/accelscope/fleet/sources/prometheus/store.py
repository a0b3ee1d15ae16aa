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
from accelscope.fleet.sources.snapshots import TEXT_LIMIT, truncate
from accelscope.kube.endpoint import KubeError, Reason

# Characters with a meaning in regular expressions (RE2).
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def equal(label: str, value: str) -> str:
    return f"{label}={quoted(value)}"


def one_of(label: str, values: Iterable[str]) -> str:
    """Plain alternatives: stores look them up without testing each series."""
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


def max_by(expression: str, labels: Iterable[str]) -> str:
    """Series with these labels only. This merges what two replicas of a store scraped from one target, and
    keeps labels that the scrape adds out of the response."""
    return f"max by ({', '.join(labels)}) ({expression})"


T = TypeVar("T")

LIMIT_BYTES = 16 << 20  # of a response, decompressed
_CONNECTIONS = 8
_SAMPLES_AT_ONCE = 1000  # some milliseconds
_GRACE_SECONDS = 2.0  # added to the timeout that is sent to the store
_LONGEST_WARNING = 200  # characters


class Sample(msgspec.Struct, gc=False):
    metric: dict[str, str]
    value: tuple[float, str] = (0.0, "NaN")  # time of evaluation, value

    @property
    def number(self) -> float | None:
        return parse_number(self.value[1])


class MatrixSeries(msgspec.Struct, gc=False):
    """One series over time."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class QueryResponse(msgspec.Struct, rename="camel"):
    status: str
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""
    warnings: list[str] = []
    is_partial: bool = False  # written by VictoriaMetrics


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of an instant query, not decoded yet: a long response is decoded piece by piece."""

    at: float | None  # by the store's clock; None: there is no value
    samples: Sequence[msgspec.Raw]
    warnings: tuple[str, ...]  # why the response may be incomplete
    size: int  # of the response, bytes


_response_decoder = msgspec.json.Decoder(QueryResponse)
_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_samples_decoder = msgspec.json.Decoder(list[Sample])
_matrix_decoder = msgspec.json.Decoder(list[MatrixSeries])


async def each_sample(vector: Vector, loop_throttle: LoopThrottle, take: Callable[[Sample], None]) -> None:
    """Raises KubeError."""
    for start in range(0, len(vector.samples), _SAMPLES_AT_ONCE):
        async with loop_throttle.piece():
            for sample in _decoded(_samples_decoder, vector.samples[start : start + _SAMPLES_AT_ONCE]):
                take(sample)


def decoded_matrix(series_list: Sequence[msgspec.Raw]) -> list[MatrixSeries]:
    """Raises KubeError."""
    return _decoded(_matrix_decoder, series_list)


def parse_number(text: str) -> float | None:
    """None for NaN and Inf, which stores write for an absent value."""
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
            plain_http=True,  # if there is no token
        )
        self._session = Session(
            access, connections=_CONNECTIONS, timeout_seconds=entry.timeout_seconds + _GRACE_SECONDS
        )

    async def vector(self, query: str, *, at: float | None = None) -> Vector:
        """`at` is a time by the store's clock; None: now."""
        parameters = {"query": query}
        if at is not None:
            parameters["time"] = f"{at:.3f}"
        response, size = await self._query("query", "vector", parameters)
        samples = _listed(response)
        first = _decoded(_samples_decoder, samples[:1])
        return Vector(first[0].value[0] if first else None, samples, _warnings(response), size)

    async def matrix(self, query: str, *, start: float, end: float, step: float) -> Sequence[msgspec.Raw]:
        parameters = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        response, _ = await self._query("query_range", "matrix", parameters)
        return _listed(response)

    async def close(self) -> None:
        await self._session.close()

    async def _query(self, what: str, kind: str, parameters: Mapping[str, str]) -> tuple[QueryResponse, int]:
        form = {
            **parameters,
            "timeout": f"{self._timeout_seconds:g}s",
            "partial_response": "true",  # Thanos: a part and a warning if one of several stores is down
            "nocache": "1",  # VictoriaMetrics: current values instead of those of half a minute ago
        }
        reply = await self._session.post(
            f"/api/v1/{what}", urlencode(form).encode(), headers=self._headers, limit_bytes=LIMIT_BYTES
        )
        response = _decoded_response(reply)
        if response.status != "success":
            raise KubeError(
                Reason.BAD_ANSWER, f"the store returned an error: {response.error or response.status}"
            )
        if response.data.result_type != kind:
            found = response.data.result_type or "nothing"
            raise KubeError(Reason.BAD_ANSWER, f"the store returned {found[:40]} instead of a {kind}")
        return response, len(reply.body)


def _decoded_response(reply: Reply) -> QueryResponse:
    try:
        return _response_decoder.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise KubeError(
            Reason.BAD_ANSWER, "not a response of a Prometheus-compatible store; check the URL"
        ) from None


def _listed(response: QueryResponse) -> Sequence[msgspec.Raw]:
    try:
        return _list_decoder.decode(response.data.result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise KubeError(
            Reason.BAD_ANSWER, "the response of the store does not contain a list of series"
        ) from None


def _warnings(response: QueryResponse) -> tuple[str, ...]:
    if response.is_partial and not response.warnings:
        return ("the response is partial",)
    return tuple(warning[:_LONGEST_WARNING] for warning in response.warnings)


def _decoded(decoder: "msgspec.json.Decoder[list[T]]", texts: Sequence[msgspec.Raw]) -> list[T]:
    try:
        return decoder.decode(b"[" + b",".join(texts) + b"]")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise KubeError(Reason.BAD_ANSWER, "the response of the store contains an invalid series") from None


TargetKey: TypeAlias = tuple[str, str]  # job, instance: they identify a target

TARGET_LABELS = ("job", "instance")
_FACTS = (families.BUILD_INFO, families.STARTED, families.COLLECTED)
MOST_TARGETS = 50_000  # of one cluster
_LONGEST_INTERVAL_SECONDS = 300.0  # stores look no further back for a current value


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeTarget:
    key: TargetKey
    node: str
    scraped_at: float  # by the store's clock
    collected_at: float | None = None  # by the node's clock; None: the store has no self-metrics of agents
    started_at: float | None = None  # likewise
    version: str | None = None

    @property
    def reading(self) -> float:
        """A number that differs for each page of the agent."""
        return self.scraped_at if self.collected_at is None else self.collected_at


@dataclass(frozen=True, slots=True)
class TargetList:
    evaluated_at: float  # time of the queries by the store's clock
    targets: tuple[ScrapeTarget, ...]
    warnings: tuple[str, ...]


async def find_targets(store: PromqlStore, loop_throttle: LoopThrottle) -> TargetList:
    """The targets with the time of their last scrape. It needs `timestamp()`, because the time beside a value
    of an instant query is that of the query. Raises KubeError."""
    times = " or ".join(
        max_by(f"timestamp({series((name,), *store.matchers)})", (*TARGET_LABELS, "node"))
        for name in (families.NODE_INFO, families.INFO)  # stores without self-metrics have only the latter
    )
    scraped = await store.vector(times)
    if scraped.at is None:
        return TargetList(0.0, (), scraped.warnings)
    labels = ("__name__", *TARGET_LABELS, "version")
    facts = await store.vector(max_by(series(_FACTS, *store.matchers), labels), at=scraped.at)
    found: dict[TargetKey, ScrapeTarget] = {}

    def add(sample: Sample) -> None:
        key, node, at = target_key(sample.metric), sample.metric.get("node"), sample.number
        if not node or at is None or max(map(len, (node, *key))) > TEXT_LIMIT:
            return
        if key not in found and len(found) >= MOST_TARGETS:
            raise KubeError(Reason.TOO_LARGE, f"the store has series of more than {MOST_TARGETS} agents")
        if key not in found or found[key].scraped_at < at:
            found[key] = ScrapeTarget(key=key, node=node, scraped_at=at)

    def describe(sample: Sample) -> None:
        if (target := found.get(target_key(sample.metric))) is not None:
            found[target.key] = _with_fact(target, sample)

    await each_sample(scraped, loop_throttle, add)
    await each_sample(facts, loop_throttle, describe)
    return TargetList(scraped.at, tuple(found.values()), scraped.warnings + facts.warnings)


def target_key(labels: Mapping[str, str]) -> TargetKey:
    return labels.get("job", ""), labels.get("instance", "")


def _with_fact(target: ScrapeTarget, sample: Sample) -> ScrapeTarget:
    match sample.metric.get("__name__"):
        case families.BUILD_INFO:
            return replace(target, version=truncate(sample.metric.get("version", "")) or None)
        case families.STARTED:
            return replace(target, started_at=sample.number)
        case families.COLLECTED:
            return replace(target, collected_at=sample.number)
    return target


@dataclass(frozen=True, slots=True)
class _TrackedReading:
    reading: float
    scraped_at: float
    not_before: float  # lower bound for the time of the reading, by the store's clock
    interval_seconds: float | None


class ReadingTimes:
    """Times of readings by the store's clock, and the interval between them.

    An agent reports the time of its page by its own clock. If that clock is slow, readings would look older
    than they are. But a page that the previous scrape did not return cannot be older than that scrape.
    """

    def __init__(self) -> None:
        self._tracked: dict[TargetKey, _TrackedReading] = {}

    def update(self, targets: Iterable[ScrapeTarget]) -> None:
        """`targets` are all current targets."""
        before, self._tracked = self._tracked, {}
        for target in targets:
            last = before.get(target.key)
            not_before, interval = float("-inf"), None
            if last is not None and last.reading == target.reading:
                not_before, interval = last.not_before, last.interval_seconds
            elif last is not None:
                not_before = last.scraped_at
                interval = min(target.scraped_at - last.scraped_at, _LONGEST_INTERVAL_SECONDS)
            self._tracked[target.key] = _TrackedReading(
                target.reading, target.scraped_at, not_before, interval
            )

    def taken_at(self, target: ScrapeTarget) -> float:
        return max(min(target.reading, target.scraped_at), self._tracked[target.key].not_before)

    def interval_seconds(self, target: ScrapeTarget) -> float | None:
        """None: only one reading was seen so far."""
        return self._tracked[target.key].interval_seconds
