"""Kernel files of simulated GPUs: PCI devices with their device nodes and sensors, and the open files of
processes."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct, pack

from accelscope.simulate.faults import FaultKind
from accelscope.simulate.folder import BlockingFile, Content, Folder, Link
from accelscope.vendors.amd.simulated.gpu import Gpu, GpuReading, PlatformDevice, ProcessReading
from accelscope.vendors.amd.simulated.kfd import pasid_of
from accelscope.vendors.amd.simulated.spec import AmdSpec, Family

_SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0"}
_GTT_BYTES = 64 << 30
_PAGE_BYTES = 0x1000
# The driver reads some files from the GPU. For a lost or suspended GPU, a folder in their place makes reading
# them fail. If the GPU hangs, these files block.
_HANGING = ("gpu_busy_percent", "gpu_metrics")
_AMD = 0x1002
# Bits of the blocks with error counters, in ras/features.
_RAS_BITS = {"umc": 0, "sdma": 1, "gfx": 2, "mmhub": 3, "pcie_bif": 5, "hdp": 6, "xgmi_wafl": 7}
_DRM_MAJOR = 226

File = tuple[str, Content]


def _link(path: str, target: str) -> File:
    """A relative link, as the kernel makes them; both are paths under sys/."""
    ups = "../" * (path.count("/") - 1)
    return path, Link(f"{ups}{target.removeprefix('sys/')}")


def pci_files(gpu: Gpu, *, bound: bool) -> Iterator[File]:
    """Files of the PCI bus; `bound` if amdgpu is loaded."""
    card = gpu.card
    board = card.subsystem or (_AMD, card.code)
    yield from _pci_device(
        gpu.folder,
        (_AMD, card.code),
        class_=card.pci_class << 8,
        revision=card.revision,
        board=board,
        numa_node=gpu.numa_node,
    )
    driver = "DRIVER=amdgpu\n" if bound else ""
    yield (
        f"{gpu.folder}/uevent",
        f"{driver}PCI_CLASS={card.pci_class:X}00\nPCI_ID=1002:{card.code:04X}\n"
        f"PCI_SUBSYS_ID={board[0]:04X}:{board[1]:04X}\nPCI_SLOT_NAME={gpu.address}\n",
    )
    if bound:
        yield _link(f"{gpu.folder}/driver", "sys/bus/pci/drivers/amdgpu")
        yield _link(f"sys/bus/pci/drivers/amdgpu/{gpu.address}", gpu.folder)


def _pci_device(
    folder: str,
    ids: tuple[int, int],
    *,
    class_: int,
    revision: int,
    board: tuple[int, int],
    numa_node: int = -1,
) -> Iterator[File]:
    """`ids` are vendor and device of the chip, `board` those of the board."""
    yield _link(f"sys/bus/pci/devices/{folder.rpartition('/')[2]}", folder)
    yield _link(f"{folder}/subsystem", "sys/bus/pci")
    yield f"{folder}/vendor", f"0x{ids[0]:04x}\n"
    yield f"{folder}/device", f"0x{ids[1]:04x}\n"
    yield f"{folder}/subsystem_vendor", f"0x{board[0]:04x}\n"
    yield f"{folder}/subsystem_device", f"0x{board[1]:04x}\n"
    yield f"{folder}/revision", f"0x{revision:02x}\n"
    yield f"{folder}/class", f"0x{class_:06x}\n"
    yield f"{folder}/numa_node", f"{numa_node}\n"
    space = bytearray(256)
    struct.pack_into("<HHIB", space, 0, *ids, 0, revision)
    struct.pack_into("<HB", space, 9, class_ & 0xFFFF, class_ >> 16)
    struct.pack_into("<HH", space, 0x2C, *board)
    yield f"{folder}/config", bytes(space)


def display_files(first: Gpu) -> Iterator[File]:
    """The display of the server's management controller, which is the first card of the node."""
    address = f"{first.domain:04x}:03:00.0"
    folder = f"sys/devices/pci{first.domain:04x}:00/{address}"
    ids = (0x1A03, 0x2000)  # ASPEED
    yield from _pci_device(folder, ids, class_=0x030000, revision=0x41, board=ids)
    yield f"{folder}/uevent", f"DRIVER=ast\nPCI_CLASS=30000\nPCI_ID=1A03:2000\nPCI_SLOT_NAME={address}\n"
    yield _link(f"{folder}/driver", "sys/bus/pci/drivers/ast")
    yield _link(f"sys/bus/pci/drivers/ast/{address}", folder)
    yield from _device_node(folder, "card0", 0)


