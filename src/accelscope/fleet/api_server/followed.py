"""A list and its watch, kept current by a task: after whatever happens it goes on from where it was."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from itertools import islice
from typing import Generic, Protocol, TypeVar

import msgspec

from accelscope.config.log import fields
from accelscope.fleet.api_server.credentials import Credentials
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.items import LineSplitter, ListSplitter
from accelscope.kube.paths import Collection
from accelscope.kube.retries import NOT_GRANTED, REFUSED, Retries, random_ratio
from accelscope.kube.store import ItemStore

T = TypeVar("T")

log = logging.getLogger(__name__)

MOST_ITEMS = 50_000  # ten times the nodes of a large cluster; what says that it has more is not believed
_LIST_BYTES = 1 << 30  # 20,000 nodes of 20 KB are 400 MB
_LIST_SECONDS = 300.0
_AT_ONCE = 50  # objects, a few milliseconds, before others have their turn
_IDLE_MARGIN_SECONDS = 30.0
_SHORT_SECONDS = 1.0  # a watch that ends sooner is no watch
_LOOK_SECONDS = 1.0
_DOUBTFUL = 3  # errors of the server in a row, after which the resource version itself is in doubt
_PLAIN = {"Accept-Encoding": "identity"}  # an event that waits in a compressor is late


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


class Followed(Generic[T]):
    """`items` is replaced whole and never changed; `version` increases whenever it is. While the server is
    out of reach, items are the last that were known. To be made in a running loop."""

    def __init__(
        self,
        session: Streams,
        collection: Collection,
        *,
        decode: Callable[[object], T],
        key: Callable[[T], str],
        keep: Callable[[T], bool] | None = None,
        most_items: int = MOST_ITEMS,
        watch_seconds: tuple[int, int] = (240, 360),
        random: Callable[[], float] = random_ratio,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._session = session
        self._collection = collection
        self._store = ItemStore(decode, key, keep)
        self._most_items = most_items
        self._watch_seconds = watch_seconds
        self._random = random
        self._sleep = sleep
        self._path = collection.paths[0]
        self._retries = Retries(random)
        self._gone = 0  # in a row, with no event between them
        self._logged: set[type[Exception]] = set()  # faults of ours: each kind once
        self.synced = asyncio.Event()  # set once there has been a whole list
        self.error: KubeError | None = None  # why items are not current; None: they are, but for some seconds
        self.succeeded_at: float | None = None  # seconds since the epoch
        self.errors: dict[str, int] = {}  # by reason, since the start
        self._task = asyncio.create_task(self._run())

    @property
    def items(self) -> Mapping[str, T]:
        return self._store.items

    @property
    def version(self) -> int:
        return self._store.version

    @property
    def rejected(self) -> int:
        """Objects that could not be decoded, since the start."""
        return self._store.rejected

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            try:
                await self._attempt()
            except Exception as fault:  # noqa: BLE001 - whatever it is, it must not be the end of the task
                await self._sleep(self._broke(fault))

    async def _attempt(self) -> None:
        """A round, and the pause after it."""
        refused = False
        try:
            delay = await self._round()
        except KubeError as error:
            delay = self._failed(error)
            refused = error.reason in REFUSED
        await self._pause(delay, refused=refused)

    async def _round(self) -> float:
        """One attempt: how many seconds to wait before the next."""
        if self._store.resource_version is None:
            await self._list()
        return await self._watch()

    async def _list(self) -> None:
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                await self._list_somewhere()
        except TimeoutError:
            text = f"the list of {self._path} was not whole after {_LIST_SECONDS:g} s"
            raise KubeError(Reason.TIMEOUT, text) from None

    async def _list_somewhere(self) -> None:
        *others, last = self._collection.paths
        for path in others:
            try:
                await self._list_at(path)
            except KubeError as error:
                if error.reason is not Reason.NOT_FOUND:
                    raise
            else:
                return
        await self._list_at(last)

    async def _list_at(self, path: str) -> None:
        found: dict[str, T] = {}
        count = 0
        # A cache that is behind may give a version that is gone already; then its store is asked.
        asked = self._collection.list_path(path, from_cache=self._gone < 2)
        while True:
            splitter = ListSplitter()
            async with self._session.stream(asked, limit_bytes=_LIST_BYTES) as pieces:
                async for piece in pieces:
                    count += await self._take(found, splitter.feed(piece), count)
                count += await self._take(found, splitter.close(), count)
            if splitter.continue_token is None:
                break
            asked = self._collection.list_path(path, continue_token=splitter.continue_token)
        if splitter.resource_version is None:
            raise KubeError(Reason.BAD_ANSWER, f"the list of {path} has no resource version")
        self._path = path
        self._store.replace(found, splitter.resource_version)
        self._succeeded()
        self.synced.set()

    async def _take(self, found: dict[str, T], documents: Iterator[object], before: int) -> int:
        """Those that cannot be decoded count too: they cost as much."""
        count = 0
        while some := list(islice(documents, _AT_ONCE)):
            count += len(some)
            if before + count > self._most_items:
                raise KubeError(Reason.TOO_LARGE, f"{self._path}: more than {self._most_items} objects")
            found.update(self._store.read_list(some))
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # also where a piece has no whole object
        return count

    async def _watch(self) -> float:
        version = self._store.resource_version
        if version is None:
            return 0.0
        shortest, longest = self._watch_seconds
        seconds = shortest + int((longest - shortest) * self._random())
        path = self._collection.watch_path(self._path, version, seconds)
        lines = LineSplitter()
        said_something = False
        begun = time.monotonic()
        idle = seconds + _IDLE_MARGIN_SECONDS
        async with self._session.stream(path, headers=_PLAIN, idle_seconds=idle) as pieces:
            self._succeeded()
            async for piece in pieces:
                for line in lines.feed(piece):
                    self._store.apply(_event(line))
                    said_something = True
                    self._retries.succeeded()
                    self._gone = 0
                    self._succeeded()
                if len(self.items) > self._most_items:
                    self._store.resource_version = None
                    raise KubeError(Reason.TOO_LARGE, f"{self._path}: more than {self._most_items} objects")
                await asyncio.sleep(0)
        if time.monotonic() - begun >= _SHORT_SECONDS:
            self._retries.succeeded()
            return 0.0
        if said_something:
            return self._retries.pause(1)
        raise KubeError(Reason.UNREACHABLE, "the server ended the watch at once")

    def _succeeded(self) -> None:
        """Something good came: what is held is current."""
        self.error = None
        self.succeeded_at = time.time()

    def _failed(self, error: KubeError) -> float:
        """Note it; how many seconds to wait."""
        self.errors[str(error.reason)] = self.errors.get(str(error.reason), 0) + 1
        if error.reason is Reason.GONE:
            self._store.resource_version = None
            self._gone += 1
            if self._gone == 1:  # nothing is wrong: versions are kept for some minutes only
                return 0.0
        pause = self._retries.failed(error)
        if error.reason in NOT_GRANTED or self._retries.failures > 1 or not self.synced.is_set():
            self.error = error
        doubtful = error.reason in (Reason.SERVER_ERROR, Reason.BAD_ANSWER, Reason.TOO_LARGE)
        if error.reason is Reason.NOT_FOUND or (doubtful and self._retries.failures >= _DOUBTFUL):
            self._store.resource_version = None
        return pause

    def _broke(self, fault: Exception) -> float:
        """A fault of ours: what is held must not pass for current, and is listed anew. How many seconds to
        wait."""
        if type(fault) not in self._logged:
            self._logged.add(type(fault))
            log.error(
                "a watch failed in a way that was not foreseen", exc_info=fault, extra=fields(path=self._path)
            )
        text = f"{self._path}: failed in a way that was not foreseen: {type(fault).__name__}"
        self.error = KubeError(Reason.BAD_ANSWER, text)
        self.errors[str(Reason.BAD_ANSWER)] = self.errors.get(str(Reason.BAD_ANSWER), 0) + 1
        self._store.resource_version = None
        return self._retries.failed()

    async def _pause(self, seconds: float, *, refused: bool) -> None:
        """After a refusal, no longer than until there are other credentials."""
        if not refused:
            await self._sleep(seconds)
            return
        shown = await self._session.credentials()
        while seconds > 0:
            await self._sleep(min(seconds, _LOOK_SECONDS))
            seconds -= _LOOK_SECONDS
            if await self._session.credentials() != shown:
                return


def _event(line: bytes) -> object:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise KubeError(Reason.BAD_ANSWER, "the watch gave a line that is not JSON") from None
