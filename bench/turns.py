"""One exporter's turn on a node: it is started, left alone, scraped and ended, while no other one runs."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.children import Child, free_port, running
from bench.effort import Effort
from bench.idling import wait_for_rest, watch
from bench.pacing import moments
from bench.scenes import Scene
from bench.scraper import ScrapeFailed, Scraper, percentile, series_of

_LONGEST_TROUBLE = 160  # characters
NEW_PAGE_INTERVALS = 1.3  # after which there has been a collection, also if it began late
_SETTLE_SECONDS = 0.02  # for what a server does after the last byte


@dataclass(slots=True)
class Exporter:
    """What is measured, and what was; seconds and bytes."""

    name: str
    start: Callable[[int], Child]  # with the port that it serves
    shows: bytes  # a part of its page once it has read a device
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
    first: Sequence[float]  # scrapes on new connections, each the first of a new page
    first_cpu: Sequence[float]  # of each of these
    fresh: Sequence[float]  # scrapes on new connections, one soon after the other
    kept: Sequence[float]  # the same on one connection; none where the server closes it

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
    first, first_cpu = _first_scrapes(port, child, scene, effort)
    fresh, kept = _scrapes(port, scene, effort)
    return Turn(
        started=started,
        rss_bytes=child.rss_bytes(),
        series=series_of(plain.scrape().body),
        collection_cpu=0.0 if exporter.on_scrape else collection_cpu,
        first=first,
        first_cpu=first_cpu,
        fresh=fresh,
        kept=kept,
    )


def _first_scrapes(port: int, child: Child, scene: Scene, effort: Effort) -> tuple[list[float], list[float]]:
    """How long each took, and its CPU time: what a server puts off until somebody asks is paid for here."""
    scraper = Scraper(port)
    taken, costs = [], []
    for _ in range(effort.turn_first_scrapes):
        time.sleep(NEW_PAGE_INTERVALS * scene.interval_seconds)
        wait_for_rest(child, scene.interval_seconds)
        before = child.cpu_seconds()
        taken.append(scraper.scrape().seconds)
        time.sleep(_SETTLE_SECONDS)
        costs.append(child.cpu_seconds() - before)
    return taken, costs


def _scrapes(port: int, scene: Scene, effort: Effort) -> tuple[list[float], list[float]]:
    """How long each took on new connections and on a kept one, in turns: neither is always the one that
    meets a new page."""
    seconds = max(effort.turn_intervals * scene.interval_seconds, effort.turn_pauses * scene.pause_seconds)
    fresh: list[float] = []
    kept: list[float] = []
    with Scraper(port) as keeping:
        keeps = keeping.scrape().kept
        for number in moments(seconds, scene.pause_seconds):
            if number % 2 == 0:
                fresh.append(Scraper(port).scrape().seconds)
            elif keeps:
                kept.append(keeping.scrape().seconds)
    return fresh, kept
