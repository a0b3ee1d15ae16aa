"""The compute driver of a simulated node, /sys/class/kfd: topology, and processes with their queues."""

from collections.abc import Iterable, Iterator, Sequence

from accelscope.simulate.folder import Content, Folder
from accelscope.vendors.amd.simulated.gpu import GpuReading, PartReading, ProcessReading
from accelscope.vendors.amd.simulated.spec import Family

_KFD = "sys/class/kfd/kfd"
_CORES = 96  # of one CPU
_CPU_MHZ = 3700
_HOST_BYTES = 1 << 40  # memory of one CPU
_QUEUE_BYTES = 1 << 20
_PCIE_ENGINES = 2  # further copy engines are for XGMI
# Types and weights of links.
_CPU_LINK, _PCIE, _XGMI = 1, 2, 11
_WEIGHTS = {_CPU_LINK: 32, _PCIE: 20, _XGMI: 15}
_XGMI_MEGABYTES = 64_000  # per second
_HOST_MEMORY, _VRAM = 0, 1  # heap types

File = tuple[str, Content]


def pasid_of(pid: int) -> int:
    """The process's address space on the GPUs."""
    return 32768 + pid % 1000


def topology_files(readings: Sequence[GpuReading]) -> Iterator[File]:
    """The first nodes are the CPUs; each GPU or partition is a further node."""
    yield f"{_KFD}/topology/generation_id", "1\n"
    yield f"{_KFD}/topology/system_properties", "platform_oem 0\nplatform_id 0\nplatform_rev 0\n"
    cpus = range(readings[0].gpu.cpus if readings else 1)
    nodes = [(reading, part) for reading in readings for part in reading.parts]
    for cpu in cpus:
        links = [(_CPU_LINK, other) for other in cpus if other != cpu]
        links += [(_PCIE, part.part.node) for reading, part in nodes if _cpu_of(reading) == cpu]
        yield from _node(cpu, 0, "", _cpu_properties(cpu, len(links)), links)
        yield from _memory(cpu, _HOST_MEMORY, _HOST_BYTES, 64, 4800)
    for reading, part in nodes:
        links = [(_PCIE, _cpu_of(reading))]
        if reading.gpu.hive is not None:
            links += [(_XGMI, other.part.node) for _, other in nodes if other is not part]
        properties = _gpu_properties(reading, part, len(links))
        number = part.part.node
        yield from _node(number, part.part.gpu_id, reading.gpu.card.compute.name, properties, links)
        card = reading.gpu.card
        yield from _memory(number, _VRAM, part.part.vram_bytes, card.vram_bits, card.mclk_mhz[-1])
        yield f"{_KFD}/topology/nodes/{number}/mem_banks/0/used_memory", f"{part.vram_used_bytes}\n"


def _cpu_of(reading: GpuReading) -> int:
    return max(0, reading.gpu.numa_node)


def _node(
    number: int, gpu_id: int, name: str, properties: dict[str, int], links: Sequence[tuple[int, int]]
) -> Iterator[File]:
    folder = f"{_KFD}/topology/nodes/{number}"
    yield f"{folder}/gpu_id", f"{gpu_id}\n"
    yield f"{folder}/name", f"{name}\n"
    yield f"{folder}/properties", _lines(properties)
    yield f"{folder}/caches", Folder()
    yield f"{folder}/p2p_links", Folder()
    for place, (kind, other) in enumerate(links):
        megabytes = _XGMI_MEGABYTES if kind == _XGMI else 0
        link = {
            "type": kind,
            "version_major": 0,
            "version_minor": 0,
            "node_from": number,
            "node_to": other,
            "weight": _WEIGHTS[kind],
            "min_latency": 0,
            "max_latency": 0,
            "min_bandwidth": megabytes,
            "max_bandwidth": megabytes,
            "recommended_transfer_size": 0,
            "recommended_sdma_engine_id_mask": 0,
            "flags": 1,
        }
        yield f"{folder}/io_links/{place}/properties", _lines(link)
    if not links:
        yield f"{folder}/io_links", Folder()


def _memory(number: int, heap: int, size: int, bits: int, mhz: int) -> Iterator[File]:
    bank = {"heap_type": heap, "size_in_bytes": size, "flags": 0, "width": bits, "mem_clk_max": mhz}
    yield f"{_KFD}/topology/nodes/{number}/mem_banks/0/properties", _lines(bank)


