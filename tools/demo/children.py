"""The processes of the demo. They run in their own sessions, so that only the demo handles Ctrl-C, and end
with it."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_START_SECONDS = 180.0  # on a machine that has other things to do
_END_SECONDS = 10.0
_POLL_SECONDS = 0.05
_LAST_LINES = 12
_PR_SET_PDEATHSIG = 1  # of prctl(2)
_libc = ctypes.CDLL(None)


class ChildEnded(RuntimeError):
    """A process ended unexpectedly, or did not become ready."""


class Child:
    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        own = os.getpid()

        def end_with_us() -> None:
            """Ends the process even if the demo is killed."""
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != own:
                os.kill(os.getpid(), signal.SIGTERM)

        with log.open("wb") as written:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
                preexec_fn=end_with_us,  # noqa: PLW1509 - nothing else runs yet that could hold a lock
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def check(self) -> None:
        """Raises ChildEnded."""
        code = self.process.poll()
        if code is not None:
            raise ChildEnded(f"{self.name} ended with code {code}. {self.last_words()}")

    def last_words(self) -> str:
        with self.log.open(errors="replace") as lines:
            kept = deque((line.rstrip() for line in lines if line.strip()), _LAST_LINES)
        return "Its last lines:\n" + "\n".join(f"    {line}" for line in kept) if kept else "It said nothing."


class Children:
    """Leaving the context ends all processes, the last one first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def process_ids(self) -> dict[str, int]:
        return {child.name: child.process.pid for child in self._children}

    def start(self, name: str, *command: object) -> Child:
        child = Child(name, [str(word) for word in command], self._folder / f"{name.replace(' ', '-')}.log")
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raises ChildEnded."""
        for child in self._children:
            child.check()

    def wait_for(self, child: Child, ready: Callable[[], bool]) -> None:
        """Raises ChildEnded, also if another process ends meanwhile."""
        end = time.monotonic() + _START_SECONDS
        while not ready():
            self.check()
            if time.monotonic() > end:
                raise ChildEnded(
                    f"{child.name} is not ready after {_START_SECONDS:g} s. {child.last_words()}"
                )
            time.sleep(_POLL_SECONDS)

    def end(self) -> None:
        for child in reversed(self._children):
            with contextlib.suppress(ProcessLookupError):
                child.process.terminate()
        end = time.monotonic() + _END_SECONDS
        for child in self._children:
            try:
                child.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
        self._children.clear()


def answers(url: str) -> bool:
    """Whether the address answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False
