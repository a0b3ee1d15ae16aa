"""A simulated fleet as its clients see it: list, watch, the pod proxy, exec, and faults on demand."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.fleet.loop import run

from accelscope.fleet.clusters import load_clusters
from accelscope.model import HealthState, Snapshot
from accelscope.model.wire import SchemaError, read_snapshot
from accelscope.simulate.fleet.description import read_fleet
from accelscope.simulate.fleet.faults import read_fleet_fault, write_faults
from accelscope.simulate.fleet.fleet import SimulatedFleet
from accelscope.simulate.spec import Description

AGENTS = "app.kubernetes.io/name=accelscope,app.kubernetes.io/component=agent"
DESCRIPTION = """
interval_seconds: 10
variants: 2
clusters:
  - id: one
    name: The first
    driver_pods: true
    nodes:
      - {node: nvidia-shared, count: 3, name: gpu}
      - {node: ascend-910b-x8, name: npu}
  - {id: two, nodes: [{node: nvidia-shared, name: gpu}]}
"""


class Client:
    """Asks the clusters of a fleet whose time stands still unless it is moved."""

    def __init__(self, fleet: SimulatedFleet, session: aiohttp.ClientSession, hand: list[float]) -> None:
        self.fleet = fleet
        self._session = session
        self._hand = hand

    def move(self, seconds: float) -> None:
        self._hand[0] += seconds
        self.fleet.step()

    def set_faults(self, *documents: dict[str, Any]) -> None:
        nodes = self.fleet.spec.nodes()
        write_faults(
            self.fleet.folder, [read_fleet_fault(Description(one, "fault"), nodes) for one in documents]
        )
        self.fleet.step()

    def request(self, cluster: str, path: str, **headers: str) -> Any:
        token = (self.fleet.folder / "tokens" / cluster).read_text()
        told = {"Authorization": f"Bearer {token}", **headers}
        return self._session.get(self.fleet.urls[cluster] + path, headers=told)

    async def json(self, path: str, cluster: str = "one") -> Any:
        async with self.request(cluster, path) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def agents(self, cluster: str = "one") -> dict[str, str]:
        """Pods by node."""
        path = f"/api/v1/namespaces/accelscope-system/pods?labelSelector={AGENTS.replace('=', '%3D')}"
        pods = (await self.json(path, cluster))["items"]
        return {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in pods}

    async def document(self, node: str, cluster: str = "one") -> Any:
        return await self.json(snapshot_path((await self.agents(cluster))[node]), cluster)

    async def snapshot(self, node: str, cluster: str = "one") -> Snapshot:
        return read_snapshot(await self.document(node, cluster))


def snapshot_path(pod: str) -> str:
    return f"/api/v1/namespaces/accelscope-system/pods/{pod}:9400/proxy/snapshot"


@asynccontextmanager
async def running(folder: Path, description: str = DESCRIPTION) -> AsyncIterator[Client]:
    hand = [100.0]
    fleet = SimulatedFleet(read_fleet(description), folder, monotonic=lambda: hand[0])
    async with fleet.running(), aiohttp.ClientSession() as session:
        yield Client(fleet, session, hand)


async def test_the_servers_of_the_clusters_file_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        one, two = load_clusters(str(client.fleet.clusters_file))
        assert (one.id, one.name, one.simulated) == ("one", "The first", True)
        assert one.exec is not None
        assert two.exec is None
        assert (tmp_path / "tokens" / "one").stat().st_mode & 0o777 == 0o600
        assert (await client.json("/version"))["gitVersion"].startswith("v1.")
        assert sorted(await client.agents()) == ["gpu-0001", "gpu-0002", "gpu-0003", "npu-0001"]
        async with client.request("one", "/api/v1/nodes", Authorization="Bearer wrong") as response:
            assert response.status == 401


async def test_nodes_have_accelerators_labels_and_the_annotation_of_ascend(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        nodes = {n["metadata"]["name"]: n for n in (await client.json("/api/v1/nodes"))["items"]}
        assert nodes["gpu-0001"]["status"]["allocatable"]["nvidia.com/gpu"] == "2"
        assert nodes["gpu-0001"]["metadata"]["labels"]["nvidia.com/gpu.present"] == "true"
        assert nodes["npu-0001"]["status"]["allocatable"]["huawei.com/Ascend910"] == "8"
        told = json.loads(nodes["npu-0001"]["metadata"]["annotations"]["k8s-monitor.io/npu-metrics"])
        assert len(told["chips"]) == 8
        assert all(isinstance(told["chips"][0][key], int) for key in ("npu", "temp", "hbm_used"))
        assert "k8s-monitor.io/npu-metrics" not in nodes["gpu-0001"]["metadata"]["annotations"]
        before = nodes["npu-0001"]["metadata"]["resourceVersion"]
        client.move(60)
        node = await client.json("/api/v1/nodes/npu-0001")
        assert int(node["metadata"]["resourceVersion"]) > int(before)


async def test_a_snapshot_changes_with_the_agents_reading_only(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        path = snapshot_path((await client.agents())["gpu-0001"])
        async with client.request("one", path, **{"Accept-Encoding": "identity"}) as response:
            tag, plain = response.headers["ETag"], await response.json()
            assert 0 <= float(response.headers["X-AccelScope-Age"]) <= 10
        async with client.request("one", path, **{"If-None-Match": tag}) as response:
            assert response.status == 304
        client.move(10)
        async with client.request("one", path, **{"If-None-Match": tag}) as response:
            assert response.status == 200
            assert response.headers["Content-Encoding"] == "gzip"
            later = await response.json()
        assert later["taken_at"] == pytest.approx(plain["taken_at"] + 10)
        joules = [[d["energy_joules"] for d in one["devices"]] for one in (plain, later)]
        assert all(before < after for before, after in zip(*joules, strict=True))


async def test_nodes_have_ids_of_their_own_and_memory_adds_up(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        snapshots = [await client.snapshot(name) for name in await client.agents()]
        snapshots.append(await client.snapshot("gpu-0001", "two"))
    for ids in (
        [device.id for one in snapshots for device in one.devices],
        [device.serial for one in snapshots for device in one.devices],
        [pod.uid for one in snapshots for pod in one.pods],
        [(pod.namespace, pod.name) for one in snapshots for pod in one.pods],
    ):
        assert len(ids) == len(set(ids))
    for one in snapshots:
        for device in one.devices:
            pods = sum(u.memory_used_bytes or 0 for u in one.pod_usages if u.device == device.id)
            others = sum(u.memory_used_bytes or 0 for u in one.unattributed if u.device == device.id)
            assert pods + others == device.memory_used_bytes
        known = {device.id for device in one.devices}
        assert {a.device for a in one.allocations} <= known
        assert {p.device for p in one.processes} <= known
    idle = [u for u in snapshots[0].pod_usages if u.allocated and u.idle_seconds]
    assert "notebook" in [usage.container for usage in idle]


async def test_processes_use_their_node_and_stay_the_ones_they_were(tmp_path: Path) -> None:
    """Also when something happens to the node, and it is no longer shown as others are."""

    def starts(snapshot: Snapshot) -> dict[int, float | None]:
        return {process.pid: process.started_at for process in snapshot.processes}

    def cpu(snapshot: Snapshot, name: str) -> float:
        return sum(process.cpu_ratio or 0.0 for process in snapshot.processes if process.name == name)

    async with running(tmp_path) as client:
        one, other = await client.snapshot("gpu-0001"), await client.snapshot("gpu-0002")
        for process in one.processes:
            assert process.started_at is not None
            assert one.taken_at - 90 * 86_400 < process.started_at < one.taken_at
            assert process.cpu_ratio is not None
            assert process.resident_memory_bytes is not None
            assert process.resident_memory_bytes > 0
        assert set(starts(one).values()).isdisjoint(starts(other).values())
        client.move(10)
        later = await client.snapshot("gpu-0001")
        assert starts(later) == starts(one)
        assert [p.cpu_ratio for p in later.processes] != [p.cpu_ratio for p in one.processes]
        client.set_faults({"kind": "idle", "cluster": "one", "node": "gpu-0001", "process": "tritonserver"})
        for _ in range(3):
            client.move(10)
            idle = await client.snapshot("gpu-0001")
        assert starts(idle) == starts(one)
        assert cpu(idle, "tritonserver") < cpu(one, "tritonserver") / 2


async def test_a_watch_reports_nodes_that_disappear_and_return(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        version = (await client.json("/api/v1/nodes"))["metadata"]["resourceVersion"]
        path = f"/api/v1/nodes?watch=true&resourceVersion={version}&timeoutSeconds=30"
        async with client.request("one", path) as response:
            client.set_faults({"kind": "node_gone", "cluster": "one", "node": "gpu-0002"})
            gone = json.loads(await response.content.readline())
            assert (gone["type"], gone["object"]["metadata"]["name"]) == ("DELETED", "gpu-0002")
            assert "gpu-0002" not in await client.agents()
            client.set_faults()
            back = json.loads(await response.content.readline())
            assert (back["type"], back["object"]["metadata"]["name"]) == ("ADDED", "gpu-0002")
            assert "gpu-0002" in await client.agents()
        async with client.request("one", "/api/v1/nodes?watch=true&resourceVersion=1") as response:
            assert response.status == 410


async def test_lists_are_paged_and_selected(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        first = await client.json("/api/v1/nodes?limit=3")
        rest = await client.json(f"/api/v1/nodes?limit=3&continue={first['metadata']['continue']}")
        assert [len(first["items"]), len(rest["items"])] == [3, 1]
        assert "continue" not in rest["metadata"]
        for selector, count in (
            ("nvidia.com/gpu.present", 3),
            ("!nvidia.com/gpu.present", 1),
            ("kubernetes.io/hostname in (gpu-0001, gpu-0003)", 2),
            ("kubernetes.io/hostname notin (gpu-0001)", 3),
            ("kubernetes.io/os=linux,kubernetes.io/hostname!=gpu-0001", 3),
        ):
            found = await client.json(f"/api/v1/nodes?labelSelector={selector.replace('=', '%3D')}")
            assert len(found["items"]) == count, selector
        async with client.request("one", "/api/v1/nodes?fieldSelector=spec.color%3Dred") as response:
            assert response.status == 400


async def test_nvidia_smi_in_a_driver_pod_matches_the_agent(tmp_path: Path) -> None:
    async def ask(client: Client, pod: str, *command: str) -> tuple[str, Any]:
        words = "&".join(f"command={word}" for word in command)
        url = client.fleet.urls["one"] + f"/api/v1/namespaces/gpu-operator/pods/{pod}/exec?{words}&stdout=1"
        token = (client.fleet.folder / "tokens" / "one").read_text()
        headers = {"Authorization": f"Bearer {token}"}
        frames: dict[int, bytes] = {}
        async with aiohttp.ClientSession() as session:
            protocols = ("v5.channel.k8s.io", "v4.channel.k8s.io")
            async with session.ws_connect(url, protocols=protocols, headers=headers) as socket:
                assert socket.protocol == "v5.channel.k8s.io"
                async for message in socket:
                    frames[message.data[0]] = frames.get(message.data[0], b"") + message.data[1:]
        return frames.get(1, b"").decode(), json.loads(frames[3])

    async with running(tmp_path) as client:
        pods = (await client.json("/api/v1/namespaces/gpu-operator/pods"))["items"]
        assert len(pods) == 3
        pod = next(p["metadata"]["name"] for p in pods if p["spec"]["nodeName"] == "gpu-0001")
        query = "--query-gpu%3Duuid,utilization.gpu,memory.used"
        text, status = await ask(client, pod, "nvidia-smi", query, "--format%3Dcsv,noheader,nounits")
        snapshot = await client.snapshot("gpu-0001")
        told = [line.split(", ") for line in text.splitlines()]
        assert status["status"] == "Success"
        assert told == [
            [d.uuid, str(round(100 * (d.utilization_ratio or 0))), str((d.memory_used_bytes or 0) >> 20)]
            for d in snapshot.devices
        ]
        text, _ = await ask(client, pod, "nvidia-smi", query, "--format%3Dcsv")
        assert text.splitlines()[0] == "uuid, utilization.gpu [%], memory.used [MiB]"
        text, _ = await ask(client, pod, "nvidia-smi", "pmon", "-s", "um", "-c", "1")
        assert {int(line.split()[1]) for line in text.splitlines()[2:]} == {p.pid for p in snapshot.processes}
        _, status = await ask(client, pod, "sh", "-c", "true")
        assert status["details"]["causes"][0]["message"] == "127"


async def test_a_device_fault_affects_only_the_snapshot_of_its_node(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        well = await client.snapshot("gpu-0001")
        client.set_faults(
            {"kind": "hot", "cluster": "one", "node": "gpu-0001", "device": 0},
            {"kind": "lost", "cluster": "one", "node": "gpu-0001", "device": 1},
            {"kind": "ecc_storm", "cluster": "one", "node": "npu-0001", "device": 3},
        )
        client.move(20)
        hot, lost = (await client.snapshot("gpu-0001")).devices
        assert hot.health.state is HealthState.WARNING
        assert hot.temperature_celsius is not None
        assert hot.temperature_celsius > (hot.temperature_slowdown_celsius or 0)
        assert (hot.energy_joules or 0) > (well.devices[0].energy_joules or 0)
        assert (lost.health.state, lost.stale, lost.power_watts) == (HealthState.LOST, True, None)
        assert lost.id == well.devices[1].id
        assert (await client.snapshot("npu-0001")).devices[3].health.state is HealthState.CRITICAL
        assert all(d.health.state is HealthState.OK for d in (await client.snapshot("gpu-0002")).devices)
        client.set_faults()
        client.move(20)
        mended = await client.snapshot("gpu-0001")
        assert mended.devices[0].health.state is HealthState.OK
        storm = (await client.snapshot("npu-0001")).devices[3].ecc
        assert any(count.severity == "uncorrected" and count.count for count in storm)


async def test_a_workload_may_have_idled_since_before_the_start(tmp_path: Path) -> None:
    faults = "faults: [{kind: idle, cluster: one, node: gpu-0001, process: tritonserver, from: -2400}]"
    async with running(tmp_path, DESCRIPTION + faults) as client:
        for later in (0, 10):
            client.move(later)
            snapshot = await client.snapshot("gpu-0001")
            usage = next(u for u in snapshot.pod_usages if u.container == "tritonserver")
            assert not usage.utilization_ratio
            assert usage.idle_seconds is not None
            assert 2400 + later - 20 <= usage.idle_seconds <= 2400 + later + 60
            assert min(p.started_at or 0 for p in snapshot.processes) < snapshot.taken_at - 2400
        other = await client.snapshot("gpu-0002")
        assert all((u.idle_seconds or 0) < 2400 for u in other.pod_usages)


async def test_an_idle_workload_keeps_its_memory(tmp_path: Path) -> None:
    def usage(snapshot: Snapshot, container: str) -> Any:
        return next(u for u in snapshot.pod_usages if u.container == container)

    async with running(tmp_path) as client:
        before = usage(await client.snapshot("gpu-0001"), "tritonserver")
        assert before.utilization_ratio
        client.set_faults({"kind": "idle", "cluster": "one", "node": "gpu-0001", "process": "tritonserver"})
        for _ in range(3):
            client.move(10)
            idle = usage(await client.snapshot("gpu-0001"), "tritonserver")
        assert not idle.utilization_ratio
        assert idle.memory_used_bytes == before.memory_used_bytes
        assert idle.idle_seconds >= 10
        assert idle.energy_joules >= before.energy_joules


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ({"kind": "agent_down"}, 503),
        ({"kind": "agent_garbage"}, 200),
        ({"kind": "agent_slow", "seconds": 0.2}, 200),
    ],
    ids=str,
)
async def test_an_agent_that_misbehaves(tmp_path: Path, fault: dict[str, Any], status: int) -> None:
    async with running(tmp_path) as client:
        client.set_faults({**fault, "cluster": "one", "node": "gpu-0002"})
        pods = await client.agents()
        async with client.request("one", snapshot_path(pods["gpu-0002"])) as response:
            body = await response.read()
            assert response.status == status
        if fault["kind"] == "agent_garbage":
            with pytest.raises(json.JSONDecodeError):
                json.loads(body)
        await client.snapshot("gpu-0001")


async def test_a_hanging_agent_does_not_delay_others(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        client.set_faults(
            {"kind": "agent_hang", "cluster": "one", "node": "gpu-0002"},
            {"kind": "api_hang", "cluster": "two"},
        )
        pod = (await client.agents())["gpu-0002"]
        for cluster, path in (("one", snapshot_path(pod)), ("two", "/version")):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3), client.request(cluster, path):
                    pass
        await client.snapshot("gpu-0001")


@pytest.mark.parametrize(
    ("version", "readable"), [("1.0", True), ("1.1", True), ("1.9", True), ("2.0", False)]
)
def test_an_agent_of_another_schema(tmp_path: Path, version: str, readable: bool) -> None:
    async def check() -> None:
        async with running(tmp_path) as client:
            whole = await client.snapshot("gpu-0001")
            fault = {"kind": "agent_schema", "schema": version, "cluster": "one", "node": "gpu-0001"}
            client.set_faults(fault)
            document = await client.document("gpu-0001")
            assert document["schema_version"] == version
            if not readable:
                with pytest.raises(SchemaError, match=version):
                    read_snapshot(document)
                return
            read = read_snapshot(document)
            assert [device.id for device in read.devices] == [device.id for device in whole.devices]
            assert bool(read.pods) is (version != "1.0")
            assert all((process.owner is not None) is (version != "1.0") for process in read.processes)
            known = [process.started_at is not None for process in read.processes]
            assert known == [version == "1.9"] * len(whole.processes)

    run(check())


@pytest.mark.parametrize(
    ("kind", "status"), [("api_unauthorized", 401), ("api_forbidden", 403), ("api_garbage", 200)]
)
async def test_an_api_server_that_misbehaves(tmp_path: Path, kind: str, status: int) -> None:
    async with running(tmp_path) as client:
        client.set_faults({"kind": kind, "cluster": "one"})
        async with client.request("one", "/api/v1/nodes") as response:
            body = await response.read()
            assert response.status == status
        if status == 200:
            with pytest.raises(json.JSONDecodeError):
                json.loads(body)
        await client.agents("two")
        client.set_faults()
        await client.agents("one")


async def test_an_api_server_that_is_down_or_never_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        client.set_faults({"kind": "api_down", "cluster": "one"}, {"kind": "api_flood", "cluster": "two"})
        with pytest.raises(aiohttp.ClientError):
            async with client.request("one", "/api/v1/nodes"):
                pass
        async with client.request("two", "/api/v1/nodes") as response:
            assert len(await response.content.readexactly(5 << 20)) == 5 << 20


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (b"- {kind: nonsense, cluster: one}\n", '"nonsense" is not one of'),
        (b"- {kind: \xff}\n", "faults.yaml: not UTF-8 text"),
    ],
)
def test_faults_of_the_description_have_times_and_a_bad_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes, told: str
) -> None:
    described = f"{DESCRIPTION}faults:\n  - {{kind: api_forbidden, cluster: one, from: 30, until: 60}}\n"

    async def check() -> None:
        async with running(tmp_path, described) as client:
            client.set_faults({"kind": "agent_down", "cluster": "two", "node": "gpu-0001"})
            (tmp_path / "faults.yaml").write_bytes(bad)
            seen = []
            for _ in range(4):
                async with client.request("one", "/version") as response:
                    seen.append(response.status)
                client.move(20)
            assert seen == [200, 200, 403, 200]
            pod = (await client.agents("two"))["gpu-0001"]
            async with client.request("two", snapshot_path(pod)) as response:
                assert response.status == 503

    run(check())
    assert told in caplog.text


async def test_a_compressed_answer_is_the_plain_one(tmp_path: Path) -> None:
    async with running(tmp_path) as client, aiohttp.ClientSession(auto_decompress=False) as session:
        raw = Client(client.fleet, session, [0.0])
        path = snapshot_path((await client.agents())["gpu-0001"])
        async with raw.request("one", path, **{"Accept-Encoding": "gzip"}) as response:
            packed = gzip.decompress(await response.read())
        async with raw.request("one", path, **{"Accept-Encoding": "identity"}) as response:
            assert await response.read() == packed
