"""Ids that NVIDIA's device plugins use for devices besides uuids."""

import re

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, whole
from accelscope.model import Vendor

_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-f-]{36})/([0-9]{1,4})/([0-9]{1,4})", re.IGNORECASE | re.ASCII)
_FILE = re.compile(r"(nvidia[0-9]{1,4})(?:/gi([0-9]{1,4}))?(?:/vgpu[0-9]{1,6})?", re.ASCII)
_JETSON = "tegra"
_INDEX = re.compile(r"[0-9]{1,4}", re.ASCII)
# For other resources a bare number is not an index, but for example the IOMMU group of a passed-through GPU.
_INDEX_RESOURCES = frozenset({"nvidia.com/gpu", "nvidia.com/gpu.shared"})


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    if bare == _JETSON:
        return whole(devices.only(Vendor("nvidia")))
    if resource in _INDEX_RESOURCES and _INDEX.fullmatch(bare):
        return whole(devices.by_index(int(bare), Vendor("nvidia")))
    if old := _OLD_MIG.fullmatch(bare):
        parent = devices.by_uuid(old[1], Vendor("nvidia"))
        return devices.instance(parent.device, int(old[2]), int(old[3]))
    if file := _FILE.fullmatch(bare):
        device = devices.by_file(file[1], Vendor("nvidia"))
        if device is None or file[2] is None:
            return whole(device)
        return devices.instance(device.id, int(file[2]))
    return UNRESOLVED
