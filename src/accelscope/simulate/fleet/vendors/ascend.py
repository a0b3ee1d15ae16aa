"""Ascend's devices as the agent sees them through npu-smi."""

from collections.abc import Iterator, Sequence

from accelscope.model import (
    Absence,
    AbsenceReason,
    Clock,
    Device,
    EccCount,
    ErrorCount,
    Health,
    HealthState,
    Pcie,
    Process,
    ProcessType,
    Rail,
    Sensor,
    Vendor,
)
from accelscope.simulate.ascend.driver import plugin_device_name
from accelscope.simulate.ascend.models import Layout
from accelscope.simulate.ascend.readings import ChipReading
from accelscope.simulate.ascend.spec import AscendSpec
from accelscope.simulate.fleet.vendors.seen import HANGS, LOST, NOT_SHOWN, Look, Offer, Seen, unanswered

_MIB = 1 << 20
_FIRMWARE = "7.5.0.5.220"
_STATES = {
    "Warning": HealthState.WARNING,
    "Alarm": HealthState.CRITICAL,
    "Critical": HealthState.CRITICAL,
}


def see(spec: AscendSpec, readings: Sequence[ChipReading], look: Look) -> Seen:
    seen = Seen(source="npu-smi", driver_version=spec.driver_version)
    for reading in readings:
        device = _device(spec, reading, readings, look)
        name = plugin_device_name(reading.chip)
        seen.offers[name] = Offer(name, device.id)
        if not reading.listed:
            seen.devices.append(unanswered(device, NOT_SHOWN))
        elif not reading.shown:
            seen.devices.append(unanswered(device, LOST))
        elif reading.hangs:
            seen.devices.append(unanswered(device, HANGS))
        else:
            seen.devices.append(device)
            seen.processes.extend(_processes(reading, device))
    return seen


def _device(spec: AscendSpec, reading: ChipReading, readings: Sequence[ChipReading], look: Look) -> Device:
    chip, model = reading.chip, reading.chip.model
    uuid = look.names.id(chip.die.replace(" ", "-"))
    hbm = model.layout is not Layout.DDR
    numbered = model.layout in (Layout.TWO_CHIPS, Layout.NO_CHIPS)
    watts = _watts(reading, readings)
    return Device(
        vendor=Vendor.ASCEND,
        id=f"ascend:{uuid}",
        index=chip.slot if reading.logic_id is None else reading.logic_id,
        model=model.name,
        uuid=uuid,
        serial=look.names.id(chip.serial),
        pci_address=chip.address if model.on_pci else None,
        numa_node=chip.numa_node if model.on_pci else None,
        device_name=f"davinci{chip.slot}" if numbered else None,
        driver_version=spec.driver_version,
        firmware_version=_FIRMWARE,
        board_id=chip.board,
        chip_id=None if model.layout is Layout.NO_CHIPS else chip.number,
        pci_device_id=f"0x{model.pci_device_code:04x}",
        chip_count=chip.board_chips,
        physical_id=chip.slot if numbered else None,
        health=_health(reading),
        read_at=look.now,
        utilization_ratio=reading.aicore / 100,
        memory_utilization_ratio=reading.bandwidth / 100,
        vector_utilization_ratio=reading.vector / 100 if model.has_vector_cores else None,
        control_cpu_utilization_ratio=0.06,
        overall_utilization_ratio=reading.aicore / 100 if model.has_cube_usage else None,
        tensor_active_ratio=reading.cube / 100 if model.has_cube_usage else None,
        memory_total_bytes=model.memory_mib * _MIB,
        memory_used_bytes=reading.memory_used_mib * _MIB,
        temperature_celsius=float(reading.celsius),
        sensors=tuple(_sensors(reading, hbm=hbm)),
        power_watts=watts,
        rails=(Rail("npu", volts=reading.volts),),
        clocks=(
            Clock("memory", 1600e6 if hbm else 2133e6),
            Clock("aicore", reading.aicore_mhz * 1e6, model.aicore_mhz * 1e6),
        ),
        pcie=Pcie(generation=4, max_generation=4, width=16, max_width=16) if model.on_pci else None,
        ecc=tuple(_ecc(reading, "hbm" if hbm else "ddr")),
        retired_pages=(
            EccCount("corrected", True, reading.ecc.isolated_single),
            EccCount("uncorrected", True, reading.ecc.isolated_double),
        ),
        errors=tuple(ErrorCount("fault", f"{error.code:08X}", 1, look.now) for error in reading.errors),
        absent=tuple(_absent(reading, watts)),
    )


def _watts(reading: ChipReading, readings: Sequence[ChipReading]) -> float | None:
    """Chips with one meter show it at the first of them."""
    chip, model = reading.chip, reading.chip.model
    if not model.chip_measures_power:
        if not chip.leads_board:
            return None
        own = (other.watts for other in readings if other.chip.board == chip.board and other.shown)
        return round(sum(own), 1)
    return None if model.layout is Layout.TWO_CHIPS and not chip.leads_board else reading.watts


def _health(reading: ChipReading) -> Health:
    if reading.health == "OK":
        return Health(HealthState.OK, vendor_word="OK")
    told = f"the driver reports {reading.health}: {reading.errors[0].information}"
    return Health(_STATES[reading.health], told, vendor_word=reading.health)


def _sensors(reading: ChipReading, *, hbm: bool) -> Iterator[Sensor]:
    yield Sensor("npu", float(reading.celsius))
    if hbm:
        yield Sensor("hbm", float(reading.celsius + 4))


def _ecc(reading: ChipReading, memory: str) -> Iterator[EccCount]:
    counts = (
        ("corrected", False, reading.ecc.single),
        ("uncorrected", False, reading.ecc.double),
        ("corrected", True, reading.ecc.total_single),
        ("uncorrected", True, reading.ecc.total_double),
    )
    for block in (None, memory):
        yield from (EccCount(severity, lifetime, count, block) for severity, lifetime, count in counts)


def _absent(reading: ChipReading, watts: float | None) -> Iterator[Absence]:
    if not reading.chip.model.on_pci:
        yield Absence("pci_address", AbsenceReason.NOT_SUPPORTED)
    if watts is None:
        yield Absence("power_watts", AbsenceReason.SHARED)


def _processes(reading: ChipReading, device: Device) -> Iterator[Process]:
    for process in reading.processes:
        yield Process(
            pid=process.pid,
            device=device.id,
            device_index=device.index,
            type=ProcessType.COMPUTE,
            memory_bytes=process.memory_mib * _MIB,
        )
