"""The simulated AMD driver of a node: its files, and the output of its tools."""

from collections.abc import Hashable, Iterator

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.folder import Content, Folder
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.vendor import (
    InstalledPart,
    SimulatedHost,
    SimulatedVendor,
    SimulationTime,
    Tool,
    ToolAnswer,
)
from accelscope.vendors.amd.simulated import kernel_files, kfd, tools
from accelscope.vendors.amd.simulated.gpu import THROTTLE_CAUSES, GpuDynamics, GpuReading, gpus_of
from accelscope.vendors.amd.simulated.spec import TOOLS, AmdSpec, read_section

# Errors of the tools. rocm-smi exits with 0 for most of them.

_TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/rocm/bin/amd-smi", line 40, in <module>\n'
    "    from amdsmi_init import *\n"
    "ModuleNotFoundError: No module named 'amdsmi'\n"
)

AMD_SMI_ERRORS = {
    "driver_not_loaded": ToolAnswer(
        error_text="ERROR: Driver not loaded (amdgpu not found in modules)\n", exit_code=250
    ),
    "no_devices": ToolAnswer(error_text="ERROR: Unable to detect any GPU devices\n", exit_code=253),
    "no_permission": ToolAnswer(
        text="WARNING: User is missing the following required groups: render, video. Please add user to "
        "these groups.\n",
        error_text="AMDSMI_STATUS_NO_PERM - Permission Denied\n",
        exit_code=246,
    ),
    "library_missing": ToolAnswer(error_text=_TRACEBACK, exit_code=1),
}
ROCM_SMI_ERRORS = {
    "driver_not_loaded": ToolAnswer(
        error_text="ERROR:root:Driver not initialized (amdgpu not found in modules)\n"
    ),
    "no_devices": ToolAnswer(text="WARNING: No JSON data to report\n"),
    "no_permission": ToolAnswer(error_text="ERROR: Permission denied\n"),
    "library_missing": ToolAnswer(
        error_text="librocm_smi64.so: cannot open shared object file: No such file or directory\n",
        exit_code=1,
    ),
}


class AmdDriver:
    def __init__(self, spec: AmdSpec, site: SimulatedHost) -> None:
        self._spec = spec
        self._gpus = gpus_of(spec, site)
        self._dynamics = tuple(GpuDynamics(gpu, self._gpus, site.placements) for gpu in self._gpus)
        costs = {"amd-smi": spec.amd_smi, "rocm-smi": spec.rocm_smi}
        errors = {"amd-smi": AMD_SMI_ERRORS, "rocm-smi": ROCM_SMI_ERRORS}
        self._tools = tuple(Tool(name=name, cost=costs[name], errors=errors[name]) for name in spec.tools)

    @property
    def native_parts(self) -> tuple[InstalledPart, ...]:
        return tuple(tool.installed for tool in self._tools)

    def readings(self, instant: SimulationTime) -> tuple[GpuReading, ...]:
        result, index = [], 0
        for slot, gpu in enumerate(self._dynamics):
            own = instant.faults.of_device(slot)
            vanished = any(fault.kind is FaultKind.VANISHED and fault.active(instant.at) for fault in own)
            result.append(gpu.reading(instant.at, own, None if vanished else index))
            index += not vanished
        return tuple(result)

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:  # noqa: ARG002
        """The id of the first partition is the address of the GPU, the others have their platform device."""
        gpu = self._gpus[device]
        name = gpu.platform_devices[instance - 1].name if instance else gpu.address
        return PluginDevice("amd.com/gpu", name, gpu.numa_node)

    def files(self, instant: SimulationTime) -> Iterator[tuple[str, Content]]:
        listed = tuple(reading for reading in self.readings(instant) if reading.index is not None)
        loaded = all(fault.kind is not FaultKind.DRIVER_NOT_LOADED for fault in instant.active)
        yield "sys/class/drm/version", "drm 1.1.0 20060810\n"
        if self._gpus and self._gpus[0].has_bmc_display:
            yield from kernel_files.display_files(self._gpus[0])
        for reading in listed:
            yield from kernel_files.pci_files(reading.gpu, bound=loaded)
        if loaded:
            yield from self._driver_files(listed)
        for tool in self._tools:
            yield tool.state_file(self._tool_answers(tool.name, listed, loaded=loaded), instant.active)

    def _driver_files(self, listed: tuple[GpuReading, ...]) -> Iterator[tuple[str, Content]]:
        spec = self._spec
        if not listed:
            yield "sys/bus/pci/drivers/amdgpu", Folder()
        yield "sys/module/amdgpu/refcnt", "12\n"
        yield "sys/module/amdgpu/initstate", "live\n"
        if spec.driver_version is not None:
            yield "sys/module/amdgpu/version", f"{spec.driver_version}\n"
        else:
            yield "proc/sys/kernel/osrelease", f"{spec.kernel_release}\n"
        yield "dev/kfd", ""
        for reading in listed:
            yield from kernel_files.device_files(spec, reading)
        yield from kernel_files.hive_files(listed)
        yield from kfd.topology_files(listed)
        yield from kfd.compute_files(listed)
        yield from kernel_files.open_files(listed)

    def _tool_answers(
        self, tool: str, listed: tuple[GpuReading, ...], *, loaded: bool
    ) -> Iterator[ToolAnswer]:
        errors = AMD_SMI_ERRORS if tool == "amd-smi" else ROCM_SMI_ERRORS
        if not loaded:
            yield errors["driver_not_loaded"]
        elif not listed:
            yield errors["no_devices"]
        elif any(reading.fault == FaultKind.HANG for reading in listed):
            yield ToolAnswer(hangs=True)
        if tool == "amd-smi":
            gpus = tools.logical_gpus(listed)
            yield ToolAnswer(patterns=("version*",), text=tools.version(self._spec))
            yield ToolAnswer(patterns=("list*--json*",), text=tools.listing(self._spec, gpus))
            yield ToolAnswer(patterns=("static*--json*",), text=tools.static(self._spec, gpus))
            yield ToolAnswer(patterns=("metric*--json*",), text=tools.metric(self._spec, gpus))
            yield ToolAnswer(patterns=("process*--json*",), text=tools.process(gpus))
            yield ToolAnswer(patterns=("xgmi*--json*",), text=tools.links(gpus))
            yield ToolAnswer(patterns=("monitor*",), text=tools.monitor(self._spec, gpus))
        else:
            yield ToolAnswer(patterns=("*--json*",), text=tools.rocm_smi_json(self._spec, listed))


VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=AmdDriver,
    faults=PossibleFaults(
        kinds=frozenset(
            {
                FaultKind.LOST,
                FaultKind.VANISHED,
                FaultKind.HANG,
                FaultKind.HOT,
                FaultKind.THROTTLED,
                FaultKind.ECC_STORM,
                FaultKind.RESET,
                FaultKind.DRIVER_RELOAD,
                FaultKind.REBOOT,
                FaultKind.DRIVER_NOT_LOADED,
                *TOOL_FAULTS,
            }
        ),
        errors=tuple(AMD_SMI_ERRORS),
        causes=THROTTLE_CAUSES,
        tools=TOOLS,
    ),
    module="amdgpu",
    settings={"amd_smi_path": "bin/amd-smi", "rocm_smi_path": "bin/rocm-smi"},
    node_labels={"feature.node.kubernetes.io/amd-gpu": "true"},
)
