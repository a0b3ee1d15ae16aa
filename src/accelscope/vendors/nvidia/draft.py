"""A device while its cells are read: what each gave, why others gave nothing, and what that says of health.

A *place* is where a value goes in the model, as a path: `power_watts`, `pcie.generation`, `clocks.sm.max`,
`ecc.corrected.lifetime.dram`. The parsers of CSV and XML say which of their fields go to which place; several
may go to one place, the preferred first. The same paths name what is absent.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from accelscope.model import (
    Absence,
    AbsenceReason,
    Clock,
    Device,
    EccCount,
    Fan,
    Health,
    HealthState,
    Partition,
    Pcie,
    Rail,
    Rejection,
    RemappedRows,
    Sensor,
    Throttle,
    Vendor,
)
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.readers.nvidia import cells
from accelscope.readers.nvidia.health import answers_with_errors, asks_for_recovery
from accelscope.readers.nvidia.identity import gpu_id
from accelscope.readers.nvidia.throttles import THROTTLE_BITS

# Of these, one absence stands for all when no member is there and all give the same reason: a GeForce has no
# ECC, rather than forty counters that it lacks.
_GROUPS = ("pcie", "clocks", "throttles", "ecc", "retired_pages", "remapped_rows", "fans", "rails")
_PLACES = ("index", "uuid", "pci_address")
_IDENTITY = (*_PLACES, "serial")
_NAMES = (*_IDENTITY, "model", "driver_version", "firmware_version", "architecture", "device_name")
_CELL_LIMIT = 200  # characters of a rejected cell that are kept


@dataclass(slots=True)
class Draft:
    values: dict[str, Any] = field(default_factory=dict)
    absences: dict[str, AbsenceReason] = field(default_factory=dict)
    rejected: list[Rejection] = field(default_factory=list)
    recovery_action: str | None = None
    partitions: list[Partition] = field(default_factory=list)
    row: int | None = None  # in the output, for an id where nothing identifies the device

    def take(self, place: str, text: str, read: cells.Read, source: str) -> None:
        """Read one cell into its place, unless a preferred cell is there already."""
        if place in self.values:
            return
        reason = cells.absence(text)
        if reason is None:
            value = read(text)
            if value is not None:
                self.values[place] = value
                self.absences.pop(place, None)
                return
            self.rejected.append(Rejection(f"{source}: {text.strip()[:_CELL_LIMIT]}", "unreadable"))
            reason = AbsenceReason.UNREADABLE
        self.absences.setdefault(place, reason)

    def take_told(self, place: str, text: str | None, read: cells.Read, source: str) -> None:
        """The same for a cell that may not be there at all, or be empty: then nothing was asked."""
        if text:
            self.take(place, text, read, source)

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
            self.recovery_action = text.strip()[:_CELL_LIMIT]

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
            return f"{Vendor.NVIDIA}:unidentified-row-{self.row}"
        return made

    def device(self) -> Device:
        scalars = {place: value for place, value in self.values.items() if "." not in place}
        pcie = dict(self._members("pcie"))
        remapped = dict(self._members("remapped_rows"))
        return Device(
            vendor=Vendor.NVIDIA,
            id=self.id,
            health=self.health(),
            sensors=tuple(self._sensors()),
            rails=tuple(Rail(name, volts=volts) for name, volts in self._members("rails")),
            fans=tuple(Fan(int(index), speed_ratio=speed) for index, speed in self._members("fans")),
            clocks=tuple(self._clocks()),
            throttles=tuple(Throttle(reason, active) for reason, active in self._members("throttles")),
            pcie=Pcie(**pcie) if pcie else None,
            ecc=tuple(self._ecc()),
            remapped_rows=RemappedRows(**remapped) if remapped else None,
            retired_pages=tuple(
                EccCount(severity, lifetime=True, count=count)
                for severity, count in self._members("retired_pages")
            ),
            partitions=tuple(self.partitions),
            absent=tuple(self._absent()),
            **scalars,
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

    def _members(self, group: str) -> Iterator[tuple[str, Any]]:
        prefix = f"{group}."
        for place, value in self.values.items():
            if place.startswith(prefix):
                yield place[len(prefix) :], value

    def _sensors(self) -> Iterator[Sensor]:
        if "temperature_celsius" in self.values:
            yield Sensor("gpu", self.values["temperature_celsius"])
        for name, celsius in self._members("sensors"):
            yield Sensor(name, celsius)

    def _clocks(self) -> Iterator[Clock]:
        told = dict(self._members("clocks"))
        for domain in dict.fromkeys(path.removesuffix(".max") for path in told):
            yield Clock(domain, hertz=told.get(domain), max_hertz=told.get(f"{domain}.max"))

    def _ecc(self) -> Iterator[EccCount]:
        for path, count in self._members("ecc"):
            severity, span, *parts = path.split(".")
            block = parts[0] if parts else None
            if block in ("sram_parity", "sram_secded") and f"ecc.{severity}.{span}.sram" in self.values:
                continue  # parts of a part: sums over blocks would count them twice
            yield EccCount(severity, lifetime=span == "lifetime", count=count, block=block)

    def _absent(self) -> Iterator[Absence]:
        whole = {}
        for group in _GROUPS:
            reasons = {r for place, r in self.absences.items() if place.split(".")[0] == group}
            if len(reasons) == 1 and not any(self._members(group)):
                whole[group] = reasons.pop()
        for group, reason in whole.items():
            yield Absence(group, reason)
        for place, reason in self.absences.items():
            if place.split(".")[0] not in whole and not self._lacks_block(place, reason):
                yield Absence(place, reason)

    def _lacks_block(self, place: str, reason: AbsenceReason) -> bool:
        """An ECC counter of a block that this chip does not have, beside those that it has, is not missed."""
        return place.startswith("ecc.") and place.count(".") == 3 and reason is AbsenceReason.NOT_SUPPORTED
