"""What the plugin asks of a vendor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from accelscope.deviceplugin.edits import Edits, Given
from accelscope.model import Device


@dataclass(frozen=True, slots=True)
class Unit:
    """What can be handed out by itself."""

    id: str  # stable: the kubelet keeps it over reboots, and attribution knows it
    cores: tuple[int, ...] = ()  # empty: all of the device


class VendorPart(Protocol):
    def usual_resource(self, devices: Sequence[Device], partition_cores: int) -> str:
        """The name that people ask for where the settings give none. `partition_cores` 0: no partitions."""

    def belongs(self, device: Device, resource: str, partition_cores: int) -> bool:
        """Whether such a device is what that resource stands for, cut like that."""

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:
        """The parts of a device, each of so many cores (0: the whole). Empty: it cannot be handed out."""

    def cdi_name(self, device: Device) -> str | None:
        """As the device is called in the vendor's CDI specification, as far as that is known beforehand."""

    def edits(self, given: Sequence[Given], *, cdi: bool) -> Edits:
        """What a container with all of these gets. Looks anew for names that may have changed since. May
        block as long as the kernel does. Raises NotAvailable."""
