"""A device as one driver shows it at one instant: identity and values, `None` where absent."""

import re
from dataclasses import dataclass
from enum import StrEnum

from accelscope.model.health import UNKNOWN_HEALTH, Absence, Health
from accelscope.vendors import declarations


class Vendor(StrEnum):
    """The name of a vendor: one member per declaration in `accelscope.vendors`."""

    _ignore_ = "vendor"
    for vendor in declarations():
        vars()[vendor.upper()] = vendor


@dataclass(frozen=True, slots=True)
class Sensor:
    """One temperature sensor."""

    name: str
    """As the driver names it: `gpu`, `memory`, `hbm` …"""
    celsius: float
    """Its temperature."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of one part."""

    domain: str
    """The part: `graphics`, `sm`, `memory`, `video`, `aicore`, `npu` …"""
    hertz: float | None = None
    """Clock now."""
    max_hertz: float | None = None
    """Highest clock."""


@dataclass(frozen=True, slots=True)
class Fan:
    """One fan."""

    index: int
    """Its number on the device."""
    speed_ratio: float | None = None
    """Speed as a share of the fastest that it is meant to turn."""
    speed_rpm: float | None = None
    """Speed as measured."""


@dataclass(frozen=True, slots=True)
class Rail:
    """One supply rail."""

    name: str
    """As the board names it."""
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
    """Its number on the device."""
    utilization_ratio: float | None = None
    """Fraction of the period in which it ran."""
    clock_hertz: float | None = None
    """Its clock."""
    occupied: bool | None = None
    """Somebody holds it, whether or not it runs."""
    cycles_total: int | None = None
    """Furiosa RNGD: cycles since the card was started."""
    task_cycles_total: int | None = None
    """Furiosa RNGD: of these, the cycles in which a task ran."""


@dataclass(frozen=True, slots=True)
class Pcie:
    """The link to the host. Transmit is from the device to the host."""

    generation: int | None = None
    """PCIe generation now."""
    max_generation: int | None = None
    """Highest that device and slot allow."""
    width: int | None = None
    """Lanes in use now."""
    max_width: int | None = None
    """Lanes that device and slot allow."""
    replays_total: int | None = None
    """Packets that had to be sent again."""
    transmit_bytes_total: float | None = None
    """Sent so far."""
    receive_bytes_total: float | None = None
    """Received so far."""
    transmit_bytes_per_second: float | None = None
    """Sent, over the driver's own short window. Absent: not told, or there is a counter."""
    receive_bytes_per_second: float | None = None
    """Received, over the driver's own short window. Absent: not told, or there is a counter."""
    bytes_per_second: float | None = None
    """AMD: both directions together; its driver reports only that."""


@dataclass(frozen=True, slots=True)
class LinkErrors:
    """Errors of one kind on one link."""

    kind: str
    """`crc`, `replay`, `recovery`, `ecc` …"""
    count: int
    """How many so far."""


@dataclass(frozen=True, slots=True)
class Link:
    """One link between devices."""

    kind: str
    """`nvlink`, `xgmi` or `hccs`."""
    index: int
    """Its number on the device."""
    active: bool | None = None
    """It is up."""
    remote: str | None = None
    """PCI address of the other end."""
    bytes_per_second: float | None = None
    """What it can carry in one direction."""
    transmit_bytes_total: float | None = None
    """Sent so far."""
    receive_bytes_total: float | None = None
    """Received so far."""
    errors: tuple[LinkErrors, ...] = ()
    """Errors, by what went wrong."""


@dataclass(frozen=True, slots=True)
class EccCount:
    """Memory errors of one severity, or pages retired for them."""

    severity: str
    """`corrected`, `uncorrected` or `deferred`."""
    lifetime: bool
    """True: over the life of the board; false: since the driver was loaded."""
    count: int
    """How many."""
    block: str | None = None
    """Part of the device: `dram`, `sram`, `l2`, `gfx`, `umc` … Absent: of the device's total."""
    last_seen: float | None = None
    """When the count last grew, in seconds since the epoch. Absent: it has not grown since the agent
    started."""


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Errors of one code. Where a driver only reports events, these are counted from the start of the
    agent."""

    kind: str
    """`xid`, `ras`, `axi`, `pcie` …"""
    code: str
    """The driver's code."""
    count: int
    """How many."""
    last_seen: float | None = None
    """When one was last seen."""


@dataclass(frozen=True, slots=True)
class RemappedRows:
    """Memory rows that were replaced by spare ones."""

    correctable: int | None = None
    """Rows replaced for errors that were corrected."""
    uncorrectable: int | None = None
    """Rows replaced for errors that were not corrected."""
    pending: bool | None = None
    """Rows wait for a reset of the device to be replaced."""
    failed: bool | None = None
    """A row could not be replaced: the board is worn out."""


