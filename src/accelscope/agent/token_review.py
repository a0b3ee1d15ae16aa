"""Guarded pages for those whom the API server vouches for: it must know the bearer's token (TokenReview) and
let that user `get` the page's path (SubjectAccessReview).

The server's thread only looks at verdicts that are known; a thread of its own asks for the others, one at a
time, so that an API server that is slow or away costs nobody but those who wait for its word. While it cannot
be asked, whom it let in a few minutes ago is still let in, and nobody else.
"""

import logging
import os
import re
import threading
import time

# What hashlib.blake2b is; hashlib itself would load all of OpenSSL's digests for this one.
from _blake2 import blake2b
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from accelscope.config.log import fields
from accelscope.kube.client import JSON, Client
from accelscope.kube.endpoint import Endpoint
from accelscope.kube.errors import DecodeError, KubeError, Reason
from accelscope.kube.token_review import (
    ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    access_review,
    decode_access_review,
    decode_token_review,
    token_review,
)
from accelscope.serve import Continuation, Deferred, Request, Response, shown_tokens, unauthorized

log = logging.getLogger(__name__)

REVIEW_SECONDS = 5.0  # for both questions together, and for the turn to come
ADMITTED_SECONDS = 60.0  # a revoked token is good for so long
REFUSED_SECONDS = 10.0
GRACE_SECONDS = 300.0  # since the last good review, while none can be had
VERDICTS_LIMIT = 256
QUEUE_LIMIT = 32  # tokens not seen before that wait for their review
TOKEN_LIMIT = 8 * 1024  # bytes; with claims for many groups tokens grow to some KiB

_PAUSE_SECONDS = (1.0, 60.0)  # after a failure: at least, and at most however long the server asks for
_ANSWER_LIMIT = 256 << 10  # bytes; a review comes back with what was sent, and with the user's groups
_BEARER_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # RFC 6750, 2.1

# The server's words for these come before it looks at what was sent; any other's could repeat a token.
_QUOTABLE = frozenset({Reason.UNREACHABLE, Reason.TIMEOUT, Reason.TLS, Reason.UNAUTHORIZED, Reason.FORBIDDEN})


class Verdict(Enum):
    ADMITTED = auto()
    UNKNOWN = auto()  # no token of this cluster, or one that has expired
    FORBIDDEN = auto()  # a user whom no rule lets read this path


class Reviewer(Protocol):
    """Used by one thread."""

    def review(self, token: str, path: str) -> Verdict:
        """Raises KubeError."""

    def close(self) -> None:
        """Nothing more will be asked."""


class ApiServerReviewer:
    def __init__(self, endpoint: Endpoint, *, review_seconds: float = REVIEW_SECONDS) -> None:
        self._review_seconds = review_seconds
        self._client = Client(endpoint)

    def review(self, token: str, path: str) -> Verdict:
        deadline = time.monotonic() + self._review_seconds
        try:
            user = decode_token_review(self._post(TOKEN_REVIEWS, token_review(token), deadline))
            if user is None:
                return Verdict.UNKNOWN
            allowed = decode_access_review(self._post(ACCESS_REVIEWS, access_review(user, path), deadline))
        except DecodeError as error:
            raise KubeError(Reason.BAD_ANSWER, str(error)) from None
        return Verdict.ADMITTED if allowed else Verdict.FORBIDDEN

    def close(self) -> None:
        self._client.close()

    def _post(self, path: str, body: bytes, deadline: float) -> bytes:
        try:
            return self._posted(path, body, deadline)
        except KubeError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise
        # The kept connection may have been closed just now. A review creates nothing: it may be asked twice.
        return self._posted(path, body, deadline)

    def _posted(self, path: str, body: bytes, deadline: float) -> bytes:
        self._client.timeout_seconds = deadline - time.monotonic()
        return self._client.request(
            "POST", path, body=body, content_type=JSON, limit_bytes=_ANSWER_LIMIT
        ).body


@dataclass(slots=True)
class _Known:
    verdict: Verdict
    fresh_until: float
    usable_until: float
    ask_again_at: float = 0.0  # not before; set when a review has failed

    def worth(self, now: float) -> tuple[bool, float]:
        """What to keep when there is no room: refusals go first, for anybody can collect them."""
        return self.verdict is Verdict.ADMITTED and now < self.usable_until, self.fresh_until


@dataclass(slots=True, repr=False)
class _Review:
    """One that is asked for and not done yet."""

    key: bytes
    token: str
    path: str
    asked_at: float
    renewal: bool  # of a good verdict
    waiting: list[tuple[Deferred, Continuation]] = field(default_factory=list)


