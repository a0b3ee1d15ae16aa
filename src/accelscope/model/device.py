"""A device as one driver shows it at one instant: identity and values, `None` where absent."""

import re
from dataclasses import dataclass
from enum import StrEnum

from accelscope.model.health import UNKNOWN_HEALTH, Absence, Health


class Vendor(StrEnum):
    NVIDIA = "nvidia"
    AMD = "amd"
    ASCEND = "ascend"
    FURIOSA = "furiosa"


@dataclass(frozen=True, slots=True)
class Sensor:
    """One temperature sensor; which of them is `Device.temperature_celsius` the reader decides."""

    name: str
    celsius: float


@dataclass(frozen=True, slots=True)
class Clock:
    domain: str  # graphics, sm, memory, video, aicore, npu ...
    hertz: float | None = None
    max_hertz: float | None = None


@dataclass(frozen=True, slots=True)
class Fan:
    index: int
    speed_ratio: float | None = None
    speed_rpm: float | None = None


@dataclass(frozen=True, slots=True)
class Rail:
    """One supply rail, as boards that measure several of them name it."""

    name: str
    volts: float | None = None
    amperes: float | None = None
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class Core:
    """One core of a device that shows them singly (a PE of an NPU, an XCC of a GPU)."""

    index: int
    utilization_ratio: float | None = None
    clock_hertz: float | None = None
    occupied: bool | None = None
    cycles_total: int | None = None  # Furiosa RNGD: since the card was started
    task_cycles_total: int | None = None  # of these, the cycles in which a task ran


@dataclass(frozen=True, slots=True)
class Pcie:
    generation: int | None = None
    max_generation: int | None = None
    width: int | None = None
    max_width: int | None = None
    replays_total: int | None = None
    # Seen from the device: transmit is device to host. Counters where the driver has them, else the rate
    # over the driver's own window.
    transmit_bytes_total: float | None = None
    receive_bytes_total: float | None = None
    transmit_bytes_per_second: float | None = None
    receive_bytes_per_second: float | None = None
    bytes_per_second: float | None = None  # both directions together, where the driver gives only that


@dataclass(frozen=True, slots=True)
class LinkErrors:
    kind: str  # crc, replay, recovery, ecc ...
    count: int


@dataclass(frozen=True, slots=True)
class Link:
    """One link between devices: NVLink, XGMI or HCCS."""

    kind: str  # nvlink, xgmi, hccs
    index: int
    active: bool | None = None
    remote: str | None = None  # PCI address of the other end, where the driver tells
    bytes_per_second: float | None = None  # what the link can carry in one direction
    transmit_bytes_total: float | None = None
    receive_bytes_total: float | None = None
    errors: tuple[LinkErrors, ...] = ()


