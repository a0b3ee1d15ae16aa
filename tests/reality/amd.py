"""rocm-smi, amd-smi and nvtop of Debian beside the snapshot of a node with AMD GPUs."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.kubernetes.cache import cache_folder, key_of, made_once, to_stderr
from tests.e2e.kubernetes.commands import run
from tests.reality.comparison import Field, Report, Value, flat_devices
from tests.reality.debian import Tree
from tests.reality.namespace import Place

from accelscope.model import Snapshot, pci_address

_SOURCE = Path(__file__).with_name("native") / "drm.c"
_MEGA, _MEBI, _KIBI, _PERCENT = 1e6, 1 << 20, 1 << 10, 1e-2
# By the units of amd-smi.
_UNITS: dict[str, float] = {"%": _PERCENT, "MHz": _MEGA, "MB": _MEBI, "KB": _KIBI, "mV": 1e-3}
_GENERATIONS = {2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}

ROCM_SMI_FIELDS = (
    Field("Device ID", "pci_device_id"),
    Field("Unique ID", "uuid"),
    Field("VBIOS version", "firmware_version"),
    Field("Temperature (Sensor edge) (C)", "sensors.edge.celsius", within=0.5),
    Field("Temperature (Sensor junction) (C)", "sensors.junction.celsius", within=0.5),
    Field("Temperature (Sensor memory) (C)", "sensors.memory.celsius", within=0.5),
    Field("sclk clock speed:", "clocks.graphics.hertz", scale=_MEGA),
    Field("mclk clock speed:", "clocks.memory.hertz", scale=_MEGA),
    Field("Max Graphics Package Power (W)", "power_limit_watts"),
    Field("Current Socket Graphics Package Power (W)", "power_watts", within=1),
    Field("Average Graphics Package Power (W)", "power_watts", within=1),
    Field("GPU use (%)", "utilization_ratio", scale=_PERCENT),
    Field("GPU Memory Allocated (VRAM%)", "memory_ratio", scale=_PERCENT, within=0.01),
    Field("GPU Memory Read/Write Activity (%)", "memory_utilization_ratio", scale=_PERCENT),
    Field("PCIe Replay Count", "pcie.replays_total"),
    Field("Serial Number", "serial"),
    Field("VRAM Total Memory (B)", "memory_total_bytes"),
    Field("VRAM Total Used Memory (B)", "memory_used_bytes"),
    Field("Card Series", "model"),
    Field("GFX Version", "architecture"),
    Field("Compute Partition", "compute_partition"),
    Field("Memory Partition", "memory_partition"),
    Field("Fan speed (%)", "fans.0.speed_ratio", scale=_PERCENT, within=0.01),
    Field("Fan RPM", "fans.0.speed_rpm"),
    Field("Accumulated Energy (uJ)", "energy_joules", scale=1e-6, within_ratio=1e-6),
    Field("pcie_link_width (Lanes)", "pcie.width"),
)
AMD_SMI_FIELDS = (
    Field("metric.usage.gfx_activity", "utilization_ratio"),
    Field("metric.usage.umc_activity", "memory_utilization_ratio"),
    Field("metric.usage.gfx_busy_inst.xcp_0.{}", "cores.{}.utilization_ratio"),
    Field("metric.power.socket_power", "power_watts", within=1),
    Field("metric.power.gfx_voltage", "rails.gfx.volts"),
    Field("metric.clock.gfx_0.clk", "clocks.graphics.hertz"),
    Field("metric.clock.gfx_0.max_clk", "clocks.graphics.max_hertz"),
    Field("metric.clock.mem_0.clk", "clocks.memory.hertz"),
    Field("metric.clock.mem_0.max_clk", "clocks.memory.max_hertz"),
    Field("metric.clock.vclk_0.clk", "clocks.video.hertz"),
    Field("metric.clock.dclk_0.clk", "clocks.data.hertz"),
    Field("metric.temperature.edge", "sensors.edge.celsius", within=0.5),
    Field("metric.temperature.hotspot", "sensors.junction.celsius", within=0.5),
    Field("metric.temperature.mem", "sensors.memory.celsius", within=0.5),
    Field("metric.pcie.width", "pcie.width"),
    Field("metric.pcie.generation", "pcie.generation"),
    Field("metric.pcie.replay_count", "pcie.replays_total"),
    Field("metric.ecc.total_correctable_count", "ecc.corrected.volatile.all.count"),
    Field("metric.ecc.total_uncorrectable_count", "ecc.uncorrected.volatile.all.count"),
    Field("metric.ecc_blocks.{}.correctable_count", "ecc.corrected.volatile.{}.count"),
    Field("metric.ecc_blocks.{}.uncorrectable_count", "ecc.uncorrected.volatile.{}.count"),
    Field("metric.fan.usage", "fans.0.speed_ratio", within=0.01),
    Field("metric.fan.rpm", "fans.0.speed_rpm"),
    Field("metric.energy.total_energy_consumption", "energy_joules", within=1),
    Field("metric.mem_usage.total_vram", "memory_total_bytes", within=_MEBI),
    Field("metric.mem_usage.used_vram", "memory_used_bytes", within=_MEBI),
    Field("metric.mem_usage.free_vram", "memory_free_bytes", within=_MEBI),
    Field("static.asic.device_id", "pci_device_id"),
    Field("static.asic.asic_serial", "uuid"),
    Field("static.asic.target_graphics_version", "architecture"),
    Field("static.limit.ppt0.max_power_limit", "power_limit_max_watts"),
    Field("static.limit.ppt0.min_power_limit", "power_limit_min_watts"),
    Field("static.limit.ppt0.socket_power_limit", "power_limit_watts"),
    Field("static.limit.max_power", "power_limit_max_watts"),
    Field("static.limit.min_power", "power_limit_min_watts"),
    Field("static.limit.socket_power", "power_limit_watts"),
    Field("static.limit.slowdown_hotspot_temperature", "temperature_slowdown_celsius"),
    Field("static.limit.shutdown_hotspot_temperature", "temperature_shutdown_celsius"),
    Field("static.driver.version", "driver_version"),
    Field("static.board.product_serial", "serial"),
    Field("static.board.product_name", "model"),
    Field("static.board.model_number", "part_number"),
    Field("static.bus.max_pcie_width", "pcie.max_width"),
    Field("static.bus.max_generation", "pcie.max_generation"),
    Field("static.partition.compute_partition", "compute_partition"),
    Field("static.partition.memory_partition", "memory_partition"),
    Field("static.numa.node", "numa_node"),
    Field("static.vram.size", "memory_total_bytes", within=_MEBI),
    Field("process.{}.pid", "processes.{}.pid"),
)


def values_of(snapshot: Snapshot) -> dict[str, dict[str, Value]]:
    """By PCI address."""
    result = flat_devices(snapshot, lambda device: device.pci_address)
    for own in result.values():
        total, used = own["memory_total_bytes"], own["memory_used_bytes"]
        if isinstance(total, int) and isinstance(used, int):
            own["memory_ratio"] = used / total
    return result


def place(node: Path, tree: Tree) -> Place:
    """A Debian tree on the node, with the library that answers for the DRM driver."""

    def compile_it(folder: Path) -> None:
        run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "drm.so", _SOURCE, "-ldl"])

    key = key_of([_SOURCE.read_bytes()])
    answers = made_once(cache_folder() / "drm" / key, compile_it, "DRM answers", say=to_stderr, seconds=60)
    return Place(
        node=str(node),
        root=str(tree.root()),
        shared={"answers": str(answers)},
        environment={"LD_PRELOAD": "/media/answers/drm.so", "SYSTEMD_DEVICE_VERIFY_SYSFS": "0"},
    )


def rocm_smi(where: Place) -> list[Report]:
    """Of each GPU, the first of its partitions."""
    done = where.run(["rocm-smi", "-a", "--showmeminfo", "vram", "--json"])
    assert done.returncode == 0, done.stderr
    reports: dict[str, Report] = {}
    for values in _document(done.stdout).values():
        address = pci_address(str(values.get("PCI Bus", "")))
        if address is not None and address not in reports:
            found = {
                name: _rocm_value(name, text) for name, text in values.items() if text not in ("N/A", "")
            }
            reports[address] = Report(device=address, values=found)
    return list(reports.values())


def _rocm_value(name: str, text: str) -> Value:
    clock = re.fullmatch(r"\((\d+)Mhz\)", text)
    if clock is not None:
        return int(clock[1])
    if name == "Serial Number" or not re.fullmatch(r"-?\d+(\.\d+)?", text):
        return text
    return float(text)


def amd_smi(where: Place) -> list[Report]:
    """Of each GPU, the first of its partitions."""
    static = _per_gpu(where, "static")
    metric = _per_gpu(where, "metric")
    reports: dict[str, Report] = {}
    for gpu, own in static.items():
        address = pci_address(str(own["bus"]["bdf"]))
        if address is not None and address not in reports:
            values = dict(_flat("static", own)) | dict(_flat("metric", metric.get(gpu, {})))
            reports[address] = Report(device=address, values=values)
    return list(reports.values())


def _per_gpu(where: Place, command: str) -> Mapping[int, Any]:
    done = where.run(["amd-smi", command, "--json"])
    assert done.returncode == 0, done.stderr
    found = _document(done.stdout)
    entries = found["gpu_data"] if isinstance(found, dict) else found
    return {each["gpu"]: each for each in entries}


def _document(text: str) -> Any:
    """Without messages before and after the JSON."""
    start = min(place for place in (text.find("{"), text.find("[")) if place >= 0)
    return json.JSONDecoder().raw_decode(text[start:])[0]


def _flat(path: str, value: Any) -> Iterator[tuple[str, Value]]:
    """Paths and values in base units. `N/A` is no value."""
    if isinstance(value, dict) and value.keys() == {"value", "unit"}:
        number = value["value"]
        if isinstance(number, int | float):
            if value["unit"] == "GT/s":
                yield (
                    f"{path.rpartition('.')[0]}.{'max_' if 'max' in path else ''}generation",
                    _GENERATIONS[number],
                )
            else:
                yield path, number * _UNITS.get(value["unit"], 1)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _flat(f"{path}.{name.lower() if path.endswith('ecc_blocks') else name}", each)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _flat(f"{path}.{place}", each)
    elif value not in ("N/A", None):
        word = value.lower() if path.endswith(("asic_serial", "device_id")) else value
        yield path, word


def nvtop(where: Place) -> list[str]:
    """The names of the GPUs. nvtop prints nothing else that identifies them."""
    done = where.run(["nvtop", "-s"])
    assert done.returncode == 0, done.stderr
    return sorted(each["device_name"] for each in json.loads(done.stdout))


def snapshot_with(
    node: Path, tools: Mapping[str, Path], *, sys_root: Path | None = None
) -> dict[str, dict[str, Value]]:
    """Flat values of the documents of `accelscope top --json` with these tools, by PCI address: the
    first device of each, where a tool shows partitions as devices."""
    folders = {name: node / name for name in ("sys", "proc", "dev")}
    if sys_root is not None:
        folders["sys"] = sys_root
    roots = [word for name, folder in folders.items() for word in (f"--{name}-root", folder)]
    paths = [word for name, path in tools.items() for word in (f"--{name}-path", path)]
    words = [sys.executable, "-m", "accelscope", "top", "--json", *roots, *paths]
    found = json.loads(run(words))["nodes"][0]["snapshot"]["devices"]
    return {each["pci_address"]: dict(_document_values("", each)) for each in reversed(found)}


def _document_values(path: str, value: Any) -> Iterator[tuple[str, Value]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _document_values(f"{path}.{name}" if path else name, each)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            if path != "absent":
                yield from _document_values(f"{path}.{place}", each)
    else:
        yield path, value
