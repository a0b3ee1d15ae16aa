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
    turns: int  # of each exporter in each scene
    turn_scrapes: int  # in a turn, per way of connecting
    turn_seconds: float  # after which no more scrapes are begun, per way of connecting
    turn_collections: int  # while nobody scrapes
    scene_devices: int  # of the scene with many
    scene_processes: int  # of the scene with many
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
    turns=2,
    turn_scrapes=400,
    turn_seconds=3,
    turn_collections=3,
    scene_devices=64,
    scene_processes=5000,
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
    turn_scrapes=30,
    turn_seconds=0.7,
    turn_collections=1,
    scene_devices=16,
    scene_processes=300,
    devices=(1, 8),
    processes=(10, 300, 1000),
    fleet_nodes=(100, 1000),
    fleet_refreshes=2,
)
