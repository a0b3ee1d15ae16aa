"""Values as AMD's tools print them: an absence marker, or a number with its unit, in the model's base unit.

A leaf of amd-smi's JSON is `{"value": 158, "unit": "W"}`, a bare number, or a word. rocm-smi prints strings
only, with the unit in the name of the key. `text_of` converts all of them to one form. The functions that
read a value return None for a text that is not such a value. The length of numbers is limited: a megabyte of
digits is not a number.
"""

import math
import re
from collections.abc import Callable, Mapping

from accelscope.model import AbsenceReason
from accelscope.vendors.common.files import GENERATIONS
from accelscope.vendors.common.values import between

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

# A register without a measurement contains all ones, and some versions print it as it is. 65535 is such a
# register only where it is no plausible value: it may be a pid, a count or an amount of memory.
_ALL_ONES = frozenset({0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF})
_SHORT_ALL_ONES = 0xFFFF
_LONG_COUNT = 19  # digits of a number that may not fit into 64 bits

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

# A number beyond these limits is a register without a measurement.
_MAX_WATTS = 1e4
_MAX_VOLTS = 60.0
_MAX_HERTZ = 6e10
_MIN_CELSIUS, _MAX_CELSIUS = -100.0, 500.0
_MAX_INTEGER = 2**63 - 1
_MAX_RATIO = 1.01  # fans and averages exceed 1 by rounding


def text_of(leaf: object) -> str | None:
    """A leaf of a document as one text, such as `158 W`. None for a group or a list."""
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
    """The reason that a marker stands for, or None if the text is not a marker. A unit may follow it."""
    if len(text) > _LONGEST:
        return None
    folded = " ".join(text.split()).casefold()
    if folded.startswith("n/a"):
        return AbsenceReason.NOT_SUPPORTED
    return _MARKERS.get(folded)


def words(text: str) -> str | None:
    """Free text, such as a name or a version. None if characters were lost in decoding."""
    return None if "\ufffd" in text else " ".join(text[:_LONGEST].split()) or None


def name(text: str) -> str | None:
    """A product name. Older tools print a PCI id where they have no name."""
    product = words(text)
    return None if product is None or re.fullmatch(r"0x[0-9a-f]{1,8}", product, re.IGNORECASE) else product


def pci_device_id(text: str) -> str | None:
    """`0x74a1`, in lower case and with four digits."""
    match = re.fullmatch(r"\s*0x([0-9a-f]{1,4})\s*", text, re.IGNORECASE)
    return f"0x{int(match[1], 16):04x}" if match else None


def unique_id(text: str) -> str | None:
    """The 64-bit unique id of a chip in one spelling: sysfs pads it, rocm-smi does not, and amd-smi writes
    it in upper case."""
    match = re.fullmatch(r"\s*(?:0x)?([0-9a-f]{1,16})\s*", text, re.IGNORECASE)
    number = int(match[1], 16) if match else 0
    return f"0x{number:x}" if number else None


def count(text: str) -> int | None:
    if text.isascii() and text.isdigit() and len(text) < _LONG_COUNT:  # as the kernel writes it
        number = int(text)
        return None if number in _ALL_ONES else number
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
    """The maximum of a clock; 0 means unknown."""
    return hertz(text) or None


def celsius(text: str) -> float | None:
    return between(_scaled(text, _CELSIUS), _MIN_CELSIUS, _MAX_CELSIUS)


def volts(text: str) -> float | None:
    """Volts; a bare number is mV."""
    return between(_scaled(text, _VOLTS), 0, _MAX_VOLTS)


_EMPTY_COUNTERS = tuple(0xFFFF_FFFF * unit for unit in (15.3e-6, 15.259e-6, 2.0**-16))


def joules(text: str) -> float | None:
    """Joules. 0 means that the device has no energy counter: a running device has used energy. So does an
    empty counter of 32 bits of ones, which the tools multiply by its unit."""
    energy = between(_scaled(text, _JOULES), 0, 1e18)
    empty = energy is not None and any(abs(energy - ones) < 0.1 for ones in _EMPTY_COUNTERS)
    return None if empty else energy or None


def microjoules(text: str) -> float | None:
    parts = _split(text)
    energy = None if parts is None else joules(f"{parts[0]!r} {parts[1] or 'uJ'}")
    return None if energy is None else round(energy, 6)


def rpm(text: str) -> float | None:
    return between(_scaled(text, _RPM), 0, 1e5)


def generation(text: str) -> int | None:
    """The PCIe generation from the transfer rate: `16 GT/s`, `16.0 GT/s PCIe`."""
    speed = _scaled(text.replace("PCIe", ""), _TRANSFERS)
    return None if speed is None else GENERATIONS.get(speed)


def named_generation(text: str) -> int | None:
    """`Gen 4`"""
    match = re.fullmatch(r"\s*gen\s*([1-9])\s*", text, re.IGNORECASE)
    return int(match[1]) if match else None


def lanes(text: str) -> int | None:
    """The width of a link, `16` or `x16`."""
    number = count(text.strip().removeprefix("x"))
    return number if number is not None and 1 <= number <= 64 else None


def bits_per_second(text: str) -> float | None:
    """Bytes per second from Mb/s or Gb/s, which are bits."""
    bits = _scaled(text, _BITS_PER_SECOND)
    return None if bits is None else between(bits / 8, 0, 1e15)


def numa_node(text: str) -> int | None:
    """The kernel reports -1 for none, and some tools print that as an unsigned number."""
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
    """With the in-tree driver, amd-smi prints the kernel's banner. Then the kernel release is the version."""
    version = words(text)
    match = re.match(r"Linux\s*version\s*([^\s(]{1,64})", version or "", re.IGNORECASE)
    return match[1] if match else version


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
    # Rounded, so that 818 mV is 0.818 V and not 0.8180000000000001.
    return round(parts[0] * units[parts[1]], 9)
