"""/api/v1/gpu, the replacement for the API of exec-based collectors."""

import time
from math import inf
from typing import Any

import pytest
from tests.fleet.api.serving import GIB, OK, nvidia, report, serving, snapshot, view
from tests.fleet.loop import run
from tests.fleet.store.nodes import KubernetesNode

from accelscope.fleet.rows import SourceView
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.model import Device, Pcie, Process, Vendor

NODE = ["node_name", "cluster_id", "gpus", "gpu_count", "total_memory_mb", "labels"]
GPU = [
    *("index", "uuid", "name", "driver_version", "temperature_celsius", "utilization_gpu_percent"),
    *(
        "utilization_memory_percent",
        "memory_total_mb",
        "memory_used_mb",
        "memory_free_mb",
        "power_draw_watts",
    ),
    *("power_limit_watts", "pcie_generation", "pcie_link_width", "fan_speed_percent"),
]
PROCESS = [
    *("pid", "gpu_index", "process_type", "sm_utilization", "memory_utilization", "encoder_utilization"),
    *("decoder_utilization", "fb_memory_mb", "command", "node_name", "cluster_id"),
]
SUMMARY = [
    *("cluster_id", "node_count", "gpu_count", "total_memory_mb", "used_memory_mb"),
    *("memory_utilization_percent", "average_gpu_utilization_percent", "average_temperature_celsius"),
]


async def test_fields_of_exec_based_collectors_come_first() -> None:
    async with serving() as client:
        [alpha, *_] = await client.get("/api/v1/gpu/nodes?cluster_id=berlin")
        assert list(alpha)[: len(NODE)] == NODE
        assert list(alpha["gpus"][0])[: len(GPU)] == GPU
        assert {"age_seconds", "stale", "simulated"} <= set(alpha)
        [process, *_] = await client.get("/api/v1/gpu/processes?cluster_id=berlin")
        assert list(process)[: len(PROCESS)] == PROCESS
        summary = await client.get("/api/v1/gpu/summary?cluster_id=berlin")
        assert list(summary)[: len(SUMMARY)] == SUMMARY


async def test_values_are_percent_and_mb_or_null() -> None:
    async with serving() as client:
        alpha = await client.get("/api/v1/gpu/nodes/berlin/alpha")
        first, second = alpha["gpus"]
        assert first["utilization_gpu_percent"] == 50
        assert first["memory_total_mb"] == 81920
        assert first["memory_free_mb"] == 61440
        assert first["power_draw_watts"] == 350.5
        assert (first["pcie_generation"], first["pcie_link_width"]) == (5, 16)
        assert second["utilization_gpu_percent"] is None
        assert second["memory_free_mb"] is None
        assert second["fan_speed_percent"] is None
        assert alpha["gpu_count"] == 2
        assert alpha["total_memory_mb"] == 163840
        assert alpha["labels"] == {"zone": "a"}


