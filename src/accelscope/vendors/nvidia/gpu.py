"""What the NVML and nvidia-smi sources share: a GPU's id, throttle reasons, temperature limits and health."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from typing import ClassVar

from accelscope.model import (
    FAULT_THROTTLES,
    Absence,
    AbsenceReason,
    Device,
    EccCount,
    Health,
    HealthState,
    Partition,
    RemappedRows,
    Throttle,
    Vendor,
    device_id,
)
from accelscope.model.device import UNKNOWN_HEALTH
from accelscope.vendors.common.draft import TEXT_LIMIT, DeviceDraft
from accelscope.vendors.nvidia import cells

# Health of a GPU that does not answer, whichever source reports it.
LOST_TEXT = "GPU lost"
RESET_TEXT = "GPU requires a reset"

# Throttle reasons by their bit in NVML's mask. nvidia-smi has names for these, too.
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


def gpu_id(
    *,
    uuid: str | None = None,
    serial: str | None = None,
    pci: str | None = None,
    index: int | None = None,
) -> str:
    """The id of a GPU: by uuid, else by PCI address, else by serial number.

    The GPUs of one board share its serial number, so the address comes first. A serial number of zeros means
    that the board has none.
    """
    usable = serial if pci is None and serial is not None and serial.strip("0") else None
    return device_id(Vendor("nvidia"), uuid=uuid, serial=usable, pci=pci, index=index)


def with_distinct_ids(devices: Collection[Device]) -> list[Device]:
    """Replace an id that several GPUs of one output share. Their uuid is then a mask that was not recognised
    as one."""
    uses = Counter(device.id for device in devices)
    return [
        replace(device, id=gpu_id(serial=device.serial, pci=device.pci_address, index=device.index))
        if uses[device.id] > 1
        else device
        for device in devices
    ]


def with_known_id(device: Device, ids_by_address: dict[str, str]) -> Device:
    """Restore the id of a GPU that fell off the bus: the tool then prints only its address. The caller keeps
    `ids_by_address` between readings of a node."""
    if device.pci_address is None:
        return device
    if device.uuid is not None:
        ids_by_address[device.pci_address] = device.id
        return device
    return replace(device, id=ids_by_address.get(device.pci_address, device.id))


def limit_by_margin(celsius: float, margin: float, threshold: float) -> float:
    """A temperature limit in degrees, from a driver that reports margins ("T.Limit").

    `margin` is the distance to the highest operating temperature now; `threshold` is the margin at which the
    limit is reached, -2 for two degrees above that temperature.
    """
    return celsius + margin - threshold


# Values that every GPU has in some form. A driver that returns none of them is failing.
_VITAL = frozenset({"utilization_ratio", "temperature_celsius", "power_watts", "memory_total_bytes"})

_NO_RECOVERY = 0
_RESET = "Drain the GPU and reset it; if that fails, reboot the node"
_REBOOT = "Drain the node and reboot it"
_RECOVERY_ACTIONS = {  # nvmlDeviceGpuRecoveryAction_t: reason, action, what ends it
    1: ("the driver requests a GPU reset", _RESET, "reset"),
    2: ("the driver requests a node reboot", _REBOOT, "reboot"),
    3: (
        "the driver requests that peer-to-peer traffic is drained",
        "Wait until the jobs that use NVLink between GPUs have ended",
        "condition",
    ),
    4: ("the driver requests that the GPU is drained and reset", _RESET, "reset"),
    5: (
        "the driver requests recovery of the IMEX domain",
        "End the jobs of its NVLink domain, then restart nvidia-imex on the domain's nodes",
        "condition",
    ),
    6: ("the driver requests a bus reset", _REBOOT, "reset"),
    7: ("the driver requests a system reboot", _REBOOT, "reboot"),
}


def find_problems(
    *,
    remapped: RemappedRows | None,
    ecc: Iterable[EccCount],
    throttles: Iterable[Throttle],
    recovery_action: int | None,
    absent: Iterable[Absence] = (),
) -> tuple[Health, ...]:
    """The problems that the driver reports of a GPU that answered, the worst first."""
    vital = [absence.reason for absence in absent if absence.field in _VITAL]
    failed = vital.count(AbsenceReason.DRIVER_ERROR)
    if failed and len(vital) == len(_VITAL):
        return (failed_queries(failed, len(vital)),)
    return tuple(_problems(remapped, ecc, throttles, recovery_action))


def failed_queries(failed: int, total: int) -> Health:
    reason = f"the driver returned an error for {failed} of {total} values"
    return Health(
        HealthState.CRITICAL, reason, "Unknown Error", "driver_error", action=_RESET, until="condition"
    )


def recovery_requested(action: str) -> Health:
    """`action` is the driver's name for it."""
    reason = f"the driver requests a recovery action: {action}"
    return Health(HealthState.CRITICAL, reason, action, "reset_required", action=_RESET, until="reset")


