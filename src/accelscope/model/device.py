"""A device at one instant: identity, health and values, `None` where absent."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from accelscope.vendors import declarations

# --- health ---------------------------------------------------------------


class HealthState(StrEnum):
    """One scale for all vendors. UNKNOWN is not OK: the state could not be determined."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Health:
    """Health of a device. `unknown` is not `ok`: the state could not be determined."""

    state: HealthState
    """State, on one scale for all vendors."""
    reason: str | None = None
    """Human-readable reason for the state."""
    vendor_word: str | None = None
    """The state in the driver's own words: `OK`, `Alarm`."""
    cause: str | None = None
    """The one cause of the state, as a keyword: `xid_48`, `row_remap_failed`, `lost`."""
    action: str | None = None
    """What to do first."""
    origin: str | None = None
    """Where the cause is: `hardware`, `driver`, `application` or `environment`. Absent: not known."""
    since: float | None = None
    """Unix time at which this state with this cause began."""
    until: str | None = None
    """What ends the state: `reset`, `driver_reload`, `reboot`, `replacement`, or `condition`: the end of the
    condition itself."""

    @property
    def meaning(self) -> str | None:
        """The part of the reason that is the same each time: the text before `: `, which may be a keyword
        such as `reset_required`."""
        if self.reason is None:
            return None
        meaning, colon, _ = self.reason.partition(": ")
        return meaning.replace("_", " ") if colon else meaning


UNKNOWN_HEALTH = Health(HealthState.UNKNOWN)


class AbsenceReason(StrEnum):
    """Why a value is missing."""

    NOT_SUPPORTED = "not_supported"  # the device does not support it
    NOT_KNOWN = "not_known"  # this version of the driver or tool does not have the field
    NO_SAMPLE = "no_sample"  # nothing was measured in this period
    SUSPENDED = "suspended"  # the device is suspended, and reading it would wake it up
    NO_PERMISSION = "no_permission"
    LOST = "lost"  # the device fell off the bus
    RESET_REQUIRED = "reset_required"
    TIMEOUT = "timeout"  # the call did not return within its deadline
    DRIVER_ERROR = "driver_error"  # the driver returned an error
    UNREADABLE = "unreadable"  # the driver returned something that is not a value of this field
    SHARED = "shared"  # several devices share the value, and it is counted at another one
    DEPRECATED = "deprecated"  # the driver no longer supports it


@dataclass(frozen=True, slots=True)
class Absence:
    """A missing value. [Concepts](concepts.md#absence) explains the reasons."""

    field: str
    """Name of the field, or of a part of it: `power_watts`, `sensors.memory`."""
    reason: AbsenceReason
    """Why it is missing."""


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """Number of events of one kind since the agent started."""

    reason: str
    """Kind of the event, as a keyword."""
    count: int
    """Number of events."""


def counted(counts: Mapping[str, int]) -> tuple[ReasonCount, ...]:
    """Sorted by reason."""
    return tuple(ReasonCount(reason, count) for reason, count in sorted(counts.items()))


# --- device ---------------------------------------------------------------


class Vendor(StrEnum):
    """The name of a vendor: one member per declaration in `accelscope.vendors`."""

    _ignore_ = "vendor"
    for vendor in declarations():
        vars()[vendor.upper()] = vendor


@dataclass(frozen=True, slots=True)
class Sensor:
    """One temperature sensor."""

    name: str
    """Name that the driver reports: `gpu`, `memory`, `hbm` …"""
    celsius: float
    """Temperature of the sensor."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of one part of the device."""

    domain: str
    """The part: `graphics`, `sm`, `memory`, `video`, `aicore`, `npu` …"""
    hertz: float | None = None
    """Current frequency."""
    max_hertz: float | None = None
    """Maximum frequency."""


@dataclass(frozen=True, slots=True)
class Fan:
    """One fan."""

    index: int
    """Number of the fan on the device."""
    speed_ratio: float | None = None
    """Fan speed as a fraction of its maximum."""
    speed_rpm: float | None = None
    """Fan speed in revolutions per minute."""


