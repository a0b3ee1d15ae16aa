"""How often somebody may ask: so many times at once, and then so many times a second."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    per_second: float
    burst: int


class Allowances:
    """One for each key (a token, an address). Bounded: of too many the one that did not ask for longest is
    forgotten, which gives it no more than a full allowance back; whoever has so many keys must be bounded
    otherwise. Instants are seconds of the caller's clock, from any beginning."""

    def __init__(self, rate: Rate, *, keys_limit: int = 4096) -> None:
        self._rate = rate
        self._keys_limit = keys_limit
        self._left: dict[str, tuple[float, float]] = {}  # how much, and when; the last to ask is last

    def wait(self, key: str, now: float) -> float:
        """Seconds until one may be taken; 0: at once. Takes nothing."""
        left, _ = self._now_left(key, now)
        return 0.0 if left >= 1 else (1 - left) / self._rate.per_second

    def take(self, key: str, now: float) -> float:
        """0: taken. Otherwise nothing was, and in how many seconds it could be."""
        left, at = self._now_left(key, now)
        taken = left >= 1
        self._left.pop(key, None)
        self._left[key] = (left - 1 if taken else left, at)
        if len(self._left) > self._keys_limit:
            del self._left[next(iter(self._left))]
        return 0.0 if taken else (1 - left) / self._rate.per_second

    def _now_left(self, key: str, now: float) -> tuple[float, float]:
        """And when that is: a clock that goes back gives nothing."""
        left, at = self._left.get(key, (float(self._rate.burst), now))
        return min(self._rate.burst, left + max(0.0, now - at) * self._rate.per_second), max(at, now)
