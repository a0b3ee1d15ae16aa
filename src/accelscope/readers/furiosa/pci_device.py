"""What the kernel tells of a card's PCI device: its NUMA node and its link."""

import os
import re

from accelscope.model import Pcie
from accelscope.readers.furiosa.attributes import Attributes, read_text
from accelscope.readers.furiosa.sysfs_text import whole

_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) GT/s", re.ASCII)
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def is_gone(devices: str, address: str) -> bool:
    """The bus is shown, and the device is not on it any more. A container may show an empty one."""
    if os.path.isdir(f"{devices}/{address}"):  # noqa: PTH112 - a string
        return False
    try:
        return bool(os.listdir(devices))  # noqa: PTH208
    except OSError:
        return False


def numa_node(device: str, attributes: Attributes) -> int | None:
    node = attributes.value(f"{device}/numa_node", "numa_node", whole)
    if node is not None and node >= 0:
        return node
    attributes.absent.pop("numa_node", None)  # -1, or no such file: a machine of one node does not say
    return None


def link(device: str) -> Pcie | None:
    found = Pcie(
        generation=_generation(f"{device}/current_link_speed"),
        max_generation=_generation(f"{device}/max_link_speed"),
        width=_width(f"{device}/current_link_width"),
        max_width=_width(f"{device}/max_link_width"),
    )
    return found if found != Pcie() else None


def _generation(path: str) -> int | None:
    match = _SPEED.match(_text(path))
    return _GENERATIONS.get(float(match[1])) if match else None


def _width(path: str) -> int | None:
    width = whole(_text(path))
    return width if width is not None and 0 < width <= 64 else None  # 255: the device does not answer


def _text(path: str) -> str:
    try:
        return read_text(path)
    except OSError:
        return ""  # an older kernel, or a device that is not behind PCIe
