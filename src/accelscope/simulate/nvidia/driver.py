"""The simulated NVIDIA driver of a node: its native parts, and all files that show what it does."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from accelscope.simulate.compiler import NativePart, built, cache_folder
from accelscope.simulate.faults import FaultKind, FaultLog
from accelscope.simulate.folder import write_bytes
from accelscope.simulate.nvidia import nvml_state, smi_state
from accelscope.simulate.nvidia.dynamics import GpuDynamics
from accelscope.simulate.nvidia.gpu import gpus_of
from accelscope.simulate.nvidia.readings import GpuReading
from accelscope.simulate.spec import NodeSpec
from accelscope.simulate.workload import Placement

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
    def __init__(
        self, spec: NodeSpec, folder: Path, placements: Sequence[Placement], cache: Path | None
    ) -> None:
        self._spec = spec.nvidia
        self._cache = cache or cache_folder()
        self._gpus = tuple(GpuDynamics(gpu, placements) for gpu in gpus_of(spec))
        self.library = folder / "lib" / LIBRARY.name
        self.tool = folder / "bin" / TOOL.name

    def build(self) -> None:
        """Raises CompileError."""
        for part, target in ((LIBRARY, self.library), (TOOL, self.tool)):
            _install(built(part, self._cache), target)

    def install(self, at: float, faults: FaultLog) -> None:
        """Take the library or the tool away, or put them back, as the faults of the moment say."""
        missing = {fault.kind for fault in faults.active(at)}
        parts = (
            (FaultKind.LIBRARY_MISSING, LIBRARY, self.library),
            (FaultKind.TOOL_MISSING, TOOL, self.tool),
        )
        for kind, part, target in parts:
            if kind in missing:
                target.unlink(missing_ok=True)
            elif not target.exists():
                _install(built(part, self._cache), target)

    def readings(self, at: float, faults: FaultLog) -> tuple[GpuReading, ...]:
        result, index = [], 0
        for slot, gpu in enumerate(self._gpus):
            own = faults.of_device(slot)
            vanished = any(fault.kind is FaultKind.VANISHED and fault.active(at) for fault in own)
            result.append(gpu.reading(at, own, None if vanished else index))
            index += not vanished
        return tuple(result)

    def files(self, at: float, moment: float, faults: FaultLog) -> Iterator[tuple[str, str]]:
        """Paths under the node's folder and their texts. `moment` is the wall-clock time shown."""
        readings = self.readings(at, faults)
        active = faults.active(at)
        if not any(fault.kind is FaultKind.DRIVER_NOT_LOADED for fault in active):
            yield from self._kernel_files(readings)
        yield "state/smi", smi_state.render(self._spec, readings, active, moment)
        yield "state/nvml", nvml_state.render(self._spec, readings, active, at)

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


def _install(source: Path, target: Path) -> None:
    """A copy, not a link: the library finds its state from where it lies, and the loader takes two links to
    one file for the same library."""
    content = source.read_bytes()
    if not target.exists() or target.read_bytes() != content:
        write_bytes(target, content, executable=True)
