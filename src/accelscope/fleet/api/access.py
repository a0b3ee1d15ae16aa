"""Access control: tokens from a file, tokens reviewed by a cluster, or no tokens.

A cluster reviews a token through its API server: it must authenticate the token (TokenReview) and authorize
its user to `get` a path that represents the fleet (SubjectAccessReview). These paths do not begin with /api,
because the role system:discovery grants `get` on /api/* to every user of a cluster.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from accelscope.config import BadValue, Choice, ConfigError, Text, ValueKind, quoted
from accelscope.config.document import Section, read_document
from accelscope.config.log import fields
from accelscope.files import FileWatch
from accelscope.fleet.api.problem import FAILED_LOGINS, Problem, ProblemKind, temporary
from accelscope.fleet.api_server import Session
from accelscope.fleet.clusters import CLUSTER_ID, Access, ClusterEntry
from accelscope.kube.endpoint import KubeError, is_loopback
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
from accelscope.rate_limit import Rate, RateLimiter

log = logging.getLogger(__name__)


class AccessScope(StrEnum):
    READ = "read"
    ADMIN = "admin"  # includes read; may also refresh clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A caller limited to some clusters gets responses as if the others did not exist."""

    name: str
    scopes: frozenset[AccessScope]
    clusters: frozenset[str] | None = None  # None: all, including those added later

    def may(self, scope: AccessScope) -> bool:
        return scope in self.scopes

    def sees(self, cluster: str) -> bool:
        return self.clusters is None or cluster in self.clusters

    @property
    def view(self) -> str:
        """A key that is equal for callers who get equal responses."""
        return "all" if self.clusters is None else repr(sorted(self.clusters))


ANONYMOUS = Caller(name="anonymous", scopes=frozenset(AccessScope))

# --- Static tokens ------------------------------------------------------------
#
# The file contains SHA-256 hashes:
#
#   tokens:
#     - name: grafana
#       sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
#       scopes: [read]                  # read or admin; default: read
#       clusters: [berlin, paris]       # default: all
#       expires: 2027-01-01T00:00:00Z   # default: never
#
# A token has 256 random bits, which makes a slow password hash unnecessary.

LOOK_SECONDS = 1.0  # between two checks of the file
_NAME = Text(
    "a name of letters, digits, - _ and . (at most 63)", r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
)
_SHA256 = Text("64 hexadecimal digits: the SHA-256 of the token", r"[0-9A-Fa-f]{64}", secret=True)
_SCOPE = Choice(*AccessScope)
_CLUSTER = Text("the id of a cluster; omit clusters for all", CLUSTER_ID)


class _Expiry(ValueKind[float]):
    allowed = "a time with a time zone, such as 2027-01-01T00:00:00Z"

    def parse(self, text: str) -> float:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise BadValue from None
        if moment.tzinfo is None:
            raise BadValue
        return moment.timestamp()


_EXPIRY = _Expiry()


@dataclass(frozen=True, slots=True)
class Token:
    digest: bytes
    caller: Caller
    expires_at: float | None  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class NewToken:
    token: str  # shown once and never stored
    entry: str  # the lines for the file


def make_token(
    name: str,
    *,
    scopes: Iterable[AccessScope] = (AccessScope.READ,),
    clusters: Iterable[str] | None = None,
    expires: str | None = None,
) -> NewToken:
    """Raises ConfigError for values that the file does not allow."""
    token = "as_" + secrets.token_urlsafe(32)
    entry: dict[str, str | list[str]] = {
        "name": name,
        "sha256": _digest(token).hex(),
        "scopes": [scope.value for scope in scopes],
    }
    if clusters is not None:
        entry["clusters"] = list(clusters)
    if expires is not None:
        entry["expires"] = expires
    _token(Section(entry))
    lines: list[str] = []
    for key, value in entry.items():
        shown = value if isinstance(value, str) else f"[{', '.join(value)}]"
        lines.append(f"{'  - ' if not lines else '    '}{key}: {shown}\n")
    return NewToken(token, "".join(lines))


