"""Folders with the files of the amdgpu driver, written by the tests."""

from collections.abc import Mapping
from pathlib import Path


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def lay_out_gpu(
    root: Path,
    files: Mapping[str, str],
    *,
    card: int = 0,
    pci: str = "0000:09:00.0",
    vendor: str = "0x1002",
    driver: str | None = "amdgpu",
) -> Path:
    """Write a card with these files of its device. Returns the folder of the device."""
    device = root / "sys/class/drm" / f"card{card}" / "device"
    bound = f"DRIVER={driver}\n" if driver else ""
    identity = {"vendor": vendor, "device": "0x744c", "uevent": f"{bound}PCI_SLOT_NAME={pci}"}
    write(device, {**identity, **files})
    if driver is not None:
        (device / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    (root / "sys/module/amdgpu").mkdir(parents=True, exist_ok=True)
    return device
