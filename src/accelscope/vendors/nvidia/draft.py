"""The draft of an NVIDIA GPU, and what the driver's answers mean for its health."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from accelscope.model import AbsenceReason, Device, EccCount, Health, HealthState, Partition, Vendor
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.vendors.common.draft import TEXT_LIMIT, DeviceDraft
from accelscope.vendors.nvidia import cells
from accelscope.vendors.nvidia.gpu import THROTTLE_BITS, answers_with_errors, asks_for_recovery, gpu_id

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
