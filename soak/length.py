"""How long a soak is."""

from dataclasses import dataclass

PODS_PER_STEP = 10
PROCESSES_PER_POD = 10
SCRAPES_PER_STEP = 100


@dataclass(frozen=True, slots=True)
class Length:
    """At each step the node moves on: so many pods come, and those of two steps before go."""

    steps: int
    periods: int  # rows of the table
    rss_tolerance_bytes: int  # by which memory may be said to grow over the whole and still be called flat

    @property
    def pods(self) -> int:
        return self.steps * PODS_PER_STEP

    @property
    def processes(self) -> int:
        return self.pods * PROCESSES_PER_POD

    @property
    def scrapes(self) -> int:
        return self.steps * SCRAPES_PER_STEP


DAY = Length(steps=1000, periods=24, rss_tolerance_bytes=1 << 20)
# Too short to tell a leak from an allocator that has not found its size yet.
SHORT = Length(steps=40, periods=8, rss_tolerance_bytes=6 << 20)
