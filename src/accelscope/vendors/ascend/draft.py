"""An Ascend chip: its id, its health, and the draft that outputs of npu-smi are read into."""

import re
from collections.abc import Mapping
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
from accelscope.vendors.ascend import quantities
from accelscope.vendors.common.contract import number, text, whole
from accelscope.vendors.common.draft import DeviceDraft

# Ids of chips, from the most stable value that npu-smi prints.

_DIE = re.compile(r"(?:[0-9A-Za-z]{1,16},\s*)?([0-9A-Fa-f]{8}(?:[ -][0-9A-Fa-f]{8}){1,7})")


def die_id(text: str) -> str | None:
    """`VDie ID`, which is printed in groups, joined with hyphens as in Huawei's npu-exporter. The 310 prints
    the chip's version before it. Zeros mean that it is unknown."""
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
    """The id depends on this chip alone, not on the other chips of the node. The chips of a board have the
    same serial number, and chips may share a bus address, so the numbers are appended to both. Numbers alone
    are the last resort: they are assigned at each boot."""
    die, serial = (None if value and is_masked(value) else value for value in (die, serial))
    if serial and chip is not None:
        serial = f"{serial}-{chip}"
    if die or serial or board is None:
        return device_id(Vendor("ascend"), uuid=die, serial=serial, pci=pci, index=chip)
    numbers = f"npu-{board}" if chip is None else f"npu-{board}-{chip}"
    return device_id(Vendor("ascend"), serial=numbers if pci is None else f"{pci}-{numbers}")


# Health, from the words of npu-smi.

_STATES = {
    "ok": HealthState.OK,
    "warning": HealthState.WARNING,
    "alarm": HealthState.CRITICAL,
    "critical": HealthState.CRITICAL,
}
_WORD_LIMIT = 32


def health_of(word: str, information: str | None = None) -> Health:
    """An unknown word is not healthy. `information` is the driver's text for its error codes."""
    bare = word.strip()[:_WORD_LIMIT]
    state = _STATES.get(bare.casefold(), HealthState.UNKNOWN)
    if state is HealthState.OK:
        return Health(state, vendor_word=bare)
    reason = f"the driver reports {bare}" if bare else "the driver reports no health state"
    cause = "not_reported" if state is HealthState.UNKNOWN else "driver_alarm"
    reason = f"{reason}: {information}" if information else reason
    return Health(state, reason, bare or None, cause, until="condition")


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
        """0.0 W means not measured: the 310B prints it."""
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


# --- devices of annotation entries ----------------------------------------
# Reads entries of the annotation k8s-monitor.io/npu-metrics, which other collectors write too. Separate from
# the writer, because the fleet imports no sink.


_MIB = 1 << 20


def device_of(entry: Mapping[str, object]) -> Device | None:
    board, chip = whole(entry, "npu"), whole(entry, "chip")
    if board is None:
        return None
    address = text(entry, "bus_id")
    address = None if address is None else pci_address(address)
    used, total = number(entry, "hbm_used"), number(entry, "hbm_total")
    core = number(entry, "aicore")
    return Device(
        vendor=Vendor("ascend"),
        id=chip_device_id(pci=address, board=board, chip=chip),
        index=whole(entry, "phy_id"),
        board_id=board,
        chip_id=chip,
        physical_id=whole(entry, "phy_id"),
        pci_address=address,
        health=health_of(text(entry, "health") or ""),
        power_watts=number(entry, "power"),
        temperature_celsius=number(entry, "temp", least=-273),
        utilization_ratio=None if core is None else core / 100,
        memory_used_bytes=None if used is None else round(used * _MIB),
        memory_total_bytes=None if total is None else round(total * _MIB),
    )
