"""The simulated NVIDIA driver of a node: its native parts, its files, and its driver pod."""

import time
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.folder import Content
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.vendor import (
    CommandOutput,
    DriverPod,
    InstalledPart,
    NativePart,
    SimulatedHost,
    SimulatedVendor,
    SimulationTime,
)
from accelscope.vendors.nvidia.simulated import nvml_state, smi_state
from accelscope.vendors.nvidia.simulated.gpu import GpuDynamics, GpuReading, create_gpus
from accelscope.vendors.nvidia.simulated.smi_query import QueryField, pmon, query_fields
from accelscope.vendors.nvidia.simulated.smi_state import ToolError
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec, read_section

_NATIVE = Path(__file__).parent / "native"
LIBRARY = NativePart(
    name="libnvidia-ml.so.1",
    folder=_NATIVE,
    sources=("state.c", *sorted(path.name for path in _NATIVE.glob("nvml_*.c"))),
    headers=("state.h", "nvml_types.h"),
    soname="libnvidia-ml.so.1",
)
TOOL = NativePart(name="nvidia-smi", folder=_NATIVE, sources=("nvidia_smi.c",))


class NvidiaDriver:
    native_parts = (
        InstalledPart(LIBRARY, "lib/libnvidia-ml.so.1", FaultKind.LIBRARY_MISSING),
        InstalledPart(TOOL, "bin/nvidia-smi", FaultKind.TOOL_MISSING),
    )

    def __init__(self, spec: NvidiaSpec, site: SimulatedHost) -> None:
        self._spec = spec
        self._cards = create_gpus(spec, site.seed)
        self._gpus = tuple(GpuDynamics(gpu, site.placements) for gpu in self._cards)

    def readings(self, instant: SimulationTime) -> tuple[GpuReading, ...]:
        result, index = [], 0
        for slot, gpu in enumerate(self._gpus):
            faults = instant.faults.of_device(slot)
            vanished = any(fault.kind is FaultKind.VANISHED and fault.active(instant.at) for fault in faults)
            result.append(gpu.reading(instant.at, faults, None if vanished else index))
            index += not vanished
        return tuple(result)

    def files(self, instant: SimulationTime) -> Iterator[tuple[str, Content]]:
        readings = self.readings(instant)
        active = instant.active
        if not any(fault.kind is FaultKind.DRIVER_NOT_LOADED for fault in active):
            yield from self._kernel_files(readings)
        yield "state/smi", smi_state.render(self._spec, readings, active, instant.wall_clock)
        yield "state/nvml", nvml_state.render(self._spec, readings, active, instant.at)

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:  # noqa: ARG002
        """With the MIG strategy `mixed`, which has one resource per profile."""
        gpu = self._cards[device]
        if instance is None:
            return PluginDevice("nvidia.com/gpu", gpu.uuid, gpu.numa_node, shareable=True, hami_type="NVIDIA")
        part = gpu.mig[instance]
        resource = f"nvidia.com/mig-{part.name}"
        return PluginDevice(resource, gpu.mig_uuid(part), gpu.numa_node, shareable=True, hami_type="NVIDIA")

    def _kernel_files(self, readings: Sequence[GpuReading]) -> Iterator[tuple[str, str]]:
        version = self._spec.driver_version
        yield "sys/module/nvidia/version", f"{version}\n"
        yield "proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}\n"
        for name in ("nvidiactl", "nvidia-uvm"):
            yield f"dev/{name}", ""
        for reading in readings:
            if reading.index is None:
                continue
            gpu = reading.gpu
            address = f"0000:{gpu.bus:02x}:00.0"
            pci = f"sys/bus/pci/devices/{address}"
            yield f"dev/nvidia{gpu.slot}", ""
            yield f"{pci}/vendor", "0x10de\n"
            yield f"{pci}/device", f"0x{gpu.card.pci_device_id >> 16:04x}\n"
            yield f"{pci}/class", f"0x{gpu.card.pci_class:04x}00\n"
            yield f"{pci}/numa_node", f"{gpu.numa_node}\n"
            yield (
                f"proc/driver/nvidia/gpus/{address}/information",
                f"Model: \t\t {gpu.card.name}\nGPU UUID: \t {gpu.uuid}\nDevice Minor: \t {gpu.slot}\n",
            )


