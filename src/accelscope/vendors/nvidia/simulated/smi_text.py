"""Texts of nvidia-smi other than the queries: pmon, -L, compute applications, --version, help."""

from collections.abc import Iterable, Iterator, Sequence

from accelscope.simulate.spec import ProcessType
from accelscope.vendors.nvidia.simulated.readings import GpuReading, ProcessReading
from accelscope.vendors.nvidia.simulated.smi_query import NOT_AVAILABLE, QueryField, mib
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

_ENGINES_FROM = 545  # the driver whose pmon has jpg and ofa, and wider columns
_PROTECTED_FROM = 535  # and the one that brought ccpm
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
        "enc": process.encoder or None,  # an engine that a process does not use has no sample
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
    """Lines as of the GPU query, with a cell per process; the first says on which GPU each one is."""
    apps = [
        (reading, process)
        for reading in readings
        if reading.fault not in ("lost", "reset_required")
        for process in reading.processes
        if process.placement.type is not ProcessType.GRAPHICS
    ]

    def row(name: str, header: str, unit: str, cells: Iterable[object | None]) -> str:
        shown = (NOT_AVAILABLE if cell is None else str(cell) for cell in cells)
        return "\t".join((name, header, unit, *shown))

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
        held = (process.memory_bytes for _, process in apps)
        cells = (None if size is None else mib(size) for size in held)
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
        lines.append(f"\n{names}\n    As this simulated driver shows it.\n")
    return "".join(lines)
