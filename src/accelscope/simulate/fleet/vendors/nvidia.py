"""NVIDIA's devices as the agent sees them through NVML."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from accelscope.model import (
    FAULT_THROTTLES,
    Absence,
    AbsenceReason,
    Clock,
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
    Process,
    ProcessType,
    RemappedRows,
    Sensor,
    Throttle,
    Vendor,
)
from accelscope.simulate import spec as node_spec
from accelscope.simulate.fleet.vendors.seen import (
    HANGS,
    LOST,
    NOT_SHOWN,
    RESET_REQUIRED,
    Look,
    Offer,
    Seen,
    unanswered,
)
from accelscope.simulate.nvidia.cards import Card
from accelscope.simulate.nvidia.readings import Activity, GpuReading, LinkReading, ProcessReading
from accelscope.simulate.nvidia.spec import NvidiaSpec

_SILENT = {"lost": LOST, "vanished": NOT_SHOWN, "hang": HANGS, "reset_required": RESET_REQUIRED}
_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
_ACTIVITY = {
    1: "graphics_active_ratio",
    2: "sm_active_ratio",
    3: "sm_occupancy_ratio",
    5: "tensor_active_ratio",
    10: "dram_active_ratio",
    11: "fp64_active_ratio",
    12: "fp32_active_ratio",
    13: "fp16_active_ratio",
}
_TYPES = {
    node_spec.ProcessType.COMPUTE: ProcessType.COMPUTE,
    node_spec.ProcessType.GRAPHICS: ProcessType.GRAPHICS,
    node_spec.ProcessType.BOTH: ProcessType.BOTH,
    node_spec.ProcessType.MPS: ProcessType.COMPUTE,
}
# XIDs that speak of the hardware, among those that simulated faults bring about.
_HARDWARE_XIDS = frozenset({48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 154})
_XID_IS_RECENT_SECONDS = 600.0
_WHOLE_CARD = (
    "utilization_ratio",
    "encoder_utilization_ratio",
    "decoder_utilization_ratio",
    "jpeg_utilization_ratio",
    "optical_flow_utilization_ratio",
)


def see(spec: NvidiaSpec, readings: Sequence[GpuReading], look: Look) -> Seen:
    seen = Seen(source="nvml", driver_version=spec.driver_version)
    for reading in readings:
        device = _device(spec, reading, look)
        seen.offers[reading.gpu.uuid] = Offer(look.names.id(reading.gpu.uuid), device.id)
        for part in reading.mig:
            uuid = look.names.id(part.uuid)
            seen.offers[part.uuid] = Offer(uuid, device.id, f"nvidia:{uuid}")
        if reading.fault is None:
            seen.devices.append(device)
            seen.processes.extend(_process(process, device) for process in reading.processes)
        else:
            seen.devices.append(unanswered(device, _SILENT[reading.fault]))
    return seen


def _device(spec: NvidiaSpec, reading: GpuReading, look: Look) -> Device:
    gpu, card = reading.gpu, reading.gpu.card
    uuid = look.names.id(gpu.uuid)
    throttles = _throttles(reading)
    errors = _errors(reading, look)
    shown = not gpu.partitioned
    activity = _ratios(reading.activity) if shown else {}
    return Device(
        vendor=Vendor.NVIDIA,
        id=f"nvidia:{uuid}",
        index=gpu.slot if reading.index is None else reading.index,
        model=card.name,
        architecture=card.architecture_name.split()[0].lower(),
        uuid=uuid,
        serial=None if gpu.serial is None else look.names.id(gpu.serial),
        pci_address=f"0000:{gpu.bus:02x}:00.0",
        numa_node=gpu.numa_node,
        device_name=f"nvidia{gpu.slot}",
        driver_version=spec.driver_version,
        firmware_version=card.vbios,
        health=_health(reading, throttles, look),
        read_at=look.now,
        performance_state=reading.pstate,
        persistence_mode=not card.display,
        ecc_enabled=True if card.ecc else None,
        mig_enabled=gpu.partitioned if card.mig_profiles else None,
        utilization_ratio=reading.utilization_percent / 100 if shown else None,
        memory_utilization_ratio=reading.memory_utilization_percent / 100 if shown else None,
        encoder_utilization_ratio=reading.encoder_percent / 100 if shown else None,
        decoder_utilization_ratio=reading.decoder_percent / 100 if shown else None,
        jpeg_utilization_ratio=0.0 if shown else None,
        optical_flow_utilization_ratio=0.0 if shown else None,
        graphics_active_ratio=activity.get("graphics_active_ratio"),
        sm_active_ratio=activity.get("sm_active_ratio"),
        sm_occupancy_ratio=activity.get("sm_occupancy_ratio"),
        tensor_active_ratio=activity.get("tensor_active_ratio"),
        dram_active_ratio=activity.get("dram_active_ratio"),
        fp64_active_ratio=activity.get("fp64_active_ratio"),
        fp32_active_ratio=activity.get("fp32_active_ratio"),
        fp16_active_ratio=activity.get("fp16_active_ratio"),
        memory_total_bytes=reading.memory_total_bytes,
        memory_used_bytes=reading.memory_used_bytes,
        memory_free_bytes=reading.memory_free_bytes,
        memory_reserved_bytes=reading.memory_reserved_bytes,
        bar1_total_bytes=card.bar1_mib << 20,
        bar1_used_bytes=reading.bar1_used_bytes,
        temperature_celsius=float(reading.temperature_celsius),
        sensors=tuple(_sensors(reading)),
        temperature_slowdown_celsius=card.temperature.slowdown,
        temperature_shutdown_celsius=card.temperature.shutdown,
        power_watts=reading.power_average_milliwatts / 1000,
        power_limit_watts=int(1000 * gpu.spec.power_limit_watts) / 1000,
        power_limit_default_watts=int(1000 * card.power.default_watts) / 1000,
        power_limit_min_watts=int(1000 * card.power.min_watts) / 1000,
        power_limit_max_watts=int(1000 * card.power.max_watts) / 1000,
        energy_joules=reading.energy_millijoules / 1000,
        fans=_fans(reading),
        clocks=_clocks(reading),
        throttles=throttles,
        pcie=_pcie(reading),
        links=tuple(_link(link, reading) for link in reading.links),
        ecc=tuple(_ecc(reading)),
        remapped_rows=_remapped(reading),
        retired_pages=_retired(reading),
        errors=errors,
        partitions=tuple(_partitions(reading, look)),
        absent=tuple(_absent(reading)),
    )


def _sensors(reading: GpuReading) -> Iterator[Sensor]:
    yield Sensor("gpu", float(reading.temperature_celsius))
    if reading.memory_temperature_celsius is not None:
        yield Sensor("memory", float(reading.memory_temperature_celsius))


def _fans(reading: GpuReading) -> tuple[Fan, ...]:
    if reading.fan_percent is None:
        return ()
    return tuple(Fan(number, reading.fan_percent / 100) for number in range(reading.gpu.card.fans))


def _clocks(reading: GpuReading) -> tuple[Clock, ...]:
    most = reading.gpu.card.clocks
    megahertz = (
        ("graphics", reading.sm_clock_mhz, most.max_sm),
        ("sm", reading.sm_clock_mhz, most.max_sm),
        ("memory", reading.memory_clock_mhz, most.max_memory),
        ("video", reading.video_clock_mhz, most.max_video),
    )
    return tuple(Clock(domain, now * 1e6, highest * 1e6) for domain, now, highest in megahertz)


def _throttles(reading: GpuReading) -> tuple[Throttle, ...]:
    return tuple(Throttle(name, bool(reading.clock_event_reasons & bit)) for bit, name in _REASONS.items())


def _pcie(reading: GpuReading) -> Pcie:
    card = reading.gpu.card
    return Pcie(
        generation=reading.pcie_generation,
        max_generation=card.pcie_generation,
        width=card.pcie_width,
        max_width=card.pcie_width,
        replays_total=reading.pcie_replays,
        transmit_bytes_per_second=reading.pcie_transmit_kb_per_second * 1000,
        receive_bytes_per_second=reading.pcie_receive_kb_per_second * 1000,
    )


def _link(link: LinkReading, reading: GpuReading) -> Link:
    gpu, nvlink = reading.gpu, reading.gpu.card.nvlink
    if not link.active or nvlink is None:
        return Link("nvlink", link.link, active=False)
    return Link(
        "nvlink",
        link.link,
        active=True,
        remote=gpu.link_remote(link.link).lower().removeprefix("0000"),
        bytes_per_second=nvlink.mbps * 1e6,
        transmit_bytes_total=link.transmit_kib * 1024.0,
        receive_bytes_total=link.receive_kib * 1024.0,
        errors=(
            LinkErrors("dl_replay", link.replays),
            LinkErrors("dl_recovery", link.recoveries),
            LinkErrors("dl_crc", link.crc_errors),
        ),
    )


def _ecc(reading: GpuReading) -> Iterator[EccCount]:
    ecc = reading.ecc
    if ecc is None:
        return
    counts = (
        ("corrected", False, ecc.volatile_corrected),
        ("uncorrected", False, ecc.volatile_uncorrected),
        ("corrected", True, ecc.aggregate_corrected),
        ("uncorrected", True, ecc.aggregate_uncorrected),
    )
    for severity, lifetime, count in counts:
        yield EccCount(severity, lifetime, count)
        yield EccCount(severity, lifetime, count, "dram")
        yield EccCount(severity, lifetime, 0, "sram")


def _remapped(reading: GpuReading) -> RemappedRows | None:
    rows = reading.remapping
    if rows is None:
        return None
    return RemappedRows(rows.correctable, rows.uncorrectable, rows.pending, rows.failed)


def _retired(reading: GpuReading) -> tuple[EccCount, ...]:
    if reading.retired_pages is None:
        return ()
    single, double = reading.retired_pages
    return EccCount("corrected", True, single), EccCount("uncorrected", True, double)


def _errors(reading: GpuReading, look: Look) -> tuple[ErrorCount, ...]:
    counts = Counter(xid.code for xid in reading.xids)
    last = {xid.code: xid.at for xid in reading.xids}
    return tuple(
        ErrorCount("xid", str(code), count, look.wall_clock(last[code])) for code, count in counts.items()
    )


def _health(reading: GpuReading, throttles: Iterable[Throttle], look: Look) -> Health:
    """The worst that holds."""
    recent = {
        str(xid.code)
        for xid in reading.xids
        if xid.code in _HARDWARE_XIDS and look.at - xid.at < _XID_IS_RECENT_SECONDS
    }
    if recent:
        return Health(HealthState.WARNING, f"XID {', '.join(sorted(recent))} in the last ten minutes")
    if reading.remapping is not None and reading.remapping.pending:
        return Health(HealthState.WARNING, "memory rows wait for a GPU reset to be remapped")
    if reading.ecc is not None and reading.ecc.volatile_uncorrected:
        return Health(HealthState.WARNING, "uncorrected memory errors since the driver was loaded")
    if any(throttle.active and throttle.reason in FAULT_THROTTLES for throttle in throttles):
        return Health(HealthState.WARNING, "slowed down by hardware: heat or power supply")
    return Health(HealthState.OK)


def _ratios(activity: Iterable[Activity]) -> dict[str, float]:
    """The library counts in millionths of a percent."""
    return {
        _ACTIVITY[one.metric]: round(round(one.percent * 1e6) / 1e8, 6)
        for one in activity
        if one.metric in _ACTIVITY
    }


def _partitions(reading: GpuReading, look: Look) -> Iterator[Partition]:
    """What the compute instances of a GPU instance share stands at the first of them."""
    activity = dict(reading.instance_activity)
    counted: set[int] = set()
    for mig in reading.mig:
        part, uuid = mig.part, look.names.id(mig.uuid)
        first = part.gpu_instance_id not in counted
        counted.add(part.gpu_instance_id)
        ratios = _ratios(activity.get(part.gpu_instance_id, ())) if first else {}
        yield Partition(
            id=f"nvidia:{uuid}",
            uuid=uuid,
            index=part.index,
            profile=part.name,
            gpu_instance_id=part.gpu_instance_id,
            compute_instance_id=part.compute_instance_id,
            utilization_ratio=ratios.get("graphics_active_ratio"),
            sm_active_ratio=ratios.get("sm_active_ratio"),
            tensor_active_ratio=ratios.get("tensor_active_ratio"),
            dram_active_ratio=ratios.get("dram_active_ratio"),
            memory_total_bytes=mig.memory_total_bytes if first else None,
            memory_used_bytes=mig.memory_used_bytes if first else None,
            memory_free_bytes=mig.memory_total_bytes - mig.memory_used_bytes if first else None,
            multiprocessors=part.multiprocessors,
        )


def _absent(reading: GpuReading) -> Iterator[Absence]:
    for field in _absent_fields(reading, reading.gpu.card):
        yield Absence(field, AbsenceReason.NOT_SUPPORTED)


def _absent_fields(reading: GpuReading, card: Card) -> Iterator[str]:
    partitioned = reading.gpu.partitioned
    if reading.gpu.serial is None:
        yield "serial"
    if not card.mig_profiles:
        yield "mig_enabled"
    if not card.row_remapping:
        yield "remapped_rows"
    for lifetime in ("volatile", "lifetime"):
        for severity in ("corrected", "uncorrected"):
            field = f"ecc.{severity}.{lifetime}"
            if card.ecc:
                yield f"{field}.l2_cache"
                yield f"{field}.register_file"
            else:
                yield field
    if partitioned or not card.gpm:
        yield "activity"
    if partitioned:
        yield from _WHOLE_CARD
        yield "processes.utilization"
        yield "processes.utilization_info"
    if not card.ecc:
        yield "ecc_enabled"
    if reading.memory_temperature_celsius is None:
        yield "sensors.memory"
    if reading.retired_pages is None:
        yield "retired_pages.corrected"
        yield "retired_pages.uncorrected"


def _process(process: ProcessReading, device: Device) -> Process:
    def ratio(percent: int | None) -> float | None:
        """The driver has no sample of an idle process, and of no process in MIG mode."""
        if percent is None:
            return None if device.mig_enabled else 0.0
        return percent / 100

    partition = next(
        (
            part.id
            for part in device.partitions
            if (part.gpu_instance_id, part.compute_instance_id)
            == (process.gpu_instance_id, process.compute_instance_id)
        ),
        None,
    )
    return Process(
        pid=process.pid,
        device=device.id,
        device_index=device.index,
        partition=partition,
        gpu_instance_id=process.gpu_instance_id,
        compute_instance_id=process.compute_instance_id,
        type=_TYPES[process.placement.type],
        mps=process.placement.type is node_spec.ProcessType.MPS,
        memory_bytes=process.memory_bytes,
        utilization_ratio=ratio(process.sm),
        memory_utilization_ratio=ratio(process.memory),
        encoder_utilization_ratio=ratio(process.encoder),
        decoder_utilization_ratio=ratio(process.decoder),
    )
