"""A small fleet behind a real server, for tests of the API."""

import hashlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from tests.fleet.store.nodes import KubernetesNode

from accelscope.fleet.api.access import AccessControl
from accelscope.fleet.api.app import listen, make_app
from accelscope.fleet.api.problem import DEFAULT_LIMITS, ApiLimits
from accelscope.fleet.history import FleetHistory
from accelscope.fleet.history_rings import HistoryStore
from accelscope.fleet.page import BuiltPage
from accelscope.fleet.rows import ClusterView, NodeFailure, NodeReport, SourceKind, SourceView
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.model import (
    AgentState,
    Allocation,
    AllocationSource,
    Device,
    Health,
    HealthState,
    Owner,
    OwnerKind,
    Pcie,
    Pod,
    PodUsage,
    Process,
    ProcessType,
    ReaderState,
    Snapshot,
    Vendor,
)

GIB = 1 << 30
MIB = 1 << 20
OK = Health(HealthState.OK)


def nvidia(number: int, **values: Any) -> Device:
    device = Device(
        vendor=Vendor("nvidia"),
        id=f"nvidia:GPU-{number}",
        index=number,
        model="NVIDIA H100 80GB HBM3",
        uuid=f"GPU-{number}",
        driver_version="570.86.15",
        health=OK,
        utilization_ratio=0.5,
        memory_utilization_ratio=0.25,
        memory_total_bytes=80 * GIB,
        memory_used_bytes=20 * GIB,
        memory_free_bytes=60 * GIB,
        temperature_celsius=60.0,
        power_watts=350.5,
        power_limit_watts=700.0,
        pcie=Pcie(generation=5, width=16),
    )
    return replace(device, **values)


def snapshot(node: str, devices: tuple[Device, ...], **values: Any) -> Snapshot:
    made = Snapshot(
        node=node,
        taken_at=time.time(),
        agent=AgentState(version="0.1.0", started_at=1.0),
        interval_seconds=10.0,
        readers=(ReaderState(vendor=Vendor("nvidia"), found=True, up=True, source="nvml"),),
        devices=devices,
    )
    return replace(made, **values)


def usage(device: str, pod: str, **values: Any) -> PodUsage:
    made = PodUsage(
        device=device,
        namespace="team-a",
        pod=pod,
        container="main",
        allocated=1,
        resources=("nvidia.com/gpu",),
    )
    return replace(made, **values)


def report(taken: Snapshot, *, age: float = 0.0) -> NodeReport:
    return NodeReport(
        node=taken.node,
        source=SourceKind.AGENTS,
        taken_at=time.time() - age,
        snapshot=taken,
    )


def view(id_: str, **values: Any) -> ClusterView:
    made = ClusterView(
        id=id_,
        gpu=True,
        reachable=True,
        succeeded_at=time.time(),
        sources=[SourceView(kind="agents", up=True)],
    )
    return msgspec.structs.replace(made, **values)


def fleet_store() -> FleetStore:
    """berlin: two GPU nodes, one of them with an unhealthy device; paris: an NPU node; oslo: unreachable;
    rome: never reached; bonn: declared without GPUs."""
    store = FleetStore()
    store.declare(
        [
            view("berlin", name="Berlin 1"),
            view("paris", simulated=True),
            view("oslo", reachable=False, reason="timeout", text="no answer", succeeded_at=time.time() - 300),
            view(
                "rome", reachable=False, reason="unreachable", text="refused", succeeded_at=None, sources=[]
            ),
            view("bonn", gpu=False, gpu_setting="false"),
        ]
    )
    fill(store)
    return store


