"""Whether an API server answers and takes our credentials: one small request each interval.

Watches do not tell: one that is open stays so after its token was revoked.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from accelscope.config.log import fields
from accelscope.fleet.api_server import Session
from accelscope.kube.errors import KubeError, Reason

log = logging.getLogger(__name__)

# Public, made without asking the store behind the server; and a bad token is refused here too.
_PATH = "/version"
_ANSWER_LIMIT = 64 << 10
_SOONER_SECONDS = 5.0  # while it is out of reach
# Said by a server that is there, and that knows who asks.
_THERE = frozenset({Reason.FORBIDDEN, Reason.NOT_FOUND, Reason.THROTTLED, Reason.TOO_LARGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    reachable: bool | None = None  # None: not tried yet
    reason: str | None = None
    text: str | None = None
    succeeded_at: float | None = None


class Beat:
    def __init__(
        self,
        session: Session,
        *,
        cluster: str,
        interval_seconds: float,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._cluster = cluster
        self._interval_seconds = interval_seconds
        self._changed = changed
        self._clock = clock
        self._sooner = asyncio.Event()
        self.standing = Standing()

    async def run(self) -> None:
        while True:
            self._sooner.clear()
            await self._ask()
            up = self.standing.reachable
            wait = self._interval_seconds if up else min(_SOONER_SECONDS, self._interval_seconds)
            try:
                async with asyncio.timeout(wait):
                    await self._sooner.wait()
            except TimeoutError:
                continue

    def ask_soon(self) -> None:
        self._sooner.set()

    async def _ask(self) -> None:
        before = self.standing
        try:
            await self._session.get(_PATH, limit_bytes=_ANSWER_LIMIT)
        except KubeError as error:
            if error.reason not in _THERE:
                self.standing = Standing(
                    reachable=False,
                    reason=error.reason.value,
                    text=error.text,
                    succeeded_at=before.succeeded_at,
                )
                if before.reachable is not False or before.reason != error.reason:
                    said = fields(cluster=self._cluster, reason=error.reason.value, error=error.text)
                    log.warning("a cluster is out of reach", extra=said)
                self._changed()
                return
        self.standing = Standing(reachable=True, succeeded_at=self._clock())
        if not before.reachable:
            log.info("a cluster is within reach", extra=fields(cluster=self._cluster))
        self._changed()
