"""What a process uses itself, against what it is made to use."""

import threading
from contextlib import ExitStack
from pathlib import Path

from accelscope.own_process import own_process


def test_open_files_and_threads_are_counted() -> None:
    before = own_process()
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(Path(__file__).open())
        thread.start()
        during = own_process()
        ended.set()
    thread.join()
    assert before.open_files is not None
    assert during.open_files == before.open_files + 3
    assert during.threads == before.threads + 1


def test_memory_is_in_bytes_and_cpu_time_in_seconds() -> None:
    used = own_process()
    assert used.memory_bytes is not None
    assert 2**22 < used.memory_bytes < 2**35
    assert 0 < used.cpu_seconds < 100_000
