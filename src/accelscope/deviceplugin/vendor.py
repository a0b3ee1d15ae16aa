"""A vendor's part of the device plugin: ids and units of its devices, and what a container gets with them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from accelscope.model import Device, Vendor
from accelscope.vendors import declarations


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the node's files are: as seen here, on the node itself, and in containers."""

    dev: Path = Path("/dev")
    sys: Path = Path("/sys")
    host_dev: str = "/dev"
    host_sys: str = "/sys"
    container_dev: str = "/dev"
    container_sys: str = "/sys"
    settings: Mapping[str, str] = field(default_factory=dict)  # values of the vendors' own, by name


READ_WRITE = "rw"


class NotAvailable(Exception):
    """A device that is offered cannot be given just now. The text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Given:
    """A device, or cores of it, that a container is to get."""

    device: Device  # as it was last seen
    cores: tuple[int, ...] = ()  # empty: all of it


@dataclass(frozen=True, slots=True)
class Node:
    """A device node."""

    container_path: str
    host_path: str
    permissions: str = READ_WRITE


@dataclass(frozen=True, slots=True)
class Mount:
    """Read-only, as all are here."""

    container_path: str
    host_path: str


@dataclass(frozen=True, slots=True)
class Edits:
    nodes: tuple[Node, ...] = ()
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()


def once(values: Iterable[str]) -> str:
    """As vendors' variables have it: commas between, each once, in order."""
    return ",".join(dict.fromkeys(values))


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


def open_vendor(vendor: Vendor, roots: Roots) -> VendorPart:
    declaration = declarations()[vendor]
    assert declaration.plugin is not None  # the settings allow no other vendor
    part: VendorPart = declaration.load(declaration.plugin.part)(roots)
    return part
