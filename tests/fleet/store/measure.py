"""The cost of the store at 10,000 nodes x 8 devices, each with a pod of 4 processes. It prints figures.

    python -m tests.fleet.store.measure [nodes]

Times are processor time, which depends less on the load of the machine.
"""

import gzip
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from uuid import UUID

import msgspec

from accelscope.fleet.rows import ClusterView, NodeReport, SourceKind
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.query import Condition, RowQuery, Sort
from accelscope.fleet.store.summary import namespaces, summarize
from accelscope.model import (
    AgentState,
    Clock,
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
    Sensor,
    Snapshot,
    Vendor,
)

CLUSTERS = 20
DEVICES = 8
PROCESSES = 4
STARTED = 1_700_000_000.0
_DECODER = msgspec.json.Decoder(Snapshot)


def node_snapshot(number: int, chance: random.Random) -> Snapshot:
    fixed = random.Random(number)
    devices, usages, processes, pods = [], [], [], []
    for index in range(DEVICES):
        uuid = f"GPU-{UUID(int=fixed.getrandbits(128))}"
        device = Device(
            vendor=Vendor("nvidia"),
            id=f"nvidia:{uuid}",
            index=index,
            model=fixed.choice(["H100 80GB HBM3", "A100-SXM4-80GB", "L40S"]),
            uuid=uuid,
            serial=str(fixed.randrange(10**12, 10**13)),
            pci_address=f"0000:{index * 16 + 12:02x}:00.0",
            driver_version="580.95.05",
            health=Health(HealthState.OK if chance.random() < 0.97 else HealthState.WARNING),
            utilization_ratio=chance.random(),
            memory_total_bytes=80 << 30,
            memory_used_bytes=chance.randrange(80 << 30),
            temperature_celsius=float(chance.randrange(30, 90)),
            power_watts=chance.random() * 700,
            power_limit_watts=700.0,
            energy_joules=chance.random() * 1e9,
            pcie=Pcie(generation=5, width=16),
            clocks=tuple(Clock(domain, 1.4e9, 2.0e9) for domain in ("graphics", "sm", "memory", "video")),
            sensors=(Sensor("gpu", 50.0), Sensor("memory", 60.0)),
        )
        devices.append(device)
        name = f"train-{number}-{index}-{fixed.getrandbits(40):x}"
        namespace = f"team-{fixed.randrange(100)}"
        uid = str(UUID(int=fixed.getrandbits(128)))
        pods.append(Pod(uid=uid, namespace=namespace, name=name, owner_kind="Job", owner_name=name[:12]))
        usages.append(
            PodUsage(
                device=device.id,
                namespace=namespace,
                pod=name,
                container="main",
                pod_uid=uid,
                processes=PROCESSES,
                memory_used_bytes=1 << 30,
                utilization_ratio=chance.random(),
                allocated=1,
                resources=("nvidia.com/gpu",),
                idle_seconds=chance.random() * 3600,
                energy_joules=chance.random() * 1e6,
            )
        )
        for _ in range(PROCESSES):
            processes.append(
                Process(
                    pid=fixed.randrange(1 << 22),
                    device=device.id,
                    device_index=index,
                    name=f"python{fixed.randrange(40)}",
                    user="1000",
                    type=ProcessType.COMPUTE,
                    memory_bytes=1 << 30,
                    utilization_ratio=chance.random() / PROCESSES,
                    owner=Owner(
                        kind=OwnerKind.POD, namespace=namespace, pod=name, container="main", pod_uid=uid
                    ),
                )
            )
    return Snapshot(
        node=node_name(number),
        taken_at=STARTED,
        agent=AgentState(version="1.0", started_at=STARTED),
        interval_seconds=10.0,
        devices=tuple(devices),
        processes=tuple(processes),
        pods=tuple(pods),
        pod_usages=tuple(usages),
    )


def node_name(number: int) -> str:
    return f"gpu-node-{number:05d}"


def reports(numbers: range, at: float) -> Iterator[tuple[str, NodeReport]]:
    chance = random.Random(at)
    for number in numbers:
        text = msgspec.json.encode(node_snapshot(number, chance))
        report = NodeReport(
            node=node_name(number),
            source=SourceKind.AGENTS,
            taken_at=at,
            snapshot=_DECODER.decode(text),
            document=gzip.compress(text, 5),
        )
        yield f"cluster-{number % CLUSTERS:02d}", report


