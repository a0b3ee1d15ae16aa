"""What a watch and a poll have in common: a thread that keeps a store current and says how it is."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import Generic, TypeVar

from accelscope.kube.client import Client, Stream
from accelscope.kube.errors import KubeError, one_line
from accelscope.kube.items import ListSplitter
from accelscope.kube.retries import NOT_GRANTED, REFUSED, Retries, random_ratio
from accelscope.kube.store import ItemStore

T = TypeVar("T")

log = logging.getLogger(__name__)

_TOKEN_LOOK_SECONDS = 1.0
_LIST_SECONDS = 60.0  # for a whole list
_INTERNAL = "internal"  # a reason: a fault of ours


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """`up` says that what is held is current, but for a disconnect of a few seconds."""

    up: bool = False
    reason: str | None = "starting"  # a short word for why it is not up; None while it is
    error: str | None = None  # the last error, kept after all is well again
    last_success: float | None = None  # seconds since the epoch
    errors: Mapping[str, int] = field(default_factory=dict)  # by reason, since the start


class Follower(ABC, Generic[T]):
    """run() belongs into a daemon thread and returns after stop(). `items`, `version` and `state` are read by
    any thread; while the source is down, items are the last that were known."""

    def __init__(
        self,
        client: Client,
        store: ItemStore[T],
        *,
        random: Callable[[], float] = random_ratio,
        wait: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._store = store
        self._random = random
        self._stopping = Event()
        self._wait = wait or self._stopping.wait
        self._clock = clock
        self._retries = Retries(random)
        self._logged: set[type[Exception]] = set()  # faults of ours: each kind once
        self._lock = Lock()
        self._stream: Stream | None = None
        self.synced = Event()  # set once there has been a whole list
        self.state = SourceStatus()

    @property
    def items(self) -> Mapping[str, T]:
        return self._store.items

    @property
    def version(self) -> int:
        """Increases with each change of items."""
        return self._store.version

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._attempt()
                except Exception as fault:  # noqa: BLE001 - whatever it is, it must not be the end of the thread
                    self._pause(self._broke(fault), None)
        finally:
            self.state = replace(self.state, up=False, reason="stopped")

    def stop(self) -> None:
        """From another thread: run() returns soon, even out of a read that waits."""
        with self._lock:
            self._stopping.set()
            if self._stream is not None:
                self._stream.close()

    def _attempt(self) -> None:
        """A round, and the pause after it."""
        generation = self._client.token_generation()
        refused = False
        try:
            delay = self._round()
        except KubeError as error:
            delay = self._failed(error)
            refused = error.reason in REFUSED
        self._pause(delay, generation if refused else None)

    @abstractmethod
    def _round(self) -> float:
        """One attempt: how many seconds to wait before the next. Raises KubeError."""

    @contextmanager
    def _streaming(
        self, path: str, *, idle_seconds: float, total_seconds: float | None = None
    ) -> Iterator[Stream]:
        """A stream that stop() finds."""
        stream = self._client.stream(path, idle_seconds=idle_seconds, total_seconds=total_seconds)
        with self._lock:
            if self._stopping.is_set():
                stream.close()
            self._stream = stream
        try:
            with stream:
                yield stream
        finally:
            with self._lock:
                self._stream = None

    def _listed(self, path: str, splitter: ListSplitter) -> dict[str, T]:
        """What a list holds. After stop() it may be less."""
        with closing(self._arriving(path, splitter)) as documents:
            return self._store.read_list(documents)

    def _arriving(self, path: str, splitter: ListSplitter) -> Generator[object, None, None]:
        idle = self._client.timeout_seconds
        with self._streaming(path, idle_seconds=idle, total_seconds=_LIST_SECONDS) as stream:
            for piece in stream:
                yield from splitter.feed(piece)
            if not self._stopping.is_set():
                yield from splitter.close()

    def _succeeded(self) -> None:
        """Something good came: what is held is current."""
        state = self.state
        errors = state.errors
        if errors.get("bad_object", 0) != self._store.rejected:
            errors = {**errors, "bad_object": self._store.rejected}
        self.state = SourceStatus(True, None, state.error, self._clock(), errors)

    def _failed(self, error: KubeError) -> float:
        """Note it; how many seconds to wait."""
        if self._stopping.is_set():
            return 0.0
        delay = self._retries.failed(error)
        up = self.synced.is_set() and self._retries.failures < 2 and error.reason not in NOT_GRANTED
        self._count(error.reason)
        self.state = replace(
            self.state, up=up, reason=None if up else str(error.reason), error=self._told(error)
        )
        return delay

    def _broke(self, fault: Exception) -> float:
        """A fault of ours: what is held must not pass for current, and is listed anew. How many seconds to
        wait."""
        if self._stopping.is_set():
            return 0.0
        if type(fault) not in self._logged:
            self._logged.add(type(fault))
            log.error("what is followed failed in a way that was not foreseen", exc_info=fault)
        self._store.resource_version = None
        self._count(_INTERNAL)
        text = one_line(f"{type(fault).__name__}: {fault}")
        self.state = replace(self.state, up=False, reason=_INTERNAL, error=text)
        return self._retries.failed()

    def _count(self, reason: str) -> None:
        errors = dict(self.state.errors)
        errors[str(reason)] = errors.get(str(reason), 0) + 1
        self.state = replace(self.state, errors=errors)

    def _told(self, error: KubeError) -> str:
        return error.text

    def _pause(self, seconds: float, generation: int | None) -> None:
        """With a generation of the token, no longer than until there is another token."""
        while seconds > 0 and not self._stopping.is_set():
            step = seconds if generation is None else min(seconds, _TOKEN_LOOK_SECONDS)
            self._wait(step)
            seconds -= step
            if generation is not None and self._client.token_generation() != generation:
                return
