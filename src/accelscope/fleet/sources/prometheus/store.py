"""The HTTP API that Prometheus and all who are compatible with it have."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from accelscope.fleet.api_server import Reply, Session
from accelscope.fleet.clusters import AddressAccess, PrometheusEntry
from accelscope.fleet.sources.pace import LoopShare
from accelscope.fleet.sources.prometheus.promql import matching
from accelscope.kube.errors import KubeError, Reason

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


async def each_sample(vector: Vector, loop_share: LoopShare, take: Callable[[Sample], None]) -> None:
    """Raises KubeError."""
    for start in range(0, len(vector.samples), _SAMPLES_AT_ONCE):
        async with loop_share.piece():
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
    """Everything raises KubeError only, whose text holds neither token nor tenant."""

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
        raise KubeError(Reason.BAD_ANSWER, "the store's answer holds no list of series") from None


def _warnings(answer: _Answer) -> tuple[str, ...]:
    if answer.is_partial and not answer.warnings:
        return ("the answer is partial",)
    return tuple(warning[:_LONGEST_WARNING] for warning in answer.warnings)


def _decoded(decoder: "msgspec.json.Decoder[list[T]]", texts: Sequence[msgspec.Raw]) -> list[T]:
    try:
        return decoder.decode(b"[" + b",".join(texts) + b"]")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise KubeError(Reason.BAD_ANSWER, "the store's answer holds what is no series") from None
