"""One exporter's turn on a node: it is started, left alone, scraped and ended, while no other one runs."""

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.children import Child, free_port, running
from bench.effort import Effort
from bench.idling import watch
from bench.scenes import Scene
from bench.scraper import ScrapeFailed, Scraper, percentile, series_of

_FEWEST_SCRAPES = 5
_LONGEST_TROUBLE = 160  # characters
_PACED_SHARE = 10  # of the scrapes, where there is a pause between them


@dataclass(slots=True)
class Exporter:
    """What is measured, and what was; seconds and bytes."""

    name: str
    start: Callable[[int], Child]  # with the port that it serves
    shows: bytes  # what stands in its page once it has read a device
    ours: bool = False
    reads_devices: bool = True
    on_scrape: bool = False  # so that it has no collections of its own
    turns: list["Turn"] = field(default_factory=list)
    trouble: str = ""  # why there is no turn

    def typical(self, figure: Callable[["Turn"], float]) -> float:
        """The median of the turns: a moment in which the machine was busy is one turn's."""
        return statistics.median(map(figure, self.turns))


@dataclass(frozen=True, slots=True)
class Turn:
    started: float  # from the process's start to the first page with a device
    rss_bytes: int
    series: int
    collection_cpu: float  # per collection; 0 where collections are made on scrape
    scrape_cpu: float  # per scrape; where collections are made beside, the median, which is without them
    fresh: Sequence[float]  # scrapes on new connections
    kept: Sequence[float]  # scrapes on one connection; none where the server closes it

    def fresh_at(self, share: float) -> float:
        return percentile(list(self.fresh), share)

    def kept_at(self, share: float) -> float:
        return percentile(list(self.kept), share)


def take_turn(exporter: Exporter, scene: Scene, effort: Effort) -> None:
    """Adds a turn, or says what the trouble is. An agent that does not run is none that can be told in a
    table: raises RuntimeError."""
    port = free_port()
    with running(exporter.start(port)) as child:
        try:
            exporter.turns.append(_turn(child, exporter, port, scene, effort))
        except (OSError, RuntimeError, ScrapeFailed) as error:
            if exporter.ours:
                raise
            exporter.trouble = f"does not run here: {' '.join(str(error).split())[:_LONGEST_TROUBLE]}"


def _turn(child: Child, exporter: Exporter, port: int, scene: Scene, effort: Effort) -> Turn:
    plain = Scraper(port, compressed=False)
    started = child.wait_for_page(plain, exporter.shows)
    time.sleep(scene.interval_seconds)  # what is asked once has been asked
    collection_cpu = watch(child, scene.interval_seconds, effort.turn_collections)
    fresh, costs = _scrapes(Scraper(port), child, scene, effort)
    kept: list[float] = []
    with Scraper(port) as keeping:
        if keeping.scrape().kept:
            kept, _ = _scrapes(keeping, child, scene, effort)
    return Turn(
        started=started,
        rss_bytes=child.rss_bytes(),
        series=series_of(plain.scrape().body),
        collection_cpu=0.0 if exporter.on_scrape else collection_cpu,
        scrape_cpu=statistics.mean(costs) if exporter.on_scrape else statistics.median(costs),
        fresh=fresh,
        kept=kept,
    )


def _scrapes(scraper: Scraper, child: Child, scene: Scene, effort: Effort) -> tuple[list[float], list[float]]:
    """How long each took, and what CPU time went by until the next: as many as there is time for."""
    wanted = effort.turn_scrapes
    if scene.pause_seconds:
        wanted = max(_FEWEST_SCRAPES, wanted // _PACED_SHARE)
    ends = time.perf_counter() + effort.turn_seconds + wanted * scene.pause_seconds
    taken: list[float] = []
    clock = [child.cpu_seconds()]
    while len(taken) < wanted and (len(taken) < _FEWEST_SCRAPES or time.perf_counter() < ends):
        taken.append(scraper.scrape().seconds)
        time.sleep(scene.pause_seconds)
        clock.append(child.cpu_seconds())
    return taken, [after - before for before, after in itertools.pairwise(clock)]