def device_files(spec: AmdSpec, reading: GpuReading) -> Iterator[File]:
    gpu = reading.gpu
    repeats_power = spec.rocm < (6, 0)  # older drivers report the power of a module at both dies
    yield from _device_node(gpu.folder, gpu.drm_card, gpu.first_card)
    yield from _device_node(gpu.folder, f"renderD{gpu.first_minor}", gpu.first_minor)
    for device in gpu.platform_devices:
        yield from _platform_device_files(device)
    if gpu.card.family is not Family.INSTINCT:
        connector = f"{gpu.drm_card}-DP-1"
        yield f"{gpu.folder}/drm/{gpu.drm_card}/{connector}/status", "disconnected\n"
        yield _link(f"sys/class/drm/{connector}", f"{gpu.folder}/drm/{gpu.drm_card}/{connector}")
    yield _link(f"sys/class/hwmon/{_hwmon(gpu)}", f"{gpu.folder}/hwmon/{_hwmon(gpu)}")
    yield from ((f"{gpu.folder}/{name}", text) for name, text in _constant_files(gpu))
    yield f"{gpu.folder}/power/runtime_status", "suspended\n" if reading.suspended else "active\n"
    files = _measured_files(spec, reading, repeats_power=repeats_power)
    yield from ((f"{gpu.folder}/{name}", content) for name, content in files)


def _hwmon(gpu: Gpu) -> str:
    return f"hwmon{gpu.slot + 3}"


def _device_node(folder: str, name: str, minor: int) -> Iterator[File]:
    """A DRM device of the device in `folder`."""
    place = f"{folder}/drm/{name}"
    yield f"{place}/dev", f"{_DRM_MAJOR}:{minor}\n"
    yield (
        f"{place}/uevent",
        f"MAJOR={_DRM_MAJOR}\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor\n",
    )
    yield f"{place}/device", Link("../../../" + folder.rpartition("/")[2])
    yield _link(f"{place}/subsystem", "sys/class/drm")
    yield _link(f"sys/class/drm/{name}", place)
    yield _link(f"sys/dev/char/{_DRM_MAJOR}:{minor}", place)
    yield f"dev/dri/{name}", ""


def _platform_device_files(device: PlatformDevice) -> Iterator[File]:
    """It has no reference to its GPU."""
    folder = f"sys/devices/platform/{device.name}"
    yield f"{folder}/modalias", f"platform:{device.name}\n"
    yield f"{folder}/uevent", f"MODALIAS=platform:{device.name}\n"
    yield _link(f"{folder}/subsystem", "sys/bus/platform")
    yield _link(f"sys/bus/platform/devices/{device.name}", folder)
    yield from _device_node(folder, f"card{device.card}", device.card)
    yield from _device_node(folder, f"renderD{device.render_minor}", device.render_minor)


def hive_files(readings: Sequence[GpuReading]) -> Iterator[File]:
    """The hive belongs to its first GPU; the others have a link to it."""
    linked = [(reading.gpu, id_) for reading in readings if (id_ := reading.gpu.hive) is not None]
    for gpu, id_ in linked:
        first = linked[0][0]
        hive = f"{first.folder}/xgmi_hive_info"
        yield _link(f"{hive}/node{gpu.slot + 1}", gpu.folder)
        if gpu is first:
            yield f"{hive}/xgmi_hive_id", f"{id_}\n"
        else:
            yield _link(f"{gpu.folder}/xgmi_hive_info", hive)
        yield f"{gpu.folder}/xgmi_device_id", f"{id_ + gpu.slot & 2**64 - 1}\n"
        yield f"{gpu.folder}/xgmi_physical_id", f"{gpu.slot}\n"
        yield f"{gpu.folder}/xgmi_error", "0\n"
    for reading in readings:
        if reading.gpu.card.xccs > 1:
            yield f"{reading.gpu.folder}/xgmi_port_num", "".join(_ports(reading))


