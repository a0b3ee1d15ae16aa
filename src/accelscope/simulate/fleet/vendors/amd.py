"""AMD's devices as the agent sees them in sysfs and through amd-smi or rocm-smi."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from accelscope.model import (
    Absence,
    AbsenceReason,
    Clock,
    Core,
    Device,
    EccCount,
    ErrorCount,
    Fan,
    Health,
    HealthState,
    Link,
    Partition,
    Pcie,
    Process,
    ProcessType,
    Rail,
    Sensor,
    Throttle,
    Vendor,
)
from accelscope.simulate.amd.amd_smi import VBIOS_VERSION, pcie_megabits
from accelscope.simulate.amd.cards import Family
from accelscope.simulate.amd.gpu import Gpu
from accelscope.simulate.amd.readings import GpuReading, PartReading, ProcessReading
from accelscope.simulate.amd.spec import AmdSpec
from accelscope.simulate.fleet.vendors.seen import HANGS, LOST, NOT_SHOWN, Look, Offer, Seen, unanswered

_SILENT = {"lost": LOST, "vanished": NOT_SHOWN, "hang": HANGS}
_THROTTLES = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
_XGMI_BYTES_PER_SECOND = 64e9
_ASLEEP = Health(HealthState.OK, "asleep to save power: it is not woken to be read", vendor_word="suspended")
_ASLEEP_FIELDS = (
    "utilization_ratio",
    "memory_utilization_ratio",
    "memory_total_bytes",
    "memory_used_bytes",
    "temperature_celsius",
    "power_watts",
)
_OF_THE_MODULE = (
    "power_watts",
    "power_limit_watts",
    "power_limit_default_watts",
    "power_limit_min_watts",
    "power_limit_max_watts",
    "energy_joules",
)
_RECENTLY = "uncorrectable errors in the last ten minutes: umc.ue"


def see(spec: AmdSpec, readings: Sequence[GpuReading], look: Look) -> Seen:
    version = spec.driver_version or spec.kernel_release
    tool = next(iter(spec.tools), None)
    seen = Seen(source=f"sysfs+{tool}" if tool else "sysfs", driver_version=version)
    shown = [reading for reading in readings if reading.index is not None]
    for reading in readings:
        device = _device(spec, reading, shown, look)
        seen.offers.update((offer.name, offer) for offer in _offers(reading.gpu, device))
        if reading.fault is None:
            seen.devices.append(device)
            seen.processes.extend(_processes(reading, device))
        else:
            seen.devices.append(unanswered(device, _SILENT[reading.fault]))
    return seen


def _offers(gpu: Gpu, device: Device) -> Iterator[Offer]:
    yield Offer(gpu.address, device.id, device.partitions[0].id if device.partitions else None)
    for part in device.partitions:
        if part.device_name is not None:
            yield Offer(part.device_name, device.id, part.id)


def _device(spec: AmdSpec, reading: GpuReading, shown: Sequence[GpuReading], look: Look) -> Device:
    gpu, card = reading.gpu, reading.gpu.card
    tool = "amd-smi" if "amd-smi" in spec.tools else next(iter(spec.tools), None)
    uuid = None if gpu.unique_id is None else look.names.id(f"0x{gpu.unique_id:x}")
    identity = Device(
        vendor=Vendor.AMD,
        id=f"amd:{uuid or gpu.address}",
        index=gpu.slot if reading.index is None else reading.index,
        model=card.market_name if tool or card.family is Family.INSTINCT else None,
        architecture=card.architecture,
        uuid=uuid,
        serial=None if gpu.serial is None else look.names.id(gpu.serial),
        pci_address=gpu.address,
        numa_node=gpu.numa_node if gpu.numa_node >= 0 else None,
        device_name=f"renderD{gpu.first_minor}",
        driver_version=spec.driver_version or spec.kernel_release,
        firmware_version=card.vbios,
        vbios_version=VBIOS_VERSION if tool == "amd-smi" else None,
        part_number=card.part_number,
        pci_device_id=f"0x{card.code:04x}",
        read_at=look.now,
    )
    if reading.suspended:
        silent = [Absence(field, AbsenceReason.SUSPENDED) for field in _ASLEEP_FIELDS]
        return replace(identity, health=_ASLEEP, absent=(*_absent(reading, tool), *silent))
    instinct, whole = card.family is Family.INSTINCT, tool == "amd-smi"
    temperature = reading.edge_millicelsius if card.edge_sensor else reading.junction_millicelsius
    metered = gpu.is_primary_die
    throttles = _throttles(reading) if whole and card.xccs > 1 else ()
    ecc = tuple(_ecc(reading))
    return replace(
        identity,
        health=_health(reading, temperature / 1000),
        ecc_enabled=True if whole and instinct else None,
        compute_partition=gpu.spec.compute_partition,
        memory_partition=gpu.spec.memory_partition,
        utilization_ratio=reading.busy_percent / 100,
        memory_utilization_ratio=reading.memory_busy_percent / 100 if card.family is not Family.APU else None,
        decoder_utilization_ratio=0.0 if whole and card.family is not Family.APU else None,
        jpeg_utilization_ratio=0.0 if whole and card.xccs > 1 else None,
        cores=_cores(reading) if whole and card.xccs > 1 else (),
        memory_total_bytes=card.vram_bytes,
        memory_used_bytes=reading.vram_used_bytes,
        memory_free_bytes=card.vram_bytes - reading.vram_used_bytes,
        temperature_celsius=temperature / 1000,
        sensors=tuple(_sensors(reading)),
        temperature_slowdown_celsius=None if card.family is Family.APU else float(card.crit_celsius),
        temperature_shutdown_celsius=None if card.family is Family.APU else float(card.emergency_celsius),
        power_watts=reading.power_microwatts / 1e6 if metered else None,
        **_limits(gpu),
        energy_joules=round(reading.energy_counts / 2**16, 6) if instinct and metered else None,
        rails=() if reading.millivolts is None else (Rail("gfx", volts=reading.millivolts / 1000),),
        fans=_fans(reading),
        clocks=(
            Clock("graphics", reading.sclk_mhz * 1e6, card.sclk_mhz[-1] * 1e6),
            Clock("memory", reading.mclk_mhz * 1e6, card.mclk_mhz[-1] * 1e6),
        ),
        throttles=throttles,
        pcie=_pcie(reading, whole=whole),
        links=tuple(_links(reading, shown)) if whole else (),
        ecc=ecc,
        retired_pages=(EccCount("uncorrected", True, reading.bad_pages),) if reading.errors else (),
        errors=tuple(_errors(reading, look, whole=whole)),
        partitions=tuple(_partitions(reading, identity.id)),
        absent=tuple(_absent(reading, tool)),
    )


def _limits(gpu: Gpu) -> dict[str, Any]:
    """By field; a die that has no meter of its own has no limit either."""
    if gpu.card.family is Family.APU or not gpu.is_primary_die:
        return {}
    power = gpu.card.power
    return {
        "power_limit_watts": float(gpu.spec.power_limit_watts),
        "power_limit_default_watts": float(power.default_watts),
        "power_limit_min_watts": float(power.min_watts),
        "power_limit_max_watts": float(power.max_watts),
    }


def _cores(reading: GpuReading) -> tuple[Core, ...]:
    """Each partition has as many compute dies as any other."""
    each = reading.gpu.card.xccs // len(reading.parts)
    busy = [part.busy_percent / 100 for part in reading.parts for _ in range(each)]
    return tuple(Core(index, utilization_ratio=ratio) for index, ratio in enumerate(busy))


def _sensors(reading: GpuReading) -> Iterator[Sensor]:
    card = reading.gpu.card
    if card.edge_sensor:
        yield Sensor("edge", reading.edge_millicelsius / 1000)
    if card.junction_sensor:
        yield Sensor("junction", reading.junction_millicelsius / 1000)
        yield Sensor("memory", reading.memory_millicelsius / 1000)


def _fans(reading: GpuReading) -> tuple[Fan, ...]:
    rpm = reading.gpu.card.fan_rpm
    if reading.fan_percent is None or rpm is None:
        return ()
    return (Fan(0, 255 * reading.fan_percent // 100 / 255, float(rpm * reading.fan_percent // 100)),)


def _pcie(reading: GpuReading, *, whole: bool) -> Pcie | None:
    card = reading.gpu.card
    if card.family is Family.APU:
        return None
    generation = card.pcie_generation
    return Pcie(
        generation=generation,
        max_generation=generation,
        width=16,
        max_width=16,
        replays_total=reading.pcie_replays,
        bytes_per_second=pcie_megabits(reading) * 1e6 / 8 if whole and card.xccs > 1 else None,
    )


def _throttles(reading: GpuReading) -> tuple[Throttle, ...]:
    return tuple(Throttle(name, reading.throttled and name == "socket_thermal") for name in _THROTTLES)


def _links(reading: GpuReading, shown: Sequence[GpuReading]) -> Iterator[Link]:
    if reading.gpu.hive is None or reading.index is None:
        return
    for place, other in enumerate(shown):
        if other.index == reading.index or other.gpu.hive is None:
            continue
        moved = (reading.energy_microjoules + other.energy_microjoules) // 10**9
        number = sum(len(before.parts) for before in shown[: reading.index])  # as amd-smi counts
        yield Link(
            "xgmi",
            place,
            active=True,
            remote=other.gpu.address,
            bytes_per_second=_XGMI_BYTES_PER_SECOND,
            transmit_bytes_total=(moved + number) * 1024,
            receive_bytes_total=moved * 1024,
        )


def _ecc(reading: GpuReading) -> Iterator[EccCount]:
    for block in sorted(reading.errors):
        uncorrected, corrected = reading.errors[block]
        yield EccCount("uncorrected", False, uncorrected, block)
        yield EccCount("corrected", False, corrected, block)
    if reading.errors:
        counts = reading.errors.values()
        yield EccCount("uncorrected", False, sum(uncorrected for uncorrected, _ in counts))
        yield EccCount("corrected", False, sum(corrected for _, corrected in counts))


def _errors(reading: GpuReading, look: Look, *, whole: bool) -> Iterator[ErrorCount]:
    for block, (uncorrected, corrected) in reading.errors.items():
        for code, count in (("ue", uncorrected), ("ce", corrected)):
            if count:
                yield ErrorCount("ras", f"{block}.{code}", count, look.now)
    if whole and reading.errors:
        yield ErrorCount("pcie", "nak_sent", 0)
        yield ErrorCount("pcie", "nak_received", 0)


def _health(reading: GpuReading, celsius: float) -> Health:
    """The worst that holds."""
    card = reading.gpu.card
    if celsius >= card.emergency_celsius:
        text = f"{celsius:g} °C: at {card.emergency_celsius:g} °C it shuts itself down"
        return Health(HealthState.CRITICAL, text)
    if any(uncorrected for uncorrected, _ in reading.errors.values()):
        return Health(HealthState.CRITICAL, _RECENTLY)
    if reading.throttled and card.xccs > 1:
        return Health(HealthState.WARNING, "slowed down by heat or its supply: socket_thermal")
    if celsius >= card.crit_celsius and card.family is not Family.APU:
        text = f"{celsius:g} °C: at {card.crit_celsius:g} °C it slows itself down"
        return Health(HealthState.WARNING, text)
    return Health(HealthState.OK)


def _partitions(reading: GpuReading, device: str) -> Iterator[Partition]:
    if len(reading.parts) == 1:
        return
    names = [None, *(platform.name for platform in reading.gpu.platform_devices)]
    for shown in reading.parts:
        part = shown.part
        yield Partition(
            id=f"{device}/{part.number}",
            index=part.number,
            device_name=names[part.number],
            profile=reading.gpu.spec.compute_partition,
            utilization_ratio=shown.busy_percent / 100,
            memory_total_bytes=part.vram_bytes,
            memory_used_bytes=shown.vram_used_bytes,
            memory_free_bytes=part.vram_bytes - shown.vram_used_bytes,
            multiprocessors=part.compute_units,
        )


def _absent(reading: GpuReading, tool: str | None) -> Iterator[Absence]:
    card = reading.gpu.card
    if tool is None and card.family is not Family.INSTINCT:
        yield Absence("model", AbsenceReason.NOT_KNOWN)
    if card.family is Family.APU:
        yield Absence("memory_utilization_ratio", AbsenceReason.NOT_SUPPORTED)
    if not reading.gpu.is_primary_die:
        yield from (Absence(field, AbsenceReason.SHARED) for field in _OF_THE_MODULE)


def _processes(reading: GpuReading, device: Device) -> Iterator[Process]:
    for part in reading.parts:
        partition = device.partitions[part.part.number].id if device.partitions else None
        for process in part.processes:
            yield _process(process, part, device, partition)


def _process(process: ProcessReading, part: PartReading, device: Device, partition: str | None) -> Process:
    units = part.part.compute_units
    kind = ProcessType.COMPUTE if process.computes else ProcessType.GRAPHICS
    return Process(
        pid=process.pid,
        device=device.id,
        device_index=device.index,
        partition=partition,
        type=ProcessType.BOTH if process.computes and process.draws else kind,
        memory_bytes=process.vram_bytes,
        utilization_ratio=round(round(process.load * units) / units, 9) if process.computes else None,
    )
