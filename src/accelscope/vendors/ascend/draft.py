"""An Ascend chip: its id, its health, and the draft that outputs of npu-smi are read into."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from accelscope.model import (
    AbsenceReason,
    Device,
    Health,
    HealthState,
    Vendor,
    device_id,
    is_masked,
    pci_address,
)
from accelscope.vendors.common.draft import DeviceDraft
from accelscope.vendors.common.values import between

# --- cells ------------------------------------------------------------
# One value of what npu-smi prints: an absence marker, or a value in the model's base unit.
#
# The readers of values (`ratio`, `watts` ...) answer None for a text that is not such a value. Digits are
# bounded: a cell of a megabyte of digits is not a number.


Value = float | int | str
Read = Callable[[str], Value | None]

MIB = 2**20  # npu-smi divides bytes by 1024 twice and calls that MB

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,9})?", re.ASCII)
_INTEGER = re.compile(r"[0-9]{1,18}", re.ASCII)
_PCI_DEVICE_ID = re.compile(r"0x[0-9a-f]{4}")
_WORD = re.compile(r"[!-~]{1,128}")

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

# Past these a number is a wrapped or uninitialised register, not a measurement.
_MAX_RATIO = 10.0
_MAX_WATTS = 1e5
_MAX_HERTZ = 1e12
_MAX_VOLTS = 100.0
_MIN_CELSIUS, _MAX_CELSIUS = -273.15, 1000.0
_MAX_MIB = 2**40


def absence(text: str) -> AbsenceReason | None:
    """The reason that a marker gives, or None if the text is not a marker."""
    return _MARKERS.get(text.strip().casefold()) if len(text) <= 80 else None


def count(text: str) -> int | None:
    bare = text.strip()
    return int(bare) if _INTEGER.fullmatch(bare) else None


def memory(text: str) -> int | None:
    """Bytes, of a number of MB that are MiB."""
    number = count(text)
    return number * MIB if number is not None and number <= _MAX_MIB else None


def ratio(text: str) -> float | None:
    """0-1, of a number of percent."""
    percent = _number(text)
    return percent / 100 if percent is not None and 0 <= percent / 100 <= _MAX_RATIO else None


def fill(text: str) -> float | None:
    """0-1, of a number of percent that cannot be more than 100."""
    return between(ratio(text), 0, 1)


def watts(text: str) -> float | None:
    return between(_number(text), 0, _MAX_WATTS)


def volts(text: str) -> float | None:
    return between(_number(text), 0, _MAX_VOLTS)


def celsius(text: str) -> float | None:
    return between(_number(text), _MIN_CELSIUS, _MAX_CELSIUS)


def hertz(text: str) -> float | None:
    """Hertz, of a number of MHz."""
    megahertz = _number(text)
    return None if megahertz is None else between(round(megahertz * 1e6, 3), 0, _MAX_HERTZ)


def words(text: str) -> str | None:
    """Free text, such as a name or a version; not one that lost letters to a wrong encoding."""
    return None if "\ufffd" in text else " ".join(text.split())[:256] or None


def identifier(text: str) -> str | None:
    """One word of printable ASCII, such as a serial number. A damaged one must not pass for another's."""
    bare = text.strip()
    return bare if _WORD.fullmatch(bare) else None


def pci_device_id(text: str) -> str | None:
    bare = text.strip().casefold()
    return bare if _PCI_DEVICE_ID.fullmatch(bare) else None


def address(text: str) -> str | None:
    return pci_address(text) if len(text) <= 80 else None


def _number(text: str) -> float | None:
    bare = text.strip()
    return float(bare) if _NUMBER.fullmatch(bare) else None


# Who a chip is: the most stable fact that npu-smi tells of it.

_DIE = re.compile(r"(?:[0-9A-Za-z]{1,16},\s*)?([0-9A-Fa-f]{8}(?:[ -][0-9A-Fa-f]{8}){1,7})")


def die_id(text: str) -> str | None:
    """`VDie ID`, printed in groups divided by blanks, as one word; Huawei's own exporter joins it the same
    way. The 310 puts the chip's version before it. A chip that does not tell prints zeros."""
    match = _DIE.fullmatch(text.strip()) if len(text) <= 120 else None
    if match is None:
        return None
    joined = re.sub(r"[ -]", "-", match[1]).upper()
    return joined if joined.strip("0-") else None


def chip_device_id(
    *,
    die: str | None = None,
    serial: str | None = None,
    pci: str | None = None,
    board: int | None = None,
    chip: int | None = None,
) -> str:
    """The id depends on this chip alone, never on which others are listed. A board's serial number is that of
    all its chips, and chips may share a bus address, so numbers follow both. Numbers alone are a last resort:
    they are assigned anew at each boot."""
    die, serial = (None if fact and is_masked(fact) else fact for fact in (die, serial))
    if serial and chip is not None:
        serial = f"{serial}-{chip}"
    if die or serial or board is None:
        return device_id(Vendor("ascend"), uuid=die, serial=serial, pci=pci, index=chip)
    numbers = f"npu-{board}" if chip is None else f"npu-{board}-{chip}"
    return device_id(Vendor("ascend"), serial=numbers if pci is None else f"{pci}-{numbers}")


# npu-smi's words for the health of a chip, on the scale of all vendors.

_STATES = {
    "ok": HealthState.OK,
    "warning": HealthState.WARNING,
    "alarm": HealthState.CRITICAL,
    "critical": HealthState.CRITICAL,
}
_WORD_LIMIT = 32


def health_of(word: str, information: str | None = None) -> Health:
    """A word that is not known is not healthy. `information` is what the driver adds to its error codes."""
    bare = word.strip()[:_WORD_LIMIT]
    state = _STATES.get(bare.casefold(), HealthState.UNKNOWN)
    if state is HealthState.OK:
        return Health(state, vendor_word=bare)
    reason = f"the driver reports {bare}" if bare else "the driver does not tell"
    return Health(state, f"{reason}: {information}" if information else reason, bare or None)


@dataclass(slots=True)
class AscendDraft(DeviceDraft):
    vendor: ClassVar[Vendor] = Vendor("ascend")
    main_sensor: ClassVar[str | None] = "npu"

    board: int | None = None
    chip: int | None = None

    def absence(self, place: str, text: str) -> AbsenceReason | None:
        del place
        return absence(text)

    def take_power(self, text: str | None, source: str) -> None:
        """No running chip draws 0.0 W: the 310B prints that where it does not measure."""
        self.take("power_watts", text, watts, source)
        if self.values.get("power_watts") == 0:
            del self.values["power_watts"]
            self.absences["power_watts"] = AbsenceReason.NOT_SUPPORTED

    def device(self) -> Device:
        return self.build(self.id, board_id=self.board, chip_id=self.chip)

    @property
    def id(self) -> str:
        return chip_device_id(
            die=self.values.get("uuid"),
            serial=self.values.get("serial"),
            pci=self.values.get("pci_address"),
            board=self.board,
            chip=self.chip,
        )