def _ports(reading: GpuReading) -> Iterator[str]:
    """Own GPU and port, and those at the other end. GPUs are counted from 1, ports are not."""
    own = reading.gpu.slot
    for port, link in enumerate(reading.xgmi):
        theirs = own if own < link.peer else own - 1  # its ports are in the order of its peers, too
        yield f"{own + 1:02x}:{port:02x} ->  {link.peer + 1:02x}:{theirs:02x}\n"


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
    if card.family is not Family.APU:
        yield "board_info", f"type : {'oam' if card.family is Family.INSTINCT else 'cem'}\n"
    yield "mem_info_vis_vram_total", f"{card.vram_bytes}\n"
    yield "power_dpm_force_performance_level", "auto\n"
    if card.ras_blocks:
        mask = sum(1 << _RAS_BITS[block] for block in card.ras_blocks)
        yield "ras/features", f"feature mask: 0x{mask:x}\n"
    if gpu.spec.compute_partition is not None:
        yield "current_compute_partition", f"{gpu.spec.compute_partition}\n"
        yield "current_memory_partition", f"{gpu.spec.memory_partition}\n"
    yield "max_link_speed", f"{_SPEEDS[card.pcie_generation]} GT/s PCIe\n"
    yield "max_link_width", f"{PCIE_LANES}\n"


def _measured_files(
    spec: AmdSpec, reading: GpuReading, *, repeats_power: bool
) -> Iterator[tuple[str, Content]]:
    unreadable = reading.suspended or reading.fault == FaultKind.LOST
    folder = f"hwmon/{_hwmon(reading.gpu)}"
    yield f"{folder}/name", "amdgpu\n"
    yield f"{folder}/device", Link(f"../../../{reading.gpu.address}")
    yield f"{folder}/subsystem", Link("../../../../../class/hwmon")
    sensors = ((f"{folder}/{name}", text) for name, text in _sensors(reading, repeats_power))
    table = gpu_metrics(spec, reading, repeats_power=repeats_power)
    files: list[tuple[str, Content]] = [*_values(reading), *sensors, ("gpu_metrics", table)]
    for name, text in files:
        if unreadable and not name.endswith("_label"):
            yield name, Folder()
        elif name in _HANGING and reading.fault == FaultKind.HANG:
            yield name, BlockingFile()
        else:
            yield name, text


def _values(reading: GpuReading) -> Iterator[tuple[str, str]]:
    card = reading.gpu.card
    yield "gpu_busy_percent", f"{reading.busy_percent}\n"
    yield "current_link_speed", f"{_SPEEDS[card.pcie_generation]} GT/s PCIe\n"
    yield "current_link_width", f"{PCIE_LANES}\n"
    if card.family is not Family.APU:
        yield "mem_busy_percent", f"{reading.memory_busy_percent}\n"
        yield "pcie_replay_count", f"{reading.pcie_replays}\n"
    yield "mem_info_vram_used", f"{reading.vram_used_bytes}\n"
    yield "mem_info_vis_vram_used", f"{reading.vram_used_bytes}\n"
    yield "mem_info_gtt_used", f"{16 << 20}\n"
    yield "pp_dpm_sclk", _levels(card.sclk_mhz, reading.sclk_mhz)
    yield "pp_dpm_mclk", _levels(card.mclk_mhz, reading.mclk_mhz)
    for block, (uncorrected, corrected) in reading.errors.items():
        yield f"ras/{block}_err_count", f"ue: {uncorrected}\nce: {corrected}\n"
    if reading.errors:
        pages = (f"0x{0x7F000 + n:08x} : 0x{_PAGE_BYTES:08x} : R\n" for n in range(reading.bad_pages))
        yield "ras/gpu_vram_bad_pages", "".join(pages)


