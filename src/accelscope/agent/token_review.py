"""Guarded pages for those whom the API server vouches for: it must know the bearer's token (TokenReview) and
let that user `get` the page's path (SubjectAccessReview).

The server's thread only looks at verdicts that are known; threads of their own ask for the others, so that
an API server that is slow or away costs nobody but those who wait for its word. While it cannot be asked,
whom it let in a few minutes ago is still let in, and nobody else.

Anybody can make up tokens. One thread reviews those that were not seen before, one at a time, at a pace, and
their senders in turn; another reviews anew those that were good, which therefore wait for nobody's.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from accelscope.allowance import Allowances, Rate
from accelscope.config.log import fields
from accelscope.kube.client import JSON, Client
from accelscope.kube.endpoint import Endpoint
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.token_review import (
    ANSWER_LIMIT,
    CANNOT_REVIEW,
    REVIEW_RATE,
    TOKEN_LIMIT,
    Verdict,
    VerdictCache,
    is_bearer_token,
    review,
    told_of,
)
from accelscope.model import Counted
from accelscope.serve import Continuation, Deferred, Request, Response, shown_tokens, unauthorized

# --- fair queue ------------------------------------------------------------
# What waits for its turn, bounded, so that one peer who brings much does not keep the others waiting.


T = TypeVar("T")


class FairQueue(Generic[T]):
    """Peers take turns; what one peer brings stays in its order."""

    def __init__(self, limit: int, peer_limit: int) -> None:
        self._limit = limit
        self._peer_limit = peer_limit
        self._waiting: dict[str, deque[T]] = {}  # in the order of their turns, none empty
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def has_room(self, peer: str) -> bool:
        """Whether this peer may bring one more, as far as it alone matters."""
        return len(self._waiting.get(peer, ())) < self._peer_limit

    def append(self, peer: str, item: T) -> T | None:
        """What found no place: None if all did, the item itself, or another's. Where all places are taken,
        one who has none gets the last of whoever has most."""
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
        """Whose turn it is, left where it is. There must be one."""
        return next(iter(self._waiting.values()))[0]

    def pop(self) -> T:
        """There must be one."""
        peer = next(iter(self._waiting))
        items = self._waiting.pop(peer)
        item = items.popleft()
        if items:
            self._waiting[peer] = items  # behind the others
        self._length -= 1
        return item


log = logging.getLogger(__name__)

REVIEW_SECONDS = 5.0  # for both questions together
TURN_SECONDS = 5.0  # for the turn to come
VERDICTS_LIMIT = 256

_QUIET_SECONDS = 60.0  # without anybody turned away: the next one is news


class ApiServerReviewer:
    """Asks the API server about one token. Used by several threads."""

    def __init__(self, endpoint: Endpoint, *, review_seconds: float = REVIEW_SECONDS) -> None:
        self._endpoint = endpoint
        self._review_seconds = review_seconds
        self._of_thread = threading.local()  # each has a client, whose deadline is that of its own review

    def review(self, token: str, path: str) -> Verdict:
        """Raises KubeError."""
        deadline = time.monotonic() + self._review_seconds
        questions = review(token, (path,))
        question = next(questions)
        while True:
            answer = self._post(*question, deadline)
            try:
                question = questions.send(answer)
            except StopIteration as end:
                verdict: Verdict = end.value
                return verdict

    def close(self) -> None:
        """The calling thread will ask nothing more."""
        if (client := self._client_of_thread()) is not None:
            client.close()

    def _client_of_thread(self) -> Client | None:
        client: Client | None = getattr(self._of_thread, "client", None)
        return client

    def _post(self, path: str, body: bytes, deadline: float) -> bytes:
        try:
            return self._posted(path, body, deadline)
        except KubeError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise
        # The kept connection may have been closed just now. A review creates nothing: it may be asked twice.
        return self._posted(path, body, deadline)

    def _posted(self, path: str, body: bytes, deadline: float) -> bytes:
        client = self._client_of_thread()
        if client is None:
            client = self._of_thread.client = Client(self._endpoint)
        client.timeout_seconds = deadline - time.monotonic()
        return client.request("POST", path, body=body, content_type=JSON, limit_bytes=ANSWER_LIMIT).body


@dataclass(frozen=True, slots=True)
class ReviewLimits:
    """Of tokens not seen before. A scraper brings one a page and, with a new token, one an hour."""

    waiting: int = 32
    waiting_of_peer: int = 8
    per_second: float = REVIEW_RATE.per_second
    burst: int = REVIEW_RATE.burst
    peer_per_second: float = 1.0
    peer_burst: int = 8


class Result(StrEnum):
    ALLOWED = "allowed"
    DENIED = "denied"
    ERROR = "error"  # the API server could not be asked
    LIMITED = "limited"  # it was not asked: too many others were to be


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
        self._renewals: deque[_Review] = deque()  # no more than there are verdicts
        self._unseen: FairQueue[_Review] = FairQueue(limits.waiting, limits.waiting_of_peer)
        self._peers = Allowances(Rate(limits.peer_per_second, limits.peer_burst), keys_limit=1024)
        self._counts = dict.fromkeys(Result, 0)
        self._limited_at = float("-inf")  # when somebody was last turned away
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
        return proceed() if decided is None else decided

    def _decide(self, token: str, request: Request, proceed: Continuation) -> Response | Deferred | None:
        """None: admitted."""
        key = self._verdicts.key(token, request.path)
        decision = self._verdicts.decide(key)
        review = self._pending.get(key)
        if review is None and decision.ask:
            review = _Review(key, token, request.path, self._clock())
            if decision.known is not None:
                self._renewals.append(review)
            elif (refusal := self._turned_away(review, request.peer)) is not None:
                return refusal
            self._pending[key] = review
            self._changed.notify_all()
        if review is None or not decision.wait:
            return self._refusal(decision.known)
        deferred = Deferred()
        review.waiting.append((deferred, proceed))
        return deferred

    def _turned_away(self, review: _Review, peer: str) -> Response | None:
        """None: it waits for its turn from now on."""
        now = review.asked_at
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
            if self._verdicts.paused:
                return self._unseen.pop(), False
            if self._clock() >= self._unseen.first().asked_at + TURN_SECONDS:
                self._counts[Result.LIMITED] += 1
                return self._unseen.pop(), False
            if not (wait := self._verdicts.take_turn()):
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
            del self._pending[review.key]
            refusal = self._refusal(self._verdicts.usable(review.key) or verdict)
        _answer(review.waiting, refusal)

    def _succeeded(self, review: _Review, verdict: Verdict) -> None:
        self._counts[Result.ALLOWED if verdict.admitted else Result.DENIED] += 1
        if self._verdicts.succeeded(review.key, verdict):
            log.info("tokens can be reviewed again")

    def _failed(self, review: _Review, error: KubeError) -> None:
        self._counts[Result.ERROR] += 1
        if self._verdicts.failed(review.key, error):
            log.warning(CANNOT_REVIEW, extra=fields(**told_of(error)))

    def _refusal(self, verdict: Verdict | None) -> Response | None:
        """None: admitted."""
        if verdict is None:
            wait = self._verdicts.retry_after()
            return _later(503, "tokens cannot be reviewed at the moment; the agent's log says why", wait)
        if verdict.user is None:
            return unauthorized("the API server does not accept this token")
        if not verdict.admitted:
            return Response.text(
                403, "the token's user may not read this: a ClusterRole must allow get on this nonResourceURL"
            )
        return None


def _later(status: int, text: str, seconds: float) -> Response:
    return Response.text(status, text, ("Retry-After", str(max(1, round(seconds)))))


def _answer(waiting: Iterable[tuple[Deferred, Continuation]], refusal: Response | None) -> None:
    """None: they are let in."""
    for deferred, proceed in waiting:
        deferred.complete(proceed if refusal is None else refusal)
