"""The cost of history and trends at 10,000 nodes x 8 devices, each with a pod. Not a test: it prints figures.

    python -m tests.fleet.history.measure [nodes]

Prints for each step the longest time without yielding to the loop, in processor time. Trends are complete
after 101 minutes, and then fit a tenth of the nodes per minute.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tests.fleet.store.measure import CLUSTERS, STARTED, node_name, node_snapshot, resident_mib

from accelscope.fleet.history import FleetHistory
from accelscope.fleet.history_rings import SummaryScope
from accelscope.fleet.rows import ClusterView, NodeReport, SourceKind
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.trends import Trends

TRENDS_MINUTES = 125


def filled_store(nodes: int) -> FleetStore:
    chance = random.Random(1)
    store = FleetStore(clock=lambda: STARTED)
    store.declare([ClusterView(id=f"cluster-{number:02d}", reachable=True) for number in range(CLUSTERS)])
    for number in range(nodes):
        store.take(
            f"cluster-{number % CLUSTERS:02d}",
            NodeReport(
                node=node_name(number),
                source=SourceKind.AGENTS,
                taken_at=STARTED,
                snapshot=node_snapshot(number, chance),
                document=b"x",
            ),
        )
    return store


def stretches(work: Coroutine[Any, Any, None]) -> tuple[float, float]:
    """The longest stretch and the total, in seconds."""
    longest = total = 0.0
    while True:
        start = time.thread_time()
        try:
            work.send(None)
        except StopIteration:
            break
        finally:
            taken = time.thread_time() - start
            longest, total = max(longest, taken), total + taken
    return longest, total


def print_time(what: str, longest: float, total: float) -> None:
    print(f"{what:40} longest {longest * 1e3:6.1f} ms, all {total * 1e3:7.1f} ms")


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    store = filled_store(nodes)
    print(f"{len(store.devices)} devices, {len(store.pods)} pods, {resident_mib():.0f} MiB")
    history = FleetHistory()
    for minute in range(4):
        print_time(f"record, minute {minute + 1}", *stretches(history.record(store, STARTED + 60 * minute)))
    print(f"{resident_mib():.0f} MiB")
    trends = Trends(history)
    times = []
    for minute in range(4, 4 + TRENDS_MINUTES):
        stretches(history.record(store, STARTED + 60 * minute))
        times.append(stretches(trends.update(store)))
    print_time("trends, minute 1", *times[0])
    print_time("trends, minute 2", *times[1])
    newest = times[-20:]
    mean = sum(total for _, total in newest) / len(newest)
    print_time("trends, last 20 minutes (mean)", max(longest for longest, _ in newest), mean)
    print_time("trends, last 20 minutes (highest)", *max(newest, key=lambda each: each[1]))
    print(f"{resident_mib():.0f} MiB")
    scopes: tuple[tuple[SummaryScope, str | None], ...]
    scopes = ("fleet", None), ("cluster", "cluster-03"), ("namespace", "team-7")
    for scope, key in scopes:
        start = time.thread_time()
        history.summary(scope, key, 0, STARTED + 3600)
        print_time(f"summary of {scope} {key or ''}", time.thread_time() - start, time.thread_time() - start)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history"
        start = time.perf_counter()
        asyncio.run(history.save(path))
        print(f"saved {path.stat().st_size / 2**20:.0f} MiB in {time.perf_counter() - start:.1f} s")
        start = time.perf_counter()
        again = FleetHistory()
        again.load(path)
        print(f"loaded in {time.perf_counter() - start:.1f} s: {len(again.devices)} devices")


if __name__ == "__main__":
    main()