def _levels(levels: tuple[int, ...], now: int) -> str:
    """The level nearest to the clock has a star and the value of the clock."""
    at = min(range(len(levels)), key=lambda n: abs(levels[n] - now))
    return "".join(
        f"{n}: {now if n == at else mhz}Mhz {'*' if n == at else ''}\n" for n, mhz in enumerate(levels)
    )


def _sensors(reading: GpuReading, repeats_power: bool) -> Iterator[tuple[str, str]]:
    gpu, card = reading.gpu, reading.gpu.card
    sensors = []
    if card.edge_sensor:
        sensors.append(("edge", reading.edge_millicelsius))
    if card.junction_sensor:
        sensors.append(("junction", reading.junction_millicelsius))
        sensors.append(("mem", reading.memory_millicelsius))
    # The driver's numbers do not depend on whether there is an edge sensor.
    first = 1 if card.edge_sensor else 2
    for number, (label, millicelsius) in enumerate(sensors, first):
        yield f"temp{number}_label", f"{label}\n"
        yield f"temp{number}_input", f"{millicelsius}\n"
        if card.family is not Family.APU:
            yield f"temp{number}_crit", f"{card.crit_celsius * 1000}\n"
            yield f"temp{number}_emergency", f"{card.emergency_celsius * 1000}\n"
    has_power = gpu.is_primary_die or repeats_power
    power = "power1_average" if card.average_power else "power1_input"
    yield power, f"{reading.power_microwatts if has_power else 0}\n"
    yield "power1_label", "PPT\n"
    if card.family is not Family.APU:
        yield "freq2_label", "mclk\n"
        yield "freq2_input", f"{reading.mclk_mhz * 1_000_000}\n"
        cap = int(gpu.spec.power_limit_watts * 1e6) if has_power else 0
        yield "power1_cap", f"{cap}\n"
        yield "power1_cap_max", f"{int(card.power.max_watts * 1e6) if has_power else 0}\n"
        yield "power1_cap_min", f"{int(card.power.min_watts * 1e6)}\n"
        yield "power1_cap_default", f"{int(card.power.default_watts * 1e6) if has_power else 0}\n"
    if reading.millivolts is not None:
        yield "in0_label", "vddgfx\n"
        yield "in0_input", f"{reading.millivolts}\n"
    yield "freq1_label", "sclk\n"
    yield "freq1_input", f"{reading.sclk_mhz * 1_000_000}\n"
    if reading.fan_percent is not None and card.fan_rpm is not None:
        yield "fan1_input", f"{reading.fan_rpm}\n"
        yield "fan1_max", f"{card.fan_rpm}\n"
        yield "pwm1", f"{255 * reading.fan_percent // 100}\n"
        yield "pwm1_max", "255\n"


# Open files of processes, in /proc.

_COMPUTE_FILE = "3"
_FIRST_RENDER_FILE = 8


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
        f"pasid:\t{pasid_of(process.pid)}",
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


# --- gpu_metrics ----------------------------------------------------------
# The binary file with the firmware's sensors and counters in one table. The layouts are those of the kernel's
# kgd_pp_interface.h. A value that the chip does not measure is all ones.


PCIE_LANES = 16
XGMI_GIGABITS = 32  # of one lane
XGMI_LANES = 16
VIDEO_ENGINES = 4
JPEG_RINGS = 8  # of each video engine
_ONES = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFF_FFFF, 8: 0xFFFF_FFFF_FFFF_FFFF}
_GT_PER_SECOND = {1: 25, 2: 50, 3: 80, 4: 160, 5: 320}  # tenths
_PROCESSORS, _CLOCKS, _LINKS, _PARTITIONS, _HBM_STACKS = 8, 4, 8, 8, 4
_IDLE_SOC, _IDLE_VIDEO, _IDLE_DECODER = 28, 29, 22  # MHz
_BANDWIDTH = 5300  # GB/s, of an MI300X

# Throttle status by cause: bits of the chip, and those of the driver, which mean the same for all chips.
_STATUS = {
    Family.INSTINCT: {"ppt": 0, "socket_thermal": 6, "hbm_thermal": 7, "vr_thermal": 11},
    Family.RADEON: {"ppt": 16, "socket_thermal": 1, "hbm_thermal": 4, "vr_thermal": 5},
}
_COMMON_STATUS = {
    Family.INSTINCT: {"ppt": 0, "socket_thermal": 32, "hbm_thermal": 34, "vr_thermal": 38},
    Family.RADEON: {"ppt": 0, "socket_thermal": 36, "hbm_thermal": 34, "vr_thermal": 38},
}


