"""Errors of the API as problem details (RFC 9457), and the limits of the server."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from accelscope.rate_limit import Rate

MEDIA_TYPE = "application/problem+json"
_TYPE_PREFIX = "urn:accelscope:problem:"


@dataclass(frozen=True, slots=True)
class _ProblemType:
    slug: str
    status: int
    title: str


class ProblemKind(Enum):
    """All problems of the API. Clients match the slug, which is stable; the title can change."""

    BAD_PARAMETER = _ProblemType("bad-parameter", 400, "Invalid parameter")
    BAD_CURSOR = _ProblemType("bad-cursor", 400, "Invalid cursor")
    INCOMPLETE_QUESTION = _ProblemType("incomplete-question", 400, "Invalid combination of parameters")
    NO_GPU_CAPABILITY = _ProblemType("no-gpu-capability", 400, "Cluster has no GPUs")
    BAD_REQUEST = _ProblemType("bad-request", 400, "Bad request")
    UNAUTHORIZED = _ProblemType("unauthorized", 401, "Unauthorized")
    FORBIDDEN = _ProblemType("forbidden", 403, "Forbidden")
    NOT_FOUND = _ProblemType("not-found", 404, "Not found")
    METHOD_NOT_ALLOWED = _ProblemType("method-not-allowed", 405, "Method not allowed")
    BODY_TOO_LARGE = _ProblemType("body-too-large", 413, "Request body not allowed")
    TOO_MANY_REQUESTS = _ProblemType("too-many-requests", 429, "Too many requests")
    INTERNAL = _ProblemType("internal", 500, "Internal server error")
    CLUSTER_NEVER_REACHED = _ProblemType("cluster-never-reached", 503, "Cluster not reached yet")
    NOT_READ_YET = _ProblemType("not-read-yet", 503, "Not read yet")
    NOT_READY = _ProblemType("not-ready", 503, "Not ready")
    BUSY = _ProblemType("busy", 503, "Server busy")
    CANNOT_REVIEW = _ProblemType("cannot-review", 503, "Token review unavailable")

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
    """RFC 9457. Members without a value are omitted."""

    type: Annotated[str, Meta(description="identifies the kind of problem; stable across versions")]
    title: Annotated[str, Meta(description="the kind of problem in a few words")]
    status: Annotated[Annotated[int, Meta(ge=400, le=599)], Meta(description="HTTP status code")]
    detail: Annotated[str | None, Meta(description="description of this occurrence")] = None
    instance: Annotated[str | None, Meta(description="path of the request")] = None
    parameter: Annotated[str | None, Meta(description="name of the invalid parameter")] = None
    allowed: Annotated[list[str] | None, Meta(description="allowed values or names")] = None
    cluster: Annotated[str | None, Meta(description="id of the cluster concerned")] = None
    reason: Annotated[str | None, Meta(description="why the cluster failed, as a short identifier")] = None


class Problem(Exception):
    """Raised while a request is handled. `detail` never contains a secret or a traceback."""

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


def temporary(kind: ProblemKind, detail: str, seconds: float, **members: Any) -> Problem:
    """A problem with `Retry-After`."""
    return Problem(kind, detail, headers={"Retry-After": str(max(1, math.ceil(seconds)))}, **members)


# --- Limits -------------------------------------------------------------------


REQUESTS = Rate(per_second=50.0, burst=200)
FAILED_LOGINS = Rate(per_second=0.5, burst=20)  # per address


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiLimits:
    requests: Rate = REQUESTS  # per token, or per address if no token is required
    concurrent_requests: int = 128
    streams: int = 256
    streams_of_caller: int = 16
    heartbeat_seconds: float = 15.0  # of an idle stream; its token is checked as often
    connections: int = 1024
    unsent_bytes: int = 256 << 20  # of all responses that clients have not read yet
    large_responses: int = 2  # built at the same time, in threads
    send_seconds: float = 60.0  # for the client to read a response
    idle_seconds: float = 30.0  # of a connection before its first request and between requests
    url_bytes: int = 8190
    header_bytes: int = 16384  # of one header field: a token with many groups has several KiB
    headers: int = 64


DEFAULT_LIMITS = ApiLimits()
