"""One node of each vendor by hand, with a value in every place that a dialect takes one from."""

from dataclasses import replace

from accelscope.model import (
    AgentState,
    Clock,
    Core,
    Device,
    EccCount,
    ErrorCount,
    Fan,
    Health,
    HealthState,
    Link,
    LinkErrors,
    Partition,
    Pcie,
    PodUsage,
    Process,
    Rail,
    ReaderState,
    RemappedRows,
    Sensor,
    Snapshot,
    Throttle,
    Vendor,
)

READ_AT = 1_800_000_000.0
OK = Health(HealthState.OK)
GIB = 2**30

H100 = Device(
    vendor=Vendor("nvidia"),
    id="nvidia:GPU-11111111-2222-3333-4444-555555555555",
    index=0,
    model="NVIDIA H100 80GB HBM3",
    uuid="GPU-11111111-2222-3333-4444-555555555555",
    serial="1650000000001",
    pci_address="0000:1b:00.0",
    device_name="nvidia0",
    driver_version="570.86.15",
    firmware_version="96.00.89.00.01",
    health=OK,
    read_at=READ_AT,
    utilization_ratio=0.29,
    memory_utilization_ratio=0.57,
    encoder_utilization_ratio=0.0,
    decoder_utilization_ratio=0.01,
    graphics_active_ratio=0.283411,
    sm_active_ratio=0.25,
    tensor_active_ratio=0.1,
    dram_active_ratio=0.333333,
    memory_total_bytes=80 * GIB,
    memory_used_bytes=30 * GIB + 700_000,
    memory_free_bytes=49 * GIB,
    memory_reserved_bytes=1 * GIB - 700_000,
    temperature_celsius=41.0,
    sensors=(Sensor("gpu", 41.0), Sensor("memory", 52.0)),
    power_watts=631.95,
    energy_joules=123456.789,
    clocks=(Clock("graphics", 1.98e9), Clock("sm", 1.98e9, 1.98e9), Clock("memory", 2.619e9)),
    pcie=Pcie(5, 5, 16, 16, 3, transmit_bytes_per_second=1_048_576.0, receive_bytes_per_second=2_097_152.0),
    links=(
        Link("nvlink", 0, active=True, transmit_bytes_total=4e9, receive_bytes_total=2e9),
        Link("nvlink", 1, active=True, transmit_bytes_total=1e9, receive_bytes_total=3e9),
    ),
    remapped_rows=RemappedRows(correctable=1, uncorrectable=0, pending=False, failed=False),
    errors=(ErrorCount("xid", "31", 4, READ_AT - 500), ErrorCount("xid", "79", 1, READ_AT - 20)),
)
CUT_H100 = replace(
    H100,
    id="nvidia:GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    uuid="GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    index=1,
    device_name="nvidia1",
    pci_address="0000:c3:00.0",
    mig_enabled=True,
    utilization_ratio=None,
    memory_utilization_ratio=None,
    graphics_active_ratio=None,
    tensor_active_ratio=None,
    dram_active_ratio=None,
    links=(),
    errors=(),
    partitions=(
        Partition(
            id="MIG-1",
            profile="1c.3g.40gb",
            gpu_instance_id=1,
            compute_instance_id=0,
            utilization_ratio=0.5,
            tensor_active_ratio=0.25,
            dram_active_ratio=0.125,
            memory_total_bytes=40 * GIB,
            memory_used_bytes=10 * GIB,
            memory_free_bytes=29 * GIB,
        ),
        Partition(id="MIG-2", profile="1c.3g.40gb", gpu_instance_id=1, compute_instance_id=1),
        Partition(
            id="MIG-3",
            profile="1g.10gb",
            gpu_instance_id=9,
            compute_instance_id=0,
            memory_total_bytes=10 * GIB,
            memory_used_bytes=0,
        ),
    ),
)
RTX = Device(
    vendor=Vendor("nvidia"),
    id="nvidia:GPU-99999999-2222-3333-4444-555555555555",
    index=2,
    model="NVIDIA GeForce RTX 4090",
    uuid="GPU-99999999-2222-3333-4444-555555555555",
    pci_address="000f:01:00.0",
    device_name="nvidia2",
    driver_version="570.86.15",
    health=OK,
    read_at=READ_AT,
    utilization_ratio=1.0,
    temperature_celsius=66.0,
    power_watts=300.0,
    pcie=Pcie(4, 4, 16, 16, 0, transmit_bytes_per_second=10.0, receive_bytes_per_second=20.0),
)
MI300X = Device(
    vendor=Vendor("amd"),
    id="amd:0x724c3b58bf67050e",
    index=0,
    model="AMD Instinct MI300X OAM",
    architecture="gfx942",
    uuid="0x724c3b58bf67050e",
    serial="692251001124",
    pci_address="0000:0c:00.0",
    driver_version="6.12.12",
    firmware_version="113-M3000100-102",
    vbios_version="022.040.003.043.000001",
    part_number="102-G30211-0C",
    pci_device_id="0x74a1",
    compute_partition="CPX",
    memory_partition="NPS1",
    health=OK,
    read_at=READ_AT,
    utilization_ratio=0.07,
    memory_utilization_ratio=0.03,
    cores=(Core(0, 0.05), Core(1, 0.09)),
    memory_total_bytes=206141652992,
    memory_used_bytes=298844160,
    temperature_celsius=44.0,
    sensors=(Sensor("junction", 44.0), Sensor("memory", 39.0)),
    power_watts=142.0,
    energy_joules=1.5,
    clocks=(Clock("graphics", 132e6, 2.1e9), Clock("memory", 900e6, 1.3e9)),
    rails=(Rail("gfx", 0.9), Rail("soc", 0.8), Rail("mem", 1.1)),
    pcie=Pcie(5, 5, 16, 16, 2, bytes_per_second=12.5e6),
    links=(Link("xgmi", 0, active=True, transmit_bytes_total=10240, receive_bytes_total=2048),),
    ecc=(
        EccCount("corrected", lifetime=False, count=4),
        EccCount("uncorrected", lifetime=False, count=0),
        EccCount("deferred", lifetime=False, count=1),
        EccCount("corrected", lifetime=False, count=4, block="umc"),
        EccCount("uncorrected", lifetime=False, count=0, block="pcie_bif"),
    ),
    errors=(ErrorCount("pcie", "nak_sent", 5), ErrorCount("pcie", "recovery", 6)),
    partitions=(
        Partition(id="p0", index=0, memory_total_bytes=24 * GIB),
        Partition(
            id="p1",
            index=1,
            utilization_ratio=0.4,
            memory_total_bytes=24 * GIB,
            memory_used_bytes=1 * GIB,
        ),
    ),
)
MI250 = Device(
    vendor=Vendor("amd"),
    id="amd:1234567890abcdef",
    index=1,
    model="AMD Instinct MI250X",
    architecture="gfx90a",
    health=OK,
    read_at=READ_AT,
    utilization_ratio=1.0,
    memory_total_bytes=64 * GIB,
    memory_used_bytes=64 * GIB,
    temperature_celsius=50.0,
    sensors=(Sensor("edge", 50.0), Sensor("HBM 0", 48.0), Sensor("hbm_1", 49.0)),
    power_watts=89.0,
    ecc=(EccCount("uncorrected", lifetime=False, count=1),),
)
ASCEND_910B = Device(
    vendor=Vendor("ascend"),
    id="ascend:42C711D4 20B03704 4A10C8D4 14CC040A D2102003",
    index=0,
    model="910B3",
    uuid="42C711D4 20B03704 4A10C8D4 14CC040A D2102003",
    serial="1234567890",
    pci_address="0000:c1:00.0",
    driver_version="24.1.rc1",
    board_id=0,
    chip_id=0,
    physical_id=4,
    health=Health(HealthState.WARNING, "a fault", "Warning"),
    read_at=READ_AT,
    ecc_enabled=True,
    utilization_ratio=0.58,
    vector_utilization_ratio=0.21,
    overall_utilization_ratio=0.61,
    tensor_active_ratio=0.64,
    memory_utilization_ratio=0.14,
    memory_total_bytes=65536 * 2**20,
    memory_used_bytes=59718 * 2**20,
    temperature_celsius=46.0,
    sensors=(Sensor("chip", 46.0), Sensor("hbm", 51.0)),
    power_watts=92.4,
    rails=(Rail("chip", volts=0.9),),
    clocks=(Clock("aicore", 1.8e9),),
    ecc=(
        EccCount("corrected", lifetime=False, count=1, block="hbm"),
        EccCount("uncorrected", lifetime=False, count=2, block="hbm"),
        EccCount("corrected", lifetime=True, count=3, block="hbm"),
        EccCount("uncorrected", lifetime=True, count=4, block="hbm"),
    ),
    retired_pages=(EccCount("corrected", True, 5, "hbm"), EccCount("uncorrected", True, 6, "hbm")),
    errors=(
        ErrorCount("npu", "80E01801", 2, READ_AT),
        ErrorCount("npu", "0x80CB8009", 1, READ_AT),
        ErrorCount("npu", "80A18008", 7, READ_AT - 60),  # gone since
    ),
)
ASCEND_310P = Device(
    vendor=Vendor("ascend"),
    id="ascend:0000:61:00.0",
    index=1,
    model="310P3",
    pci_address="0000:61:00.0",
    driver_version="24.1.rc1",
    board_id=8,
    chip_id=0,
    health=OK,
    read_at=READ_AT,
    utilization_ratio=0.0,
    memory_total_bytes=21527 * 2**20,
    memory_used_bytes=1866 * 2**20,
    temperature_celsius=54.0,
    errors=(ErrorCount("npu", "80E01801", 2, READ_AT - 9000),),
)
WARBOY = Device(
    vendor=Vendor("furiosa"),
    id="furiosa:a76acd5c-0000-4000-8000-000000000001",
    index=0,
    model="Warboy",
    architecture="warboy",
    uuid="a76acd5c-0000-4000-8000-000000000001",
    serial="WBYB0000000000001",
    pci_address="0000:6d:00.0",
    device_name="npu0",
    driver_version="1.9.2",
    firmware_version="1.7.8, 386a8ab",
    health=OK,
    read_at=READ_AT,
    uptime_seconds=42351.0,
    temperature_celsius=49.25,
    sensors=(Sensor("Peak", 49.25), Sensor("AMBIENT", 36.0)),
    power_watts=12.92,
    rails=(Rail("NE Core RMS PWR", watts=1.37), Rail("NE", volts=0.75, amperes=1.2)),
    errors=(ErrorCount("axi", "axi_post_error", 0), ErrorCount("device", "device_error", 2)),
)
RNGD = Device(
    vendor=Vendor("furiosa"),
    id="furiosa:09512c86-0702-4303-8f40-474746474a40",
    index=1,
    model="RNGD",
    architecture="rngd",
    uuid="09512C86-0702-4303-8F40-474746474A40",
    pci_address="0000:c7:00.0",
    device_name="npu1",
    driver_version="2026.1.0",
    firmware_version="2026.1.0, 5b172ac",
    health=OK,
    read_at=READ_AT,
    cores=tuple(
        Core(
            n,
            n / 100 + 0.0007,
            2e9,
            occupied=n > 0,
            cycles_total=2022126000000000,
            task_cycles_total=101140206641 * n,
        )
        for n in range(8)
    ),
    memory_total_bytes=51002736640,
    memory_used_bytes=1024,
    temperature_celsius=67.756,
    sensors=(Sensor("PEAK", 67.756), Sensor("AMBIENT", 52.0), Sensor("NPU_PE0", 60.0)),
    power_watts=50.5,
    throttles=(Throttle("idle", active=True), Throttle("app_power_cap", active=False)),
    fans=(Fan(0, 0.3),),
)
LOST = Device(
    vendor=Vendor("furiosa"),
    id="furiosa:lost",
    index=2,
    model="Warboy",
    architecture="warboy",
    uuid="lost",
    device_name="npu2",
    stale=True,
    health=Health(HealthState.LOST, "gone"),
)


