"""A fleet of ten thousand nodes: refreshing it, and asking it meanwhile."""

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.children import Workshop
from bench.contracts import Contract, Outcome, Verdict
from bench.fleet_process import CLUSTER_NODES, KIND, REFRESH_SECONDS, Fleet, Stream, fleet_of
from bench.fleet_questions import QUESTIONS, Answers, ask_until
from bench.fleet_troubles import trouble_clusters
from bench.scraper import percentile
from bench.tables import Table, mib, ms

_PROMISED_NODES = 10_000
# By itself it refreshes once, at its start: those that are measured are asked for.
_SETTINGS = ("--refresh-interval", "1h")


@dataclass(frozen=True, slots=True)
class Measured:
    nodes: int
    first_seconds: float
    refreshes: Sequence[float]
    changed_ratio: float  # of the nodes, at each of them
    refresh_cpu: float  # of the fleet's process, for one refresh
    simulator_cpu: float
    answers: Answers
    stream: Sequence[float]
    rss_bytes: int

    @property
    def refresh(self) -> float:
        return statistics.median(self.refreshes)


def read_fleets(workshop: Workshop) -> Outcome:
    steps = [_measure(workshop, nodes) for nodes in workshop.effort.fleet_nodes]
    table = Table(
        f"Fleet: {KIND} nodes in clusters of {CLUSTER_NODES}, one simulator process",
        (
            "nodes",
            "first read s",
            "refresh s",
            "changed",
            "fleet CPU s",
            "simulator CPU s",
            *(f"{name} ms {share}" for name in QUESTIONS for share in ("p50", "p99")),
            "stream ms p50",
            "p99",
            "RSS MiB",
        ),
    )
    for one in steps:
        table.add(
            str(one.nodes),
            f"{one.first_seconds:.2f}",
            f"{one.refresh:.2f}",
            f"{one.changed_ratio:.0%}",
            f"{one.refresh_cpu:.2f}",
            f"{one.simulator_cpu:.2f}",
            *(ms(percentile(one.answers[name], share)) for name in QUESTIONS for share in (0.5, 0.99)),
            ms(percentile(list(one.stream), 0.5)),
            ms(percentile(list(one.stream), 0.99)),
            mib(one.rss_bytes),
        )
    table.notes = (
        "With the settings that the fleet has by itself: of each cluster 64 agents are asked at a time "
        "and 500 each second, so that 1,000 nodes take two seconds however fast they are. First read: from "
        "the start of the process until every node was read, all of it new. Refresh: the median of refreshes "
        "of all clusters at once, one after the other; CPU is for one of them with all that is asked "
        "meanwhile. Questions and stream: while refreshes go on; the stream's figure is from when a change "
        "was told to when it came.",
    )
    return Outcome([table, trouble_clusters(workshop)], _verdicts(steps[-1]))


def _verdicts(largest: Measured) -> dict[Contract, Verdict]:
    if largest.nodes < _PROMISED_NODES:  # a quick run says nothing about what was promised
        return {}
    worst = max(percentile(values, 0.99) for values in largest.answers.values())
    at = f"at {largest.nodes} nodes"
    return {
        Contract.FLEET_CPU: (
            f"{largest.refresh_cpu:.2f} s {at}",
            largest.refresh_cpu <= 10,
            largest.refresh_cpu <= 5,
        ),
        Contract.FLEET_REFRESH: (
            f"{largest.refresh:.2f} s {at}",
            largest.refresh <= 20,
            largest.refresh <= 10,
        ),
        Contract.FLEET_MEMORY: (
            f"{mib(largest.rss_bytes)} MiB {at}",
            largest.rss_bytes <= 1 << 30,
            largest.rss_bytes <= 1 << 30,
        ),
        Contract.FLEET_ANSWERS: (f"{ms(worst)} ms {at}", worst <= 0.1, worst <= 0.02),
    }


def _measure(workshop: Workshop, nodes: int) -> Measured:
    clusters = max(1, nodes // CLUSTER_NODES)
    with fleet_of(workshop, nodes, clusters=clusters, settings=_SETTINGS) as fleet:
        time.sleep(REFRESH_SECONDS)  # what the first reading left to do
        before = fleet.reader.cpu_seconds(), fleet.simulator.cpu_seconds(), fleet.generation()
        refreshes: list[float] = []
        done = threading.Event()
        asking = threading.Thread(target=_refresh, args=(fleet, workshop, refreshes, done), daemon=True)
        with Stream(fleet.port) as stream:
            asking.start()
            answers = ask_until(fleet.port, done)
            asking.join()
        count = max(1, len(refreshes))
        return Measured(
            nodes=nodes,
            first_seconds=fleet.first_seconds,
            refreshes=refreshes,
            changed_ratio=(fleet.generation() - before[2]) / count / nodes,
            refresh_cpu=(fleet.reader.cpu_seconds() - before[0]) / count,
            simulator_cpu=(fleet.simulator.cpu_seconds() - before[1]) / count,
            answers=answers,
            stream=stream.late_seconds or [0.0],
            rss_bytes=fleet.reader.rss_bytes(),
        )


def _refresh(fleet: Fleet, workshop: Workshop, taken: list[float], done: threading.Event) -> None:
    """One after the other, so far apart that the agents have news in the meantime."""
    try:
        for _ in range(workshop.effort.fleet_refreshes):
            taken.append(fleet.refresh())
            time.sleep(max(0.0, REFRESH_SECONDS - taken[-1]))
    finally:
        done.set()
