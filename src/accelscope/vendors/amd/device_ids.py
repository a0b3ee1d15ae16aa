"""Device ids of AMD's device plugin. For a partitioned GPU, the PCI address is the id of the first partition.
The ids of the other partitions are the names of their platform devices."""

import re

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, first_part
from accelscope.model import Vendor

_FILE = re.compile(r"(?:card|renderD)[0-9]{1,4}", re.ASCII)
_PARTITION = re.compile(r"amdgpu_xcp_[0-9]{1,4}", re.ASCII)


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    """`card0` and `renderD128` may be GPUs of other vendors, so they are resolved only with a resource name.
    Partitions are numbered over all GPUs of the node."""
    if resource is not None and _FILE.fullmatch(bare):
        device = devices.by_file(bare, Vendor("amd"))
        return UNRESOLVED if device is None else first_part(device)
    return devices.by_part_name(bare, Vendor("amd")) if _PARTITION.fullmatch(bare) else UNRESOLVED
