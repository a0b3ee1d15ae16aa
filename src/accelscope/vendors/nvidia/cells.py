"""One cell of what nvidia-smi prints: an absence marker, or a value in the model's base unit.

The readers of values (`ratio`, `watts` ...) answer None for a text that is not such a value.
"""

import re
from collections.abc import Callable, Mapping

from accelscope.model import AbsenceReason
from accelscope.vendors.common.values import between, digits_and_unit, scaled

Value = float | int | bool | str
Read = Callable[[str], Value | None]

# NVML's own error texts as they stand in cells, with or without brackets. `[N/A]` says that the device lacks
# the thing; the others say that something went wrong, and each means a different thing to do.
_MARKERS: Mapping[str, AbsenceReason] = {
    "": AbsenceReason.NO_SAMPLE,
    "-": AbsenceReason.NO_SAMPLE,
    "no data": AbsenceReason.NO_SAMPLE,
    "not found": AbsenceReason.NO_SAMPLE,
    "n/a": AbsenceReason.NOT_SUPPORTED,
    "not supported": AbsenceReason.NOT_SUPPORTED,
    "not available": AbsenceReason.NOT_SUPPORTED,
    "function not found": AbsenceReason.NOT_KNOWN,
    "argument version mismatch": AbsenceReason.NOT_KNOWN,
    "requested functionality has been deprecated": AbsenceReason.DEPRECATED,
    "insufficient permissions": AbsenceReason.NO_PERMISSION,
    "no permission": AbsenceReason.NO_PERMISSION,
    "the operating system has blocked the request": AbsenceReason.NO_PERMISSION,
    "gpu is lost": AbsenceReason.LOST,
    "gpu requires reset": AbsenceReason.RESET_REQUIRED,
    "timeout": AbsenceReason.TIMEOUT,
    "err!": AbsenceReason.DRIVER_ERROR,
    "error": AbsenceReason.DRIVER_ERROR,
    "unknown error": AbsenceReason.DRIVER_ERROR,
    "driver not loaded": AbsenceReason.DRIVER_ERROR,
    "corrupted inforom": AbsenceReason.DRIVER_ERROR,
    "inforom is corrupted": AbsenceReason.DRIVER_ERROR,
    "invalid argument": AbsenceReason.DRIVER_ERROR,
    "insufficient resources": AbsenceReason.DRIVER_ERROR,
    "uninitialized": AbsenceReason.DRIVER_ERROR,
}

# NVIDIA's tools mean binary multiples by MB and KB of memory (pmon: fb in MB equals MiB elsewhere).
_BYTES = {
    "b": 1,
    **dict.fromkeys(("k", "kb", "kib"), 2**10),
    **dict.fromkeys(("", "m", "mb", "mib"), 2**20),
    **dict.fromkeys(("g", "gb", "gib"), 2**30),
    **dict.fromkeys(("t", "tb", "tib"), 2**40),
}
_WATTS = {"": 1.0, "w": 1.0, "mw": 1e-3, "kw": 1e3}
_HERTZ = {"": 1e6, "mhz": 1e6, "khz": 1e3, "ghz": 1e9, "hz": 1.0}
_CELSIUS = {"": 1.0, "c": 1.0, "°c": 1.0}
_VOLTS = {"": 1e-3, "mv": 1e-3, "v": 1.0}
# Of PCIe traffic decimal ones: drivers that measure whole megabytes print multiples of 1,000 KB/s.
_BYTES_PER_SECOND = {"": 1e3, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9, "b/s": 1.0}
_PERCENT = {"": 1.0, "%": 1.0}
_PLAIN = {"": 1}
_LANES = {"": 1, "x": 1}

# Past these a number is a wrapped or uninitialised register, not a measurement.
_MAX_RATIO = 10.0
_MAX_WATTS = 1e5
_MAX_HERTZ = 1e12
_MIN_CELSIUS, _MAX_CELSIUS = -273.15, 1000.0
_MAX_INTEGER = 2**63 - 1


