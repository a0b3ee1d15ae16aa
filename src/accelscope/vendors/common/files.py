"""Small files in /sys and /proc. Paths are strings: joining Path objects costs more than reading."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from accelscope.model import Pcie

_MOST_BYTES = 65536  # more than the kernel returns in one read
_MOST_LIST_BYTES = 1 << 20


def read_text(path: str) -> str:
    """Raises OSError. May hang: for some files, a driver queries its device."""
    return read_bytes(path).decode(errors="replace")


def read_bytes(path: str) -> bytes:
    """Raises OSError and may hang, as `read_text`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)


def read_whole(path: str) -> bytes:
    """A list that may be longer than one page; the kernel returns at most a page per read. Raises OSError
    and may hang, as `read_text`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, _MOST_BYTES)
        more = content
        while more and len(content) < _MOST_LIST_BYTES:
            more = os.read(descriptor, _MOST_BYTES)
            content += more
        return content
    finally:
        os.close(descriptor)


def read_optional(path: str) -> str | None:
    """None if the file is missing, empty or unreadable."""
    try:
        return read_text(path).strip() or None
    except OSError:
        return None


def entries(folder: str) -> list[str]:
    """Sorted names in a folder; empty if it cannot be read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - only names, and called often
    except OSError:
        return []


# Devices on the PCI bus. The kernel lists them with and without a driver.

DISPLAY_CLASS = 0x03  # graphics and 3D controllers; not the audio and USB functions of the same card
PROCESSING_CLASS = 0x12  # accelerators without display
# GT/s of one lane -> PCIe generation.
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}

_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) GT/s", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_WIDEST = 64  # 255 lanes: the device does not answer


@dataclass(frozen=True, slots=True)
class PciDevice:
    address: str
    device_code: str  # as in pci.ids, such as 0x2330
    driver: str | None  # that is bound to it: nvidia, nouveau, vfio-pci ...


def pci_devices(sys: Path, vendor_code: int, *classes: int) -> tuple[PciDevice, ...] | None:
    """None: the folder does not contain the bus."""
    try:
        folders = sorted((sys / "bus/pci/devices").iterdir())
    except OSError:
        return None
    return tuple(
        PciDevice(folder.name, read_optional(f"{folder}/device") or "", _driver(folder))
        for folder in folders
        if _code(f"{folder}/vendor") == vendor_code and (_code(f"{folder}/class") or 0) >> 16 in classes
    )


def link_of(folder: str, limits: Pcie | None = None) -> Pcie | None:
    """The PCIe link of the device with this folder. None: not reported, or not a PCIe device. `limits` are
    those of the device, if they are known."""
    if limits is None:
        limits = link_limits_of(folder)
    link = Pcie(
        generation=_generation(f"{folder}/current_link_speed"),
        max_generation=limits.max_generation,
        width=_width(f"{folder}/current_link_width"),
        max_width=limits.max_width,
    )
    return link if link != Pcie() else None


def link_limits_of(folder: str) -> Pcie:
    """The part of a link that does not change."""
    return Pcie(
        max_generation=_generation(f"{folder}/max_link_speed"), max_width=_width(f"{folder}/max_link_width")
    )


def numa_node_of(folder: str) -> int | None:
    """None for -1, which the kernel reports on a machine with a single node."""
    return _whole(f"{folder}/numa_node")


def _generation(path: str) -> int | None:
    """`16.0 GT/s PCIe`; a link that is down has no speed."""
    match = _SPEED.match(read_optional(path) or "")
    return GENERATIONS.get(float(match[1])) if match else None


def _width(path: str) -> int | None:
    width = _whole(path)
    return width if width is not None and 0 < width <= _WIDEST else None


def _whole(path: str) -> int | None:
    text = read_optional(path) or ""
    return int(text) if _WHOLE.fullmatch(text) else None


def _driver(folder: Path) -> str | None:
    try:
        return (folder / "driver").readlink().name
    except OSError:
        return None


def _code(path: str) -> int | None:
    try:
        return int(read_optional(path) or "", 16)
    except ValueError:
        return None