def gpu_metrics(spec: AmdSpec, reading: GpuReading, *, repeats_power: bool) -> bytes:
    """`repeats_power`: older drivers report the power of a module at both dies."""
    card = reading.gpu.card
    if card.family is Family.APU:
        return _version_2_1(reading)
    if card.xccs > 1:
        return _version_1_5(reading) if spec.metrics_revision == 5 else _version_1_7(reading)
    return _version_1_3(reading, has_power=reading.gpu.is_primary_die or repeats_power)


class _Table:
    """Fields in their order, with the alignment that a C compiler gives them."""

    def __init__(self, format_: int, content: int) -> None:
        self._bytes = bytearray(pack("<HBB", 0, format_, content))

    def add(self, size: int, *values: int | None) -> None:
        """Values of so many bytes each; None is not measured. Counters wrap around."""
        self._bytes += b"\0" * (-len(self._bytes) % size)
        ones = _ONES[size]
        for value in values:
            self._bytes += (ones if value is None else value & ones).to_bytes(size, "little")

    def array(self, size: int, values: Iterable[int | None], length: int) -> None:
        known = list(values)
        self.add(size, *known, *[None] * (length - len(known)))

    def finish(self) -> bytes:
        self._bytes += b"\0" * (-len(self._bytes) % 8)
        Struct("<H").pack_into(self._bytes, 0, len(self._bytes))
        return bytes(self._bytes)


