"""Furiosa's devices as the agent sees them in sysfs and through furiosa-smi."""

from collections.abc import Iterator, Mapping, Sequence

from accelscope.model import (
    Absence,
    AbsenceReason,
    Clock,
    Core,
    Device,
    ErrorCount,
    Health,
    HealthState,
    Pcie,
    Process,
    ProcessType,
    Rail,
    Sensor,
    Throttle,
    Vendor,
)
from accelscope.simulate.fleet.vendors.seen import HANGS, LOST, NOT_SHOWN, Look, Offer, Seen, unanswered
from accelscope.simulate.furiosa import kernel
from accelscope.simulate.furiosa.models import Family
from accelscope.simulate.furiosa.readings import CardReading, CoreReading
from accelscope.simulate.furiosa.spec import FuriosaSpec, SmiVersion

_POWER_LIMIT_WATTS = 300.0
_REVISION = "B0"
_GENERATIONS = {"16.0 GT/s PCIe": 4, "32.0 GT/s PCIe": 5}
_REASONS = (
    "idle",
    "thermal_slowdown",
    "app_power_cap",
    "app_clock_cap",
    "hw_clock_cap",
    "hw_bus_limit",
    "hw_power_cap",
    "gov_clock_cap",
    "other_reason",
)


def see(spec: FuriosaSpec, readings: Sequence[CardReading], look: Look) -> Seen:
    families = [device.model.family for device in spec.devices]
    driver = spec.versions(families[0]).driver if families else None
    seen = Seen(source="sysfs", driver_version=driver)
    for reading in readings:
        device = _device(spec, reading, look)
        seen.offers[reading.uuid] = Offer(look.names.id(reading.uuid), device.id)
        if reading.index is None:
            seen.devices.append(unanswered(device, NOT_SHOWN))
        elif reading.lost:
            seen.devices.append(unanswered(device, LOST))
        elif reading.hangs:
            seen.devices.append(unanswered(device, HANGS))
        else:
            seen.devices.append(device)
            seen.processes.extend(_processes(reading, device))
    return seen


def _device(spec: FuriosaSpec, reading: CardReading, look: Look) -> Device:
    model = reading.model
    rngd = model.family is Family.RNGD
    index = reading.slot if reading.index is None else reading.index
    versions, uuid = spec.versions(model.family), look.names.id(reading.uuid)
    # Where the driver's classes are not shown, RNGD's tool reports use, and its newest version memory.
    told = rngd and spec.furiosa_smi is not SmiVersion.NONE
    lively = told and spec.furiosa_smi is not SmiVersion.V2024_1
    remembers = rngd and (spec.sysfs or spec.furiosa_smi is SmiVersion.V2026_1)
    counted = spec.sysfs  # cores count how long they ran
    generation = _GENERATIONS[model.link_speed]
    return Device(
        vendor=Vendor.FURIOSA,
        id=f"furiosa:{uuid}",
        index=index,
        model=model.family.value,
        architecture=model.family.value,
        uuid=uuid,
        serial=look.names.id(reading.serial),
        pci_address=reading.address,
        numa_node=reading.numa_node,
        device_name=f"npu{index}",
        device_number=kernel.device_number(reading),
        device_files=tuple(kernel.core_files(reading)),
        driver_version=versions.driver,
        firmware_version=versions.firmware,
        revision=_REVISION,
        health=_health(reading, told=lively),
        read_at=look.now,
        uptime_seconds=float(int(reading.uptime_seconds)),
        governor=kernel.GOVERNOR if rngd else None,
        utilization_ratio=_utilization(reading, counted=counted) if told or counted else None,
        cores=tuple(_cores(reading, told=told, counted=counted)),
        memory_total_bytes=model.memory_bytes if remembers else None,
        memory_used_bytes=reading.memory_used_bytes if remembers else None,
        temperature_celsius=round(1000 * reading.peak_celsius) / 1000,
        sensors=_sensors(reading),
        power_watts=round(1e6 * reading.watts) / 1e6,
        power_limit_watts=_POWER_LIMIT_WATTS if rngd else None,
        power_limit_default_watts=_POWER_LIMIT_WATTS if rngd else None,
        rails=() if rngd else tuple(_rails(reading)),
        clocks=_clocks(reading),
        throttles=_throttles(reading) if rngd else (),
        pcie=Pcie(
            generation=generation,
            max_generation=generation,
            width=model.link_width,
            max_width=model.link_width,
        ),
        errors=tuple(_errors(reading.errors)),
        absent=tuple(_absent(use=told or counted, memory=remembers)),
    )


