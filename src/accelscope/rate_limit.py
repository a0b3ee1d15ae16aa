"""A token-bucket rate limiter."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    per_second: float
    burst: int


class RateLimiter:
    """One token bucket per key, such as a bearer token or an address. Times are seconds of any clock that the
    caller chooses.

    The number of keys is limited. The least recently used key is dropped first, and its next request gets a
    full bucket. The caller must limit clients that can use any number of keys.
    """

    def __init__(self, rate: Rate, *, keys_limit: int = 4096) -> None:
        self._rate = rate
        self._keys_limit = keys_limit
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens and time; least recently used first

    def wait(self, key: str, now: float) -> float:
        """Seconds until a token is available, without taking it."""
        return self._seconds(self._bucket(key, now)[0])

    def take(self, key: str, now: float) -> float:
        """Take a token if there is one and return 0, otherwise return the seconds until there is one."""
        tokens, at = self._bucket(key, now)
        self._buckets.pop(key, None)
        self._buckets[key] = (tokens - 1 if tokens >= 1 else tokens, at)
        if len(self._buckets) > self._keys_limit:
            del self._buckets[next(iter(self._buckets))]
        return self._seconds(tokens)

    def _seconds(self, tokens: float) -> float:
        return 0.0 if tokens >= 1 else (1 - tokens) / self._rate.per_second

    def _bucket(self, key: str, now: float) -> tuple[float, float]:
        """The refilled bucket. A clock that goes backwards adds no tokens."""
        tokens, at = self._buckets.get(key, (float(self._rate.burst), now))
        tokens += max(0.0, now - at) * self._rate.per_second
        return min(self._rate.burst, tokens), max(at, now)
