"""The draft of an AMD GPU."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from accelscope.model import (
    AbsenceReason,
    Core,
    Device,
    EccCount,
    ErrorCount,
    Health,
    Link,
    Partition,
    Vendor,
    device_id,
)
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.vendors.amd import quantities
from accelscope.vendors.common.draft import DeviceDraft

# Beside members that are there, members of these that the device does not have are not missed: chips differ
# in their parts.
_PARTS = ("throttles", "ecc", "errors", "cores", "clocks", "rails")
# Where there is no edge sensor (Instinct from MI300 on), the hottest spot of the chip is what is told.
_MAIN_SENSORS = ("edge", "junction", "core")
_NUMBERED = ("uuid", "serial")


@dataclass(slots=True)
class AmdDraft(DeviceDraft):
    vendor: ClassVar[Vendor] = Vendor("amd")
    groups: ClassVar[tuple[str, ...]] = (
        "clocks",
        "cores",
        "ecc",
        "errors",
        "fans",
        "pcie",
        "rails",
        "sensors",
        "throttles",
    )

    health: Health = UNKNOWN_HEALTH
    links: tuple[Link, ...] = ()
    partitions: tuple[Partition, ...] = ()
    partition: int | None = None  # its number under its GPU, where a tool prints one

    def absence(self, place: str, text: str) -> AbsenceReason | None:
        if place in _NUMBERED and not text.strip().strip("0x"):
            return AbsenceReason.NOT_SUPPORTED  # zeros stand for none
        if place == "power_limit_watts" and quantities.watts(text.strip()) == 0:
            return AbsenceReason.NOT_SUPPORTED  # of a die whose module's limit is at the other die
        if place == "model" and quantities.name(text) is None:
            return AbsenceReason.NOT_KNOWN  # a number of the PCI list, or nothing
        return quantities.absence(text)

    def is_missed(self, place: str, reason: AbsenceReason) -> bool:
        group, dot, _ = place.partition(".")
        return not (dot and group in _PARTS and reason is AbsenceReason.NOT_SUPPORTED)

    def share(self, *places: str) -> None:
        """These are of a group of devices and counted at another one."""
        for place in places:
            if self.values.pop(place, None) is not None or place in self.absences:
                self.absences[place] = AbsenceReason.SHARED

    @property
    def id(self) -> str:
        """The serial number is the board's, which two dies share: it comes last."""
        told = self.values
        return device_id(
            self.vendor,
            uuid=told.get("uuid") or told.get("pci_address"),
            serial=told.get("serial"),
            index=told.get("index"),
        )

    @property
    def is_identified(self) -> bool:
        """Its id is more than its index, so the partitions of a GPU may share it."""
        return any(self.values.get(place) is not None for place in ("uuid", "pci_address", "serial"))

    def device(self, id: str | None = None) -> Device:  # noqa: A002 - the name of the model's field
        self._choose_main_sensor()
        return self.build(
            id or self.id,
            health=self.health,
            cores=tuple(_cores(self.members("cores"))),
            links=self.links,
            ecc=tuple(_ecc(self.members("ecc"))),
            errors=tuple(_errors(self.members("errors"))),
            partitions=self.partitions,
        )

    def _choose_main_sensor(self) -> None:
        for name in _MAIN_SENSORS:
            if f"sensors.{name}" in self.values:
                self.put("temperature_celsius", self.values[f"sensors.{name}"])
                return
        for name in _MAIN_SENSORS:
            if f"sensors.{name}" in self.absences:
                self.miss("temperature_celsius", self.absences[f"sensors.{name}"])
                return


def _cores(told: Mapping[str, Any]) -> Iterator[Core]:
    for index in sorted({int(path.partition(".")[0]) for path in told}):
        use, clock = told.get(f"{index}.use"), told.get(f"{index}.clock")
        yield Core(index, utilization_ratio=use, clock_hertz=clock)


def _ecc(told: Mapping[str, Any]) -> Iterator[EccCount]:
    for path, count in told.items():
        severity, _, block = path.partition(".")
        yield EccCount(severity, lifetime=False, count=count, block=block or None)


def _errors(told: Mapping[str, Any]) -> Iterator[ErrorCount]:
    for path, count in told.items():
        kind, _, code = path.partition(".")
        yield ErrorCount(kind, code, count)
