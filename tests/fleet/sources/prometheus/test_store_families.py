"""The families that are read from a store, compared with the metric catalogue."""

from dataclasses import fields, replace

import pytest
from tests.fleet.sources.prometheus.scraped import page

from accelscope.fleet.sources.prometheus import families, source
from accelscope.fleet.sources.prometheus.node_series import NodeSeries
from accelscope.fleet.sources.prometheus.store import ScrapeTarget
from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.family import SCOPE_LABELS, Scope
from accelscope.model import (
    AgentState,
    Clock,
    Core,
    Device,
    DeviceBalance,
    EccCount,
    ErrorCount,
    Fan,
    Health,
    HealthState,
    Link,
    Owner,
    OwnerKind,
    Partition,
    Pcie,
    Pod,
    PodUsage,
    Process,
    ProcessType,
    Rail,
    ReaderState,
    RemappedRows,
    Sensor,
    Snapshot,
    Throttle,
    Unattributed,
    UnattributedReason,
    Vendor,
)

READ = {
    *source.IDENTITY,
    *source.DEVICES,
    *source.WORKLOADS,
    *source.WORKLOAD_DETAILS,
    *(families.NODE_INFO, families.BUILD_INFO, families.STARTED, families.COLLECTED),
}
# The ratio follows from used and total memory. Sums over links do not identify single links, nor does the
# latest of several dates; the rest is about the agent and not about its devices.
NOT_READ = {
    "accelerator_memory_used_ratio",
    "accelerator_link_capacity_bytes_per_second",
    "accelerator_link_transmit_bytes_total",
    "accelerator_link_receive_bytes_total",
    "accelerator_link_errors_total",
    "accelerator_faulty_link_errors_total",
    "accelerator_ecc_error_last_seen_timestamp_seconds",
    "accelerator_unknown_allocation_info",
    "accelscope_reader_errors_total",
    "accelscope_reader_rejected_values_total",
    "accelscope_reader_absent_values",
    "accelscope_collections_total",
    "accelscope_collection_overruns_total",
    "accelscope_collection_duration_seconds",
    "accelscope_process_series_dropped",
    "accelscope_config_reloads_total",
    "accelscope_token_reviews_total",
    "accelscope_cpu_seconds_total",
    "accelscope_resident_memory_bytes",
    "accelscope_threads",
    "accelscope_open_files",
}
NOT_READ |= {family.name for family in CATALOGUE if family.scope in (Scope.SOURCE, Scope.SINK)}


def test_every_family_is_read_or_known_not_to_be() -> None:
    assert {family.name for family in CATALOGUE} == READ | NOT_READ
    assert not READ & NOT_READ


@pytest.mark.parametrize(
    ("names", "labels", "left_out"),
    [
        (source.IDENTITY, source.IDENTITY_LABELS, set()),
        (source.DEVICES, source.DEVICE_LABELS, {"vendor", "index"}),
        (source.WORKLOADS, source.WORKLOAD_LABELS, {"vendor", "index"}),
        (source.WORKLOAD_DETAILS, source.WORKLOAD_LABELS, {"vendor", "index"}),
    ],
    ids=["identity", "devices", "workloads", "workload details"],
)
def test_a_query_keeps_the_labels_that_identify_its_series(
    names: tuple[str, ...], labels: tuple[str, ...], left_out: set[str]
) -> None:
    queried = [family for family in CATALOGUE if family.name in names]
    own = {label for family in queried for label in (*SCOPE_LABELS[family.scope], *family.labels)}
    assert own - left_out <= set(labels)
    assert left_out.isdisjoint(labels)


