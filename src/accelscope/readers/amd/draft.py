"""A GPU while its values are read: what each gave, and why others gave nothing.

A *place* is where a value goes in the model, as a path: `power_watts`, `pcie.generation`, `clocks.graphics`,
`clocks.graphics.max`, `sensors.edge`, `fans.0.rpm`, `ecc.corrected.umc`. Every source says which of its
fields go to which place; several may go to one place, the preferred first. The same paths name what is
absent.
"""

from collections.abc import Iterator
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

    def take(self, place: str, text: str, read: quantities.Read, source: str) -> None:
        """Read one value into its place, unless a preferred one is there already."""
        if place in self.values:
            return
        reason = quantities.absence(text)
        if place in _NUMBERED and not text.strip().strip("0x"):
            reason = AbsenceReason.NOT_SUPPORTED  # zeros stand for none
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

    def device(self, id: str | None = None) -> Device:  # noqa: A002 - the name of the model's field
        self._choose_main_sensor()
        scalars = {place: value for place, value in self.values.items() if "." not in place}
        pcie = dict(self._members("pcie"))
        return Device(
            vendor=Vendor.AMD,
            id=id or self.id,
            health=self.health,
            sensors=tuple(Sensor(name, celsius) for name, celsius in self._members("sensors")),
            rails=tuple(Rail(name, volts=volts) for name, volts in self._members("rails")),
            fans=tuple(self._fans()),
            clocks=tuple(self._clocks()),
            cores=tuple(self._cores()),
            throttles=tuple(Throttle(reason, active) for reason, active in self._members("throttles")),
            pcie=Pcie(**pcie) if pcie else None,
            links=self.links,
            ecc=tuple(self._ecc()),
            retired_pages=tuple(
                EccCount(severity, lifetime=True, count=count)
                for severity, count in self._members("retired_pages")
            ),
            errors=tuple(self._errors()),
            partitions=self.partitions,
            absent=tuple(self._absent()),
            **scalars,
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

    def _members(self, group: str) -> Iterator[tuple[str, Any]]:
        prefix = f"{group}."
        for place, value in self.values.items():
            if place.startswith(prefix):
                yield place[len(prefix) :], value

    def _clocks(self) -> Iterator[Clock]:
        told = dict(self._members("clocks"))
        for domain in dict.fromkeys(path.removesuffix(".max") for path in told):
            yield Clock(domain, hertz=told.get(domain), max_hertz=told.get(f"{domain}.max"))

    def _fans(self) -> Iterator[Fan]:
        told = dict(self._members("fans"))
        for index in dict.fromkeys(path.split(".")[0] for path in told):
            ratio, rpm = told.get(f"{index}.ratio"), told.get(f"{index}.rpm")
            yield Fan(int(index), speed_ratio=ratio, speed_rpm=rpm)

    def _cores(self) -> Iterator[Core]:
        told = dict(self._members("cores"))
        for index in sorted({int(path.split(".")[0]) for path in told}):
            use, clock = told.get(f"{index}.use"), told.get(f"{index}.clock")
            yield Core(index, utilization_ratio=use, clock_hertz=clock)

    def _ecc(self) -> Iterator[EccCount]:
        for path, count in self._members("ecc"):
            severity, _, block = path.partition(".")
            yield EccCount(severity, lifetime=False, count=count, block=block or None)

    def _errors(self) -> Iterator[ErrorCount]:
        for path, count in self._members("errors"):
            kind, _, code = path.partition(".")
            yield ErrorCount(kind, code, count)

    def _absent(self) -> Iterator[Absence]:
        whole = {}
        for group in _GROUPS:
            reasons = {r for place, r in self.absences.items() if place.split(".")[0] == group}
            if len(reasons) == 1 and not any(self._members(group)):
                whole[group] = reasons.pop()
        for group, reason in whole.items():
            yield Absence(group, reason)
        for place, reason in self.absences.items():
            group = place.split(".")[0]
            not_missed = "." in place and group in _PARTS and reason is AbsenceReason.NOT_SUPPORTED
            if group not in whole and not not_missed:
                yield Absence(place, reason)