@dataclass(frozen=True, slots=True)
class Rail:
    """One supply rail."""

    name: str
    """Name that the driver reports."""
    volts: float | None = None
    """Voltage."""
    amperes: float | None = None
    """Current."""
    watts: float | None = None
    """Power."""


@dataclass(frozen=True, slots=True)
class Core:
    """One core: a PE of an NPU, an XCC of a GPU."""

    index: int
    """Number of the core on the device."""
    utilization_ratio: float | None = None
    """Fraction of the last sample period during which the core was running."""
    clock_hertz: float | None = None
    """Clock frequency of the core."""
    occupied: bool | None = None
    """A process has opened the core, whether or not it is running."""
    cycles_total: int | None = None
    """Furiosa RNGD: cycles since the card started."""
    task_cycles_total: int | None = None
    """Furiosa RNGD: cycles since the card started in which a task ran."""


@dataclass(frozen=True, slots=True)
class Pcie:
    """The PCIe link to the host. Transmit is from the device to the host."""

    generation: int | None = None
    """Current PCIe generation of the link."""
    max_generation: int | None = None
    """Highest PCIe generation that the device and the slot support."""
    width: int | None = None
    """PCIe lanes currently in use."""
    max_width: int | None = None
    """PCIe lanes that the device and the slot support."""
    replays_total: int | None = None
    """PCIe replays: packets that were sent again."""
    transmit_bytes_total: float | None = None
    """Bytes sent from the device to the host."""
    receive_bytes_total: float | None = None
    """Bytes sent from the host to the device."""
    transmit_bytes_per_second: float | None = None
    """Throughput from the device to the host. Absent: not reported, or the driver reports a counter."""
    receive_bytes_per_second: float | None = None
    """Throughput from the host to the device. Absent: not reported, or the driver reports a counter."""
    bytes_per_second: float | None = None
    """AMD: throughput in both directions together. Its driver reports only the sum."""


@dataclass(frozen=True, slots=True)
class LinkErrors:
    """Errors of one kind on one link."""

    kind: str
    """Type of error: `crc`, `replay`, `recovery`, `ecc` …"""
    count: int
    """Number of errors."""


@dataclass(frozen=True, slots=True)
class Link:
    """One link between devices."""

    kind: str
    """`nvlink`, `xgmi` or `hccs`."""
    index: int
    """Number of the link on the device."""
    active: bool | None = None
    """The link is active."""
    remote: str | None = None
    """PCI address of the other end."""
    bytes_per_second: float | None = None
    """Bandwidth in one direction."""
    transmit_bytes_total: float | None = None
    """Bytes sent over the link."""
    receive_bytes_total: float | None = None
    """Bytes received over the link."""
    errors: tuple[LinkErrors, ...] = ()
    """Errors, by type of error."""


@dataclass(frozen=True, slots=True)
class EccCount:
    """ECC memory errors of one severity, or pages retired because of them."""

    severity: str
    """`corrected`, `uncorrected` or `deferred`."""
    lifetime: bool
    """True: over the lifetime of the board; false: since the driver was loaded."""
    count: int
    """Number of errors or pages."""
    block: str | None = None
    """Block of the device: `dram`, `sram`, `l2`, `gfx`, `umc` … Absent: total of the device."""
    last_seen: float | None = None
    """Unix time at which the count last increased. Absent: it has not increased since the agent started."""


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Errors of one code. Where a driver reports events, these are counted from the agent's start."""

    kind: str
    """Type of error: `xid`, `ras`, `axi`, `pcie` …"""
    code: str
    """Code that the driver reports."""
    count: int
    """Number of errors."""
    last_seen: float | None = None
    """Unix time of the last error with this code."""


@dataclass(frozen=True, slots=True)
class RemappedRows:
    """Memory rows replaced by spare rows."""

    correctable: int | None = None
    """Rows replaced because of corrected errors."""
    uncorrectable: int | None = None
    """Rows replaced because of uncorrected errors."""
    pending: bool | None = None
    """A row remapping is pending until the next reset of the device."""
    failed: bool | None = None
    """A row could not be remapped; the board should be replaced."""