@dataclass(frozen=True, slots=True)
class EccCount:
    severity: str  # corrected, uncorrected, deferred
    lifetime: bool  # True: over the life of the board; False: since the driver was loaded
    count: int
    block: str | None = None  # None: the device's total; else a part of it (dram, sram, l2, gfx, umc ...)
    last_seen: float | None = None  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Errors that have a code: XID, RAS, AXI, PCIe, fault codes. `last_seen` in seconds since the epoch."""

    kind: str
    code: str
    count: int
    last_seen: float | None = None


@dataclass(frozen=True, slots=True)
class RemappedRows:
    correctable: int | None = None
    uncorrectable: int | None = None
    pending: bool | None = None
    failed: bool | None = None


# Reasons for a lower clock that slow no work down: there is none, or somebody wants it so.
HARMLESS_THROTTLES = frozenset(
    {
        "gpu_idle",  # NVIDIA
        "applications_clocks_setting",
        "display_clock_setting",
        "sync_boost",
        "low_utilization",  # AMD
        "total_gfx_clk_below_host_limit",  # whatever the reason, low utilization too
        "idle",  # Furiosa
    }
)

# Those by which heat or the power supply forces a device. A limit that somebody set, or that a device is held
# at in its usual life (sw_power_cap, ppt, app_power_cap), is none.
FAULT_THROTTLES = frozenset(
    {
        "hw_slowdown",  # NVIDIA
        "hw_thermal_slowdown",
        "sw_thermal_slowdown",
        "hw_power_brake_slowdown",
        "prochot",  # AMD
        "socket_thermal",
        "vr_thermal",
        "hbm_thermal",
        "gfx_clk_below_host_limit_thermal",
        "thermal_slowdown",  # Furiosa
        "hw_power_cap",
    }
)

# A device is hot from so much below the temperature at which it slows itself down, or, where it does not tell
# that, from so much on.
HOT_MARGIN_CELSIUS = 5
HOT_CELSIUS = 90


@dataclass(frozen=True, slots=True)
class Throttle:
    """A reason to slow down that this driver knows, and whether it is at work now."""

    reason: str
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A part of a device that is handed out by itself: a MIG instance, an MI300 or RNGD partition.

    Memory that several partitions share stands at the first of them only, so that sums are right.
    """

    id: str
    uuid: str | None = None
    index: int | None = None
    device_name: str | None = None  # AMD: amdgpu_xcp_1, the platform device that holds its render node
    profile: str | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    utilization_ratio: float | None = None
    sm_active_ratio: float | None = None
    tensor_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    multiprocessors: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    # identity
    vendor: Vendor
    id: str  # stable: see device_id
    index: int | None = None  # an enumeration number: changes at reboot, never used as a key
    model: str | None = None
    architecture: str | None = None
    uuid: str | None = None
    serial: str | None = None
    pci_address: str | None = None
    numa_node: int | None = None
    device_name: str | None = None  # name of the device file: nvidia0, npu0, renderD128
    device_number: str | None = None  # Furiosa: major and minor number of its device file, 511:0
    device_files: tuple[str, ...] = ()  # Furiosa: what opens all of its cores or some, npu0pe0-1
    driver_version: str | None = None
    firmware_version: str | None = None
    vbios_version: str | None = None  # AMD: firmware_version is the VBIOS' part number there
    part_number: str | None = None  # of the board: 102-G30211-0C
    pci_device_id: str | None = None  # of the chip in the PCI list: 0x74a1
    runtime_version: str | None = None  # Furiosa RNGD: PERT, the run-time of its cores
    revision: str | None = None  # of the silicon, where the driver tells: B0
    board_id: int | None = None  # Ascend: NPU id
    chip_id: int | None = None  # Ascend: chip of that NPU
    chip_count: int | None = None  # Ascend: chips of that NPU
    physical_id: int | None = None  # Ascend: Phy-ID
    # state
    health: Health = UNKNOWN_HEALTH
    stale: bool = False  # True: the last attempt to read it failed; only identity is given
    read_at: float | None = None  # seconds since the epoch of the last good reading
    uptime_seconds: float | None = None
    performance_state: int | None = None
    governor: str | None = None  # Furiosa RNGD: performance, powersave
    persistence_mode: bool | None = None
    ecc_enabled: bool | None = None
    mig_enabled: bool | None = None
    compute_partition: str | None = None  # AMD: SPX, DPX, CPX ...
    memory_partition: str | None = None  # AMD: NPS1, NPS4 ...
    # use
    utilization_ratio: float | None = None  # share of the period in which anything ran
    memory_utilization_ratio: float | None = None  # share in which memory was read or written, not fill
    encoder_utilization_ratio: float | None = None
    decoder_utilization_ratio: float | None = None
    jpeg_utilization_ratio: float | None = None
    optical_flow_utilization_ratio: float | None = None
    vector_utilization_ratio: float | None = None
    control_cpu_utilization_ratio: float | None = None  # Ascend: the chip's own CPUs
    overall_utilization_ratio: float | None = (
        None  # Ascend: all engines, where `utilization_ratio` is AI cores
    )
    graphics_active_ratio: float | None = None
    sm_active_ratio: float | None = None
    sm_occupancy_ratio: float | None = None
    tensor_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    fp64_active_ratio: float | None = None
    fp32_active_ratio: float | None = None
    fp16_active_ratio: float | None = None
    cores: tuple[Core, ...] = ()
    # memory
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_used_ratio: float | None = None  # where a tool prints how full it is and not how large
    memory_free_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    bar1_total_bytes: int | None = None
    bar1_used_bytes: int | None = None
    # power and heat
    temperature_celsius: float | None = None
    sensors: tuple[Sensor, ...] = ()
    temperature_slowdown_celsius: float | None = None
    temperature_shutdown_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    power_limit_default_watts: float | None = None
    power_limit_min_watts: float | None = None
    power_limit_max_watts: float | None = None
    energy_joules: float | None = None
    rails: tuple[Rail, ...] = ()
    fans: tuple[Fan, ...] = ()
    clocks: tuple[Clock, ...] = ()
    throttles: tuple[Throttle, ...] = ()
    # connections
    pcie: Pcie | None = None
    links: tuple[Link, ...] = ()
    # errors
    ecc: tuple[EccCount, ...] = ()
    remapped_rows: RemappedRows | None = None
    retired_pages: tuple[EccCount, ...] = ()
    errors: tuple[ErrorCount, ...] = ()
    # parts
    partitions: tuple[Partition, ...] = ()
    absent: tuple[Absence, ...] = ()


