"""Kernel files of simulated GPUs: /sys/bus/pci, /sys/devices/platform, /sys/class/drm, /sys/class/kfd, /dev
and /proc."""

import struct
from collections.abc import Iterable, Iterator

from accelscope.simulate.faults import FaultKind
from accelscope.simulate.folder import BlockingFile, Content, Folder, Link
from accelscope.vendors.amd.simulated.gpu import Gpu, GpuReading, PartReading, PlatformDevice, ProcessReading
from accelscope.vendors.amd.simulated.spec import Family

_SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0"}
_LANES = 16
_GTT_BYTES = 64 << 30
_PAGE_BYTES = 0x1000
_TABLE_BYTES = {3: 120, 7: 2208}  # size of gpu_metrics by content revision
_NOT_MEASURED = 2**64 - 1
# The driver reads some files from the GPU. For a lost or suspended GPU, a folder in their place makes reading
# them fail. If the GPU hangs, this file blocks.
_HANGING = "gpu_busy_percent"

File = tuple[str, Content]


def pci_files(gpu: Gpu, *, bound: bool) -> Iterator[File]:
    """Files of the PCI bus; `bound` if amdgpu is loaded."""
    folder = f"sys/bus/pci/devices/{gpu.address}"
    yield f"{folder}/vendor", "0x1002\n"
    yield f"{folder}/device", f"0x{gpu.card.code:04x}\n"
    yield f"{folder}/class", f"0x{gpu.card.pci_class:04x}00\n"
    yield f"{folder}/numa_node", f"{gpu.numa_node}\n"
    driver = "DRIVER=amdgpu\n" if bound else ""
    yield (
        f"{folder}/uevent",
        f"{driver}PCI_CLASS={gpu.card.pci_class:X}00\nPCI_ID=1002:{gpu.card.code:04X}\nPCI_SLOT_NAME={gpu.address}\n",
    )
    if bound:
        yield f"{folder}/driver", Link("../../drivers/amdgpu")


def device_files(reading: GpuReading, *, repeats_power: bool) -> Iterator[File]:
    """`repeats_power`: older drivers report the power of a module at both dies."""
    gpu = reading.gpu
    folder = f"sys/bus/pci/devices/{gpu.address}"
    yield f"sys/class/drm/{gpu.drm_card}/device", Link(f"../../../bus/pci/devices/{gpu.address}")
    yield f"{folder}/drm/{gpu.drm_card}", Folder()
    render_node = f"renderD{gpu.first_minor}"
    yield f"{folder}/drm/{render_node}", Folder()
    yield f"sys/class/drm/{render_node}", Link(f"../../bus/pci/devices/{gpu.address}/drm/{render_node}")
    yield f"dev/dri/{render_node}", ""
    yield f"dev/dri/{gpu.drm_card}", ""
    for device in gpu.platform_devices:
        yield from _platform_device_files(device)
    if gpu.card.family is not Family.INSTINCT:
        yield f"sys/class/drm/{gpu.drm_card}-DP-1/status", "disconnected\n"
    yield from ((f"{folder}/{name}", text) for name, text in _constant_files(gpu))
    yield f"{folder}/power/runtime_status", "suspended\n" if reading.suspended else "active\n"
    yield from ((f"{folder}/{name}", content) for name, content in _measured_files(reading, repeats_power))


def _platform_device_files(device: PlatformDevice) -> Iterator[File]:
    """It has no reference to its GPU."""
    folder = f"sys/devices/platform/{device.name}"
    yield f"{folder}/modalias", f"platform:{device.name}\n"
    yield f"{folder}/uevent", f"MODALIAS=platform:{device.name}\n"
    for node in (f"card{device.card}", f"renderD{device.render_minor}"):
        yield f"{folder}/drm/{node}/device", Link(f"../../../{device.name}")
        yield f"sys/class/drm/{node}", Link(f"../../devices/platform/{device.name}/drm/{node}")
        yield f"dev/dri/{node}", ""