async def test_numbers_have_one_decimal() -> None:
    store = FleetStore()
    store.declare([view("c")])
    odd = nvidia(0, utilization_ratio=1 / 3, memory_used_bytes=GIB // 3, temperature_celsius=61.26)
    store.take("c", report(snapshot("n", (odd,))))
    async with serving(store) as client:
        [gpu] = (await client.get("/api/v1/gpu/nodes/c/n"))["gpus"]
        assert gpu["utilization_gpu_percent"] == 33.3
        assert gpu["memory_used_mb"] == 341.3
        assert gpu["temperature_celsius"] == 61.3
        [summary] = await client.get("/api/v1/gpu/summary")
        assert summary["average_gpu_utilization_percent"] == 33.3
        assert summary["used_memory_mb"] == 341.3
        assert summary["memory_utilization_percent"] == 0.4


async def test_a_node_is_found_by_path_and_by_parameter() -> None:
    async with serving() as client:
        by_path = await client.get("/api/v1/gpu/nodes/berlin/beta")
        by_parameter = await client.get("/api/v1/gpu/nodes/beta?cluster_id=berlin")
        del by_path["age_seconds"], by_parameter["age_seconds"]
        assert by_path == by_parameter
        problem = await client.get("/api/v1/gpu/nodes/beta", 400)
        assert problem["parameter"] == "cluster_id"
        await client.get("/api/v1/gpu/nodes/berlin/gamma", 404)


async def test_npus_are_not_gpus() -> None:
    async with serving() as client:
        nodes = await client.get("/api/v1/gpu/nodes")
        assert [(node["cluster_id"], node["node_name"]) for node in nodes] == [
            ("berlin", "alpha"),
            ("berlin", "beta"),
            ("oslo", "fjord"),
        ]
        assert await client.get("/api/v1/gpu/nodes?cluster_id=paris") == []
        louvre = await client.get("/api/v1/gpu/nodes/paris/louvre")
        assert (louvre["gpus"], louvre["gpu_count"], louvre["total_memory_mb"]) == ([], 0, 0)


async def test_processes_are_of_three_types_and_filtered_by_node() -> None:
    async with serving() as client:
        processes = await client.get("/api/v1/gpu/processes?cluster_id=berlin&node_name=alpha")
        types = {process["pid"]: process["process_type"] for process in processes}
        assert types == {100: "compute", 101: "graphics", 102: "unknown"}
        [python] = [process for process in processes if process["pid"] == 100]
        assert (python["sm_utilization"], python["fb_memory_mb"], python["command"]) == (
            33.3,
            10240,
            "python",
        )
        assert python["memory_utilization"] is None
        assert await client.get("/api/v1/gpu/processes?node_name=beta") == []


async def test_unknown_values_are_omitted_from_averages() -> None:
    async with serving() as client:
        berlin = await client.get("/api/v1/gpu/summary?cluster_id=berlin")
        assert (berlin["node_count"], berlin["gpu_count"]) == (2, 4)
        assert berlin["average_gpu_utilization_percent"] == 50  # of two of the four
        assert berlin["average_temperature_celsius"] == 73.7  # (60 + 70 + 91) / 3
        assert (berlin["total_memory_mb"], berlin["used_memory_mb"]) == (3 * 81920, 3 * 20480)
        assert berlin["memory_utilization_percent"] == 25
        paris = await client.get("/api/v1/gpu/summary?cluster_id=paris")
        assert (paris["gpu_count"], paris["total_memory_mb"], paris["used_memory_mb"]) == (0, 0, 0)
        assert paris["average_temperature_celsius"] is None
        assert paris["memory_utilization_percent"] is None
        assert paris["simulated"] is True


async def test_without_a_cluster_the_summary_has_one_element_per_cluster() -> None:
    async with serving() as client:
        summaries = await client.get("/api/v1/gpu/summary")
        assert [summary["cluster_id"] for summary in summaries] == ["berlin", "oslo", "paris", "rome"]
        berlin = await client.get("/api/v1/gpu/summary?cluster_id=berlin")
        assert summaries[0] | {"age_seconds": None} == berlin | {"age_seconds": None}


async def test_counts_of_a_cluster_that_was_never_reached_are_null() -> None:
    async with serving() as client:
        rome = (await client.get("/api/v1/gpu/summary"))[-1]
        assert rome["cluster_id"] == "rome"
        for field in ("node_count", "gpu_count", "total_memory_mb", "used_memory_mb"):
            assert rome[field] is None
        assert rome["stale"] is True


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (SourceView(kind="agents"), ""),
        (SourceView(kind="exec", up=False, reason="forbidden", text="pods/exec is forbidden"), "forbidden"),
    ],
    ids=["not tried yet", "refused"],
)
async def test_a_cluster_that_was_not_read_yet_is_a_problem(source: SourceView, why: str) -> None:
    store = FleetStore()
    store.declare([view("c", sources=[source])])
    store.node_objects("c", {"n": KubernetesNode({"nvidia.com/gpu": 8})})
    store.tick()
    async with serving(store) as client:
        for path in ("nodes", "processes", "summary"):
            status, headers, content = await client.ask(f"/api/v1/gpu/{path}?cluster_id=c")
            assert (status, headers["Retry-After"]) == (503, "15")
            assert b"not-read-yet" in content
            assert why.encode() in content
        [summary] = await client.get("/api/v1/gpu/summary")
        assert (summary["gpu_count"], summary["total_memory_mb"]) == (None, None)
        cluster = await client.get("/api/v1/clusters/c")
        assert (cluster["nodes"], cluster["devices"]) == (1, None), "its Node object is known"
        store.describe(view("c", sources=[SourceView(kind="agents", up=True)]))
        for path in ("nodes?cluster_id=c", "nodes/c/n"):  # it has GPUs that were not read
            problem = await client.get(f"/api/v1/gpu/{path}", 503)
            assert problem["type"].endswith("not-read-yet")
            assert "no source reported it" in problem["detail"]
        store.node_objects("c", {"n": KubernetesNode()})
        store.tick()
        for path in ("nodes", "processes"):  # it was read and has no GPU
            assert await client.get(f"/api/v1/gpu/{path}?cluster_id=c") == []


