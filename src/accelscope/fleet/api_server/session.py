"""One API server: requests, watches, and commands in pods."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import quote

from accelscope.fleet.api_server.answer import ExecResult, Reply
from accelscope.fleet.api_server.credentials import Credentials
from accelscope.fleet.api_server.exec_stream import PROTOCOLS, ExecOutput, run_to_end
from accelscope.fleet.api_server.followed import Followed
from accelscope.fleet.api_server.route import Route, Routes
from accelscope.fleet.api_server.transport import Transport
from accelscope.fleet.clusters.entry import Access
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.paths import Collection

T = TypeVar("T")

_NOTHING: Mapping[str, str] = MappingProxyType({})
_FRAME_BYTES = 1 << 20  # API servers send 32 KiB at a time


class Session:
    """Everything raises KubeError only, whose text never holds a token. Nothing is opened before it is asked
    for; kubeconfigs, tokens and certificates are read anew when they change.

    Of `connections` each request takes one; who waits for one does not lose its time by that. Watches and
    commands do not count among them."""

    def __init__(
        self,
        access: Access,
        *,
        connections: int = 64,
        timeout_seconds: float = 10.0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._routes = Routes(access, environ)
        self._transport = Transport(connections=connections)
        self._timeout_seconds = timeout_seconds

    async def get(
        self,
        path: str,
        *,
        headers: Mapping[str, str] = _NOTHING,
        limit_bytes: int,
        timeout_seconds: float | None = None,
        at: str | None = None,
    ) -> Reply:
        """An answer of 2xx or 304. `at` is the URL of another server that the same trust and credentials are
        for: one of many agents."""
        return await self._ask(
            "GET",
            path,
            None,
            headers=headers,
            limit_bytes=limit_bytes,
            timeout_seconds=timeout_seconds,
            at=at,
        )

    async def post(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str] = _NOTHING,
        limit_bytes: int,
        timeout_seconds: float | None = None,
    ) -> Reply:
        return await self._ask(
            "POST",
            path,
            body,
            headers=headers,
            limit_bytes=limit_bytes,
            timeout_seconds=timeout_seconds,
        )

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        timeout_seconds: float,
        limit_bytes: int,
    ) -> ExecResult:
        """Run a command without a shell and wait for its end. The time is for all of it; when it is over, the
        command is left to itself, for the protocol knows no way to end it.

        WebSocket begins with GET: before Kubernetes 1.35 that needs `get` on `pods/exec`, since then
        `create`."""
        parameters = [("container", container), ("stdout", "true"), ("stderr", "true")]
        parameters += [("command", word) for word in command]
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters)
        names = f"namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}"
        path = f"/api/v1/{names}/exec?{query}"
        what = f"{command[0]} in {namespace}/{pod}"

        async def run(route: Route) -> ExecResult:
            url = route.url + path
            async with self._transport.websocket(
                route, url, protocols=PROTOCOLS, begin_seconds=timeout_seconds, limit_bytes=_FRAME_BYTES
            ) as connection:
                return await run_to_end(connection, ExecOutput(limit_bytes))

        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._with_credentials(run)
        except TimeoutError:
            text = f"{what}: it did not end within {timeout_seconds:g} s"
            raise KubeError(Reason.TIMEOUT, text) from None

    def follow(
        self,
        collection: Collection,
        *,
        decode: Callable[[object], T],
        key: Callable[[T], str],
        keep: Callable[[T], bool] | None = None,
    ) -> Followed[T]:
        """List and watch from now on, in a task: call it in a running loop, and close what it gives."""
        return Followed(self, collection, decode=decode, key=key, keep=keep)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        headers: Mapping[str, str] = _NOTHING,
        idle_seconds: float | None = None,
        limit_bytes: int | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of an answer to GET, in pieces while it comes."""
        async with AsyncExitStack() as stack:

            async def begin(route: Route) -> AsyncIterator[bytes]:
                streamed = self._transport.stream(
                    route,
                    route.url + path,
                    headers=headers,
                    begin_seconds=self._timeout_seconds,
                    idle_seconds=self._timeout_seconds if idle_seconds is None else idle_seconds,
                    limit_bytes=limit_bytes,
                )
                return await stack.enter_async_context(streamed)

            yield await self._with_credentials(begin)

    async def credentials(self) -> Credentials | None:
        """Those that would be shown now; None where there is something wrong with them."""
        return await self._routes.credentials()

    async def close(self) -> None:
        await self._transport.close()

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: Mapping[str, str],
        limit_bytes: int,
        timeout_seconds: float | None,
        at: str | None = None,
    ) -> Reply:
        async def ask(route: Route) -> Reply:
            return await self._transport.fetch(
                method,
                route,
                (route.url if at is None else at) + path,
                headers=headers,
                body=body,
                limit_bytes=limit_bytes,
                timeout_seconds=self._timeout_seconds if timeout_seconds is None else timeout_seconds,
            )

        return await self._with_credentials(ask)

    async def _with_credentials(self, ask: Callable[[Route], Awaitable[T]]) -> T:
        """Once more with new credentials, where the first are refused and there are others."""
        route = await self._routes.current()
        try:
            return await ask(route)
        except KubeError as error:
            if error.status != 401 or not self._routes.refused(route):
                raise
            renewed = await self._routes.current()
            if renewed.credentials == route.credentials:
                raise
        return await ask(renewed)