def _constant_files(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """From the driver's memory, so that they are readable for a suspended or lost GPU."""
    card = gpu.card
    if gpu.unique_id is not None:
        yield "unique_id", f"{gpu.unique_id:016x}\n"
    if card.family is Family.INSTINCT:
        yield "serial_number", f"{gpu.serial}\n"
        yield "product_name", f"{card.market_name}\n"
        yield "product_number", f"{card.part_number}\n"
    elif card.family is Family.RADEON:
        yield "serial_number", "\n"
        yield "product_name", "\n"
        yield "product_number", "\n"
    yield "vbios_version", f"{card.vbios}\n"
    yield "mem_info_vram_total", f"{card.vram_bytes}\n"
    yield "mem_info_gtt_total", f"{_GTT_BYTES}\n"
    if gpu.hive is not None:
        yield "xgmi_hive_info/xgmi_hive_id", f"{gpu.hive}\n"
        yield "xgmi_physical_id", f"{gpu.slot}\n"
    if gpu.spec.compute_partition is not None:
        yield "current_compute_partition", f"{gpu.spec.compute_partition}\n"
        yield "current_memory_partition", f"{gpu.spec.memory_partition}\n"
    if card.family is not Family.APU:
        speed = f"{_SPEEDS[card.pcie_generation]} GT/s PCIe\n"
        yield "max_link_speed", speed
        yield "max_link_width", f"{_LANES}\n"


def _measured_files(reading: GpuReading, repeats_power: bool) -> Iterator[tuple[str, Content]]:
    unreadable = reading.suspended or reading.fault == FaultKind.LOST
    files: list[tuple[str, Content]] = [*_values(reading), *_sensors(reading, repeats_power)]
    if reading.gpu.card.family is not Family.APU:
        files.append(("gpu_metrics", _metrics_table(reading, repeats_power)))
    for name, text in files:
        if unreadable and not name.endswith("_label"):
            yield name, Folder()
        elif name == _HANGING and reading.fault == FaultKind.HANG:
            yield name, BlockingFile()
        else:
            yield name, text


def _values(reading: GpuReading) -> Iterator[tuple[str, str]]:
    card = reading.gpu.card
    yield "gpu_busy_percent", f"{reading.busy_percent}\n"
    if card.family is not Family.APU:
        yield "mem_busy_percent", f"{reading.memory_busy_percent}\n"
        yield "current_link_speed", f"{_SPEEDS[card.pcie_generation]} GT/s PCIe\n"
        yield "current_link_width", f"{_LANES}\n"
        yield "pcie_replay_count", f"{reading.pcie_replays}\n"
    yield "mem_info_vram_used", f"{reading.vram_used_bytes}\n"
    yield "mem_info_gtt_used", f"{16 << 20}\n"
    yield "pp_dpm_sclk", _levels(card.sclk_mhz, reading.sclk_mhz)
    yield "pp_dpm_mclk", _levels(card.mclk_mhz, reading.mclk_mhz)
    for block, (uncorrected, corrected) in reading.errors.items():
        yield f"ras/{block}_err_count", f"ue: {uncorrected}\nce: {corrected}\n"
    if reading.errors:
        pages = (f"0x{0x7F000 + n:x} : 0x{_PAGE_BYTES:x} : R\n" for n in range(reading.bad_pages))
        yield "ras/gpu_vram_bad_pages", "".join(pages)


def _metrics_table(reading: GpuReading, repeats_power: bool) -> bytes:
    """The driver's binary table, of version 1.7 or 1.3. Values that are not measured are all ones."""
    gpu, card = reading.gpu, reading.gpu.card
    new = card.xccs > 1
    has_power = gpu.is_primary_die or repeats_power
    watts = reading.power_microwatts // 10**6 if has_power else 0
    activity = (reading.busy_percent, reading.memory_busy_percent)
    hotspot, memory = reading.junction_millicelsius // 1000, reading.memory_millicelsius // 1000
    energy = _NOT_MEASURED
    if card.family is Family.INSTINCT:
        energy = reading.energy_counts if has_power else 0
    if new:
        values = struct.pack("<6HQQ", hotspot, memory, 0xFFFF, watts, *activity, _NOT_MEASURED, energy)
    else:
        edge = reading.edge_millicelsius // 1000
        temperatures = (edge, hotspot, memory, 0xFFFF, 0xFFFF, 0xFFFF)
        values = struct.pack("<10HQ", *temperatures, *activity, 0xFFFF, watts, energy)
    size = _TABLE_BYTES[7 if new else 3]
    return (struct.pack("<HBB", size, 1, 7 if new else 3) + values).ljust(size, b"\xff")


def _levels(levels: tuple[int, ...], now: int) -> str:
    """The level nearest to the clock has a star and the value of the clock."""
    at = min(range(len(levels)), key=lambda n: abs(levels[n] - now))
    return "".join(
        f"{n}: {now if n == at else mhz}Mhz {'*' if n == at else ''}\n" for n, mhz in enumerate(levels)
    )


def _sensors(reading: GpuReading, repeats_power: bool) -> Iterator[tuple[str, str]]:
    gpu, card = reading.gpu, reading.gpu.card
    folder = f"hwmon/hwmon{gpu.slot + 3}"
    sensors = []
    if card.edge_sensor:
        sensors.append(("edge", reading.edge_millicelsius))
    if card.junction_sensor:
        sensors.append(("junction", reading.junction_millicelsius))
        sensors.append(("mem", reading.memory_millicelsius))
    # The driver's numbers do not depend on whether there is an edge sensor.
    first = 1 if card.edge_sensor else 2
    for number, (label, millicelsius) in enumerate(sensors, first):
        yield f"{folder}/temp{number}_label", f"{label}\n"
        yield f"{folder}/temp{number}_input", f"{millicelsius}\n"
        if card.family is not Family.APU:
            yield f"{folder}/temp{number}_crit", f"{card.crit_celsius * 1000}\n"
            yield f"{folder}/temp{number}_emergency", f"{card.emergency_celsius * 1000}\n"
    has_power = gpu.is_primary_die or repeats_power
    power = "power1_average" if card.average_power else "power1_input"
    yield f"{folder}/{power}", f"{reading.power_microwatts if has_power else 0}\n"
    if card.family is not Family.APU:
        cap = int(gpu.spec.power_limit_watts * 1e6) if has_power else 0
        yield f"{folder}/power1_cap", f"{cap}\n"
        yield f"{folder}/power1_cap_max", f"{int(card.power.max_watts * 1e6) if has_power else 0}\n"
        yield f"{folder}/power1_cap_min", f"{int(card.power.min_watts * 1e6)}\n"
        yield f"{folder}/power1_cap_default", f"{int(card.power.default_watts * 1e6) if has_power else 0}\n"
    if reading.millivolts is not None:
        yield f"{folder}/in0_label", "vddgfx\n"
        yield f"{folder}/in0_input", f"{reading.millivolts}\n"
    yield f"{folder}/freq1_label", "sclk\n"
    yield f"{folder}/freq1_input", f"{reading.sclk_mhz * 1_000_000}\n"
    if reading.fan_percent is not None and card.fan_rpm is not None:
        yield f"{folder}/fan1_input", f"{card.fan_rpm * reading.fan_percent // 100}\n"
        yield f"{folder}/fan1_max", f"{card.fan_rpm}\n"
        yield f"{folder}/pwm1", f"{255 * reading.fan_percent // 100}\n"
        yield f"{folder}/pwm1_max", "255\n"


# Processes: the folders of the compute driver, and the open files in /proc.

_KFD = "sys/class/kfd/kfd"
_COMPUTE_FILE = "3"
_FIRST_RENDER_FILE = 8
_SIMDS_PER_UNIT = 4


def topology_files(readings: Iterable[GpuReading]) -> Iterator[File]:
    """Node 0 of the compute driver is the CPU; each GPU or partition is a further node."""
    yield f"{_KFD}/topology/generation_id", "1\n"
    yield f"{_KFD}/topology/nodes/0/gpu_id", "0\n"
    yield f"{_KFD}/topology/nodes/0/properties", "cpu_cores_count 96\nsimd_count 0\n"
    yield f"{_KFD}/proc/.keep", ""
    for reading in readings:
        gpu = reading.gpu
        for part in reading.parts:
            folder = f"{_KFD}/topology/nodes/{part.part.node}"
            properties = {
                "cpu_cores_count": 0,
                "simd_count": part.part.compute_units * _SIMDS_PER_UNIT,
                "simd_per_cu": _SIMDS_PER_UNIT,
                "gfx_target_version": gpu.card.target_version,
                "vendor_id": 0x1002,
                "device_id": gpu.card.code,
                "location_id": gpu.location | part.part.number << 28,
                "domain": gpu.domain,
                "drm_render_minor": part.part.render_minor,
                "unique_id": gpu.unique_id or 0,
            }
            yield f"{folder}/gpu_id", f"{part.part.gpu_id}\n"
            yield f"{folder}/properties", "".join(f"{name} {value}\n" for name, value in properties.items())
            yield f"{folder}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {part.part.vram_bytes}\n"
            yield f"{folder}/mem_banks/0/used_memory", f"{part.vram_used_bytes}\n"


def compute_files(readings: Iterable[GpuReading]) -> Iterator[File]:
    """A compute process has files for every GPU of the node, with zeros for those that it does not use."""
    parts = [part for reading in readings for part in reading.parts]
    used: dict[int, dict[int, tuple[PartReading, ProcessReading]]] = {}
    for part in parts:
        for process in part.processes:
            if process.computes:
                used.setdefault(process.pid, {})[part.part.gpu_id] = part, process
    for pid, places in used.items():
        folder = f"{_KFD}/proc/{pid}"
        yield f"{folder}/pasid", f"{32768 + pid % 1000}\n"
        for part in parts:
            here = places.get(part.part.gpu_id)
            number = part.part.gpu_id
            yield f"{folder}/vram_{number}", f"{here[1].vram_bytes if here else 0}\n"
            occupied = round(here[1].load * part.part.compute_units) if here else 0
            yield f"{folder}/stats_{number}/cu_occupancy", f"{occupied}\n"


def open_files(readings: Iterable[GpuReading]) -> Iterator[File]:
    """Each process has two descriptors of one open device file, which a reader must count once."""
    opened: dict[int, int] = {}
    client = 0
    for reading in readings:
        for part in reading.parts:
            for process in part.processes:
                client += 1
                folder = f"proc/{process.pid}"
                if process.computes:
                    yield f"{folder}/fd/{_COMPUTE_FILE}", Link("/dev/kfd")
                    yield f"{folder}/fdinfo/{_COMPUTE_FILE}", "pos:\t0\nflags:\t02000002\nmnt_id:\t30\n"
                text = _fdinfo(reading, process, client)
                for _ in range(2):
                    number = opened.get(process.pid, _FIRST_RENDER_FILE)
                    opened[process.pid] = number + 1
                    yield f"{folder}/fd/{number}", Link(f"/dev/dri/renderD{part.part.render_minor}")
                    yield f"{folder}/fdinfo/{number}", text


def _fdinfo(reading: GpuReading, process: ProcessReading, client: int) -> str:
    lines = [
        "pos:\t0",
        "flags:\t02100002",
        "mnt_id:\t30",
        "drm-driver:\tamdgpu",
        f"drm-client-id:\t{client}",
        f"drm-pdev:\t{reading.gpu.address}",
        f"drm-memory-vram:\t{process.vram_bytes >> 10} KiB",
        "drm-memory-gtt: \t2048 KiB",
        "drm-memory-cpu: \t0 KiB",
    ]
    engines = {
        "gfx": process.graphics_ns,
        "compute": process.compute_ns,
        "enc": process.encoder_ns,
        "dec": process.decoder_ns,
    }
    lines += [f"drm-engine-{name}:\t{spent} ns" for name, spent in engines.items() if spent]
    return "\n".join(lines) + "\n"