HARMLESS_THROTTLES = frozenset(
    word for vendor in declarations().values() for word in vendor.harmless_throttles
)
FAULT_THROTTLES = frozenset(word for vendor in declarations().values() for word in vendor.fault_throttles)

# A device is hot within 5 °C of its slowdown temperature, or from 90 °C if that is not reported.
HOT_MARGIN_CELSIUS = 5
HOT_CELSIUS = 90


@dataclass(frozen=True, slots=True)
class Throttle:
    """A reason for reduced clocks; only reasons that the driver reports."""

    reason: str
    """Name that the driver reports: `sw_power_cap`, `socket_thermal` …"""
    active: bool
    """Clocks are currently reduced for this reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A part of a device that is allocated separately: a MIG instance, a partition of an MI300 or RNGD.
    Memory shared by several partitions is counted at the first."""

    id: str
    """Id, unique on the node; the label `partition` of its series."""
    uuid: str | None = None
    """Uuid as the driver reports it."""
    index: int | None = None
    """Number of the partition on the device."""
    device_name: str | None = None
    """AMD: the platform device of its render node, `amdgpu_xcp_1`. Absent: other vendors."""
    profile: str | None = None
    """Vendor's name of its size: `1g.10gb`."""
    gpu_instance_id: int | None = None
    """MIG: id of the GPU instance. Absent: not a MIG instance."""
    compute_instance_id: int | None = None
    """MIG: id of the compute instance. Absent: not a MIG instance."""
    utilization_ratio: float | None = None
    """Fraction of the last sample period during which a kernel was running on the partition."""
    sm_active_ratio: float | None = None
    """Fraction of time a multiprocessor of the partition had at least one warp."""
    tensor_active_ratio: float | None = None
    """Fraction of cycles the tensor pipe of the partition was active."""
    dram_active_ratio: float | None = None
    """Fraction of cycles the memory interface of the partition was transferring data."""
    memory_total_bytes: int | None = None
    """Total memory of the partition; memory shared by several partitions is counted at the first."""
    memory_used_bytes: int | None = None
    """Memory in use on the partition."""
    memory_free_bytes: int | None = None
    """Free memory of the partition."""
    multiprocessors: int | None = None
    """Number of multiprocessors of the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device. If `stale` is set, it has only its identity (the fields up to `physical_id`), `health`,
    `stale`, `read_at` and `errors`."""

    # identity
    vendor: Vendor
    """Vendor of the device."""
    id: str
    """Vendor and uuid, else serial number or PCI address (the order depends on the vendor); it survives
    reboots and is the label `device` of every series."""
    index: int | None = None
    """Index of the device in the vendor's tools. It can change at a reboot."""
    model: str | None = None
    """Product name."""
    architecture: str | None = None
    """Name of the chip's generation."""
    uuid: str | None = None
    """Uuid as the driver reports it."""
    serial: str | None = None
    """Serial number of the board."""
    pci_address: str | None = None
    """PCI address: `0000:0c:00.0`, in lower case."""
    numa_node: int | None = None
    """NUMA node of the device."""
    device_name: str | None = None
    """Name of the device file: `nvidia0`, `npu0`, `renderD128`."""
    device_number: str | None = None
    """Furiosa: major and minor number of the device file, `511:0` (PCI-DEV). Absent: other vendors."""
    device_files: tuple[str, ...] = ()
    """Furiosa: names of the files that open all cores of the card or some of them."""
    driver_version: str | None = None
    """Version of the driver."""
    firmware_version: str | None = None
    """Version of the firmware or VBIOS. AMD: the part number of the VBIOS."""
    vbios_version: str | None = None
    """AMD: version of the VBIOS. Only `amd-smi` reports it."""
    part_number: str | None = None
    """AMD: part number of the board: `102-G30211-0C`."""
    pci_device_id: str | None = None
    """AMD and Ascend: PCI device id of the chip: `0x74a1`."""
    runtime_version: str | None = None
    """Furiosa RNGD: version of the runtime on its cores (PERT). Absent: other vendors."""
    revision: str | None = None
    """Revision of the silicon: `B0`."""
    board_id: int | None = None
    """Ascend: the NPU id. Absent: other vendors."""
    chip_id: int | None = None
    """Ascend: id of the chip within the NPU. Absent: other vendors."""
    chip_count: int | None = None
    """Ascend: number of chips of the NPU. Absent: other vendors."""
    physical_id: int | None = None
    """Ascend: the Phy-ID. Absent: other vendors."""
    # state
    health: Health = UNKNOWN_HEALTH
    """Health, on one scale for all vendors."""
    stale: bool = False
    """The device was not read in the last collection."""
    read_at: float | None = None
    """Unix time of the last successful read of the device. Absent: never read."""
    uptime_seconds: float | None = None
    """Time since the device started."""
    performance_state: int | None = None
    """Performance state; 0 is the fastest."""
    governor: str | None = None
    """Furiosa RNGD: governor of the clocks, `performance` or `powersave`. Absent: other vendors."""
    persistence_mode: bool | None = None
    """Persistence mode is on: the driver stays loaded when no process uses the device."""
    ecc_enabled: bool | None = None
    """ECC is enabled."""
    mig_enabled: bool | None = None
    """MIG mode is enabled."""
    compute_partition: str | None = None
    """AMD: compute partition mode: `SPX`, `DPX`, `CPX` … Absent: other vendors."""
    memory_partition: str | None = None
    """AMD: memory partition mode: `NPS1`, `NPS4` … Absent: other vendors."""
    # use
    utilization_ratio: float | None = None
    """Fraction of the last sample period during which a kernel was running."""
    memory_utilization_ratio: float | None = None
    """Fraction of the last sample period during which device memory was read or written."""
    encoder_utilization_ratio: float | None = None
    """Utilisation of the video encoders."""
    decoder_utilization_ratio: float | None = None
    """Utilisation of the video decoders."""
    jpeg_utilization_ratio: float | None = None
    """Utilisation of the JPEG engines."""
    optical_flow_utilization_ratio: float | None = None
    """Utilisation of the optical flow engine."""
    vector_utilization_ratio: float | None = None
    """Utilisation of the vector cores."""
    control_cpu_utilization_ratio: float | None = None
    """Ascend: utilisation of the control CPUs on the chip."""
    overall_utilization_ratio: float | None = None
    """Ascend: utilisation of the whole chip, where the driver reports it beside that of the AI cores."""
    graphics_active_ratio: float | None = None
    """Fraction of time the graphics or compute engine was active, from profiling counters."""
    sm_active_ratio: float | None = None
    """Fraction of time a multiprocessor had at least one warp, averaged over all multiprocessors."""
    sm_occupancy_ratio: float | None = None
    """Resident warps as a fraction of the maximum that the multiprocessors support."""
    tensor_active_ratio: float | None = None
    """Fraction of cycles the tensor pipe was active."""
    dram_active_ratio: float | None = None
    """Fraction of cycles the device memory interface was transferring data."""
    fp64_active_ratio: float | None = None
    """Fraction of cycles the pipe for 64-bit floating-point numbers was active."""
    fp32_active_ratio: float | None = None
    """Fraction of cycles the pipe for 32-bit floating-point numbers was active."""
    fp16_active_ratio: float | None = None
    """Fraction of cycles the pipe for 16-bit floating-point numbers was active."""
    cores: tuple[Core, ...] = ()
    """Cores, on devices that report each core."""
    # memory
    memory_total_bytes: int | None = None
    """Total memory of the device."""
    memory_used_bytes: int | None = None
    """Memory in use, without memory reserved by the driver where the driver reports it separately."""
    memory_used_ratio: float | None = None
    """Memory in use as a fraction of the total, from outputs without sizes (`accelscope parse`). An agent
    reports sizes instead."""
    memory_free_bytes: int | None = None
    """Free memory of the device."""
    memory_reserved_bytes: int | None = None
    """Memory reserved by the driver or firmware."""
    bar1_total_bytes: int | None = None
    """Size of the PCIe BAR1 window."""
    bar1_used_bytes: int | None = None
    """Mapped bytes of the PCIe BAR1 window."""
    # power and heat
    temperature_celsius: float | None = None
    """Temperature of the device's main sensor."""
    sensors: tuple[Sensor, ...] = ()
    """All temperature sensors, including the main one."""
    temperature_slowdown_celsius: float | None = None
    """Temperature at which the device reduces its clocks."""
    temperature_shutdown_celsius: float | None = None
    """Temperature at which the device shuts down."""
    power_watts: float | None = None
    """Power draw of the device."""
    power_limit_watts: float | None = None
    """Power limit currently enforced."""
    power_limit_default_watts: float | None = None
    """Default power limit of the board."""
    power_limit_min_watts: float | None = None
    """Lowest power limit that can be set."""
    power_limit_max_watts: float | None = None
    """Highest power limit that can be set."""
    energy_joules: float | None = None
    """Energy used since the driver was loaded."""
    rails: tuple[Rail, ...] = ()
    """Supply rails. Rails can include each other, so do not add them up."""
    fans: tuple[Fan, ...] = ()
    """Fans."""
    clocks: tuple[Clock, ...] = ()
    """Clocks of the device."""
    throttles: tuple[Throttle, ...] = ()
    """Reasons for reduced clocks that the driver reports."""
    # connections
    pcie: Pcie | None = None
    """The PCIe link to the host."""
    links: tuple[Link, ...] = ()
    """Links to other devices."""
    # errors
    ecc: tuple[EccCount, ...] = ()
    """ECC memory errors, by severity, period and block."""
    remapped_rows: RemappedRows | None = None
    """Memory rows replaced by spare rows."""
    retired_pages: tuple[EccCount, ...] = ()
    """Retired memory pages, by severity of the errors that caused it."""
    errors: tuple[ErrorCount, ...] = ()
    """Errors reported by the driver, by code."""
    # parts
    partitions: tuple[Partition, ...] = ()
    """Parts that are allocated separately."""
    absent: tuple[Absence, ...] = ()
    """Values that the device did not report, with the reason."""