class TokenReviewGuard:
    """A `serve.Guard`. `clock` tells seconds, from any beginning."""

    def __init__(self, reviewer: Reviewer, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviewer = reviewer
        self._clock = clock
        self._secret = os.urandom(32)  # so that a verdict's key tells nothing about its token
        self._changed = threading.Condition()  # guards all below
        self._known: dict[bytes, _Known] = {}
        self._pending: dict[bytes, _Review] = {}
        self._queue: deque[_Review] = deque()
        self._away: Reason | None = None  # why the last review failed
        self._paused_until = float("-inf")
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="token-review", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def admit(self, request: Request, proceed: Continuation) -> Response | Deferred:
        tokens = shown_tokens(request)
        if not tokens:
            return unauthorized()
        token = tokens[0]  # one review a request, however many tokens it brings
        if len(token) > TOKEN_LIMIT:
            return unauthorized(f"a token of more than {TOKEN_LIMIT} bytes is not taken")
        if _BEARER_TOKEN.fullmatch(token) is None:
            return unauthorized("this is not a bearer token")
        with self._changed:
            decided = self._decide(token, request.path, proceed)
        if isinstance(decided, Deferred):
            return decided
        return proceed() if decided is Verdict.ADMITTED else self._refusal(decided)

    def _decide(self, token: str, path: str, proceed: Continuation) -> Verdict | Deferred | None:
        """None: it cannot be known now."""
        key = blake2b(f"{path} {token}".encode(), key=self._secret, digest_size=16).digest()
        now = self._clock()
        known = self._known.get(key)
        if known is not None and now < known.fresh_until:
            return known.verdict
        renewal = known is not None and known.verdict is Verdict.ADMITTED and now < known.usable_until
        review = self._pending.get(key)
        if review is None and now >= (known.ask_again_at if renewal and known else self._paused_until):
            review = self._asked(_Review(key, token, path, now, renewal))
        if renewal and self._away is not None:
            return Verdict.ADMITTED  # a review that is under way takes it back if need be
        if review is None:
            return None
        deferred = Deferred()
        review.waiting.append((deferred, proceed))
        return deferred

    def _asked(self, review: _Review) -> _Review | None:
        """What was good before is reviewed first, and always: made-up tokens must not crowd it out."""
        if review.renewal:
            self._queue.appendleft(review)
        elif len(self._queue) < QUEUE_LIMIT:
            self._queue.append(review)
        else:
            return None
        self._pending[review.key] = review
        self._changed.notify()
        return review

    def _run(self) -> None:
        while self._review_next():
            pass
        self._reviewer.close()

    def _review_next(self) -> bool:
        with self._changed:
            while not self._queue and not self._stopping:
                self._changed.wait()
            if self._stopping:
                return False
            review = self._queue.popleft()
            now = self._clock()
            paused = now < self._paused_until and not review.renewal
            ask = not paused and now < review.asked_at + REVIEW_SECONDS
        verdict, error = None, None
        if ask:
            try:
                verdict = self._reviewer.review(review.token, review.path)
            except KubeError as problem:
                error = problem
            except Exception as problem:
                log.exception("a token's review failed unexpectedly")
                error = KubeError(Reason.BAD_ANSWER, type(problem).__name__)
        with self._changed:
            if error is not None:
                self._failed(review, error)
            elif verdict is not None:
                self._succeeded(review, verdict)
            known = self._known.get(review.key)
            if known is not None and self._clock() < known.usable_until:
                verdict = known.verdict
            del self._pending[review.key]
        answer = self._refusal(verdict)
        for deferred, proceed in review.waiting:
            deferred.complete(proceed if verdict is Verdict.ADMITTED else answer)
        return True

    def _succeeded(self, review: _Review, verdict: Verdict) -> None:
        if self._away is not None:
            self._away = None
            self._paused_until = float("-inf")
            log.info("tokens can be reviewed again")
        now = self._clock()
        admitted = verdict is Verdict.ADMITTED
        fresh_until = now + (ADMITTED_SECONDS if admitted else REFUSED_SECONDS)
        usable_until = now + GRACE_SECONDS if admitted else fresh_until
        self._known[review.key] = _Known(verdict, fresh_until, usable_until)
        while len(self._known) > VERDICTS_LIMIT:
            del self._known[min(self._known, key=lambda key: self._known[key].worth(now))]

    def _failed(self, review: _Review, error: KubeError) -> None:
        least, most = _PAUSE_SECONDS
        again_at = self._clock() + min(max(error.retry_after or least, least), most)
        self._paused_until = again_at
        if (known := self._known.get(review.key)) is not None:
            known.ask_again_at = again_at
        if self._away is not error.reason:
            self._away = error.reason
            said = {"error": error.text} if error.reason in _QUOTABLE else {}
            if error.reason is Reason.FORBIDDEN:
                said["hint"] = (
                    "--token-review needs the right to create tokenreviews and subjectaccessreviews"
                )
            log.warning(
                "tokens cannot be reviewed: only those reviewed in the last %d minutes are let in",
                GRACE_SECONDS // 60,
                extra=fields(reason=error.reason.value, **said),
            )

    def _refusal(self, verdict: Verdict | None) -> Response:
        if verdict is Verdict.FORBIDDEN:
            return Response.text(
                403, "the token's user may not read this: a ClusterRole must allow get on this nonResourceURL"
            )
        if verdict is Verdict.UNKNOWN:
            return unauthorized("the API server does not accept this token")
        pause = max(1, round(self._paused_until - self._clock())) if self._away is not None else 1
        return Response.text(
            503,
            "tokens cannot be reviewed at the moment; the agent's log says why",
            ("Retry-After", str(pause)),
        )
