"""Waiting to be told to end."""

import os
import signal

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
