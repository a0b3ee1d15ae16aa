"""Values as npu-smi prints them: an absence marker, or a value in the model's base unit.

The functions that read a value (`ratio`, `watts` ...) return None for a text that is not such a value.
Numbers have a maximum length: a cell with a megabyte of digits is not a number.
"""

import re
from collections.abc import Callable

from accelscope.model import AbsenceReason, pci_address
from accelscope.vendors.common.values import between

Value = float | int | str
Read = Callable[[str], Value | None]

MIB = 2**20  # npu-smi divides bytes by 1024 twice and calls that MB

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,9})?", re.ASCII)
_INTEGER = re.compile(r"[0-9]{1,18}", re.ASCII)
_PCI_DEVICE_ID = re.compile(r"0x[0-9a-f]{4}")

_MARKERS = {
    "": AbsenceReason.NO_SAMPLE,
    "-": AbsenceReason.NO_SAMPLE,
    "--": AbsenceReason.NO_SAMPLE,
    "na": AbsenceReason.NOT_SUPPORTED,
    "n/a": AbsenceReason.NOT_SUPPORTED,
    "not support": AbsenceReason.NOT_SUPPORTED,
    "not supported": AbsenceReason.NOT_SUPPORTED,
    "failed": AbsenceReason.DRIVER_ERROR,
    "error": AbsenceReason.DRIVER_ERROR,
}

# A number beyond these limits is a wrapped or uninitialised register.
_MAX_RATIO = 10.0
_MAX_WATTS = 1e5
_MAX_HERTZ = 1e12
_MAX_VOLTS = 100.0
_MIN_CELSIUS, _MAX_CELSIUS = -273.15, 1000.0
_MAX_MIB = 2**40


def absence(text: str) -> AbsenceReason | None:
    """The reason that a marker stands for, or None if the text is not a marker."""
    return _MARKERS.get(text.strip().casefold()) if len(text) <= 80 else None


def count(text: str) -> int | None:
    bare = text.strip()
    return int(bare) if _INTEGER.fullmatch(bare) else None


def memory(text: str) -> int | None:
    """Bytes from MB, which are MiB."""
    number = count(text)
    return number * MIB if number is not None and number <= _MAX_MIB else None


def ratio(text: str) -> float | None:
    """0 to 1 from percent."""
    percent = _number(text)
    return percent / 100 if percent is not None and 0 <= percent / 100 <= _MAX_RATIO else None


def fill(text: str) -> float | None:
    """0 to 1 from a percentage that cannot exceed 100."""
    return between(ratio(text), 0, 1)


def watts(text: str) -> float | None:
    return between(_number(text), 0, _MAX_WATTS)


def volts(text: str) -> float | None:
    return between(_number(text), 0, _MAX_VOLTS)


def celsius(text: str) -> float | None:
    return between(_number(text), _MIN_CELSIUS, _MAX_CELSIUS)


def hertz(text: str) -> float | None:
    """Hertz from MHz."""
    megahertz = _number(text)
    return None if megahertz is None else between(round(megahertz * 1e6, 3), 0, _MAX_HERTZ)


def words(text: str) -> str | None:
    """Free text, such as a name or a version. None if characters were lost in decoding."""
    return None if "\ufffd" in text else " ".join(text.split())[:256] or None


def pci_device_id(text: str) -> str | None:
    bare = text.strip().casefold()
    return bare if _PCI_DEVICE_ID.fullmatch(bare) else None


def address(text: str) -> str | None:
    return pci_address(text) if len(text) <= 80 else None


def _number(text: str) -> float | None:
    bare = text.strip()
    return float(bare) if _NUMBER.fullmatch(bare) else None
