"""What a simulated GPU shows at one instant, in the units of its driver.

This is the truth that the driver's files, the tools and the tests share: each of the first two is a rendering
of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from accelscope.simulate.workload import Placement
from accelscope.vendors.amd.simulated.gpu import Gpu, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    placement: Placement
    vram_bytes: int
    load: float  # share of the compute units that hold its work
    graphics_ns: int
    compute_ns: int
    encoder_ns: int
    decoder_ns: int

    @property
    def pid(self) -> int:
        return self.placement.process.pid

    @property
    def name(self) -> str:
        return self.placement.process.spec.name

    @property
    def computes(self) -> bool:
        return "C" in self.placement.type

    @property
    def draws(self) -> bool:
        return "G" in self.placement.type


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReading:
    part: Part
    busy_percent: int
    vram_used_bytes: int
    processes: tuple[ProcessReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    gpu: Gpu
    index: int | None  # None: it is not enumerated
    fault: str | None
    busy_percent: int
    memory_busy_percent: int
    vram_used_bytes: int
    edge_millicelsius: int
    junction_millicelsius: int
    memory_millicelsius: int
    power_microwatts: int  # of the module
    energy_microjoules: int
    sclk_mhz: int
    mclk_mhz: int
    millivolts: int | None
    fan_percent: int | None
    pcie_replays: int
    errors: Mapping[str, tuple[int, int]]  # by block: uncorrectable, correctable
    bad_pages: int
    throttled: bool  # by heat
    parts: tuple[PartReading, ...]

    @property
    def energy_counts(self) -> int:
        """As the driver counts it, in units of 2^-16 J."""
        return self.energy_microjoules * 2**16 // 10**6

    @property
    def suspended(self) -> bool:
        return self.gpu.spec.suspended

    @property
    def processes(self) -> tuple[ProcessReading, ...]:
        return tuple(process for part in self.parts for process in part.processes)
