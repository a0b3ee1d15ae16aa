"""The columns of rows, made from a snapshot."""

from typing import Any

import pytest
from tests.fleet.store.nodes import Clock, device, process, report, snapshot, store_of, usage

from accelscope.fleet.rows import SourceKind
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.model import (
    Device,
    EccCount,
    ErrorCount,
    Fan,
    Health,
    HealthState,
    Owner,
    OwnerKind,
    Partition,
    Pcie,
    Pod,
    Process,
    ProcessType,
    Snapshot,
    Throttle,
    Vendor,
)


def store_with(shown: Snapshot, source: SourceKind = SourceKind.AGENTS) -> FleetStore:
    clock = Clock()
    store = store_of("berlin", clock=clock)
    store.take("berlin", report("n1", shown, clock.now, source))
    return store


def device_row(shown: Device) -> Any:
    store = store_with(snapshot([shown]))
    [row] = store.devices.rows(store.devices.positions())
    return row


@pytest.mark.parametrize(
    ("fields", "column", "value"),
    [
        ({"fans": (Fan(0, 0.3), Fan(1, 0.5), Fan(2))}, "fan_speed_ratio", 0.5),
        ({"fans": (Fan(0, None, 900.0),)}, "fan_speed_ratio", None),
        ({"pcie": Pcie(generation=5, width=16)}, "pcie_width", 16),
        ({"pcie": Pcie(generation=5, width=16)}, "pcie_generation", 5),
        ({}, "pcie_generation", None),
        ({"throttles": (Throttle("thermal", True), Throttle("idle", False))}, "throttled", "thermal"),
        ({"throttles": (Throttle("sw", True), Throttle("hw", True))}, "throttled", "hw,sw"),
        ({"throttles": (Throttle("thermal", False),)}, "throttled", None),
        ({"throttles": (Throttle("gpu_idle", True), Throttle("sync_boost", True))}, "throttled", None),
        ({"errors": (ErrorCount("xid", "79", 2), ErrorCount("xid", "48", 1))}, "errors", 3),
        ({}, "errors", None),
        ({"ecc": (EccCount("corrected", False, 9),)}, "ecc_uncorrected", None),
        (
            {"ecc": (EccCount("uncorrected", True, 9), EccCount("uncorrected", False, 2))},
            "ecc_uncorrected",
            2,
        ),
        (
            {"ecc": (EccCount("uncorrected", True, 9), EccCount("uncorrected", True, 4, "dram"))},
            "ecc_uncorrected",
            9,
        ),
        (
            {"ecc": (EccCount("uncorrected", True, 1, "l2"), EccCount("uncorrected", True, 4, "dram"))},
            "ecc_uncorrected",
            5,
        ),
        ({"partitions": (Partition(id="p0"), Partition(id="p1"))}, "partitions", 2),
        ({"health": Health(HealthState.CRITICAL, "row remap failed")}, "health_reason", "row remap failed"),
        ({"health": Health(HealthState.CRITICAL, action="Reset it")}, "health_action", "Reset it"),
        ({"memory_total_bytes": 85899345920}, "memory_total_bytes", 85899345920),
        ({"utilization_ratio": 0.0}, "utilization_ratio", 0.0),
        (
            {"temperature_celsius": 84.1, "temperature_slowdown_celsius": 89.3},
            "temperature_margin_celsius",
            5.2,
        ),
        (
            {"temperature_celsius": 95.0, "temperature_slowdown_celsius": 90.0},
            "temperature_margin_celsius",
            -5.0,
        ),
        (
            {"temperature_celsius": 95.0, "temperature_slowdown_celsius": 0.0},
            "temperature_margin_celsius",
            None,
        ),
        ({"temperature_celsius": 95.0}, "temperature_margin_celsius", None),
        ({"temperature_slowdown_celsius": 90.0}, "temperature_margin_celsius", None),
        ({}, "utilization_ratio", None),
    ],
)
def test_a_device_row_contains_the_values_of_the_snapshot(
    fields: dict[str, Any], column: str, value: object
) -> None:
    row = device_row(Device(vendor=Vendor("nvidia"), id="nvidia:a", **fields))
    assert getattr(row, column) == value


@pytest.mark.parametrize(
    ("idles", "allocated", "idle"),
    [
        ([], 0, None),
        ([(1, 100.0)], 1, 100.0),
        ([(1, 100.0), (1, 50.0)], 2, 50.0),  # one of its containers used it 50 s ago
        ([(1, 100.0), (1, None)], 2, None),
        ([(0, None)], 0, None),
        ([(1, 100.0), (0, None)], 1, 100.0),
    ],
)
def test_a_device_is_idle_since_the_last_use_by_any_of_its_containers(
    idles: list[tuple[int, float | None]], allocated: int, idle: float | None
) -> None:
    d = device()
    usages = [
        usage(f"team-{place}/job", d, allocated=allocated, idle_seconds=seconds)
        for place, (allocated, seconds) in enumerate(idles)
    ]
    store = store_with(snapshot([d], usages=usages))
    [row] = store.devices.rows(store.devices.positions())
    assert (row.allocated, row.idle_seconds) == (allocated, idle)
    assert row.namespaces == (",".join(f"team-{place}" for place in range(len(idles))) or None)


