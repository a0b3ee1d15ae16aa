"""One API server: requests, watches, and commands in pods."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

import aiohttp

from accelscope.fleet.api_server.http import Reply, Transport
from accelscope.fleet.api_server.route import ConnectionParameters, ConnectionResolver, Credentials
from accelscope.fleet.clusters.entry import Access
from accelscope.kube.errors import KubeError, Reason, reason_for_status
from accelscope.kube.listwatch import Collection, ItemStore, ListWatch, Pause, Request, random_ratio

# --- informer ------------------------------------------------------------
# The fleet's informer: a task that keeps the objects of a list and its watch current.


T = TypeVar("T")

MOST_ITEMS = 50_000  # ten times the nodes of a large cluster; a server that lists more is not believed
_LIST_BYTES = 1 << 30  # 20,000 nodes of 20 KB are 400 MB
_LIST_SECONDS = 300.0
_LOOK_SECONDS = 1.0
_COMPRESSED: Mapping[str, str] = MappingProxyType({})
_PLAIN = MappingProxyType({"Accept-Encoding": "identity"})  # an event that waits in a compressor is late


class StreamingClient(Protocol):
    """What of a session is needed here."""

    def stream(
        self,
        path: str,
        *,
        headers: Mapping[str, str] = ...,
        idle_seconds: float | None = None,
        limit_bytes: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...

    async def credentials(self) -> Credentials | None: ...


class Informer(Generic[T]):
    """Drives a ListWatch over a session. `items` is replaced whole and never changed; `version` increases
    whenever it is. While the server is out of reach, items are the last known ones. To be made in a running
    loop."""

    def __init__(
        self,
        session: StreamingClient,
        collection: Collection,
        *,
        decode: Callable[[object], T],
        key: Callable[[T], str],
        keep: Callable[[T], bool] | None = None,
        most_items: int = MOST_ITEMS,
        random: Callable[[], float] = random_ratio,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._session = session
        self._sleep = sleep
        self._machine = ListWatch(
            collection,
            ItemStore(decode, key, keep),
            list_seconds=_LIST_SECONDS,
            most_items=most_items,
            random=random,
        )
        self.synced = asyncio.Event()  # set once there has been a whole list
        self._task = asyncio.create_task(self._run())

    @property
    def items(self) -> Mapping[str, T]:
        return self._machine.store.items

    @property
    def version(self) -> int:
        return self._machine.store.version

    @property
    def error(self) -> KubeError | None:
        """Why items are not current; None: they are, except during a disconnect of a few seconds."""
        return self._machine.failure

    @property
    def errors(self) -> Mapping[str, int]:
        """By reason, since the start."""
        return self._machine.status.errors

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            step = self._machine.next_step()
            try:
                if isinstance(step, Pause):
                    await self._pause(step)
                else:
                    await self._request(step)
            except KubeError as error:
                self._machine.failed(error)
            except Exception as fault:  # noqa: BLE001 - whatever it is, it must not end the task
                self._machine.broke(fault)
            if self._machine.synced:
                self.synced.set()

    async def _request(self, request: Request) -> None:
        try:
            async with asyncio.timeout(request.total_seconds):
                await self._follow(request)
        except TimeoutError:
            text = f"the list of {request.path} was not whole after {_LIST_SECONDS:g} s"
            raise KubeError(Reason.TIMEOUT, text) from None

    async def _follow(self, request: Request) -> None:
        streamed = self._session.stream(
            request.path,
            headers=_PLAIN if request.watch else _COMPRESSED,
            idle_seconds=request.idle_seconds,
            limit_bytes=None if request.watch else _LIST_BYTES,
        )
        async with streamed as pieces:
            self._machine.opened()
            async for piece in pieces:
                for _ in self._machine.feed(piece):
                    await asyncio.sleep(0)
                await asyncio.sleep(0)  # also where a piece has few objects, or none
        for _ in self._machine.end():
            await asyncio.sleep(0)

    async def _pause(self, pause: Pause) -> None:
        if not pause.refused:
            await self._sleep(pause.seconds)
            return
        seconds, shown = pause.seconds, await self._session.credentials()
        while seconds > 0:
            await self._sleep(min(seconds, _LOOK_SECONDS))
            seconds -= _LOOK_SECONDS
            if await self._session.credentials() != shown:
                return


# They differ in how the end of stdin is told, of which there is none here.
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_STATUS_BYTES = 64 << 10
# Container runtimes tell the cause last, behind the words of all who passed it on.
_CAUSE_CHARACTERS = 150
_NO_SUCH_PROGRAM = ("executable file not found", "no such file or directory")


@dataclass(frozen=True, slots=True)
class ExecResult:
    """A command that ran to its end, well or not."""

    stdout: bytes
    stderr: bytes
    exit_code: int


class ExecOutput:
    """What a command wrote, as long as that is not too much. Raises KubeError."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._channels = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}

    def feed(self, frame: bytes) -> None:
        """One message: the channel's number, then what was written to it."""
        if not frame:
            raise KubeError(Reason.BAD_ANSWER, "the command's answer has a frame without a channel")
        channel = self._channels.get(frame[0])
        if channel is None:
            return  # 0 is stdin's and 255 says that a channel is closed: nothing to take
        channel += memoryview(frame)[1:]
        if len(self._channels[_STATUS]) > _STATUS_BYTES:
            raise KubeError(Reason.BAD_ANSWER, "the command's status is far too long")
        if len(self._channels[_STDOUT]) + len(self._channels[_STDERR]) > self._limit:
            raise KubeError(Reason.TOO_LARGE, f"the command wrote more than {self._limit} bytes")

    def result(self) -> ExecResult:
        """Once the connection has ended."""
        status = bytes(self._channels[_STATUS])
        if not status:
            raise KubeError(Reason.UNREACHABLE, "the connection ended before the command did")
        return ExecResult(bytes(self._channels[_STDOUT]), bytes(self._channels[_STDERR]), _exit_code(status))