def _version_1_3(reading: GpuReading, *, has_power: bool) -> bytes:
    card = reading.gpu.card
    instinct = card.family is Family.INSTINCT
    table = _Table(1, 3)
    vr = reading.vr_millicelsius // 1000
    table.add(2, reading.edge_millicelsius // 1000, reading.junction_millicelsius // 1000)
    table.add(2, reading.memory_millicelsius // 1000, vr, vr, vr)
    table.add(
        2, reading.busy_percent, reading.memory_busy_percent, None if instinct else reading.video_percent
    )
    table.add(2, reading.power_microwatts // 10**6 if has_power else 0)
    table.add(8, reading.energy_counts if has_power else 0)
    table.add(8, reading.uptime_nanoseconds)
    for _average_then_current in range(2):
        table.add(2, reading.sclk_mhz, _IDLE_SOC, reading.mclk_mhz, *(0,) * 4)
    table.add(4, _status(_STATUS, reading))
    table.add(2, reading.fan_rpm or 0, PCIE_LANES, _GT_PER_SECOND[card.pcie_generation], None)
    if instinct:
        table.add(4, reading.activity_sum, reading.memory_activity_sum)
        table.array(2, [reading.memory_millicelsius // 1000] * _HBM_STACKS, _HBM_STACKS)
        table.add(8, reading.cycles * 10**5)
    else:
        table.add(4, None, None)
        table.array(2, (), _HBM_STACKS)
        table.add(8, None)
    table.add(2, None, None if instinct else reading.millivolts, None, None)
    table.add(8, _status(_COMMON_STATUS, reading))
    return table.finish()


def _status(bits: Mapping[Family, Mapping[str, int]], reading: GpuReading) -> int:
    """These chips have no bit for an external signal (prochot)."""
    own = bits[reading.gpu.card.family]
    return sum(1 << own[cause] for cause in reading.throttle_causes if cause in own)


def _version_1_5(reading: GpuReading) -> bytes:
    table = _Table(1, 5)
    _add_sensors(table, reading)
    table.array(2, [0] * VIDEO_ENGINES, VIDEO_ENGINES)
    table.array(2, [0] * VIDEO_ENGINES * JPEG_RINGS, VIDEO_ENGINES * JPEG_RINGS)
    table.add(8, reading.energy_counts, reading.uptime_nanoseconds)
    table.add(4, 0, 0)  # the throttle status is not in this table; no clock is locked
    _add_links(table, reading)
    table.add(8, reading.cycles * 10**5)
    _add_clocks(table, reading)
    table.add(2, None)
    return table.finish()


def _version_1_7(reading: GpuReading) -> bytes:
    table = _Table(1, 7)
    _add_sensors(table, reading)
    table.add(8, _BANDWIDTH, reading.energy_counts, reading.uptime_nanoseconds)
    table.add(4, reading.cycles, *reading.throttle_cycles.values())
    table.add(4, 0)
    _add_links(table, reading)
    table.array(2, [1] * len(reading.xgmi), _LINKS)
    table.add(2, None)
    table.add(8, reading.cycles * 10**5)
    _add_clocks(table, reading)
    table.add(2, len(reading.parts))
    _add_partitions(table, reading)
    table.add(4, 0)
    return table.finish()


def _add_sensors(table: _Table, reading: GpuReading) -> None:
    table.add(2, reading.junction_millicelsius // 1000, reading.memory_millicelsius // 1000)
    table.add(2, reading.vr_millicelsius // 1000, reading.power_microwatts // 10**6)
    table.add(2, reading.busy_percent, reading.memory_busy_percent)


def _add_links(table: _Table, reading: GpuReading) -> None:
    table.add(2, PCIE_LANES, _GT_PER_SECOND[reading.gpu.card.pcie_generation], XGMI_LANES, XGMI_GIGABITS)
    table.add(4, reading.activity_sum, reading.memory_activity_sum)
    table.add(8, reading.pcie_megabit_sum, reading.pcie_megabits, 0, reading.pcie_replays, 0)
    table.add(4, 0, 0)
    table.array(8, (link.read_kilobytes for link in reading.xgmi), _LINKS)
    table.array(8, (link.written_kilobytes for link in reading.xgmi), _LINKS)


def _add_clocks(table: _Table, reading: GpuReading) -> None:
    table.array(2, [reading.sclk_mhz] * reading.gpu.card.xccs, _PROCESSORS)
    for clock in (_IDLE_SOC, _IDLE_VIDEO, _IDLE_DECODER):
        table.array(2, [clock] * _CLOCKS, _CLOCKS)
    table.add(2, reading.mclk_mhz)


def _add_partitions(table: _Table, reading: GpuReading) -> None:
    xccs = reading.gpu.card.xccs // len(reading.parts)
    engines = max(1, VIDEO_ENGINES // len(reading.parts))
    for number in range(_PARTITIONS):
        part = reading.parts[number] if number < len(reading.parts) else None
        table.add(8)  # a structure of its own, which begins where its largest fields may

        def of_part(values: Sequence[int]) -> Sequence[int]:
            return values if part is not None else ()  # noqa: B023 - called at once

        table.array(4, of_part([part.busy_percent if part else 0] * xccs), _PROCESSORS)
        table.array(2, of_part([0] * engines * JPEG_RINGS), VIDEO_ENGINES * JPEG_RINGS)
        table.array(2, of_part([0] * engines), VIDEO_ENGINES)
        table.array(8, of_part([part.activity_sum if part else 0] * xccs), _PROCESSORS)
        table.array(8, (), _PROCESSORS)  # cycles below the host's limit: needs newer firmware


def _version_2_1(reading: GpuReading) -> bytes:
    """Of an APU: hundredths of degrees and of percents, and milliwatts."""
    table = _Table(2, 1)
    table.add(2, reading.edge_millicelsius // 10, reading.edge_millicelsius // 10)
    table.array(2, (), 8)  # the cores of the CPU
    table.array(2, (), 2)
    table.add(2, reading.busy_percent * 100, reading.video_percent * 100)
    table.add(8, reading.uptime_nanoseconds)
    table.add(2, reading.power_microwatts // 1000, None, None, None)
    table.array(2, (), 8)
    table.add(2, reading.sclk_mhz, None, reading.mclk_mhz, reading.mclk_mhz, None, None)
    table.array(2, (), 6)  # current clocks are not reported, only averages
    table.array(2, (), 8)
    table.array(2, (), 2)
    table.add(4, 0)
    table.add(2, None, None, None, None)
    return table.finish()