def reset_required() -> Health:
    return Health(
        HealthState.CRITICAL, RESET_TEXT, "GPU requires reset", "reset_required", action=_RESET, until="reset"
    )


def problems_of(device: Device) -> tuple[Health, ...]:
    """The problems in a row of nvidia-smi, the worst first. A problem that the tool itself reported is the
    only one."""
    if device.health != UNKNOWN_HEALTH:
        return (device.health,)
    return find_problems(
        remapped=device.remapped_rows, ecc=device.ecc, throttles=device.throttles, recovery_action=None
    )


def with_health(device: Device) -> Device:
    """The device of a row of nvidia-smi, with its worst problem."""
    return replace(device, health=next(iter(problems_of(device)), Health(HealthState.OK)))


def _problems(
    remapped: RemappedRows | None,
    ecc: Iterable[EccCount],
    throttles: Iterable[Throttle],
    recovery_action: int | None,
) -> Iterator[Health]:
    if remapped is not None and remapped.failed:
        yield Health(
            HealthState.CRITICAL,
            "a memory row could not be remapped",
            cause="row_remap_failed",
            action="Drain the node and have the board replaced",
            origin="hardware",
            until="replacement",
        )
    if recovery_action in _RECOVERY_ACTIONS:
        reason, action, until = _RECOVERY_ACTIONS[recovery_action]
        yield Health(HealthState.CRITICAL, reason, cause="reset_required", action=action, until=until)
    elif recovery_action is not None and recovery_action != _NO_RECOVERY:
        yield recovery_requested(str(recovery_action))
    if remapped is not None and remapped.pending:
        yield Health(
            HealthState.WARNING,
            "row remapping is pending until the next GPU reset",
            cause="row_remap_pending",
            action="Drain the GPU when possible and reset it, which activates spare rows",
            origin="hardware",
            until="reset",
        )
    if any(e.severity == "uncorrected" and not e.lifetime and e.block is None and e.count for e in ecc):
        yield Health(
            HealthState.WARNING,
            "uncorrected memory errors since the driver was loaded",
            cause="ecc_uncorrected",
            action="Jobs may have failed: drain the GPU and reset it; if errors continue, replace the board",
            origin="hardware",
            until="reset",
        )
    active = {throttle.reason for throttle in throttles if throttle.active} & FAULT_THROTTLES
    if active:
        power_only = active == {"hw_power_brake_slowdown"}
        yield Health(
            HealthState.WARNING,
            _throttle_text(active),
            cause="power_brake" if power_only else "throttled",
            action="Check the power supply" if power_only else "Check fans, airflow and power supply",
            origin="environment",
            until="condition",
        )


def _throttle_text(active: Set[str]) -> str:
    causes = []
    if active & {"sw_thermal_slowdown", "hw_thermal_slowdown"}:
        causes.append("temperature")
    if "hw_power_brake_slowdown" in active:
        causes.append("power brake")
    # hw_slowdown alone does not name its cause.
    source = "driver" if active == {"sw_thermal_slowdown"} else "hardware"
    return f"throttled by {source}: {' and '.join(causes) or 'temperature or power'}"


