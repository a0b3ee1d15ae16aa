"""When to scrape: every exporter at the same pace, whatever a scrape takes."""

import time
from collections.abc import Iterator

FEWEST = 6


def moments(seconds: float, pause_seconds: float) -> Iterator[int]:
    """Numbers, each when its time has come: one a pause, spread over these seconds. Who takes longer than a
    pause gets the next at once, and fewer of them, but not less than a few."""
    began = time.perf_counter()
    for number in range(max(FEWEST, round(seconds / pause_seconds))):
        passed = time.perf_counter() - began
        if number >= FEWEST and passed > seconds:
            return
        time.sleep(max(0.0, number * pause_seconds - passed))
        yield number
