"""The state file of the simulated nvidia-smi: all its outputs as named sections, and its XML elements.

A section begins with a line `@@ name`. The tool prints the requested columns and rows of a section.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from xml.sax.saxutils import escape

from accelscope.simulate.faults import Fault, FaultKind
from accelscope.vendors.nvidia.simulated import smi_query
from accelscope.vendors.nvidia.simulated.gpu import GpuReading
from accelscope.vendors.nvidia.simulated.smi_query import mib, watts
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

# The XML of `nvidia-smi -q -x`. A node is a name and either a text (None: N/A) or child nodes.
Node = tuple[str, "object | list[Node] | None"]

# Driver versions that changed the layout
_NEW_POWER_FROM = 570  # average and instant draw instead of one
_GPU_POWER_FROM = 535  # gpu_power_readings instead of power_readings
_RESERVED_FROM = 510
_NEW_DTD_FROM = 590


def head(spec: NvidiaSpec, count: int, timestamp: str) -> str:
    dtd = 13 if spec.driver_major >= _NEW_DTD_FROM else 12
    return (
        '<?xml version="1.0" ?>\n'
        f'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{dtd}.dtd">\n'
        "<nvidia_smi_log>\n"
        f"\t<timestamp>{timestamp}</timestamp>\n"
        f"\t<driver_version>{spec.driver_version}</driver_version>\n"
        f"\t<cuda_version>{spec.cuda_version}</cuda_version>\n"
        f"\t<attached_gpus>{count}</attached_gpus>\n"
    )


def gpu_element(spec: NvidiaSpec, reading: GpuReading) -> str:
    children = "".join(_render(node, depth=2) for node in _gpu(spec, reading))
    return f'\t<gpu id="{reading.gpu.bus_id}">\n{children}\t</gpu>\n'


def _render(node: Node, depth: int) -> str:
    name, content = node
    indent = "\t" * depth
    if isinstance(content, list):
        children = "".join(_render(child, depth + 1) for child in content)
        return f"{indent}<{name}>\n{children}{indent}</{name}>\n"
    text = "N/A" if content is None else escape(str(content))
    return f"{indent}<{name}>{text}</{name}>\n"


def _unit(value: object | None, unit: str) -> str | None:
    return None if value is None else f"{value} {unit}"


def _gpu(spec: NvidiaSpec, reading: GpuReading) -> Iterator[Node]:
    gpu, card = reading.gpu, reading.gpu.card
    mode = ("Enabled" if gpu.partitioned else "Disabled") if card.mig_profiles else None
    yield "product_name", card.name
    yield "product_brand", card.brand_name
    yield "product_architecture", card.architecture_name
    yield "persistence_mode", "Disabled" if card.display else "Enabled"
    yield "mig_mode", [("current_mig", mode), ("pending_mig", mode)]
    yield "mig_devices", _mig_devices(spec, reading) or "\n\t\t\tNone\n\t\t"
    yield "serial", gpu.serial
    yield "uuid", gpu.uuid
    yield "minor_number", gpu.slot
    yield "vbios_version", card.vbios
    yield "board_id", f"0x{gpu.bus << 8:x}"
    yield "pci", _pci(reading)
    yield "fan_speed", _unit(reading.fan_percent, "%")
    yield "performance_state", f"P{reading.pstate}"
    yield (
        "fb_memory_usage",
        _memory(spec, reading.memory_total_bytes, reading.memory_reserved_bytes, reading.memory_used_bytes),
    )
    yield "bar1_memory_usage", _bar1(card.bar1_mib << 20, reading.bar1_used_bytes)
    yield "compute_mode", "Default"
    yield "utilization", _utilization(reading)
    yield "ecc_mode", [(f"{when}_ecc", "Enabled" if card.ecc else None) for when in ("current", "pending")]
    yield "ecc_errors", _ecc(reading)
    yield "remapped_rows", _remapped(reading)
    yield "temperature", _temperature(reading)
    yield _power(spec, reading)
    yield "clocks", _clocks(reading.sm_clock_mhz, reading.memory_clock_mhz, reading.video_clock_mhz)
    yield "max_clocks", _clocks(card.clocks.max_sm, card.clocks.max_memory, card.clocks.max_video)
    yield "processes", _processes(reading)


def _pci(reading: GpuReading) -> list[Node]:
    card = reading.gpu.card
    return [
        ("pci_bus", f"{reading.gpu.bus:02X}"),
        ("pci_device", "00"),
        ("pci_domain", "0000"),
        ("pci_device_id", f"{card.pci_device_id:08X}"),
        ("pci_bus_id", reading.gpu.bus_id),
        ("pci_sub_system_id", f"{card.pci_subsystem_id:08X}"),
        (
            "pci_gpu_link_info",
            [
                (
                    "pcie_gen",
                    [
                        ("max_link_gen", card.pcie_generation),
                        ("current_link_gen", reading.pcie_generation),
                    ],
                ),
                (
                    "link_widths",
                    [
                        ("max_link_width", f"{card.pcie_width}x"),
                        ("current_link_width", f"{card.pcie_width}x"),
                    ],
                ),
            ],
        ),
        ("replay_counter", reading.pcie_replays),
        ("tx_util", f"{reading.pcie_transmit_kb_per_second} KB/s"),
        ("rx_util", f"{reading.pcie_receive_kb_per_second} KB/s"),
    ]


def _memory(spec: NvidiaSpec, total: int, reserved: int, used: int) -> list[Node]:
    elements: list[Node] = [("total", f"{mib(total)} MiB")]
    if spec.driver_major >= _RESERVED_FROM:
        elements.append(("reserved", f"{mib(reserved)} MiB"))
    free = total - reserved - used
    return [*elements, ("used", f"{mib(used)} MiB"), ("free", f"{mib(free)} MiB")]


def _bar1(total: int, used: int) -> list[Node]:
    return [
        ("total", f"{mib(total)} MiB"),
        ("used", f"{mib(used)} MiB"),
        ("free", f"{mib(total - used)} MiB"),
    ]


def _utilization(reading: GpuReading) -> list[Node]:
    values = {
        "gpu_util": reading.utilization_percent,
        "memory_util": reading.memory_utilization_percent,
        "encoder_util": reading.encoder_percent,
        "decoder_util": reading.decoder_percent,
        "jpeg_util": 0,
        "ofa_util": 0,
    }
    hidden = reading.gpu.partitioned
    return [(name, None if hidden else f"{value} %") for name, value in values.items()]


def _ecc(reading: GpuReading) -> list[Node]:
    ecc = reading.ecc

    def counts(counter: str) -> list[Node]:
        sram = None if ecc is None else 0
        corrected, uncorrected = (
            None if ecc is None else getattr(ecc, f"{counter}_{error}")
            for error in ("corrected", "uncorrected")
        )
        return [
            ("sram_correctable", sram),
            ("sram_uncorrectable_parity", sram),
            ("sram_uncorrectable_secded", sram),
            ("dram_correctable", corrected),
            ("dram_uncorrectable", uncorrected),
        ]

    return [(counter, counts(counter)) for counter in ("volatile", "aggregate")]


def _remapped(reading: GpuReading) -> object | None:
    remapping = reading.remapping
    if remapping is None:
        return None
    return [
        ("remapped_row_corr", remapping.correctable),
        ("remapped_row_unc", remapping.uncorrectable),
        ("remapped_row_pending", "Yes" if remapping.pending else "No"),
        ("remapped_row_failure", "Yes" if remapping.failed else "No"),
    ]


def _temperature(reading: GpuReading) -> list[Node]:
    """Cards with margins have no limits in degrees."""
    limits, now = reading.gpu.card.temperature, reading.temperature_celsius
    memory = ("memory_temp", _unit(reading.memory_temperature_celsius, "C"))
    if reading.gpu.card.has_temperature_margins:
        return [
            ("gpu_temp", f"{now} C"),
            ("gpu_temp_tlimit", f"{limits.gpu_max - now} C"),
            ("gpu_temp_max_tlimit_threshold", f"{limits.gpu_max - limits.shutdown} C"),
            ("gpu_temp_slow_tlimit_threshold", f"{limits.gpu_max - limits.slowdown} C"),
            ("gpu_temp_max_gpu_tlimit_threshold", "0 C"),
            memory,
            ("gpu_temp_max_mem_tlimit_threshold", "N/A" if limits.memory_max is None else "0 C"),
        ]
    return [
        ("gpu_temp", f"{now} C"),
        ("gpu_temp_tlimit", "N/A"),
        ("gpu_temp_max_threshold", f"{limits.shutdown} C"),
        ("gpu_temp_slow_threshold", f"{limits.slowdown} C"),
        ("gpu_temp_max_gpu_threshold", f"{limits.gpu_max} C"),
        memory,
        ("gpu_temp_max_mem_threshold", _unit(limits.memory_max, "C")),
    ]


def _power(spec: NvidiaSpec, reading: GpuReading) -> Node:
    power = reading.gpu.card.power
    limit = f"{reading.gpu.spec.power_limit_watts:.2f} W"
    average = f"{watts(reading.power_average_milliwatts)} W"
    draw: list[Node] = [("power_draw", average)]
    if spec.driver_major >= _NEW_POWER_FROM:
        instant = f"{watts(reading.power_instant_milliwatts)} W"
        draw = [("average_power_draw", average), ("instant_power_draw", instant)]
    new = spec.driver_major >= _GPU_POWER_FROM
    return (
        "gpu_power_readings" if new else "power_readings",
        [
            ("power_state", f"P{reading.pstate}"),
            *draw,
            ("current_power_limit" if new else "power_limit", limit),
            ("default_power_limit", f"{power.default_watts:.2f} W"),
            ("min_power_limit", f"{power.min_watts:.2f} W"),
            ("max_power_limit", f"{power.max_watts:.2f} W"),
        ],
    )


def _clocks(sm: int, memory: int, video: int) -> list[Node]:
    return [
        ("graphics_clock", f"{sm} MHz"),
        ("sm_clock", f"{sm} MHz"),
        ("mem_clock", f"{memory} MHz"),
        ("video_clock", f"{video} MHz"),
    ]


def _mig_devices(spec: NvidiaSpec, reading: GpuReading) -> list[Node]:
    return [
        (
            "mig_device",
            [
                ("index", mig.part.index),
                ("gpu_instance_id", mig.part.gpu_instance_id),
                ("compute_instance_id", mig.part.compute_instance_id),
                (
                    "device_attributes",
                    [
                        (
                            "shared",
                            [
                                ("multiprocessor_count", mig.part.multiprocessors),
                                ("copy_engine_count", mig.part.profile.copy_engines),
                                ("encoder_count", 0),
                                ("decoder_count", mig.part.profile.decoders),
                            ],
                        )
                    ],
                ),
                ("fb_memory_usage", _memory(spec, mig.memory_total_bytes, 0, mig.memory_used_bytes)),
                ("bar1_memory_usage", _bar1(mig.bar1_total_bytes, 0)),
            ],
        )
        for mig in reading.mig
    ]


def _processes(reading: GpuReading) -> list[Node]:
    return [
        (
            "process_info",
            [
                ("gpu_instance_id", process.gpu_instance_id),
                ("compute_instance_id", process.compute_instance_id),
                ("pid", process.pid),
                ("type", process.placement.type),
                ("process_name", process.path),
                (
                    "used_memory",
                    _unit(None if process.memory_bytes is None else mib(process.memory_bytes), "MiB"),
                ),
            ],
        )
        for process in reading.processes
    ]


class ToolError(StrEnum):
    """Errors that nvidia-smi prints instead of an output."""

    NO_DEVICES = "no_devices"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    VERSION_MISMATCH = "version_mismatch"
    UNKNOWN_ERROR = "unknown_error"
    NO_PERMISSION = "no_permission"
    LIBRARY_MISSING = "library_missing"
    NOT_SUPPORTED = "not_supported"


# The exit code is the return code of the library.
TOOL_ERRORS: dict[ToolError, tuple[int, str]] = {
    ToolError.NO_DEVICES: (6, "No devices were found"),
    ToolError.DRIVER_NOT_LOADED: (
        9,
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.",
    ),
    ToolError.VERSION_MISMATCH: (18, "Failed to initialize NVML: Driver/library version mismatch"),
    ToolError.UNKNOWN_ERROR: (255, "Failed to initialize NVML: Unknown Error"),
    ToolError.NO_PERMISSION: (4, "Failed to initialize NVML: Insufficient Permissions"),
    ToolError.LIBRARY_MISSING: (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system."),
    ToolError.NOT_SUPPORTED: (3, "Not supported on the device(s)"),
}
_DRIVER_ERRORS = {
    FaultKind.DRIVER_NOT_LOADED: ToolError.DRIVER_NOT_LOADED,
    FaultKind.VERSION_MISMATCH: ToolError.VERSION_MISMATCH,
    FaultKind.LIBRARY_MISSING: ToolError.LIBRARY_MISSING,
}
_WORDS = {
    FaultKind.LIBRARY_HANG: "hang",
    FaultKind.TOOL_HANG: "hang",
    FaultKind.TOOL_GARBAGE: "garbage",
    FaultKind.TOOL_TRUNCATED: "truncated",
    FaultKind.TOOL_NON_UTF8: "non_utf8",
    FaultKind.TOOL_KILLED: "killed",
}


def render(spec: NvidiaSpec, readings: Sequence[GpuReading], faults: Iterable[Fault], moment: float) -> str:
    """`faults` are the active ones; `moment` is the wall-clock time for timestamps."""
    return "".join(f"@@ {name}\n{text}" for name, text in _sections(spec, readings, faults, moment))


def _sections(
    spec: NvidiaSpec, readings: Sequence[GpuReading], faults: Iterable[Fault], moment: float
) -> Iterator[tuple[str, str]]:
    enumerated = tuple(reading for reading in readings if reading.index is not None)
    moment_utc = time.gmtime(moment)
    timestamp = time.strftime("%Y/%m/%d %H:%M:%S.000", moment_utc)
    fields = smi_query.query_fields(spec, len(enumerated), timestamp)
    yield "fault", "".join(f"{line}\n" for line in _fault_lines(faults, any_device=bool(enumerated)))
    yield "cost", f"{spec.tool.cpu_milliseconds} {spec.tool.memory_mib}\n"
    yield "gpus", "".join(_gpu_line(reading) for reading in enumerated)
    yield "query-gpu", "\n".join(smi_query.rows(fields, enumerated)) + "\n"
    yield "query-compute-apps", "\n".join(smi_query.compute_apps(enumerated, timestamp)) + "\n"
    for selection in ("u", "m", "um"):
        yield f"pmon {selection}", smi_query.pmon(spec, enumerated, selection)
    yield "version", smi_query.version(spec)
    yield "help-query-gpu", smi_query.help_query_gpu(fields)
    yield "xml", head(spec, len(enumerated), time.strftime("%a %b %e %H:%M:%S %Y", moment_utc))
    for reading in enumerated:
        yield f"list {reading.index}", smi_query.device_list(reading)
        yield f"xml {reading.index}", gpu_element(spec, reading)


def _fault_lines(faults: Iterable[Fault], *, any_device: bool) -> Iterator[str]:
    for fault in faults:
        error = ToolError(fault.error) if fault.error else _DRIVER_ERRORS.get(fault.kind)
        if word := _WORDS.get(fault.kind):
            yield word
        elif error is not None:
            yield _error_line(error)
    if not any_device:
        yield _error_line(ToolError.NO_DEVICES)


def _error_line(error: ToolError) -> str:
    code, text = TOOL_ERRORS[error]
    return f"error {code} {text}"


def _gpu_line(reading: GpuReading) -> str:
    gpu = reading.gpu
    parts = (str(reading.index), gpu.uuid, gpu.bus_id, gpu.serial or "-", reading.fault or "-")
    return "\t".join(parts) + "\n"
