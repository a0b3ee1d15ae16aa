"""Processes as the driver shows them: the compute driver's folders, and what /proc tells of open files."""

from collections.abc import Iterable, Iterator

from accelscope.simulate.folder import Content, Link
from accelscope.vendors.amd.simulated.readings import GpuReading, PartReading, ProcessReading

_KFD = "sys/class/kfd/kfd"
_COMPUTE_FILE = "3"
_FIRST_RENDER_FILE = 8
_SIMDS_PER_UNIT = 4

File = tuple[str, Content]


def topology_files(readings: Iterable[GpuReading]) -> Iterator[File]:
    """The compute driver's view: the processors are node 0, each GPU or partition of one is a further one."""
    yield f"{_KFD}/topology/generation_id", "1\n"
    yield f"{_KFD}/topology/nodes/0/gpu_id", "0\n"
    yield f"{_KFD}/topology/nodes/0/properties", "cpu_cores_count 96\nsimd_count 0\n"
    yield f"{_KFD}/proc/.keep", ""
    for reading in readings:
        gpu = reading.gpu
        for part in reading.parts:
            folder = f"{_KFD}/topology/nodes/{part.part.node}"
            facts = {
                "cpu_cores_count": 0,
                "simd_count": part.part.compute_units * _SIMDS_PER_UNIT,
                "simd_per_cu": _SIMDS_PER_UNIT,
                "gfx_target_version": gpu.card.target_version,
                "vendor_id": 0x1002,
                "device_id": gpu.card.code,
                "location_id": gpu.location | part.part.number << 28,
                "domain": gpu.domain,
                "drm_render_minor": part.part.render_minor,
                "unique_id": gpu.unique_id or 0,
            }
            yield f"{folder}/gpu_id", f"{part.part.gpu_id}\n"
            yield f"{folder}/properties", "".join(f"{name} {value}\n" for name, value in facts.items())
            yield f"{folder}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {part.part.vram_bytes}\n"
            yield f"{folder}/mem_banks/0/used_memory", f"{part.vram_used_bytes}\n"


def compute_files(readings: Iterable[GpuReading]) -> Iterator[File]:
    """A process that computes has files for every GPU of the node, most of them saying nothing."""
    shown = [part for reading in readings for part in reading.parts]
    used: dict[int, dict[int, tuple[PartReading, ProcessReading]]] = {}
    for part in shown:
        for process in part.processes:
            if process.computes:
                used.setdefault(process.pid, {})[part.part.gpu_id] = part, process
    for pid, places in used.items():
        folder = f"{_KFD}/proc/{pid}"
        yield f"{folder}/pasid", f"{32768 + pid % 1000}\n"
        for part in shown:
            here = places.get(part.part.gpu_id)
            number = part.part.gpu_id
            yield f"{folder}/vram_{number}", f"{here[1].vram_bytes if here else 0}\n"
            occupied = round(here[1].load * part.part.compute_units) if here else 0
            yield f"{folder}/stats_{number}/cu_occupancy", f"{occupied}\n"


def open_files(readings: Iterable[GpuReading]) -> Iterator[File]:
    """Each process has a GPU's device file open twice, by one opening: it must be counted once."""
    opened: dict[int, int] = {}
    client = 0
    for reading in readings:
        for part in reading.parts:
            for process in part.processes:
                client += 1
                folder = f"proc/{process.pid}"
                if process.computes:
                    yield f"{folder}/fd/{_COMPUTE_FILE}", Link("/dev/kfd")
                    yield f"{folder}/fdinfo/{_COMPUTE_FILE}", "pos:\t0\nflags:\t02000002\nmnt_id:\t30\n"
                text = _fdinfo(reading, process, client)
                for _ in range(2):
                    number = opened.get(process.pid, _FIRST_RENDER_FILE)
                    opened[process.pid] = number + 1
                    yield f"{folder}/fd/{number}", Link(f"/dev/dri/renderD{part.part.render_minor}")
                    yield f"{folder}/fdinfo/{number}", text


def _fdinfo(reading: GpuReading, process: ProcessReading, client: int) -> str:
    lines = [
        "pos:\t0",
        "flags:\t02100002",
        "mnt_id:\t30",
        "drm-driver:\tamdgpu",
        f"drm-client-id:\t{client}",
        f"drm-pdev:\t{reading.gpu.address}",
        f"drm-memory-vram:\t{process.vram_bytes >> 10} KiB",
        "drm-memory-gtt: \t2048 KiB",
        "drm-memory-cpu: \t0 KiB",
    ]
    engines = {
        "gfx": process.graphics_ns,
        "compute": process.compute_ns,
        "enc": process.encoder_ns,
        "dec": process.decoder_ns,
    }
    lines += [f"drm-engine-{name}:\t{spent} ns" for name, spent in engines.items() if spent]
    return "\n".join(lines) + "\n"