HARMLESS_THROTTLES = frozenset(
    word for vendor in declarations().values() for word in vendor.harmless_throttles
)
FAULT_THROTTLES = frozenset(word for vendor in declarations().values() for word in vendor.fault_throttles)

# A device is hot from so much below the temperature at which it slows itself down, or, where it does not tell
# that, from so much on.
HOT_MARGIN_CELSIUS = 5
HOT_CELSIUS = 90


@dataclass(frozen=True, slots=True)
class Throttle:
    """A reason to slow down that this driver knows. A reason that it does not know is not listed."""

    reason: str
    """As the driver names it: `sw_power_cap`, `socket_thermal` …"""
    active: bool
    """It is at work now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A part of a device that is handed out by itself: a MIG instance, a partition of an MI300 or RNGD.
    Memory that several partitions share is counted at the first of them only, so that sums are right."""

    id: str
    """Unique on the node, and the label `partition` of its series."""
    uuid: str | None = None
    """As the driver writes it."""
    index: int | None = None
    """Its number on the device."""
    device_name: str | None = None
    """AMD: the platform device that holds its render node, `amdgpu_xcp_1`. Absent: of other vendors."""
    profile: str | None = None
    """Its size, in the vendor's words: `1g.10gb`."""
    gpu_instance_id: int | None = None
    """MIG: the GPU instance. Absent: not of MIG."""
    compute_instance_id: int | None = None
    """MIG: the compute instance. Absent: not of MIG."""
    utilization_ratio: float | None = None
    """Fraction of time in which anything ran on it."""
    sm_active_ratio: float | None = None
    """As of the device."""
    tensor_active_ratio: float | None = None
    """As of the device."""
    dram_active_ratio: float | None = None
    """As of the device."""
    memory_total_bytes: int | None = None
    """Memory of the partition."""
    memory_used_bytes: int | None = None
    """Memory in use."""
    memory_free_bytes: int | None = None
    """Memory not in use."""
    multiprocessors: int | None = None
    """Multiprocessors that it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device. Of one that is `stale` there are its identity (down to `physical_id`), `health`, `stale`,
    `read_at` and `errors`, and no other fields."""

    # identity
    vendor: Vendor
    """Who made it."""
    id: str
    """Vendor and uuid, else serial number or PCI address (the order depends on the vendor): the same over
    reboots, and the label `device` of every series."""
    index: int | None = None
    """The number that the vendor's tools count with. It changes at a reboot: for people, not for keys."""
    model: str | None = None
    """Name of the product."""
    architecture: str | None = None
    """Name of the chip's generation."""
    uuid: str | None = None
    """As the driver writes it."""
    serial: str | None = None
    """Serial number of the board."""
    pci_address: str | None = None
    """Such as `0000:0c:00.0`, in lower case."""
    numa_node: int | None = None
    """NUMA node that it is attached to."""
    device_name: str | None = None
    """Name of its device file: `nvidia0`, `npu0`, `renderD128`."""
    device_number: str | None = None
    """Furiosa: major and minor number of its device file, `511:0` (PCI-DEV). Absent: of other vendors."""
    device_files: tuple[str, ...] = ()
    """Furiosa: names of the files that open all of its cores or some of them."""
    driver_version: str | None = None
    """Version of the driver."""
    firmware_version: str | None = None
    """Version of the firmware or VBIOS. AMD: the part number of the VBIOS."""
    vbios_version: str | None = None
    """AMD: version of the VBIOS. Only `amd-smi` reports it."""
    part_number: str | None = None
    """AMD: part number of the board: `102-G30211-0C`."""
    pci_device_id: str | None = None
    """AMD and Ascend: number of the chip in the PCI list: `0x74a1`."""
    runtime_version: str | None = None
    """Furiosa RNGD: version of the run-time of its cores (PERT). Absent: of other vendors."""
    revision: str | None = None
    """Revision of the silicon: `B0`."""
    board_id: int | None = None
    """Ascend: the NPU id. Absent: of other vendors."""
    chip_id: int | None = None
    """Ascend: the chip of the NPU. Absent: of other vendors."""
    chip_count: int | None = None
    """Ascend: how many chips the NPU has. Absent: of other vendors."""
    physical_id: int | None = None
    """Ascend: the Phy-ID. Absent: of other vendors."""
    # state
    health: Health = UNKNOWN_HEALTH
    """One scale for all vendors."""
    stale: bool = False
    """It did not answer the last attempt to read it."""
    read_at: float | None = None
    """When it was last read. Absent: never read."""
    uptime_seconds: float | None = None
    """Time since the device was started."""
    performance_state: int | None = None
    """0 is the fastest."""
    governor: str | None = None
    """Furiosa RNGD: which clocks the driver chooses, `performance` or `powersave`. Absent: of other
    vendors."""
    persistence_mode: bool | None = None
    """The driver stays loaded without clients."""
    ecc_enabled: bool | None = None
    """Error correction of memory is on."""
    mig_enabled: bool | None = None
    """It is cut into MIG instances."""
    compute_partition: str | None = None
    """AMD: `SPX`, `DPX`, `CPX` … Absent: of other vendors."""
    memory_partition: str | None = None
    """AMD: `NPS1`, `NPS4` … Absent: of other vendors."""
    # use
    utilization_ratio: float | None = None
    """Fraction of the driver's last sample period in which something ran."""
    memory_utilization_ratio: float | None = None
    """Fraction of the driver's last sample period in which memory was read or written, not how full it is."""
    encoder_utilization_ratio: float | None = None
    """Use of the video encoders."""
    decoder_utilization_ratio: float | None = None
    """Use of the video decoders."""
    jpeg_utilization_ratio: float | None = None
    """Use of the JPEG engines."""
    optical_flow_utilization_ratio: float | None = None
    """Use of the optical flow engine."""
    vector_utilization_ratio: float | None = None
    """Use of the vector cores."""
    control_cpu_utilization_ratio: float | None = None
    """Ascend: use of the CPUs on the chip that control it."""
    overall_utilization_ratio: float | None = None
    """Ascend: use of the chip as a whole, where the driver reports it beside that of the AI cores."""
    graphics_active_ratio: float | None = None
    """Fraction of time in which the graphics or compute engine was active."""
    sm_active_ratio: float | None = None
    """Fraction of time in which at least one warp was on a multiprocessor, averaged over all of them."""
    sm_occupancy_ratio: float | None = None
    """Resident warps as a share of what the multiprocessors could hold."""
    tensor_active_ratio: float | None = None
    """Fraction of cycles in which a tensor pipe was active."""
    dram_active_ratio: float | None = None
    """Fraction of cycles in which device memory was sending or receiving."""
    fp64_active_ratio: float | None = None
    """Fraction of cycles in which the pipe for 64-bit floats was active."""
    fp32_active_ratio: float | None = None
    """Fraction of cycles in which the pipe for 32-bit floats was active."""
    fp16_active_ratio: float | None = None
    """Fraction of cycles in which the pipe for 16-bit floats was active."""
    cores: tuple[Core, ...] = ()
    """Cores, of a device that shows them singly."""
    # memory
    memory_total_bytes: int | None = None
    """Memory of the device."""
    memory_used_bytes: int | None = None
    """Memory in use, without what the driver reserves where it tells that apart."""
    memory_used_ratio: float | None = None
    """How full the memory is, in outputs without sizes (`accelscope parse`). An agent reports sizes
    instead."""
    memory_free_bytes: int | None = None
    """Memory not in use."""
    memory_reserved_bytes: int | None = None
    """Memory that the driver or firmware keeps for itself."""
    bar1_total_bytes: int | None = None
    """Size of the PCIe BAR1 window."""
    bar1_used_bytes: int | None = None
    """Mapped part of the PCIe BAR1 window."""
    # power and heat
    temperature_celsius: float | None = None
    """Temperature at the main sensor."""
    sensors: tuple[Sensor, ...] = ()
    """All temperature sensors, the main one included."""
    temperature_slowdown_celsius: float | None = None
    """At which the device slows itself down."""
    temperature_shutdown_celsius: float | None = None
    """At which the device shuts itself down."""
    power_watts: float | None = None
    """Power drawn."""
    power_limit_watts: float | None = None
    """Power limit that is enforced now."""
    power_limit_default_watts: float | None = None
    """Power limit of the board as it is delivered."""
    power_limit_min_watts: float | None = None
    """Lowest limit that can be set."""
    power_limit_max_watts: float | None = None
    """Highest limit that can be set."""
    energy_joules: float | None = None
    """Energy used since the driver was loaded."""
    rails: tuple[Rail, ...] = ()
    """Supply rails. They may contain one another: not for sums."""
    fans: tuple[Fan, ...] = ()
    """Fans."""
    clocks: tuple[Clock, ...] = ()
    """Clocks of the device's parts."""
    throttles: tuple[Throttle, ...] = ()
    """Every reason to slow down that this driver knows."""
    # connections
    pcie: Pcie | None = None
    """The link to the host."""
    links: tuple[Link, ...] = ()
    """Links to other devices."""
    # errors
    ecc: tuple[EccCount, ...] = ()
    """Memory errors, by severity, span and part."""
    remapped_rows: RemappedRows | None = None
    """Memory rows that were replaced by spare ones."""
    retired_pages: tuple[EccCount, ...] = ()
    """Memory pages taken out of use, by the severity of the errors that led to it."""
    errors: tuple[ErrorCount, ...] = ()
    """Errors that the driver reported by code."""
    # parts
    partitions: tuple[Partition, ...] = ()
    """Parts that are handed out by themselves."""
    absent: tuple[Absence, ...] = ()
    """Values that the device did not give, and why."""


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
