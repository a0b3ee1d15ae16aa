"""rocm-smi, amd-smi and nvtop of Debian beside the snapshot of a node with AMD GPUs."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    Field("retired_pages", "retired_pages.uncorrected.lifetime.all.count"),
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
    Field("static.asic.num_compute_units", "multiprocessors"),
    Field("metric.pcie.bandwidth", "pcie.bytes_per_second", scale=1e6 / 8),
    Field("metric.pcie.l0_to_recovery_count", "errors.pcie.recovery.count"),
    Field("metric.pcie.replay_roll_over_count", "errors.pcie.replay_rollover.count"),
    Field("metric.pcie.nak_sent_count", "errors.pcie.nak_sent.count"),
    Field("metric.pcie.nak_received_count", "errors.pcie.nak_received.count"),
    Field("partition.{}.memory_total", "partitions.{}.memory_total_bytes", within=_MEBI),
    Field("partition.{}.memory_used", "partitions.{}.memory_used_bytes", within=_MEBI),
    Field("partition.{}.memory_free", "partitions.{}.memory_free_bytes", within=_MEBI),
    Field("partition.{}.compute_units", "partitions.{}.multiprocessors"),
    Field("partition.{}.use", "partitions.{}.utilization_ratio"),
    Field("process.{}.pid", "processes.{}.pid"),
    Field("process.{}.name", "processes.{}.name"),
    Field("process.{}.partition", "processes.{}.partition_number"),
    Field("process.{}.memory", "processes.{}.memory_bytes"),
    Field("process.{}.memory_of_files", "processes.{}.memory_bytes"),
    Field("process.{}.use", "processes.{}.utilization_ratio", within=1e-9),
    Field("link.{}.read", "links_to.{}.receive_bytes_total"),
    Field("link.{}.write", "links_to.{}.transmit_bytes_total"),
    Field("link.{}.max_bandwidth", "links_to.{}.bytes_per_second", scale=1e9 / 8),
    Field("link.{}.up", "links_to.{}.active"),
    Field("bad_pages", "retired_pages.uncorrected.lifetime.all.count"),
)
# What rises while the GPU is throttled for the reason.
THROTTLE_FIELDS = (Field("{}_accumulated", "throttles.{}.active"),)
NVTOP_FIELDS = (
    Field("device_name", "model"),
    Field("gpu_clock", "clocks.graphics.hertz", scale=_MEGA),
    Field("mem_clock", "clocks.memory.hertz", scale=_MEGA),
    Field("temp", "temperature_celsius", within=0.5),
    Field("fan_speed", "fans.0.speed_ratio", scale=_PERCENT, within=0.01),
    Field("power_draw", "power_watts", within=1),
    Field("gpu_util", "utilization_ratio", scale=_PERCENT),
    Field("mem_util", "memory_ratio", scale=_PERCENT, within=0.01),
)


def values_of(snapshot: Snapshot) -> dict[str, dict[str, Value]]:
    """By PCI address. Links are also by the address of their other end."""
    result = flat_devices(snapshot, lambda device: device.pci_address)
    for own in result.values():
        total, used = own["memory_total_bytes"], own["memory_used_bytes"]
        if isinstance(total, int) and isinstance(used, int):
            own["memory_ratio"] = used / total
        for name, value in list(own.items()):
            kind, _, rest = name.partition(".")
            if kind == "links" and isinstance(
                remote := own.get(f"links.{rest.partition('.')[0]}.remote"), str
            ):
                own[f"links_to.{remote}.{rest.partition('.')[2]}"] = value
            elif kind == "processes" and name.endswith(".partition") and isinstance(value, str):
                own[f"{name}_number"] = int(value.rpartition("/")[2])
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
    """Of each GPU, the first of its partitions: the others have the values of the GPU."""
    done = where.run(["rocm-smi", "-a", "--showmeminfo", "vram", "--json"])
    assert done.returncode == 0, done.stderr
    pages = _rocm_pages(where)
    reports: dict[str, Report] = {}
    for card, values in _document(done.stdout).items():
        address = pci_address(str(values.get("PCI Bus", "")))
        if address is not None and address not in reports:
            found = {
                name: _rocm_value(name, text) for name, text in values.items() if text not in ("N/A", "")
            }
            found |= {"retired_pages": pages[card]} if card in pages else {}
            reports[address] = Report(device=address, values=found)
    return list(reports.values())


def _rocm_pages(where: Place) -> dict[str, int]:
    """Retired pages by card. They are not in the JSON, and the table has no number for a card without."""
    done = where.run(["rocm-smi", "--showretiredpages"])
    assert done.returncode == 0, done.stderr
    _, *tables = re.split(r"^GPU\[(\d+)\]", done.stdout, flags=re.MULTILINE)
    counts = {
        f"card{card}": len(re.findall(r"^\s*0x\w+\s+0x\w+\s+reserved", text, re.MULTILINE))
        for card, text in zip(tables[::2], tables[1::2], strict=True)
    }
    return {card: count for card, count in counts.items() if count}


def _rocm_value(name: str, text: str) -> Value:
    clock = re.fullmatch(r"\((\d+)Mhz\)", text)
    if clock is not None:
        return int(clock[1])
    if name == "Serial Number" or not re.fullmatch(r"-?\d+(\.\d+)?", text):
        return text
    return float(text)


def amd_smi(where: Place) -> list[Report]:
    """Of each GPU: the first of its partitions as the GPU, all partitions, processes, links, bad pages."""
    static = _per_gpu(where, "static")
    metric = _per_gpu(where, "metric")
    processes = _per_gpu(where, "process")
    pages = _per_gpu(where, "bad-pages", refusal="'bad-pages' is not supported")
    links = _links(where)
    found: dict[str, dict[str, Value]] = {}
    numbers: dict[str, int] = {}  # of partitions that were seen, by address
    for gpu, own in static.items():
        address = pci_address(str(own["bus"]["bdf"]))
        if address is None:
            continue
        number = numbers[address] = numbers.get(address, -1) + 1
        values = dict(_flat("static", own)) | dict(_flat("metric", metric.get(gpu, {})))
        partitioned = sum(each["bus"]["bdf"] == own["bus"]["bdf"] for each in static.values()) > 1
        units = values.pop("static.asic.num_compute_units", None)
        if number == 0:
            found[address] = values | links.get(gpu, {}) | _bad_pages(pages.get(gpu, {}))
        if partitioned:
            found[address] |= _partition(number, values, units)
        for pid, process in _processes(processes.get(gpu, {}), units).items():
            part = {"partition": number} if partitioned else {}
            found[address] |= {f"process.{pid}.{name}": v for name, v in (process | part).items()}
    return [Report(device=address, values=values) for address, values in found.items()]


def _partition(number: int, values: Mapping[str, Value], units: Value) -> dict[str, Value]:
    """Memory and use are of the GPU at the first partition."""
    result: dict[str, Value] = {f"partition.{number}.compute_units": units} if units is not None else {}
    if number:
        for word in ("total", "used", "free"):
            if (amount := values.get(f"metric.mem_usage.{word}_vram")) is not None:
                result[f"partition.{number}.memory_{word}"] = amount
        return result
    for name, use in values.items():
        if found := re.fullmatch(r"metric\.usage\.gfx_busy_inst\.xcp_(\d+)\.0", name):
            result[f"partition.{found[1]}.use"] = use
    return result


def _processes(entry: Mapping[str, Any], units: Value) -> dict[int, dict[str, Value]]:
    """By pid. Until 6.1 the memory is the sum of the open files, later that of the compute driver."""
    listed = entry.get("process_list") or [{"process_info": entry.get("process_info")}]
    result: dict[int, dict[str, Value]] = {}
    for each in listed:
        info = each["process_info"]
        if not isinstance(info, dict):
            continue  # a sentence: no processes
        own = result[info["pid"]] = {"pid": info["pid"], "name": info["name"].rpartition("/")[2]}
        own["memory_of_files"] = info["memory_usage"]["vram_mem"]["value"]
        if "process_list" in entry:
            own["memory"] = info["mem_usage"]["value"]
        if isinstance(info.get("cu_occupancy"), int) and isinstance(units, int):
            own["use"] = info["cu_occupancy"] / units
    return result


def _links(where: Place) -> dict[int, dict[str, Value]]:
    """By number of the GPU. Version 6.1 has no values, and fails with an error of Python for an MI300X."""
    done = where.run(["amd-smi", "xgmi", "--json"])
    if "UnboundLocalError" in done.stderr:
        return {}
    assert done.returncode == 0, done.stderr
    document = _document(done.stdout)
    if isinstance(document, list):
        return {}
    states = {each["gpu"]: each["link_status"] for each in document["link_status"]}
    result: dict[int, dict[str, Value]] = {}
    for gpu in document["xgmi_metric"][0]:
        metrics = gpu["link_metrics"]
        own = result[gpu["gpu"]] = {}
        for link, state in zip(metrics["links"], states[gpu["gpu"]], strict=True):
            if isinstance(link["read"], dict):
                values = {name: link[name] for name in ("read", "write")}
                values |= {"max_bandwidth": metrics["max_bandwidth"], "up": state == "U"}
                own |= dict(_flat(f"link.{link['bdf']}", values))
    return result


def _bad_pages(entry: Mapping[str, Any]) -> dict[str, Value]:
    """One page is a mapping, several are a list, none is a sentence."""
    kinds = [entry.get(kind) for kind in ("retired", "pending", "un_res")]
    if not all(isinstance(kind, dict | list) or kind == "No bad pages found." for kind in kinds):
        return {}
    return {"bad_pages": sum(len(k) if isinstance(k, list) else isinstance(k, dict) for k in kinds)}


def throttle_counts(where: Place) -> dict[str, dict[str, int]]:
    """Cycles by PCI address and reason."""
    addresses = {gpu: pci_address(str(own["bus"]["bdf"])) for gpu, own in _per_gpu(where, "static").items()}
    return {
        address: {name: n for name, n in own["throttle"].items() if isinstance(n, int) and "_acc" in name}
        for gpu, own in _per_gpu(where, "metric").items()
        if (address := addresses[gpu]) is not None and isinstance(own["throttle"], dict)
    }


def _per_gpu(where: Place, command: str, *, refusal: str = "\0") -> Mapping[int, Any]:
    """Nothing if the program refuses the command with this message."""
    done = where.run(["amd-smi", command, "--json"])
    if refusal in done.stdout:
        return {}
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


def nvtop(where: Place, addresses: Mapping[str, str]) -> list[Report]:
    """`addresses` are by device file. nvtop prints nothing that identifies a GPU: the order of its questions
    about memory shows which is which."""
    logged = replace(where, environment={**where.environment, "DRM_LOG": "1"})
    done = logged.run(["nvtop", "-s"])
    assert done.returncode == 0, done.stderr
    minors = re.findall(r"minor (\d+) query 0x19 ", done.stderr)
    return [
        Report(device=addresses[f"renderD{minor}"], values=dict(_nvtop_values(each)))
        for minor, each in zip(minors, json.loads(done.stdout), strict=True)
    ]


def _nvtop_values(document: Mapping[str, str | None]) -> Iterator[tuple[str, Value]]:
    for name, text in document.items():
        if text is not None:
            number = re.fullmatch(r"(\d+)(?:MHz|C|W|%)", text)
            yield name, int(number[1]) if number else text


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
    patient = ["--reader-timeout=60s", "--device-timeout=20s"]  # on a busy machine, the tools take seconds
    words = [sys.executable, "-m", "accelscope", "top", "--json", *patient, *roots, *paths]
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
