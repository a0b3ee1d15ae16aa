"""Devices whose files are away for a moment are still what they were."""

from collections.abc import Sequence

from accelscope.deviceplugin.edits import Edits, Given
from accelscope.deviceplugin.vendors.contract import Unit, VendorPart
from accelscope.model import Device


class SteadyPart:
    """A vendor's part that remembers the units of a device. That they cannot be handed out now is a matter
    of its health, which takes its time; a list of which they are missing would reach the kubelet at once."""

    def __init__(self, part: VendorPart) -> None:
        self._part = part
        self._units: dict[tuple[str, str, int], tuple[Unit, ...]] = {}  # by Device.id, and as cut

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:
        cut = (device.id, resource, cores_per_unit)
        units = self._part.units(device, resource, cores_per_unit)
        if units:
            self._units[cut] = units
            return units
        return self._units.get(cut, ())

    def has_lost_files(self, device: Device, resource: str, cores_per_unit: int) -> bool:
        """Whether there is nothing to hand out of a device of which there was."""
        remembered = (device.id, resource, cores_per_unit) in self._units
        return remembered and not self._part.units(device, resource, cores_per_unit)

    def usual_resource(self, devices: Sequence[Device], partition_cores: int) -> str:
        return self._part.usual_resource(devices, partition_cores)

    def belongs(self, device: Device, resource: str, partition_cores: int) -> bool:
        return self._part.belongs(device, resource, partition_cores)

    def cdi_name(self, device: Device) -> str | None:
        return self._part.cdi_name(device)

    def edits(self, given: Sequence[Given], *, cdi: bool) -> Edits:
        return self._part.edits(given, cdi=cdi)
