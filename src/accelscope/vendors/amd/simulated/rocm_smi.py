"""What rocm-smi prints of a node as JSON, in the words of ROCm 4 to 7."""

import json
from collections.abc import Iterable

from accelscope.simulate.faults import FaultKind
from accelscope.vendors.amd.simulated.cards import Family
from accelscope.vendors.amd.simulated.readings import GpuReading
from accelscope.vendors.amd.simulated.spec import AmdSpec

_SECONDARY_DIE = "N/A (Secondary die)"


def everything(spec: AmdSpec, readings: Iterable[GpuReading]) -> str:
    shown = [reading for reading in readings if reading.index is not None]
    document = {f"card{reading.index}": _card(spec, reading) for reading in shown}
    system = {"Driver version": spec.driver_version or spec.kernel_release}
    pids: dict[int, list[int]] = {}
    for reading in shown:
        for process in reading.processes:
            if process.computes:
                sums = pids.setdefault(process.pid, [0, 0, 0])
                sums[0] += 1
                sums[1] += process.vram_bytes
                sums[2] += round(process.load * reading.gpu.card.compute_units)
    names = {process.pid: process.name for reading in shown for process in reading.processes}
    units = sum(reading.gpu.card.compute_units for reading in shown)
    for pid, (gpus, vram, occupied) in pids.items():
        # The tool divides by the compute units of all GPUs, not only of those that the process is on.
        system[f"PID{pid}"] = f"{names[pid][:15]}, {gpus}, {vram}, 0, {100 * occupied // units}"
    document["system"] = system
    return json.dumps(document) + "\n"


def _card(spec: AmdSpec, reading: GpuReading) -> dict[str, str]:
    gpu, card = reading.gpu, reading.gpu.card
    newer = spec.rocm >= (6, 1)
    told = {
        ("Device ID" if spec.rocm >= (6, 0) else "GPU ID"): f"0x{card.code:04x}",
        "Unique ID": "N/A" if gpu.unique_id is None else f"0x{gpu.unique_id:x}",
        "VBIOS version": card.vbios,
        "Serial Number": gpu.serial or "N/A",
        "PCI Bus": gpu.address.upper(),
        ("Card Series" if newer else "Card series"): card.market_name,
        ("Card Model" if newer else "Card model"): f"0x{card.code:04x}",
    }
    if newer:
        told["GFX Version"] = card.architecture
    if reading.fault == FaultKind.LOST or reading.suspended:
        return told
    return {**told, **_measured(spec, reading)}


def _measured(spec: AmdSpec, reading: GpuReading) -> dict[str, str]:
    gpu, card = reading.gpu, reading.gpu.card
    kind = "Average" if card.average_power else "Current Socket"
    repeats = spec.rocm < (6, 0) or gpu.is_primary_die
    told = {
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
    told[busy] = str(reading.memory_busy_percent)
    if card.edge_sensor:
        told["Temperature (Sensor edge) (C)"] = f"{reading.edge_millicelsius / 1000:.1f}"
    if card.junction_sensor:
        told["Temperature (Sensor junction) (C)"] = f"{reading.junction_millicelsius / 1000:.1f}"
        told["Temperature (Sensor memory) (C)"] = f"{reading.memory_millicelsius / 1000:.1f}"
    if card.family is Family.INSTINCT:
        told["Accumulated Energy (uJ)"] = f"{reading.energy_counts * 15.3:.1f}"
    if reading.fan_percent is not None:
        told["Fan speed (%)"] = str(reading.fan_percent)
    return told
