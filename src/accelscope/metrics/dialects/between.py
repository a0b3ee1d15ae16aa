"""Values of other exporters that compare a reading with those before it."""

from collections import deque
from collections.abc import Mapping


class Rates:
    """How fast a total grew between the last two readings of a device."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float, float | None]] = {}  # read at, total, rate then

    def per_second(self, key: str, read_at: float | None, total: float | None) -> float | None:
        """None at the first reading, and where the total went back: a driver was loaded anew."""
        if read_at is None or total is None:
            self._before.pop(key, None)
            return None
        before = self._before.get(key)
        if before is not None and before[0] == read_at:
            return before[2]
        rate = None
        if before is not None and read_at > before[0] and total >= before[1]:
            rate = (total - before[1]) / (read_at - before[0])
        self._before[key] = (read_at, total, rate)
        return rate


class Changes:
    """How often each of a device's states changed within a window of time."""

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._before: dict[str, Mapping[str, bool]] = {}
        self._seen: dict[str, deque[tuple[float, str]]] = {}

    def counts(self, key: str, read_at: float | None, states: Mapping[str, bool]) -> dict[str, int]:
        if read_at is None:
            return {}
        before = self._before.get(key, states)
        self._before[key] = states
        seen = self._seen.setdefault(key, deque())
        seen.extend((read_at, name) for name, state in states.items() if before.get(name, state) != state)
        while seen and seen[0][0] <= read_at - self._window:
            seen.popleft()
        counted = [name for _, name in seen]
        return {name: counted.count(name) for name in states}
