"""The output of the simulated amd-smi, as in ROCm 6 and 7, and of rocm-smi, as in ROCm 4 to 7."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from accelscope.simulate.faults import FaultKind
from accelscope.vendors.amd.simulated.gpu import THROTTLE_CAUSES, GpuReading, PartReading
from accelscope.vendors.amd.simulated.spec import AmdSpec, Family

_MIB = 1 << 20
VBIOS_VERSION = "022.040.003.042.000001"
_NA = "N/A"
_GT_PER_SECOND = {3: 8, 4: 16, 5: 32}
_LINK_GIGABITS = 32
_JOULES_PER_COUNT = 15.3e-6  # the tool rounds the driver's unit, 2^-16 J
_JPEG_ENGINES = 40
_VIDEO_ENGINES = 4


@dataclass(frozen=True, slots=True)
class LogicalGpu:
    """A GPU in the output of amd-smi, which is a partition. Only the first partition has sensor values."""

    index: int
    reading: GpuReading
    part: PartReading

    @property
    def first(self) -> bool:
        return self.part.part.number == 0

    @property
    def silent(self) -> bool:
        return self.reading.fault == FaultKind.LOST or self.reading.suspended

    @property
    def bdf(self) -> str:
        """All partitions have the address of the GPU."""
        return self.reading.gpu.address

    @property
    def uuid(self) -> str:
        """AMD's library combines the unique id of the chip and its PCI device id."""
        number = self.reading.gpu.unique_id or 0
        first, second, rest = number >> 56, number >> 48 & 0xFF, number & (1 << 48) - 1
        return f"{first:02x}ff{self.reading.gpu.card.code:04x}-0000-1000-80{second:02x}-{rest:012x}"


def logical_gpus(readings: Iterable[GpuReading]) -> tuple[LogicalGpu, ...]:
    listed = [(reading, part) for reading in readings if reading.index is not None for part in reading.parts]
    return tuple(LogicalGpu(index, reading, part) for index, (reading, part) in enumerate(listed))


def static(spec: AmdSpec, gpus: Iterable[LogicalGpu]) -> str:
    return _document(spec, [_static(spec, gpu) for gpu in gpus])


def metric(spec: AmdSpec, gpus: Iterable[LogicalGpu]) -> str:
    return _document(spec, [_metric(spec, gpu) for gpu in gpus])


def process(gpus: Iterable[LogicalGpu]) -> str:
    """All versions print a list."""
    return json.dumps([_processes(gpu) for gpu in gpus], indent=4) + "\n"


def links(gpus: tuple[LogicalGpu, ...]) -> str:
    """The links of each GPU. The list contains the GPU itself, without traffic."""
    linked = [gpu for gpu in gpus if gpu.first and gpu.reading.gpu.hive is not None]
    return json.dumps([_links(gpu, linked) for gpu in linked], indent=4) + "\n"


def monitor(spec: AmdSpec, gpus: Iterable[LogicalGpu]) -> str:
    names = [name for name, _, _ in _MONITOR if spec.rocm >= (7, 0) or name != "XCP"]
    lines = ["".join(f"{name:>{width}}" for name, width, _ in _MONITOR if name in names)]
    for gpu in gpus:
        cells = ((render(gpu), width) for name, width, render in _MONITOR if name in names)
        lines.append("".join(f"{cell:>{width}}" for cell, width in cells))
    return "\n".join(lines) + "\n"


def listing(spec: AmdSpec, gpus: Iterable[LogicalGpu]) -> str:
    """Ids of the GPUs only."""
    return _document(spec, [_ids(gpu) for gpu in gpus])


def version(spec: AmdSpec) -> str:
    tool = {7: "26.0.2", 6: "24.6.2"}.get(spec.rocm[0], "23.4.0")
    return f"AMDSMI Tool: {tool} | AMDSMI Library version: {tool} | ROCm version: {spec.rocm_version}\n"


def _document(spec: AmdSpec, gpus: list[dict[str, Any]]) -> str:
    document: object = {"gpu_data": gpus} if spec.rocm >= (7, 0) else gpus
    return json.dumps(document, indent=4) + "\n"