def _lines(properties: dict[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in properties.items())


def _cpu_properties(number: int, links: int) -> dict[str, int]:
    return _properties(
        cpu_cores_count=_CORES,
        mem_banks_count=1,
        io_links_count=links,
        cpu_core_id_base=number * _CORES,
        max_engine_clk_ccompute=_CPU_MHZ,
    )


def _gpu_properties(reading: GpuReading, part: PartReading, links: int) -> dict[str, int]:
    gpu, card = reading.gpu, reading.gpu.card
    compute, xccs = card.compute, max(1, card.xccs // len(reading.parts))
    copy_engines = max(1, compute.copy_engines // len(reading.parts))
    pcie_engines = min(copy_engines, _PCIE_ENGINES)
    return _properties(
        simd_count=part.part.compute_units * compute.simds,
        mem_banks_count=1,
        io_links_count=links,
        max_waves_per_simd=compute.waves,
        lds_size_in_kb=64,
        num_gws=64,
        wave_front_size=compute.wave_size,
        array_count=compute.engines * compute.arrays * xccs,
        simd_arrays_per_engine=compute.arrays,
        cu_per_simd_array=compute.units,
        simd_per_cu=compute.simds,
        max_slots_scratch_cu=32,
        gfx_target_version=card.target_version,
        vendor_id=0x1002,
        device_id=card.code,
        location_id=gpu.location | part.part.number << 28,
        domain=gpu.domain,
        drm_render_minor=part.part.render_minor,
        hive_id=gpu.hive or 0,
        num_sdma_engines=pcie_engines,
        num_sdma_xgmi_engines=copy_engines - pcie_engines,
        num_sdma_queues_per_engine=8,
        num_cp_queues=24,
        max_engine_clk_fcompute=card.sclk_mhz[-1],
        unique_id=gpu.unique_id or 0,
        num_xcc=xccs,
        max_engine_clk_ccompute=_CPU_MHZ,
    )


_CPU_ORDER = (
    "cpu_cores_count",
    "simd_count",
    "mem_banks_count",
    "caches_count",
    "io_links_count",
    "p2p_links_count",
    "cpu_core_id_base",
    "simd_id_base",
    "max_waves_per_simd",
    "lds_size_in_kb",
    "gds_size_in_kb",
    "num_gws",
    "wave_front_size",
    "array_count",
    "simd_arrays_per_engine",
    "cu_per_simd_array",
    "simd_per_cu",
    "max_slots_scratch_cu",
    "gfx_target_version",
    "vendor_id",
    "device_id",
    "location_id",
    "domain",
    "drm_render_minor",
    "hive_id",
    "num_sdma_engines",
    "num_sdma_xgmi_engines",
    "num_sdma_queues_per_engine",
    "num_cp_queues",
)
_GPU_ORDER = (
    "max_engine_clk_fcompute",
    "local_mem_size",
    "fw_version",
    "capability",
    "debug_prop",
    "sdma_fw_version",
    "unique_id",
    "num_xcc",
)


def _properties(**known: int) -> dict[str, int]:
    """In the order of the kernel. A CPU does not have the last ones, and what is not known is 0."""
    order = (*_CPU_ORDER, *(_GPU_ORDER if "num_xcc" in known else ()), "max_engine_clk_ccompute")
    return {name: known.get(name, 0) for name in order}


def compute_files(readings: Iterable[GpuReading]) -> Iterator[File]:
    """A compute process has files for every GPU of the node, with zeros for those that it does not use, and a
    queue on each of those that it uses."""
    parts = [(reading, part) for reading in readings for part in reading.parts]
    used: dict[int, dict[int, ProcessReading]] = {}
    for _, part in parts:
        for process in part.processes:
            if process.computes:
                used.setdefault(process.pid, {})[part.part.gpu_id] = process
    if not used:
        yield f"{_KFD}/proc", Folder()
    for pid, places in used.items():
        folder = f"{_KFD}/proc/{pid}"
        yield f"{folder}/pasid", f"{pasid_of(pid)}\n"
        for queue, gpu_id in enumerate(places):
            yield f"{folder}/queues/{queue}/gpuid", f"{gpu_id}\n"
            yield f"{folder}/queues/{queue}/size", f"{_QUEUE_BYTES}\n"
            yield f"{folder}/queues/{queue}/type", "0\n"  # compute
        for reading, part in parts:
            number = part.part.gpu_id
            here = places.get(number)
            yield f"{folder}/vram_{number}", f"{here.vram_bytes if here else 0}\n"
            yield f"{folder}/sdma_{number}", "0\n"
            yield f"{folder}/stats_{number}/evicted_ms", "0\n"
            if reading.gpu.card.family is Family.INSTINCT:  # only these chips count waves by process
                occupied = round(here.load * part.part.compute_units) if here else 0
                yield f"{folder}/stats_{number}/cu_occupancy", f"{occupied}\n"
            for counter in ("faults", "page_in", "page_out"):
                yield f"{folder}/counters_{number}/{counter}", "0\n"
