"""The draft of an AMD GPU: the values that one source reports, before they become a Device."""

from collections.abc import Iterator, Mapping, Sequence
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
from accelscope.model.device import UNKNOWN_HEALTH
from accelscope.vendors.amd import quantities
from accelscope.vendors.common.draft import DeviceDraft

# Chips differ in their parts: a member of these groups that a device does not have is not reported as absent.
_OPTIONAL_GROUPS = ("throttles", "ecc", "errors", "cores", "clocks", "rails")
# Without an edge sensor (Instinct from MI300 on), the temperature is that of the hottest spot.
_MAIN_SENSORS = ("edge", "junction", "core")
_IDENTIFIERS = ("uuid", "serial")


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
    chip_errors: tuple[ErrorCount, ...] = ()
    partitions: tuple[Partition, ...] = ()
    partition: int | None = None  # number within the GPU, if the tool prints one

    def absence(self, place: str, text: str) -> AbsenceReason | None:
        if place in _IDENTIFIERS and not text.strip().strip("0x"):
            return AbsenceReason.NOT_SUPPORTED  # zeros mean none
        if place == "power_limit_watts" and quantities.watts(text.strip()) == 0:
            return AbsenceReason.NOT_SUPPORTED  # the limit of the module is reported by the other die
        if place == "model" and quantities.name(text) is None:
            return AbsenceReason.NOT_KNOWN  # a PCI id or nothing instead of a name
        return quantities.absence(text)

    def is_missed(self, place: str, reason: AbsenceReason) -> bool:
        group, dot, _ = place.partition(".")
        return not (dot and group in _OPTIONAL_GROUPS and reason is AbsenceReason.NOT_SUPPORTED)

    def share(self, *places: str) -> None:
        """Mark values that belong to a group of devices and are reported at another device of the group."""
        for place in places:
            if self.values.pop(place, None) is not None or place in self.absences:
                self.absences[place] = AbsenceReason.SHARED

    @property
    def id(self) -> str:
        """The serial number comes last: it is the board's, and two dies may share it."""
        values = self.values
        return device_id(
            self.vendor,
            uuid=values.get("uuid") or values.get("pci_address"),
            serial=values.get("serial"),
            index=values.get("index"),
        )

    @property
    def is_identified(self) -> bool:
        """Whether the id is more than the index. The partitions of a GPU may share such an id."""
        return any(self.values.get(place) is not None for place in ("uuid", "pci_address", "serial"))

    @property
    def cores(self) -> tuple[Core, ...]:
        return tuple(_cores(self.members("cores")))

    def device(self, id: str | None = None) -> Device:  # noqa: A002 - the name of the model's field
        self._choose_main_sensor()
        groups = self.grouped()
        return self.build(
            id or self.id,
            grouped=groups,
            health=self.health,
            cores=tuple(_cores(groups.get("cores", {}))),
            links=self.links,
            ecc=tuple(_ecc(groups.get("ecc", {}))),
            errors=(*_errors(groups.get("errors", {})), *self.chip_errors),
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


def number_dies(partitions: Mapping[int, Sequence[float | None]]) -> Iterator[tuple[int, float]]:
    """Number and utilization of each compute die (XCC). They are grouped by partition, with the same number
    of dies in each. The list of a partition ends with None for the dies of the others."""
    sizes = [place + 1 for dies in partitions.values() for place, use in enumerate(dies) if use is not None]
    for partition, dies in sorted(partitions.items()):
        for place, use in enumerate(dies):
            if use is not None:
                yield partition * max(sizes) + place, use


def _cores(members: Mapping[str, Any]) -> Iterator[Core]:
    for index in sorted({int(path.partition(".")[0]) for path in members}):
        use, clock = members.get(f"{index}.use"), members.get(f"{index}.clock")
        yield Core(index, utilization_ratio=use, clock_hertz=clock)


def _ecc(members: Mapping[str, Any]) -> Iterator[EccCount]:
    for path, count in members.items():
        severity, _, block = path.partition(".")
        yield EccCount(severity, lifetime=False, count=count, block=block or None)


def _errors(members: Mapping[str, Any]) -> Iterator[ErrorCount]:
    for path, count in members.items():
        kind, _, code = path.partition(".")
        yield ErrorCount(kind, code, count)
