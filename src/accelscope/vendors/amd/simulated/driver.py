"""The simulated AMD driver of a node: its files, and what its tools say."""

from collections.abc import Hashable, Iterator

from accelscope.simulate.faults import FaultKind
from accelscope.simulate.folder import Content, Folder
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.tool import Answer, Tool
from accelscope.simulate.vendor import InstalledPart, Instant, Site
from accelscope.vendors.amd.simulated import amd_smi, kernel_files, process_files, rocm_smi
from accelscope.vendors.amd.simulated.dynamics import GpuDynamics
from accelscope.vendors.amd.simulated.gpu import gpus_of
from accelscope.vendors.amd.simulated.readings import GpuReading
from accelscope.vendors.amd.simulated.spec import AmdSpec
from accelscope.vendors.amd.simulated.tool_errors import AMD_SMI_ERRORS, ROCM_SMI_ERRORS

_SERVERS_DISPLAY = "0x1a03"  # ASPEED: what servers draw their own screen with


class AmdDriver:
    def __init__(self, spec: AmdSpec, site: Site) -> None:
        self._spec = spec
        self._gpus = gpus_of(spec, site)
        self._dynamics = tuple(
            GpuDynamics(gpu, [die for die in self._gpus if die.module == gpu.module], site.placements)
            for gpu in self._gpus
        )
        costs = {"amd-smi": spec.amd_smi, "rocm-smi": spec.rocm_smi}
        errors = {"amd-smi": AMD_SMI_ERRORS, "rocm-smi": ROCM_SMI_ERRORS}
        self._tools = tuple(Tool(name=name, cost=costs[name], errors=errors[name]) for name in spec.tools)

    @property
    def native_parts(self) -> tuple[InstalledPart, ...]:
        return tuple(tool.installed for tool in self._tools)

    def readings(self, instant: Instant) -> tuple[GpuReading, ...]:
        result, index = [], 0
        for slot, gpu in enumerate(self._dynamics):
            own = instant.faults.of_device(slot)
            vanished = any(fault.kind is FaultKind.VANISHED and fault.active(instant.at) for fault in own)
            result.append(gpu.reading(instant.at, own, None if vanished else index))
            index += not vanished
        return tuple(result)

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:  # noqa: ARG002
        """The first partition of a GPU goes by its address, the others by the kernel's names for them."""
        gpu = self._gpus[device]
        name = gpu.platform_devices[instance - 1].name if instance else gpu.address
        return PluginDevice("amd.com/gpu", name, gpu.numa_node)

    def files(self, instant: Instant) -> Iterator[tuple[str, Content]]:
        shown = tuple(reading for reading in self.readings(instant) if reading.index is not None)
        loaded = all(fault.kind is not FaultKind.DRIVER_NOT_LOADED for fault in instant.active)
        yield "sys/class/drm/version", "drm 1.1.0 20060810\n"
        if any(gpu.servers_display for gpu in self._gpus):
            yield "sys/class/drm/card0/device/vendor", f"{_SERVERS_DISPLAY}\n"
        for reading in shown:
            yield from kernel_files.pci_files(reading.gpu, held=loaded)
        if loaded:
            yield from self._driver_files(shown)
        for tool in self._tools:
            yield tool.state_file(self._answers(tool.name, shown, loaded=loaded), instant.active)

    def _driver_files(self, shown: tuple[GpuReading, ...]) -> Iterator[tuple[str, Content]]:
        spec = self._spec
        yield "sys/bus/pci/drivers/amdgpu", Folder()
        yield "sys/module/amdgpu/refcnt", "12\n"
        if spec.driver_version is not None:
            yield "sys/module/amdgpu/version", f"{spec.driver_version}\n"
        else:
            yield "proc/sys/kernel/osrelease", f"{spec.kernel_release}\n"
        yield "dev/kfd", ""
        for reading in shown:
            yield from kernel_files.device_files(reading, repeats_power=spec.rocm < (6, 0))
        yield from process_files.topology_files(shown)
        yield from process_files.compute_files(shown)
        yield from process_files.open_files(shown)

    def _answers(self, tool: str, shown: tuple[GpuReading, ...], *, loaded: bool) -> Iterator[Answer]:
        errors = AMD_SMI_ERRORS if tool == "amd-smi" else ROCM_SMI_ERRORS
        if not loaded:
            yield errors["driver_not_loaded"]
        elif not shown:
            yield errors["no_devices"]
        elif any(reading.fault == FaultKind.HANG for reading in shown):
            yield Answer(hangs=True)
        if tool == "amd-smi":
            gpus = amd_smi.logical_gpus(shown)
            yield Answer(patterns=("version*",), text=amd_smi.version(self._spec))
            yield Answer(patterns=("list*--json*",), text=amd_smi.listing(self._spec, gpus))
            yield Answer(patterns=("static*--json*",), text=amd_smi.static(self._spec, gpus))
            yield Answer(patterns=("metric*--json*",), text=amd_smi.metric(self._spec, gpus))
            yield Answer(patterns=("process*--json*",), text=amd_smi.process(gpus))
            yield Answer(patterns=("xgmi*--json*",), text=amd_smi.links(gpus))
            yield Answer(patterns=("monitor*",), text=amd_smi.monitor(self._spec, gpus))
        else:
            yield Answer(patterns=("*--json*",), text=rocm_smi.everything(self._spec, shown))
