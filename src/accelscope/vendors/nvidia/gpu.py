"""What NVML and nvidia-smi share about a GPU: id, throttle reasons, temperature limits and health."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from accelscope.model import (
    FAULT_THROTTLES,
    Absence,
    AbsenceReason,
    Device,
    EccCount,
    ErrorCount,
    Health,
    HealthState,
    Partition,
    RemappedRows,
    Throttle,
    Vendor,
    device_id,
)
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.vendors.common.draft import TEXT_LIMIT, DeviceDraft
from accelscope.vendors.nvidia import cells

# Which GPU it is that nvidia-smi tells of, from one reading to the next.


def gpu_id(
    *,
    uuid: str | None = None,
    serial: str | None = None,
    pci: str | None = None,
    index: int | None = None,
) -> str:
    """The id of a GPU: by uuid, else by PCI address, else by serial number.

    The serial number is that of the board. The GPUs of one board share it, so the address goes first. A
    number of zeros only says that the board has none.
    """
    usable = serial if pci is None and serial is not None and serial.strip("0") else None
    return device_id(Vendor("nvidia"), uuid=uuid, serial=usable, pci=pci, index=index)


def with_ids_of_their_own(devices: Collection[Device]) -> list[Device]:
    """A uuid that several GPUs of one output have identifies none of them: it may be a mask that is not known
    as one."""
    uses = Counter(device.id for device in devices)
    return [
        replace(device, id=gpu_id(serial=device.serial, pci=device.pci_address, index=device.index))
        if uses[device.id] > 1
        else device
        for device in devices
    ]


def identified(device: Device, ids_by_address: dict[str, str]) -> Device:
    """A GPU that fell off the bus is named by its address only: it is the one that was there before.
    `ids_by_address` is kept from one reading of the node to the next."""
    if device.pci_address is None:
        return device
    if device.uuid is not None:
        ids_by_address[device.pci_address] = device.id
        return device
    return replace(device, id=ids_by_address.get(device.pci_address, device.id))


# Why clocks are held back: one bit for each reason, as NVML numbers them.

# Those that nvidia-smi has names for, too.
THROTTLE_BITS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
NVML_THROTTLE_BITS = {**THROTTLE_BITS, 0x200: "board_limit", 0x400: "reliability"}


# Temperature limits that a driver gives as margins ("T.Limit").


def limit_by_margin(celsius: float, margin: float, threshold: float) -> float:
    """The limit in degrees. `margin` is how far the GPU is from its highest operating temperature now, and
    `threshold` the margin at which the limit is reached: -2 means two degrees beyond it."""
    return celsius + margin - threshold


# From what an NVIDIA driver tells about a GPU to its health.

# XIDs that speak of the hardware, not of a program's own fault (NVIDIA's XID catalogue).
HARDWARE_XIDS = frozenset({"48", "62", "63", "64", "74", "79", "92", "94", "95", "119", "120", "140", "154"})
XID_IS_RECENT_SECONDS = 600.0

# What every GPU tells one way or another: of a driver that fails at all of these nothing good is known.
_VITAL = frozenset({"utilization_ratio", "temperature_celsius", "power_watts", "memory_total_bytes"})

_NO_RECOVERY = 0
_RECOVERY_ACTIONS = {  # nvmlDeviceGpuRecoveryAction_t
    1: "the driver asks for a reset of the GPU",
    2: "the driver asks for a reboot of the node",
    3: "the driver asks to drain peer-to-peer work",
    4: "the driver asks to drain the GPU and reset it",
    5: "the driver asks to recover the IMEX domain",
    6: "the driver asks for a reset of the bus",
    7: "the driver asks for a reboot of the system",
}


def health_of(
    *,
    now: float,
    remapped: RemappedRows | None,
    ecc: Iterable[EccCount],
    errors: Iterable[ErrorCount],
    throttles: Iterable[Throttle],
    recovery_action: int | None,
    absent: Iterable[Absence] = (),
) -> Health:
    """The worst that holds. A GPU that answered and shows none of it is OK."""
    vital = [absence.reason for absence in absent if absence.field in _VITAL]
    failed = vital.count(AbsenceReason.DRIVER_ERROR)
    if failed and len(vital) == len(_VITAL):
        return answers_with_errors(failed, len(vital))
    found = _troubles(now, remapped, ecc, errors, throttles, recovery_action=recovery_action)
    return next(found, Health(HealthState.OK))


def answers_with_errors(errors: int, questions: int) -> Health:
    reason = f"the driver answers {errors} of {questions} questions with an error"
    return Health(HealthState.CRITICAL, reason, "Unknown Error")


def asks_for_recovery(action: str) -> Health:
    """In the driver's own word."""
    return Health(HealthState.CRITICAL, f"the driver asks for a recovery action: {action}", action)


def judged(device: Device, now: float) -> Device:
    """A row of nvidia-smi with its own word about its health, else with what its values say."""
    if device.health != UNKNOWN_HEALTH:
        return device
    health = health_of(
        now=now,
        remapped=device.remapped_rows,
        ecc=device.ecc,
        errors=device.errors,
        throttles=device.throttles,
        recovery_action=None,
    )
    return replace(device, health=health)


