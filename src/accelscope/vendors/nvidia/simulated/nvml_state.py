"""The state file of the simulated NVML: sorted `key=value` lines.

A value `!NAME` makes the call return that error. A missing key makes it return Not Supported. The C sources
in `native` define which call reads which key.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from accelscope.simulate.faults import Fault, FaultKind
from accelscope.simulate.spec import ProcessType
from accelscope.vendors.nvidia.simulated.gpu import (
    SUPPORTED_REASONS,
    Activity,
    Gpu,
    GpuReading,
    LinkReading,
    ProcessReading,
)
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

Keys = dict[str, object]

# Fields of nvmlDeviceGetFieldValues, with their types in the real library: `u` is unsigned int, `q` unsigned
# long long, `s` signed int. The scope of a link's field is its number; ALL_LINKS is the scope of the sum.
ALL_LINKS = 0xFFFFFFFF

# Old fields have one id per link: links 0 to 5 from the first id, 6 to 11 from the second, then the total.
_OLD_LINK_FIELDS: tuple[tuple[int, int, int, Callable[[LinkReading], int]], ...] = (
    (32, 96, 38, lambda link: link.crc_errors),
    (39, 102, 45, lambda _: 0),
    (46, 108, 52, lambda link: link.replays),
    (53, 114, 59, lambda link: link.recoveries),
)
_OLD_SPEED = (84, 132, 90)
_OLD_LINKS = 12
_LINK_COUNT, _SWITCH_LINKS = 91, 147


def render_fields(reading: GpuReading) -> Keys:
    values = _device_fields(reading) | _ecc_fields(reading)
    if reading.gpu.card.nvlink is not None:
        values |= _link_fields(reading)
    return {f"field.{field}": value for field, value in values.items()}


def _device_fields(reading: GpuReading) -> Keys:
    power, limit = reading.gpu.card.power, int(1000 * reading.gpu.spec.power_limit_watts)
    values: Keys = {
        "83": f"q{reading.energy_millijoules}",
        "94": f"u{reading.pcie_replays}",
        "95": "u0",
        "74": "q0",
        "75": f"q{reading.thermal_violation_nanoseconds}",
        "173": "u0",  # PCIe errors: correctable, non-fatal, fatal
        "179": "u0",
        "180": "u0",
        "185": f"u{reading.power_average_milliwatts}",
        "186": f"u{reading.power_instant_milliwatts}",
        "187": f"u{int(1000 * power.min_watts)}",
        "188": f"u{int(1000 * power.max_watts)}",
        "189": f"u{int(1000 * power.default_watts)}",
        "190": f"u{limit}",
        "191": f"q{reading.energy_millijoules}",
        "192": f"u{limit}",
        "197": f"q{reading.pcie_transmit_bytes}",
        "198": f"q{reading.pcie_receive_bytes}",
        "269": f"q{reading.thermal_violation_nanoseconds}",
        "270": f"q{reading.thermal_violation_nanoseconds}",
        "271": "q0",
    }
    limits = reading.gpu.card.temperature
    if reading.gpu.card.has_temperature_margins:
        values["193"] = f"s{limits.gpu_max - limits.shutdown}"
        values["194"] = f"s{limits.gpu_max - limits.slowdown}"
        values["196"] = "s0"
    if reading.memory_temperature_celsius is not None:
        values["82"] = f"u{reading.memory_temperature_celsius}"
    return values


def _ecc_fields(reading: GpuReading) -> Keys:
    values: Keys = {}
    if ecc := reading.ecc:
        values |= {
            "1": "u1",
            "2": "u1",
            "3": f"q{ecc.volatile_corrected}",
            "4": f"q{ecc.volatile_uncorrected}",
            "5": f"q{ecc.aggregate_corrected}",
            "6": f"q{ecc.aggregate_uncorrected}",
            "11": f"q{ecc.volatile_corrected}",
            "12": f"q{ecc.volatile_uncorrected}",
            "22": f"q{ecc.aggregate_corrected}",
            "23": f"q{ecc.aggregate_uncorrected}",
        }
    if remapping := reading.remapping:
        values |= {
            "142": f"u{remapping.correctable}",
            "143": f"u{remapping.uncorrectable}",
            "144": f"u{int(remapping.pending)}",
            "145": f"u{int(remapping.failed)}",
        }
    if reading.retired_pages is not None:
        single, double = reading.retired_pages
        values |= {"29": f"u{single}", "30": f"u{double}", "31": f"u{int(reading.retirement_pending)}"}
    return values


def _link_fields(reading: GpuReading) -> Keys:
    nvlink = reading.gpu.card.nvlink
    mbps = nvlink.mbps if nvlink else 0
    version = nvlink.version if nvlink else 0
    active = [link for link in reading.links if link.active]
    values: Keys = {
        str(_LINK_COUNT): f"u{len(reading.links)}",
        str(_SWITCH_LINKS): f"u{len(active)}",
    }
    for link in reading.links:
        values[f"165.{link.link}"] = f"u{int(link.active)}"
    for link in active:
        scoped = {
            138: f"q{link.transmit_kib}",
            139: f"q{link.receive_kib}",
            140: f"q{_with_overhead(link.transmit_kib)}",
            141: f"q{_with_overhead(link.receive_kib)}",
            161: f"q{link.replays}",
            162: f"q{link.recoveries}",
            163: f"q{link.crc_errors}",
            164: f"u{mbps}",
            166: f"u{version}",
        }
        values |= {f"{field}.{link.link}": value for field, value in scoped.items()}
        if link.link < _OLD_LINKS:
            for low, high, _, count in _OLD_LINK_FIELDS:
                values[str(_old_field(low, high, link.link))] = f"q{count(link)}"
            values[str(_old_field(*_OLD_SPEED[:2], link.link))] = f"u{mbps}"
    if active:
        sums = {
            138: sum(link.transmit_kib for link in active),
            139: sum(link.receive_kib for link in active),
            140: sum(_with_overhead(link.transmit_kib) for link in active),
            141: sum(_with_overhead(link.receive_kib) for link in active),
        }
        values |= {f"{field}.{ALL_LINKS}": f"q{value}" for field, value in sums.items()}
        values |= {
            str(total): f"q{sum(count(link) for link in active)}" for _, _, total, count in _OLD_LINK_FIELDS
        }
        values[str(_OLD_SPEED[2])] = f"u{mbps}"
    return values


def _old_field(low: int, high: int, link: int) -> int:
    return low + link if link < _OLD_LINKS // 2 else high + link - _OLD_LINKS // 2


def _with_overhead(kib: int) -> int:
    """Raw throughput: the protocol adds about an eighth."""
    return kib + kib // 8


_TYPES = {ProcessType.COMPUTE: 1, ProcessType.GRAPHICS: 2, ProcessType.BOTH: 3, ProcessType.MPS: 5}
_EVENTS_WITH_ECC, _EVENTS = 0x1F, 0x1C
_SAMPLING_PERIOD_MICROSECONDS = 167_000
_SWITCH = 2  # nvmlIntNvLinkDeviceType_t
_FABRIC_COMPLETED = 3
_PCIE_SPEED_MBPS = {1: 2500, 2: 5000, 3: 8000, 4: 16000, 5: 32000}
_NOT_SUPPORTED = "!NOT_SUPPORTED"
_CLOCKS = (0, 1, 2, 3)  # graphics, SM, memory, video
_LIBRARY_FAULTS = {
    FaultKind.LIBRARY_HANG: "hang",
    FaultKind.DRIVER_NOT_LOADED: "driver_not_loaded",
    FaultKind.VERSION_MISMATCH: "version_mismatch",
}


def render(spec: NvidiaSpec, readings: Sequence[GpuReading], faults: Iterable[Fault], at: float) -> str:
    """The content of the state file. `faults` are the active ones."""
    keys: Keys = {}
    keys.update(_system(spec, readings, at))
    for fault in faults:
        if word := _LIBRARY_FAULTS.get(fault.kind):
            keys["fault.library"] = word
    for reading in readings:
        prefix = f"gpu{reading.gpu.slot}."
        for key, value in _gpu(spec, reading).items():
            keys[prefix + key] = value
    return "".join(f"{key}={value}\n" for key, value in sorted(keys.items()))


def cuda_number(version: str) -> int:
    major, minor = version.split(".")[:2]
    return 1000 * int(major) + 10 * int(minor)


def _system(spec: NvidiaSpec, readings: Sequence[GpuReading], at: float) -> Keys:
    keys: Keys = {
        "system.driver_version": spec.driver_version,
        "system.nvml_version": f"{spec.cuda_version.split('.')[0]}.{spec.driver_version}",
        "system.cuda_version": cuda_number(spec.cuda_version),
        "system.call_cost_us": spec.call_cost_microseconds,
        "system.pcie_window_ms": spec.pcie_window_milliseconds,
        "system.time_us": int(at * 1e6),
        "system.count": sum(reading.index is not None for reading in readings),
    }
    for reading in readings:
        if reading.index is not None:
            keys[f"index.{reading.index}"] = reading.gpu.slot
        for process in reading.processes:
            keys[f"process.{process.pid}.name"] = process.path
    return keys


def _gpu(spec: NvidiaSpec, reading: GpuReading) -> Keys:
    gpu = reading.gpu
    keys = _identity(spec, gpu)
    if reading.index is not None:
        keys["index"] = reading.index
    if reading.fault is not None:
        keys["fault"] = reading.fault
    keys.update(_measured(reading))
    keys.update(_errors(reading))
    keys.update(_links(reading))
    keys.update(_processes(spec, reading))
    keys.update(_activity("", reading.activity))
    for instance, activity in reading.instance_activity:
        keys.update(_activity(f"gi{instance}.", activity))
    keys.update(render_fields(reading))
    keys.update(_mig(reading))
    return keys


def _identity(spec: NvidiaSpec, gpu: Gpu) -> Keys:
    card, power = gpu.card, gpu.card.power
    keys: Keys = {
        "name": card.name,
        "uuid": gpu.uuid,
        "vbios": card.vbios,
        "inforom.image": card.inforom_image,
        "inforom.0": "2.1",
        "inforom.checksum": 0x5EED + gpu.slot,
        "gsp_firmware": spec.driver_version,
        "gsp.enabled": 1,
        "minor_number": gpu.slot,
        "board_id": gpu.bus << 8,
        "multi_gpu_board": 0,
        "brand": card.brand,
        "architecture": card.architecture,
        "cores": card.cores,
        "memory_bus_width": card.memory_bus_width,
        "cuda.major": card.compute_capability[0],
        "cuda.minor": card.compute_capability[1],
        "bus_type": 2,
        "irq": 100 + gpu.slot,
        "numa_node": gpu.numa_node,
        "cpu_affinity": 0xFFFFFFFF << (32 * gpu.numa_node),
        "memory_affinity": 1 << gpu.numa_node,
        "pci.bus_id": gpu.bus_id,
        "pci.device_id": card.pci_device_id,
        "pci.subsystem_id": card.pci_subsystem_id,
        "pci.class": card.pci_class,
        "pcie.max_gen": card.pcie_generation,
        "pcie.max_width": card.pcie_width,
        "pcie.width": card.pcie_width,
        "pcie.max_speed": _PCIE_SPEED_MBPS[card.pcie_generation],
        "persistence_mode": 0 if card.display else 1,
        "compute_mode": 0,
        "display_mode": 1 if card.display else 0,
        "display_active": 1 if card.display else 0,
        "adaptive_clock": 1,
        "accounting.mode": 0,
        "accounting.buffer_size": 4000,
        "sampling_period_us": _SAMPLING_PERIOD_MICROSECONDS,
        "event_types": _EVENTS_WITH_ECC if card.ecc else _EVENTS,
        "clocks_event_reasons_supported": SUPPORTED_REASONS,
        "power.managed": 1,
        "power.source": 0,
        "power.limit_mw": int(1000 * gpu.spec.power_limit_watts),
        "power.enforced_mw": int(1000 * gpu.spec.power_limit_watts),
        "power.default_mw": int(1000 * power.default_watts),
        "power.min_mw": int(1000 * power.min_watts),
        "power.max_mw": int(1000 * power.max_watts),
        "temperature.threshold.0": card.temperature.shutdown,
        "temperature.threshold.1": card.temperature.slowdown,
        "temperature.threshold.3": card.temperature.gpu_max,
        "clock.max.0": card.clocks.max_sm,
        "clock.max.1": card.clocks.max_sm,
        "clock.max.2": card.clocks.max_memory,
        "clock.max.3": card.clocks.max_video,
        "bar1.total": card.bar1_mib << 20,
        "fan.count": card.fans,
        "mig.max_devices": gpu.max_mig_devices,
        "gpm.supported": int(card.gpm),
    }
    if card.temperature.memory_max is not None:
        keys["temperature.threshold.2"] = card.temperature.memory_max
    if gpu.serial is not None:
        keys["serial"] = gpu.serial
    if card.part_number is not None:
        keys["part_number"] = card.part_number
    if card.ecc:
        keys |= {"inforom.1": "7.16", "ecc.mode.current": 1, "ecc.mode.pending": 1, "ecc.mode.default": 1}
    if card.mig_profiles:
        keys["mig.mode"] = int(gpu.partitioned)
    if gpu.linked:
        keys |= {"fabric.state": _FABRIC_COMPLETED, "module_id": gpu.slot + 1}
    for fan in range(card.fans):
        keys |= {f"fan.{fan}.policy": 0, "fan.min_percent": 30, "fan.max_percent": 100}
    return keys


def _measured(reading: GpuReading) -> Keys:
    gpu, card = reading.gpu, reading.gpu.card
    clocks = (
        reading.sm_clock_mhz,
        reading.sm_clock_mhz,
        reading.memory_clock_mhz,
        reading.video_clock_mhz,
    )
    keys: Keys = {
        "memory.total": reading.memory_total_bytes,
        "memory.reserved": reading.memory_reserved_bytes,
        "memory.used": reading.memory_used_bytes,
        "bar1.used": reading.bar1_used_bytes,
        "temperature.0": reading.temperature_celsius,
        "temperature.margin": card.temperature.gpu_max - reading.temperature_celsius,
        "power.average_mw": reading.power_average_milliwatts,
        "energy_mj": reading.energy_millijoules,
        "pstate": reading.pstate,
        "clocks_event_reasons": reading.clock_event_reasons,
        "pcie.gen": reading.pcie_generation,
        "pcie.speed_mbps": _PCIE_SPEED_MBPS[reading.pcie_generation],
        "pcie.replays": reading.pcie_replays,
        "pcie.throughput.0": reading.pcie_transmit_kb_per_second,
        "pcie.throughput.1": reading.pcie_receive_kb_per_second,
        "violation.0": 0,
        "violation.1": reading.thermal_violation_nanoseconds,
    }
    for clock, mhz in zip(_CLOCKS, clocks, strict=True):
        keys[f"clock.{clock}"] = mhz
        keys[f"clock.id.{clock}.0"] = mhz
    # In MIG mode the driver returns Not Supported for the utilisation of the whole card.
    utilization: Keys = {
        "utilization.gpu": reading.utilization_percent,
        "utilization.memory": reading.memory_utilization_percent,
        "encoder.utilization": reading.encoder_percent,
        "decoder.utilization": reading.decoder_percent,
        "jpeg.utilization": 0,
        "ofa.utilization": 0,
    }
    keys.update(dict.fromkeys(utilization, _NOT_SUPPORTED) if gpu.partitioned else utilization)
    if reading.fan_percent is not None:
        for fan in range(card.fans):
            keys[f"fan.{fan}.percent"] = reading.fan_percent
            keys[f"fan.{fan}.rpm"] = reading.fan_rpm
    return keys


def _errors(reading: GpuReading) -> Keys:
    keys: Keys = {}
    if reading.xids:
        keys["xids"] = ";".join(f"{xid.number}:{xid.code}" for xid in reading.xids)
    if ecc := reading.ecc:
        counts = (
            (0, 0, ecc.volatile_corrected),
            (0, 1, ecc.aggregate_corrected),
            (1, 0, ecc.volatile_uncorrected),
            (1, 1, ecc.aggregate_uncorrected),
        )
        for error, counter, count in counts:
            keys[f"ecc.{error}.{counter}.total"] = count
            keys[f"ecc.{error}.{counter}.2"] = count  # device memory
            keys[f"ecc.{error}.{counter}.7"] = 0  # SRAM
    if remapping := reading.remapping:
        keys |= {
            "remapped.correctable": remapping.correctable,
            "remapped.uncorrectable": remapping.uncorrectable,
            "remapped.pending": int(remapping.pending),
            "remapped.failed": int(remapping.failed),
            "remapped.banks.max": reading.gpu.card.remapper_banks - remapping.uncorrectable,
            "remapped.banks.high": remapping.uncorrectable,
        }
    if reading.retired_pages is not None:
        single, double = reading.retired_pages
        keys |= {
            "retired.0": single,
            "retired.1": double,
            "retired.pending": int(reading.retirement_pending),
        }
    return keys


def _links(reading: GpuReading) -> Keys:
    keys: Keys = {}
    nvlink = reading.gpu.card.nvlink
    if nvlink is None:
        return keys
    for link in reading.links:
        prefix = f"link{link.link}."
        keys[f"{prefix}state"] = int(link.active)
        if not link.active:
            continue
        keys |= {
            f"{prefix}version": nvlink.version,
            f"{prefix}remote": reading.gpu.link_remote(link.link),
            f"{prefix}remote_type": _SWITCH,
            f"{prefix}errors.0": link.replays,
            f"{prefix}errors.1": link.recoveries,
            f"{prefix}errors.2": link.crc_errors,
            f"{prefix}errors.3": 0,
            f"{prefix}transmit_kib": link.transmit_kib,
            f"{prefix}receive_kib": link.receive_kib,
        }
        keys |= {f"{prefix}capability.{capability}": 1 for capability in range(6)}
    return keys


def _activity(prefix: str, activity: Sequence[Activity]) -> Keys:
    return {
        f"{prefix}gpm.{one.metric}": f"{round(one.percent * 1e6)}:{round(one.integral * 1e6)}"
        for one in activity
    }


def _record(process: ProcessReading) -> str:
    def text(value: int | None) -> str:
        return "-" if value is None else str(value)

    utilization = (process.sm, process.memory, process.encoder, process.decoder)
    engines = (None, None) if process.sm is None else (0, 0)  # jpeg, optical flow: always idle
    return ":".join(
        (
            str(process.pid),
            str(_TYPES[process.placement.type]),
            *map(
                text,
                (
                    process.memory_bytes,
                    process.gpu_instance_id,
                    process.compute_instance_id,
                    *utilization,
                    *engines,
                ),
            ),
        )
    )


def _records(processes: Iterable[ProcessReading]) -> str:
    return ";".join(_record(process) for process in processes)


def _processes(spec: NvidiaSpec, reading: GpuReading) -> Keys:
    by_process = spec.process_utilization and not reading.gpu.partitioned
    return {
        "processes": _records(reading.processes),
        "process_utilization": 1 if by_process else _NOT_SUPPORTED,
        "processes_utilization_info": _NOT_SUPPORTED if reading.gpu.partitioned else 1,
    }


def _mig(reading: GpuReading) -> Iterator[tuple[str, object]]:
    for mig in reading.mig:
        part, prefix = mig.part, f"mig{mig.part.index}."
        processes = (p for p in reading.processes if p.placement.instance == part.index)
        keys: Keys = {
            "name": mig.name,
            "uuid": mig.uuid,
            "gpu_instance_id": part.gpu_instance_id,
            "compute_instance_id": part.compute_instance_id,
            "memory.total": mig.memory_total_bytes,
            "memory.reserved": 0,
            "memory.used": mig.memory_used_bytes,
            "bar1.total": mig.bar1_total_bytes,
            "bar1.used": 0,
            "attribute.multiprocessors": part.multiprocessors,
            "attribute.copy_engines": part.profile.copy_engines,
            "attribute.decoders": part.profile.decoders,
            "attribute.encoders": 0,
            "attribute.jpegs": part.profile.decoders,
            "attribute.ofas": 0,
            "attribute.gpu_slices": part.profile.slices,
            "attribute.compute_slices": part.compute_slices,
            "attribute.memory_mb": part.profile.memory_mib,
            "processes": _records(processes),
        }
        for key, value in keys.items():
            yield prefix + key, value
