"""Who a chip is: the most stable fact that npu-smi tells of it."""

import re

from accelscope.model import Vendor, device_id, is_masked

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
        return device_id(Vendor.ASCEND, uuid=die, serial=serial, pci=pci, index=chip)
    numbers = f"npu-{board}" if chip is None else f"npu-{board}-{chip}"
    return device_id(Vendor.ASCEND, serial=numbers if pci is None else f"{pci}-{numbers}")
