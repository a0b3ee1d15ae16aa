"""Slow sources: a tool that takes seconds runs beside the collections, which take its last answer."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from accelscope.vendors.common.contract import ReaderError

T = TypeVar("T")

log = logging.getLogger(__name__)

_PERIODS_KEPT = 3  # an answer older than this many periods says nothing about now


@dataclass(frozen=True, slots=True)
class Latest(Generic[T]):
    value: T | None = None
    age_seconds: float | None = None
    failures: tuple[str, ...] = ()  # reasons of runs that failed since this was last asked
    failure: ReaderError | None = None  # of the last run, if that failed


class Background(Generic[T]):
    """Runs `source` every `period_seconds` in a thread of its own, from the first `latest()` on. With a
    period of 0 it runs when it is asked, in the thread that asks: for tests."""

    def __init__(
        self,
        source: Callable[[], T],
        period_seconds: float,
        *,
        name: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._period = period_seconds
        self._name = name
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._first_run = threading.Event()  # is over
        self._was_waited_for = False
        self._value: T | None = None
        self._taken_at: float | None = None
        self._failures: list[str] = []
        self._failure: ReaderError | None = None
        self._internal_error: str | None = None  # that was logged last

    def latest(self, until: float = 0.0) -> Latest[T]:
        """What the last run brought, unless it is too old. Waits for nothing but the end of the first run,
        and only once, `until` then by `time.monotonic`."""
        if self._period == 0:
            self._run_once()
        elif self._is_started():
            self._wait_for_first_run(until)
        with self._lock:
            failures, self._failures = tuple(self._failures), []
            if self._taken_at is None:
                return Latest(failures=failures, failure=self._failure)
            age = self._monotonic() - self._taken_at
            kept = self._period == 0 or age <= _PERIODS_KEPT * self._period
            return Latest(self._value if kept else None, age, failures, self._failure)

    def close(self) -> None:
        """Does not wait for a run that is under way."""
        self._stop.set()

    def _is_started(self) -> bool:
        if self._thread is not None:
            return True
        if self._stop.is_set():
            return False
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread to be had: whoever asks next tries again
            self._note_failure(ReaderError("exhausted", "there was no thread to run the tool in"))
            return False
        self._thread = thread
        return True

    def _wait_for_first_run(self, until: float) -> None:
        seconds = until - time.monotonic()
        if seconds > 0 and not self._was_waited_for:
            self._was_waited_for = True
            self._first_run.wait(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._run_once()
            self._first_run.set()
            self._stop.wait(self._period)

    def _run_once(self) -> None:
        try:
            value = self._source()
        except ReaderError as error:
            self._note_failure(error)
        except Exception as error:  # a fault in one run must not cost those that follow
            text = f"{type(error).__name__}: {error}"
            if text != self._internal_error:
                self._internal_error = text
                log.exception("%s failed in a way it does not know", self._name)
            self._note_failure(ReaderError("internal", text))
        else:
            with self._lock:
                self._value, self._taken_at, self._failure = value, self._monotonic(), None

    def _note_failure(self, failure: ReaderError) -> None:
        with self._lock:
            self._failures.append(failure.reason)
            self._failure = failure
