"""NVIDIA GPUs in device plugins: the part of AccelScope's plugin, and the device ids of NVIDIA's plugins."""

import re
from collections.abc import Sequence

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, whole
from accelscope.deviceplugin.vendor import AllocatedDevice, ContainerEdits, Roots, Unit, comma_separated
from accelscope.model import Device, Vendor

_CDI_KIND = "nvidia.com/gpu"


class NvidiaPart:
    def default_resource(self, devices: Sequence[Device], partition_cores: int) -> str:  # noqa: ARG002
        return "nvidia.com/gpu"

    def serves(self, device: Device, resource: str, partition_cores: int) -> bool:  # noqa: ARG002
        return True

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:  # noqa: ARG002
        """A GPU in MIG mode is allocated as a whole."""
        return () if device.uuid is None else (Unit(device.uuid),)

    def cdi_name(self, device: Device) -> str | None:
        return None if device.uuid is None else f"{_CDI_KIND}={device.uuid}"

    def container_edits(self, allocated: Sequence[AllocatedDevice], *, cdi: bool) -> ContainerEdits:
        if cdi:
            names = (self.cdi_name(each.device) for each in allocated)
            return ContainerEdits(cdi=tuple(dict.fromkeys(name for name in names if name is not None)))
        uuids = (each.device.uuid for each in allocated if each.device.uuid is not None)
        return ContainerEdits(environment={"NVIDIA_VISIBLE_DEVICES": comma_separated(uuids)})


def open_part(roots: Roots) -> NvidiaPart:  # noqa: ARG001 - NVIDIA's runtime finds the files itself
    return NvidiaPart()


# --- device ids -----------------------------------------------------------


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
