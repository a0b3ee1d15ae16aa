"""History from stores: on one grid, added up over clusters, and absent if a store fails."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from tests.fleet.api_server.served import Handler, served
from tests.fleet.loop import run

import accelscope.fleet.sources.prometheus.stored_history as history_module
from accelscope.fleet.clusters import ClusterEntry, PrometheusEntry
from accelscope.fleet.history_rings import (
    DEVICE_FIELDS,
    POD_FIELDS,
    SUMMARY_FIELDS,
    HistoryScope,
    HistorySeries,
)
from accelscope.fleet.sources.prometheus import StoredHistory
from accelscope.fleet.sources.prometheus.stored_history import TimeGrid
from accelscope.fleet.sources.round import LoopThrottle

START = 1_800_000_000.0
NODES = {"a:9400": "n1", "b:9400": "n2"}


def store(value: float, *, devices: int = 2) -> Handler:
    """Returns the same value for every range query, except for counts, with a gap at the second point."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        query = form["query"]
        if "start" not in form:
            return answer(
                "vector", [{"metric": labels(name), "value": [START, str(START)]} for name in NODES]
            )
        counted = re.match(r"(count|sum)\(", query) is not None and "watts" not in query
        shown = str(devices if counted else value)
        start, step = float(form["start"]), float(form["step"])
        moments = [start + step * place for place in range(3) if place != 1]
        values = [[moment, shown] for moment in moments if moment <= float(form["end"])]
        if "instance=~" in query:
            named = [{**labels(name), "device": "d"} for name in NODES]
            return answer("matrix", [{"metric": metric, "values": values} for metric in named])
        return answer("matrix", [{"metric": {}, "values": values}])

    return handler


def labels(instance: str) -> dict[str, str]:
    return {"job": "j", "instance": instance, "node": NODES[instance]}


def answer(kind: str, result: object) -> web.Response:
    return web.json_response({"status": "success", "data": {"resultType": kind, "result": result}})


@asynccontextmanager
async def history_of(**clusters: Handler | None) -> AsyncIterator[StoredHistory]:
    async with AsyncExitStack() as stack:
        entries = []
        for name, handler in clusters.items():
            url = None if handler is None else (await stack.enter_async_context(served(handler))).url
            entries.append(
                ClusterEntry(id=name, prometheus=None if url is None else PrometheusEntry(url=url))
            )
        history = StoredHistory(loop_throttle=LoopThrottle())
        await history.declare(entries)
        try:
            yield history
        finally:
            await history.close()


async def read_series(
    history: StoredHistory, scope: HistoryScope, key: str | None, **place: str
) -> HistorySeries | None:
    return await history.series(scope, key, since=START, until=START + 120, **place)


@pytest.mark.parametrize(
    ("since", "until", "start", "step", "points"),
    [
        (START, START + 120, START, 60, 3),
        (START + 1, START + 119, START + 60, 60, 1),
        (START, START + 86400, START, 60, 1441),
        (START, START + 86401, START, 120, 721),
        (START + 1, START + 2, START + 60, 60, 0),
    ],
)
def test_points_of_a_grid_are_whole_minutes_and_limited(
    since: float, until: float, start: float, step: float, points: int
) -> None:
    grid = TimeGrid(since, until)
    assert (grid.start, grid.step, grid.points) == (start, step, points)


@pytest.mark.parametrize(
    ("scope", "key", "place", "fields"),
    [
        ("cluster", "berlin", {}, SUMMARY_FIELDS),
        ("device", "d", {"cluster": "berlin", "node": "n1"}, DEVICE_FIELDS),
        ("pod", "p", {"cluster": "berlin", "namespace": "ml"}, POD_FIELDS),
    ],
)
def test_history_of_one_cluster_needs_only_its_store(
    scope: HistoryScope, key: str, place: dict[str, str], fields: tuple[str, ...]
) -> None:
    """Other clusters may have no store, or one that fails."""

    async def read() -> HistorySeries | None:
        async with history_of(berlin=store(10.0), oslo=None, rome=lambda _: no_response()) as history:
            return await read_series(history, scope, key, **place)

    series = run(read())
    assert series is not None
    assert (series.scope, series.key, series.source) == (scope, key, "prometheus")
    assert (series.start, series.step_seconds) == (START, 60)
    assert set(series.fields) == set(fields)
    assert all(
        len(values) == 3 and values[1] is None and values[0] is not None for values in series.fields.values()
    )


@pytest.mark.parametrize(
    ("scope", "key", "place"),
    [
        ("cluster", "berlin", {}),
        ("device", "d", {"cluster": "berlin", "node": "n1"}),
        ("pod", "p", {"cluster": "berlin", "namespace": "ml"}),
    ],
)
def test_a_store_without_data_returns_none(scope: HistoryScope, key: str, place: dict[str, str]) -> None:
    """The API then returns the minutes in memory instead of a series of gaps."""

    async def without_data(_: web.BaseRequest) -> web.StreamResponse:
        return answer("matrix", [])

    async def read() -> HistorySeries | None:
        async with history_of(berlin=without_data) as history:
            return await read_series(history, scope, key, **place)

    assert run(read()) is None


async def no_response() -> web.StreamResponse:
    return web.Response(status=500)


