"""AMD GPUs in device plugins: the part of AccelScope's plugin, and the device ids of AMD's plugin.

A container gets /dev/kfd, which all GPUs share, and the GPU's files in /dev/dri.
"""

import re
from collections.abc import Sequence

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, first_part
from accelscope.deviceplugin.vendor import (
    AllocatedDevice,
    ContainerEdits,
    DeviceNode,
    DeviceUnavailable,
    Roots,
    Unit,
)
from accelscope.model import Device, Vendor
from accelscope.vendors.amd.drm import Cards, ComputeDriver

_COMPUTE, _GRAPHICS = "kfd", "dri"
_CDI_KIND = "amd.com/gpu"


class AmdPart:
    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._partitioned: set[str] = set()  # by Device.id

    def default_resource(self, devices: Sequence[Device], partition_cores: int) -> str:  # noqa: ARG002
        return "amd.com/gpu"

    def serves(self, device: Device, resource: str, partition_cores: int) -> bool:  # noqa: ARG002
        return True

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:  # noqa: ARG002
        """A partitioned GPU is allocated with all its partitions. Its id is the uuid, because AMD's plugin
        uses the PCI address for the first partition. The id stays the same while the partitions are not
        visible, for example when the GPU is suspended: to the kubelet, another id would be another GPU."""
        if device.pci_address is None or self._lacks_device_files(device):
            return ()
        if device.partitions:
            self._partitioned.add(device.id)
        uuid = device.uuid if device.id in self._partitioned else None
        return (Unit(uuid or device.pci_address),)

    def cdi_name(self, device: Device) -> str | None:
        """AMD's CDI specification numbers GPUs in the order of their PCI addresses, as AMD's tools do."""
        return None if device.index is None else f"{_CDI_KIND}={device.index}"

    def container_edits(self, allocated: Sequence[AllocatedDevice], *, cdi: bool) -> ContainerEdits:
        if cdi:
            return ContainerEdits(cdi=tuple(self._cdi_name(each.device) for each in allocated))
        cards = {card.pci_address: card for card in Cards(self._roots.sys).find()}
        partitions = ComputeDriver(self._roots.sys).nodes()
        names = [_COMPUTE]
        for each in allocated:
            address = each.device.pci_address or ""
            card = cards.get(address)
            if card is None:
                raise DeviceUnavailable(f"{address}: not in /sys/class/drm with the amdgpu driver")
            parts = partitions.get(address.rpartition(".")[0], ())
            own = [*card.nodes, *(part.render_node for part in parts if part.render_node is not None)]
            names += [f"{_GRAPHICS}/{name}" for name in sorted(dict.fromkeys(own))]
        missing = [name for name in names if not (self._roots.dev / name).exists()]
        if missing:
            raise DeviceUnavailable(f"{self._roots.dev}/{missing[0]} does not exist")
        return ContainerEdits(
            nodes=tuple(
                DeviceNode(f"{self._roots.container_dev}/{name}", f"{self._roots.host_dev}/{name}")
                for name in dict.fromkeys(names)
            )
        )

    def _lacks_device_files(self, device: Device) -> bool:
        """False if /dev/dri is not mounted: the plugin can still allocate with CDI names."""
        dev = self._roots.dev
        if not (dev / _GRAPHICS).is_dir():
            return False
        own = [_COMPUTE] if device.device_name is None else [_COMPUTE, f"{_GRAPHICS}/{device.device_name}"]
        return not all((dev / name).exists() for name in own)

    def _cdi_name(self, device: Device) -> str:
        name = self.cdi_name(device)
        if name is None:
            raise DeviceUnavailable(
                f"{device.pci_address}: the index of the GPU, which CDI needs, is unknown"
            )
        return name


def open_part(roots: Roots) -> AmdPart:
    return AmdPart(roots)


# --- device ids -----------------------------------------------------------
# For a partitioned GPU, the PCI address is the id of the first partition. The ids of the other partitions are
# the names of their platform devices.


_FILE = re.compile(r"(?:card|renderD)[0-9]{1,4}", re.ASCII)
_PARTITION = re.compile(r"amdgpu_xcp_[0-9]{1,4}", re.ASCII)


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    """`card0` and `renderD128` may be GPUs of other vendors, so they are resolved only with a resource name.
    Partitions are numbered over all GPUs of the node."""
    if resource is not None and _FILE.fullmatch(bare):
        device = devices.by_file(bare, Vendor("amd"))
        return UNRESOLVED if device is None else first_part(device)
    return devices.by_part_name(bare, Vendor("amd")) if _PARTITION.fullmatch(bare) else UNRESOLVED
