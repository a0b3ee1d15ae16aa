"""How often and how hard clusters are asked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    interval_seconds: float = 15.0  # between the beginnings of two rounds of a source
    timeout_seconds: float = 10.0  # of one request
    concurrency: int = 64  # requests to agents at a time, in each cluster
    per_second: float = 500.0  # requests to agents that begin, in each cluster

    @property
    def covered_seconds(self) -> float:
        """How long what an agent said keeps its node from being asked otherwise."""
        return max(60.0, 3 * self.interval_seconds)
