"""What the kernel tells of a device's place on the PCI bus."""

from pathlib import Path

import pytest

from accelscope.model import Pcie
from accelscope.vendors.common.files import PROCESSING_CLASS, PciDevice, link_of, numa_node_of, pci_devices


def lay_out(folder: Path, **files: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return str(folder)


@pytest.mark.parametrize(
    ("speed", "width", "generation", "lanes"),
    [
        ("16.0 GT/s PCIe\n", "16\n", 4, 16),
        ("8 GT/s\n", "8\n", 3, 8),
        ("64.0 GT/s PCIe\n", "1\n", 6, 1),
        ("Unknown\n", "4\n", None, 4),  # a link that is down
        ("32.0 GT/s PCIe\n", "255\n", 5, None),  # the device does not answer
        ("2.5 GT/s\n", "0\n", 1, None),
        ("5.0 GT/s\n", "-1\n", 2, None),
        ("5.0 GT/s\n", "9" * 5000, 2, None),
    ],
)
def test_the_link(tmp_path: Path, speed: str, width: str, generation: int | None, lanes: int | None) -> None:
    folder = lay_out(tmp_path, current_link_speed=speed, max_link_width=width)
    assert link_of(folder) == Pcie(generation=generation, max_width=lanes)


def test_a_device_that_is_not_behind_pcie_has_no_link(tmp_path: Path) -> None:
    assert link_of(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("", None), ("x\n", None)]
)
def test_the_numa_node(tmp_path: Path, text: str, node: int | None) -> None:
    assert numa_node_of(lay_out(tmp_path, numa_node=text)) == node


def test_devices_are_those_of_the_vendor_and_the_class(tmp_path: Path) -> None:
    bus = tmp_path / "bus/pci/devices"
    assert pci_devices(tmp_path, 0x19E5, PROCESSING_CLASS) is None
    lay_out(bus / "0000:01:00.0", vendor="0x19e5\n", device="0xd802\n", **{"class": "0x120000\n"})
    lay_out(bus / "0000:02:00.0", vendor="0x10de\n", device="0x2330\n", **{"class": "0x120000\n"})
    lay_out(bus / "0000:03:00.0", vendor="0x19e5\n", device="0x0001\n", **{"class": "0x020000\n"})
    lay_out(bus / "0000:04:00.0", vendor="rubbish\n")
    (bus / "0000:01:00.0/driver").symlink_to("../../drivers/devdrv_device_driver")
    held = PciDevice("0000:01:00.0", "0xd802", "devdrv_device_driver")
    assert pci_devices(tmp_path, 0x19E5, PROCESSING_CLASS) == (held,)