async def hang(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


@pytest.mark.parametrize(
    ("scope", "key"), [("cluster", "oslo"), ("fleet", None)], ids=["its own", "a sum with it"]
)
def test_a_store_that_hangs_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, scope: HistoryScope, key: str | None
) -> None:
    """Not even for a free connection; the next query follows after a pause."""
    monkeypatch.setattr(history_module, "_ANSWER_SECONDS", 4.0)  # enough for the other store
    monkeypatch.setattr(history_module, "_PAUSE_SECONDS", 3600.0)

    async def read() -> None:
        async with served(hang) as place, served(store(10.0)) as other:
            history = StoredHistory(loop_throttle=LoopThrottle())
            slow = PrometheusEntry(url=place.url, timeout_seconds=3600.0)
            quick = PrometheusEntry(url=other.url)
            await history.declare(
                [ClusterEntry(id="oslo", prometheus=slow), ClusterEntry(id="berlin", prometheus=quick)]
            )
            try:
                answers = await asyncio.gather(
                    *(read_series(history, scope, key) for _ in range(9))
                )  # connections: 8
                assert answers == [None] * 9
                seen = len(place.requests)
                assert await read_series(history, scope, key) is None
                assert len(place.requests) == seen
                assert await read_series(history, "cluster", "berlin") is not None
            finally:
                await history.close()

    run(read())
    [messages] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert messages.__dict__["fields"]["cluster"] == "oslo"


def test_a_failed_store_is_tried_again_by_a_single_query(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "accelscope.fleet")
    now = 1000.0
    monkeypatch.setattr(history_module, "time", SimpleNamespace(monotonic=lambda: now))
    well = False

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return await (store(10.0)(request) if well else no_response())

    async def read() -> None:
        nonlocal now, well
        async with history_of(berlin=handler) as history:
            assert await read_series(history, "cluster", "berlin") is None
            now += 31
            assert await read_series(history, "cluster", "berlin") is None
            well = True
            assert await read_series(history, "cluster", "berlin") is None
            now += 31
            tried = await asyncio.gather(*(read_series(history, "cluster", "berlin") for _ in range(3)))
            assert [series is None for series in tried] == [False, True, True]
            assert await read_series(history, "cluster", "berlin") is not None

    run(read())
    messages = [record.getMessage() for record in caplog.records if record.name == history_module.__name__]
    assert messages == ["history query failed", "history queries work again"]


@pytest.mark.parametrize("status", [400, 422])
async def test_a_rejected_query_does_not_affect_the_next(status: int) -> None:
    long = store(10.0)

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        form = parse_qs((await request.read()).decode())
        many = float(form["end"][0]) - float(form["start"][0]) > 3600
        return web.Response(status=status) if many else await long(request)

    async with history_of(berlin=handler) as history:
        assert await history.series("cluster", "berlin", since=START - 86400, until=START) is None
        assert await read_series(history, "cluster", "berlin") is not None


@pytest.mark.parametrize("scope", ["fleet", "vendor", "model", "namespace"])
def test_sums_are_over_all_clusters(scope: HistoryScope) -> None:
    async def read() -> HistorySeries | None:
        async with history_of(berlin=store(10.0), oslo=store(30.0, devices=6)) as history:
            return await read_series(history, scope, None if scope == "fleet" else "x")

    series = run(read())
    assert series is not None
    first = {field: values[0] for field, values in series.fields.items()}
    assert first["devices"] == 8
    assert first["power_watts"] == 40
    assert first["temperature_max_celsius"] == 30
    assert first["utilization_ratio"] == pytest.approx(1.0)  # sum and count are both the number of devices


@pytest.mark.parametrize(
    "others", [{"oslo": None}, {"oslo": lambda _: no_response()}], ids=["no store", "a store that fails"]
)
def test_there_is_no_sum_if_a_cluster_is_missing(others: dict[str, Handler | None]) -> None:
    async def read() -> HistorySeries | None:
        async with history_of(berlin=store(10.0), **others) as history:
            return await read_series(history, "fleet", None)

    assert run(read()) is None


async def test_a_removed_or_changed_cluster_is_not_queried() -> None:
    async with history_of(berlin=store(10.0)) as history:
        assert await read_series(history, "cluster", "berlin") is not None
        await history.declare([ClusterEntry(id="berlin")])
        assert await read_series(history, "cluster", "berlin") is None
        assert await read_series(history, "fleet", None) is None


def test_devices_of_clusters_that_respond_are_returned() -> None:
    async def read() -> list[HistorySeries]:
        async with history_of(berlin=store(10.0), oslo=lambda _: no_response()) as history:
            return await history.devices(START, START + 120)

    found = run(read())
    assert {(series.cluster, series.node, series.key) for series in found} == {
        ("berlin", "n1", "d"),
        ("berlin", "n2", "d"),
    }
    assert all(series.fields.keys() == set(DEVICE_FIELDS) for series in found)
    assert found[0].fields["power_watts"] == [10.0, None, 10.0]


def test_devices_of_a_store_that_hangs_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "_DEVICES_SECONDS", 4.0)

    async def read() -> list[HistorySeries]:
        async with served(hang) as slow, served(store(10.0)) as quick:
            history = StoredHistory(loop_throttle=LoopThrottle())
            entries = {
                "oslo": PrometheusEntry(url=slow.url, timeout_seconds=3600.0),
                "berlin": PrometheusEntry(url=quick.url),
            }
            await history.declare([ClusterEntry(id=id_, prometheus=entry) for id_, entry in entries.items()])
            try:
                return await history.devices(START, START + 120)
            finally:
                await history.close()

    assert {series.cluster for series in run(read())} == {"berlin"}
