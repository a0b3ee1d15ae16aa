"""Acme cards in device plugins: what a container gets from AccelScope's plugin, and the
device ids of Acme's own plugin."""

import re
from collections.abc import Sequence

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, whole
from accelscope.deviceplugin.vendor import AllocatedDevice, ContainerEdits, DeviceNode, Roots, Unit
from accelscope.model import Device, Vendor


class AcmePart:
    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def default_resource(self, devices: Sequence[Device], partition_cores: int) -> str:
        return "acme.com/npu"

    def serves(self, device: Device, resource: str, partition_cores: int) -> bool:
        return True

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:
        return () if device.uuid is None else (Unit(device.uuid),)

    def cdi_name(self, device: Device) -> str | None:
        return None

    def container_edits(self, allocated: Sequence[AllocatedDevice], *, cdi: bool) -> ContainerEdits:
        names = [each.device.device_name for each in allocated]
        roots = self._roots
        return ContainerEdits(
            nodes=tuple(
                DeviceNode(f"{roots.container_dev}/{name}", f"{roots.host_dev}/{name}") for name in names
            )
        )


# --- device ids -----------------------------------------------------------


# `card-1` is the card with index 1.
_CARD = re.compile(r"card-([0-9]{1,3})", re.ASCII)


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    card = None if resource is None else _CARD.fullmatch(bare)
    return UNRESOLVED if card is None else whole(devices.by_index(int(card[1]), Vendor("acme")))