_LOCATORS = ("index", "uuid", "pci_address")
_IDENTITY = (*_LOCATORS, "serial")
_DESCRIPTIVE = (*_IDENTITY, "model", "driver_version", "firmware_version", "architecture", "device_name")


@dataclass(slots=True)
class NvidiaDraft(DeviceDraft):
    """A GPU while it is built from the cells of an output of nvidia-smi."""

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
    row: int | None = None  # its number in the output: the id of a device that nothing else identifies

    def absence(self, place: str, text: str) -> AbsenceReason | None:
        del place
        return cells.absence(text)

    def is_missed(self, place: str, reason: AbsenceReason) -> bool:
        """False for the ECC counter of a block that the chip does not have."""
        is_block = place.startswith("ecc.") and place.count(".") == 3
        return not (is_block and reason is AbsenceReason.NOT_SUPPORTED)

    def take_throttle_masks(self, active: str | None, supported: str | None) -> None:
        """Read the throttle reasons from bit masks. Reasons that have a column of their own stay."""
        active_mask = cells.mask(active or "")
        if active_mask is None:
            return
        supported_mask = cells.mask(supported or "")
        for bit, reason in THROTTLE_BITS.items():
            if supported_mask is None or supported_mask & bit:
                self.values.setdefault(f"throttles.{reason}", bool(active_mask & bit))
                self.absences.pop(f"throttles.{reason}", None)

    def take_recovery_action(self, text: str) -> None:
        if cells.absence(text) is None and text.strip().casefold() not in ("none", "no"):
            self.recovery_action = text.strip()[:TEXT_LIMIT]

    @property
    def is_identified(self) -> bool:
        """Whether a cell identifies the device. The serial number counts only if no better column was
        queried, since any word may be one."""
        if any(place in self.values or place in self.absences for place in _LOCATORS):
            return any(place in self.values for place in _LOCATORS)
        return "serial" in self.values

    @property
    def unidentified_reason(self) -> str:
        return next((self.absences[place] for place in _IDENTITY if place in self.absences), "no_identity")

    @property
    def id(self) -> str:
        values = self.values
        result = gpu_id(
            uuid=values.get("uuid"),
            serial=values.get("serial"),
            pci=values.get("pci_address"),
            index=values.get("index"),
        )
        if self.row is not None and result == gpu_id():
            return f"{self.vendor}:unidentified-row-{self.row}"
        return result

    def device(self) -> Device:
        return self.build(
            self.id, health=self.health(), ecc=tuple(self._ecc()), partitions=tuple(self.partitions)
        )

    def health(self) -> Health:
        """A problem that the driver itself reports. Otherwise unknown: `with_health` decides later."""
        reasons = list(self.absences.values())
        if AbsenceReason.LOST in reasons:
            return Health(HealthState.LOST, LOST_TEXT, "GPU is lost", "lost")
        if AbsenceReason.RESET_REQUIRED in reasons:
            return reset_required()
        absent = [reason for place, reason in self.absences.items() if place not in _DESCRIPTIVE]
        total = len(absent) + sum(place not in _DESCRIPTIVE for place in self.values)
        failed = absent.count(AbsenceReason.DRIVER_ERROR)
        if failed > total / 2:
            return failed_queries(failed, total)
        if self.recovery_action is not None:
            return recovery_requested(self.recovery_action)
        return UNKNOWN_HEALTH

    def _ecc(self) -> Iterator[EccCount]:
        for path, count in self.members("ecc").items():
            severity, span, *parts = path.split(".")
            block = parts[0] if parts else None
            if block in ("sram_parity", "sram_secded") and f"ecc.{severity}.{span}.sram" in self.values:
                continue  # already counted in `sram`
            yield EccCount(severity, lifetime=span == "lifetime", count=count, block=block)