def absence(text: str) -> AbsenceReason | None:
    """The reason that a marker gives, or None if the text is not a marker."""
    if len(text) > 80:
        return None
    bare = text.strip()
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1].strip()
    folded = bare.rstrip(".").casefold()
    if folded.startswith("deprecated"):  # driver 610: `Deprecated, see "KMD version" instead`
        return AbsenceReason.DEPRECATED
    return _MARKERS.get(folded)


def is_number(text: str) -> bool:
    """A number with or without a unit, of whatever kind."""
    return digits_and_unit(text) is not None


def words(text: str) -> str | None:
    """Free text, such as a name or a version; not one that lost letters to a wrong encoding."""
    return None if "\ufffd" in text else text.strip()[:256] or None


def identifier(text: str) -> str | None:
    """One word of printable ASCII, such as a uuid or a serial number. A damaged one must not pass for
    another device's."""
    match = re.fullmatch(r"\s*([!-~]{1,128})\s*", text)
    return match and match[1]


def uuid(text: str) -> str | None:
    """A uuid with NVIDIA's prefix. What follows may be masked by whoever shared the output."""
    word = identifier(text)
    return word if word and word.startswith(("GPU-", "MIG-")) else None


def count(text: str) -> int | None:
    return _integer(text, _PLAIN)


def lanes(text: str) -> int | None:
    """Width of a link, `16` or `16x`."""
    return _integer(text, _LANES)


def memory(text: str) -> int | None:
    """Bytes; a bare number is MiB."""
    return _integer(text, _BYTES)


def ratio(text: str) -> float | None:
    percent = scaled(text, _PERCENT)
    return None if percent is None or not 0 <= percent / 100 <= _MAX_RATIO else percent / 100


def watts(text: str) -> float | None:
    return between(scaled(text, _WATTS), 0, _MAX_WATTS)


def hertz(text: str) -> float | None:
    """Hertz; a bare number is MHz."""
    return between(scaled(text, _HERTZ), 0, _MAX_HERTZ)


def celsius(text: str) -> float | None:
    return between(scaled(text, _CELSIUS), _MIN_CELSIUS, _MAX_CELSIUS)


def volts(text: str) -> float | None:
    """Volts; a bare number is mV."""
    return between(scaled(text, _VOLTS), 0, 1e3)


def bytes_per_second(text: str) -> float | None:
    """Bytes per second; a bare number is KB/s."""
    return between(scaled(text, _BYTES_PER_SECOND), 0, 1e15)


def architecture(text: str) -> str | None:
    """`Ampere`, `Ada Lovelace`: one lower-case word, as NVML's own names are."""
    word = text.casefold().split(None, 1)[:1]
    return word[0][:32] if word else None


def performance_state(text: str) -> int | None:
    """P0 (fastest) to P15."""
    bare = text.strip()
    number = count(bare[1:]) if bare[:1] in ("P", "p") else None
    return number if number is not None and number <= 15 else None


def flag(text: str) -> bool | None:
    match text.strip().casefold():
        case "enabled" | "yes" | "on" | "active" | "true":
            return True
        case "disabled" | "no" | "off" | "not active" | "inactive" | "false":
            return False
    return None


def mask(text: str) -> int | None:
    """A set of bits in hexadecimal, `0x00000000000001FF`."""
    bare = text.strip().casefold()
    if re.fullmatch(r"0x[0-9a-f]{1,16}", bare) is None:
        return None
    return int(bare, 16)


def _integer(text: str, units: Mapping[str, int]) -> int | None:
    parts = digits_and_unit(text)
    if parts is None or parts[1] not in units:
        return None
    digits, factor = parts[0], units[parts[1]]
    if "." in digits and factor == 1:
        return None  # a count has no parts
    number = round(float(digits) * factor) if "." in digits else int(digits) * factor
    return number if 0 <= number <= _MAX_INTEGER else None
