"""The device-plugin part for NVIDIA GPUs. It passes uuids to NVIDIA's container runtime or to CDI."""

from collections.abc import Sequence

from accelscope.deviceplugin.vendor import AllocatedDevice, ContainerEdits, Roots, Unit, comma_separated
from accelscope.model import Device

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