_DOWN = SourceView(kind="agents", up=False, reason="unreachable", text="2 of 2 nodes failed", expected=2)
_NO_ANNOTATION = SourceView(kind="annotations", up=True, succeeded_at=1.0)


@pytest.mark.parametrize("agents", [_DOWN, SourceView(kind="agents")], ids=["down", "not tried yet"])
@pytest.mark.parametrize("offered", [{"nvidia.com/gpu": 8}, {}], ids=["offers GPUs", "offers nothing"])
async def test_a_source_without_nodes_does_not_count_as_a_reading(
    agents: SourceView, offered: dict[str, int]
) -> None:
    store = FleetStore()
    store.declare([view("c", sources=[agents, _NO_ANNOTATION])])
    store.node_objects("c", {"n": KubernetesNode(offered)})
    store.tick()
    async with serving(store) as client:
        for path in ("nodes", "processes", "summary"):
            problem = await client.get(f"/api/v1/gpu/{path}?cluster_id=c", 503)
            assert problem["type"].endswith("not-read-yet")
        [summary] = await client.get("/api/v1/gpu/summary")
        assert (summary["node_count"], summary["gpu_count"]) == (None, None)
        assert (await client.get("/api/v1/clusters/c"))["devices"] is None


@pytest.mark.parametrize(
    ("offered", "gpus"), [({"nvidia.com/gpu": 8}, None), ({"huawei.com/Ascend910": 8}, 0), ({}, 0)]
)
async def test_reading_npus_does_not_count_as_reading_gpus(offered: dict[str, int], gpus: int | None) -> None:
    npu = Device(vendor=Vendor("ascend"), id="ascend:A1", health=OK)
    store = FleetStore()
    store.declare([view("c")])
    store.take("c", report(snapshot("npus", (npu,))))
    store.node_objects("c", {"npus": KubernetesNode(), "silent": KubernetesNode(offered)})
    store.tick()
    async with serving(store) as client:
        [summary] = await client.get("/api/v1/gpu/summary")
        assert (summary["gpu_count"], summary["total_memory_mb"]) == (gpus, gpus)
        for path in ("nodes", "processes", "summary"):
            await client.get(f"/api/v1/gpu/{path}?cluster_id=c", 503 if gpus is None else 200)
        assert (await client.get("/api/v1/gpu/nodes/c/npus"))["gpus"] == [], "this node was read"


@pytest.mark.parametrize("path", ["nodes", "processes", "summary"])
def test_a_named_cluster_is_checked(path: str) -> None:
    async def body() -> None:
        async with serving() as client:
            unknown = await client.get(f"/api/v1/gpu/{path}?cluster_id=atlantis", 404)
            assert unknown["cluster"] == "atlantis"
            without = await client.get(f"/api/v1/gpu/{path}?cluster_id=bonn", 400)
            assert without["type"].endswith("no-gpu-capability")
            status, headers, body = await client.ask(f"/api/v1/gpu/{path}?cluster_id=rome")
            assert (status, headers["Retry-After"]) == (503, "15")
            assert b"refused" in body
            assert await client.get(f"/api/v1/gpu/{path}?cluster_id=oslo") is not None

    run(body())


async def test_an_unreachable_cluster_keeps_its_last_values_and_their_age() -> None:
    async with serving() as client:
        [fjord] = await client.get("/api/v1/gpu/nodes?cluster_id=oslo")
        assert fjord["stale"] is True
        assert 299 < fjord["age_seconds"] < 330
        summary = await client.get("/api/v1/gpu/summary?cluster_id=oslo")
        assert summary["stale"] is True
        assert 299 < summary["age_seconds"] < 330


