"""Hostile inputs are read in linear time."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SOON_SECONDS = 10.0  # of CPU; what is done in linear time is done in one, what is not takes minutes


@contextmanager
def in_linear_time() -> Iterator[None]:
    """Fails if what is done within takes long. CPU time counts, since the machine may be busy; and coverage,
    which makes every line several times as slow, looks away: others test those lines."""
    tracer = sys.gettrace()
    sys.settrace(None)
    started = time.thread_time()
    try:
        yield
        taken = time.thread_time() - started
    finally:
        sys.settrace(tracer)
    assert taken < _SOON_SECONDS, f"it took {taken:.1f} s"
