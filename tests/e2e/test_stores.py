"""Clusters that are known through a store alone: the same answers as from the agents themselves."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.prometheus_server import PrometheusServer
from tests.e2e.stores import thanos
from tests.e2e.stores.agent_pages import JOB, AgentPages, agent_pages
from tests.e2e.stores.program import end
from tests.e2e.stores.victoria_metrics import victoria_metrics
from tests.fleet.loop import run
from tests.fleet.sources.prometheus.nodes import CLUSTER, reports_of_agents, rows, store_of
from tests.waiting import PATIENCE_SECONDS

from accelscope.fleet.clusters import ClusterEntry, PrometheusEntry
from accelscope.fleet.history import FleetHistory
from accelscope.fleet.history_rings import HistorySeries
from accelscope.fleet.rows import DeviceRow, NodeFailure, NodeReport, NodeUpdate, PodRow, SourceOutcome
from accelscope.fleet.sources.prometheus import PrometheusSource, StoredHistory
from accelscope.fleet.sources.round import LoopThrottle
from accelscope.fleet.store.query import Condition, RowQuery
from accelscope.model import Snapshot

NODES = 6  # in each cluster, of all vendors
CLUSTERS = ("berlin", "oslo")
SCRAPE_INTERVAL_SECONDS = 3.0  # and as long for an answer: a scrape that failed takes values away


class Told(NamedTuple):
    outcome: SourceOutcome
    sayings: list[NodeUpdate]

    @property
    def reports(self) -> list[NodeReport]:
        return [saying for saying in self.sayings if isinstance(saying, NodeReport)]


@pytest.fixture(scope="module")
def pages() -> Iterator[dict[str, AgentPages]]:
    """By cluster."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(agent_pages(nodes=NODES, cluster=number, taken_at=time.time()))
            for number, name in enumerate(CLUSTERS)
        }


