"""Who a chip is: the most stable fact that npu-smi tells of it."""

import re

from accelscope.model import Vendor, device_id

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
    """A board's serial number is that of all its chips. Numbers are a last resort: they are given anew at
    each boot, and differ inside a container."""
    if serial is not None and chip is not None:
        serial = f"{serial}-{chip}"
    if die or serial or pci or board is None:
        return device_id(Vendor.ASCEND, uuid=die, serial=serial, pci=pci)
    return device_id(Vendor.ASCEND, serial=f"npu-{board}" if chip is None else f"npu-{board}-{chip}")
