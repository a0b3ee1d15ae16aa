"""For what happens when it happens: a test waits for it, and a busy machine must not decide the test."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.05


def wait_until(
    condition: Callable[[], object], what: str = "it came to that", seconds: float = PATIENCE_SECONDS
) -> None:
    """What comes soon is noticed soon; what takes long is not disturbed by being asked all the time."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(min(max(waited / 10, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS))


def until_passes(check: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """What is so in the end, though on a busy machine a request on the way there may have failed. Of a check
    that never passes, the last failure is told."""
    began = time.monotonic()
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() - began > seconds:
                raise
        time.sleep(_LONGEST_PAUSE_SECONDS)


def growing_patience(seconds: float, written: Path) -> Iterator[float]:
    """For a program that is given up, but not before it has written a file: the time for it, and more if it
    did not come so far."""
    while True:
        yield seconds
        if written.exists() and written.read_text().strip():
            return
        assert seconds < PATIENCE_SECONDS, f"it was never started: there is no {written}"
        seconds *= 4
