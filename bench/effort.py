"""How long to measure: the usual run takes some minutes, the quick one less than one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    scrapes: int  # per exporter and way of connecting
    rounds: int  # in which the exporters take turns
    idle_seconds: float  # during which nobody scrapes; the agent collects every 10
    first_scrapes: int  # each the first of a new page
    collections: int  # over which CPU time is averaged
    starts: int
    renderings: int
    repeats: int  # of a whole measurement, of which the median counts
    devices: tuple[int, ...]  # steps of growth
    processes: tuple[int, ...]  # steps of growth
    fleet_nodes: tuple[int, ...]  # steps of growth
    fleet_refreshes: int


USUAL = Effort(
    scrapes=1000,
    rounds=4,
    idle_seconds=20,
    first_scrapes=40,
    collections=40,
    starts=7,
    renderings=60,
    repeats=3,
    devices=(1, 8, 64),
    processes=(10, 100, 1000, 5000),
    fleet_nodes=(100, 1000, 10_000),
    fleet_refreshes=6,
)
QUICK = Effort(
    scrapes=100,
    rounds=1,
    idle_seconds=3,
    first_scrapes=5,
    collections=12,
    starts=3,
    renderings=15,
    repeats=1,
    devices=(1, 8),
    processes=(10, 300, 1000),
    fleet_nodes=(100, 1000),
    fleet_refreshes=2,
)
