"""Clusters that hang, lie, flood or dawdle: what that costs the good ones beside them, and the process."""

import threading
import time
from dataclasses import dataclass

from bench.children import Workshop
from bench.fleet_process import Fleet, fleet_of
from bench.fleet_questions import ask_until
from bench.scraper import percentile
from bench.tables import Table, mib, ms

_CLUSTERS = 8
_NODES = 100  # of each
_ROUND_SECONDS = 5
_PACE_SECONDS = 1.0  # between refreshes of the good ones
_TROUBLES = ("api_hang", "api_garbage", "api_flood", "api_slow")  # each of one cluster


@dataclass(frozen=True, slots=True)
class _Seen:
    refreshes: list[float]  # of the good clusters
    answers: list[float]
    rss_bytes: int  # the most
    cpu_ratio: float  # of one core


def trouble_clusters(workshop: Workshop) -> Table:
    settings = ("--refresh-interval", f"{_ROUND_SECONDS}s")
    with fleet_of(workshop, _CLUSTERS * _NODES, clusters=_CLUSTERS, settings=settings) as fleet:
        good = fleet.clusters[len(_TROUBLES) :]
        seconds = workshop.effort.fleet_refreshes * _ROUND_SECONDS
        without = _watch(fleet, good, seconds)
        for kind, cluster in zip(_TROUBLES, fleet.clusters, strict=False):
            fleet.trouble(kind, "--cluster", cluster)
        time.sleep(_ROUND_SECONDS)
        troubled = _watch(fleet, good, seconds)
    table = Table(
        f"Fleet: {len(_TROUBLES)} of {_CLUSTERS} clusters of {_NODES} nodes hang, lie, flood and dawdle",
        (
            "clusters",
            "refresh of a good one s p50",
            "p99",
            "answers ms p50",
            "p99",
            "CPU of a core",
            "most RSS MiB",
        ),
    )
    for name, seen in (("all are good", without), ("half are bad", troubled)):
        table.add(
            name,
            f"{percentile(seen.refreshes, 0.5):.2f}",
            f"{percentile(seen.refreshes, 0.99):.2f}",
            ms(percentile(seen.answers, 0.5)),
            ms(percentile(seen.answers, 0.99)),
            f"{seen.cpu_ratio:.0%}",
            mib(seen.rss_bytes),
        )
    table.notes = (
        "One API server takes requests and never answers, one answers with what means nothing, one with what "
        "does not end, one after five seconds. The good ones are read anew one after the other; answers are "
        "those of the table above.",
    )
    return table


def _watch(fleet: Fleet, good: tuple[str, ...], seconds: float) -> _Seen:
    refreshes: list[float] = []
    most = 0
    done = threading.Event()

    def refresh() -> None:
        nonlocal most
        end = time.perf_counter() + seconds
        try:
            while time.perf_counter() < end:
                refreshes.extend(fleet.refresh([cluster]) for cluster in good)
                most = max(most, fleet.reader.rss_bytes())
                time.sleep(_PACE_SECONDS)
        finally:
            done.set()

    started, cpu = time.perf_counter(), fleet.reader.cpu_seconds()
    refreshing = threading.Thread(target=refresh, daemon=True)
    refreshing.start()
    answers = ask_until(fleet.port, done)
    refreshing.join()
    spent = fleet.reader.cpu_seconds() - cpu
    return _Seen(
        refreshes=refreshes,
        answers=[taken for every in answers.values() for taken in every],
        rss_bytes=most,
        cpu_ratio=spent / (time.perf_counter() - started),
    )
