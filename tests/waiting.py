"""For what happens when it happens: a test waits for it, and a busy machine must not decide the test."""

import time
from collections.abc import Callable

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
