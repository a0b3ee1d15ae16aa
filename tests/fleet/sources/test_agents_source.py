"""Agents of a cluster, read through the pod proxy and directly, with and without failures."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec import to_builtins
from tests.fleet.api_server.served import served, session_at, status
from tests.fleet.loop import run
from tests.fleet.sources.stub_cluster import StubCluster, access_to, answering, one_round

from accelscope.fleet.api_server.objects import decode_agent_pod, pod_key
from accelscope.fleet.clusters import AgentsEntry
from accelscope.fleet.rows import ClusterView, NodeFailure, NodeReport, NodeUnchanged, SourceOutcome
from accelscope.fleet.sources.agents import AgentsSource, DirectTransport, ProxyTransport
from accelscope.fleet.sources.round import LoopThrottle, RequestPacer
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.kube.listwatch import pods_in
from accelscope.model import HealthState, Vendor
from accelscope.model.wire import read_snapshot

SNAPSHOTS = Path(__file__).parents[2] / "agent" / "snapshots" / "1.1"


def document(name: str = "nvidia-sick") -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SNAPSHOTS / f"{name}.json").read_text())
    return loaded


@asynccontextmanager
async def agents_of(
    cluster: StubCluster,
    entry: AgentsEntry | None = None,
    *,
    concurrency: int = 8,
    timeout_seconds: float = 5.0,
    loop_throttle: LoopThrottle | None = None,
) -> AsyncIterator[AgentsSource]:
    entry = entry or AgentsEntry()
    async with (
        cluster.running() as server,
        session_at(access_to(server), timeout_seconds=timeout_seconds) as session,
    ):
        pods = session.informer(
            pods_in(entry.namespace, entry.label_selector), decode=decode_agent_pod, key=pod_key
        )
        direct = entry.via == "direct"
        source = AgentsSource(
            pods,
            DirectTransport(entry, connections=8, timeout_seconds=timeout_seconds)
            if direct
            else ProxyTransport(session, entry),
            pace=RequestPacer(10_000),
            loop_throttle=loop_throttle or LoopThrottle(),
            concurrency=concurrency,
            token_file=entry.token_file,
        )
        try:
            yield source
        finally:
            await source.close()


async def test_an_agent_sends_its_document_only_when_it_has_changed() -> None:
    cluster = StubCluster()
    cluster.add_agent("agent-a", "node-a", answering(document(), tag='W/"1-1"', age=3.0))
    async with agents_of(cluster) as agents:
        before = time.time()
        outcome, updates = await one_round(agents)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert to_builtins(report.snapshot) == to_builtins(read_snapshot(document()))
        assert before - 3.1 <= report.taken_at <= time.time() - 2.9
        assert json.loads(gzip.decompress(report.document)) == document()
        assert outcome == SourceOutcome(up=True, expected=1, answered=1)
        assert agents.sees_accelerators()

        outcome, updates = await one_round(agents)
        assert isinstance(updates["node-a"], NodeUnchanged)
        assert outcome.answered == 1

        cluster.agents["agent-a"] = answering(document(), tag='W/"1-2"', age=0.5)
        _, updates = await one_round(agents)
        assert isinstance(updates["node-a"], NodeReport)


async def test_a_document_compressed_in_several_members_is_stored_completely() -> None:
    body = json.dumps(document()).encode()
    parts = gzip.compress(body[:1000]) + gzip.compress(body[1000:])

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=parts, headers={"Content-Encoding": "gzip"})

    cluster = StubCluster()
    cluster.add_agent("agent-a", "node-a", answer)
    store = FleetStore()
    store.declare([ClusterView(id="berlin")])
    async with agents_of(cluster) as agents:
        await agents.refresh(lambda update: store.take("berlin", update))
    kept = store.snapshot("berlin", "node-a")
    assert kept is not None
    assert kept.devices == read_snapshot(document()).devices


@pytest.mark.parametrize("off_seconds", [-7200.0, 0.0, 7200.0])
async def test_the_clock_of_an_agent_without_age_is_corrected_by_its_date_header(off_seconds: float) -> None:
    cluster = StubCluster()
    there = time.time() + off_seconds
    content = json.dumps({**document(), "taken_at": there - 5}).encode()

    async def answer(_: web.BaseRequest) -> web.Response:
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(there))
        return web.Response(body=content, headers={"Date": date})

    cluster.add_agent("agent-a", "node-a", answer)
    async with agents_of(cluster) as agents:
        _, updates = await one_round(agents)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert abs(time.time() - 5 - report.taken_at) < 3
        assert report.document == b""  # it was not compressed


def test_the_token_goes_in_a_header_that_the_proxy_passes_on(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")

    async def go() -> None:
        cluster = StubCluster()

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            if request.headers.get("X-AccelScope-Token") != token.read_text().strip():
                return web.Response(status=401, text="s3cret is not the token")
            return await answering(document())(request)

        cluster.add_agent("agent-a", "node-a", answer)
        async with agents_of(cluster, AgentsEntry(token_file=str(token))) as agents:
            outcome, updates = await one_round(agents)
            assert isinstance(updates["node-a"], NodeReport)
            assert "Authorization" not in cluster.requests[-1].headers

            cluster.agents["agent-a"] = lambda _: refuse()
            outcome, updates = await one_round(agents)
            failure = updates["node-a"]
            assert isinstance(failure, NodeFailure)
            assert failure.reason == "unauthorized"
            assert "s3cret" not in failure.text

            token.unlink()
            outcome, updates = await one_round(agents)
            assert not outcome.up
            assert outcome.reason == "unauthorized"
            assert str(token) in (outcome.text or "")

    async def refuse() -> web.Response:
        return web.Response(status=401, text="s3cret is not the token")

    run(go())


def bomb() -> bytes:
    return gzip.compress(b" " * (40 << 20), 9)


async def flood(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=bomb(), headers={"Content-Encoding": "gzip"})


async def hang(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"{")
    assert request.transport is not None
    request.transport.abort()
    return response


async def refused(_: web.BaseRequest) -> web.StreamResponse:
    return status(503, "error trying to reach service: connection refused")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (answering(b"<html>"), "bad_answer"),
        (answering(b"\x00" * 1000), "bad_answer"),
        (answering({"schema_version": "1.1", "node": 1}), "bad_answer"),
        (answering({**document(), "schema_version": "2.0"}), "incompatible"),
        (flood, "too_large"),
        (hang, "timeout"),
        (cut, "unreachable"),
        (refused, "server_error"),
    ],
    ids=["html", "zeros", "no-snapshot", "other-major", "bomb", "hangs", "cut", "refused"],
)
async def test_an_invalid_agent_affects_only_its_own_node(bad: Any, reason: str) -> None:
    cluster = StubCluster()
    cluster.add_agent("agent-bad", "node-bad", bad)
    for number in range(3):
        cluster.add_agent(f"agent-{number}", f"node-{number}", answering(document()))
    async with agents_of(cluster, timeout_seconds=5.0 if bad is hang else 60.0) as agents:
        outcome, updates = await one_round(agents)
        failure = updates.pop("node-bad")
        assert isinstance(failure, NodeFailure)
        assert failure.reason == reason
        assert failure.incompatible == (reason == "incompatible")
        assert all(isinstance(update, NodeReport) for update in updates.values())
        assert (outcome.up, outcome.expected, outcome.answered) == (True, 4, 3)
        assert outcome.reason == reason
        _, updates = await one_round(agents)
        assert isinstance(updates["node-bad"], NodeFailure)
        assert updates["node-bad"].reason == reason


async def test_a_large_document_is_read_too() -> None:
    cluster = StubCluster()
    large = document("nvidia-h100x8")
    large["labels"] = [[f"label{number}", "x" * 1000] for number in range(3000)]
    cluster.add_agent("agent-a", "node-a", answering(large, tag='"1"'))
    async with agents_of(cluster) as agents:
        _, updates = await one_round(agents)
        assert isinstance(updates["node-a"], NodeReport)
        _, updates = await one_round(agents)
        assert isinstance(updates["node-a"], NodeUnchanged)


async def test_slow_large_documents_of_one_cluster_do_not_delay_other_clusters() -> None:
    slow, good, over = StubCluster(), StubCluster(), asyncio.Event()
    stuck = 0

    async def trickle(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal stuck
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b" " * (2 << 20))
        stuck += 1
        await over.wait()
        return response

    for number in range(3):
        slow.add_agent(f"agent-{number}", f"node-{number}", trickle)
    large = document("nvidia-h100x8")
    large["labels"] = [[f"label{number}", "x" * 1000] for number in range(3000)]
    good.add_agent("agent-a", "node-a", answering(large))
    share = LoopThrottle()
    async with (
        agents_of(slow, timeout_seconds=60.0, loop_throttle=share) as held_up,
        agents_of(good, loop_throttle=share) as agents,
    ):
        waiting = asyncio.create_task(one_round(held_up))
        while stuck < 3 + 2:  # each once, and then as many as the limit of large responses
            await asyncio.sleep(0.01)
        async with asyncio.timeout(10):
            _, updates = await one_round(agents)
        assert isinstance(updates["node-a"], NodeReport)
        assert not waiting.done()
        waiting.cancel()
        over.set()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_an_agent_that_exceeds_the_limits_of_a_node_is_rejected() -> None:
    cluster = StubCluster()
    crowd = document()
    crowd["devices"] = [{**crowd["devices"][0], "id": f"nvidia:{number}"} for number in range(1025)]
    cluster.add_agent("agent-a", "node-a", answering(crowd, tag='"1"'))
    async with agents_of(cluster) as agents:
        for _ in range(2):
            _, updates = await one_round(agents)
            failure = updates["node-a"]
            assert isinstance(failure, NodeFailure)
            assert failure.reason == "too_large"
            assert "1025 devices" in failure.text


async def test_impossible_numbers_are_omitted_and_listed_in_the_remark() -> None:
    cluster = StubCluster()
    spoilt, other = document(), document("nvidia-h100x8")
    spoilt["devices"][0]["power_watts"] = -1e308
    cluster.add_agent("agent-a", "node-a", answering(spoilt))
    cluster.add_agent("agent-b", "node-b", answering(spoilt))
    cluster.add_agent("agent-c", "node-b", answering(other))
    async with agents_of(cluster) as agents:
        _, updates = await one_round(agents)
        for report in updates.values():
            assert isinstance(report, NodeReport)
            assert report.remark == "values out of range were omitted: power_watts"
            assert report.document == b""
            assert all((d.power_watts or 0.0) >= 0 for d in report.snapshot.devices)


async def test_a_pod_that_is_not_ready_is_not_read_and_pods_come_and_go() -> None:
    cluster = StubCluster()
    cluster.add_agent("agent-a", "node-a", answering(document()), ready=False)
    async with agents_of(cluster) as agents:
        outcome, updates = await one_round(agents)
        failure = updates["node-a"]
        assert isinstance(failure, NodeFailure)
        assert failure.reason == "not_ready"
        assert (outcome.up, outcome.expected, outcome.answered) == (False, 1, 0)
        pod = cluster.pods["agent-a"]
        pod["status"]["conditions"][0]["status"] = "True"
        cluster.put("pods", pod)
        while not outcome.answered:
            await asyncio.sleep(0.02)
            outcome, updates = await one_round(agents)
        assert isinstance(updates["node-a"], NodeReport)
        cluster.put("pods", pod, "DELETED")
        while outcome.expected:
            await asyncio.sleep(0.02)
            outcome, updates = await one_round(agents)
        assert outcome == SourceOutcome(up=True)


def vendor_agent(vendor: str, tag: str) -> dict[str, Any]:
    """The snapshot of an agent that reads one vendor's devices of the mixed node."""
    mixed = document("mixed")
    own = {device["id"] for device in mixed["devices"] if device["vendor"] == vendor}
    mixed["devices"] = [device for device in mixed["devices"] if device["id"] in own]
    mixed["readers"] = [reader for reader in mixed["readers"] if reader["vendor"] == vendor]
    for member in ("processes", "pod_usages", "unattributed", "balances"):
        mixed[member] = [item for item in mixed.get(member, ()) if item.get("device") in own]
    for given in mixed.get("allocations", ()):
        if given.get("device") not in own:
            given.pop("device", None)
    return mixed