# The driver pod of the GPU Operator, with the outputs of nvidia-smi

_NOT_FOUND = 127
_BAD_QUERY = 2


def _run(spec: Any, readings: tuple[Any, ...], command: Sequence[str]) -> CommandOutput:
    program, *arguments = command or ("",)
    if program.rpartition("/")[2] != "nvidia-smi":
        error = f'exec: "{program}": executable file not found in $PATH\n'
        return CommandOutput(stderr=error, exit_code=_NOT_FOUND)
    enumerated = tuple(reading for reading in readings if reading.index is not None)
    if arguments[:1] == ["pmon"]:
        selection = arguments[arguments.index("-s") + 1] if "-s" in arguments[:-1] else "u"
        return CommandOutput(pmon(spec, enumerated, selection))
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if "--query-gpu" in options:
        return _query(spec, enumerated, options["--query-gpu"], options.get("--format", ""))
    return CommandOutput("Invalid combination of input arguments.\n", exit_code=_BAD_QUERY)


def _query(spec: NvidiaSpec, enumerated: tuple[GpuReading, ...], names: str, form: str) -> CommandOutput:
    stamp = time.strftime("%Y/%m/%d %H:%M:%S.000", time.gmtime())
    known: dict[str, QueryField] = {}
    for field in query_fields(spec, len(enumerated), stamp):
        known |= dict.fromkeys((field.name, *field.aliases), field)
    queried = [name.strip() for name in names.split(",")]
    for name in queried:
        if name not in known:
            return CommandOutput(f'Field "{name}" is not a valid field to query.\n', exit_code=_BAD_QUERY)
    fields, words = [known[name] for name in queried], form.split(",")
    units = "nounits" not in words
    lines = [] if "noheader" in words else [", ".join(_headings(fields, units=units))]
    lines += [", ".join(_cells(fields, reading, units=units)) for reading in enumerated]
    return CommandOutput("".join(f"{line}\n" for line in lines))


def _headings(fields: Sequence[QueryField], *, units: bool) -> Iterator[str]:
    for field in fields:
        yield f"{field.name} [{field.unit}]" if units and field.unit else field.name


def _cells(fields: Sequence[QueryField], reading: GpuReading, *, units: bool) -> Iterator[str]:
    for field in fields:
        value = field.value(reading)
        bare = not field.unit or not units or value.startswith("[")
        yield value if bare else f"{value} {field.unit}"


DRIVER_POD = DriverPod(
    namespace="gpu-operator",
    daemon_set="nvidia-driver-daemonset",
    labels={
        "app": "nvidia-driver-daemonset",
        "app.kubernetes.io/component": "nvidia-driver",
        "nvidia.com/precompiled": "false",
    },
    container="nvidia-driver-ctr",
    image="nvcr.io/nvidia/driver:590.48.01-ubuntu24.04",
    run=_run,
)


VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=NvidiaDriver,
    faults=PossibleFaults(
        kinds=frozenset(
            {
                FaultKind.LOST,
                FaultKind.VANISHED,
                FaultKind.HANG,
                FaultKind.RESET_REQUIRED,
                FaultKind.HOT,
                FaultKind.ECC_STORM,
                FaultKind.RESET,
                FaultKind.DRIVER_RELOAD,
                FaultKind.REBOOT,
                FaultKind.XID,
                FaultKind.LIBRARY_HANG,
                FaultKind.LIBRARY_MISSING,
                FaultKind.DRIVER_NOT_LOADED,
                FaultKind.VERSION_MISMATCH,
                *TOOL_FAULTS,
            }
        ),
        codes={FaultKind.XID: range(1, 1000)},
        errors=tuple(ToolError),
        tools=("nvidia-smi",),
    ),
    settings={"nvml_library": "lib/libnvidia-ml.so.1", "nvidia_smi_path": "bin/nvidia-smi"},
    node_labels={"nvidia.com/gpu.present": "true"},
    module="nvidia",
    shares_devices=True,
    driver_pod=DRIVER_POD,
)