@pytest.fixture(scope="module")
def prometheuses(pages: Mapping[str, AgentPages], folder: Path) -> Iterator[dict[str, PrometheusServer]]:
    """One for each cluster, which it names to those outside."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                PrometheusServer(
                    folder / f"prometheus-{name}",
                    {JOB: (served.port, served.scrape_config())},
                    external_labels={"cluster": name},
                    options=thanos.PROMETHEUS_OPTIONS,
                    scrape_interval_seconds=SCRAPE_INTERVAL_SECONDS,
                )
            )
            for name, served in pages.items()
        }


async def refreshed(source: PrometheusSource) -> Told:
    sayings: list[NodeUpdate] = []
    return Told(await source.refresh(sayings.append), sayings)


async def until(refresh: Callable[[], Awaitable[Told]], fulfilled: Callable[[Told], bool]) -> Told:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fulfilled(told := await refresh()):
        assert time.monotonic() < deadline, told.outcome
        await asyncio.sleep(0.5)
    return told


async def read_anew(entry: PrometheusEntry) -> Told:
    """To a source that was told of some nodes, the others alone are news."""
    source = PrometheusSource(entry, loop_throttle=LoopThrottle())
    try:
        return await refreshed(source)
    finally:
        await source.close()


def read(url: str, **matchers: str) -> Told:
    entry = PrometheusEntry(url=url, matchers=matchers)
    whole = until(lambda: read_anew(entry), lambda told: len(told.reports) == NODES)
    return run(whole, 2 * PATIENCE_SECONDS)


def approximate(row: Mapping[str, object]) -> dict[str, object]:
    """VictoriaMetrics rounds to some 15 digits."""
    return {
        field: pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
        for field, value in row.items()
    }


def same_answers(told: Told, snapshots: Mapping[str, Snapshot]) -> None:
    taken_at = next(iter(snapshots.values())).taken_at
    assert told.outcome == SourceOutcome(up=True, expected=NODES, answered=NODES)
    assert [report.taken_at for report in told.reports] == pytest.approx([taken_at] * NODES, abs=2)
    now = taken_at + 5
    found, expected = rows(told.reports, now), rows(reports_of_agents(snapshots, taken_at), now)
    for table, wanted in expected.items():
        assert wanted
        assert [approximate(row) for row in wanted] == found[table]


def test_prometheus(prometheuses: Mapping[str, PrometheusServer], pages: Mapping[str, AgentPages]) -> None:
    same_answers(read(f"http://127.0.0.1:{prometheuses['berlin'].port}"), pages["berlin"].snapshots)


def test_the_past_in_a_store_is_the_one_that_was_seen(
    prometheuses: Mapping[str, PrometheusServer], pages: Mapping[str, AgentPages]
) -> None:
    """Of all that there is a past of. A store counts the device that does not answer, too."""
    told = read(f"http://127.0.0.1:{prometheuses['berlin'].port}")
    now = time.time()
    history, device, pod = run(_seen(told, now))
    entry = PrometheusEntry(url=f"http://127.0.0.1:{prometheuses['berlin'].port}")
    all_devices = {"devices", "devices_unhealthy", "devices_allocated"}
    asked: list[tuple[HistorySeries, set[str]]] = [
        (history.summary("fleet", None, now - 60, now + 60), all_devices),
        (history.summary("cluster", CLUSTER, now - 60, now + 60), all_devices),
        (history.summary("vendor", "amd", now - 60, now + 60), set()),
        (history.summary("model", "AMD Instinct MI300X", now - 60, now + 60), set()),
        (history.summary("namespace", pod.namespace, now - 60, now + 60), set()),
        (history.device(CLUSTER, device.node, device.id, now - 60, now + 60), set()),
        (history.pod(CLUSTER, pod.namespace, pod.pod, now - 60, now + 60), set()),
    ]
    for seen, excepted in asked:
        remembered = run(_remembered(entry, seen, now))
        assert remembered is not None
        assert remembered.fields.keys() == seen.fields.keys()
        for field in seen.fields.keys() - excepted:
            assert last(remembered, field) == pytest.approx(last(seen, field), rel=1e-3), (seen.scope, field)


def last(series: HistorySeries, field: str) -> float | None:
    return next((value for value in reversed(series.fields[field]) if value is not None), None)


async def _seen(told: Told, now: float) -> tuple[FleetHistory, DeviceRow, PodRow]:
    """By a process that was told of the nodes; a device, and a pod on several of them."""
    store = store_of(told.reports, now)
    history = FleetHistory()
    await history.record(store, now)
    [device] = store.devices.rows(
        store.devices.matching(RowQuery(where=(Condition("vendor", "=", "amd"),)))[:1], now
    )
    [pod] = store.pods.rows(store.pods.matching(RowQuery())[:1], now)
    return history, device, pod


async def _remembered(entry: PrometheusEntry, seen: HistorySeries, now: float) -> HistorySeries | None:
    past = StoredHistory(loop_throttle=LoopThrottle())
    await past.declare([ClusterEntry(id=CLUSTER, prometheus=entry)])
    try:
        # A store looks five minutes back from the next minute, too.
        return await past.series(
            seen.scope,
            seen.key,
            cluster=seen.cluster,
            node=seen.node,
            namespace=seen.namespace,
            since=now - 60,
            until=now + 60,
        )
    finally:
        await past.close()


def test_prometheus_that_keeps_its_own_labels(pages: Mapping[str, AgentPages], folder: Path) -> None:
    """Without honor_labels, workloads are under names that begin with exported_."""
    served = pages["oslo"]
    jobs = {JOB: (served.port, served.scrape_config(honor_labels=False))}
    with PrometheusServer(
        folder / "own-labels", jobs, scrape_interval_seconds=SCRAPE_INTERVAL_SECONDS
    ) as prometheus:
        same_answers(read(f"http://127.0.0.1:{prometheus.port}"), served.snapshots)


def test_victoria_metrics(pages: Mapping[str, AgentPages], folder: Path) -> None:
    """One for both clusters."""
    jobs = {}
    for name, served in pages.items():
        scrape = served.scrape_config()
        named = [{"target_label": "cluster", "replacement": name}]
        jobs[name] = {**scrape, "relabel_configs": named}
    with victoria_metrics(folder / "victoria-metrics", jobs) as url:
        for name, served in pages.items():
            same_answers(read(url, cluster=name), served.snapshots)


def test_thanos_over_two_clusters_of_which_one_goes(
    prometheuses: Mapping[str, PrometheusServer], pages: Mapping[str, AgentPages], folder: Path
) -> None:
    with ExitStack() as stack:
        sidecars = {
            name: stack.enter_context(thanos.sidecar(server, folder / f"sidecar-{name}"))
            for name, server in prometheuses.items()
        }
        url = stack.enter_context(thanos.query(list(sidecars.values()), folder / "query"))
        for name, served in pages.items():
            same_answers(read(url, cluster=name), served.snapshots)
        run(_one_goes(url, lambda: end(sidecars["oslo"].process)), 3 * PATIENCE_SECONDS)
        same_answers(read(url, cluster="berlin"), pages["berlin"].snapshots)


async def _one_goes(url: str, go: Callable[[], None]) -> None:
    """What was known of the cluster is not taken back, and what is wrong is said."""
    stays, goes = (
        PrometheusSource(PrometheusEntry(url=url, matchers={"cluster": name}), loop_throttle=LoopThrottle())
        for name in CLUSTERS
    )
    try:
        for source in (stays, goes):
            await until(partial(refreshed, source), lambda told: told.outcome.answered == NODES)
        await asyncio.to_thread(go)
        told = await until(partial(refreshed, goes), lambda told: not told.outcome.up)
        assert told.outcome.reason in ("partial", "no_series")
        assert told.outcome.text
        assert not told.reports
        assert all(isinstance(saying, NodeFailure) for saying in told.sayings)
        assert (await refreshed(stays)).outcome.answered == NODES
    finally:
        await stays.close()
        await goes.close()
