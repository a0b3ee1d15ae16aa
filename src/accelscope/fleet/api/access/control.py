"""The door: a token of the file, a token that a cluster vouches for, or nobody needs one."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from accelscope.allowance import Allowances, Rate
from accelscope.config import ConfigError
from accelscope.config.log import fields
from accelscope.fleet.api.access.caller import EVERYBODY, Caller
from accelscope.fleet.api.access.tokens import TokensFile
from accelscope.fleet.api.limits import FAILED_LOGINS
from accelscope.fleet.api.problem import Problem, ProblemKind, later
from accelscope.kube.endpoint import is_loopback

log = logging.getLogger(__name__)

TOKEN_LIMIT = 8 * 1024  # bytes; with claims for many groups tokens grow to some KiB
TOKEN_HEADER = "X-AccelScope-Token"  # noqa: S105 - a header; some proxies keep Authorization to themselves
_QUIET_SECONDS = 60.0  # without anybody turned away: the next one is news


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