FULL = Device(
    vendor=Vendor("nvidia"),
    id="nvidia:GPU-1",
    index=3,
    model='H100 "80GB"',
    architecture="hopper",
    uuid="GPU-1",
    serial="123",
    pci_address="0000:0c:00.0",
    numa_node=1,
    device_name="nvidia3",
    driver_version="590.48",
    firmware_version="96.00",
    health=Health(
        HealthState.WARNING,
        "a row",
        cause="row_remap_pending",
        action="Reset it.",
        origin="hardware",
        since=98.0,
    ),
    read_at=99.5,
    uptime_seconds=1000.0,
    performance_state=2,
    persistence_mode=True,
    ecc_enabled=False,
    mig_enabled=True,
    compute_partition="SPX",
    memory_partition="NPS1",
    utilization_ratio=0.35,
    memory_utilization_ratio=0.2,
    encoder_utilization_ratio=0.1,
    decoder_utilization_ratio=0.0,
    jpeg_utilization_ratio=0.3,
    optical_flow_utilization_ratio=0.4,
    vector_utilization_ratio=0.5,
    control_cpu_utilization_ratio=0.06,
    graphics_active_ratio=0.6,
    sm_active_ratio=0.61,
    sm_occupancy_ratio=0.62,
    tensor_active_ratio=0.63,
    dram_active_ratio=0.64,
    fp64_active_ratio=0.65,
    fp32_active_ratio=0.66,
    fp16_active_ratio=0.67,
    cores=(Core(0, 0.1, 1e9, True), Core(10, 0.2, 2e9, False)),
    memory_total_bytes=85899345920,
    memory_used_bytes=1 << 33,
    memory_free_bytes=(1 << 33) + 1,
    memory_reserved_bytes=12,
    bar1_total_bytes=13,
    bar1_used_bytes=14,
    temperature_celsius=40.5,
    sensors=(Sensor("gpu", 40.5), Sensor("memory", 44.0)),
    temperature_slowdown_celsius=90.0,
    temperature_shutdown_celsius=95.0,
    power_watts=250.25,
    power_limit_watts=700.0,
    power_limit_default_watts=701.0,
    power_limit_min_watts=200.0,
    power_limit_max_watts=702.0,
    energy_joules=1234.5,
    rails=(Rail("core", 0.9, 100.0, 90.0),),
    fans=(Fan(0, 0.5, 3000.0), Fan(1, 0.6)),
    clocks=(Clock("memory", 2e9, 3e9), Clock("sm", 1e9)),
    throttles=(Throttle("heat", False), Throttle("power", True)),
    pcie=Pcie(5, 5, 16, 16, 7, 1e9, 2e9, 3e6, 4e6),
    links=(Link("nvlink", 0, True), Link("nvlink", 1, False)),
    ecc=(
        EccCount("corrected", False, 5),
        EccCount("uncorrected", False, 1),
        EccCount("uncorrected", True, 2),
        EccCount("uncorrected", False, 1, "dram"),
        EccCount("uncorrected", True, 2, "sram"),
    ),
    remapped_rows=RemappedRows(1, 2, True, False),
    retired_pages=(EccCount("corrected", True, 3), EccCount("uncorrected", True, 4)),
    errors=(ErrorCount("xid", "31", 2, 95.0), ErrorCount("xid", "48", 1)),
    partitions=(
        Partition(
            id="nvidia:MIG-1",
            uuid="MIG-1",
            profile="1g.10gb",
            gpu_instance_id=7,
            compute_instance_id=0,
            utilization_ratio=0.1,
            sm_active_ratio=0.2,
            tensor_active_ratio=0.3,
            dram_active_ratio=0.4,
            memory_total_bytes=10,
            memory_used_bytes=5,
        ),
    ),
)
# Without values, and with few labels.
SILENT = Device(vendor=Vendor("amd"), id="amd:0000:01:00.0", health=Health(HealthState.LOST), stale=True)
IN_POD = Owner(kind=OwnerKind.POD, namespace="ml", pod="train-0", container="main", pod_uid="uid-1")
IN_JOB = Owner(kind=OwnerKind.SLURM_JOB, name="40812", reason=UnattributedReason.NOT_IN_A_POD)
SNAPSHOT = Snapshot(
    node="n1",
    taken_at=100.0,
    agent=AgentState(version="1.2.3", started_at=1.0),
    interval_seconds=15.0,
    readers=(
        ReaderState(
            vendor=Vendor("nvidia"),
            found=True,
            up=True,
            duration_seconds=0.25,
            last_success=99.0,
            devices_expected=2,
            devices_seen=1,
            abandoned_calls=1,
        ),
        ReaderState(vendor=Vendor("amd"), found=False, up=False),
    ),
    devices=(SILENT, FULL),
    processes=(
        Process(
            pid=5,
            device=FULL.id,
            device_index=3,
            partition="nvidia:MIG-1",
            name="train",
            user="ada",
            type=ProcessType.COMPUTE,
            mps=False,
            memory_bytes=100,
            utilization_ratio=0.5,
            memory_utilization_ratio=0.25,
            encoder_utilization_ratio=0.125,
            decoder_utilization_ratio=0.0,
            owner=IN_POD,
        ),
        Process(pid=6, device=FULL.id, device_index=3, name="python", memory_bytes=200, owner=IN_JOB),
        Process(pid=7, device=FULL.id, device_index=3, type=ProcessType.BOTH),
    ),
    pods=(Pod(uid="uid-1", namespace="ml", name="train-0", owner_kind="StatefulSet", owner_name="train"),),
    pod_usages=(
        PodUsage(
            device=FULL.id,
            namespace="ml",
            pod="train-0",
            container="main",
            partition="nvidia:MIG-1",
            pod_uid="uid-1",
            processes=1,
            memory_used_bytes=100,
            utilization_ratio=0.5,
            memory_utilization_ratio=0.25,
            encoder_utilization_ratio=0.125,
            decoder_utilization_ratio=0.0,
            allocated=2,
            resources=("nvidia.com/gpu", "nvidia.com/mig-1g.10gb"),
            idle_seconds=0.5,
            memory_share_bytes=1 << 30,
            compute_share_ratio=0.5,
            device_share_ratio=0.5,
            energy_joules=12.5,
        ),
        PodUsage(device=FULL.id, namespace="ml", pod="other", container="main"),
    ),
    unattributed=(
        Unattributed(
            device=FULL.id,
            kind=OwnerKind.SLURM_JOB,
            reason=UnattributedReason.NOT_IN_A_POD,
            name="40812",
            processes=1,
            memory_used_bytes=200,
        ),
    ),
    balances=(
        DeviceBalance(
            device=FULL.id,
            surplus_memory_bytes=0,
            idle_energy_joules=7.5,
            share_ratio=2.0,
            jobs=("a", "b"),
        ),
    ),
)


