"""A session with one API server: requests, informers, and commands in pods."""

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

from accelscope.fleet.api_server.connection import (
    ConnectionParameters,
    ConnectionResolver,
    RequestCredentials,
)
from accelscope.fleet.api_server.http import Reply, Transport
from accelscope.fleet.clusters import Access
from accelscope.kube.endpoint import KubeError, Reason, reason_for_status
from accelscope.kube.listwatch import Collection, ItemStore, ListWatch, Pause, Request, random_ratio

# --- Informer ---------------------------------------------------------------------


T = TypeVar("T")

MOST_ITEMS = 50_000  # ten times the nodes of a large cluster; longer lists are rejected
_LIST_BYTES = 1 << 30  # 20,000 nodes of 20 KB are 400 MB
_LIST_SECONDS = 300.0
_CHECK_CREDENTIALS_SECONDS = 1.0
_COMPRESSED: Mapping[str, str] = MappingProxyType({})
_PLAIN = MappingProxyType({"Accept-Encoding": "identity"})  # compression delays events


class StreamingClient(Protocol):
    """The part of `Session` that an informer uses."""

    def stream(
        self,
        path: str,
        *,
        headers: Mapping[str, str] = ...,
        idle_seconds: float | None = None,
        limit_bytes: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...

    async def credentials(self) -> RequestCredentials | None: ...


class Informer(Generic[T]):
    """Keeps the objects of a collection current with a list and a watch. `items` is replaced as a whole and
    never modified; `version` increases with each replacement. While the server is unreachable, `items` are
    the last known ones. Create it in a running loop."""

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
        self.synced = asyncio.Event()  # set after the first complete list
        self._task = asyncio.create_task(self._run())

    @property
    def items(self) -> Mapping[str, T]:
        return self._machine.store.items

    @property
    def version(self) -> int:
        return self._machine.store.version

    @property
    def error(self) -> KubeError | None:
        """Why `items` are not current; None: they are, or were a few seconds ago."""
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
            except Exception as fault:  # noqa: BLE001 - must not end the task
                self._machine.broke(fault)
            if self._machine.synced:
                self.synced.set()

    async def _request(self, request: Request) -> None:
        try:
            async with asyncio.timeout(request.total_seconds):
                await self._follow(request)
        except TimeoutError:
            text = f"the list of {request.path} was not complete after {_LIST_SECONDS:g} s"
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
                await asyncio.sleep(0)  # also for pieces with few objects
        for _ in self._machine.end():
            await asyncio.sleep(0)

    async def _pause(self, pause: Pause) -> None:
        if not pause.refused:
            await self._sleep(pause.seconds)
            return
        seconds, rejected = pause.seconds, await self._session.credentials()
        while seconds > 0:
            await self._sleep(min(seconds, _CHECK_CREDENTIALS_SECONDS))
            seconds -= _CHECK_CREDENTIALS_SECONDS
            if await self._session.credentials() != rejected:
                return


# --- Commands in pods -------------------------------------------------------------

# They differ only in how stdin is closed, which is not used.
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_STATUS_BYTES = 64 << 10
# Container runtimes put the cause at the end of a long message.
_CAUSE_CHARACTERS = 150
_NO_SUCH_PROGRAM = ("executable file not found", "no such file or directory")


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of a command that has exited."""

    stdout: bytes
    stderr: bytes
    exit_code: int


class ExecOutput:
    """Collects the output of a command up to a limit. Raises KubeError."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._channels = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}

    def feed(self, frame: bytes) -> None:
        """Takes one message: the number of the channel, then its data."""
        if not frame:
            raise KubeError(Reason.BAD_ANSWER, "the command's stream has a frame without a channel")
        channel = self._channels.get(frame[0])
        if channel is None:
            return  # 0 is stdin, 255 closes a channel
        channel += memoryview(frame)[1:]
        if len(self._channels[_STATUS]) > _STATUS_BYTES:
            raise KubeError(Reason.BAD_ANSWER, "the command's status is too long")
        if len(self._channels[_STDOUT]) + len(self._channels[_STDERR]) > self._limit:
            raise KubeError(Reason.TOO_LARGE, f"the command wrote more than {self._limit} bytes")

    def result(self) -> ExecResult:
        """Call it after the connection was closed."""
        status = bytes(self._channels[_STATUS])
        if not status:
            raise KubeError(Reason.UNREACHABLE, "the connection was closed before the command exited")
        return ExecResult(bytes(self._channels[_STDOUT]), bytes(self._channels[_STDERR]), _exit_code(status))


async def run_to_end(connection: aiohttp.ClientWebSocketResponse, output: ExecOutput) -> ExecResult:
    """Raises KubeError."""
    if connection.protocol not in PROTOCOLS:
        raise KubeError(
            Reason.BAD_ANSWER, "the server supports neither v5.channel.k8s.io nor v4.channel.k8s.io"
        )
    async for message in connection:
        if message.type is aiohttp.WSMsgType.BINARY:
            output.feed(message.data)
        elif message.type is aiohttp.WSMsgType.TEXT:
            raise KubeError(Reason.BAD_ANSWER, "the command's stream contains text instead of binary frames")
        elif message.type is aiohttp.WSMsgType.ERROR:
            raise KubeError(
                Reason.BAD_ANSWER, "the command's stream is not WebSocket, or a frame is too large"
            )
    return output.result()


def _exit_code(content: bytes) -> int:
    """The exit code in a v1.Status. Raises KubeError if the command was not run."""
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
    text = message if isinstance(message, str) else "no reason given"
    if any(words in text for words in _NO_SUCH_PROGRAM):
        reason = Reason.NOT_FOUND
    else:
        reason = reason_for_status(code) if isinstance(code, int) else Reason.SERVER_ERROR
    cause = text if len(text) <= _CAUSE_CHARACTERS else f"… {text[-_CAUSE_CHARACTERS:]}"
    raise KubeError(reason, f"the command was not run: {cause}")


# --- Session ----------------------------------------------------------------------

_NOTHING: Mapping[str, str] = MappingProxyType({})
_FRAME_BYTES = 1 << 20  # API servers send 32 KiB at a time


def pod_proxy_path(namespace: str, pod: str, port: int, path: str, scheme: str = "http") -> str:
    """Path of a pod's port through the API server; needs `get` on `pods/proxy`. The API server removes the
    Authorization header, and does not verify certificates of https."""
    target = f"https:{pod}:{port}" if scheme == "https" else f"{pod}:{port}"
    names = f"namespaces/{quote(namespace, safe='')}/pods/{quote(target, safe=':')}"
    return f"/api/v1/{names}/proxy/{path.lstrip('/')}"


class Session:
    """A client of one API server. Methods raise only KubeError, whose text never contains a token.
    Connections are opened on first use; kubeconfigs, tokens and certificates are reloaded when they change.

    Each request uses one of `connections`, and its timeout begins when one is free. Watches and commands are
    not limited by `connections`."""

    def __init__(
        self,
        access: Access,
        *,
        connections: int = 64,
        timeout_seconds: float = 10.0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._connections = ConnectionResolver(access, environ)
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
        """Returns 2xx and 304. `at` is the URL of another server with the same CA and credentials, such as an
        agent."""
        return await self._request_reply(
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
        return await self._request_reply(
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
        """Runs a command without a shell and waits until it exits. After the timeout the command continues to
        run: the protocol cannot stop it.

        WebSocket uses GET, which needs `get` on `pods/exec` before Kubernetes 1.35, and `create` since
        then."""
        parameters = [("container", container), ("stdout", "true"), ("stderr", "true")]
        parameters += [("command", word) for word in command]
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters)
        names = f"namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}"
        path = f"/api/v1/{names}/exec?{query}"
        what = f"{command[0]} in {namespace}/{pod}"

        async def run(connection: ConnectionParameters) -> ExecResult:
            url = connection.url + path
            async with self._transport.websocket(
                connection, url, protocols=PROTOCOLS, begin_seconds=timeout_seconds, limit_bytes=_FRAME_BYTES
            ) as websocket:
                return await run_to_end(websocket, ExecOutput(limit_bytes))

        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._with_credentials(run)
        except TimeoutError:
            text = f"{what} did not exit within {timeout_seconds:g} s"
            raise KubeError(Reason.TIMEOUT, text) from None

    def informer(
        self,
        collection: Collection,
        *,
        decode: Callable[[object], T],
        key: Callable[[T], str],
        keep: Callable[[T], bool] | None = None,
    ) -> Informer[T]:
        """Starts an informer. Call it in a running loop; the caller closes the informer."""
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
        """The body of a GET response in pieces, as they arrive."""
        async with AsyncExitStack() as stack:

            async def begin(connection: ConnectionParameters) -> AsyncIterator[bytes]:
                streamed = self._transport.stream(
                    connection,
                    connection.url + path,
                    headers=headers,
                    begin_seconds=self._timeout_seconds,
                    idle_seconds=self._timeout_seconds if idle_seconds is None else idle_seconds,
                    limit_bytes=limit_bytes,
                )
                return await stack.enter_async_context(streamed)

            yield await self._with_credentials(begin)

    async def credentials(self) -> RequestCredentials | None:
        """The credentials of the next request; None if they cannot be read."""
        return await self._connections.credentials()

    async def close(self) -> None:
        await self._transport.close()

    async def _request_reply(
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
        async def send(connection: ConnectionParameters) -> Reply:
            return await self._transport.fetch(
                method,
                connection,
                (connection.url if at is None else at) + path,
                headers=headers,
                body=body,
                limit_bytes=limit_bytes,
                timeout_seconds=self._timeout_seconds if timeout_seconds is None else timeout_seconds,
            )

        return await self._with_credentials(send)

    async def _with_credentials(self, send: Callable[[ConnectionParameters], Awaitable[T]]) -> T:
        """Retries once with new credentials if the server rejects the current ones."""
        connection = await self._connections.current()
        try:
            return await send(connection)
        except KubeError as error:
            if error.status != 401 or not self._connections.reject(connection):
                raise
            renewed = await self._connections.current()
            if renewed.credentials == connection.credentials:
                raise
        return await send(renewed)
