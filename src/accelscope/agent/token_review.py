"""Guarded pages for those whom the API server vouches for: it must know the bearer's token (TokenReview) and
let that user `get` the page's path (SubjectAccessReview).

The server's thread only looks at verdicts that are known; threads of their own ask for the others, so that
an API server that is slow or away costs nobody but those who wait for its word. While it cannot be asked,
whom it let in a few minutes ago is still let in, and nobody else.

Anybody can make up tokens. One thread reviews those that were not seen before, one at a time, at a pace, and
their senders in turn; another reviews anew those that were good, which therefore wait for nobody's.
"""

import logging
import os
import threading
import time

# What hashlib.blake2b is; hashlib itself would load all of OpenSSL's digests for this one.
from _blake2 import blake2b
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from accelscope.agent.token_reviewer import Reviewer, Verdict
from accelscope.allowance import Allowances, Rate
from accelscope.config.log import fields
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.token_review import (
    ADMITTED_SECONDS,
    CANNOT_REVIEW,
    GRACE_SECONDS,
    REFUSED_SECONDS,
    is_bearer_token,
    pause_seconds,
    told_of,
)
from accelscope.model import Counted
from accelscope.serve import Continuation, Deferred, Request, Response, shown_tokens, unauthorized
from accelscope.serve.fair_queue import FairQueue

log = logging.getLogger(__name__)

TURN_SECONDS = 5.0  # for the turn to come
VERDICTS_LIMIT = 256
TOKEN_LIMIT = 8 * 1024  # bytes; with claims for many groups tokens grow to some KiB

_QUIET_SECONDS = 60.0  # without anybody turned away: the next one is news


@dataclass(frozen=True, slots=True)
class ReviewLimits:
    """Of tokens not seen before. A scraper brings one a page and, with a new token, one an hour."""

    waiting: int = 32
    waiting_of_peer: int = 8
    per_second: float = 10.0
    burst: int = 20
    peer_per_second: float = 1.0
    peer_burst: int = 8


class Result(StrEnum):
    ALLOWED = "allowed"
    DENIED = "denied"
    ERROR = "error"  # the API server could not be asked
    LIMITED = "limited"  # it was not asked: too many others were to be


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
    waiting: list[tuple[Deferred, Continuation]] = field(default_factory=list)


