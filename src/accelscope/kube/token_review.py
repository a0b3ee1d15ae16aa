"""Token reviews without I/O: the requests of a review, and a cache of verdicts.

A review is a TokenReview, which identifies the user, and one SubjectAccessReview per path, which checks that
the user may read it.
"""

import json
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from accelscope.kube.endpoint import DecodeError, KubeError, Reason
from accelscope.rate_limit import Rate, RateLimiter

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ANSWER_LIMIT = 256 << 10  # bytes; the response repeats the request and adds the user's groups

TOKEN_LIMIT = 8 << 10  # bytes; tokens with many group claims have a few KiB
REVIEW_RATE = Rate(per_second=10.0, burst=20)  # of unknown tokens

_ADMITTED_SECONDS = 60.0  # a revoked token is accepted for at most this long
_REFUSED_SECONDS = 10.0
_GRACE_SECONDS = 300.0  # since the last successful review, while the API server is unavailable
CANNOT_REVIEW = (
    f"cannot review tokens; only tokens reviewed in the last {_GRACE_SECONDS / 60:.0f} minutes are accepted"
)

_PAUSE_SECONDS = (1.0, 60.0)  # after a failure: minimum and maximum, whatever the server requests
_BEARER_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # RFC 6750, 2.1
# Errors with our own text. The text of a server or gateway could repeat the token.
_QUOTABLE = frozenset({Reason.UNREACHABLE, Reason.TIMEOUT, Reason.TLS, Reason.UNAUTHORIZED})
_HINT = "the service account needs the right to create tokenreviews and subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class KubeUser:
    """The user that a token belongs to. All fields are sent back, because access rules may use any."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    user: str | None = None  # None: the token is not from this cluster, or has expired
    paths: tuple[str, ...] = ()  # requested paths that the user may get

    @property
    def admitted(self) -> bool:
        return bool(self.paths)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a request. If a review of this token is in progress, or `ask` allows one, wait for it
    if `wait` is set. Otherwise `known` applies; None means that tokens cannot be reviewed now."""

    known: Verdict | None
    ask: bool
    wait: bool