# What stays true of a device that cannot be read: the fields of Device under "identity".
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
    """Identity of the device and its partitions, without values."""
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
    """The id of a device: the vendor and the most stable of these facts, without masked ones.

    A parser of a tool's output may have only an index. The id is then `unidentified-0`, and a reader replaces
    it when a better source has the uuid.
    """
    fact = next((fact for fact in (uuid, serial, pci) if fact and not is_masked(fact)), None)
    if fact:
        return f"{vendor}:{fact}"
    return f"{vendor}:unidentified-{'?' if index is None else index}"


_PLACEHOLDER = re.compile(r"[*#?<>\u2026]|x{4}|redacted|masked|removed|hidden|anonym", re.IGNORECASE)
_SHORTEST_MASK = 8  # characters; a short serial number may well be one digit repeated


def is_masked(fact: str) -> bool:
    """Whether this uuid or serial number was overwritten before the output was shared. Several devices may
    then have the same value: `GPU-00000000-0000-0000-0000-000000000000`, `xxxx`, `1234***`."""
    if _PLACEHOLDER.search(fact):
        return True
    characters = fact.removeprefix("GPU-").removeprefix("MIG-").replace("-", "")
    return len(characters) >= _SHORTEST_MASK and len(set(characters)) == 1


_PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)


def pci_address(text: str) -> str | None:
    """One spelling for the addresses of all tools: `0000:0c:00.0`, lower case, four-digit domain unless it
    needs more."""
    match = _PCI_ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, slot, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{slot.lower()}.{function or '0'}"
