"""The simulated NVIDIA driver of a node: builds its native parts and writes what they read."""

import shutil
from pathlib import Path

from accelscope.simulate.compiler import NativePart, built, cache_folder
from accelscope.simulate.faults import FaultKind, FaultLog
from accelscope.simulate.folder import write_text
from accelscope.simulate.nvidia import nvml_state
from accelscope.simulate.nvidia.dynamics import GpuDynamics
from accelscope.simulate.nvidia.gpu import gpus_of
from accelscope.simulate.nvidia.readings import GpuReading
from accelscope.simulate.spec import NodeSpec
from accelscope.simulate.workload import place

_NATIVE = Path(__file__).parent / "native"
LIBRARY = NativePart(
    name="libnvidia-ml.so.1",
    folder=_NATIVE,
    sources=("state.c", *sorted(path.name for path in _NATIVE.glob("nvml_*.c"))),
    headers=("state.h", "nvml_types.h"),
    soname="libnvidia-ml.so.1",
)


class NvidiaDriver:
    def __init__(self, spec: NodeSpec, folder: Path, cache: Path | None) -> None:
        self._spec = spec
        self._folder = folder
        self._cache = cache or cache_folder()
        placements = place(spec)
        self._gpus = tuple(GpuDynamics(gpu, placements) for gpu in gpus_of(spec))

    def build(self) -> None:
        library = self._folder / "lib" / LIBRARY.name
        library.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built(LIBRARY, self._cache), library)

    def readings(self, at: float, faults: FaultLog) -> tuple[GpuReading, ...]:
        result, index = [], 0
        for slot, gpu in enumerate(self._gpus):
            own = faults.of_device(slot)
            vanished = any(fault.kind is FaultKind.VANISHED and fault.active(at) for fault in own)
            result.append(gpu.reading(at, own, None if vanished else index))
            index += not vanished
        return tuple(result)

    def write(self, at: float, faults: FaultLog) -> None:
        readings = self.readings(at, faults)
        text = nvml_state.render(self._spec.nvidia, readings, faults.active(at), at)
        write_text(self._folder / "state" / "nvml", text)
