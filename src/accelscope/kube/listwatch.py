"""List once, then watch; and after whatever happens, go on from there as cheaply as can be for the server."""

import json
import time
from collections.abc import Callable
from typing import TypeVar

from accelscope.kube.client import Client
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.follower import Follower
from accelscope.kube.items import LineSplitter, ListSplitter
from accelscope.kube.paths import Collection
from accelscope.kube.retries import random_ratio
from accelscope.kube.store import ItemStore

T = TypeVar("T")

_SHORT_SECONDS = 1.0  # a watch that ends sooner is no watch
_DOUBTFUL = 3  # errors of the server in a row, after which the resource version itself is in doubt


class ListWatch(Follower[T]):
    """A disconnect is followed by a watch from the last resource version, not by a new list; that is needed
    only where the server no longer knows the version (410, as status or as event)."""

    def __init__(
        self,
        client: Client,
        collection: Collection,
        *,
        decode: Callable[[object], T],
        key: Callable[[T], str],
        keep: Callable[[T], bool] | None = None,
        watch_seconds: tuple[int, int] = (240, 360),
        idle_margin_seconds: float = 30.0,
        random: Callable[[], float] = random_ratio,
        wait: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(client, ItemStore(decode, key, keep), random=random, wait=wait, clock=clock)
        self._collection = collection
        self._watch_seconds = watch_seconds
        self._idle_margin_seconds = idle_margin_seconds
        self._path = collection.paths[0]
        self._gone = 0  # in a row, with no event between them

    def _round(self) -> float:
        if self._store.resource_version is None:
            self._list()
        return self._watch()

    def _failed(self, error: KubeError) -> float:
        if error.reason is Reason.GONE:
            self._store.resource_version = None
            self._gone += 1
            if self._gone == 1:  # nothing is wrong: versions are kept for some minutes only
                self._count(error.reason)
                return 0.0
        delay = super()._failed(error)
        doubtful = error.reason in (Reason.SERVER_ERROR, Reason.BAD_ANSWER, Reason.TOO_LARGE)
        if error.reason is Reason.NOT_FOUND or (doubtful and self._retries.failures >= _DOUBTFUL):
            self._store.resource_version = None
        return delay

    def _list(self) -> None:
        *others, last = self._collection.paths
        for path in others:
            try:
                self._list_at(path)
            except KubeError as error:
                if error.reason is not Reason.NOT_FOUND:
                    raise
            else:
                return
        self._list_at(last)

    def _list_at(self, path: str) -> None:
        found: dict[str, T] = {}
        # A cache that is behind may give a version that is gone already; then its store is asked.
        list_path = self._collection.list_path(path, from_cache=self._gone < 2)
        while True:
            splitter = ListSplitter()
            found.update(self._listed(list_path, splitter))
            if splitter.continue_token is None:
                break
            list_path = self._collection.list_path(path, continue_token=splitter.continue_token)
        if self._stopping.is_set():
            return
        if splitter.resource_version is None:
            raise KubeError(Reason.BAD_ANSWER, f"the list of {path} has no resource version")
        self._path = path
        self._store.replace(found, splitter.resource_version)
        self.synced.set()
        self._succeeded()

    def _watch(self) -> float:
        version = self._store.resource_version
        if version is None or self._stopping.is_set():
            return 0.0
        shortest, longest = self._watch_seconds
        seconds = shortest + int((longest - shortest) * self._random())
        path = self._collection.watch_path(self._path, version, seconds)
        lines = LineSplitter()
        said_something = False
        begun = time.monotonic()
        with self._streaming(path, idle_seconds=seconds + self._idle_margin_seconds) as stream:
            self._succeeded()
            for piece in stream:
                for line in lines.feed(piece):
                    self._store.apply(_event(line))
                    said_something = True
                    self._gone = 0
                    self._retries.succeeded()
                    self._succeeded()
        if time.monotonic() - begun >= _SHORT_SECONDS:
            self._retries.succeeded()
            return 0.0
        if said_something:
            return self._retries.pause(1)
        raise KubeError(Reason.UNREACHABLE, "the server ended the watch at once")


def _event(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise KubeError(Reason.BAD_ANSWER, "the watch gave a line that is not JSON") from None