async def test_agents_of_several_vendors_on_a_node_are_merged() -> None:
    whole = read_snapshot(document("mixed"))
    vendors = sorted({device.vendor.value for device in whole.devices})
    assert len(vendors) > 2
    cluster = StubCluster()
    for vendor in vendors:
        answer = answering(vendor_agent(vendor, vendor), tag=f'"{vendor}-1"', age=1.0)
        cluster.add_agent(f"agent-{vendor}", "node-a", answer)
    async with agents_of(cluster) as agents:
        outcome, updates = await one_round(agents)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert outcome == SourceOutcome(up=True, expected=1, answered=1)
        snapshot = report.snapshot
        assert {device.id: device for device in snapshot.devices} == {d.id: d for d in whole.devices}
        assert set(snapshot.processes) == set(whole.processes)
        assert set(snapshot.allocations) == set(whole.allocations)
        assert set(snapshot.pod_usages) == set(whole.pod_usages)
        assert {reader.vendor for reader in snapshot.readers} == {d.vendor for d in whole.devices}

        _, updates = await one_round(agents)
        assert isinstance(updates["node-a"], NodeUnchanged)

        cluster.agents["agent-nvidia"] = refused
        _, updates = await one_round(agents)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        nvidia = [device for device in report.snapshot.devices if device.vendor is Vendor("nvidia")]
        others = [device for device in report.snapshot.devices if device.vendor is not Vendor("nvidia")]
        assert nvidia
        assert all(device.stale and device.utilization_ratio is None for device in nvidia)
        assert all(device.health.state is HealthState.UNKNOWN for device in nvidia)
        assert set(others) == {d for d in whole.devices if d.vendor is not Vendor("nvidia")}

        for vendor in vendors:
            cluster.agents[f"agent-{vendor}"] = refused
        outcome, updates = await one_round(agents)
        assert isinstance(updates["node-a"], NodeFailure)
        assert not outcome.up


