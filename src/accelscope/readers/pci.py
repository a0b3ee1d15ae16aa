"""Devices on the PCI bus, as the kernel lists them whether or not a driver is there."""

from dataclasses import dataclass
from pathlib import Path

DISPLAY_CLASS = 0x03  # graphics and 3D controllers; not the audio and USB functions of the same card
PROCESSING_CLASS = 0x12  # accelerators that draw nothing


@dataclass(frozen=True, slots=True)
class PciDevice:
    address: str
    device_code: str  # as in pci.ids, such as 0x2330
    driver: str | None  # that holds it: nvidia, nouveau, vfio-pci ...


def pci_devices(sys: Path, vendor_code: int, *classes: int) -> tuple[PciDevice, ...] | None:
    """None: the folder does not show the bus."""
    try:
        folders = sorted((sys / "bus/pci/devices").iterdir())
    except OSError:
        return None
    return tuple(
        PciDevice(folder.name, _word(folder / "device") or "", _driver(folder))
        for folder in folders
        if _number(folder / "vendor") == vendor_code and (_number(folder / "class") or 0) >> 16 in classes
    )


def _driver(folder: Path) -> str | None:
    try:
        return (folder / "driver").readlink().name
    except OSError:
        return None


def _number(path: Path) -> int | None:
    try:
        return int(_word(path) or "", 16)
    except ValueError:
        return None


def _word(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None  # it went away while it was looked at
