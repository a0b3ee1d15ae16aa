"""The simulated NVIDIA driver of a node: its native parts, and all files that show what it does."""

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

from accelscope.simulate.compiler import NativePart
from accelscope.simulate.faults import FaultKind
from accelscope.simulate.folder import Content
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.vendor import InstalledPart, Instant, Site
from accelscope.vendors.nvidia.simulated import nvml_state, smi_state
from accelscope.vendors.nvidia.simulated.dynamics import GpuDynamics
from accelscope.vendors.nvidia.simulated.gpu import gpus_of
from accelscope.vendors.nvidia.simulated.readings import GpuReading
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

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

    def __init__(self, spec: NvidiaSpec, site: Site) -> None:
        self._spec = spec
        self._cards = gpus_of(spec, site.seed)
        self._gpus = tuple(GpuDynamics(gpu, site.placements) for gpu in self._cards)

    def readings(self, instant: Instant) -> tuple[GpuReading, ...]:
        result, index = [], 0
        for slot, gpu in enumerate(self._gpus):
            own = instant.faults.of_device(slot)
            vanished = any(fault.kind is FaultKind.VANISHED and fault.active(instant.at) for fault in own)
            result.append(gpu.reading(instant.at, own, None if vanished else index))
            index += not vanished
        return tuple(result)

    def files(self, instant: Instant) -> Iterator[tuple[str, Content]]:
        readings = self.readings(instant)
        active = instant.active
        if not any(fault.kind is FaultKind.DRIVER_NOT_LOADED for fault in active):
            yield from self._kernel_files(readings)
        yield "state/smi", smi_state.render(self._spec, readings, active, instant.wall_clock)
        yield "state/nvml", nvml_state.render(self._spec, readings, active, instant.at)

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:  # noqa: ARG002
        """With the strategy that gives each MIG profile a resource of its own."""
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
