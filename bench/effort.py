"""How long to measure: the usual run takes about 25 minutes, the quick one a few."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    scrapes: int  # per exporter and way of connecting
    rounds: int  # in which the exporters take turns
    idle_seconds: float  # during which nobody scrapes; the agent collects every 10
    first_scrapes: int  # of the agent with a large page, each the first of a new page
    collections: int  # over which CPU time is averaged
    starts: int
    renderings: int
    repeats: int  # of a whole measurement, of which the median counts
    turns: int  # of each exporter in a scene whose collections are made every second
    turn_collections: int  # in a turn, while nobody scrapes
    turn_first_scrapes: int  # in a turn, each the first of a new page
    turn_intervals: float  # of collections, during which scrapes follow one another
    turn_pauses: int  # between these, at least
    scene_devices: int  # of the scene with many
    scene_processes: int  # of the scene with many
    scene_interval_seconds: int  # of collections in that scene; some exporters need half of it
    devices: tuple[int, ...]  # steps of growth
    processes: tuple[int, ...]  # steps of growth
    fleet_nodes: tuple[int, ...]  # steps of growth
    fleet_refreshes: int

    def turns_with(self, interval_seconds: int) -> int:
        """Where collections are further apart a turn is longer, and there are fewer."""
        return max(1, self.turns // interval_seconds)


USUAL = Effort(
    scrapes=1000,
    rounds=4,
    idle_seconds=20,
    first_scrapes=80,
    collections=40,
    starts=7,
    renderings=60,
    repeats=3,
    turns=2,
    turn_collections=2,
    turn_first_scrapes=4,
    turn_intervals=2,
    turn_pauses=40,
    scene_devices=64,
    scene_processes=5000,
    scene_interval_seconds=4,
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
    turns=1,
    turn_collections=1,
    turn_first_scrapes=2,
    turn_intervals=0.7,
    turn_pauses=8,
    scene_devices=16,
    scene_processes=300,
    scene_interval_seconds=2,
    devices=(1, 8),
    processes=(10, 300, 1000),
    fleet_nodes=(100, 1000),
    fleet_refreshes=2,
)
