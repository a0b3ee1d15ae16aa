"""How long a soak is."""

from dataclasses import dataclass

PODS_PER_STEP = 10
PROCESSES_PER_POD = 10
STEPS_OF_LIFE = 2  # of a pod
PODS_AT_ONCE = PODS_PER_STEP * STEPS_OF_LIFE
PROCESSES_AT_ONCE = PODS_AT_ONCE * PROCESSES_PER_POD
SCRAPES_PER_STEP = 100


@dataclass(frozen=True, slots=True)
class Length:
    """At each step the node moves on: so many pods come, and as many go."""

    steps: int
    periods: int  # rows of the table
    rss_tolerance_bytes: int  # by which memory may be said to grow over the whole and still be called flat
    # By which the usual number may change by chance: a tenth of them is a device, which where samples are few
    # may be away in most of them.
    series_factor: float = 1.02
    last_share: float = 0.25  # of the samples, in which what a trouble hid must be seen again

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
# Too short to tell a small leak from an allocator that has not found its size yet: an agent that is well
# grows by two and a half MiB, one that keeps 1 KiB of each process by five to seven.
SHORT = Length(steps=40, periods=8, rss_tolerance_bytes=4 << 20, series_factor=1.1, last_share=0.5)
