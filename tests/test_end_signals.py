"""Told to end, whichever thread hears of it and whenever."""

import subprocess
import sys

import pytest
from tests.waiting import PATIENCE_SECONDS

BY_ANOTHER_THREAD = """
import signal, threading, time
from accelscope.process import EndSignals
asked = EndSignals()
def told():
    time.sleep({after})
    signal.pthread_kill(threading.get_ident(), signal.{name})
    time.sleep(600)
threading.Thread(target=told, daemon=True).start()
time.sleep({waits_after})
print(asked.wait())
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(("after", "waits_after"), [(0.5, 0), (0, 0.5)], ids=["while it waits", "before"])
def test_it_is_heard(name: str, after: float, waits_after: float) -> None:
    script = BY_ANOTHER_THREAD.format(name=name, after=after, waits_after=waits_after)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert done.stdout == f"{name}\n"
