"""Everything that the simulated nvidia-smi may be asked for, as one text of named sections.

A section begins with a line `@@ name`. The tool picks the columns and rows it was asked for and prints them.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from accelscope.simulate.faults import Fault, FaultKind
from accelscope.vendors.nvidia.simulated import smi_query, smi_text, smi_xml
from accelscope.vendors.nvidia.simulated.readings import GpuReading
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec


class ToolError(StrEnum):
    """Errors that nvidia-smi prints by itself."""

    NO_DEVICES = "no_devices"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    VERSION_MISMATCH = "version_mismatch"
    UNKNOWN_ERROR = "unknown_error"
    NO_PERMISSION = "no_permission"
    LIBRARY_MISSING = "library_missing"
    NOT_SUPPORTED = "not_supported"


# Exit codes are the library's result codes.
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
    """`faults` are the active ones; `moment` is the wall-clock time that the texts show."""
    return "".join(f"@@ {name}\n{text}" for name, text in _sections(spec, readings, faults, moment))


def _sections(
    spec: NvidiaSpec, readings: Sequence[GpuReading], faults: Iterable[Fault], moment: float
) -> Iterator[tuple[str, str]]:
    shown = tuple(reading for reading in readings if reading.index is not None)
    moment_utc = time.gmtime(moment)
    timestamp = time.strftime("%Y/%m/%d %H:%M:%S.000", moment_utc)
    fields = smi_query.query_fields(spec, len(shown), timestamp)
    yield "fault", "".join(f"{line}\n" for line in _fault_lines(faults, any_device=bool(shown)))
    yield "cost", f"{spec.tool.cpu_milliseconds} {spec.tool.memory_mib}\n"
    yield "gpus", "".join(_gpu_line(reading) for reading in shown)
    yield "query-gpu", "\n".join(smi_query.rows(fields, shown)) + "\n"
    yield "query-compute-apps", "\n".join(smi_text.compute_apps(shown, timestamp)) + "\n"
    for selection in ("u", "m", "um"):
        yield f"pmon {selection}", smi_text.pmon(spec, shown, selection)
    yield "version", smi_text.version(spec)
    yield "help-query-gpu", smi_text.help_query_gpu(fields)
    yield "xml", smi_xml.head(spec, len(shown), time.strftime("%a %b %e %H:%M:%S %Y", moment_utc))
    for reading in shown:
        yield f"list {reading.index}", smi_text.device_list(reading)
        yield f"xml {reading.index}", smi_xml.gpu_element(spec, reading)


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
