"""The driver's values of a card, with the tools' where it has none."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from accelscope.model import Absence, AbsenceReason, Core, Device, ProcessType, Reading
from accelscope.vendors.furiosa.attributes import Attributes
from accelscope.vendors.furiosa.view import JOINED, Told, joined_cores

# What a card has and somebody should tell.
_EXPECTED = (
    "temperature_celsius",
    "power_watts",
    "utilization_ratio",
    "memory_total_bytes",
    "memory_used_bytes",
)
_NOTHING: tuple[object, ...] = (None, ())


def reading(card: Device, values: Mapping[str, Any], told: Told, attributes: Attributes) -> Reading:
    """`card` says who it is, `values` what the driver showed."""
    whole = dict(values)
    for name in JOINED:
        if whole.get(name, getattr(card, name)) in _NOTHING:
            added = getattr(told.device, name)
            if added not in _NOTHING:
                whole[name] = added
    whole["cores"] = joined_cores(values.get("cores", card.cores), told.device.cores)
    whole["utilization_ratio"] = utilization(whole["cores"])
    absent = {absence.field: absence.reason for absence in told.device.absent} | attributes.absent
    for field in _EXPECTED:
        absent.setdefault(field, told.missing)
    whole["absent"] = tuple(_absences(card, whole, absent))
    processes = tuple(
        replace(process, device=card.id, device_index=card.index, type=ProcessType.COMPUTE)
        for process in told.processes
    )
    return Reading(replace(card, **whole), processes, tuple(attributes.rejected))


def utilization(cores: tuple[Core, ...]) -> float | None:
    """Of the whole card: the mean over its cores. A core that nobody holds runs nothing, so it counts as 0;
    with one that is held and not measured there is no mean."""
    ratios = [0.0 if core.occupied is False else core.utilization_ratio for core in cores]
    known = [ratio for ratio in ratios if ratio is not None]
    return round(sum(known) / len(known), 9) if known and len(known) == len(ratios) else None


def _absences(
    card: Device, values: Mapping[str, Any], reasons: Mapping[str, AbsenceReason]
) -> Iterator[Absence]:
    """Without those that the other source made good."""
    for field, reason in reasons.items():
        group, _, member = field.partition(".")
        if not member:
            there = values.get(group, getattr(card, group)) not in _NOTHING
        elif group == "cores":
            there = any(getattr(core, member) is not None for core in values["cores"])
        elif group == "clocks":
            there = any(clock.domain == member for clock in values.get("clocks", card.clocks))
        else:
            there = False
        if not there:
            yield Absence(field, reason)
