"""Blocking calls with a deadline.

A call into a driver, a kernel file or a socket blocks, and some never return. Python cannot end a thread, so
a call that misses its deadline is abandoned: its thread is left behind and its late result is discarded. Each
call has a key, and a key is not called again until its abandoned call has returned, so at most one thread is
lost per key. Threads are daemons: they do not keep the process from ending.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


class DeadlineError(Exception):
    """The call has no result."""


class DeadlineExceeded(DeadlineError):
    """It did not return in time and was abandoned."""


class CallInProgress(DeadlineError):
    """It was not made: an earlier call with the same key has not returned."""


class NoThreadAvailable(DeadlineError):
    """It was not made: the process can start no more threads."""


@dataclass(slots=True, eq=False)
class _Call:
    key: str
    function: Callable[[], Any]
    done: Callable[[Any], object]
    deadline: float
    died: bool = False  # it ended its thread, without a result


class Calls:
    """Runs calls in worker threads, at most one per key at a time. A worker is reused until a call of it is
    abandoned.

    `call` blocks until the deadline. A loop that waits for more than one thing shares its condition as
    `changed`, and uses `begin`, `deadline` and `abandon_overdue` while it holds that condition. The condition
    is notified if a call has an earlier deadline than the one before. `done` notifies it of a result.

    Idle workers wait for a queue and not for the condition, which would wake all of them at each call.
    """

    def __init__(
        self,
        name: str,
        changed: threading.Condition | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._changed = changed or threading.Condition()
        self._monotonic = monotonic
        self._running: dict[str, _Call] = {}
        self._abandoned: set[str] = set()
        self._waiting: SimpleQueue[_Call | None] = SimpleQueue()  # for idle workers; None ends one
        self._idle_workers = 0  # without those for which a call is waiting
        self._last_deadline = 0.0
        self._closed = False

    @property
    def running(self) -> tuple[str, ...]:
        """Keys of calls that are not abandoned. Requires `changed`."""
        return tuple(self._running)

    @property
    def abandoned(self) -> frozenset[str]:
        """Keys of calls that missed their deadlines and have not returned since."""
        with self._changed:
            return frozenset(self._abandoned)

    def call(self, key: str, function: Callable[[], T], seconds: float) -> T:
        """The function's result. Raises what it raises, or DeadlineError."""
        finished: list[Callable[[], T]] = []

        def caught() -> Callable[[], T]:
            try:
                result = function()
            except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
                return partial(_raise, error)
            return lambda: result

        def done(result: Callable[[], T]) -> None:
            finished.append(result)
            self._changed.notify_all()

        with self._changed:
            self.begin(key, caught, seconds, done)
            if not self._changed.wait_for(lambda: finished, seconds):
                self._abandon(key)
                raise DeadlineExceeded(f"no answer within {seconds:g} s")
        return finished[0]()

    def begin(self, key: str, function: Callable[[], T], seconds: float, done: Callable[[T], object]) -> None:
        """Start a call and return. `function` must not raise; its result is passed to `done` in the worker's
        thread, which holds `changed` then. `done` may begin another call. Requires `changed`."""
        if key in self._running or key in self._abandoned:
            raise CallInProgress("an earlier call has not returned")
        call = _Call(key, function, done, self._monotonic() + seconds)
        if self._idle_workers:
            self._idle_workers -= 1
            self._waiting.put(call)
        else:
            try:
                threading.Thread(target=self._work, args=(call,), name=self._name, daemon=True).start()
            except RuntimeError as error:
                raise NoThreadAvailable(str(error)) from None
        self._running[key] = call
        if call.deadline < self._last_deadline:
            self._changed.notify_all()
        self._last_deadline = call.deadline

    def deadline(self) -> float | None:
        """The earliest of the running calls, by the monotonic clock. Requires `changed`."""
        return min((call.deadline for call in self._running.values()), default=None)

    def abandon_overdue(self) -> list[str]:
        """Abandon the calls that missed their deadlines, and return their keys. Requires `changed`."""
        now = self._monotonic()
        overdue = [key for key, call in self._running.items() if call.deadline <= now]
        for key in overdue:
            self._abandon(key)
        return overdue

    def close(self) -> None:
        """End the idle workers. The others end when their calls return."""
        with self._changed:
            self._closed = True
            while self._idle_workers:
                self._idle_workers -= 1
                self._waiting.put(None)

    def _abandon(self, key: str) -> None:
        if not self._running.pop(key).died:
            self._abandoned.add(key)

    def _work(self, call: _Call | None) -> None:
        while call is not None:
            try:
                result = call.function()
            except BaseException:  # SystemExit, for one; the call is overdue at its deadline
                with self._changed:
                    call.died = True
                    if self._running.get(call.key) is not call:
                        self._abandoned.discard(call.key)
                raise
            with self._changed:
                if self._running.get(call.key) is not call:
                    self._abandoned.discard(call.key)
                    return
                del self._running[call.key]
                self._idle_workers += 1
                try:
                    call.done(result)
                except BaseException:
                    log.exception("unexpected error after a call of %s", call.key)
                if self._closed and self._idle_workers:
                    self._idle_workers -= 1
                    return
            del call, result  # an idle worker keeps nothing alive
            call = self._waiting.get()


def _raise(error: Exception) -> NoReturn:
    raise error


def call_with_deadline(name: str, function: Callable[[], T], seconds: float) -> T:
    """One call in a thread of that name. Raises what it raises, or DeadlineError."""
    calls = Calls(name)
    try:
        return calls.call("", function, seconds)
    finally:
        calls.close()


def call_detached(name: str, function: Callable[[], object]) -> None:
    """Run a call in a thread and ignore its result. Without a free thread, do nothing."""
    with suppress(RuntimeError):
        threading.Thread(target=function, name=name, daemon=True).start()
