"""A device while its values are read: what was read, and why other values are absent.

A *place* is where a value goes in the model, as a path: `power_watts`, `pcie.generation`, `clocks.sm.max`,
`sensors.edge`, `fans.0.rpm`. A parser lists which of its fields go to which place; several may go to one
place, the preferred first. The same paths name what is absent.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from accelscope.model import (
    Absence,
    AbsenceReason,
    Clock,
    Device,
    EccCount,
    Fan,
    Pcie,
    Rail,
    Rejection,
    RemappedRows,
    Sensor,
    Throttle,
    Vendor,
)

TEXT_LIMIT = 200  # characters of a rejected value that are kept


@dataclass(slots=True)
class DeviceDraft:
    vendor: ClassVar[Vendor]
    # Of these, one absence stands for all members when none is there and all have the same reason: a device
    # has no ECC, rather than forty counters that it lacks.
    groups: ClassVar[tuple[str, ...]] = ()
    main_sensor: ClassVar[str | None] = None  # name of the sensor that measures `temperature_celsius`

    values: dict[str, Any] = field(default_factory=dict)
    absences: dict[str, AbsenceReason] = field(default_factory=dict)
    rejected: list[Rejection] = field(default_factory=list)

    def absence(self, place: str, text: str) -> AbsenceReason | None:
        """The reason, if the text stands for no value."""
        raise NotImplementedError

    def is_missed(self, place: str, reason: AbsenceReason) -> bool:
        """False for a member that this device is not expected to have."""
        del place, reason
        return True

    def take(self, place: str, text: str | None, read: Callable[[str], Any], source: str) -> None:
        """Read a text into its place, unless a preferred one is there already. None: the output has no such
        field."""
        if text is None or place in self.values:
            return
        reason = self.absence(place, text)
        if reason is None:
            value = read(text)
            if value is not None:
                self.put(place, value)
                return
            self.reject(source, text)
            reason = AbsenceReason.UNREADABLE
        self.miss(place, reason)

    def put(self, place: str, value: object) -> None:
        self.values[place] = value
        self.absences.pop(place, None)

    def miss(self, place: str, reason: AbsenceReason) -> None:
        if place not in self.values:
            self.absences.setdefault(place, reason)

    def reject(self, source: str, text: str) -> None:
        self.rejected.append(Rejection(f"{source}: {text.strip()[:TEXT_LIMIT]}", "unreadable"))

    def members(self, group: str) -> dict[str, Any]:
        prefix = f"{group}."
        return {
            place[len(prefix) :]: value for place, value in self.values.items() if place.startswith(prefix)
        }

    def build(self, id: str, **own: Any) -> Device:  # noqa: A002 - the name of the model's field
        """`own` are fields that the vendor makes in its own way."""
        fields = {place: value for place, value in self.values.items() if "." not in place}
        fields |= {group: make(told) for group, make in _MAKE.items() if (told := self.members(group))}
        if self.main_sensor is not None and "temperature_celsius" in fields:
            main = Sensor(self.main_sensor, fields["temperature_celsius"])
            fields["sensors"] = (main, *fields.get("sensors", ()))
        return Device(vendor=self.vendor, **(fields | {"id": id, "absent": tuple(self._absent())} | own))

    def _absent(self) -> Iterator[Absence]:
        reasons: dict[str, set[AbsenceReason]] = {}
        for place, reason in self.absences.items():
            reasons.setdefault(place.partition(".")[0], set()).add(reason)
        whole = [
            group for group in self.groups if len(reasons.get(group, ())) == 1 and not self.members(group)
        ]
        for group in whole:
            yield Absence(group, reasons[group].pop())
        for place, reason in self.absences.items():
            if place.partition(".")[0] not in whole and self.is_missed(place, reason):
                yield Absence(place, reason)


def _clocks(told: Mapping[str, Any]) -> tuple[Clock, ...]:
    domains = dict.fromkeys(path.removesuffix(".max") for path in told)
    return tuple(
        Clock(domain, hertz=told.get(domain), max_hertz=told.get(f"{domain}.max")) for domain in domains
    )


def _fans(told: Mapping[str, Any]) -> tuple[Fan, ...]:
    """`0` and `0.ratio` are the same."""
    indices = dict.fromkeys(path.partition(".")[0] for path in told)
    return tuple(
        Fan(int(n), speed_ratio=told.get(n, told.get(f"{n}.ratio")), speed_rpm=told.get(f"{n}.rpm"))
        for n in indices
    )


_MAKE: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "sensors": lambda told: tuple(Sensor(name, celsius) for name, celsius in told.items()),
    "rails": lambda told: tuple(Rail(name, volts=volts) for name, volts in told.items()),
    "fans": _fans,
    "clocks": _clocks,
    "throttles": lambda told: tuple(Throttle(reason, active) for reason, active in told.items()),
    "pcie": lambda told: Pcie(**told),
    "remapped_rows": lambda told: RemappedRows(**told),
    "retired_pages": lambda told: tuple(
        EccCount(severity, lifetime=True, count=count) for severity, count in told.items()
    ),
}
