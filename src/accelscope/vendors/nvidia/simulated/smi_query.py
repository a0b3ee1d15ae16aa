"""Outputs of the simulated nvidia-smi except XML: `--query-gpu`, pmon, `-L`, compute apps, version, help."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from accelscope.simulate.spec import ProcessType
from accelscope.vendors.nvidia.simulated.gpu import (
    GPU_IDLE,
    HW_SLOWDOWN,
    HW_THERMAL,
    SUPPORTED_REASONS,
    SW_POWER_CAP,
    SW_THERMAL,
    GpuReading,
    ProcessReading,
)
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

NOT_AVAILABLE = "[N/A]"
_DEPRECATED = "[Requested functionality has been deprecated]"
_RESET_REQUIRED = "[GPU requires reset]"
_DEPRECATED_FROM = 590  # driver version since which some cells contain that text
Cell = Callable[[GpuReading], object | None]


@dataclass(frozen=True, slots=True)
class QueryField:
    """A field of `--query-gpu`, by `name` or one of `aliases`. The header contains `name` and the unit."""

    name: str
    cell: Cell  # None: absent
    unit: str = ""
    aliases: tuple[str, ...] = ()
    since: int = 0  # driver
    identity: bool = False  # available even if the card requires a reset

    def value(self, reading: GpuReading) -> str:
        if reading.fault == "reset_required" and not self.identity:
            return _RESET_REQUIRED
        value = self.cell(reading)
        return NOT_AVAILABLE if value is None else str(value)


def query_fields(spec: NvidiaSpec, gpu_count: int, timestamp: str) -> tuple[QueryField, ...]:
    """The fields that the tool of this driver version supports."""
    groups = (
        _identity(spec, gpu_count, timestamp),
        _state(spec),
        _memory(),
        _reasons(spec),
        _power(),
        _clocks(spec),
        _ecc(),
        _mig(),
    )
    return tuple(field for group in groups for field in group if field.since <= spec.driver_major)


def rows(fields: tuple[QueryField, ...], readings: tuple[GpuReading, ...]) -> Iterator[str]:
    """Tab-separated lines of name, header, unit and one cell per GPU, for every name and alias of a field."""
    for field in fields:
        header = f"{field.name} [{field.unit}]" if field.unit else field.name
        cells = [field.value(reading) for reading in readings]
        for name in (field.name, *field.aliases):
            yield "\t".join((name, header, field.unit, *cells))


def mib(size: int) -> int:
    return size >> 20


def watts(milliwatts: float) -> str:
    return f"{milliwatts / 1000:.2f}"


def _constant(text: str) -> Cell:
    return lambda _: text


def _identity(spec: NvidiaSpec, count: int, timestamp: str) -> Iterator[QueryField]:
    def field(name: str, cell: Cell, *aliases: str) -> QueryField:
        return QueryField(name, cell, aliases=aliases, identity=True)

    yield field("timestamp", _constant(timestamp))
    yield field("driver_version", _constant(spec.driver_version))
    yield field("count", lambda _: count)
    yield field("name", lambda r: r.gpu.card.name, "gpu_name")
    yield field("serial", lambda r: r.gpu.serial, "gpu_serial")
    yield field("uuid", lambda r: r.gpu.uuid, "gpu_uuid")
    yield field("pci.bus_id", lambda r: r.gpu.bus_id, "gpu_bus_id")
    yield field("pci.domain", _constant("0x0000"))
    yield field("pci.bus", lambda r: f"0x{r.gpu.bus:02X}")
    yield field("pci.device", _constant("0x00"))
    yield field("pci.device_id", lambda r: f"0x{r.gpu.card.pci_device_id:08X}")
    yield field("pci.sub_device_id", lambda r: f"0x{r.gpu.card.pci_subsystem_id:08X}")
    yield field("index", lambda r: r.index)
    yield field("vbios_version", lambda r: r.gpu.card.vbios)
    yield field("inforom.img", lambda r: r.gpu.card.inforom_image, "inforom.image")
    yield field("inforom.oem", _constant("2.1"))
    yield field("inforom.ecc", lambda r: "7.16" if r.gpu.card.ecc else None)
    yield field("compute_cap", lambda r: ".".join(map(str, r.gpu.card.compute_capability)))


def _state(spec: NvidiaSpec) -> Iterator[QueryField]:
    deprecated = _constant(_DEPRECATED)

    def unless_deprecated(cell: Cell) -> Cell:
        return deprecated if spec.driver_major >= _DEPRECATED_FROM else cell

    yield QueryField("pcie.link.gen.current", lambda r: r.pcie_generation)
    yield QueryField("pcie.link.gen.gpucurrent", lambda r: r.pcie_generation, since=520)
    yield QueryField("pcie.link.gen.max", lambda r: r.gpu.card.pcie_generation)
    yield QueryField("pcie.link.gen.gpumax", lambda r: r.gpu.card.pcie_generation, since=520)
    yield QueryField("pcie.link.gen.hostmax", _none, since=520)
    yield QueryField("pcie.link.width.current", lambda r: r.gpu.card.pcie_width)
    yield QueryField("pcie.link.width.max", lambda r: r.gpu.card.pcie_width)
    yield QueryField("display_mode", unless_deprecated(lambda r: _enabled(r.gpu.card.display)))
    yield QueryField("display_active", lambda r: _enabled(r.gpu.card.display))
    yield QueryField("persistence_mode", lambda r: _enabled(not r.gpu.card.display))
    yield QueryField("accounting.mode", _constant("Disabled"))
    yield QueryField("accounting.buffer_size", _constant("4000"))
    yield QueryField("compute_mode", _constant("Default"))
    yield QueryField("fan.speed", lambda r: r.fan_percent, "%")
    yield QueryField("pstate", lambda r: f"P{r.pstate}")
    yield QueryField("utilization.gpu", _whole_card(lambda r: r.utilization_percent), "%")
    yield QueryField("utilization.memory", _whole_card(lambda r: r.memory_utilization_percent), "%")
    yield QueryField("utilization.encoder", _whole_card(lambda r: r.encoder_percent), "%", since=525)
    yield QueryField("utilization.decoder", _whole_card(lambda r: r.decoder_percent), "%", since=525)
    yield QueryField("utilization.jpeg", _whole_card(lambda _: 0), "%", since=545)
    yield QueryField("utilization.ofa", _whole_card(lambda _: 0), "%", since=545)
    yield QueryField("encoder.stats.sessionCount", _constant("0"))
    yield QueryField("encoder.stats.averageFps", _constant("0"))
    yield QueryField("encoder.stats.averageLatency", _constant("0"))
    yield QueryField("temperature.gpu", lambda r: r.temperature_celsius)
    yield QueryField(
        "temperature.gpu.tlimit",
        lambda r: (
            r.gpu.card.temperature.gpu_max - r.temperature_celsius
            if r.gpu.card.has_temperature_margins
            else None
        ),
        since=535,
    )
    # In the real tool this marker has no brackets either.
    yield QueryField(
        "temperature.memory",
        lambda r: "N/A" if r.memory_temperature_celsius is None else r.memory_temperature_celsius,
    )
    yield QueryField("gsp.mode.current", _constant("Enabled"), since=545)


def _memory() -> Iterator[QueryField]:
    yield QueryField("memory.total", lambda r: mib(r.memory_total_bytes), "MiB")
    yield QueryField("memory.reserved", lambda r: mib(r.memory_reserved_bytes), "MiB", since=510)
    yield QueryField("memory.used", lambda r: mib(r.memory_used_bytes), "MiB")
    yield QueryField("memory.free", lambda r: mib(r.memory_free_bytes), "MiB")


_REASONS = {
    "gpu_idle": GPU_IDLE,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": SW_POWER_CAP,
    "hw_slowdown": HW_SLOWDOWN,
    "hw_thermal_slowdown": HW_THERMAL,
    "hw_power_brake_slowdown": 0x80,
    "sw_thermal_slowdown": SW_THERMAL,
    "sync_boost": 0x10,
}
_RENAMED_REASONS = 535  # driver version that renamed them to events; the old name stays an alias


def _reasons(spec: NvidiaSpec) -> Iterator[QueryField]:
    new, old = "clocks_event_reasons", "clocks_throttle_reasons"
    renamed = spec.driver_major >= _RENAMED_REASONS

    def field(name: str, cell: Cell) -> QueryField:
        if renamed:
            return QueryField(f"{new}.{name}", cell, aliases=(f"{old}.{name}",))
        return QueryField(f"{old}.{name}", cell)

    yield field("supported", _constant(f"0x{SUPPORTED_REASONS:016X}"))
    yield field("active", lambda r: f"0x{r.clock_event_reasons:016X}")
    for name, bit in _REASONS.items():
        yield field(name, _reason(bit))


def _reason(bit: int) -> Cell:
    return lambda r: "Active" if r.clock_event_reasons & bit else "Not Active"


def _power() -> Iterator[QueryField]:
    limit: Cell = lambda r: f"{r.gpu.spec.power_limit_watts:.2f}"  # noqa: E731  one cell for two fields
    yield QueryField("power.management", _constant("Enabled"))
    yield QueryField("power.draw", lambda r: watts(r.power_average_milliwatts), "W")
    yield QueryField("power.draw.average", lambda r: watts(r.power_average_milliwatts), "W", since=535)
    yield QueryField("power.draw.instant", lambda r: watts(r.power_instant_milliwatts), "W", since=535)
    yield QueryField("power.limit", limit, "W")
    yield QueryField("enforced.power.limit", limit, "W")
    yield QueryField("power.default_limit", lambda r: f"{r.gpu.card.power.default_watts:.2f}", "W")
    yield QueryField("power.min_limit", lambda r: f"{r.gpu.card.power.min_watts:.2f}", "W")
    yield QueryField("power.max_limit", lambda r: f"{r.gpu.card.power.max_watts:.2f}", "W")


def _clocks(spec: NvidiaSpec) -> Iterator[QueryField]:
    def field(name: str, cell: Cell, alias: str) -> QueryField:
        return QueryField(name, cell, "MHz", (alias,))

    yield field("clocks.current.graphics", lambda r: r.sm_clock_mhz, "clocks.gr")
    yield field("clocks.current.sm", lambda r: r.sm_clock_mhz, "clocks.sm")
    yield field("clocks.current.memory", lambda r: r.memory_clock_mhz, "clocks.mem")
    yield field("clocks.current.video", lambda r: r.video_clock_mhz, "clocks.video")
    if spec.driver_major >= _DEPRECATED_FROM:
        for name, alias in (("graphics", "gr"), ("memory", "mem")):
            cell = _constant(_DEPRECATED)
            yield field(f"clocks.applications.{name}", cell, f"clocks.applications.{alias}")
    yield field("clocks.max.graphics", lambda r: r.gpu.card.clocks.max_sm, "clocks.max.gr")
    yield QueryField("clocks.max.sm", lambda r: r.gpu.card.clocks.max_sm, "MHz")
    yield field("clocks.max.memory", lambda r: r.gpu.card.clocks.max_memory, "clocks.max.mem")


def _ecc() -> Iterator[QueryField]:
    mode: Cell = lambda r: "Enabled" if r.ecc else None  # noqa: E731  one cell for two fields
    yield QueryField("ecc.mode.current", mode)
    yield QueryField("ecc.mode.pending", mode)
    for error in ("corrected", "uncorrected"):
        for counter in ("volatile", "aggregate"):
            for location in ("device_memory", "dram", "sram", "total"):
                name = f"ecc.errors.{error}.{counter}.{location}"
                yield QueryField(name, _ecc_count(error, counter, location))
    yield QueryField("retired_pages.single_bit_ecc.count", _page_count(0), aliases=("retired_pages.sbe",))
    yield QueryField("retired_pages.double_bit.count", _page_count(1), aliases=("retired_pages.dbe",))
    pending: Cell = lambda r: None if r.retired_pages is None else _yes(r.retirement_pending)  # noqa: E731
    yield QueryField("retired_pages.pending", pending)
    remapped: dict[str, Cell] = {
        "correctable": lambda r: None if r.remapping is None else r.remapping.correctable,
        "uncorrectable": lambda r: None if r.remapping is None else r.remapping.uncorrectable,
        "pending": lambda r: None if r.remapping is None else _yes(r.remapping.pending),
        "failure": lambda r: None if r.remapping is None else _yes(r.remapping.failed),
    }
    for name, cell in remapped.items():
        yield QueryField(f"remapped_rows.{name}", cell, since=530)


def _ecc_count(error: str, counter: str, location: str) -> Cell:
    def cell(reading: GpuReading) -> object | None:
        if reading.ecc is None:
            return None
        return 0 if location == "sram" else getattr(reading.ecc, f"{counter}_{error}")

    return cell


def _page_count(kind: int) -> Cell:
    return lambda r: None if r.retired_pages is None else r.retired_pages[kind]


def _mig() -> Iterator[QueryField]:
    mode: Cell = lambda r: _enabled(r.gpu.partitioned) if r.gpu.card.mig_profiles else None  # noqa: E731  two fields
    yield QueryField("mig.mode.current", mode)
    yield QueryField("mig.mode.pending", mode)


def _whole_card(cell: Cell) -> Cell:
    """In MIG mode the tool prints no utilisation of the whole card."""
    return lambda r: None if r.gpu.partitioned else cell(r)


def _none(_: GpuReading) -> None:
    return None


def _enabled(value: object) -> str:
    return "Enabled" if value else "Disabled"


def _yes(value: object) -> str:
    return "Yes" if value else "No"


_ENGINES_FROM = 545  # driver version since which pmon has jpg and ofa, and wider columns
_PROTECTED_FROM = 535  # driver version since which pmon has ccpm
_COMMAND_LENGTH = 15


def pmon(spec: NvidiaSpec, readings: Sequence[GpuReading], selection: str) -> str:
    """One sample of `pmon -s u|m|um` with its two header lines."""
    wide = spec.driver_major >= _ENGINES_FROM
    columns = ["sm", "mem", "enc", "dec"] + (["jpg", "ofa"] if wide else []) if "u" in selection else []
    if "m" in selection:
        columns += ["fb"] + (["ccpm"] if spec.driver_major >= _PROTECTED_FROM else [])
    units = ["MB" if column in ("fb", "ccpm") else "%" for column in columns]
    width, gap = (7, 4) if wide else (6, 3)

    def line(
        gpu: str, pid: str, kind: str, cells: Iterable[str], command: str, *, header: bool = False
    ) -> str:
        first = f"{gpu:<5}" if header else f"{gpu:>5}"
        places = "".join(f"{cell:>{width}}" for cell in cells)
        return f"{first}{pid:>11}{kind:>6}{places}{'':{gap}}{command:<{_COMMAND_LENGTH}}\n"

    lines = [
        line("# gpu", "pid", "type", columns, "command", header=True),
        line("# Idx", "#", "C/G", units, "name", header=True),
    ]
    for reading in readings:
        if reading.fault in ("lost", "reset_required"):
            continue
        if not reading.processes:
            lines.append(line(str(reading.index), "-", "-", ["-"] * len(columns), "-"))
        for process in reading.processes:
            cells = [_pmon_cell(process, column) for column in columns]
            command = process.name[:_COMMAND_LENGTH]
            lines.append(
                line(str(reading.index), str(process.pid), str(process.placement.type), cells, command)
            )
    return "".join(lines)


def _pmon_cell(process: ProcessReading, column: str) -> str:
    memory = process.memory_bytes
    value = {
        "sm": process.sm,
        "mem": process.memory,
        "enc": process.encoder or None,  # no sample of an engine that the process does not use
        "dec": process.decoder or None,
        "fb": None if memory is None else mib(memory),
        "ccpm": 0,
    }.get(column)
    return "-" if value is None else str(value)


def device_list(reading: GpuReading) -> str:
    """The lines of one GPU in `nvidia-smi -L`."""
    lines = [f"GPU {reading.index}: {reading.gpu.card.name} (UUID: {reading.gpu.uuid})\n"]
    lines += [
        f"  MIG {mig.part.name:<11} Device {mig.part.index:>2}: (UUID: {mig.uuid})\n" for mig in reading.mig
    ]
    return "".join(lines)


def compute_apps(readings: Sequence[GpuReading], timestamp: str) -> Iterator[str]:
    """Lines as in `rows`, with one cell per process. The first line contains the index of its GPU."""
    apps = [
        (reading, process)
        for reading in readings
        if reading.fault not in ("lost", "reset_required")
        for process in reading.processes
        if process.placement.type is not ProcessType.GRAPHICS
    ]

    def row(name: str, header: str, unit: str, cells: Iterable[object | None]) -> str:
        texts = (NOT_AVAILABLE if cell is None else str(cell) for cell in cells)
        return "\t".join((name, header, unit, *texts))

    yield row("gpu index", "", "", (reading.index for reading, _ in apps))
    yield row("timestamp", "timestamp", "", (timestamp for _ in apps))
    yield row("gpu_name", "gpu_name", "", (reading.gpu.card.name for reading, _ in apps))
    yield row("gpu_bus_id", "gpu_bus_id", "", (reading.gpu.bus_id for reading, _ in apps))
    yield row("gpu_serial", "gpu_serial", "", (reading.gpu.serial for reading, _ in apps))
    yield row("gpu_uuid", "gpu_uuid", "", (reading.gpu.uuid for reading, _ in apps))
    yield row("pid", "pid", "", (process.pid for _, process in apps))
    for name in ("process_name", "name"):
        yield row(name, "process_name", "", (process.path for _, process in apps))
    for name in ("used_gpu_memory", "used_memory"):
        sizes = (process.memory_bytes for _, process in apps)
        cells = (None if size is None else mib(size) for size in sizes)
        yield row(name, "used_gpu_memory [MiB]", "MiB", cells)


def version(spec: NvidiaSpec) -> str:
    nvml = ".".join(spec.driver_version.split(".")[:2])
    return (
        f"NVIDIA-SMI version  : {spec.driver_version}\n"
        f"NVML version        : {nvml}\n"
        f"DRIVER version      : {spec.driver_version}\n"
        f"CUDA Version        : {spec.cuda_version}\n"
    )


def help_query_gpu(fields: Sequence[QueryField]) -> str:
    lines = ['List of valid properties to query for the switch "--query-gpu=":\n']
    for field in fields:
        names = " or ".join(f'"{name}"' for name in (field.name, *field.aliases))
        lines.append(f"\n{names}\n    As reported by the simulated driver.\n")
    return "".join(lines)
