"""How AMD's device plugin names devices. Of a divided GPU, its PCI address means the first partition, and the
others have the names of further platform devices."""

import re

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, Resolved, first_part
from accelscope.model import Vendor

_FILE = re.compile(r"(?:card|renderD)[0-9]{1,4}", re.ASCII)
_PARTITION = re.compile(r"amdgpu_xcp_[0-9]{1,4}", re.ASCII)


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> Resolved:
    """Other vendors' GPUs are cards, too. Partitions are numbered over all GPUs of the node."""
    if resource is not None and _FILE.fullmatch(bare):
        device = devices.by_file(bare, Vendor("amd"))
        return UNRESOLVED if device is None else first_part(device)
    return devices.by_part_name(bare, Vendor("amd")) if _PARTITION.fullmatch(bare) else UNRESOLVED