class TokenReviewGuard:
    """A `serve.Guard`. `clock` tells seconds, from any beginning."""

    def __init__(
        self,
        reviewer: Reviewer,
        *,
        limits: ReviewLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = limits or ReviewLimits()
        self._reviewer = reviewer
        self._clock = clock
        self._secret = os.urandom(32)  # so that a verdict's key tells nothing about its token
        self._changed = threading.Condition()  # guards all below
        self._known: dict[bytes, _Known] = {}
        self._pending: dict[bytes, _Review] = {}
        self._renewals: deque[_Review] = deque()  # no more than there are verdicts
        self._unseen: FairQueue[_Review] = FairQueue(limits.waiting, limits.waiting_of_peer)
        self._pace = Allowances(Rate(limits.per_second, limits.burst))
        self._peers = Allowances(Rate(limits.peer_per_second, limits.peer_burst), keys_limit=1024)
        self._counts = dict.fromkeys(Result, 0)
        self._limited_at = float("-inf")  # when somebody was last turned away
        self._away: Reason | None = None  # why the last review failed
        self._paused_until = float("-inf")
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, args=(take,), name=name, daemon=True)
            for name, take in (("token-review", self._take_unseen), ("token-renewal", self._take_renewal))
        ]

    @property
    def reviews(self) -> tuple[Counted, ...]:
        """How many there were, by what came of them; verdicts that were known are none."""
        with self._changed:
            return tuple(Counted(result, count) for result, count in self._counts.items())

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def admit(self, request: Request, proceed: Continuation) -> Response | Deferred:
        tokens = shown_tokens(request)
        if not tokens:
            return unauthorized()
        token = tokens[0]  # one review a request, however many tokens it brings
        if len(token) > TOKEN_LIMIT:
            return unauthorized(f"a token of more than {TOKEN_LIMIT} bytes is not taken")
        if not is_bearer_token(token):
            return unauthorized("this is not a bearer token")
        with self._changed:
            decided = self._decide(token, request, proceed)
        return proceed() if decided is Verdict.ADMITTED else decided

    def _decide(
        self, token: str, request: Request, proceed: Continuation
    ) -> Literal[Verdict.ADMITTED] | Response | Deferred:
        path = request.path
        key = blake2b(f"{path} {token}".encode(), key=self._secret, digest_size=16).digest()
        now = self._clock()
        known = self._known.get(key)
        if known is not None and now < known.fresh_until:
            return known.verdict if known.verdict is Verdict.ADMITTED else self._refusal(known.verdict)
        renewal = known is not None and known.verdict is Verdict.ADMITTED and now < known.usable_until
        review = self._pending.get(key)
        if review is None and now >= (known.ask_again_at if renewal and known else self._paused_until):
            review = _Review(key, token, path, now)
            if renewal:
                self._renewals.append(review)
            elif (refusal := self._turned_away(review, request.peer, now)) is not None:
                return refusal
            self._pending[key] = review
            self._changed.notify_all()
        if renewal and self._away is not None:
            return Verdict.ADMITTED  # a review that is under way takes it back if need be
        if review is None:  # it is not asked about again yet
            return Verdict.ADMITTED if renewal else self._refusal(None)
        deferred = Deferred()
        review.waiting.append((deferred, proceed))
        return deferred

    def _turned_away(self, review: _Review, peer: str, now: float) -> Response | None:
        """None: it waits for its turn from now on."""
        wait = self._peers.take(peer, now) if self._unseen.has_room(peer) else 1.0
        if wait:
            self._limited(peer, now)
            return _later(429, "too many unknown tokens come from this address", wait)
        displaced = self._unseen.append(peer, review)
        if displaced is None:
            return None
        self._limited(peer, now)
        refusal = _later(503, "too many unknown tokens wait for their review", 1.0)
        if displaced is review:
            return refusal
        del self._pending[displaced.key]
        _answer(displaced.waiting, refusal)
        return None

    def _limited(self, peer: str, now: float) -> None:
        self._counts[Result.LIMITED] += 1
        if now >= self._limited_at + _QUIET_SECONDS:
            log.warning(
                "more unknown tokens come than are reviewed: some are turned away", extra=fields(peer=peer)
            )
        self._limited_at = now

    def _run(self, take: Callable[[], tuple[_Review, bool] | None]) -> None:
        while self._review_next(take):
            pass  # with nothing left of the last one: tokens are not kept while the next is waited for
        self._reviewer.close()

    def _review_next(self, take: Callable[[], tuple[_Review, bool] | None]) -> bool:
        with self._changed:
            taken = take()
        if taken is None:
            return False
        self._review(*taken)
        return True

    def _take_renewal(self) -> tuple[_Review, bool] | None:
        """A review, and whether there is any use in it; None: it is time to end."""
        while not self._renewals and not self._stopping:
            self._changed.wait()
        if self._stopping:
            return None
        review = self._renewals.popleft()
        return review, self._clock() < review.asked_at + TURN_SECONDS

    def _take_unseen(self) -> tuple[_Review, bool] | None:
        while not self._stopping:
            if not self._unseen:
                self._changed.wait()
                continue
            now = self._clock()
            if now < self._paused_until:
                return self._unseen.pop(), False
            if now >= self._unseen.first().asked_at + TURN_SECONDS:
                self._counts[Result.LIMITED] += 1
                return self._unseen.pop(), False
            if not (wait := self._pace.take("", now)):
                return self._unseen.pop(), True
            self._changed.wait(wait)
        return None

    def _review(self, review: _Review, ask: bool) -> None:
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
            refusal = None if verdict is Verdict.ADMITTED else self._refusal(verdict)
        _answer(review.waiting, refusal)

    def _succeeded(self, review: _Review, verdict: Verdict) -> None:
        if self._away is not None:
            self._away = None
            self._paused_until = float("-inf")
            log.info("tokens can be reviewed again")
        now = self._clock()
        admitted = verdict is Verdict.ADMITTED
        self._counts[Result.ALLOWED if admitted else Result.DENIED] += 1
        fresh_until = now + (ADMITTED_SECONDS if admitted else REFUSED_SECONDS)
        usable_until = now + GRACE_SECONDS if admitted else fresh_until
        self._known[review.key] = _Known(verdict, fresh_until, usable_until)
        while len(self._known) > VERDICTS_LIMIT:
            del self._known[min(self._known, key=lambda key: self._known[key].worth(now))]

    def _failed(self, review: _Review, error: KubeError) -> None:
        self._counts[Result.ERROR] += 1
        again_at = self._clock() + pause_seconds(error)
        self._paused_until = again_at
        if (known := self._known.get(review.key)) is not None:
            known.ask_again_at = again_at
        if self._away is not error.reason:
            self._away = error.reason
            log.warning(CANNOT_REVIEW, extra=fields(**told_of(error)))

    def _refusal(self, verdict: Verdict | None) -> Response:
        if verdict is Verdict.FORBIDDEN:
            return Response.text(
                403, "the token's user may not read this: a ClusterRole must allow get on this nonResourceURL"
            )
        if verdict is Verdict.UNKNOWN:
            return unauthorized("the API server does not accept this token")
        pause = self._paused_until - self._clock() if self._away is not None else 1.0
        return _later(503, "tokens cannot be reviewed at the moment; the agent's log says why", pause)


def _later(status: int, text: str, seconds: float) -> Response:
    return Response.text(status, text, ("Retry-After", str(max(1, round(seconds)))))


def _answer(waiting: Iterable[tuple[Deferred, Continuation]], refusal: Response | None) -> None:
    """None: they are let in."""
    for deferred, proceed in waiting:
        deferred.complete(proceed if refusal is None else refusal)
