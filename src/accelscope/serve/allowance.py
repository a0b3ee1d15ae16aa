"""How often something may be done: so many times at once, and then so many times a second."""


class Allowance:
    """Instants are seconds of the caller's clock, from any beginning."""

    __slots__ = ("_at", "_burst", "_left", "_per_second")

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = float(burst)
        self._at = float("-inf")  # when so much was left

    def take(self, now: float) -> float:
        """0: it may be done now. Otherwise it may not, and in how many seconds it may."""
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._per_second
        self._left -= 1
        return 0.0


class PeerAllowances:
    """The same for each address by itself. Of those that were not heard of for longest it forgets some when
    there are too many: whoever has so many addresses must be bounded otherwise."""

    def __init__(self, per_second: float, burst: int, *, peers_limit: int = 1024) -> None:
        self._per_second = per_second
        self._burst = burst
        self._peers_limit = peers_limit
        self._peers: dict[str, Allowance] = {}  # the last to ask stands last

    def take(self, peer: str, now: float) -> float:
        allowance = self._peers.pop(peer, None) or Allowance(self._per_second, self._burst)
        self._peers[peer] = allowance
        if len(self._peers) > self._peers_limit:
            del self._peers[next(iter(self._peers))]
        return allowance.take(now)
