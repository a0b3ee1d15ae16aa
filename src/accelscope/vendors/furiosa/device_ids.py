"""Device ids of Furiosa's device plugins."""

import re

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, whole
from accelscope.model import Vendor

_CORES = re.compile(r"(.+)_cores_[0-9]+(?:-[0-9]+)?", re.ASCII)
_FILE = re.compile(r"(npu[0-9]{1,4})(?:pe[0-9]{1,2}(?:-[0-9]{1,2})?)?", re.ASCII)
_FAMILIES = ("rngd", "warboy")


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    if cores := _CORES.fullmatch(bare):
        found = devices.by_uuid(cores[1], Vendor("furiosa"))
        # Cards without a unique uuid are identified by their address.
        return found if found.device is not None else whole(devices.by_pci(cores[1], Vendor("furiosa")))
    file = _FILE.fullmatch(bare)
    if resource is None or file is None:
        return UNRESOLVED
    # A Warboy and an RNGD of one node may both be npu0.
    family = next((family for family in _FAMILIES if family in resource.partition("/")[2]), None)
    return whole(devices.by_file(file[1], Vendor("furiosa"), family))
