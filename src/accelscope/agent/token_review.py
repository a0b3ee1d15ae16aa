"""Authentication by the API server: it must accept the bearer token (TokenReview) and allow its user to `get`
the page's path (SubjectAccessReview).

The server's thread uses cached verdicts only. Two other threads make the requests, so a slow API server
delays only clients whose token needs a review. While the API server is unreachable, users that it admitted
in the last minutes are still admitted, and no others.

Anyone can send invented tokens. So one thread reviews unknown tokens, rate limited and taking turns between
client addresses. The other thread renews verdicts of accepted tokens, which do not wait behind unknown ones.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from accelscope.config.log import fields
from accelscope.kube.client import JSON, Client
from accelscope.kube.endpoint import Endpoint, KubeError, Reason
from accelscope.kube.token_review import (
    ANSWER_LIMIT,
    CANNOT_REVIEW,
    REVIEW_RATE,
    TOKEN_LIMIT,
    Verdict,
    VerdictCache,
    is_bearer_token,
    log_fields,
    review,
)
from accelscope.model import ReasonCount
from accelscope.rate_limit import Rate, RateLimiter
from accelscope.serve import Continuation, DeferredResponse, Request, Response, request_tokens, unauthorized

log = logging.getLogger(__name__)

T = TypeVar("T")

REVIEW_SECONDS = 5.0  # for both requests together
TURN_SECONDS = 5.0  # longest time in the queue
VERDICTS_LIMIT = 256

_QUIET_SECONDS = 60.0  # after this time without a rejected request, the next one is logged


class ApiServerReviewer:
    """Requests reviews from the API server. Used by several threads."""

    def __init__(self, endpoint: Endpoint, *, review_seconds: float = REVIEW_SECONDS) -> None:
        self._endpoint = endpoint
        self._review_seconds = review_seconds
        self._local = threading.local()  # a client per thread, because the deadline is set on the client

    def review(self, token: str, path: str) -> Verdict:
        """Raises KubeError."""
        deadline = time.monotonic() + self._review_seconds
        steps = review(token, (path,))
        request = next(steps)
        while True:
            response = self._post(*request, deadline)
            try:
                request = steps.send(response)
            except StopIteration as end:
                verdict: Verdict = end.value
                return verdict

    def close(self) -> None:
        """Close the connection of the calling thread."""
        if (client := self._thread_client()) is not None:
            client.close()

    def _thread_client(self) -> Client | None:
        client: Client | None = getattr(self._local, "client", None)
        return client

    def _post(self, path: str, body: bytes, deadline: float) -> bytes:
        try:
            return self._post_once(path, body, deadline)
        except KubeError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise
        # The server may just have closed the kept connection. A review creates nothing and can be repeated.
        return self._post_once(path, body, deadline)

    def _post_once(self, path: str, body: bytes, deadline: float) -> bytes:
        client = self._thread_client()
        if client is None:
            client = self._local.client = Client(self._endpoint)
        client.timeout_seconds = deadline - time.monotonic()
        return client.request("POST", path, body=body, content_type=JSON, limit_bytes=ANSWER_LIMIT).body


@dataclass(frozen=True, slots=True)
class ReviewLimits:
    """For unknown tokens. A scraper sends one per page at first, then one per hour when its token changes."""

    waiting: int = 32
    waiting_of_peer: int = 8
    per_second: float = REVIEW_RATE.per_second
    burst: int = REVIEW_RATE.burst
    peer_per_second: float = 1.0
    peer_burst: int = 8


class ReviewOutcome(StrEnum):
    ALLOWED = "allowed"
    DENIED = "denied"
    ERROR = "error"  # the request to the API server failed
    LIMITED = "limited"  # no request was made: too many reviews were waiting


@dataclass(slots=True, repr=False)
class _Review:
    """A review that is not finished."""

    key: bytes
    token: str
    path: str
    asked_at: float
    waiting: list[tuple[DeferredResponse, Continuation]] = field(default_factory=list)


class FairQueue(Generic[T]):
    """A bounded queue in which client addresses take turns. The items of one address stay in order."""

    def __init__(self, limit: int, peer_limit: int) -> None:
        self._limit = limit
        self._peer_limit = peer_limit
        self._waiting: dict[str, deque[T]] = {}  # by peer, in the order of their turns; never empty
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def has_room(self, peer: str) -> bool:
        """Whether the peer is below its own limit."""
        return len(self._waiting.get(peer, ())) < self._peer_limit

    def append(self, peer: str, item: T) -> T | None:
        """Returns the item that was dropped, if any: this one, or another's. In a full queue, a peer without
        an item displaces the last item of the peer with the most."""
        displaced = None
        if not self.has_room(peer):
            return item
        if self._length >= self._limit:
            most = max(self._waiting, key=lambda each: len(self._waiting[each]))
            if peer in self._waiting or len(self._waiting[most]) == 1:
                return item
            displaced = self._waiting[most].pop()
            self._length -= 1
        self._waiting.setdefault(peer, deque()).append(item)
        self._length += 1
        return displaced

    def first(self) -> T:
        """The next item, which stays in the queue. The queue must not be empty."""
        return next(iter(self._waiting.values()))[0]

    def pop(self) -> T:
        """Removes and returns the next item. The queue must not be empty."""
        peer = next(iter(self._waiting))
        items = self._waiting.pop(peer)
        item = items.popleft()
        if items:
            self._waiting[peer] = items  # at the end
        self._length -= 1
        return item


class TokenReviewGuard:
    """A `serve.Guard`. `clock` must be monotonic."""

    def __init__(
        self,
        reviewer: ApiServerReviewer,
        *,
        limits: ReviewLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = limits or ReviewLimits()
        self._reviewer = reviewer
        self._clock = clock
        self._changed = threading.Condition()  # guards all below
        self._verdicts = VerdictCache(
            limit=VERDICTS_LIMIT, rate=Rate(limits.per_second, limits.burst), clock=clock
        )
        self._pending: dict[bytes, _Review] = {}
        self._renewals: deque[_Review] = deque()  # at most one per verdict
        self._unseen: FairQueue[_Review] = FairQueue(limits.waiting, limits.waiting_of_peer)
        self._peers = RateLimiter(Rate(limits.peer_per_second, limits.peer_burst), keys_limit=1024)
        self._counts = dict.fromkeys(ReviewOutcome, 0)
        self._limited_at = float("-inf")  # when a request was last rejected
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, args=(take,), name=name, daemon=True)
            for name, take in (("token-review", self._take_unseen), ("token-renewal", self._take_renewal))
        ]

    @property
    def reviews(self) -> tuple[ReasonCount, ...]:
        """The number of reviews by outcome. Requests with a cached verdict need no review."""
        with self._changed:
            return tuple(ReasonCount(result, count) for result, count in self._counts.items())

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

    def admit(self, request: Request, proceed: Continuation) -> Response | DeferredResponse:
        tokens = request_tokens(request)
        if not tokens:
            return unauthorized()
        token = tokens[0]  # at most one review per request
        if len(token) > TOKEN_LIMIT:
            return unauthorized(f"the token is longer than {TOKEN_LIMIT} bytes")
        if not is_bearer_token(token):
            return unauthorized("this is not a bearer token")
        with self._changed:
            decided = self._decide(token, request, proceed)
        return proceed() if decided is None else decided

    def _decide(
        self, token: str, request: Request, proceed: Continuation
    ) -> Response | DeferredResponse | None:
        """None if the request is admitted."""
        key = self._verdicts.key(token, request.path)
        decision = self._verdicts.decide(key)
        review = self._pending.get(key)
        if review is None and decision.ask:
            review = _Review(key, token, request.path, self._clock())
            if decision.known is not None:
                self._renewals.append(review)
            elif (refusal := self._enqueue(review, request.peer)) is not None:
                return refusal
            self._pending[key] = review
            self._changed.notify_all()
        if review is None or not decision.wait:
            return self._refusal(decision.known)
        deferred = DeferredResponse()
        review.waiting.append((deferred, proceed))
        return deferred

    def _enqueue(self, review: _Review, peer: str) -> Response | None:
        """The response if there is no room, or None."""
        now = review.asked_at
        wait = self._peers.take(peer, now) if self._unseen.has_room(peer) else 1.0
        if wait:
            self._limited(peer, now)
            return _retry_later(429, "too many unknown tokens from this address", wait)
        displaced = self._unseen.append(peer, review)
        if displaced is None:
            return None
        self._limited(peer, now)
        refusal = _retry_later(503, "too many unknown tokens are waiting for review", 1.0)
        if displaced is review:
            return refusal
        del self._pending[displaced.key]
        _answer(displaced.waiting, refusal)
        return None

    def _limited(self, peer: str, now: float) -> None:
        self._counts[ReviewOutcome.LIMITED] += 1
        if now >= self._limited_at + _QUIET_SECONDS:
            log.warning("too many unknown tokens: some requests are rejected", extra=fields(peer=peer))
        self._limited_at = now

    def _run(self, take: Callable[[], tuple[_Review, bool] | None]) -> None:
        while self._review_next(take):
            pass  # in a function of its own, so that no token stays in memory while this thread waits
        self._reviewer.close()

    def _review_next(self, take: Callable[[], tuple[_Review, bool] | None]) -> bool:
        with self._changed:
            taken = take()
        if taken is None:
            return False
        self._review(*taken)
        return True

    def _take_renewal(self) -> tuple[_Review, bool] | None:
        """A review, and whether it should still be made; None when stopping."""
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
            if self._verdicts.paused:
                return self._unseen.pop(), False
            if self._clock() >= self._unseen.first().asked_at + TURN_SECONDS:
                self._counts[ReviewOutcome.LIMITED] += 1
                return self._unseen.pop(), False
            if not (wait := self._verdicts.take_turn()):
                return self._unseen.pop(), True
            self._changed.wait(wait)
        return None

    def _review(self, review: _Review, wanted: bool) -> None:
        verdict, error = None, None
        if wanted:
            try:
                verdict = self._reviewer.review(review.token, review.path)
            except KubeError as problem:
                error = problem
            except Exception as problem:
                log.exception("unexpected error during a token review")
                error = KubeError(Reason.BAD_ANSWER, type(problem).__name__)
        with self._changed:
            if error is not None:
                self._failed(review, error)
            elif verdict is not None:
                self._succeeded(review, verdict)
            del self._pending[review.key]
            refusal = self._refusal(self._verdicts.usable(review.key) or verdict)
        _answer(review.waiting, refusal)

    def _succeeded(self, review: _Review, verdict: Verdict) -> None:
        self._counts[ReviewOutcome.ALLOWED if verdict.admitted else ReviewOutcome.DENIED] += 1
        if self._verdicts.succeeded(review.key, verdict):
            log.info("token reviews work again")

    def _failed(self, review: _Review, error: KubeError) -> None:
        self._counts[ReviewOutcome.ERROR] += 1
        if self._verdicts.failed(review.key, error):
            log.warning(CANNOT_REVIEW, extra=fields(**log_fields(error)))

    def _refusal(self, verdict: Verdict | None) -> Response | None:
        """None if the request is admitted."""
        if verdict is None:
            wait = self._verdicts.retry_after()
            return _retry_later(503, "tokens cannot be reviewed at the moment; see the agent's log", wait)
        if verdict.user is None:
            return unauthorized("the API server does not accept this token")
        if not verdict.admitted:
            return Response.text(
                403, "forbidden: a ClusterRole must allow the token's user to get this nonResourceURL"
            )
        return None


def _retry_later(status: int, text: str, seconds: float) -> Response:
    return Response.text(status, text, ("Retry-After", str(max(1, round(seconds)))))


def _answer(waiting: Iterable[tuple[DeferredResponse, Continuation]], refusal: Response | None) -> None:
    """Complete waiting requests. They are admitted if `refusal` is None."""
    for deferred, proceed in waiting:
        deferred.complete(proceed if refusal is None else refusal)
