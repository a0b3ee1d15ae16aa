"""The past from stores: on one grid for all, added up over clusters, and never made up where one fails."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from tests.fleet.api_server.served import Handler, served
from tests.fleet.loop import run

from accelscope.fleet.clusters import ClusterEntry, PrometheusEntry
from accelscope.fleet.history import HistorySeries, Scope
from accelscope.fleet.history.series import DEVICE_FIELDS, POD_FIELDS, SUMMARY_FIELDS
from accelscope.fleet.sources.pace import LoopShare
from accelscope.fleet.sources.prometheus import StoredPast
from accelscope.fleet.sources.prometheus.past import Grid

START = 1_800_000_000.0
NODES = {"a:9400": "n1", "b:9400": "n2"}


def store(value: float, *, devices: int = 2) -> Handler:
    """Answers whatever is asked over time with one value but for counts, and a gap at the second moment."""

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
async def past_of(**clusters: Handler | None) -> AsyncIterator[StoredPast]:
    async with AsyncExitStack() as stack:
        entries = []
        for name, handler in clusters.items():
            url = None if handler is None else (await stack.enter_async_context(served(handler))).url
            entries.append(
                ClusterEntry(id=name, prometheus=None if url is None else PrometheusEntry(url=url))
            )
        past = StoredPast(loop_share=LoopShare())
        await past.declare(entries)
        try:
            yield past
        finally:
            await past.close()


async def asked(past: StoredPast, scope: Scope, key: str | None, **place: str) -> HistorySeries | None:
    return await past.series(scope, key, since=START, until=START + 120, **place)


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
def test_moments_are_whole_minutes_and_not_too_many(
    since: float, until: float, start: float, step: float, points: int
) -> None:
    grid = Grid(since, until)
    assert (grid.start, grid.step, grid.points) == (start, step, points)


@pytest.mark.parametrize(
    ("scope", "key", "place", "fields"),
    [
        ("cluster", "berlin", {}, SUMMARY_FIELDS),
        ("device", "d", {"cluster": "berlin", "node": "n1"}, DEVICE_FIELDS),
        ("pod", "p", {"cluster": "berlin", "namespace": "ml"}, POD_FIELDS),
    ],
)
def test_of_one_cluster(scope: Scope, key: str, place: dict[str, str], fields: tuple[str, ...]) -> None:
    """Others may have no store, or one that fails."""

    async def read() -> HistorySeries | None:
        async with past_of(berlin=store(10.0), oslo=None, rome=lambda _: no_answer()) as past:
            return await asked(past, scope, key, **place)

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
def test_a_store_that_knows_nothing_of_it_says_so(scope: Scope, key: str, place: dict[str, str]) -> None:
    """Whoever asks has the last minutes, and shows those rather than a line of gaps."""

    async def knows_nothing(_: web.BaseRequest) -> web.StreamResponse:
        return answer("matrix", [])

    async def read() -> HistorySeries | None:
        async with past_of(berlin=knows_nothing) as past:
            return await asked(past, scope, key, **place)

    assert run(read()) is None


async def no_answer() -> web.StreamResponse:
    return web.Response(status=500)


@pytest.mark.parametrize("scope", ["fleet", "vendor", "model", "namespace"])
def test_sums_are_over_all_clusters(scope: Scope) -> None:
    async def read() -> HistorySeries | None:
        async with past_of(berlin=store(10.0), oslo=store(30.0, devices=6)) as past:
            return await asked(past, scope, None if scope == "fleet" else "x")

    series = run(read())
    assert series is not None
    first = {field: values[0] for field, values in series.fields.items()}
    assert first["devices"] == 8
    assert first["power_watts"] == 40
    assert first["temperature_max_celsius"] == 30
    assert first["utilization_ratio"] == pytest.approx(1.0)  # sum and count are both the number of devices


@pytest.mark.parametrize(
    "others", [{"oslo": None}, {"oslo": lambda _: no_answer()}], ids=["no store", "a store that fails"]
)
def test_there_is_no_sum_where_a_cluster_is_missing(others: dict[str, Handler | None]) -> None:
    async def read() -> HistorySeries | None:
        async with past_of(berlin=store(10.0), **others) as past:
            return await asked(past, "fleet", None)

    assert run(read()) is None


def test_a_cluster_that_left_or_changed_is_asked_no_more() -> None:
    async def read() -> None:
        async with past_of(berlin=store(10.0)) as past:
            assert await asked(past, "cluster", "berlin") is not None
            await past.declare([ClusterEntry(id="berlin")])
            assert await asked(past, "cluster", "berlin") is None
            assert await asked(past, "fleet", None) is None

    run(read())


def test_devices_of_all_clusters_that_answer() -> None:
    async def read() -> list[HistorySeries]:
        async with past_of(berlin=store(10.0), oslo=lambda _: no_answer()) as past:
            return await past.devices(START, START + 120)

    found = run(read())
    assert {(series.cluster, series.node, series.key) for series in found} == {
        ("berlin", "n1", "d"),
        ("berlin", "n2", "d"),
    }
    assert all(series.fields.keys() == set(DEVICE_FIELDS) for series in found)
    assert found[0].fields["power_watts"] == [10.0, None, 10.0]
