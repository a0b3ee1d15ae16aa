"""The draft of an AMD GPU."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
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
from accelscope.vendors.common.draft import DeviceDraft
from accelscope.vendors.common.files import GENERATIONS
from accelscope.vendors.common.values import between

# --- quantities ------------------------------------------------------------
# One value as AMD's tools write it: an absence marker, or a number with its unit, in the model's base unit.
#
# A leaf of amd-smi's JSON is `{"value": 158, "unit": "W"}`, a bare number, or a word; rocm-smi writes words
# only, with the unit in the name of the key. `text_of` makes one form of them. The readers of values answer
# None for a text that is not such a value. Digits are bounded: a megabyte of digits is not a number.


Value = float | int | bool | str
Read = Callable[[str], Value | None]

_LONGEST = 200
_NUMBER = re.compile(
    r"\(?([+-]?[0-9]{1,25}(?:\.[0-9]{1,25})?(?:e[+-]?[0-9]{1,3})?)\s*([^\s0-9()][^\s()]{0,7})?\)?",
    re.ASCII | re.IGNORECASE,
)
_MARKERS: Mapping[str, AbsenceReason] = {
    "": AbsenceReason.NO_SAMPLE,
    "-": AbsenceReason.NO_SAMPLE,
    "none": AbsenceReason.NO_SAMPLE,
    "null": AbsenceReason.NO_SAMPLE,
    "nan": AbsenceReason.NO_SAMPLE,
    "unknown": AbsenceReason.NO_SAMPLE,
    "n/a": AbsenceReason.NOT_SUPPORTED,
    "na": AbsenceReason.NOT_SUPPORTED,
    "not supported": AbsenceReason.NOT_SUPPORTED,
    "not_supported": AbsenceReason.NOT_SUPPORTED,
    "unsupported": AbsenceReason.NOT_SUPPORTED,
    "not available": AbsenceReason.NOT_SUPPORTED,
    "permission denied": AbsenceReason.NO_PERMISSION,
    "no permission": AbsenceReason.NO_PERMISSION,
    "error": AbsenceReason.DRIVER_ERROR,
}
SECONDARY_DIE = "n/a (secondary die)"

# Registers that no measurement reached yet hold all ones, and some versions print them as they are. 65535 is
# one only where no such number can be meant: it may be a pid, a count or an amount of memory.
_ALL_ONES = frozenset({0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF})
_SHORT_ALL_ONES = 0xFFFF

# AMD's tools divide by 1024 and print MB, GB.
_BYTES = {
    "b": 1,
    **dict.fromkeys(("k", "kb", "kib"), 2**10),
    **dict.fromkeys(("m", "mb", "mib"), 2**20),
    **dict.fromkeys(("g", "gb", "gib"), 2**30),
    **dict.fromkeys(("t", "tb", "tib"), 2**40),
}
_WATTS = {"": 1.0, "w": 1.0, "mw": 1e-3, "uw": 1e-6}
_HERTZ = {"": 1e6, "mhz": 1e6, "khz": 1e3, "ghz": 1e9, "hz": 1.0}
_CELSIUS = {"": 1.0, "c": 1.0, "°c": 1.0}
_VOLTS = {"": 1e-3, "mv": 1e-3, "v": 1.0}
_JOULES = {"": 1.0, "j": 1.0, "uj": 1e-6, "mj": 1e-3, "kj": 1e3}
_PERCENT = {"": 1.0, "%": 1.0}
_RPM = {"": 1.0, "rpm": 1.0}
_TRANSFERS = {"": 1.0, "gt/s": 1.0, "mt/s": 1e-3}
_BITS_PER_SECOND = {"kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9}

# Past these a number is a register that holds no measurement.
_MAX_WATTS = 1e4
_MAX_VOLTS = 60.0
_MAX_HERTZ = 6e10
_MIN_CELSIUS, _MAX_CELSIUS = -100.0, 500.0
_MAX_INTEGER = 2**63 - 1
_MAX_RATIO = 1.01  # fans and averages overshoot by rounding


def text_of(leaf: object) -> str | None:
    """A leaf of a document as one text, such as `158 W`; None: this is a group or a list, not a leaf."""
    if isinstance(leaf, dict):
        if "value" not in leaf:
            return None
        value = text_of(leaf["value"])
        unit = leaf.get("unit")
        return value if value is None or not isinstance(unit, str) else f"{value} {unit}".strip()
    if leaf is None:
        return ""
    if isinstance(leaf, str):
        return leaf
    if isinstance(leaf, bool | int | float):
        return repr(leaf) if not isinstance(leaf, int) or abs(leaf) <= 2**64 else "not a number"
    return None


def absence(text: str) -> AbsenceReason | None:
    """The reason that a marker gives, or None if the text is not a marker. A unit may follow it."""
    if len(text) > _LONGEST:
        return None
    folded = " ".join(text.split()).casefold()
    if folded.startswith("n/a"):
        return AbsenceReason.NOT_SUPPORTED
    return _MARKERS.get(folded)


def words(text: str) -> str | None:
    """Free text, such as a name or a version; not one that lost letters to a wrong encoding."""
    return None if "\ufffd" in text else " ".join(text[:_LONGEST].split()) or None


def name(text: str) -> str | None:
    """A product's name. Older tools print a number of the PCI list where they know none."""
    told = words(text)
    return None if told is None or re.fullmatch(r"0x[0-9a-f]{1,8}", told, re.IGNORECASE) else told


