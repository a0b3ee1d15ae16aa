"""What went wrong, as RFC 9457 problem details: one type for every refusal of the API."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from accelscope.allowance import Rate

MEDIA_TYPE = "application/problem+json"
_TYPE_PREFIX = "urn:accelscope:problem:"


@dataclass(frozen=True, slots=True)
class _Kind:
    slug: str
    status: int
    title: str


class ProblemKind(Enum):
    """Every problem that the API can answer with. The slug is the stable part; a text may be reworded."""

    BAD_PARAMETER = _Kind("bad-parameter", 400, "A parameter is not as it should be")
    BAD_CURSOR = _Kind("bad-cursor", 400, "The cursor is of no use here")
    INCOMPLETE_QUESTION = _Kind("incomplete-question", 400, "Parameters do not go together")
    NO_GPU_CAPABILITY = _Kind("no-gpu-capability", 400, "The cluster is declared to have no GPUs")
    BAD_REQUEST = _Kind("bad-request", 400, "The request is not valid HTTP")
    UNAUTHORIZED = _Kind("unauthorized", 401, "A valid token is needed")
    FORBIDDEN = _Kind("forbidden", 403, "The token does not allow this")
    NOT_FOUND = _Kind("not-found", 404, "There is no such thing")
    METHOD_NOT_ALLOWED = _Kind("method-not-allowed", 405, "The resource has no such method")
    BODY_TOO_LARGE = _Kind("body-too-large", 413, "The request has a body that nobody asked for")
    TOO_MANY_REQUESTS = _Kind("too-many-requests", 429, "Too many requests")
    INTERNAL = _Kind("internal", 500, "The fleet made a mistake")
    CLUSTER_NEVER_REACHED = _Kind("cluster-never-reached", 503, "The cluster was never reached")
    NOT_READ_YET = _Kind("not-read-yet", 503, "Nothing was read of it yet")
    NOT_READY = _Kind("not-ready", 503, "The fleet is not ready")
    BUSY = _Kind("busy", 503, "The fleet is busy")
    CANNOT_REVIEW = _Kind("cannot-review", 503, "Tokens cannot be reviewed at the moment")

    @property
    def status(self) -> int:
        return self.value.status

    @property
    def title(self) -> str:
        return self.value.title

    @property
    def uri(self) -> str:
        return _TYPE_PREFIX + self.value.slug


class ProblemDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. What is not known is left out."""

    type: Annotated[str, Meta(description="identifies the kind of problem; does not change with versions")]
    title: Annotated[str, Meta(description="what it is, in words")]
    status: Annotated[Annotated[int, Meta(ge=400, le=599)], Meta(description="of the answer")]
    detail: Annotated[str | None, Meta(description="this very case, for people")] = None
    instance: Annotated[str | None, Meta(description="the path that was asked for")] = None
    parameter: Annotated[str | None, Meta(description="the parameter that is to blame")] = None
    allowed: Annotated[list[str] | None, Meta(description="what could have been said instead")] = None
    cluster: Annotated[str | None, Meta(description="the cluster that it is about")] = None
    reason: Annotated[str | None, Meta(description="a word for why, where a cluster is to blame")] = None


class Problem(Exception):
    """Raised anywhere between the request and its answer. `detail` never holds a secret or a traceback."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        parameter: str | None = None,
        allowed: tuple[str, ...] = (),
        cluster: str | None = None,
        reason: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self._members: dict[str, Any] = {"parameter": parameter, "cluster": cluster, "reason": reason}
        if allowed:
            self._members["allowed"] = list(allowed)

    def body(self, path: str) -> bytes:
        document = ProblemDocument(
            type=self.kind.uri,
            title=self.kind.title,
            status=self.kind.status,
            detail=self.detail,
            instance=path,
            **self._members,
        )
        return msgspec.json.encode(document)


def later(kind: ProblemKind, detail: str, seconds: float, **members: Any) -> Problem:
    """A problem that goes away: says when to try again."""
    return Problem(kind, detail, headers={"Retry-After": str(max(1, math.ceil(seconds)))}, **members)


# --- limits ------------------------------------------------------------
# How much one server takes on, at most: what one caller may ask for, and what all of them may together.


REQUESTS = Rate(per_second=50.0, burst=200)
FAILED_LOGINS = Rate(per_second=0.5, burst=20)  # of an address


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLimits:
    requests: Rate = REQUESTS  # of a token; of an address where no token is needed
    concurrent_requests: int = 128
    streams: int = 256
    streams_of_caller: int = 16
    heartbeat_seconds: float = 15.0  # of a stream without news; its token is looked at anew as often
    connections: int = 1024
    unsent_bytes: int = 256 << 20  # of answers whose readers are slow, all of them together
    large_answers: int = 2  # made at the same time, in threads
    send_seconds: float = 60.0  # until an answer must be taken
    idle_seconds: float = 30.0  # of a connection between requests, and until its first request is there
    url_bytes: int = 8190
    header_bytes: int = 16384  # of one header field: a token with many groups is some KiB
    headers: int = 64


DEFAULT_LIMITS = ApiLimits()
