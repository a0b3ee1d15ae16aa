"""A GPU while its values are read: what each gave, and why others gave nothing.

A *place* is where a value goes in the model, as a path: `power_watts`, `pcie.generation`, `clocks.graphics`,
`clocks.graphics.max`, `sensors.edge`, `fans.0.rpm`, `ecc.corrected.umc`. Every source says which of its
fields go to which place; several may go to one place, the preferred first. The same paths name what is
absent.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from accelscope.model import (
    Absence,
    AbsenceReason,
    Clock,
    Core,
    Device,
    EccCount,
    ErrorCount,
    Fan,
    Health,
    Link,
    Partition,
    Pcie,
    Rail,
    Rejection,
    Sensor,
    Throttle,
    Vendor,
    device_id,
)
from accelscope.model.health import UNKNOWN_HEALTH
from accelscope.readers.amd import quantities

# Of these, one absence stands for all when no member is there and all give the same reason: an APU has no
# fan and no ECC, rather than forty things that it lacks.
_GROUPS = ("pcie", "clocks", "throttles", "ecc", "errors", "fans", "rails", "cores", "sensors")
# Beside members that are there, members of these that the device does not have are not missed: chips differ
# in their parts.
_PARTS = ("throttles", "ecc", "errors", "cores", "clocks", "rails")
# Where there is no edge sensor (Instinct from MI300 on), the hottest spot of the chip is what is told.
_MAIN_SENSORS = ("edge", "junction", "core")
_NUMBERED = ("uuid", "serial")
_VALUE_LIMIT = 200  # characters of a rejected value that are kept


@dataclass(slots=True)
class Draft:
    values: dict[str, Any] = field(default_factory=dict)
    absences: dict[str, AbsenceReason] = field(default_factory=dict)
    rejected: list[Rejection] = field(default_factory=list)
    health: Health = UNKNOWN_HEALTH
    links: tuple[Link, ...] = ()
    partitions: tuple[Partition, ...] = ()
    partition: int | None = None  # its number under its GPU, where a tool prints one

    def take(self, place: str, text: str, read: quantities.Read, source: str) -> None:
        """Read one value into its place, unless a preferred one is there already."""
        if place in self.values:
            return
        reason = quantities.absence(text)
        if place in _NUMBERED and not text.strip().strip("0x"):
            reason = AbsenceReason.NOT_SUPPORTED  # zeros stand for none
        if place == "power_limit_watts" and quantities.watts(text.strip()) == 0:
            reason = AbsenceReason.NOT_SUPPORTED  # of a die whose module's limit is at the other die
        if place == "model" and quantities.name(text) is None:
            reason = AbsenceReason.NOT_KNOWN  # a number of the PCI list, or nothing
        if reason is None:
            value = read(text)
            if value is not None:
                self.put(place, value)
                return
            self.rejected.append(Rejection(f"{source}: {text.strip()[:_VALUE_LIMIT]}", "unreadable"))
            reason = AbsenceReason.UNREADABLE
        self.miss(place, reason)

    def put(self, place: str, value: object) -> None:
        self.values[place] = value
        self.absences.pop(place, None)

    def miss(self, place: str, reason: AbsenceReason) -> None:
        if place not in self.values:
            self.absences.setdefault(place, reason)

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
            Vendor.AMD,
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
        groups: dict[str, dict[str, Any]] = {"": {}}
        for place, value in self.values.items():
            group, dot, member = place.partition(".")
            groups.setdefault(group if dot else "", {})[member if dot else place] = value
        pcie = groups.get("pcie")
        return Device(
            vendor=Vendor.AMD,
            id=id or self.id,
            health=self.health,
            sensors=tuple(Sensor(name, celsius) for name, celsius in groups.get("sensors", {}).items()),
            rails=tuple(Rail(name, volts=volts) for name, volts in groups.get("rails", {}).items()),
            fans=tuple(_fans(groups.get("fans", {}))),
            clocks=tuple(_clocks(groups.get("clocks", {}))),
            cores=tuple(_cores(groups.get("cores", {}))),
            throttles=tuple(
                Throttle(reason, active) for reason, active in groups.get("throttles", {}).items()
            ),
            pcie=Pcie(**pcie) if pcie else None,
            links=self.links,
            ecc=tuple(_ecc(groups.get("ecc", {}))),
            retired_pages=tuple(
                EccCount(severity, lifetime=True, count=count)
                for severity, count in groups.get("retired_pages", {}).items()
            ),
            errors=tuple(_errors(groups.get("errors", {}))),
            partitions=self.partitions,
            absent=tuple(self._absent(groups)),
            **groups[""],
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

    def _absent(self, groups: Collection[str]) -> Iterator[Absence]:
        reasons: dict[str, set[AbsenceReason]] = {}
        for place, reason in self.absences.items():
            reasons.setdefault(place.partition(".")[0], set()).add(reason)
        whole = {
            group
            for group, all_of_it in reasons.items()
            if group in _GROUPS and group not in groups and len(all_of_it) == 1
        }
        for group in sorted(whole):
            yield Absence(group, next(iter(reasons[group])))
        for place, reason in self.absences.items():
            group, dot, _ = place.partition(".")
            not_missed = dot and group in _PARTS and reason is AbsenceReason.NOT_SUPPORTED
            if group not in whole and not not_missed:
                yield Absence(place, reason)


def _clocks(told: Mapping[str, Any]) -> Iterator[Clock]:
    for domain in dict.fromkeys(path.removesuffix(".max") for path in told):
        yield Clock(domain, hertz=told.get(domain), max_hertz=told.get(f"{domain}.max"))


def _fans(told: Mapping[str, Any]) -> Iterator[Fan]:
    for index in dict.fromkeys(path.partition(".")[0] for path in told):
        yield Fan(int(index), speed_ratio=told.get(f"{index}.ratio"), speed_rpm=told.get(f"{index}.rpm"))


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
