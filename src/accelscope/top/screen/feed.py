"""Reads the source in a thread of its own: the screen never waits for it."""

import threading
import time
from collections.abc import Callable

from accelscope.top.sources.source import Question, Source, look
from accelscope.top.view.shown import View


class Feed:
    def __init__(
        self,
        source: Source,
        question: Question,
        interval_seconds: float,
        publish: Callable[[View, Question], None],
    ) -> None:
        self._source = source
        self._publish = publish
        self._changed = threading.Condition()
        self._question = question
        self._interval = interval_seconds
        self._due = 0.0
        self._refresh = False
        self._paused = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        self._source.start()
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._source.stop()

    def ask(self, question: Question) -> None:
        """From now on, and at once."""
        with self._changed:
            self._question, self._due = question, 0.0
            self._changed.notify_all()

    def now(self) -> None:
        with self._changed:
            self._due, self._refresh = 0.0, True
            self._changed.notify_all()

    def pace(self, interval_seconds: float, *, paused: bool) -> None:
        with self._changed:
            self._interval, self._paused = interval_seconds, paused
            if not paused:
                self._due = min(self._due, time.monotonic() + interval_seconds)
            self._changed.notify_all()
        self._source.hurry(interval_seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (left := self._left()) != 0.0:
                    self._changed.wait(left)
                if self._stopped:
                    return
                question = self._question
                refresh, self._refresh = self._refresh, False
                self._due = time.monotonic() + self._interval
            if refresh:
                self._source.refresh()
            view = look(self._source, question)
            if not self._stopped:
                self._publish(view, question)
            # Only now: the first reading may take its time.
            self._source.hurry(self._interval)

    def _left(self) -> float | None:
        """Seconds until the next reading; None: not before somebody asks for it."""
        if self._due == 0.0:
            return 0.0
        return None if self._paused else max(0.0, self._due - time.monotonic())