def node(*devices: Device, processes: tuple[Process, ...] = (), **changes: object) -> Snapshot:
    made = Snapshot(
        node="worker-1",
        taken_at=READ_AT,
        agent=AgentState(version="1.2.3", started_at=READ_AT - 100),
        labels=(("rack", "7"),),
        readers=tuple(
            ReaderState(vendor=vendor, found=True, up=True) for vendor in {d.vendor: None for d in devices}
        ),
        devices=devices,
        processes=processes,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def later(snapshot: Snapshot, seconds: float = 10.0) -> Snapshot:
    """The same node at the next reading: links have carried more, a throttle reason has come."""
    return replace(
        snapshot,
        taken_at=snapshot.taken_at + seconds,
        devices=tuple(_later(device, seconds) for device in snapshot.devices),
    )


def _later(device: Device, seconds: float) -> Device:
    links = tuple(
        replace(
            link,
            transmit_bytes_total=(link.transmit_bytes_total or 0) + 100e6 * seconds,
            receive_bytes_total=(link.receive_bytes_total or 0) + 50e6 * seconds,
            errors=(LinkErrors("crc_flit", 1),),
        )
        for link in device.links
    )
    throttles = tuple(Throttle(t.reason, not t.active) for t in device.throttles)
    read_at = None if device.read_at is None else device.read_at + seconds
    return replace(device, links=links, throttles=throttles, read_at=read_at)


def on(device: Device, pod: str, container: str = "main", **changes: object) -> PodUsage:
    made = PodUsage(device=device.id, namespace="research", pod=pod, container=container)
    return replace(made, **changes)  # type: ignore[arg-type]


NODES = {
    "dcgm": node(H100, CUT_H100, RTX),
    "amd": node(MI300X, MI250),
    "npu-exporter": node(
        ASCEND_910B,
        ASCEND_310P,
        processes=(
            Process(pid=4711, device=ASCEND_910B.id, name="python3", memory_bytes=48208 * 2**20),
            Process(pid=4712, device=ASCEND_910B.id, name="python3", memory_bytes=2**19),
        ),
    ),
    "furiosa": node(WARBOY, RNGD, LOST),
    "furiosa-2024": node(WARBOY, RNGD, LOST),
    "furiosa-2025": node(WARBOY, RNGD, LOST),
    "openshift": node(H100, MI250, ASCEND_910B, RNGD),
    "vgpu": node(
        H100,
        CUT_H100,
        RTX,
        pod_usages=(
            # two containers of one pod share the card with another pod of the same name
            on(
                H100,
                "train",
                "a",
                processes=2,
                utilization_ratio=0.29,
                memory_used_bytes=3 * GIB + 700_000,
                allocated=1,
                memory_share_bytes=32 * GIB,
            ),
            on(
                H100,
                "train",
                "b",
                processes=1,
                utilization_ratio=0.28,
                memory_used_bytes=GIB + 700_000,
                allocated=1,
                memory_share_bytes=32 * GIB,
            ),
            on(
                H100,
                "train",
                namespace="lab",
                utilization_ratio=0.0,
                memory_used_bytes=0,
                allocated=1,
                memory_share_bytes=81559 * 2**19,
            ),
            # on two instances of a cut card, without a share of known size
            on(CUT_H100, "train", "a", partition="MIG-1", processes=1, memory_used_bytes=2**20),
            on(CUT_H100, "train", "a", partition="MIG-3", processes=1, memory_used_bytes=2**20),
            # the driver tells of no process
            on(RTX, "quiet", allocated=1),
        ),
    ),
}
EVERYTHING = node(H100, CUT_H100, RTX, MI300X, MI250, ASCEND_910B, ASCEND_310P, WARBOY, RNGD, LOST)