def identifier(text: str) -> str | None:
    """One word of printable ASCII, such as a serial number."""
    match = re.fullmatch(r"\s*([!-~]{1,64})\s*", text)
    return match and match[1]


def pci_device_id(text: str) -> str | None:
    """`0x74a1`, in small letters and with four digits."""
    match = re.fullmatch(r"\s*0x([0-9a-f]{1,4})\s*", text, re.IGNORECASE)
    return f"0x{int(match[1], 16):04x}" if match else None


def unique_id(text: str) -> str | None:
    """AMD's 64-bit number of a chip in one spelling: sysfs pads it, rocm-smi does not, amd-smi writes
    capitals."""
    match = re.fullmatch(r"\s*(?:0x)?([0-9a-f]{1,16})\s*", text, re.IGNORECASE)
    number = int(match[1], 16) if match else 0
    return f"0x{number:x}" if number else None


def count(text: str) -> int | None:
    parts = _split(text)
    if parts is None or parts[1] or not isinstance(parts[0], int):
        return None
    return parts[0] if 0 <= parts[0] <= _MAX_INTEGER and parts[0] not in _ALL_ONES else None


def ratio(text: str) -> float | None:
    percent = _scaled(text, _PERCENT)
    return None if percent is None or not 0 <= percent / 100 <= _MAX_RATIO else round(percent / 100, 9)


def memory(text: str) -> int | None:
    """Bytes; a bare number is bytes already."""
    parts = _split(text)
    if parts is None or (parts[1] or "b") not in _BYTES or parts[0] in _ALL_ONES:
        return None
    number = round(parts[0] * _BYTES[parts[1] or "b"])
    return number if 0 <= number <= _MAX_INTEGER else None


def mebibytes(text: str) -> int | None:
    """Bytes; a bare number is MiB."""
    parts = _split(text)
    return memory(text if parts is None or parts[1] else f"{text} MiB")


def watts(text: str) -> float | None:
    return between(_scaled(text, _WATTS), 0, _MAX_WATTS)


def hertz(text: str) -> float | None:
    """Hertz; a bare number is MHz."""
    return between(_scaled(text, _HERTZ), 0, _MAX_HERTZ)


def highest_hertz(text: str) -> float | None:
    """A clock's upper bound: 0 is none."""
    return hertz(text) or None


def celsius(text: str) -> float | None:
    return between(_scaled(text, _CELSIUS), _MIN_CELSIUS, _MAX_CELSIUS)