def take_all(store: FleetStore, numbers: range, at: float) -> None:
    times = []
    for cluster, report in reports(numbers, at):
        start = time.process_time()
        store.take(cluster, report)
        times.append(time.process_time() - start)
    times.sort()
    mean, median = sum(times) / len(times), times[len(times) // 2]
    print(
        f"take {len(times)} nodes: mean {mean * 1e6:.0f} us, median {median * 1e6:.0f} us, "
        f"longest {times[-1] * 1e3:.1f} ms"
    )


def timed(what: str, question: Callable[[], object], times: int = 15) -> None:
    taken = []
    for _ in range(times):
        start = time.process_time()
        question()
        taken.append((time.process_time() - start) * 1e3)
    first = taken[0]
    taken.sort()
    print(f"{what:44} first {first:6.1f} ms, median {taken[times // 2]:6.1f} ms, longest {taken[-1]:6.1f} ms")


def resident_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    before = resident_mib()
    at = STARTED
    store = FleetStore(clock=lambda: at)
    store.declare([ClusterView(id=f"cluster-{number:02d}", reachable=True) for number in range(CLUSTERS)])
    take_all(store, range(nodes), at)
    take_all(store, range(nodes // 10), at + 10)
    print(f"resident {resident_mib():.0f} MiB, {before:.0f} MiB before")
    print(f"{len(store.devices)} devices, {len(store.pods)} pods, {len(store.processes)} processes")
    ticks = 0
    start = time.process_time()
    while store.tick(at):
        ticks += 1
    print(f"settled in {ticks} ticks of {(time.process_time() - start) / max(ticks, 1) * 1e3:.1f} ms")
    hottest = (Sort("temperature_celsius", descending=True),)
    unhealthy = (Condition("health", "!=", "ok"), Condition("vendor", "=", "nvidia"))
    page = store.devices.select(RowQuery(sort=hottest))
    timed("devices: first page", lambda: store.devices.select(RowQuery()))
    timed("devices: hottest", lambda: store.devices.select(RowQuery(sort=hottest)))
    timed("devices: next page", lambda: store.devices.select(RowQuery(sort=hottest, after=page.after)))
    timed(
        "devices: filter, by node",
        lambda: store.devices.select(RowQuery(where=unhealthy, sort=(Sort("node"),))),
    )
    timed("devices: all alike", lambda: store.devices.select(RowQuery(sort=(Sort("state"),))))
    timed("devices: by serial", lambda: store.devices.select(RowQuery(sort=(Sort("serial"),))))
    searches = iter(f"{number:03x}f" for number in range(1000))
    timed("devices: search", lambda: store.devices.select(RowQuery(search=next(searches))))
    timed(
        "devices: 1,000 rows",
        lambda: store.devices.rows(store.devices.select(RowQuery(limit=1000)).positions),
    )
    timed("nodes: first page", lambda: store.nodes.select(RowQuery()))
    timed("processes: first page", lambda: store.processes.select(RowQuery()))
    busiest = (Sort("utilization_ratio", descending=True),)
    timed("processes: busiest", lambda: store.processes.select(RowQuery(sort=busiest)))
    timed("processes: by pod", lambda: store.processes.select(RowQuery(sort=(Sort("pod"),))))
    timed("processes: search", lambda: store.processes.select(RowQuery(search=f"train-7{next(searches)}")))
    timed("pods: idle longest", lambda: store.pods.select(RowQuery(sort=(Sort("idle_seconds", True),))))
    for fields in ((), ("cluster",), ("vendor", "model"), ("health",), ("cluster", "node"), ("namespace",)):
        timed(f"summary by {', '.join(fields) or 'nothing'}", partial(summarize, store, (), fields))
    timed("namespaces", lambda: namespaces(store))
    timed("snapshot of a node", lambda: store.snapshot("cluster-00", node_name(0)))
    timed("tick, nothing due", lambda: store.tick(at))
    ticks, longest = 0, 0.0
    at += 120
    more = True
    while more:
        start = time.process_time()
        more = store.tick(at)
        longest = max(longest, time.process_time() - start)
        ticks += 1
    print(f"all stale in {ticks} ticks, the longest {longest * 1e3:.1f} ms")
    start = time.process_time()
    store.declare([])
    print(f"all clusters leave: {(time.process_time() - start) * 1e3:.1f} ms at once")
    ticks, longest = 0, 0.0
    more = True
    while more:
        start = time.process_time()
        more = store.tick(at)
        longest = max(longest, time.process_time() - start)
        ticks += 1
    print(f"cleared in {ticks} ticks, the longest {longest * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
