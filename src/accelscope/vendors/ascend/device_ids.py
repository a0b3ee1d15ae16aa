"""Device ids of Ascend's device plugin."""

import re

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, whole
from accelscope.model import Vendor

# Ascend910-3; for a part of a chip (vNPU): template, number of the part, chip.
_CHIP = re.compile(r"Ascend[0-9A-Za-z]+-(?:[0-9]+c[0-9a-z.]*-[0-9]+-)?([0-9]{1,5})", re.ASCII)
_NPU = re.compile(r"npu-([0-9]{1,5})", re.ASCII)  # the 950's, under huawei.com/npu


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    chip = _CHIP.fullmatch(bare) or (None if resource is None else _NPU.fullmatch(bare))
    return UNRESOLVED if chip is None else whole(devices.by_chip(int(chip[1]), Vendor("ascend")))
