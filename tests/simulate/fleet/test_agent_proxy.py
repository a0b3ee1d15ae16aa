"""What comes through the pod proxy of a simulated cluster: metrics, real agents, and agents in fault."""

from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from tests.simulate.fleet.test_fleet_server import DESCRIPTION, Client, running

from accelscope.model import AbsenceReason, HealthState
from accelscope.simulate import DescriptionError
from accelscope.simulate.fleet.description import fleet_text, read_fleet

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def page_path(pod: str, page: str = "metrics") -> str:
    return f"/api/v1/namespaces/accelscope-system/pods/{pod}:9400/proxy/{page}"


async def samples(client: Client, node: str) -> Samples:
    pod = (await client.agents())[node]
    async with client.request("one", page_path(pod)) as response:
        text = await response.text()
        assert response.status == 200, text
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float | None:
    wanted = set(labels.items())
    values = [number for (known, own), number in found.items() if known == name and wanted <= set(own)]
    assert len(values) <= 1
    return values[0] if values else None


async def test_metrics_match_the_snapshot(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        snapshot, before = await client.snapshot("gpu-0001"), await samples(client, "gpu-0001")
        for device in snapshot.devices:
            assert value(before, "accelerator_power_watts", device=device.id) == device.power_watts
        assert value(before, "accelscope_node_info", node="gpu-0001") == 1
        assert value(before, "accelscope_attribution_source_up", source="annotations") == 1
        assert await samples(client, "gpu-0001") == before
        client.move(10)
        after = await samples(client, "gpu-0001")
        assert (value(after, "accelscope_collections_total") or 0) > (
            value(before, "accelscope_collections_total") or 0
        )


@pytest.mark.parametrize(("schema", "pods"), [("1.0", False), ("2.0", True)])
async def test_an_agent_of_another_schema_has_metrics_too(tmp_path: Path, schema: str, pods: bool) -> None:
    async with running(tmp_path) as client:
        fault = {"kind": "agent_schema", "schema": schema, "cluster": "one", "node": "gpu-0001"}
        client.set_faults(fault)
        names = {name for name, _ in await samples(client, "gpu-0001")}
        assert "accelerator_power_watts" in names
        assert ("accelerator_pod_info" in names) is pods


async def test_failures_of_an_agent_are_counted_and_the_count_stays(tmp_path: Path) -> None:
    """For each: the fault, whether it is well, and what counts."""
    up = "accelscope_reader_up", "accelscope_attribution_source_up", "accelscope_sink_up"
    cases: list[tuple[str, str, tuple[str, dict[str, str]] | None, tuple[str, dict[str, str]]]] = [
        (
            "reader_hang",
            "gpu-0001",
            (up[0], {"vendor": "nvidia"}),
            ("accelscope_reader_errors_total", {"reason": "timeout"}),
        ),
        (
            "reader_garbage",
            "gpu-0001",
            None,
            ("accelscope_reader_rejected_values_total", {"reason": "unreadable"}),
        ),
        (
            "source_down",
            "gpu-0001",
            (up[1], {"source": "pods"}),
            ("accelscope_attribution_source_errors_total", {"reason": "unreachable"}),
        ),
        (
            "sink_down",
            "npu-0001",
            (up[2], {"sink": "annotation"}),
            ("accelscope_sink_errors_total", {"reason": "forbidden"}),
        ),
    ]
    async with running(tmp_path) as client:
        for kind, node, state, (family, labels) in cases:
            client.set_faults({"kind": kind, "cluster": "one", "node": node})
            client.move(30)
            ill = await samples(client, node)
            counted = value(ill, family, **labels)
            assert counted, kind
            client.set_faults()
            client.move(30)
            well = await samples(client, node)
            assert value(well, family, **labels) == counted, kind
            if state is not None:
                assert [value(each, state[0], **state[1]) for each in (ill, well)] == [0, 1], kind


async def test_devices_of_a_hanging_or_invalid_driver(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        client.set_faults({"kind": "reader_hang", "cluster": "one", "node": "gpu-0001"})
        client.move(20)
        silent = await client.snapshot("gpu-0001")
        assert {d.health.state for d in silent.devices} == {HealthState.UNKNOWN}
        assert all(device.stale for device in silent.devices)
        assert silent.processes == ()
        assert silent.readers[0].abandoned_calls == 1
        client.set_faults({"kind": "reader_garbage", "cluster": "one", "node": "gpu-0001"})
        client.move(20)
        first, second = (await client.snapshot("gpu-0001")).devices
        assert (first.power_watts, first.absent[-1].reason) == (None, AbsenceReason.UNREADABLE)
        assert second.power_watts


async def test_an_annotation_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        before = await client.json("/api/v1/nodes/npu-0001")
        client.set_faults({"kind": "sink_down", "cluster": "one", "node": "npu-0001"})
        client.move(120)
        assert await client.json("/api/v1/nodes/npu-0001") == before
        client.set_faults()
        client.move(60)
        assert await client.json("/api/v1/nodes/npu-0001") != before


async def test_errors_of_lost_devices_are_counted_at_every_reading(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        client.set_faults({"kind": "lost", "cluster": "one", "node": "gpu-0002", "device": 0})
        counts = []
        for _ in range(3):
            client.move(10)
            [lost] = (await client.snapshot("gpu-0002")).readers[0].errors
            counts.append(lost.count)
        assert counts[0] < counts[1] < counts[2]


async def test_a_real_agent_answers_in_the_place_of_a_simulated_one(tmp_path: Path) -> None:
    asked: list[dict[str, str]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append({"path": request.path, **request.headers})
        if request.headers.get("If-None-Match") == '"7"':
            return web.Response(status=304, headers={"ETag": '"7"'})
        headers = {"ETag": '"7"', "X-AccelScope-Age": "0.5", "Set-Cookie": "no=1"}
        return web.Response(text=f"this is {request.path}", headers=headers)

    server = web.ServerRunner(web.Server(answer))
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{server.addresses[0][1]}"
    lab = f"      - {{node: nvidia-shared, name: lab, agent_url: '{url}'}}\n"
    described = DESCRIPTION.replace("      - {node: ascend", f"{lab}      - {{node: ascend")
    async with running(tmp_path, described) as client:
        pod = (await client.agents())["lab-0001"]
        for page in ("metrics", "snapshot"):
            async with client.request("one", page_path(pod, page)) as response:
                assert await response.text() == f"this is /{page}"
                assert response.headers["X-AccelScope-Age"] == "0.5"
                assert "Set-Cookie" not in response.headers
        async with client.request("one", page_path(pod), **{"If-None-Match": '"7"'}) as response:
            assert response.status == 304
        assert all("Authorization" not in request for request in asked)
        await server.cleanup()
        async with client.request("one", page_path(pod)) as response:
            assert response.status == 503


def test_the_address_of_a_real_agent_is_of_one_node_and_kept() -> None:
    text = "clusters: [{{id: one, nodes: [{{node: nvidia-shared, {}}}]}}]"
    url = "agent_url: 'http://127.0.0.1:9400'"
    spec = read_fleet(text.format(url))
    assert read_fleet(fleet_text(spec)).clusters[0].groups[0].agent_url == "http://127.0.0.1:9400"
    for bad, problem in ((f"{url}, count: 2", "count"), ("agent_url: nowhere", "agent_url")):
        with pytest.raises(DescriptionError, match=problem):
            read_fleet(text.format(bad))


async def test_a_node_without_the_annotation_has_no_sink_to_fail(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        with pytest.raises(DescriptionError, match="agent writes an annotation"):
            client.set_faults({"kind": "sink_down", "cluster": "one", "node": "gpu-0001"})
