"""An Ascend chip: its id, its health, and the draft that outputs of npu-smi are read into."""

import re
from dataclasses import dataclass
from typing import ClassVar

from accelscope.model import AbsenceReason, Device, Health, HealthState, Vendor, device_id, is_masked
from accelscope.vendors.ascend import quantities
from accelscope.vendors.common.draft import DeviceDraft

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
        return quantities.absence(text)

    def take_power(self, text: str | None, source: str) -> None:
        """No running chip draws 0.0 W: the 310B prints that where it does not measure."""
        self.take("power_watts", text, quantities.watts, source)
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
