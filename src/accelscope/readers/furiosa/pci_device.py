"""A card's PCI device: whether it is still there, and its NUMA node."""

import os

from accelscope.readers.furiosa.attributes import Attributes
from accelscope.readers.furiosa.sysfs_text import whole


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
