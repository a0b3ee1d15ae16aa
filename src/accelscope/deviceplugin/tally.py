"""What the plugin counts of itself; threads of the kubelet's calls and of the loop write here."""

import threading
import time
from collections import Counter
from collections.abc import Callable

from accelscope.model import Counted


class Tally:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._counts: Counter[tuple[str, str]] = Counter()
        self._streams: dict[object, float] = {}  # token -> since when
        self._last_listened: float | None = None

    def count(self, what: str, reason: str = "") -> None:
        with self._lock:
            self._counts[what, reason] += 1

    def total(self, what: str) -> int:
        with self._lock:
            return sum(count for (name, _), count in self._counts.items() if name == what)

    def by_reason(self, what: str) -> tuple[Counted, ...]:
        with self._lock:
            found = sorted((reason, count) for (name, reason), count in self._counts.items() if name == what)
        return tuple(Counted(reason, count) for reason, count in found)

    def stream_began(self, most: int) -> object | None:
        """A token to end it with; None: there are as many as there may be."""
        with self._lock:
            if len(self._streams) >= most:
                return None
            token = object()
            self._streams[token] = self._clock()
            return token

    def stream_ended(self, token: object) -> None:
        with self._lock:
            if self._streams.pop(token, None) is not None:
                self._last_listened = self._clock()

    @property
    def listening(self) -> bool:
        with self._lock:
            return bool(self._streams)

    @property
    def stream_seconds(self) -> float | None:
        """How long the kubelet has been listening without a break."""
        with self._lock:
            return None if not self._streams else self._clock() - min(self._streams.values())

    @property
    def since_listened_seconds(self) -> float | None:
        """0 while the kubelet listens; None: it never did."""
        with self._lock:
            if self._streams:
                return 0.0
            return None if self._last_listened is None else self._clock() - self._last_listened
