"""The engine over clusters that work, hang, return invalid data, appear and disappear."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.fleet.api_server.served import status
from tests.fleet.loop import run
from tests.fleet.refresh.running import PACING, Clusters, engine_over
from tests.fleet.sources.stub_cluster import StubCluster, access_to, answering, driver_pod, node
from tests.fleet.sources.test_exec_source import smi
from tests.waiting import PATIENCE_SECONDS

from accelscope.config import ConfigError
from accelscope.fleet.clusters import (
    AddressAccess,
    AgentsEntry,
    AnnotationsEntry,
    ClusterEntry,
    ExecEntry,
    PrometheusEntry,
)
from accelscope.fleet.store.events import EventKind

DOCUMENT = json.loads(
    (Path(__file__).parents[2] / "agent" / "snapshots" / "1.1" / "nvidia-sick.json").read_text()
)


def everything(id_: str, access: AddressAccess, **fields: Any) -> ClusterEntry:
    sources: dict[str, Any] = {
        "agents": AgentsEntry(),
        "exec": ExecEntry(ttl_seconds=0, per_second=10_000),
        "annotations": AnnotationsEntry(),
    }
    return ClusterEntry(id=id_, access=access, **{**sources, **fields})


def with_agents(count: int = 3) -> StubCluster:
    cluster = StubCluster()
    for number in range(count):
        cluster.nodes[f"node-{number}"] = node(f"node-{number}", gpus=8)
        cluster.add_agent(f"agent-{number}", f"node-{number}", answering(DOCUMENT, tag='"1"', age=0.1))
    return cluster


async def test_each_node_is_read_by_the_source_with_the_highest_precedence() -> None:
    cluster = with_agents(2)
    cluster.command = smi
    cluster.nodes["node-x"] = node("node-x", gpus=2, labels={"rack": "7"})
    for name in ("node-0", "node-x"):
        cluster.pods[f"driver-{name}"] = driver_pod(f"driver-{name}", name)
    async with (
        cluster.running() as server,
        engine_over(everything("berlin", access_to(server), name="Berlin")) as running,
    ):
        await running.until(lambda: len(running.nodes(state="fresh")) == 3)
        assert {row.node: row.source for row in running.nodes() if row.node != "node-0"} == {
            "node-1": "agents",
            "node-x": "exec",
        }
        await running.until(lambda: running.source("berlin", "exec").expected == 1)
        await running.until(lambda: running.source("berlin", "agents").answered == 2)
        view = running.cluster("berlin")
        assert (view.name, view.reachable, view.gpu) == ("Berlin", True, True)
        assert [source.kind for source in view.sources] == ["agents", "exec", "annotations"]
        await running.until(lambda: running.store.labels("berlin", "node-x") == {"rack": "7"})
        assert running.engine.unready() is None


async def test_no_command_runs_before_agents_were_read() -> None:
    cluster = with_agents(2)
    cluster.command = smi
    answer = cluster.agents["agent-0"]

    async def late(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0.5)
        return await answer(request)

    cluster.agents["agent-0"] = late
    for name in ("node-0", "node-x"):
        cluster.pods[f"driver-{name}"] = driver_pod(f"driver-{name}", name)
    async with (
        cluster.running() as server,
        engine_over(everything("berlin", access_to(server))) as running,
    ):
        await running.until(lambda: any(row.node == "node-x" for row in running.nodes(state="fresh")))
        commands = [request.path for request in cluster.requests if request.path.endswith("/exec")]
        assert {path.split("/")[-2] for path in commands} == {"driver-node-x"}


async def test_a_source_that_was_never_up_reports_the_expected_nodes() -> None:
    cluster = with_agents(3)
    for name in cluster.agents:
        cluster.agents[name] = broken
    async with (
        cluster.running() as server,
        engine_over(everything("berlin", access_to(server), exec=None)) as running,
    ):
        await running.until(lambda: running.engine.unready() is None)
        source = running.source("berlin", "agents")
        assert (source.up, source.expected, source.answered) == (False, 3, 0)


async def broken(_: web.BaseRequest) -> web.StreamResponse:
    return status(503, "no endpoints available")


async def hang(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


async def test_failing_clusters_do_not_affect_others() -> None:
    good, hanging, lying, slow = with_agents(5), with_agents(3), with_agents(3), with_agents(3)
    hanging.answer = hang

    async def lie(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b'\x00\xff{"items": [[[' * 5000, content_type="application/json")

    lying.answer = lie

    async def slowly(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0.6)
        return await slow.honest(request)

    slow.answer = slowly
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(one.running()) for one in (good, hanging, lying, slow)]
        entries = [
            everything(id_, access_to(server))
            for id_, server in zip(("good", "hanging", "lying", "slow"), servers, strict=True)
        ]
        entries.append(everything("absent", AddressAccess(url="http://127.0.0.1:9")))
        pacing = replace(PACING, timeout_seconds=1.0)
        running = await stack.enter_async_context(engine_over(*entries, pacing=pacing))
        await running.until(lambda: len(running.nodes(cluster="good", state="fresh")) == 5)
        await running.until(lambda: len(running.nodes(cluster="slow", state="fresh")) == 3)
        # Compares the reasons too, because a busy machine may have caused other failures before.
        await running.until(lambda: running.cluster("hanging").reachable is False)
        await running.until(lambda: running.cluster("hanging").reason == "timeout")
        await running.until(lambda: running.cluster("absent").reachable is False)
        await running.until(lambda: running.cluster("absent").reason == "unreachable")
        await running.until(lambda: running.source("lying", "agents").up is False)
        await running.until(lambda: running.source("lying", "agents").reason == "bad_answer")
        rounds = running.engine.runs["good"].loops[0].rounds
        await running.until(lambda: running.engine.runs["good"].loops[0].rounds > rounds + 3)
        assert len(running.nodes(cluster="good", state="fresh")) == 5
        assert len(running.nodes()) == 8


async def test_a_revoked_token_is_reported_and_readings_age() -> None:
    cluster, other = with_agents(2), with_agents(1)
    async with (
        cluster.running() as server,
        other.running() as second,
        engine_over(
            everything("berlin", access_to(server)),
            everything("paris", access_to(second)),
            stale_after_seconds=1.0,
            forget_after_seconds=600.0,
        ) as running,
    ):
        await running.until(lambda: len(running.nodes(state="fresh")) == 3)
        # Open watches stay open, as with a real API server.
        cluster.refusal = lambda request: status(401, "Unauthorized")
        await running.until(lambda: running.cluster("berlin").reachable is False)
        assert running.cluster("berlin").reason == "unauthorized"
        await running.until(lambda: running.source("berlin", "agents").reason == "unauthorized")
        assert len(running.nodes(cluster="berlin")) == 2
        assert running.cluster("paris").reachable

        cluster.refusal = lambda request: None
        await running.until(lambda: running.cluster("berlin").reachable is True)
        await running.until(lambda: running.source("berlin", "agents").up is True)


async def test_a_token_without_permissions_is_reachable_and_reports_what_is_missing() -> None:
    cluster = with_agents(1)
    cluster.refusal = lambda request: status(403, "you may not") if request.path.startswith("/api/") else None
    async with (
        cluster.running() as server,
        engine_over(everything("berlin", access_to(server))) as running,
    ):
        await running.until(
            lambda: (
                running.cluster("berlin").reason == "forbidden"
                and all(source.up is False for source in running.cluster("berlin").sources)
            )
        )
        assert running.cluster("berlin").reachable
        assert {source.reason for source in running.cluster("berlin").sources} == {"forbidden"}


async def test_a_cluster_with_only_a_store_is_reachable_if_the_store_is() -> None:
    entry = ClusterEntry(id="store", prometheus=PrometheusEntry(url="http://127.0.0.1:9"))
    async with engine_over(entry) as running:
        await running.until(lambda: running.cluster("store").reachable is False)
        assert running.cluster("store").reason == "unreachable"
        assert [source.kind for source in running.cluster("store").sources] == ["prometheus"]


async def test_a_cluster_declared_without_accelerators_is_not_contacted() -> None:
    cluster = with_agents(1)
    async with (
        cluster.running() as server,
        engine_over(everything("berlin", access_to(server), gpu="false")) as running,
    ):
        await asyncio.sleep(0.3)
        assert cluster.requests == []
        assert running.engine.unready() is None
        view = running.cluster("berlin")
        assert (view.gpu, view.gpu_setting, view.reachable) == (False, "false", None)
        await running.engine.refresh("berlin")


@pytest.mark.parametrize(
    ("kept", "gpu"),
    [
        ({}, False),
        ({"labels": {"nvidia.com/gpu.present": "true"}}, True),
        ({"labels": {"nvidia.com/gpu.present": "false"}}, False),
        ({"labels": {"accelerator/huawei-npu": ""}}, True),
        ({"labels": {"feature.node.kubernetes.io/pci-1200_1ed2.present": "true"}}, True),
        ({"labels": {"feature.node.kubernetes.io/amd-gpu": "true"}}, True),
        ({"labels": {"feature.node.kubernetes.io/pci-0380_1002.present": "true"}}, True),
        ({"labels": {"feature.node.kubernetes.io/pci-0300_1a03.present": "true"}}, False),
        (
            {
                "annotations": {
                    "k8s-monitor.io/npu-metrics": '{"timestamp":"2026-01-02T03:04:05Z","chips":[{"npu":0}]}'
                }
            },
            True,
        ),
    ],
)
async def test_accelerators_of_a_cluster_are_detected(kept: dict[str, Any], gpu: bool) -> None:
    cluster = StubCluster()
    cluster.nodes["node-0"] = node("node-0", **kept)
    async with (
        cluster.running() as server,
        engine_over(everything("berlin", access_to(server))) as running,
    ):
        await running.until(lambda: running.cluster("berlin").gpu is not None)
        await running.until(lambda: running.cluster("berlin").gpu is gpu)


def test_a_changed_list_restarts_only_changed_clusters(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "accelscope.fleet")

    async def go() -> None:
        first, second = with_agents(2), with_agents(3)
        async with first.running() as one, second.running() as two:
            berlin, paris = everything("berlin", access_to(one)), everything("paris", access_to(two))
            clusters = Clusters(berlin)
            async with engine_over(clusters=clusters) as running:
                await running.until(lambda: len(running.nodes(state="fresh")) == 2)
                kept = running.engine.runs["berlin"]

                clusters.put(berlin, paris)
                await running.until(lambda: len(running.nodes(state="fresh")) == 5)
                assert running.engine.runs["berlin"] is kept

                clusters.entries = ConfigError("clusters.yaml:3: what is this?")
                await running.until(lambda: running.engine.reloads.get("rejected") == 1)
                assert list(running.store.clusters) == ["berlin", "paris"]
                assert running.engine.runs["berlin"] is kept

                clusters.put(berlin, replace(paris, name="Paris 2"))
                await running.until(lambda: running.cluster("paris").name == "Paris 2")
                assert len(running.nodes(cluster="paris")) == 3
                assert running.engine.runs["berlin"] is kept

                clusters.put(berlin, everything("paris", access_to(one)))
                await running.until(lambda: len(running.nodes(cluster="paris", state="fresh")) == 2)
                assert len(running.nodes()) == 4
                assert EventKind.CLUSTER_LEFT not in [event.kind for event in running.store.events.after(0)]

                clusters.put(paris)
                await running.until(lambda: list(running.store.clusters) == ["paris"])
                await running.until(lambda: len(running.nodes(state="fresh")) == 3)
                assert not running.nodes(cluster="berlin")
                assert running.engine.reloads == {"applied": 4, "rejected": 1}
                left = [
                    event.cluster
                    for event in running.store.events.after(0)
                    if event.kind is EventKind.CLUSTER_LEFT
                ]
                assert left == ["berlin"]

    run(go())
    assert sum("the new list of clusters is invalid" in record.getMessage() for record in caplog.records) == 1


async def test_an_unexpected_error_with_the_list_does_not_end_the_engine(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = with_agents(1)
    async with cluster.running() as server:
        berlin = everything("berlin", access_to(server))
        clusters = Clusters(berlin)
        async with engine_over(clusters=clusters) as running:
            await running.until(lambda: len(running.nodes(state="fresh")) == 1)

            def broken(*_: object, **__: object) -> None:
                raise RuntimeError("unexpected")

            with monkeypatch.context() as patch:
                patch.setattr(running.store, "declare", broken)
                clusters.put(replace(berlin, name="Berlin 2"))
                await running.until(lambda: any(record.exc_info for record in caplog.records))
            clusters.put(replace(berlin, name="Berlin 3"))
            await running.until(lambda: running.cluster("berlin").name == "Berlin 3")
            await running.until(lambda: running.source("berlin", "agents").up is True)
            assert running.engine.reloads == {"applied": 1}


async def test_refresh_reads_a_cluster_immediately() -> None:
    cluster = with_agents(1)
    slow = replace(PACING, interval_seconds=3600.0)
    async with (
        cluster.running() as server,
        engine_over(everything("berlin", access_to(server)), pacing=slow) as running,
    ):
        await running.until(lambda: running.engine.unready() is None)
        before = running.engine.runs["berlin"].loops[0].rounds
        await running.engine.refresh("berlin")
        assert running.engine.runs["berlin"].loops[0].rounds == before + 1
        await running.engine.refresh("nowhere")


async def test_refresh_does_not_wait_for_a_stopped_cluster() -> None:
    cluster = with_agents(1)
    async with cluster.running() as server:
        async with engine_over(everything("berlin", access_to(server))) as running:
            await running.until(lambda: running.engine.unready() is None)
            ended = running.engine.runs["berlin"]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.refresh()


def test_a_lasting_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "accelscope.fleet")

    async def go() -> None:
        async with engine_over(everything("gone", AddressAccess(url="http://127.0.0.1:9"))) as running:
            await running.until(
                lambda: (
                    running.engine.unready() is None
                    and all(loop.rounds > 3 for loop in running.engine.runs["gone"].loops)
                )
            )

    run(go())
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("cluster is unreachable") == 1
    assert messages.count("source is down") == 3


def test_an_unexpected_error_in_a_source_fails_the_round(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        cluster = with_agents(1)
        async with (
            cluster.running() as server,
            engine_over(everything("berlin", access_to(server))) as running,
        ):
            await running.until(lambda: len(running.nodes(state="fresh")) == 1)
            source = running.engine.runs["berlin"].loops[0].source
            whole = source.refresh

            async def broken(take: Any) -> Any:
                raise RuntimeError("unexpected")

            source.refresh = broken  # type: ignore[method-assign]
            await running.until(lambda: running.source("berlin", "agents").reason == "internal")
            assert running.source("berlin", "annotations").up
            source.refresh = whole  # type: ignore[method-assign]
            await running.until(lambda: running.source("berlin", "agents").up is True)

    run(go())
    assert any(record.exc_info for record in caplog.records)
