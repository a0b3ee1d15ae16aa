"""What this process uses itself: CPU, memory, threads, files."""

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SELF = Path("/proc/self")  # its own, whatever the setting for the node's /proc says


@dataclass(frozen=True, slots=True)
class OwnProcess:
    cpu_seconds: float  # with those of its children that have ended
    memory_bytes: int | None  # resident
    threads: int
    open_files: int | None


def own_process() -> OwnProcess:
    times = os.times()
    cpu = times.user + times.system + times.children_user + times.children_system
    return OwnProcess(round(cpu, 3), _resident_bytes(), threading.active_count(), _open_files())


def _resident_bytes() -> int | None:
    try:
        return int((_SELF / "statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return None


def _open_files() -> int | None:
    try:
        return sum(1 for _ in (_SELF / "fd").iterdir()) - 1  # without the one that lists them
    except OSError:
        return None


# --- end signals ------------------------------------------------------------
# Waiting to be told to end.


_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class EndSignals:
    """The interpreter's own C handler writes the signal's number to the pipe, whichever thread it reached,
    and whenever: a Python handler would have to wait until the main thread runs, which it may never do while
    that waits for an event."""

    def __init__(self) -> None:
        self._read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in _NUMBERS:
            signal.signal(number, lambda *_: None)

    def wait(self) -> str:
        """The signal's name."""
        while True:
            number = os.read(self._read, 1)[0]
            if number in _NUMBERS:
                return signal.Signals(number).name
