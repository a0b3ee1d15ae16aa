"""Sensors of a card: `hwmon` of its PCI device, by label, since numbers differ between boards and drivers.

Temperatures are in m°C, powers in µW, voltages in mV, currents in mA.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from accelscope.model import AbsenceReason, Rail, Sensor
from accelscope.vendors.furiosa.attributes import Attributes
from accelscope.vendors.furiosa.sysfs_text import whole

_FILE = re.compile(r"(temp|power|in|curr)([0-9]{1,3})_(input|average)", re.ASCII)
_UNITS = {"temp": 1e-3, "power": 1e-6, "in": 1e-3, "curr": 1e-3}
_FIELDS = {"temp": "sensors", "power": "rails", "in": "rails", "curr": "rails"}
_CARD_POWER = frozenset({"pci total rms pwr", "rms total"})
_NOT_ON_CHIP = "ambient"
_NO_LABEL = (AbsenceReason.NOT_KNOWN, AbsenceReason.NO_SAMPLE)


@dataclass(frozen=True, slots=True)
class _Place:
    kind: str
    path: str
    label: str
    field: str  # of the model, where it is missed


@dataclass(frozen=True, slots=True)
class Sensors:
    temperature_celsius: float | None = None
    power_watts: float | None = None
    sensors: tuple[Sensor, ...] = ()
    rails: tuple[Rail, ...] = ()
    power_limit_watts: float | None = None


class Hwmon:
    """Labels are read once per folder: a driver that is loaded anew makes a new one."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, tuple[_Place, ...]]] = {}

    def read(self, device: str, attributes: Attributes) -> Sensors:
        """Of one PCI device's folder."""
        found: list[tuple[_Place, float]] = []
        limit: float | None = None
        for folder in _folders(f"{device}/hwmon"):
            try:
                places = self._places(folder, attributes)
            except OSError:
                attributes.absent["sensors"] = AbsenceReason.LOST  # it went away while it was looked at
                continue
            limit = _limit(folder, attributes) if limit is None else limit
            for place in places:
                number = attributes.value(place.path, place.field, whole)
                if number is not None:
                    found.append((place, round(number * _UNITS[place.kind], 9)))
        return replace(_sensors(found), power_limit_watts=limit)

    def _places(self, folder: str, attributes: Attributes) -> tuple[_Place, ...]:
        inode = os.stat(folder).st_ino  # noqa: PTH116 - a string
        known = self._known.get(folder)
        if known is not None and known[0] == inode:
            return known[1]
        unsure = len(attributes.absent)
        places = tuple(_look(folder, attributes))
        if len(attributes.absent) == unsure:
            self._known[folder] = (inode, places)
        return places


def _folders(hwmon: str) -> list[str]:
    try:
        return sorted(f"{hwmon}/{name}" for name in os.listdir(hwmon) if name.startswith("hwmon"))  # noqa: PTH208
    except OSError:
        return []  # said by the values that are then absent


def _look(folder: str, attributes: Attributes) -> list[_Place]:
    places: dict[tuple[str, int], _Place] = {}
    for file in sorted(os.listdir(folder)):  # noqa: PTH208 - a string
        match = _FILE.fullmatch(file)
        if match is None or (match[3] == "average" and match[1] != "power"):
            continue
        name = match[1] + match[2]
        missed = f"labels.{name}"
        label = attributes.text(f"{folder}/{name}_label", missed) or name
        if attributes.absent.get(missed) in _NO_LABEL:
            del attributes.absent[missed]  # it goes by its file's name
        place = _Place(match[1], f"{folder}/{file}", label, f"{_FIELDS[match[1]]}.{label}")
        # Of a power's average and its last value, the average, which comes first by name.
        places.setdefault((match[1], int(match[2])), place)
    return [places[key] for key in sorted(places)]


def _limit(folder: str, attributes: Attributes) -> float | None:
    """`power1_max`, as RNGD's driver has it since 2026.4; 0 is no limit that a card could run with."""
    microwatts = attributes.value(f"{folder}/power1_max", "power_limit_watts", whole)
    attributes.absent.pop("power_limit_watts", None)  # not every driver has one
    return round(microwatts * _UNITS["power"], 9) if microwatts is not None and microwatts > 0 else None


def _sensors(found: Iterable[tuple[_Place, float]]) -> Sensors:
    temperatures: list[Sensor] = []
    rails: list[Rail] = []
    card: float | None = None
    for place, number in found:
        match place.kind:
            case "temp":
                temperatures.append(Sensor(place.label, number))
            case "power" if _bare(place.label) in _CARD_POWER:
                card = number
            case "power":
                rails.append(Rail(place.label, watts=number))
            case "in":
                rails.append(Rail(place.label, volts=number))
            case "curr":
                rails.append(Rail(place.label, amperes=number))
    return Sensors(_main(temperatures), card, tuple(temperatures), tuple(rails))


def _main(temperatures: list[Sensor]) -> float | None:
    """The driver's own peak over the chip's sensors; where it has none, the hottest of them."""
    peak = next((s.celsius for s in temperatures if _bare(s.name) == "peak"), None)
    if peak is not None:
        return peak
    return max((s.celsius for s in temperatures if _bare(s.name) != _NOT_ON_CHIP), default=None)


def _bare(label: str) -> str:
    return " ".join(label.casefold().replace("_", " ").split())