def _troubles(
    now: float,
    remapped: RemappedRows | None,
    ecc: Iterable[EccCount],
    errors: Iterable[ErrorCount],
    throttles: Iterable[Throttle],
    *,
    recovery_action: int | None,
) -> Iterator[Health]:
    """Everything that is wrong, worst first."""
    if remapped is not None and remapped.failed:
        yield Health(HealthState.CRITICAL, "a memory row could not be remapped: the board needs replacing")
    if recovery_action in _RECOVERY_ACTIONS:
        yield Health(HealthState.CRITICAL, _RECOVERY_ACTIONS[recovery_action])
    elif recovery_action is not None and recovery_action != _NO_RECOVERY:
        yield asks_for_recovery(str(recovery_action))
    recent = sorted(
        e.code
        for e in errors
        if e.kind == "xid"
        and e.code in HARDWARE_XIDS
        and e.last_seen is not None
        and now - e.last_seen < XID_IS_RECENT_SECONDS
    )
    if recent:
        yield Health(HealthState.WARNING, f"XID {', '.join(recent)} in the last ten minutes")
    if remapped is not None and remapped.pending:
        yield Health(HealthState.WARNING, "memory rows wait for a GPU reset to be remapped")
    if any(e.severity == "uncorrected" and not e.lifetime and e.block is None and e.count for e in ecc):
        yield Health(HealthState.WARNING, "uncorrected memory errors since the driver was loaded")
    slowed = {throttle.reason for throttle in throttles if throttle.active} & FAULT_THROTTLES
    if slowed == {"sw_thermal_slowdown"}:
        yield Health(HealthState.WARNING, "slowed down by the driver: heat")
    elif slowed:
        yield Health(HealthState.WARNING, "slowed down by hardware: heat or power supply")


# --- draft ------------------------------------------------------------
# The draft of an NVIDIA GPU, and what the driver's answers mean for its health.


_PLACES = ("index", "uuid", "pci_address")
_IDENTITY = (*_PLACES, "serial")
_NAMES = (*_IDENTITY, "model", "driver_version", "firmware_version", "architecture", "device_name")


@dataclass(slots=True)
class NvidiaDraft(DeviceDraft):
    vendor: ClassVar[Vendor] = Vendor("nvidia")
    groups: ClassVar[tuple[str, ...]] = (
        "pcie",
        "clocks",
        "throttles",
        "ecc",
        "retired_pages",
        "remapped_rows",
        "fans",
        "rails",
    )
    main_sensor: ClassVar[str | None] = "gpu"

    recovery_action: str | None = None
    partitions: list[Partition] = field(default_factory=list)
    row: int | None = None  # in the output, for an id where nothing identifies the device

    def absence(self, place: str, text: str) -> AbsenceReason | None:
        del place
        return cells.absence(text)

    def is_missed(self, place: str, reason: AbsenceReason) -> bool:
        """An ECC counter of a block that this chip does not have, beside those that it has, is not missed."""
        is_block = place.startswith("ecc.") and place.count(".") == 3
        return not (is_block and reason is AbsenceReason.NOT_SUPPORTED)

    def take_throttle_masks(self, active: str | None, supported: str | None) -> None:
        """The reasons as two sets of bits; those told one by one are kept."""
        at_work = cells.mask(active or "")
        if at_work is None:
            return
        known = cells.mask(supported or "")
        for bit, reason in THROTTLE_BITS.items():
            if known is None or known & bit:
                self.values.setdefault(f"throttles.{reason}", bool(at_work & bit))
                self.absences.pop(f"throttles.{reason}", None)

    def take_recovery_action(self, text: str) -> None:
        if cells.absence(text) is None and text.strip().casefold() not in ("none", "no"):
            self.recovery_action = text.strip()[:TEXT_LIMIT]

    @property
    def identified(self) -> bool:
        """Whether a cell tells which device this is. Any word may be a serial number, so that one tells only
        where nothing better was asked for."""
        if any(place in self.values or place in self.absences for place in _PLACES):
            return any(place in self.values for place in _PLACES)
        return "serial" in self.values

    @property
    def unidentified_because(self) -> str:
        """Why no cell tells which device this is, as a word that can be counted."""
        return next((self.absences[place] for place in _IDENTITY if place in self.absences), "no_identity")

    @property
    def id(self) -> str:
        told = self.values
        made = gpu_id(
            uuid=told.get("uuid"),
            serial=told.get("serial"),
            pci=told.get("pci_address"),
            index=told.get("index"),
        )
        if self.row is not None and made == gpu_id():
            return f"{self.vendor}:unidentified-row-{self.row}"
        return made

    def device(self) -> Device:
        return self.build(
            self.id, health=self.health(), ecc=tuple(self._ecc()), partitions=tuple(self.partitions)
        )

    def health(self) -> Health:
        """What the driver itself says is wrong; a row that reads well says nothing of health, so it stays
        unknown here and the reader, which sees more, decides."""
        reasons = list(self.absences.values())
        if AbsenceReason.LOST in reasons:
            return Health(HealthState.LOST, "the driver has lost the GPU: it fell off the bus", "GPU is lost")
        if AbsenceReason.RESET_REQUIRED in reasons:
            return Health(HealthState.CRITICAL, "the GPU must be reset", "GPU requires reset")
        measured = [reason for place, reason in self.absences.items() if place not in _NAMES]
        read_well = sum(place not in _NAMES for place in self.values)
        errors = measured.count(AbsenceReason.DRIVER_ERROR)
        if errors > (len(measured) + read_well) / 2:
            return answers_with_errors(errors, len(measured) + read_well)
        if self.recovery_action is not None:
            return asks_for_recovery(self.recovery_action)
        return UNKNOWN_HEALTH

    def _ecc(self) -> Iterator[EccCount]:
        for path, count in self.members("ecc").items():
            severity, span, *parts = path.split(".")
            block = parts[0] if parts else None
            if block in ("sram_parity", "sram_secded") and f"ecc.{severity}.{span}.sram" in self.values:
                continue  # parts of a part: sums over blocks would count them twice
            yield EccCount(severity, lifetime=span == "lifetime", count=count, block=block)
