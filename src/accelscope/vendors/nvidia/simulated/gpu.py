"""A simulated GPU (its constant properties), and its readings in the units of NVIDIA's library.

A reading is the common source of the simulated library, the simulated tool and the expectations of tests.
"""

from dataclasses import dataclass
from functools import cached_property

from accelscope.simulate import spec as identity
from accelscope.simulate.workload import Placement
from accelscope.vendors.nvidia.simulated.spec import (
    COMPUTE_SLICES,
    Card,
    MigDevice,
    NvidiaDeviceSpec,
    NvidiaSpec,
)

_SWITCHES = 4  # NVSwitches of a board that connects all GPUs


@dataclass(frozen=True)
class Gpu:
    """`slot` is its position in the description. Unlike the index, it stays when another GPU vanishes."""

    seed: int
    slot: int
    count: int  # GPUs of the node
    linked: bool  # whether its NVLinks lead to another GPU
    spec: NvidiaDeviceSpec

    @property
    def card(self) -> Card:
        return self.spec.card

    @cached_property
    def uuid(self) -> str:
        return "GPU-" + identity.uuid(self.seed, "nvidia", "uuid", self.slot)

    @cached_property
    def serial(self) -> str | None:
        number = identity.whole(132 * 10**10, 166 * 10**10, self.seed, "nvidia", "serial", self.slot)
        return str(number) if self.card.serial else None

    @property
    def bus(self) -> int:
        return identity.bus_number(self.slot, self.count)

    @property
    def bus_id(self) -> str:
        """As NVML prints it: in upper case, the domain with eight digits."""
        return f"00000000:{self.bus:02X}:00.0"

    @property
    def numa_node(self) -> int:
        return identity.numa_node(self.slot, self.count)

    @property
    def partitioned(self) -> bool:
        return self.spec.mig is not None

    @property
    def mig(self) -> tuple[MigDevice, ...]:
        return self.spec.mig or ()

    @property
    def max_mig_devices(self) -> int:
        return COMPUTE_SLICES if self.card.mig_profiles else 0

    @property
    def links(self) -> int:
        return self.card.nvlink.links if self.card.nvlink else 0

    def link_active(self, link: int) -> bool:
        return self.linked and link not in self.spec.links_down

    def link_remote(self, link: int) -> str:
        """Bus id of the NVSwitch at the far end."""
        return f"00000000:{0x05 + link % _SWITCHES:02X}:00.0"

    def mig_uuid(self, part: MigDevice) -> str:
        path = (self.slot, part.gpu_instance_id, part.compute_instance_id)
        return "MIG-" + identity.uuid(self.seed, "nvidia", "mig", *path)


def create_gpus(spec: NvidiaSpec, seed: int) -> tuple[Gpu, ...]:
    devices = spec.devices
    with_links = sum(device.card.nvlink is not None for device in devices)
    return tuple(
        Gpu(
            seed=seed,
            slot=slot,
            count=len(devices),
            linked=device.card.nvlink is not None and with_links > 1,
            spec=device,
        )
        for slot, device in enumerate(devices)
    )


# Bits of the clock event (throttle) reasons
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
    # Percent over the sampling period; None without a sample: the process was idle, or MIG is on.
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
    """A GPM metric: its value now in percent, and the integral in percent-seconds."""

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
    bar1_total_bytes: int  # likewise; nothing of it is ever in use


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
    """Counts of memory errors: volatile since the driver was loaded, aggregate over the card's life."""

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
    number: int  # increases with every event of this GPU
    code: int
    at: float  # simulated time


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    gpu: Gpu
    index: int | None  # None: not enumerated
    fault: str | None  # lost, vanished, hang or reset_required, which affect the whole device
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