async def test_devices_of_an_agent_that_is_not_ready_stay_listed_beside_another_agent() -> None:
    cluster = StubCluster()
    for vendor in ("amd", "nvidia"):
        cluster.add_agent(f"agent-{vendor}", "node-a", answering(vendor_agent(vendor, vendor), age=1.0))
    async with agents_of(cluster) as agents:
        _, updates = await one_round(agents)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        before = {device.id for device in report.snapshot.devices}
        pod = cluster.pods["agent-nvidia"]
        pod["status"]["conditions"][0]["status"] = "False"
        cluster.put("pods", pod)
        while agents._pods.items["accelscope-system/agent-nvidia"].ready:
            await asyncio.sleep(0.02)
        _, updates = await one_round(agents)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert {device.id for device in report.snapshot.devices} == before
        stale = {device.vendor for device in report.snapshot.devices if device.stale}
        assert stale == {Vendor("nvidia")}
        reasons = {device.health.reason for device in report.snapshot.devices if device.stale}
        assert reasons == {"its agent does not respond: the agent's pod agent-nvidia is not ready"}


async def test_a_node_with_several_agents_that_all_fail_names_each_reason() -> None:
    cluster = StubCluster()
    cluster.add_agent("agent-a", "node-a", refused)
    cluster.add_agent("agent-b", "node-a", answering(b"<html>"))
    async with agents_of(cluster) as agents:
        _, updates = await one_round(agents)
        failure = updates["node-a"]
        assert isinstance(failure, NodeFailure)
        assert "connection refused" in failure.text
        assert "agent-b sent an invalid snapshot" in failure.text


