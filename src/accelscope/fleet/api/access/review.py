"""Callers whom a cluster vouches for: its API server must know the token (TokenReview) and let that user
`get` a path that stands for the fleet (SubjectAccessReview).

The paths are our own and not those of the API: every user of a cluster may `get` what begins with /api there
(the role system:discovery), so that asking for those would let everybody in.
"""

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from accelscope.allowance import Allowances, Rate
from accelscope.config.log import fields
from accelscope.fleet.api.access.caller import Caller, Scope
from accelscope.fleet.api.problem import ProblemKind, later
from accelscope.kube.errors import DecodeError, KubeError, Reason
from accelscope.kube.token_review import (
    ACCESS_REVIEWS,
    ADMITTED_SECONDS,
    ANSWER_LIMIT,
    CANNOT_REVIEW,
    GRACE_SECONDS,
    REFUSED_SECONDS,
    TOKEN_REVIEWS,
    KubeUser,
    access_review,
    decode_access_review,
    decode_token_review,
    is_bearer_token,
    pause_seconds,
    token_review,
    told_of,
)

log = logging.getLogger(__name__)

SCOPE_PATHS = {Scope.READ: "/accelscope/fleet/read", Scope.ADMIN: "/accelscope/fleet/admin"}

REVIEW_SECONDS = 5.0  # of one question
VERDICTS_LIMIT = 1024

_RATE = Rate(per_second=10.0, burst=20)  # of tokens that are not known


class _Reply(Protocol):
    @property
    def body(self) -> bytes: ...


class ReviewSession(Protocol):
    """What is needed of a session with an API server. Raises KubeError."""

    async def post(
        self, path: str, body: bytes, *, limit_bytes: int, timeout_seconds: float | None = None
    ) -> _Reply: ...


@dataclass(slots=True)
class _Verdict:
    caller: Caller | None
    fresh_until: float
    usable_until: float


class TokenReviews:
    def __init__(
        self,
        session: ReviewSession,
        *,
        rate: Rate = _RATE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._clock = clock
        self._pace = Allowances(rate)
        self._secret = os.urandom(16)  # tokens are kept as hashes that mean nothing elsewhere
        self._known: dict[bytes, _Verdict] = {}  # the last decided is last
        self._pending: dict[bytes, asyncio.Task[Caller | None]] = {}
        self._paused_until = float("-inf")
        self._away: Reason | None = None

    async def caller(self, token: str) -> Caller | None:
        """None: not known there. A user whom no rule lets in has no scopes. Raises Problem where the API
        server cannot be asked."""
        if not is_bearer_token(token):
            return None
        key = self._key(token)
        known = self._known.get(key)
        if known is not None and self._clock() < known.fresh_until:
            return known.caller
        try:
            return await self._reviewed(key, token)
        except KubeError:
            if known is not None and self._has_grace(known):
                return known.caller
            wait = max(1.0, self._paused_until - self._clock())
            raise later(
                ProblemKind.CANNOT_REVIEW, "the cluster that knows the tokens cannot be asked", wait
            ) from None

    def knows(self, token: str) -> bool:
        """Let in so lately that it would be now, even if the API server could not be asked."""
        if not is_bearer_token(token):
            return False
        known = self._known.get(self._key(token))
        return known is not None and self._has_grace(known)

    async def close(self) -> None:
        pending = list(self._pending.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    def _key(self, token: str) -> bytes:
        return hashlib.blake2b(token.encode(), key=self._secret, digest_size=16).digest()

    def _has_grace(self, verdict: _Verdict) -> bool:
        return _admitted(verdict.caller) and self._clock() < verdict.usable_until

    async def _reviewed(self, key: bytes, token: str) -> Caller | None:
        """One review a token, however many requests wait for it; one that goes away stops nobody's."""
        task = self._pending.get(key)
        if task is None:
            now = self._clock()
            if now < self._paused_until:
                raise KubeError(self._away or Reason.UNREACHABLE, "asked a moment ago")
            # Known ones are renewed beside the pace, which made-up ones may have used up.
            if not self.knows(token) and (wait := self._pace.take("", now)):
                raise later(ProblemKind.BUSY, "too many unknown tokens wait for their review", wait)
            task = asyncio.ensure_future(self._review(key, token))
            self._pending[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    def _ended(self, key: bytes, task: asyncio.Task[Caller | None]) -> None:
        del self._pending[key]
        if not task.cancelled():
            task.exception()  # looked at, also where nobody waits any more

    async def _review(self, key: bytes, token: str) -> Caller | None:
        try:
            caller = await self._ask(token)
        except KubeError as error:
            self._failed(error)
            raise
        if self._away is not None:
            self._away = None
            self._paused_until = float("-inf")
            log.info("tokens can be reviewed again")
        now = self._clock()
        admitted = _admitted(caller)
        fresh_until = now + (ADMITTED_SECONDS if admitted else REFUSED_SECONDS)
        self._known.pop(key, None)
        self._known[key] = _Verdict(caller, fresh_until, now + GRACE_SECONDS if admitted else fresh_until)
        if len(self._known) > VERDICTS_LIMIT:
            # Made-up tokens must not push out those that were good.
            refused = next((known for known, was in self._known.items() if not _admitted(was.caller)), None)
            del self._known[refused if refused is not None else next(iter(self._known))]
        return caller

    async def _ask(self, token: str) -> Caller | None:
        try:
            user = decode_token_review(await self._post(TOKEN_REVIEWS, token_review(token)))
            if user is None:
                return None
            scopes = set[Scope]()
            if await self._may(user, Scope.READ):
                scopes.add(Scope.READ)
                if await self._may(user, Scope.ADMIN):
                    scopes.add(Scope.ADMIN)
        except DecodeError as error:
            raise KubeError(Reason.BAD_ANSWER, str(error)) from None
        return Caller(name=user.name, scopes=frozenset(scopes))

    async def _may(self, user: KubeUser, scope: Scope) -> bool:
        answer = await self._post(ACCESS_REVIEWS, access_review(user, SCOPE_PATHS[scope]))
        return decode_access_review(answer)

    async def _post(self, path: str, body: bytes) -> bytes:
        reply = await self._session.post(path, body, limit_bytes=ANSWER_LIMIT, timeout_seconds=REVIEW_SECONDS)
        return reply.body

    def _failed(self, error: KubeError) -> None:
        self._paused_until = self._clock() + pause_seconds(error)
        if self._away is not error.reason:
            self._away = error.reason
            log.warning(CANNOT_REVIEW, extra=fields(**told_of(error)))


def _admitted(caller: Caller | None) -> bool:
    return caller is not None and bool(caller.scopes)
