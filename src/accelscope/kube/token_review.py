"""Whose token is this (TokenReview), and may that user read a page (SubjectAccessReview)? Bodies of requests
and what the answers say, how long a verdict counts, and what is said where there is none; who sends them is
somebody else's matter."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from accelscope.kube.errors import DecodeError, KubeError, Reason

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ANSWER_LIMIT = 256 << 10  # bytes; a review comes back with what was sent, and with the user's groups

ADMITTED_SECONDS = 60.0  # a revoked token is good for so long
REFUSED_SECONDS = 10.0
GRACE_SECONDS = 300.0  # since the last good review, while none can be had
CANNOT_REVIEW = (
    f"tokens cannot be reviewed: only those reviewed in the last {GRACE_SECONDS / 60:.0f} minutes are let in"
)

_PAUSE_SECONDS = (1.0, 60.0)  # after a failure: at least, and at most however long the server asks for
_BEARER_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # RFC 6750, 2.1
# Our own words. A server's, or those of a gateway before it, could repeat the token that it was asked about.
_QUOTABLE = frozenset({Reason.UNREACHABLE, Reason.TIMEOUT, Reason.TLS, Reason.UNAUTHORIZED})
_HINT = "who asks needs the right to create tokenreviews and subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class KubeUser:
    """Whom the API server takes a token's bearer for. Handed back whole: rules may use any of it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def is_bearer_token(text: str) -> bool:
    """Whether it can be one at all."""
    return _BEARER_TOKEN.fullmatch(text) is not None


def token_review(token: str) -> bytes:
    """Names no audiences: the token must be one for the API server itself."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    return json.dumps(review).encode()


def decode_token_review(answer: bytes) -> KubeUser | None:
    """None for a token that the API server does not know. Raises DecodeError for what is no review."""
    status = _status(answer, "TokenReview")
    if not _is_true(status, "authenticated"):
        return None
    user = status.get("user")
    name = user.get("username") if isinstance(user, dict) else None
    if not isinstance(user, dict) or not isinstance(name, str) or not name:
        # Nobody in particular would be let in by a rule for everybody.
        raise DecodeError("a TokenReview that is authenticated and names no user")
    uid, extra = user.get("uid"), user.get("extra")
    if not isinstance(uid, str | None) or not isinstance(extra, dict | None):
        raise DecodeError("a TokenReview with a malformed user")
    return KubeUser(
        name,
        uid or "",
        _texts(user.get("groups")),
        {key: _texts(values) for key, values in (extra or {}).items()},
    )


def access_review(user: KubeUser, path: str) -> bytes:
    """May this user `get` a path that is no resource of the API?"""
    spec: dict[str, object] = {
        "user": user.name,
        "nonResourceAttributes": {"path": path, "verb": "get"},
    }
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = user.groups
    if user.extra:
        spec["extra"] = user.extra
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return json.dumps(review).encode()


def decode_access_review(answer: bytes) -> bool:
    """Raises DecodeError for what is no review."""
    status = _status(answer, "SubjectAccessReview")
    return _is_true(status, "allowed") and not _is_true(status, "denied")


def pause_seconds(error: KubeError) -> float:
    """How long nothing is asked after a review that failed."""
    least, most = _PAUSE_SECONDS
    return min(max(error.retry_after or least, least), most)


def told_of(error: KubeError) -> dict[str, object]:
    """Of a review that failed, fields for the log; never a token."""
    told: dict[str, object] = {"reason": error.reason.value}
    if error.status is not None:
        told["status"] = error.status
    elif error.reason in _QUOTABLE:
        told["error"] = error.text
    if error.reason is Reason.FORBIDDEN:
        told["hint"] = _HINT
    return told


def _status(answer: bytes, kind: str) -> dict[str, object]:
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        raise DecodeError(f"a {kind} that is no JSON") from None
    status = document.get("status") if isinstance(document, dict) else None
    if not isinstance(status, dict) or document.get("kind") != kind:
        raise DecodeError(f"an answer that is no {kind}")
    return status


def _is_true(status: Mapping[str, object], name: str) -> bool:
    """Go leaves a false out. What only looks like true is an error, not a yes."""
    value = status.get(name, False)
    if not isinstance(value, bool):
        raise DecodeError(f"a review whose {name!r} is neither true nor false")
    return value


def _texts(values: object) -> tuple[str, ...]:
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DecodeError("a TokenReview with a malformed user")
    return tuple(values)