def read_tokens(path: str) -> tuple[Token, ...]:
    """Raises ConfigError: one line with the file and the entry, without the hash."""
    document = Section(read_document(path), file=path)
    listed = document.sections("tokens")
    document.finish()
    if not document.has("tokens"):
        raise ConfigError("no tokens; write tokens: [] to reject all requests", file=path)
    tokens: list[Token] = []
    for section in listed:
        token = _token(section)
        if any(token.caller.name == other.caller.name for other in tokens):
            raise section.error("name", f"{quoted(token.caller.name)} is used twice")
        if any(token.digest == other.digest for other in tokens):
            raise section.error("sha256", "the same sha256 is used twice")
        tokens.append(token)
    return tuple(tokens)


class TokensFile:
    """The current tokens. If a changed file is invalid, the old tokens stay and an error is logged."""

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._watch = FileWatch(path)
        self._tokens = read_tokens(path)
        self._looked_at = time.monotonic()

    def caller(self, token: str) -> Caller | None:
        """None: the token is unknown or has expired."""
        self._look()
        digest, found = _digest(token), None
        for known in self._tokens:
            if hmac.compare_digest(known.digest, digest):
                found = known
        if found is None or (found.expires_at is not None and self._clock() >= found.expires_at):
            return None
        return found.caller

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._looked_at + LOOK_SECONDS:
            return
        self._looked_at = now
        if not self._watch.changed():
            return
        try:
            self._tokens = read_tokens(self._path)
        except ConfigError as error:
            log.error("tokens file is invalid, the old tokens stay", extra=fields(error=str(error)))  # noqa: TRY400 - no traceback needed
        else:
            log.info("tokens file reloaded", extra=fields(tokens=len(self._tokens)))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _token(section: Section) -> Token:
    name, sha256 = section.require("name", _NAME), section.require("sha256", _SHA256)
    scopes, clusters = section.take_each("scopes", _SCOPE), section.take_each("clusters", _CLUSTER)
    expires_at = section.take("expires", _EXPIRY)
    section.finish()
    if section.has("scopes") and not scopes:
        raise section.error("scopes", f"empty; expected a list of {', '.join(AccessScope)}")
    if section.has("clusters") and section.raw("clusters") is None:
        raise section.error("clusters", "empty; omit clusters for all")
    granted = frozenset(AccessScope) if AccessScope.ADMIN in scopes else frozenset({AccessScope.READ})
    visible = frozenset(clusters) if section.has("clusters") else None
    return Token(bytes.fromhex(sha256), Caller(name=name, scopes=granted, clusters=visible), expires_at)


# --- Token reviews ------------------------------------------------------------

SCOPE_PATHS = {AccessScope.READ: "/accelscope/fleet/read", AccessScope.ADMIN: "/accelscope/fleet/admin"}
TOKEN_HEADER = "X-AccelScope-Token"  # noqa: S105 - for proxies that remove Authorization
REVIEW_SECONDS = 5.0  # timeout of one request
VERDICTS_LIMIT = 1024
_GONE_SECONDS = 60.0  # Retry-After while the cluster is not in the list
_QUIET_SECONDS = 60.0  # without a rejected token; the next one is logged again


class _ReviewReply(Protocol):
    @property
    def body(self) -> bytes: ...


class ReviewSession(Protocol):
    """The part of `Session` that reviews use. Raises KubeError."""

    async def post(
        self, path: str, body: bytes, *, limit_bytes: int, timeout_seconds: float | None = None
    ) -> _ReviewReply: ...