async def test_a_cluster_without_gpus_returns_an_empty_list() -> None:
    store = FleetStore()
    store.declare([view("empty", gpu=False)])  # reached, and found to have none
    async with serving(store) as client:
        for path in ("nodes", "processes"):
            assert await client.get(f"/api/v1/gpu/{path}?cluster_id=empty") == []
        summary = await client.get("/api/v1/gpu/summary?cluster_id=empty")
        assert summary["gpu_count"] == 0


async def test_a_store_with_nodes_counts_as_a_reached_cluster() -> None:
    store = FleetStore()
    store.declare([view("c", reachable=False, succeeded_at=None)])
    store.take("c", report(snapshot("n", (nvidia(0),))))
    async with serving(store) as client:
        nodes: list[Any] = await client.get("/api/v1/gpu/nodes?cluster_id=c")
        assert len(nodes) == 1


async def test_values_beyond_64_bits_are_null_and_omitted_from_sums() -> None:
    store = FleetStore()
    store.declare([view("c")])
    endless = nvidia(
        0,
        index=10**39,
        utilization_ratio=inf,
        memory_total_bytes=10**39,
        memory_used_bytes=10**39,
        memory_free_bytes=10**39,
        temperature_celsius=-inf,
        power_watts=1e308,
        pcie=Pcie(generation=10**39, width=16),
    )
    process = Process(pid=7, device="nvidia:GPU-0", memory_bytes=10**39, utilization_ratio=1e308)
    store.take("c", report(snapshot("n", (endless, nvidia(1)), processes=(process,))))
    async with serving(store) as client:
        [node] = await client.get("/api/v1/gpu/nodes")
        gpu = next(gpu for gpu in node["gpus"] if gpu["uuid"] == "GPU-0")
        absent = {name for name, value in gpu.items() if value is None}
        assert absent == {
            *("index", "utilization_gpu_percent", "memory_total_mb", "memory_used_mb", "memory_free_mb"),
            *("temperature_celsius", "power_draw_watts", "pcie_generation", "fan_speed_percent"),
        }
        assert gpu["pcie_link_width"] == 16
        assert node["total_memory_mb"] == 81920
        [summary] = await client.get("/api/v1/gpu/summary")
        assert (summary["total_memory_mb"], summary["used_memory_mb"]) == (81920, 20480)
        assert summary["memory_utilization_percent"] == 25
        assert summary["average_gpu_utilization_percent"] == 50
        assert summary["average_temperature_celsius"] == 60
        [shown] = await client.get("/api/v1/gpu/processes")
        assert (shown["pid"], shown["fb_memory_mb"], shown["sm_utilization"]) == (7, None, None)
        fields = "index,memory_total_bytes,temperature_celsius,power_watts,pcie_width"
        columns = (await client.get(f"/api/v1/devices/columns?fields={fields}"))["fields"]
        assert {name: column["values"] for name, column in columns.items()} == {
            "index": [None, 1],
            "memory_total_bytes": [None, 80 * GIB],
            "temperature_celsius": [None, 60],
            "power_watts": [None, 350.5],
            "pcie_width": [16, 16],
        }


async def test_a_ratio_that_overflows_is_null() -> None:
    store = FleetStore()
    store.declare([view("c")])
    store.take("c", report(snapshot("n", (nvidia(0, memory_total_bytes=1, memory_used_bytes=2**62),))))
    async with serving(store) as client:
        [summary] = await client.get("/api/v1/gpu/summary")
        assert summary["memory_utilization_percent"] is None


async def test_a_cluster_whose_gpus_are_all_stale_is_stale() -> None:
    store = FleetStore()
    store.declare([view("c"), view("empty")])
    store.take("c", report(snapshot("old", (nvidia(0),)), age=300))
    store.tick(time.time())
    async with serving(store) as client:
        stale = {item["cluster_id"]: item["stale"] for item in await client.get("/api/v1/gpu/summary")}
        assert stale == {"c": True, "empty": False}
        store.take("c", report(snapshot("new", (nvidia(1),))))
        summary = await client.get("/api/v1/gpu/summary?cluster_id=c")
        assert not summary["stale"]
