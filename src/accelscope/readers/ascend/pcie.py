"""What the kernel tells of a chip's place on the PCI bus."""

from pathlib import Path

from accelscope.model import Pcie

# Transfers per second of one lane, in GT/s, by the generation of PCI Express that has it.
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_FILE_BYTES = 64


class PciPlace:
    def __init__(self, sys: Path, address: str) -> None:
        self._folder = sys / "bus/pci/devices" / address

    def link(self) -> Pcie | None:
        link = Pcie(
            generation=self._generation("current_link_speed"),
            max_generation=self._generation("max_link_speed"),
            width=self._width("current_link_width"),
            max_width=self._width("max_link_width"),
        )
        return link if link != Pcie() else None

    def numa_node(self) -> int | None:
        text = self._read("numa_node")
        return int(text) if text.isdecimal() else None  # -1: the machine has but one

    def _generation(self, file: str) -> int | None:
        """`16.0 GT/s PCIe`; a link that is down has no speed."""
        word = self._read(file).split(" ")[0]
        try:
            return _GENERATIONS.get(float(word))
        except ValueError:
            return None

    def _width(self, file: str) -> int | None:
        text = self._read(file)
        return int(text) if text.isdecimal() and 0 < int(text) <= 32 else None

    def _read(self, file: str) -> str:
        try:
            with (self._folder / file).open("rb") as opened:
                return opened.read(_FILE_BYTES).decode(errors="replace").strip()
        except OSError:
            return ""