class TokenReviewClient:
    """Reviews tokens at one API server and caches the verdicts."""

    def __init__(
        self,
        session: ReviewSession,
        *,
        rate: Rate = REVIEW_RATE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._verdicts = VerdictCache(limit=VERDICTS_LIMIT, rate=rate, clock=clock)
        self._pending: dict[bytes, asyncio.Task[Verdict]] = {}

    async def caller(self, token: str) -> Caller | None:
        """None: the cluster does not authenticate the token. A user without authorization has no scopes.
        Raises Problem if the API server cannot be reached."""
        if not is_bearer_token(token):
            return None
        key = self._verdicts.key(token)
        decision = self._verdicts.decide(key)
        task = self._pending.get(key)
        if task is None and decision.ask and not self._verdicts.paused:
            # Known tokens are renewed outside the rate limit, which unknown ones may have exhausted.
            if decision.known is None and (wait := self._verdicts.take_turn()):
                raise temporary(ProblemKind.BUSY, "too many unknown tokens are waiting for a review", wait)
            task = self._start(key, token)
        verdict = decision.known
        if task is not None and decision.wait:
            try:
                # One review per token, which a cancelled request does not stop.
                verdict = await asyncio.shield(task)
            except KubeError:
                verdict = self._verdicts.usable(key)
        if verdict is None:
            text = "the cluster that reviews tokens cannot be reached"
            raise temporary(ProblemKind.CANNOT_REVIEW, text, self._verdicts.retry_after())
        return _caller(verdict)

    def has_verdict(self, token: str) -> bool:
        """Whether a cached verdict admits the token."""
        if not is_bearer_token(token):
            return False
        verdict = self._verdicts.usable(self._verdicts.key(token))
        return verdict is not None and verdict.admitted

    async def close(self) -> None:
        pending = list(self._pending.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    def _start(self, key: bytes, token: str) -> asyncio.Task[Verdict]:
        def finished(done: asyncio.Task[Verdict]) -> None:
            del self._pending[key]
            if not done.cancelled():
                done.exception()  # marks it as retrieved, even if no request waits for it

        task = self._pending[key] = asyncio.ensure_future(self._review(key, token))
        task.add_done_callback(finished)
        return task

    async def _review(self, key: bytes, token: str) -> Verdict:
        try:
            verdict = await self._ask(token)
        except KubeError as error:
            if self._verdicts.failed(key, error):
                log.warning(CANNOT_REVIEW, extra=fields(**log_fields(error)))
            raise
        if self._verdicts.succeeded(key, verdict):
            log.info("token review works again")
        return verdict

    async def _ask(self, token: str) -> Verdict:
        questions = review(token, SCOPE_PATHS.values())
        path, body = next(questions)
        while True:
            reply = await self._session.post(
                path, body, limit_bytes=ANSWER_LIMIT, timeout_seconds=REVIEW_SECONDS
            )
            try:
                path, body = questions.send(reply.body)
            except StopIteration as end:
                verdict: Verdict = end.value
                return verdict


def _caller(verdict: Verdict) -> Caller | None:
    if verdict.user is None:
        return None
    scopes = frozenset(scope for scope, path in SCOPE_PATHS.items() if path in verdict.paths)
    return Caller(name=verdict.user, scopes=scopes)


class ClusterTokenReviews:
    """Reviews tokens at the cluster with this id. If its access changes in the list of clusters, all cached
    verdicts are dropped: it may be another cluster."""

    def __init__(self, cluster: str, entries: Iterable[ClusterEntry]) -> None:
        """Raises ConfigError if no cluster has this id."""
        self._cluster = cluster
        self._access = _access(cluster, entries)
        if self._access is None:
            raise ConfigError(f"--token-review-cluster: there is no cluster {cluster} with an API server")
        self._session = Session(self._access)
        self._reviews = TokenReviewClient(self._session)

    async def declare(self, entries: Iterable[ClusterEntry]) -> None:
        """Takes the new list of clusters."""
        access = _access(self._cluster, entries)
        if access == self._access:
            return
        before, self._access = self._session, access
        if access is None:
            log.error(
                "the cluster that reviews tokens was removed from the list: all its tokens are rejected",
                extra=fields(cluster=self._cluster),
            )
        else:
            self._session = Session(access)
            self._reviews = TokenReviewClient(self._session)
            log.info(
                "the access to the cluster that reviews tokens has changed",
                extra=fields(cluster=self._cluster),
            )
        await before.close()

    async def caller(self, token: str) -> Caller | None:
        """As `TokenReviewClient.caller`."""
        if self._access is None:
            text = "the cluster that reviews tokens is not in the list of clusters"
            raise temporary(ProblemKind.CANNOT_REVIEW, text, _GONE_SECONDS)
        return await self._reviews.caller(token)

    def has_verdict(self, token: str) -> bool:
        return self._access is not None and self._reviews.has_verdict(token)

    async def close(self) -> None:
        await self._reviews.close()
        await self._session.close()


def _access(cluster: str, entries: Iterable[ClusterEntry]) -> Access | None:
    return next((entry.access for entry in entries if entry.id == cluster), None)


# --- Access control -----------------------------------------------------------


def check_exposure(*, host: str, guarded: bool, insecure_no_auth: bool) -> None:
    """Raises ConfigError if the API would be open to the network without --insecure-no-auth."""
    if guarded or insecure_no_auth or is_loopback(host):
        return
    raise ConfigError(
        f"listening on {host or 'all addresses'} without tokens exposes all data to the network: set "
        "--tokens-file or --token-review-cluster, listen on 127.0.0.1, or set --insecure-no-auth"
    )


class TokenReviewer(Protocol):
    """Implemented by `TokenReviewClient` and `ClusterTokenReviews`."""

    async def caller(self, token: str) -> Caller | None: ...

    def has_verdict(self, token: str) -> bool: ...

    async def close(self) -> None: ...


class AccessControl:
    """`local`: the server listens on a loopback address. Without tokens it then rejects other host names,
    which prevents DNS rebinding."""

    def __init__(
        self,
        *,
        tokens: TokensFile | None = None,
        reviews: TokenReviewer | None = None,
        local: bool = False,
        failed_logins: Rate = FAILED_LOGINS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._reviews = reviews
        self._local = local and not self.guarded
        self._clock = clock
        self._failed = RateLimiter(failed_logins)
        self._rejected_at = float("-inf")
        self.rejected_tokens = 0  # requests with an unknown token, since the start

    @property
    def guarded(self) -> bool:
        return self._tokens is not None or self._reviews is not None

    async def admit(self, headers: Mapping[str, str], peer: str) -> Caller:
        """Raises Problem: 401, 403, 429, or 503 if the cluster that reviews tokens cannot be reached."""
        if not self.guarded:
            self._check_host(headers)
            return ANONYMOUS
        token = _token_header(headers)
        if token is None:
            raise _unauthorized("a token is required: Authorization: Bearer …")
        if len(token) > TOKEN_LIMIT:
            raise _unauthorized(f"the token is longer than {TOKEN_LIMIT} bytes")
        caller = self._tokens.caller(token) if self._tokens is not None else None
        if caller is not None:
            return caller
        # Known tokens are not limited: several clients may share the address of a proxy.
        known = self._reviews is not None and self._reviews.has_verdict(token)
        now = self._clock()
        if not known and (wait := self._failed.wait(peer, now)):
            raise temporary(ProblemKind.TOO_MANY_REQUESTS, "too many unknown tokens from this address", wait)
        if self._reviews is not None:
            caller = await self._reviews.caller(token)
        if caller is None:
            self._reject(peer, now)
            raise _unauthorized("the token is unknown or has expired")
        return caller

    async def close(self) -> None:
        if self._reviews is not None:
            await self._reviews.close()

    def _reject(self, peer: str, now: float) -> None:
        self._failed.take(peer, now)
        self.rejected_tokens += 1
        if now >= self._rejected_at + _QUIET_SECONDS:
            log.warning("request with an unknown token", extra=fields(peer=peer))
        self._rejected_at = now

    def _check_host(self, headers: Mapping[str, str]) -> None:
        if not self._local:
            return
        host = headers.get("Host", "")
        name = host[1 : host.index("]")] if host.startswith("[") and "]" in host else host.split(":", 1)[0]
        if not is_loopback(name):
            raise Problem(
                ProblemKind.FORBIDDEN, "without tokens the server accepts only requests to localhost"
            )


def _token_header(headers: Mapping[str, str]) -> str | None:
    """TOKEN_HEADER takes precedence: a proxy may put its own token into Authorization."""
    if own := headers.get(TOKEN_HEADER, "").strip():
        return own
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _unauthorized(detail: str) -> Problem:
    return Problem(
        ProblemKind.UNAUTHORIZED, detail, headers={"WWW-Authenticate": 'Bearer realm="accelscope"'}
    )
