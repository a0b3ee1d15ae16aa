"""Token reviews without I/O: the requests of a review, and a cache of verdicts with its rules.

A review is a TokenReview (whose token is it?) and, for each path, a SubjectAccessReview (may that user read
it?).
"""

import json
import os
import re
import time

# What hashlib.blake2b is; hashlib itself would load all of OpenSSL's digests for this one.
from _blake2 import blake2b
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field

from accelscope.allowance import Allowances, Rate
from accelscope.kube.errors import DecodeError, KubeError, Reason

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ANSWER_LIMIT = 256 << 10  # bytes; a review comes back with what was sent, and with the user's groups

TOKEN_LIMIT = 8 << 10  # bytes; with claims for many groups tokens grow to a few KiB
REVIEW_RATE = Rate(per_second=10.0, burst=20)  # of tokens that are not known

_ADMITTED_SECONDS = 60.0  # a revoked token is good for so long
_REFUSED_SECONDS = 10.0
_GRACE_SECONDS = 300.0  # since the last good review, while the API server cannot be asked
CANNOT_REVIEW = (
    f"tokens cannot be reviewed: only those reviewed in the last {_GRACE_SECONDS / 60:.0f} minutes are let in"
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


@dataclass(frozen=True, slots=True)
class Verdict:
    user: str | None = None  # None: not a token of this cluster, or one that has expired
    paths: tuple[str, ...] = ()  # of those asked about, which the user may get

    @property
    def admitted(self) -> bool:
        return bool(self.paths)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a request. If a review of this token is under way, or `ask` allows one: wait for it if
    `wait` is set. Otherwise `known` decides; None: tokens cannot be reviewed now."""

    known: Verdict | None
    ask: bool
    wait: bool


class VerdictCache:
    """Verdicts by token, and when the API server is asked for another one.

    A verdict counts for a while. An admitted token is then reviewed again, and remains admitted for some
    minutes while the API server cannot be asked. Tokens that are not known are reviewed at a limited rate,
    and not at all for a while after a review failed. Not safe for use by several threads at once."""

    def __init__(
        self, *, limit: int, rate: Rate = REVIEW_RATE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._rate = Allowances(rate)
        self._clock = clock
        self._secret = os.urandom(32)  # so that a key reveals nothing about its token
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
            # While reviews fail, nobody waits for one: if it succeeds, it counts from the next request on.
            return Decision(entry.verdict, ask=now >= entry.ask_again_at, wait=self._error is None)
        return Decision(None, ask=now >= self._paused_until, wait=True)

    def usable(self, key: bytes) -> Verdict | None:
        """The verdict that counts now if the API server cannot be asked."""
        entry = self._entries.get(key)
        return None if entry is None or self._clock() >= entry.usable_until else entry.verdict

    def take_turn(self) -> float:
        """0: a token that is not known may be reviewed now. Otherwise in how many seconds."""
        return self._rate.take("", self._clock())

    @property
    def paused(self) -> bool:
        return self._clock() < self._paused_until

    def retry_after(self) -> float:
        """Seconds after which a caller who could not be reviewed may try again."""
        return max(1.0, self._paused_until - self._clock())

    def succeeded(self, key: bytes, verdict: Verdict) -> bool:
        """Whether this is the first success after failures."""
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
        """Whether reviews did not fail before, or for another reason."""
        self._paused_until = self._clock() + pause_seconds(error)
        if (entry := self._entries.get(key)) is not None:
            entry.ask_again_at = self._paused_until
        before, self._error = self._error, error.reason
        return before is not error.reason


@dataclass(slots=True)
class _Entry:
    verdict: Verdict
    fresh_until: float
    usable_until: float
    ask_again_at: float = float("-inf")  # set when a review has failed

    def has_grace(self, now: float) -> bool:
        return self.verdict.admitted and now < self.usable_until

    def worth(self, now: float) -> tuple[bool, float]:
        """What to keep when there is no room: refusals go first, for anybody can collect them."""
        return self.has_grace(now), self.fresh_until


def review(token: str, paths: Iterable[str]) -> Generator[tuple[str, bytes], bytes, Verdict]:
    """One review: yields path and body of each POST and is sent the body of its response. A path is asked
    about only if those before it are allowed. Raises KubeError for a malformed response."""
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
