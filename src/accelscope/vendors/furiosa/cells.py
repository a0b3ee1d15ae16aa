"""One cell of what furiosa-smi and furiosactl print: an absence marker, or a value in the model's base unit.

The readers of values (`celsius`, `watts` ...) answer None for a text that is not such a value.
"""

import math
import re
from collections.abc import Callable, Mapping

from accelscope.model import AbsenceReason
from accelscope.vendors.common.values import between, digits_and_unit, scaled

Value = float | int | bool | str
Read = Callable[[str], Value | None]

_CELL_LIMIT = 80  # characters of a marker; none is longer

_MARKERS: Mapping[str, AbsenceReason] = {
    "": AbsenceReason.NO_SAMPLE,
    "-": AbsenceReason.NO_SAMPLE,
    "none": AbsenceReason.NO_SAMPLE,
    "null": AbsenceReason.NO_SAMPLE,
    "n/a": AbsenceReason.NOT_SUPPORTED,
    "not supported": AbsenceReason.NOT_SUPPORTED,
    "not available": AbsenceReason.NOT_SUPPORTED,
    "unsupported": AbsenceReason.NOT_SUPPORTED,
    "unknown": AbsenceReason.NOT_KNOWN,
    "permission denied": AbsenceReason.NO_PERMISSION,
    "timeout": AbsenceReason.TIMEOUT,
    "error": AbsenceReason.DRIVER_ERROR,
    "failed": AbsenceReason.DRIVER_ERROR,
}

# The degree sign in the encodings that it was seen or must be feared in; the last one lost its letter.
_CELSIUS = dict.fromkeys(("", "c", "°c", "ºc", "℃", "â°c", "\ufffdc", "\ufffd\ufffdc"), 1.0)
_WATTS = {"": 1.0, "w": 1.0, "mw": 1e-3, "kw": 1e3}
_HERTZ = {"": 1e6, "mhz": 1e6, "khz": 1e3, "ghz": 1e9, "hz": 1.0}
_PERCENT = {"": 1.0, "%": 1.0}
# Binary multiples, also where the tool writes MB: 47.50 GiB of a card are exactly its 51002736640 bytes.
_BYTES = {
    "b": 1,
    **dict.fromkeys(("k", "kb", "kib"), 2**10),
    **dict.fromkeys(("m", "mb", "mib"), 2**20),
    **dict.fromkeys(("g", "gb", "gib"), 2**30),
    **dict.fromkeys(("t", "tb", "tib"), 2**40),
}

# Past these a number is a wrapped or uninitialised register, not a measurement.
_MAX_RATIO = 10.0
_MAX_WATTS = 1e5
_MAX_HERTZ = 1e12
_MIN_CELSIUS, _MAX_CELSIUS = -273.15, 1000.0
_MAX_INTEGER = 2**63 - 1


def absence(text: str) -> AbsenceReason | None:
    """The reason that a marker gives, or None if the text is not a marker."""
    return None if len(text) > _CELL_LIMIT else _MARKERS.get(text.strip().casefold())


def words(text: str) -> str | None:
    """Free text, such as a name or a version; not one that lost letters to a wrong encoding."""
    return None if "\ufffd" in text else text.strip()[:256] or None


def identifier(text: str) -> str | None:
    """One word of printable ASCII, such as a uuid or a serial number. A damaged one must not pass for
    another card's."""
    match = re.fullmatch(r"\s*([!-~]{1,128})\s*", text)
    return match and match[1]


def architecture(text: str) -> str | None:
    """The family of a model: `FuriosaAI Warboy`, `warboy`, `RNGD`, `rngd-max`, and RNGD's first name."""
    folded = text.casefold()[:256]
    if "warboy" in folded:
        return "warboy"
    return "rngd" if "rngd" in folded or "renegade" in folded else None


def device_number(text: str) -> str | None:
    """`511:0`, the major and minor number of a device file."""
    match = re.fullmatch(r"\s*([0-9]{1,10}:[0-9]{1,10})\s*", text, re.ASCII)
    return match and match[1]


def governor(text: str) -> str | None:
    """As the driver writes it: `performance`, where furiosa-smi has `Performance`."""
    found = words(text)
    return found and found.casefold()


def count(text: str) -> int | None:
    parts = digits_and_unit(text)
    if parts is None or parts[1] or "." in parts[0]:
        return None
    number = int(parts[0])
    return number if 0 <= number <= _MAX_INTEGER else None


def ratio(text: str) -> float | None:
    """From percent, with or without the sign."""
    percent = scaled(text, _PERCENT)
    return None if percent is None else between(round(percent / 100, 9), 0, _MAX_RATIO)


def watts(text: str) -> float | None:
    return between(scaled(text, _WATTS), 0, _MAX_WATTS)


def hertz(text: str) -> float | None:
    """Hertz; a bare number is MHz."""
    return between(scaled(text, _HERTZ), 0, _MAX_HERTZ)


def celsius(text: str) -> float | None:
    return between(scaled(text, _CELSIUS), _MIN_CELSIUS, _MAX_CELSIUS)


def memory(text: str) -> int | None:
    """Bytes, of a number that says its unit."""
    parts = digits_and_unit(text)
    if parts is None or parts[1] not in _BYTES:
        return None
    number = round(float(parts[0]) * _BYTES[parts[1]])
    return number if 0 <= number <= _MAX_INTEGER else None


def plain_number(value: object) -> float | None:
    """A number of a JSON document, where it is one: JSON has no unit, its readers know it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= _MAX_INTEGER and math.isfinite(value) else None