def read_back(snapshot: Snapshot) -> Snapshot:
    series = NodeSeries()
    for one in page(snapshot):
        series.add({name: value for name, value in one.labels.items() if value}, one.value)
    target = ScrapeTarget(
        key=("job", "n1:9400"),
        node=snapshot.node,
        scraped_at=101.0,
        collected_at=snapshot.taken_at,
        started_at=snapshot.agent.started_at,
        version=snapshot.agent.version,
    )
    return series.snapshot(snapshot.node, target, snapshot.interval_seconds)


@pytest.mark.parametrize("field", [field.name for field in fields(Snapshot)])
def test_a_snapshot_comes_back_from_its_page(field: str) -> None:
    found, expected = getattr(read_back(SNAPSHOT), field), getattr(SNAPSHOT, field)
    if isinstance(expected, tuple):
        found, expected = set(found), set(expected)
    assert found == expected


@pytest.mark.parametrize("field", [field.name for field in fields(Device)])
def test_a_device_comes_back_from_its_page(field: str) -> None:
    [_, found] = read_back(SNAPSHOT).devices
    left_out = {"revision", "board_id", "chip_id", "chip_count", "physical_id", "absent"}
    left_out |= {"vbios_version", "part_number", "pci_device_id", "runtime_version", "governor"}
    left_out |= {"device_number", "device_files"}
    left_out |= {"memory_used_ratio", "overall_utilization_ratio"}
    assert (getattr(FULL, field) == getattr(Device(vendor=Vendor("nvidia"), id=""), field)) is (
        field in left_out | {"vendor", "stale"}
    ), "the device of this test has everything that a page shows"
    assert getattr(found, field) == getattr(FULL, field)