def volts(text: str) -> float | None:
    """Volts; a bare number is mV."""
    return between(_scaled(text, _VOLTS), 0, _MAX_VOLTS)


def joules(text: str) -> float | None:
    """Joules. A counter that stands at 0 is one that this device does not have: it used energy to answer."""
    return between(_scaled(text, _JOULES), 0, 1e18) or None


def microjoules(text: str) -> float | None:
    parts = _split(text)
    told = None if parts is None else joules(f"{parts[0]!r} {parts[1] or 'uJ'}")
    return None if told is None else round(told, 6)


def rpm(text: str) -> float | None:
    return between(_scaled(text, _RPM), 0, 1e5)


def generation(text: str) -> int | None:
    """Of PCIe, from its transfers per second: `16 GT/s`, `16.0 GT/s PCIe`."""
    speed = _scaled(text.replace("PCIe", ""), _TRANSFERS)
    return None if speed is None else GENERATIONS.get(speed)


def named_generation(text: str) -> int | None:
    """`Gen 4`"""
    match = re.fullmatch(r"\s*gen\s*([1-9])\s*", text, re.IGNORECASE)
    return int(match[1]) if match else None


def lanes(text: str) -> int | None:
    """Width of a link, `16` or `x16`."""
    number = count(text.strip().removeprefix("x"))
    return number if number is not None and 1 <= number <= 64 else None


def bits_per_second(text: str) -> float | None:
    """Bytes per second from Mb/s, Gb/s: these are bits."""
    bits = _scaled(text, _BITS_PER_SECOND)
    return None if bits is None else between(bits / 8, 0, 1e15)


def numa_node(text: str) -> int | None:
    """The kernel says -1 for none, and some tools print that as an unsigned number."""
    number = count(text)
    return number if number is not None and number < 4096 else None


def is_no_numa_node(text: str) -> bool:
    return text.strip() in ("-1", "4294967295", "65535")


def flag(text: str) -> bool | None:
    match " ".join(text[:_LONGEST].replace("_", " ").split()).casefold():
        case "enabled" | "active" | "throttled" | "true" | "yes" | "on":
            return True
        case "disabled" | "not active" | "inactive" | "unthrottled" | "false" | "no" | "off":
            return False
    return None


def partition(text: str) -> str | None:
    """`SPX`, `CPX`, `NPS4`"""
    word = text.strip().upper()
    return word if re.fullmatch(r"[A-Z]{2,4}[0-9]{0,2}", word) else None


def architecture(text: str) -> str | None:
    match = re.fullmatch(r"\s*(gfx[0-9a-f]{2,8})\s*", text, re.IGNORECASE)
    return match[1].lower() if match else None


def driver_version(text: str) -> str | None:
    """With the driver that comes with Linux amd-smi prints the whole banner of the kernel: its release is
    the driver's version then."""
    told = words(text)
    match = re.match(r"Linux\s*version\s*([^\s(]{1,64})", told or "", re.IGNORECASE)
    return match[1] if match else told


def _split(text: str) -> tuple[int | float, str] | None:
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        return None
    whole = match[1].lstrip("+-").isdecimal()
    number = int(match[1]) if whole else float(match[1])
    return (number, (match[2] or "").casefold()) if whole or math.isfinite(number) else None


def _scaled(text: str, units: Mapping[str, float]) -> float | None:
    parts = _split(text)
    if parts is None or parts[1] not in units or parts[0] in _ALL_ONES or parts[0] == _SHORT_ALL_ONES:
        return None
    # Rounded to what can be printed, so that 818 mV is 0.818 V and not 0.8180000000000001.
    return round(parts[0] * units[parts[1]], 9)


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
        if place == "power_limit_watts" and watts(text.strip()) == 0:
            return AbsenceReason.NOT_SUPPORTED  # of a die whose module's limit is at the other die
        if place == "model" and name(text) is None:
            return AbsenceReason.NOT_KNOWN  # a number of the PCI list, or nothing
        return absence(text)

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
