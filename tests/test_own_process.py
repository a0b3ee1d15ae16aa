"""What a process uses itself, against what it is made to use."""

import json
import subprocess
import sys

from tests.waiting import PATIENCE_SECONDS

from accelscope.process import own_process

OPENS_AND_STARTS = """\
import json
import os
import threading

from accelscope.process import own_process

before = own_process()
for _ in range(3):
    os.open(os.devnull, os.O_RDONLY)
ended = threading.Event()
threading.Thread(target=ended.wait).start()
during = own_process()
ended.set()
print(json.dumps([during.open_files - before.open_files, during.threads - before.threads]))
"""


def test_open_files_and_threads_are_counted() -> None:
    """In a process of its own: in this one, those of other tests come and go."""
    command = [sys.executable, "-c", OPENS_AND_STARTS]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_SECONDS).stdout
    assert json.loads(told) == [3, 1]


def test_memory_is_in_bytes_and_cpu_time_in_seconds() -> None:
    used = own_process()
    assert used.memory_bytes is not None
    assert 2**22 < used.memory_bytes < 2**35
    assert 0 < used.cpu_seconds < 100_000
