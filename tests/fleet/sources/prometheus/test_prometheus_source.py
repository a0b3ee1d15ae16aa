"""A cluster read from a store: its nodes, the age of readings, and failures of the store."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.fleet.api_server.served import Handler, served
from tests.fleet.loop import run
from tests.fleet.sources.prometheus.nodes import TAKEN_AT, reports_of_agents, rows, simulated_snapshots
from tests.fleet.sources.prometheus.scraped import Agent, StubStore

import accelscope.fleet.sources.prometheus.source as source_module
from accelscope.fleet.clusters import PrometheusEntry
from accelscope.fleet.rows import (
    NodeFailure,
    NodeReport,
    NodeUnchanged,
    NodeUpdate,
    SourceKind,
    SourceOutcome,
)
from accelscope.fleet.sources.prometheus import PrometheusSource
from accelscope.fleet.sources.prometheus.node_series import NodeSeries
from accelscope.fleet.sources.prometheus.store import ScrapeTarget
from accelscope.fleet.sources.round import LoopThrottle
from accelscope.model import AgentState, Device, Snapshot, Vendor

NOW = TAKEN_AT + 5  # by the store's clock
HERE = NOW + 3600  # by ours, which is an hour ahead


def node(name: str, *devices: str, taken_at: float = TAKEN_AT, vendor: Vendor = Vendor("nvidia")) -> Snapshot:
    return Snapshot(
        node=name,
        taken_at=taken_at,
        agent=AgentState(version="1.2.3", started_at=TAKEN_AT - 100),
        devices=tuple(Device(vendor=vendor, id=f"{vendor}:{device}", power_watts=1.5) for device in devices),
    )


def agent(snapshot: Snapshot, *, scraped_at: float = NOW - 2, **options: Any) -> Agent:
    return Agent(snapshot, **{"instance": f"{snapshot.node}:9400", "scraped_at": scraped_at, **options})


class Cluster:
    """A source and its last updates."""

    def __init__(self, source: PrometheusSource) -> None:
        self.source = source

    async def refresh(self) -> tuple[SourceOutcome, list[NodeUpdate]]:
        updates: list[NodeUpdate] = []
        return await self.source.refresh(updates.append), updates

    async def reports(self) -> list[NodeReport]:
        outcome, updates = await self.refresh()
        assert outcome.up, outcome
        return [update for update in updates if isinstance(update, NodeReport)]


@asynccontextmanager
async def reading(handler: Handler, **entry: Any) -> AsyncIterator[Cluster]:
    async with served(handler) as place:
        source = PrometheusSource(
            PrometheusEntry(url=place.url, **entry), loop_throttle=LoopThrottle(), clock=lambda: HERE
        )
        try:
            yield Cluster(source)
        finally:
            await source.close()


@pytest.mark.parametrize("brief", [False, True])
def test_rows_equal_those_of_the_agents_source(monkeypatch: pytest.MonkeyPatch, brief: bool) -> None:
    monkeypatch.setattr(source_module, "DETAILED_TARGETS", 0 if brief else 500)
    snapshots = simulated_snapshots()

    async def read() -> list[NodeReport]:
        async with reading(StubStore([agent(each) for each in snapshots.values()], NOW).answer) as cluster:
            return await cluster.reports()

    reports = run(read())
    expected_rows = rows(reports_of_agents(snapshots, HERE - 5), HERE)
    assert all(expected_rows.values())
    assert rows(reports, HERE) == expected_rows
    assert {report.snapshot.agent.version for report in reports} == {
        snapshot.agent.version for snapshot in snapshots.values()
    }
    processes = [process for report in reports for process in report.snapshot.processes]
    assert {(p.cpu_ratio, p.resident_memory_bytes, p.started_at) for p in processes} == {(None, None, None)}


async def test_a_page_is_read_once() -> None:
    store = StubStore([agent(node("n1", "a")), agent(node("n2", "b"))], NOW)
    async with reading(store.answer) as cluster:
        assert len(await cluster.reports()) == 2
        store.requests.clear()
        outcome, updates = await cluster.refresh()
        assert outcome == SourceOutcome(up=True, expected=2, answered=2)
        assert updates == [NodeUnchanged(node=name, source=SourceKind.PROMETHEUS) for name in ("n1", "n2")]
        assert len(store.requests) == 2
        store.agents = [agent(node("n1", "a")), agent(node("n2", "b", taken_at=TAKEN_AT + 4))]
        assert [report.node for report in await cluster.reports()] == ["n2"]
        # All queries are for the same time of the store's clock.
        assert {form["time"] for form in store.requests if "time" in form} == {f"{NOW:.3f}"}


@pytest.mark.parametrize(
    ("collected_at", "scraped_at", "age"),
    [
        (NOW - 5, NOW - 2, 5),
        (NOW - 500, NOW - 2, 500),  # an agent without new pages
        (NOW + 500, NOW - 2, 2),  # an agent whose clock is ahead: the scrape is the upper bound
    ],
)
def test_a_reading_is_as_old_as_the_page(collected_at: float, scraped_at: float, age: float) -> None:
    async def read() -> list[NodeReport]:
        store = StubStore([agent(node("n1", "a", taken_at=collected_at), scraped_at=scraped_at)], NOW)
        async with reading(store.answer) as cluster:
            return await cluster.reports()

    [report] = run(read())
    assert report.taken_at == pytest.approx(HERE - age)
    assert report.snapshot.taken_at == collected_at


async def test_a_node_whose_clock_is_behind_is_not_stale() -> None:
    """A new page cannot be older than the scrape before it."""
    store = StubStore([agent(node("n1", "a", taken_at=NOW - 1000), scraped_at=NOW - 2)], NOW)
    async with reading(store.answer) as cluster:
        assert (await cluster.reports())[0].taken_at == pytest.approx(HERE - 1000)
        store.now = NOW + 15
        store.agents = [agent(node("n1", "a", taken_at=NOW - 985), scraped_at=NOW + 13)]
        [report] = await cluster.reports()
        assert report.taken_at == pytest.approx(HERE - 17)
        assert report.snapshot.interval_seconds == pytest.approx(15)


async def test_nodes_without_series_fail_once_and_come_back() -> None:
    first, second = agent(node("n1", "a")), agent(node("n2", "b"))
    store = StubStore([first, second], NOW)
    async with reading(store.answer) as cluster:
        await cluster.reports()
        store.agents = [first]
        outcome, updates = await cluster.refresh()
        assert (outcome.up, outcome.expected, outcome.answered) == (True, 2, 1)
        [failure] = [update for update in updates if isinstance(update, NodeFailure)]
        assert (failure.node, failure.reason) == ("n2", "no_series")
        outcome, updates = await cluster.refresh()
        assert (outcome.up, outcome.expected, outcome.answered) == (True, 2, 1)
        assert not any(isinstance(update, NodeFailure) for update in updates)
        store.agents = []
        outcome, _ = await cluster.refresh()
        assert (outcome.up, outcome.reason, outcome.expected) == (False, "no_series", 2)
        store.agents = [first, second]
        outcome, updates = await cluster.refresh()
        assert (outcome.up, outcome.expected, outcome.answered) == (True, 2, 2)
        assert all(isinstance(update, NodeReport) for update in updates)


def test_a_store_without_series_of_the_cluster_is_up_with_a_reason() -> None:
    async def read() -> SourceOutcome:
        store = StubStore([agent(node("n1", "a"), external={"cluster": "oslo"})], NOW)
        async with reading(store.answer, matchers={"cluster": "berlin"}) as cluster:
            outcome, updates = await cluster.refresh()
            assert updates == []
            assert not cluster.source.sees_accelerators()
            return outcome

    outcome = run(read())
    assert (outcome.up, outcome.reason) == (True, "no_series")
    assert 'cluster="berlin"' in (outcome.text or "")


def test_matchers_choose_the_cluster() -> None:
    """Even if both clusters have the same address, node and device."""

    async def read() -> list[NodeReport]:
        clusters = [
            agent(replace(node("n1", device), labels=()), external={"cluster": cluster})
            for cluster, device in (('ber"l|in', "a"), ("oslo", "b"))
        ]
        async with reading(StubStore(clusters, NOW).answer, matchers={"cluster": 'ber"l|in'}) as cluster:
            return await cluster.reports()

    [report] = run(read())
    assert [device.id for device in report.snapshot.devices] == ["nvidia:a"]


def test_addresses_are_not_regular_expressions() -> None:
    async def read() -> list[str]:
        odd = agent(node("n1", "a"), instance=r'a.b+c|d"e\f')
        other = agent(node("n2", "b"), instance="aXb+c")
        store = StubStore([odd, other], NOW)
        async with reading(store.answer) as cluster:
            return [device.id for report in await cluster.reports() for device in report.snapshot.devices]

    assert run(read()) == ["nvidia:a", "nvidia:b"]


def test_series_of_two_replicas_of_a_store_are_deduplicated() -> None:
    async def read() -> list[NodeReport]:
        same = node("n1", "a", "b")
        pair = [agent(same, external={"replica": name}) for name in ("a", "b")]
        async with reading(StubStore(pair, NOW).answer) as cluster:
            return await cluster.reports()

    [report] = run(read())
    assert [device.id for device in report.snapshot.devices] == ["nvidia:a", "nvidia:b"]


def test_several_agents_of_a_node_are_merged_into_one_reading() -> None:
    async def read() -> list[NodeReport]:
        pair = [
            agent(node("n1", "a"), instance="10.0.0.1:9400"),
            agent(node("n1", "b", vendor=Vendor("amd")), instance="10.0.0.2:9400"),
        ]
        async with reading(StubStore(pair, NOW).answer) as cluster:
            return await cluster.reports()

    [report] = run(read())
    assert {device.id for device in report.snapshot.devices} == {"nvidia:a", "amd:b"}


def test_a_store_without_self_metrics_is_read() -> None:
    async def read() -> list[NodeReport]:
        store = StubStore([agent(node("n1", "a"), dropped="accelscope_")], NOW)
        async with reading(store.answer) as cluster:
            reports = await cluster.reports()
            assert (await cluster.reports()) == []
            return reports

    [report] = run(read())
    assert report.taken_at == pytest.approx(HERE - 2)
    assert [device.power_watts for device in report.snapshot.devices] == [1.5]


def test_a_node_without_devices_is_reported() -> None:
    async def read() -> list[NodeReport]:
        async with reading(StubStore([agent(node("n1"))], NOW).answer) as cluster:
            reports = await cluster.reports()
            assert not cluster.source.sees_accelerators()
            return reports

    [report] = run(read())
    assert report.snapshot.devices == ()


async def test_a_partial_response_is_used_and_reported() -> None:
    store = StubStore([agent(node("n1", "a")), agent(node("n2"))], NOW, warnings=["no store in Oslo\nat all"])
    async with reading(store.answer) as cluster:
        outcome, updates = await cluster.refresh()
        assert (outcome.up, outcome.expected, outcome.answered) == (True, 2, 1)
        assert (outcome.reason, outcome.text) == (
            "partial",
            "the store returned a partial response: no store in Oslo at all",
        )
        kinds = {update.node: type(update) for update in updates}
        # A node without devices in a partial response is a failure: its devices may be missing.
        assert kinds == {"n1": NodeReport, "n2": NodeFailure}
        store.warnings = ()
        assert {report.node for report in await cluster.reports()} == {"n1", "n2"}


def test_a_partial_response_without_series_is_an_error() -> None:
    async def read() -> SourceOutcome:
        async with reading(StubStore([], NOW, warnings=["No StoreAPIs matched"]).answer) as cluster:
            return (await cluster.refresh())[0]

    outcome = run(read())
    assert (outcome.up, outcome.reason) == (False, "partial")


def test_batches_shrink_if_the_store_rejects_long_responses() -> None:
    async def read() -> list[NodeReport]:
        agents = [agent(node(f"n{number}", "a", "b")) for number in range(20)]
        store = StubStore(agents, NOW, most_series=200)
        async with reading(store.answer) as cluster:
            reports = await cluster.reports()
            requests = len(store.requests)
            store.requests.clear()
            store.agents = [agent(replace(each.snapshot, taken_at=TAKEN_AT + 1)) for each in agents]
            await cluster.reports()
            assert len(store.requests) < requests, "it remembers how much is taken"
            return reports

    assert len(run(read())) == 20


def vector(*result: object) -> dict[str, object]:
    return {"status": "success", "data": {"resultType": "vector", "result": list(result)}}


def always(answer: Callable[[], web.StreamResponse]) -> Handler:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return answer()

    return handler


async def _hang(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


async def _endless(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"status":"success","data":{"resultType":"vector","result":[')
    while True:
        await response.write(b'{"metric":{},"value":[1,"1"]},' * 100_000)


def json_text(text: str, status: int = 200) -> Handler:
    return always(lambda: web.Response(text=text, status=status, content_type="application/json"))


REFUSAL = json.dumps({"status": "error", "errorType": "bad_data", "error": "nope"})


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (json_text("<html>hello</html>"), "bad_answer"),
        (json_text("[]"), "bad_answer"),
        (json_text("{"), "bad_answer"),
        (json_text("[" * 100_000), "bad_answer"),
        (json_text('{"status":"success"}'), "bad_answer"),
        (json_text('{"status":"success","data":{"resultType":"matrix","result":[]}}'), "bad_answer"),
        (json_text('{"status":"success","data":{"resultType":"vector","result":{}}}'), "bad_answer"),
        (json_text(json.dumps(vector(1))), "bad_answer"),
        (json_text(json.dumps(vector({"metric": {"node": 1}, "value": [1, "1"]}))), "bad_answer"),
        (json_text(json.dumps(vector({"metric": {}, "value": ["1", 1]}))), "bad_answer"),
        (json_text(REFUSAL), "bad_answer"),
        (json_text(REFUSAL, 400), "bad_answer"),
        (json_text(REFUSAL, 422), "bad_answer"),
        (json_text(REFUSAL, 503), "server_error"),
        (json_text("", 401), "unauthorized"),
        (json_text("", 403), "forbidden"),
        (json_text("", 404), "not_found"),
        (json_text("", 429), "throttled"),
        (always(lambda: web.Response(status=302, headers={"Location": "/elsewhere"})), "bad_answer"),
        (_hang, "timeout"),
        (_endless, "too_large"),
    ],
)
def test_a_store_with_invalid_responses_is_down(
    monkeypatch: pytest.MonkeyPatch, handler: Handler, reason: str
) -> None:
    monkeypatch.setattr("accelscope.fleet.sources.prometheus.store._GRACE_SECONDS", 0.1)

    async def read() -> SourceOutcome:
        async with reading(handler, timeout_seconds=0.5 if handler is _hang else 10.0) as cluster:
            outcome, updates = await cluster.refresh()
            assert updates == []
            return outcome

    outcome = run(read())
    assert (outcome.up, outcome.reason) == (False, reason)
    assert outcome.text


@pytest.mark.parametrize(
    "metric", [{}, {"node": ""}, {"node": "n1"}, {"job": "x", "instance": "y", "node": "n1", "device": "d"}]
)
def test_series_without_a_target_or_a_number_are_ignored(metric: dict[str, str]) -> None:
    """Series without the labels of a target add no node, and NaN adds no device."""

    async def read() -> tuple[SourceOutcome, list[NodeUpdate]]:
        answer = json.dumps(vector({"metric": metric, "value": [NOW, "NaN"]}, {"metric": metric}))
        async with reading(json_text(answer)) as cluster:
            return await cluster.refresh()

    outcome, updates = run(read())
    assert outcome.up
    assert updates == []


def test_nodes_fail_if_the_store_fails_after_it_listed_them() -> None:
    async def read() -> tuple[SourceOutcome, Sequence[NodeUpdate]]:
        store = StubStore([agent(node(f"n{number}", "a")) for number in range(3)], NOW)

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return await store.answer(request) if len(store.requests) < 2 else web.Response(status=500)

        async with reading(handler) as cluster:
            return await cluster.refresh()

    outcome, updates = run(read())
    assert (outcome.up, outcome.expected, outcome.answered) == (False, 3, 0)
    assert outcome.reason == "server_error"
    assert [type(update) for update in updates] == [NodeFailure] * 3


def test_an_unexpected_error_affects_only_its_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = NodeSeries.snapshot

    def faulty(series: NodeSeries, name: str, target: ScrapeTarget, interval: float | None) -> Snapshot:
        if name == "n1":
            raise TypeError("not foreseen")
        return whole(series, name, target, interval)

    monkeypatch.setattr(NodeSeries, "snapshot", faulty)

    async def read() -> None:
        store = StubStore([agent(node(f"n{number}", "a")) for number in range(3)], NOW)
        async with reading(store.answer) as cluster:
            for _ in range(2):
                outcome, updates = await cluster.refresh()
                assert (outcome.up, outcome.expected, outcome.answered) == (True, 3, 2)
                [failure] = [update for update in updates if isinstance(update, NodeFailure)]
                assert (failure.node, failure.reason) == ("n1", "internal")

    run(read())
    assert len([record for record in caplog.records if record.exc_info]) == 1


def test_token_and_tenant_are_sent_but_not_logged(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-word\n")

    async def read() -> SourceOutcome:
        headers: list[web.BaseRequest] = []

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            headers.append(request)
            return web.Response(status=403, text=f"not with {request.headers['Authorization']}")

        async with reading(handler, token_file=str(token), tenant="team-7") as cluster:
            outcome, _ = await cluster.refresh()
        assert headers[0].headers["Authorization"] == "Bearer secret-word"
        assert headers[0].headers["X-Scope-OrgID"] == "team-7"
        assert headers[0].method == "POST"
        return outcome

    outcome = run(read())
    assert outcome.reason == "forbidden"
    assert "secret-word" not in str(outcome)


@pytest.mark.parametrize(
    ("url", "token"), [("http://user:secret-word@127.0.0.1:1", False), ("http://store.example:1", True)]
)
def test_secrets_are_not_sent_over_plain_http(url: str, token: bool, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret-word\n")

    async def read() -> SourceOutcome:
        entry = PrometheusEntry(url=url, token_file=str(file) if token else None)
        source = PrometheusSource(entry, loop_throttle=LoopThrottle())
        try:
            return await source.refresh(lambda _: None)
        finally:
            await source.close()

    outcome = run(read())
    assert not outcome.up
    assert "secret-word" not in str(outcome)
