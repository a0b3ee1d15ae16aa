"""For what happens when it happens: a test waits for it, and a busy machine must not decide the test."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.05


def wait_until(
    condition: Callable[[], bool], what: str = "it came to that", seconds: float = PATIENCE_SECONDS
) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(_POLL_SECONDS)