async def test_each_device_is_listed_once_during_a_rollout_of_agents() -> None:
    cluster = StubCluster()
    old = {**document(), "labels": [["which", "old"]]}
    cluster.add_agent("agent-old", "node-a", answering(old, age=20.0))
    cluster.add_agent("agent-new", "node-a", answering(document(), age=1.0))
    async with agents_of(cluster) as agents:
        _, updates = await one_round(agents)
        report = updates["node-a"]
        assert isinstance(report, NodeReport)
        assert len(report.snapshot.devices) == len(document()["devices"])
        assert report.snapshot.labels == read_snapshot(document()).labels


async def test_concurrency_is_limited() -> None:
    cluster = StubCluster()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0.01)
        return await answering(document())(request)

    for number in range(30):
        cluster.add_agent(f"agent-{number}", f"node-{number}", answer)
    async with agents_of(cluster, concurrency=4) as agents:
        outcome, _ = await one_round(agents)
        assert outcome.answered == 30
        assert cluster.most_at_once <= 4


async def test_a_refresh_ends_early_when_no_agent_is_reachable() -> None:
    cluster = StubCluster()
    for number in range(200):
        cluster.add_agent(f"agent-{number}", f"node-{number}", hang)
    # The timeout also applies to the list of pods.
    async with agents_of(cluster, concurrency=16, timeout_seconds=3.0) as agents:
        outcome, updates = await one_round(agents)
        assert not outcome.up
        assert outcome.reason == "timeout"
        assert outcome.expected == 200
        assert len(updates) < 64


async def test_missing_permission_to_list_pods_is_reported() -> None:
    cluster = StubCluster()
    cluster.refusal = lambda request: (
        status(403, "pods is forbidden") if request.path.endswith("/pods") else None
    )
    async with agents_of(cluster) as agents:
        outcome, updates = await one_round(agents)
        assert not updates
        assert (outcome.up, outcome.reason) == (False, "forbidden")


async def test_agents_can_be_read_directly() -> None:
    cluster = StubCluster()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.path == "/snapshot"
        assert "Authorization" not in request.headers
        return await answering(document(), tag='"1"', age=1.0)(request)

    async with served(answer) as agent:
        cluster.add_agent("agent-a", "node-a", answering({}), port=agent.port)
        async with agents_of(cluster, AgentsEntry(via="direct")) as agents:
            _, updates = await one_round(agents)
            assert isinstance(updates["node-a"], NodeReport)
            _, updates = await one_round(agents)
            assert isinstance(updates["node-a"], NodeUnchanged)
        assert len(agent.requests) == 2
