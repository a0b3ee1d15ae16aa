"""The fleet's informer: a task that keeps the objects of a list and its watch current."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from accelscope.fleet.api_server.credentials import Credentials
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.listwatch import Collection, ItemStore, ListWatch, Pause, Request, random_ratio

T = TypeVar("T")

MOST_ITEMS = 50_000  # ten times the nodes of a large cluster; a server that lists more is not believed
_LIST_BYTES = 1 << 30  # 20,000 nodes of 20 KB are 400 MB
_LIST_SECONDS = 300.0
_LOOK_SECONDS = 1.0
_COMPRESSED: Mapping[str, str] = MappingProxyType({})
_PLAIN = MappingProxyType({"Accept-Encoding": "identity"})  # an event that waits in a compressor is late


class Streams(Protocol):
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
        session: Streams,
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