class VerdictCache:
    """Verdicts by token, and the rules for the next review.

    A verdict is valid for some seconds. An admitted token is then reviewed again, and remains admitted for
    some minutes while the API server is unavailable. Unknown tokens are reviewed at a limited rate, and not
    at all for some time after a failed review. Not thread-safe."""

    def __init__(
        self, *, limit: int, rate: Rate = REVIEW_RATE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._rate = RateLimiter(rate)
        self._clock = clock
        self._secret = os.urandom(32)  # a key must not reveal its token
        self._entries: dict[bytes, _Entry] = {}
        self._error: Reason | None = None  # why the last review failed
        self._paused_until = float("-inf")

    def __len__(self) -> int:
        return len(self._entries)

    def key(self, token: str, path: str = "") -> bytes:
        return blake2b(f"{path} {token}".encode(), key=self._secret, digest_size=16).digest()

    def decide(self, key: bytes) -> Decision:
        now = self._clock()
        entry = self._entries.get(key)
        if entry is not None and now < entry.fresh_until:
            return Decision(entry.verdict, ask=False, wait=False)
        if entry is not None and entry.has_grace(now):
            # While reviews fail, requests do not wait for one. If it succeeds, it applies to the next
            # request.
            return Decision(entry.verdict, ask=now >= entry.ask_again_at, wait=self._error is None)
        return Decision(None, ask=now >= self._paused_until, wait=True)

    def usable(self, key: bytes) -> Verdict | None:
        """The verdict to use while the API server is unavailable."""
        entry = self._entries.get(key)
        return None if entry is None or self._clock() >= entry.usable_until else entry.verdict

    def take_turn(self) -> float:
        """0 if an unknown token may be reviewed now, otherwise the seconds until then."""
        return self._rate.take("", self._clock())

    @property
    def paused(self) -> bool:
        return self._clock() < self._paused_until

    def retry_after(self) -> float:
        """Seconds after which a client whose token could not be reviewed may retry."""
        return max(1.0, self._paused_until - self._clock())

    def succeeded(self, key: bytes, verdict: Verdict) -> bool:
        """Record a verdict. Returns whether this is the first success after failures."""
        recovered = self._error is not None
        self._error, self._paused_until = None, float("-inf")
        now = self._clock()
        fresh_until = now + (_ADMITTED_SECONDS if verdict.admitted else _REFUSED_SECONDS)
        usable_until = now + _GRACE_SECONDS if verdict.admitted else fresh_until
        self._entries[key] = _Entry(verdict, fresh_until, usable_until)
        while len(self._entries) > self._limit:
            del self._entries[min(self._entries, key=lambda each: self._entries[each].worth(now))]
        return recovered

    def failed(self, key: bytes, error: KubeError) -> bool:
        """Record a failure. Returns whether its reason differs from that of the previous review."""
        self._paused_until = self._clock() + pause_seconds(error)
        if (entry := self._entries.get(key)) is not None:
            entry.ask_again_at = self._paused_until
        previous, self._error = self._error, error.reason
        return previous is not error.reason


@dataclass(slots=True)
class _Entry:
    verdict: Verdict
    fresh_until: float
    usable_until: float
    ask_again_at: float = float("-inf")  # set when a review has failed

    def has_grace(self, now: float) -> bool:
        return self.verdict.admitted and now < self.usable_until

    def worth(self, now: float) -> tuple[bool, float]:
        """Order of eviction. Refusals go first, because anyone can cause them."""
        return self.has_grace(now), self.fresh_until


def review(token: str, paths: Iterable[str]) -> Generator[tuple[str, bytes], bytes, Verdict]:
    """One review: yields the path and body of each POST and receives the body of the response. A path is
    reviewed only if the previous ones are allowed. Raises KubeError for a malformed response."""
    try:
        user = decode_token_review((yield TOKEN_REVIEWS, token_review(token)))
        if user is None:
            return Verdict()
        allowed: list[str] = []
        for path in paths:
            if not decode_access_review((yield ACCESS_REVIEWS, access_review(user, path))):
                break
            allowed.append(path)
    except DecodeError as error:
        raise KubeError(Reason.BAD_ANSWER, str(error)) from None
    return Verdict(user.name, tuple(allowed))


def is_bearer_token(text: str) -> bool:
    """Whether the text has the syntax of a bearer token."""
    return _BEARER_TOKEN.fullmatch(text) is not None


def token_review(token: str) -> bytes:
    """Without audiences, so the token must be one for the API server itself."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    return json.dumps(review).encode()


def decode_token_review(answer: bytes) -> KubeUser | None:
    """None if the token is not valid. Raises DecodeError."""
    status = _status(answer, "TokenReview")
    if not _is_true(status, "authenticated"):
        return None
    user = status.get("user")
    name = user.get("username") if isinstance(user, dict) else None
    if not isinstance(user, dict) or not isinstance(name, str) or not name:
        # A user without a name would match rules for all users.
        raise DecodeError("authenticated TokenReview without a user name")
    uid, extra = user.get("uid"), user.get("extra")
    if not isinstance(uid, str | None) or not isinstance(extra, dict | None):
        raise DecodeError("malformed user in a TokenReview")
    return KubeUser(
        name,
        uid or "",
        _texts(user.get("groups")),
        {key: _texts(values) for key, values in (extra or {}).items()},
    )


def access_review(user: KubeUser, path: str) -> bytes:
    """Ask whether the user may `get` a non-resource path."""
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
    """Raises DecodeError."""
    status = _status(answer, "SubjectAccessReview")
    return _is_true(status, "allowed") and not _is_true(status, "denied")


def pause_seconds(error: KubeError) -> float:
    """Pause after a failed review."""
    least, most = _PAUSE_SECONDS
    return min(max(error.retry_after or least, least), most)


def log_fields(error: KubeError) -> dict[str, object]:
    """Log fields of a failed review. They never contain a token."""
    fields: dict[str, object] = {"reason": error.reason.value}
    if error.status is not None:
        fields["status"] = error.status
    elif error.reason in _QUOTABLE:
        fields["error"] = error.text
    if error.reason is Reason.FORBIDDEN:
        fields["hint"] = _HINT
    return fields


def _status(answer: bytes, kind: str) -> dict[str, object]:
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        raise DecodeError(f"{kind} is not JSON") from None
    status = document.get("status") if isinstance(document, dict) else None
    if not isinstance(status, dict) or document.get("kind") != kind:
        raise DecodeError(f"the response is not a {kind}")
    return status


def _is_true(status: Mapping[str, object], name: str) -> bool:
    """Go omits false values. A value that is not a boolean is an error, not true."""
    value = status.get(name, False)
    if not isinstance(value, bool):
        raise DecodeError(f"{name!r} of a review is not a boolean")
    return value


def _texts(values: object) -> tuple[str, ...]:
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DecodeError("malformed user in a TokenReview")
    return tuple(values)