@pytest.mark.parametrize(
    ("labels", "value"),
    [
        ({"__name__": "accelerator_power_watts"}, 1.0),
        ({"__name__": "accelerator_fan_speed_ratio", "device": FULL.id, "fan": "left"}, 1.0),
        ({"__name__": "accelerator_engine_utilization_ratio", "device": FULL.id, "engine": "new"}, 1.0),
        ({"__name__": "accelerator_memory_total_bytes", "device": "x"}, 1e300),
        ({"__name__": "accelerator_info", "device": "quantum:1", "vendor": "quantum"}, 1.0),
        ({"__name__": "accelerator_health", "device": "x", "state": "dizzy"}, 1.0),
        ({"__name__": "accelerator_ecc_errors_total", "device": "x", "severity": "corrected"}, 1e300),
        ({"__name__": "accelerator_process_memory_bytes", "device": FULL.id, "pid": "one"}, 1.0),
        ({"__name__": "accelerator_pod_processes", "device": FULL.id, "pod": "p"}, 1.0),
        ({"__name__": "accelerator_throttled", "device": FULL.id}, 1.0),
        ({"__name__": "accelerator_sensor_temperature_celsius", "device": FULL.id}, 1.0),
        ({"__name__": "accelerator_rail_volts", "device": FULL.id}, 1.0),
        ({"__name__": "accelerator_clock_hertz", "device": FULL.id}, 1.0),
        ({"__name__": "accelerator_link_up", "device": FULL.id, "link": "1"}, 1.0),
        ({"__name__": "accelerator_ecc_errors_total", "device": FULL.id}, 1.0),
        ({"__name__": "accelerator_ecc_block_errors_total", "device": FULL.id, "severity": "corrected"}, 9.0),
        ({"__name__": "accelerator_retired_pages_total", "device": FULL.id}, 1.0),
        ({"__name__": "accelerator_errors_total", "device": FULL.id, "code": "31"}, 1.0),
        ({"__name__": "accelerator_errors_total", "device": FULL.id, "kind": "xid"}, 1.0),
        (
            {
                "__name__": "accelerator_error_last_seen_timestamp_seconds",
                "device": FULL.id,
                "kind": "xid",
                "code": "79",
            },
            1.0,
        ),
        ({"__name__": "accelscope_reader_up", "vendor": "quantum"}, 1.0),
        ({"__name__": "accelerator_unattributed_processes", "device": FULL.id, "reason": "magic"}, 1.0),
        ({"__name__": "something_else"}, 1.0),
        ({}, 1.0),
    ],
    ids=str,
)
def test_unusable_series_are_ignored(labels: dict[str, str], value: float) -> None:
    series = NodeSeries()
    series.add(labels, value)
    for one in page(SNAPSHOT):
        series.add({name: text for name, text in one.labels.items() if text}, one.value)
    series.add(labels, value)
    target = ScrapeTarget(key=("", ""), node="n1", scraped_at=100.0)
    found = series.snapshot("n1", target, None)
    expected = read_back(replace(SNAPSHOT, interval_seconds=None))
    assert set(found.devices) == set(expected.devices)
    assert set(found.processes) == set(expected.processes)
    assert set(found.pod_usages) == set(expected.pod_usages)


def test_workloads_of_a_scrape_that_does_not_honor_labels() -> None:
    series = NodeSeries()
    agent = {"namespace": "monitoring", "pod": "agent-x", "container": "agent"}
    for one in page(SNAPSHOT):
        own = {
            f"exported_{name}" if name in agent else name: text for name, text in one.labels.items() if text
        }
        series.add({**own, **agent}, one.value)
    found = series.snapshot("n1", ScrapeTarget(key=("", ""), node="n1", scraped_at=100.0), None)
    assert set(found.pod_usages) == set(SNAPSHOT.pod_usages)
    assert {process.owner for process in found.processes} == {IN_POD, IN_JOB, None}
