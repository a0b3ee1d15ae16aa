"""A device under construction: the values read so far, and the reasons for absent ones.

A *place* is the path of a value in the model: `power_watts`, `pcie.generation`, `clocks.sm.max`,
`sensors.edge`, `fans.0.rpm`. A parser lists the place of each of its fields; several fields may have one
place, the preferred field first. The same paths name absent values.

Parsers of text use it. The readers of NVML and of Furiosa's sysfs files build `Device` directly: each call or
file gives one typed value or one error, so there is no text to choose a place for.
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
    # One absence replaces those of all members of such a group if no member has a value and all have the same
    # reason: `ecc` is absent, instead of forty counters.
    groups: ClassVar[tuple[str, ...]] = ()
    main_sensor: ClassVar[str | None] = None  # name of the sensor that measures `temperature_celsius`

    values: dict[str, Any] = field(default_factory=dict)
    absences: dict[str, AbsenceReason] = field(default_factory=dict)
    rejected: list[Rejection] = field(default_factory=list)

    def absence(self, place: str, text: str) -> AbsenceReason | None:
        """The reason, if the text means that there is no value."""
        raise NotImplementedError

    def is_missed(self, place: str, reason: AbsenceReason) -> bool:
        """False for a value that this device is not expected to have."""
        del place, reason
        return True

    def take(self, place: str, text: str | None, read: Callable[[str], Any], source: str) -> None:
        """Read a text into its place, unless a preferred field has filled it. None: the output does not have
        the field."""
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

    def put_all(self, values: Mapping[str, object]) -> None:
        self.values.update(values)
        for place in self.absences.keys() & values.keys():
            del self.absences[place]

    def miss(self, place: str, reason: AbsenceReason) -> None:
        if place not in self.values:
            self.absences.setdefault(place, reason)

    def reject(self, source: str, text: str) -> None:
        self.rejected.append(Rejection(f"{source}: {text.strip()[:TEXT_LIMIT]}", "unreadable"))

    def members(self, group: str) -> dict[str, Any]:
        return self.grouped().get(group, {})

    def grouped(self) -> dict[str, dict[str, Any]]:
        """The values of all groups: group, then the rest of the place."""
        groups: dict[str, dict[str, Any]] = {}
        for place, value in self.values.items():
            group, dot, member = place.partition(".")
            if dot:
                groups.setdefault(group, {})[member] = value
        return groups

    def build(
        self,
        id: str,  # noqa: A002 - the name of the model's field
        *,
        grouped: Mapping[str, Mapping[str, Any]] | None = None,
        **own: Any,
    ) -> Device:
        """`grouped` is the result of `grouped()` if the caller has it; `own` are fields that the vendor
        builds itself."""
        grouped = self.grouped() if grouped is None else grouped
        fields = {place: value for place, value in self.values.items() if "." not in place}
        fields |= {group: make(values) for group, make in _MAKE.items() if (values := grouped.get(group))}
        if self.main_sensor is not None and "temperature_celsius" in fields:
            main = Sensor(self.main_sensor, fields["temperature_celsius"])
            fields["sensors"] = (main, *fields.get("sensors", ()))
        return Device(
            vendor=self.vendor, **(fields | {"id": id, "absent": tuple(self._absent(grouped))} | own)
        )

    def _absent(self, grouped: Mapping[str, object]) -> Iterator[Absence]:
        reasons: dict[str, set[AbsenceReason]] = {}
        for place, reason in self.absences.items():
            reasons.setdefault(place.partition(".")[0], set()).add(reason)
        whole = [group for group in self.groups if len(reasons.get(group, ())) == 1 and group not in grouped]
        for group in whole:
            yield Absence(group, reasons[group].pop())
        for place, reason in self.absences.items():
            if place.partition(".")[0] not in whole and self.is_missed(place, reason):
                yield Absence(place, reason)


def _clocks(values: Mapping[str, Any]) -> tuple[Clock, ...]:
    domains = dict.fromkeys(path.removesuffix(".max") for path in values)
    return tuple(
        Clock(domain, hertz=values.get(domain), max_hertz=values.get(f"{domain}.max")) for domain in domains
    )


def _fans(values: Mapping[str, Any]) -> tuple[Fan, ...]:
    """`0` and `0.ratio` are the same."""
    indices = dict.fromkeys(path.partition(".")[0] for path in values)
    return tuple(
        Fan(int(n), speed_ratio=values.get(n, values.get(f"{n}.ratio")), speed_rpm=values.get(f"{n}.rpm"))
        for n in indices
    )


_MAKE: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "sensors": lambda values: tuple(Sensor(name, celsius) for name, celsius in values.items()),
    "rails": lambda values: tuple(Rail(name, volts=volts) for name, volts in values.items()),
    "fans": _fans,
    "clocks": _clocks,
    "throttles": lambda values: tuple(Throttle(reason, active) for reason, active in values.items()),
    "pcie": lambda values: Pcie(**values),
    "remapped_rows": lambda values: RemappedRows(**values),
    "retired_pages": lambda values: tuple(
        EccCount(severity, lifetime=True, count=count) for severity, count in values.items()
    ),
}