def fill(store: FleetStore) -> None:
    alpha = snapshot(
        "alpha",
        (nvidia(0), nvidia(1, utilization_ratio=None, temperature_celsius=70.0, memory_free_bytes=None)),
        processes=(
            Process(
                pid=100,
                device="nvidia:GPU-0",
                device_index=0,
                name="python",
                type=ProcessType.BOTH,
                memory_bytes=10 * GIB,
                utilization_ratio=0.333,
                owner=Owner(
                    kind=OwnerKind.POD, namespace="team-a", pod="train-0", container="main", pod_uid="u-1"
                ),
            ),
            Process(pid=101, device="nvidia:GPU-1", device_index=1, name="Xorg", type=ProcessType.GRAPHICS),
            Process(pid=102, device="nvidia:GPU-1", device_index=1),
        ),
        pods=(Pod(uid="u-1", namespace="team-a", name="train-0", owner_kind="Job", owner_name="train"),),
        allocations=(
            Allocation(
                namespace="team-a",
                pod="train-0",
                container="main",
                source=AllocationSource.KUBELET,
                device_id="GPU-0",
                device="nvidia:GPU-0",
            ),
        ),
        pod_usages=(
            usage("nvidia:GPU-0", "train-0", processes=1, pod_uid="u-1", idle_seconds=0.0),
            usage("nvidia:GPU-1", "notebook-0", idle_seconds=7200.0, memory_used_bytes=GIB),
        ),
    )
    beta = snapshot(
        "beta",
        (
            nvidia(7, health=Health(HealthState.CRITICAL, "double-bit ECC errors"), temperature_celsius=91.0),
            Device(
                vendor=Vendor("amd"), id="amd:0001", index=0, model="AMD, Inc. [Instinct] MI300X", health=OK
            ),
        ),
        pod_usages=(
            usage("nvidia:GPU-7", "sleepy-0", idle_seconds=36000.0),
            usage("amd:0001", "sleepy-0", idle_seconds=18000.0, namespace="team-b"),
        ),
    )
    npu = Device(
        vendor=Vendor("ascend"), id="ascend:A1", index=0, model="910B", health=OK, temperature_celsius=40.0
    )
    store.take("berlin", report(alpha))
    store.take("berlin", report(beta))
    store.take("paris", report(snapshot("louvre", (npu,))))
    store.take("oslo", report(snapshot("fjord", (nvidia(3),)), age=300))
    store.take(
        "paris",
        NodeFailure(
            node="orsay",
            source=SourceKind.AGENTS,
            reason="bad_answer",
            text="schema 9.0, this reads 1.1",
            incompatible=True,
        ),
    )
    store.node_objects("berlin", {"alpha": KubernetesNode({"nvidia.com/gpu": 2}, {"zone": "a"})})
    store.node_objects("paris", {"orsay": KubernetesNode({"huawei.com/Ascend910": 8})})
    store.tick(time.time())


async def recorded(minutes: int = 3) -> FleetHistory:
    """The history of this fleet over the last minutes."""
    history, store, now = FleetHistory(), fleet_store(), time.time()
    for before in range(minutes - 1, -1, -1):
        await history.record(store, now - 60 * before)
    return history


TOKENS = """\
tokens:
  - name: everything
    sha256: {everything}
    scopes: [admin]
  - name: reader
    sha256: {reader}
  - name: parisian
    sha256: {parisian}
    clusters: [paris, rome]
"""


def tokens_file(folder: Path) -> Path:
    """The token of each entry is its name."""
    names = ("everything", "reader", "parisian")
    path = folder / "tokens.yaml"
    path.write_text(TOKENS.format(**{name: hashlib.sha256(name.encode()).hexdigest() for name in names}))
    return path


@dataclass
class Client:
    session: aiohttp.ClientSession
    base: str
    store: FleetStore
    app: web.Application
    refreshed: list[str]
    read_whole: list[tuple[str, str]]

    async def get(self, path: str, status: int = 200, **options: Any) -> Any:
        """The decoded response; fails if it has another status."""
        async with self.session.get(self.base + path, **options) as answer:
            body = await answer.read()
            assert answer.status == status, f"{path}: {answer.status} {body[:500]!r}"
            if status >= 400:
                assert answer.headers["Content-Type"] == "application/problem+json"
            return msgspec.json.decode(body) if body else None

    async def ask(
        self, path: str, method: str = "GET", **options: Any
    ) -> tuple[int, Mapping[str, str], bytes]:
        async with self.session.request(method, self.base + path, **options) as answer:
            return answer.status, answer.headers, await answer.read()


@asynccontextmanager
async def serving(
    store: FleetStore | None = None,
    *,
    access: AccessControl | None = None,
    limits: ApiLimits = DEFAULT_LIMITS,
    token: str | None = None,
    unready: str | None = None,
    history: FleetHistory | None = None,
    stored_history: HistoryStore | None = None,
    page: BuiltPage | None = None,
) -> AsyncIterator[Client]:
    store = fleet_store() if store is None else store
    refreshed: list[str] = []
    read_whole_nodes: list[tuple[str, str]] = []

    async def refresh(cluster: str) -> None:
        refreshed.append(cluster)

    async def read_whole(cluster: str, node: str) -> None:
        read_whole_nodes.append((cluster, node))

    app = make_app(
        store,
        history or FleetHistory(),
        access or AccessControl(),
        refresh=refresh,
        read_whole=read_whole,
        metrics=lambda: b"accelscope_fleet_up 1\n",
        unready=lambda: unready,
        stored_history=stored_history,
        limits=limits,
        page=page,
    )
    listener = await listen(app, host="127.0.0.1", port=0, limits=limits)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        async with aiohttp.ClientSession(headers=headers, auto_decompress=True) as session:
            yield Client(
                session, f"http://127.0.0.1:{listener.port}", store, app, refreshed, read_whole_nodes
            )
    finally:
        await listener.close()