# What stays true of a device that does not answer: the fields of Device under "identity".
_IDENTITY = (
    "vendor",
    "id",
    "index",
    "model",
    "architecture",
    "uuid",
    "serial",
    "pci_address",
    "numa_node",
    "device_name",
    "device_number",
    "device_files",
    "driver_version",
    "firmware_version",
    "vbios_version",
    "part_number",
    "pci_device_id",
    "runtime_version",
    "revision",
    "board_id",
    "chip_id",
    "chip_count",
    "physical_id",
)
_PARTITION_IDENTITY = (
    "id",
    "uuid",
    "index",
    "device_name",
    "profile",
    "gpu_instance_id",
    "compute_instance_id",
)


def identity_of(device: Device) -> Device:
    """Who it is, and which parts it has, which pods hold by name. No values: old ones would pass for new."""
    parts = tuple(
        Partition(**{name: getattr(part, name) for name in _PARTITION_IDENTITY}) for part in device.partitions
    )
    return Device(**{name: getattr(device, name) for name in _IDENTITY}, partitions=parts)


def device_id(
    vendor: Vendor,
    *,
    uuid: str | None = None,
    serial: str | None = None,
    pci: str | None = None,
    index: int | None = None,
) -> str:
    """The id by which a device is known everywhere: the vendor and the most stable fact there is.

    A parser of one tool's output may know only an index; what it makes then says so (`unidentified-0`), and
    a reader replaces it as soon as a better source tells who that is. Masked facts identify nothing.
    """
    fact = next((fact for fact in (uuid, serial, pci) if fact and not is_masked(fact)), None)
    if fact:
        return f"{vendor}:{fact}"
    return f"{vendor}:unidentified-{'?' if index is None else index}"


_PLACEHOLDER = re.compile(r"[*#?<>\u2026]|x{4}|redacted|masked|removed|hidden|anonym", re.IGNORECASE)
_SHORTEST_MASK = 8  # characters; a short serial number may well be one digit repeated


def is_masked(fact: str) -> bool:
    """Whether somebody who shared an output has overwritten this uuid or serial number. Several devices may
    then have the same one: `GPU-00000000-0000-0000-0000-000000000000`, `xxxx`, `1234***`."""
    if _PLACEHOLDER.search(fact):
        return True
    characters = fact.removeprefix("GPU-").removeprefix("MIG-").replace("-", "")
    return len(characters) >= _SHORTEST_MASK and len(set(characters)) == 1


_PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)


def pci_address(text: str) -> str | None:
    """One spelling for every tool's: `0000:0c:00.0`, lower case, four-digit domain unless it needs more."""
    match = _PCI_ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, slot, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{slot.lower()}.{function or '0'}"