def _health(reading: CardReading, *, told: bool) -> Health:
    word = ("alive" if reading.alive else "dead") if told else None
    if not reading.alive:
        return Health(HealthState.CRITICAL, "the driver says that the card is not alive", vendor_word=word)
    if _throttled(reading):
        return Health(HealthState.WARNING, "slowed down by hardware: thermal_slowdown", vendor_word=word)
    return Health(HealthState.OK, vendor_word=word)


def _throttled(reading: CardReading) -> bool:
    return any(throttle.active and throttle.reason == "thermal_slowdown" for throttle in _throttles(reading))


def _utilization(reading: CardReading, *, counted: bool) -> float:
    cores = [_core_utilization(core, counted=counted) if core.held else 0.0 for core in reading.cores]
    return round(sum(cores) / len(cores), 9)


def _core_utilization(core: CoreReading, *, counted: bool) -> float:
    """The tool prints hundredths of a percent."""
    return round(core.utilization, 9) if counted else round(round(100 * core.utilization, 2) / 100, 6)


def _cores(reading: CardReading, *, told: bool, counted: bool) -> Iterator[Core]:
    rngd = reading.model.family is Family.RNGD
    for index, core in enumerate(reading.cores):
        # Warboy's counters of a core that is not held cannot be read.
        known = told or (counted and (rngd or core.held))
        ratio = (_core_utilization(core, counted=counted) if core.held else 0.0) if known else None
        read = rngd and counted and core.held
        cycles, tasks = kernel.rngd_cycles(reading, index) if read else (None, None)
        yield Core(
            index,
            utilization_ratio=ratio,
            clock_hertz=core.mhz * 1e6 if rngd and counted else None,
            occupied=core.held,
            cycles_total=cycles,
            task_cycles_total=tasks,
        )


def _sensors(reading: CardReading) -> tuple[Sensor, ...]:
    return tuple(
        Sensor(name, round(1000 * celsius) / 1000) for name, celsius in kernel.temperatures(reading).items()
    )


def _rails(reading: CardReading) -> Iterator[Rail]:
    """What is the card's whole power is no rail."""
    for name, amperes in kernel.warboy_amperes(reading).items():
        yield Rail(name, amperes=round(1000 * amperes) / 1000)
    for name, volts in kernel.WARBOY_VOLTS.items():
        yield Rail(name, volts=volts)
    for name, watts in kernel.warboy_powers(reading).items():
        if name != kernel.WARBOY_TOTAL:
            yield Rail(name, watts=round(1e6 * watts) / 1e6)


def _clocks(reading: CardReading) -> tuple[Clock, ...]:
    mhz = reading.cores[0].mhz
    if reading.model.family is Family.RNGD:
        return (Clock("npu", mhz * 1e6),)
    return (
        Clock("ne_tensor", mhz * 1e6),
        Clock("ne_memory", mhz // 2 * 1e6),
        Clock("ne_operation", mhz // 2 * 1e6),
    )


def _throttles(reading: CardReading) -> tuple[Throttle, ...]:
    return tuple(
        Throttle(reason, bool(reading.throttle_reasons >> bit & 1)) for bit, reason in enumerate(_REASONS)
    )


def _errors(counts: Mapping[str, int]) -> Iterator[ErrorCount]:
    for name, count in counts.items():
        code = name.lower().replace(" ", "_")
        yield ErrorCount(code.partition("_")[0], code, count)


def _absent(*, use: bool, memory: bool) -> Iterator[Absence]:
    if not use:
        yield Absence("utilization_ratio", AbsenceReason.NOT_KNOWN)
    if not memory:
        yield Absence("memory_total_bytes", AbsenceReason.NOT_KNOWN)
        yield Absence("memory_used_bytes", AbsenceReason.NOT_KNOWN)


def _processes(reading: CardReading, device: Device) -> Iterator[Process]:
    for process in reading.processes:
        yield Process(
            pid=process.pid,
            device=device.id,
            device_index=device.index,
            type=ProcessType.COMPUTE,
            cores=process.cores,
        )