async def run_to_end(connection: aiohttp.ClientWebSocketResponse, output: ExecOutput) -> ExecResult:
    """Raises KubeError."""
    if connection.protocol not in PROTOCOLS:
        raise KubeError(
            Reason.BAD_ANSWER, "the server speaks neither v5.channel.k8s.io nor v4.channel.k8s.io"
        )
    async for message in connection:
        if message.type is aiohttp.WSMsgType.BINARY:
            output.feed(message.data)
        elif message.type is aiohttp.WSMsgType.TEXT:
            raise KubeError(Reason.BAD_ANSWER, "the command's answer is text where frames are due")
        elif message.type is aiohttp.WSMsgType.ERROR:
            raise KubeError(
                Reason.BAD_ANSWER, "the command's answer is no WebSocket stream, or one frame is too large"
            )
    return output.result()


def _exit_code(content: bytes) -> int:
    """Of a v1.Status. What is no exit code is why the command could not be run at all."""
    try:
        status = json.loads(content)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise KubeError(Reason.BAD_ANSWER, "the command's status is not JSON")
    if status.get("status") == "Success":
        return 0
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    if status.get("reason") == "NonZeroExitCode":
        for cause in causes if isinstance(causes, list) else ():
            code = (
                cause.get("message")
                if isinstance(cause, dict) and cause.get("reason") == "ExitCode"
                else None
            )
            if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) < 10:
                return int(code)
    code, message = status.get("code"), status.get("message")
    told = message if isinstance(message, str) else "no reason told"
    if any(words in told for words in _NO_SUCH_PROGRAM):
        reason = Reason.NOT_FOUND
    else:
        reason = reason_for_status(code) if isinstance(code, int) else Reason.SERVER_ERROR
    cause = told if len(told) <= _CAUSE_CHARACTERS else f"… {told[-_CAUSE_CHARACTERS:]}"
    raise KubeError(reason, f"the command was not run: {cause}")


_NOTHING: Mapping[str, str] = MappingProxyType({})
_FRAME_BYTES = 1 << 20  # API servers send 32 KiB at a time


def pod_proxy_path(namespace: str, pod: str, port: int, path: str, scheme: str = "http") -> str:
    """A pod's port through the API server, which needs `get` on `pods/proxy`. It drops the Authorization
    header, and with https it checks no certificate."""
    target = f"https:{pod}:{port}" if scheme == "https" else f"{pod}:{port}"
    names = f"namespaces/{quote(namespace, safe='')}/pods/{quote(target, safe=':')}"
    return f"/api/v1/{names}/proxy/{path.lstrip('/')}"


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
        self._routes = ConnectionResolver(access, environ)
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

        async def run(route: ConnectionParameters) -> ExecResult:
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
    ) -> Informer[T]:
        """List and watch from now on, in a task: call it in a running loop, and close what it gives."""
        return Informer(self, collection, decode=decode, key=key, keep=keep)

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

            async def begin(route: ConnectionParameters) -> AsyncIterator[bytes]:
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
        async def ask(route: ConnectionParameters) -> Reply:
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

    async def _with_credentials(self, ask: Callable[[ConnectionParameters], Awaitable[T]]) -> T:
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