def test_a_pod_row_contains_the_values_of_the_snapshot() -> None:
    d = device(model="H100")
    pod_usage = usage(
        "team/job-1", d, allocated=2, resources=("nvidia.com/gpu",), pod_uid="u1", energy_joules=3.5
    )
    owner = Pod(uid="u1", namespace="team", name="job-1", owner_kind="Job", owner_name="job")
    store = store_with(snapshot([d], usages=[pod_usage], pods=[owner]))
    [row] = store.pods.rows(store.pods.positions())
    assert (row.namespace, row.pod, row.container, row.device) == ("team", "job-1", "main", "nvidia:a")
    assert (row.vendor, row.model, row.owner_kind, row.owner_name) == ("nvidia", "H100", "Job", "job")
    assert (row.allocated, row.resources, row.energy_joules, row.source) == (
        2,
        "nvidia.com/gpu",
        3.5,
        "agents",
    )


def test_process_rows_contain_their_owners() -> None:
    d = device(index=3)
    processes = [
        process(
            1,
            d,
            pod="team/job",
            type=ProcessType.BOTH,
            memory_bytes=5,
            cpu_ratio=192.5,
            resident_memory_bytes=7,
            started_at=1000.25,
        ),
        Process(pid=2, device=d.id, owner=Owner(kind=OwnerKind.SYSTEMD_UNIT, name="x.service")),
        Process(pid=3, device=d.id),
    ]
    store = store_with(snapshot([d], processes=processes))
    one, two, three = store.processes.rows(store.processes.positions())
    assert (one.pid, one.type, one.memory_bytes, one.device_index) == (1, "both", 5, 3)
    assert (one.owner_kind, one.namespace, one.pod, one.container, one.owner) == (
        "pod",
        "team",
        "job",
        "main",
        None,
    )
    assert (two.owner_kind, two.owner, two.pod) == ("systemd_unit", "x.service", None)
    assert (three.owner_kind, three.owner) == (None, None)
    assert (one.cpu_ratio, one.resident_memory_bytes, one.started_at) == (192.5, 7, 1000.25)
    assert (two.cpu_ratio, two.resident_memory_bytes, two.started_at) == (None, None, None)
    [counted] = store.devices.rows(store.devices.positions())
    assert counted.processes == 3


@pytest.mark.parametrize(("index", "found"), [(0, "nvidia:a"), (1, None), (9, None), (None, None)])
def test_a_process_with_a_device_index_belongs_to_the_only_device_with_that_index(
    index: int | None, found: str | None
) -> None:
    devices = [device("a", index=0), device("b", index=1), device("c", index=1), device("d")]
    store = store_with(snapshot(devices, processes=[Process(pid=1, device_index=index)]))
    rows = store.processes.rows(store.processes.positions())
    assert [row.device for row in rows] == ([] if found is None else [found])


def test_a_node_sums_up_its_devices() -> None:
    devices = [
        device("a", model="H100", utilization_ratio=0.5, memory_total_bytes=80, memory_used_bytes=8),
        device("b", model="H100", health="lost"),
        device("c", vendor=Vendor("amd"), model="MI300X", health="warning", temperature_celsius=70.0),
        device("d", utilization_ratio=1.0, power_watts=100.0, memory_total_bytes=80),
    ]
    usages = [usage("team/job", devices[0]), usage("team/job", devices[3]), usage("team/other", devices[3])]
    store = store_with(snapshot(devices, usages=usages, processes=[process(1, devices[0])], version="1.2"))
    [row] = store.nodes.rows(store.nodes.positions())
    assert (row.vendors, row.models) == ("amd,nvidia", "H100,MI300X")
    assert (row.devices, row.devices_lost, row.devices_unhealthy, row.pods, row.processes) == (4, 1, 2, 2, 1)
    assert (row.utilization_ratio, row.memory_total_bytes, row.memory_used_bytes) == (0.75, 160, 8)
    assert row.memory_used_ratio == 0.1, "of the device that reports both"
    assert (row.power_watts, row.temperature_max_celsius, row.agent_version) == (100.0, 70.0, "1.2")


def test_a_node_without_values_has_no_sums() -> None:
    store = store_with(snapshot([device()]), SourceKind.EXEC)
    [row] = store.nodes.rows(store.nodes.positions())
    assert (row.utilization_ratio, row.memory_total_bytes, row.power_watts, row.agent_version) == (None,) * 4
