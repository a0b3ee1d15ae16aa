"""Access control: tokens of a file, tokens that a cluster reviews, or no tokens at all.

A cluster reviews tokens through its API server, which must know the token (TokenReview) and let that user
`get` a path that stands for the fleet (SubjectAccessReview). The paths are our own and not those of the API:
every user of a cluster may `get` what begins with /api there (the role system:discovery), so that asking for
those would let everybody in.
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

from accelscope.allowance import Allowances, Rate
from accelscope.config import BadValue, Choice, ConfigError, Kind, Text, quoted
from accelscope.config.document import Section, read_document
from accelscope.config.log import fields
from accelscope.files import FileWatch
from accelscope.fleet.api.problem import FAILED_LOGINS, Problem, ProblemKind, later
from accelscope.fleet.api_server import Session
from accelscope.fleet.clusters import ClusterEntry
from accelscope.fleet.clusters.entry import CLUSTER_ID, Access
from accelscope.kube.endpoint import is_loopback
from accelscope.kube.errors import KubeError
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

# --- tokens ------------------------------------------------------------
# Callers, and static tokens: a file that holds their hashes, so that reading the file lets nobody in.
#
# ```yaml
# tokens:
#   - name: grafana
#     sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
#     scopes: [read]              # read or admin; left out: read
#     clusters: [berlin, paris]   # left out: all
#     expires: 2027-01-01T00:00:00Z   # left out: never
# ```
#
# A token is 256 random bits, so a plain hash is as good as a slow one: there is nothing to guess.


log = logging.getLogger(__name__)


class Scope(StrEnum):
    READ = "read"
    ADMIN = "admin"  # may also have clusters read anew; includes read


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """To one limited to some clusters the others are not there: not in lists, not in sums, not found."""

    name: str
    scopes: frozenset[Scope]
    clusters: frozenset[str] | None = None  # None: all, also those that come later

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def sees(self, cluster: str) -> bool:
        return self.clusters is None or cluster in self.clusters

    @property
    def view(self) -> str:
        """The same text for those to whom the same answer is given."""
        return "all" if self.clusters is None else repr(sorted(self.clusters))


EVERYBODY = Caller(name="everybody", scopes=frozenset(Scope))

LOOK_SECONDS = 1.0  # between two looks at the file
_NAME = Text(
    "a name of letters, digits, - _ and . (at most 63)", r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
)
_SHA256 = Text("64 hexadecimal digits: the SHA-256 of the token", r"[0-9A-Fa-f]{64}", secret=True)
_SCOPE = Choice(*Scope)
_CLUSTER = Text("a cluster's id; leave clusters out for all", CLUSTER_ID)


class _Expiry(Kind[float]):
    allowed = "a time with its zone, such as 2027-01-01T00:00:00Z"

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
class MadeToken:
    token: str  # shown once, kept nowhere
    entry: str  # the lines for the file


def make_token(
    name: str,
    *,
    scopes: Iterable[Scope] = (Scope.READ,),
    clusters: Iterable[str] | None = None,
    expires: str | None = None,
) -> MadeToken:
    """Raises ConfigError for what the file would not take."""
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
    return MadeToken(token, "".join(lines))


def read_tokens(path: str) -> tuple[Token, ...]:
    """Raises ConfigError of one line that names the file and the entry; it never quotes a hash."""
    document = Section(read_document(path), file=path)
    listed = document.sections("tokens")
    document.finish()
    if not document.has("tokens"):
        raise ConfigError("has no tokens; an empty list (tokens: []) lets nobody in", file=path)
    tokens: list[Token] = []
    for section in listed:
        token = _token(section)
        if any(token.caller.name == other.caller.name for other in tokens):
            raise section.error("name", f"{quoted(token.caller.name)} is given twice")
        if any(token.digest == other.digest for other in tokens):
            raise section.error("sha256", "the same sha256 is given twice")
        tokens.append(token)
    return tuple(tokens)


class TokensFile:
    """The tokens in force. A file that is no good any more leaves them as they were; the log says so."""

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._watch = FileWatch(path)
        self._tokens = read_tokens(path)
        self._looked_at = time.monotonic()

    def caller(self, token: str) -> Caller | None:
        """None: no token of ours, or not any more."""
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
            log.error("tokens stay as they were: the new file is no good", extra=fields(error=str(error)))  # noqa: TRY400 - the text says all
        else:
            log.info("tokens read anew", extra=fields(tokens=len(self._tokens)))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _token(section: Section) -> Token:
    name, sha256 = section.require("name", _NAME), section.require("sha256", _SHA256)
    scopes, clusters = section.take_each("scopes", _SCOPE), section.take_each("clusters", _CLUSTER)
    expires_at = section.take("expires", _EXPIRY)
    section.finish()
    if section.has("scopes") and not scopes:
        raise section.error("scopes", f"empty; expected a list of {', '.join(Scope)}")
    if section.has("clusters") and section.raw("clusters") is None:
        raise section.error("clusters", "empty; leave clusters out for all")
    held = frozenset(Scope) if Scope.ADMIN in scopes else frozenset({Scope.READ})
    visible = frozenset(clusters) if section.has("clusters") else None
    return Token(bytes.fromhex(sha256), Caller(name=name, scopes=held, clusters=visible), expires_at)


SCOPE_PATHS = {Scope.READ: "/accelscope/fleet/read", Scope.ADMIN: "/accelscope/fleet/admin"}
TOKEN_HEADER = "X-AccelScope-Token"  # noqa: S105 - a header; some proxies keep Authorization to themselves
REVIEW_SECONDS = 5.0  # of one question
VERDICTS_LIMIT = 1024
_GONE_SECONDS = 60.0  # until one may ask again whether the cluster is back in the list
_QUIET_SECONDS = 60.0  # without anybody turned away: the next one is news


class _Reply(Protocol):
    @property
    def body(self) -> bytes: ...


class ReviewSession(Protocol):
    """What is needed of a session with an API server. Raises KubeError."""

    async def post(
        self, path: str, body: bytes, *, limit_bytes: int, timeout_seconds: float | None = None
    ) -> _Reply: ...


class TokenReviews:
    """Callers whose tokens a cluster accepts."""

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
        """None: not known there. A user whom no rule lets in has no scopes. Raises Problem where the API
        server cannot be asked."""
        if not is_bearer_token(token):
            return None
        key = self._verdicts.key(token)
        decision = self._verdicts.decide(key)
        task = self._pending.get(key)
        if task is None and decision.ask and not self._verdicts.paused:
            # Known tokens are renewed beside the rate, which made-up ones may have used up.
            if decision.known is None and (wait := self._verdicts.take_turn()):
                raise later(ProblemKind.BUSY, "too many unknown tokens wait for their review", wait)
            task = self._start(key, token)
        verdict = decision.known
        if task is not None and decision.wait:
            try:
                # One review a token, however many requests wait for it; one that is cancelled stops none.
                verdict = await asyncio.shield(task)
            except KubeError:
                verdict = self._verdicts.usable(key)
        if verdict is None:
            text = "the cluster that knows the tokens cannot be asked"
            raise later(ProblemKind.CANNOT_REVIEW, text, self._verdicts.retry_after())
        return _caller(verdict)

    def knows(self, token: str) -> bool:
        """Let in so lately that it would be now, even if the API server could not be asked."""
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
        def ended(done: asyncio.Task[Verdict]) -> None:
            del self._pending[key]
            if not done.cancelled():
                done.exception()  # retrieved, also where nobody waits any more

        task = self._pending[key] = asyncio.ensure_future(self._review(key, token))
        task.add_done_callback(ended)
        return task

    async def _review(self, key: bytes, token: str) -> Verdict:
        try:
            verdict = await self._ask(token)
        except KubeError as error:
            if self._verdicts.failed(key, error):
                log.warning(CANNOT_REVIEW, extra=fields(**told_of(error)))
            raise
        if self._verdicts.succeeded(key, verdict):
            log.info("tokens can be reviewed again")
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


class ListedReviews:
    """Of the cluster with this id, as it is listed now. Verdicts are of one way to reach it: another may lead
    to another cluster."""

    def __init__(self, cluster: str, entries: Iterable[ClusterEntry]) -> None:
        """Raises ConfigError where there is none."""
        self._cluster = cluster
        self._access = _access(cluster, entries)
        if self._access is None:
            raise ConfigError(
                f"--token-review-cluster: no cluster of the list has the id {cluster} and an API server"
            )
        self._session = Session(self._access)
        self._reviews = TokenReviews(self._session)

    async def declare(self, entries: Iterable[ClusterEntry]) -> None:
        """The whole list of clusters."""
        access = _access(self._cluster, entries)
        if access == self._access:
            return
        before, self._access = self._session, access
        if access is None:
            log.error(
                "no API server is listed any more for the cluster that vouches for tokens: none is taken",
                extra=fields(cluster=self._cluster),
            )
        else:
            self._session = Session(access)
            self._reviews = TokenReviews(self._session)
            log.info("tokens are reviewed as the new list says", extra=fields(cluster=self._cluster))
        await before.close()

    async def caller(self, token: str) -> Caller | None:
        """None: not known there. Raises Problem where the cluster cannot be asked."""
        if self._access is None:
            text = "no API server is listed any more for the cluster that knows the tokens"
            raise later(ProblemKind.CANNOT_REVIEW, text, _GONE_SECONDS)
        return await self._reviews.caller(token)

    def knows(self, token: str) -> bool:
        return self._access is not None and self._reviews.knows(token)

    async def close(self) -> None:
        await self._reviews.close()
        await self._session.close()


def _access(cluster: str, entries: Iterable[ClusterEntry]) -> Access | None:
    return next((entry.access for entry in entries if entry.id == cluster), None)


def check_exposure(*, host: str, guarded: bool, insecure_no_auth: bool) -> None:
    """Raises ConfigError where anybody on the network could read everything and nobody said so."""
    if guarded or insecure_no_auth or is_loopback(host):
        return
    raise ConfigError(
        f"listening on {host or 'all addresses'} without tokens lets anybody read everything: give "
        "--tokens-file or --token-review-cluster, listen on 127.0.0.1, or say --insecure-no-auth"
    )


class Reviews(Protocol):
    """What a cluster vouches for."""

    async def caller(self, token: str) -> Caller | None:
        """Raises Problem where the cluster cannot be asked."""
        ...

    def knows(self, token: str) -> bool:
        """Whether it was let in lately."""
        ...

    async def close(self) -> None: ...


class AccessControl:
    """`local` is for a server without tokens on a loopback address: a web page that has the user's browser
    ask it under a name of its own (DNS rebinding) is turned away."""

    def __init__(
        self,
        *,
        tokens: TokensFile | None = None,
        reviews: Reviews | None = None,
        local: bool = False,
        failed_logins: Rate = FAILED_LOGINS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._reviews = reviews
        self._local = local and not self.guarded
        self._clock = clock
        self._failed = Allowances(failed_logins)
        self._refused_at = float("-inf")
        self.refusals = 0  # tokens that were none, since the start

    @property
    def guarded(self) -> bool:
        return self._tokens is not None or self._reviews is not None

    async def admit(self, headers: Mapping[str, str], peer: str) -> Caller:
        """Raises Problem: 401, 403, 429, and 503 where a cluster cannot be asked."""
        if not self.guarded:
            self._check_host(headers)
            return EVERYBODY
        token = _shown(headers)
        if token is None:
            raise _unauthorized("show a token: Authorization: Bearer …")
        if len(token) > TOKEN_LIMIT:
            raise _unauthorized(f"a token of more than {TOKEN_LIMIT} bytes is not taken")
        caller = self._tokens.caller(token) if self._tokens is not None else None
        if caller is not None:
            return caller
        # Only those whose token is not known are slowed down: one that was let in works from behind any
        # proxy, whatever else comes from there.
        known = self._reviews is not None and self._reviews.knows(token)
        now = self._clock()
        if not known and (wait := self._failed.wait(peer, now)):
            raise later(ProblemKind.TOO_MANY_REQUESTS, "too many unknown tokens come from this address", wait)
        if self._reviews is not None:
            caller = await self._reviews.caller(token)
        if caller is None:
            self._refused(peer, now)
            raise _unauthorized("this token is not known, or has expired")
        return caller

    async def close(self) -> None:
        if self._reviews is not None:
            await self._reviews.close()

    def _refused(self, peer: str, now: float) -> None:
        self._failed.take(peer, now)
        self.refusals += 1
        if now >= self._refused_at + _QUIET_SECONDS:
            log.warning("somebody shows a token that is not known", extra=fields(peer=peer))
        self._refused_at = now

    def _check_host(self, headers: Mapping[str, str]) -> None:
        if not self._local:
            return
        host = headers.get("Host", "")
        name = host[1 : host.index("]")] if host.startswith("[") and "]" in host else host.split(":", 1)[0]
        if not is_loopback(name):
            raise Problem(
                ProblemKind.FORBIDDEN, "without tokens this server answers to localhost only, by that name"
            )


def _shown(headers: Mapping[str, str]) -> str | None:
    """Of both, the header that no proxy in between puts a token of its own into."""
    if own := headers.get(TOKEN_HEADER, "").strip():
        return own
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _unauthorized(detail: str) -> Problem:
    return Problem(
        ProblemKind.UNAUTHORIZED, detail, headers={"WWW-Authenticate": 'Bearer realm="accelscope"'}
    )