def _value(number: float, unit: str) -> dict[str, Any]:
    return {"value": number, "unit": unit}


def _ids(gpu: LogicalGpu) -> dict[str, Any]:
    part = gpu.part.part
    return {
        "gpu": gpu.index,
        "bdf": gpu.bdf,
        "uuid": gpu.uuid,
        "kfd_id": part.gpu_id,
        "node_id": part.node,
        "partition_id": part.number,
    }


def _static(spec: AmdSpec, gpu: LogicalGpu) -> dict[str, Any]:
    reading, card = gpu.reading, gpu.reading.gpu.card
    node = reading.gpu
    instinct = card.family is Family.INSTINCT
    size = "size" if spec.rocm >= (6, 2) else "vram_size"
    banner = f"Linuxversion{spec.kernel_release}(build@host)(gcc)"
    edge = _value(card.crit_celsius, "C") if card.edge_sensor else _NA
    return {
        "gpu": gpu.index,
        "asic": {
            "market_name": card.market_name,
            "vendor_id": "0x1002",
            "device_id": f"0x{card.code:04x}",
            "asic_serial": _NA if node.unique_id is None else f"0x{node.unique_id:016X}",
            "oam_id": node.module if instinct else _NA,
            "num_compute_units": gpu.part.part.compute_units,
            "target_graphics_version": card.architecture,
        },
        "bus": {
            "bdf": gpu.bdf,
            "max_pcie_width": 16,
            "max_pcie_speed": _value(_GT_PER_SECOND[card.pcie_generation], "GT/s"),
            "pcie_interface_version": f"Gen {card.pcie_generation}",
            "slot_type": "OAM" if instinct else "PCIE",
        },
        "vbios": {"name": card.market_name, "part_number": card.vbios, "version": VBIOS_VERSION},
        "limit": {
            "max_power": _value(card.power.max_watts, "W"),
            "min_power": _value(card.power.min_watts, "W"),
            "socket_power": _value(node.spec.power_limit_watts, "W"),
            "slowdown_edge_temperature": edge,
            "slowdown_hotspot_temperature": _value(card.crit_celsius, "C"),
            "shutdown_edge_temperature": _value(card.emergency_celsius, "C") if card.edge_sensor else _NA,
            "shutdown_hotspot_temperature": _value(card.emergency_celsius, "C"),
        },
        "driver": {"name": "amdgpu", "version": spec.driver_version or banner},
        "board": {
            "model_number": card.part_number or _NA,
            "product_serial": node.serial or "0",
            "product_name": card.market_name if instinct else _NA,
            "manufacturer_name": "AMD" if instinct else _NA,
        },
        "ras": {"ecc_block_state": {"UMC": "ENABLED"} if instinct else _NA},
        "partition": {
            "compute_partition": node.spec.compute_partition or _NA,
            "memory_partition": node.spec.memory_partition or _NA,
            "partition_id": gpu.part.part.number,
        },
        "numa": {"node": max(0, node.numa_node), "affinity": node.numa_node},
        "vram": {"type": card.vram_type, size: _value(gpu.part.part.vram_bytes // _MIB, "MB")},
    }


def _metric(spec: AmdSpec, gpu: LogicalGpu) -> dict[str, Any]:
    reading, card = gpu.reading, gpu.reading.gpu.card
    values = gpu.first and not gpu.silent
    power_key = "socket_power" if spec.rocm >= (6, 2) else "current_socket_power"
    shows_power = values and reading.gpu.is_primary_die
    return {
        "gpu": gpu.index,
        "usage": _usage(gpu) if values and card.family is not Family.APU else _NA,
        "power": {
            power_key: _value(reading.power_microwatts // 1_000_000, "W") if shows_power else _NA,
            "gfx_voltage": _value(reading.millivolts, "mV") if values and reading.millivolts else _NA,
            "throttle_status": _NA,
            "power_management": "ENABLED" if values else _NA,
        },
        "clock": {
            "gfx_0": _clock(reading.sclk_mhz, card.sclk_mhz) if values else _NA,
            "mem_0": _clock(reading.mclk_mhz, card.mclk_mhz) if values else _NA,
        },
        "temperature": {
            "edge": _value(reading.edge_millicelsius // 1000, "C") if values and card.edge_sensor else _NA,
            "hotspot": _value(reading.junction_millicelsius // 1000, "C")
            if values and card.junction_sensor
            else _NA,
            "mem": _value(reading.memory_millicelsius // 1000, "C")
            if values and card.junction_sensor
            else _NA,
        },
        "pcie": {
            "width": 16,
            "speed": _value(_GT_PER_SECOND[card.pcie_generation], "GT/s") if values else _NA,
            "replay_count": reading.pcie_replays if values else _NA,
            "bandwidth": _value(reading.pcie_megabits, "Mb/s") if values and card.xccs > 1 else _NA,
            "nak_sent_count": 0 if values and card.ras_blocks else _NA,
            "nak_received_count": 0 if values and card.ras_blocks else _NA,
        },
        "ecc": _totals(reading) if values else _NA,
        "ecc_blocks": _blocks(reading) if values and card.ras_blocks else _NA,
        "fan": {
            "speed": _NA,
            "max": _NA,
            "rpm": card.fan_rpm * reading.fan_percent // 100
            if values and card.fan_rpm and reading.fan_percent
            else _NA,
            "usage": _value(reading.fan_percent, "%") if values and reading.fan_percent is not None else _NA,
        },
        "energy": {
            "total_energy_consumption": _value(round(reading.energy_counts * _JOULES_PER_COUNT, 3), "J")
            if values and reading.energy_counts is not None
            else _NA
        },
        "mem_usage": _memory(gpu),
        "throttle": _throttle(gpu) if card.xccs > 1 and spec.metrics_revision > 5 else _NA,
    }


def _usage(gpu: LogicalGpu) -> dict[str, Any]:
    reading, card = gpu.reading, gpu.reading.gpu.card
    usage: dict[str, Any] = {
        "gfx_activity": _value(reading.busy_percent, "%"),
        "umc_activity": _value(reading.memory_busy_percent, "%"),
        "mm_activity": _NA,
        "vcn_activity": [_NA if card.xccs > 1 else _value(0, "%"), _NA, _NA, _NA],
    }
    if card.xccs > 1:
        for engine, count in (("vcn", _VIDEO_ENGINES), ("jpeg", _JPEG_ENGINES)):
            usage[f"{engine}_busy"] = {
                f"xcp_{part.part.number}": [_value(0, "%")] * count for part in reading.parts
            }
        each = card.xccs // len(reading.parts)
        usage["gfx_busy_inst"] = {
            f"xcp_{part.part.number}": [_value(part.busy_percent, "%")] * each + [_NA] * (card.xccs - each)
            for part in reading.parts
        }
    return usage


def _clock(now: int, levels: tuple[int, ...]) -> dict[str, Any]:
    return {
        "clk": _value(now, "MHz"),
        "min_clk": _value(levels[0], "MHz"),
        "max_clk": _value(levels[-1], "MHz"),
        "clk_locked": _NA,
    }


def _totals(reading: GpuReading) -> dict[str, Any]:
    counts = reading.errors.values()
    return {
        "total_correctable_count": sum(corrected for _, corrected in counts),
        "total_uncorrectable_count": sum(uncorrected for uncorrected, _ in counts),
        "total_deferred_count": 0,
        "cache_correctable_count": 0 if reading.errors else _NA,
        "cache_uncorrectable_count": 0 if reading.errors else _NA,
    }


def _blocks(reading: GpuReading) -> dict[str, Any]:
    return {
        block.upper(): {
            "correctable_count": corrected,
            "uncorrectable_count": uncorrected,
            "deferred_count": 0,
        }
        for block, (uncorrected, corrected) in reading.errors.items()
    }


def _memory(gpu: LogicalGpu) -> dict[str, Any]:
    """The first partition has the memory of the whole GPU."""
    part, reading = gpu.part, gpu.reading
    total = reading.gpu.card.vram_bytes if gpu.first else part.part.vram_bytes
    used = reading.vram_used_bytes if gpu.first else part.vram_used_bytes
    if gpu.silent:
        return dict.fromkeys(("total_vram", "used_vram", "free_vram"), _NA)
    return {
        "total_vram": _value(total // _MIB, "MB"),
        "used_vram": _value(used // _MIB, "MB"),
        "free_vram": _value((total - used) // _MIB, "MB"),
    }


def _throttle(gpu: LogicalGpu) -> dict[str, Any]:
    if not gpu.first or gpu.silent:
        return {f"{name}_violation_status": _NA for name in THROTTLE_CAUSES}
    active = gpu.reading.throttle_causes
    sums = {f"{name}_accumulated": cycles for name, cycles in gpu.reading.throttle_cycles.items()}
    states = {
        f"{name}_violation_status": "ACTIVE" if name in active else "NOT ACTIVE" for name in THROTTLE_CAUSES
    }
    return {"accumulation_counter": gpu.reading.cycles, **sums, **states}


def _processes(gpu: LogicalGpu) -> dict[str, Any]:
    found = [
        {
            "process_info": {
                "name": process.name,
                "pid": process.pid,
                "mem_usage": _value(process.vram_bytes if process.computes else 0, "B"),
                "usage": {"gfx": _value(process.graphics_ns, "ns"), "enc": _value(process.encoder_ns, "ns")},
                "memory_usage": {
                    "gtt_mem": _value(2 * _MIB, "B"),
                    "cpu_mem": _value(0, "B"),
                    "vram_mem": _value(process.vram_bytes, "B"),
                },
                "cu_occupancy": round(process.load * gpu.part.part.compute_units),
            }
        }
        for process in gpu.part.processes
    ]
    return {
        "gpu": gpu.index,
        "process_list": found or [{"process_info": "No running processes detected"}],
    }


def _links(gpu: LogicalGpu, linked: list[LogicalGpu]) -> dict[str, Any]:
    return {
        "gpu": gpu.index,
        "bdf": gpu.bdf,
        "link_metrics": {
            "bit_rate": _value(_LINK_GIGABITS, "Gb/s"),
            "max_bandwidth": _value(_LINK_GIGABITS * 16, "Gb/s"),
            "link_type": "XGMI",
            "links": [_link(gpu, other) for other in linked],
        },
        "link_status": ["X" if other is gpu else "U" for other in linked],
    }


def _link(gpu: LogicalGpu, other: LogicalGpu) -> Mapping[str, Any]:
    if other is gpu:
        return {"gpu": other.index, "bdf": other.bdf, "read": _NA, "write": _NA}
    [link] = [link for link in gpu.reading.xgmi if link.peer == other.reading.gpu.slot]
    return {
        "gpu": other.index,
        "bdf": other.bdf,
        "read": _value(link.read_kilobytes, "KB"),
        "write": _value(link.written_kilobytes, "KB"),
    }


def _sensor(gpu: LogicalGpu, text: str) -> str:
    return text if gpu.first and not gpu.silent else _NA


def _used_of_total(gpu: LogicalGpu) -> str:
    memory = _memory(gpu)
    if gpu.silent:
        return _NA
    used, total = memory["used_vram"]["value"] / 1024, memory["total_vram"]["value"] / 1024
    return f"{used:.1f}/{total:5.1f} GB"


_MONITOR = (
    ("GPU", 3, lambda gpu: str(gpu.index)),
    ("XCP", 5, lambda gpu: str(gpu.part.part.number)),
    ("POWER", 9, lambda gpu: _sensor(gpu, f"{gpu.reading.power_microwatts // 1_000_000} W")),
    ("GPU_T", 8, lambda gpu: _sensor(gpu, f"{gpu.reading.junction_millicelsius // 1000} °C")),
    ("MEM_T", 8, lambda gpu: _sensor(gpu, f"{gpu.reading.memory_millicelsius // 1000} °C")),
    ("GFX_CLK", 10, lambda gpu: _sensor(gpu, f"{gpu.reading.sclk_mhz} MHz")),
    ("GFX%", 7, lambda gpu: _sensor(gpu, f"{gpu.reading.busy_percent} %")),
    ("MEM%", 7, lambda gpu: _sensor(gpu, f"{gpu.reading.memory_busy_percent} %")),
    ("ENC%", 7, lambda _gpu: _NA),
    ("DEC%", 7, lambda gpu: _sensor(gpu, "0 %")),
    ("VRAM_USAGE", 16, _used_of_total),
)


# rocm-smi with --json.

_SECONDARY_DIE = "N/A (Secondary die)"


def rocm_smi_json(spec: AmdSpec, readings: Iterable[GpuReading]) -> str:
    listed = [reading for reading in readings if reading.index is not None]
    document = {f"card{reading.index}": _card(spec, reading) for reading in listed}
    system = {"Driver version": spec.driver_version or spec.kernel_release}
    pids: dict[int, list[int]] = {}
    for reading in listed:
        for process in reading.processes:
            if process.computes:
                sums = pids.setdefault(process.pid, [0, 0, 0])
                sums[0] += 1
                sums[1] += process.vram_bytes
                sums[2] += round(process.load * reading.gpu.card.compute_units)
    names = {process.pid: process.name for reading in listed for process in reading.processes}
    units = sum(reading.gpu.card.compute_units for reading in listed)
    for pid, (gpus, vram, occupied) in pids.items():
        # The tool divides by the compute units of all GPUs, not only of those that the process uses.
        system[f"PID{pid}"] = f"{names[pid][:15]}, {gpus}, {vram}, 0, {100 * occupied // units}"
    document["system"] = system
    return json.dumps(document) + "\n"


def _card(spec: AmdSpec, reading: GpuReading) -> dict[str, str]:
    gpu, card = reading.gpu, reading.gpu.card
    newer = spec.rocm >= (6, 1)
    values = {
        ("Device ID" if spec.rocm >= (6, 0) else "GPU ID"): f"0x{card.code:04x}",
        "Unique ID": "N/A" if gpu.unique_id is None else f"0x{gpu.unique_id:x}",
        "VBIOS version": card.vbios,
        "Serial Number": gpu.serial or "N/A",
        "PCI Bus": gpu.address.upper(),
        ("Card Series" if newer else "Card series"): card.market_name,
        ("Card Model" if newer else "Card model"): f"0x{card.code:04x}",
    }
    if newer:
        values["GFX Version"] = card.architecture
    if reading.fault == FaultKind.LOST or reading.suspended:
        return values
    return {**values, **_measured(spec, reading)}


def _measured(spec: AmdSpec, reading: GpuReading) -> dict[str, str]:
    gpu, card = reading.gpu, reading.gpu.card
    kind = "Average" if card.average_power else "Current Socket"
    repeats = spec.rocm < (6, 0) or gpu.is_primary_die
    values = {
        f"{kind} Graphics Package Power (W)": f"{reading.power_microwatts // 1_000_000}.0"
        if repeats
        else _SECONDARY_DIE,
        "Max Graphics Package Power (W)": f"{gpu.spec.power_limit_watts if repeats else 0:.1f}",
        "GPU use (%)": str(reading.busy_percent),
        "VRAM Total Memory (B)": str(card.vram_bytes),
        "VRAM Total Used Memory (B)": str(reading.vram_used_bytes),
        "sclk clock speed:": f"({reading.sclk_mhz}Mhz)",
        "mclk clock speed:": f"({reading.mclk_mhz}Mhz)",
        "PCIe Replay Count": str(reading.pcie_replays),
    }
    busy = "GPU Memory Read/Write Activity (%)" if spec.rocm >= (6, 1) else "GPU memory use (%)"
    values[busy] = str(reading.memory_busy_percent)
    if card.edge_sensor:
        values["Temperature (Sensor edge) (C)"] = f"{reading.edge_millicelsius / 1000:.1f}"
    if card.junction_sensor:
        values["Temperature (Sensor junction) (C)"] = f"{reading.junction_millicelsius / 1000:.1f}"
        values["Temperature (Sensor memory) (C)"] = f"{reading.memory_millicelsius / 1000:.1f}"
    if reading.energy_counts is not None:
        values["Accumulated Energy (uJ)"] = f"{reading.energy_counts * 15.3:.1f}"
    if reading.fan_percent is not None:
        values["Fan speed (%)"] = str(reading.fan_percent)
    return values
