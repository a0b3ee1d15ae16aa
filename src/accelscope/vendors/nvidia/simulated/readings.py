"""What a simulated GPU shows at one instant, in the units of NVIDIA's library.

This is the truth that the library, the tool and the tests share: each of the first two is a rendering of it.
"""

from dataclasses import dataclass

from accelscope.simulate.workload import Placement
from accelscope.vendors.nvidia.simulated.gpu import Gpu
from accelscope.vendors.nvidia.simulated.mig import MigDevice

# Clock event reasons (throttling), as bits.
GPU_IDLE = 0x1
SW_POWER_CAP = 0x4
HW_SLOWDOWN = 0x8
SW_THERMAL = 0x20
HW_THERMAL = 0x40
SUPPORTED_REASONS = 0x1FF


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    placement: Placement
    gpu_instance_id: int | None
    compute_instance_id: int | None
    memory_bytes: int | None
    # Percent over the sampling period; None where the driver has no sample: it did nothing, or MIG is on.
    sm: int | None
    memory: int | None
    encoder: int | None
    decoder: int | None

    @property
    def pid(self) -> int:
        return self.placement.process.pid

    @property
    def name(self) -> str:
        return self.placement.process.spec.name

    @property
    def path(self) -> str:
        return f"/usr/bin/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """GPM: what parts of the chip did. Percent now, and its integral in percent-seconds."""

    metric: int  # nvmlGpmMetricId_t
    percent: float
    integral: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MigReading:
    part: MigDevice
    uuid: str
    name: str
    memory_total_bytes: int
    memory_used_bytes: int  # of the GPU instance: its compute instances share it


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReading:
    link: int
    active: bool
    transmit_kib: int
    receive_kib: int
    replays: int
    recoveries: int
    crc_errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EccReading:
    """Counts of memory errors; volatile since the driver was loaded, aggregate over the card's life."""

    volatile_corrected: int
    volatile_uncorrected: int
    aggregate_corrected: int
    aggregate_uncorrected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remapping:
    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    number: int  # grows with every event of this GPU
    code: int
    at: float  # simulated time


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    gpu: Gpu
    index: int | None  # None: not enumerated
    fault: str | None  # lost, vanished, hang, reset_required: the device as a whole does not answer
    utilization_percent: int
    memory_utilization_percent: int
    encoder_percent: int
    decoder_percent: int
    memory_total_bytes: int
    memory_reserved_bytes: int
    memory_used_bytes: int
    bar1_used_bytes: int
    temperature_celsius: int
    memory_temperature_celsius: int | None
    power_average_milliwatts: int
    power_instant_milliwatts: int
    energy_millijoules: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    video_clock_mhz: int
    pstate: int
    fan_percent: int | None
    fan_rpm: int | None
    pcie_generation: int
    pcie_transmit_kb_per_second: int
    pcie_receive_kb_per_second: int
    pcie_transmit_bytes: int
    pcie_receive_bytes: int
    pcie_replays: int
    clock_event_reasons: int
    thermal_violation_nanoseconds: int
    ecc: EccReading | None
    remapping: Remapping | None
    retired_pages: tuple[int, int] | None  # for single-bit and for double-bit errors
    retirement_pending: bool
    links: tuple[LinkReading, ...]
    activity: tuple[Activity, ...]
    instance_activity: tuple[tuple[int, tuple[Activity, ...]], ...]  # by GPU instance
    xids: tuple[XidEvent, ...]
    mig: tuple[MigReading, ...]
    processes: tuple[ProcessReading, ...]

    @property
    def memory_free_bytes(self) -> int:
        return self.memory_total_bytes - self.memory_reserved_bytes - self.memory_used_bytes
