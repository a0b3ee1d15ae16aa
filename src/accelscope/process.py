"""CPU, memory, threads and files of this process, and the signals that end it."""

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SELF = Path("/proc/self")  # always this process, also if the setting for the node's /proc differs


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
        return sum(1 for _ in (_SELF / "fd").iterdir()) - 1  # without the descriptor of this listing
    except OSError:
        return None


# --- end signals ------------------------------------------------------------
# Waits for a signal to end.


_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class EndSignals:
    """The interpreter's C handler writes the signal's number to a pipe, in whichever thread it runs. A Python
    handler would run only in the main thread, which may be blocked while it waits for an event."""

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
