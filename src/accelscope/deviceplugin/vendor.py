"""A vendor's part of the device plugin: ids and units of its devices, and what a container gets with them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from accelscope.model import Device, Vendor
from accelscope.vendors import declarations
from accelscope.vendors.declaration import PluginDeclaration


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the node's files are: in this container, on the node, and in the containers of pods."""

    dev: Path = Path("/dev")
    sys: Path = Path("/sys")
    host_dev: str = "/dev"
    host_sys: str = "/sys"
    container_dev: str = "/dev"
    container_sys: str = "/sys"
    settings: Mapping[str, str] = field(default_factory=dict)  # values of VendorDeclaration.settings, by name


READ_WRITE = "rw"


class DeviceUnavailable(Exception):
    """An offered device cannot be allocated at the moment. The text is one line with the reason."""


class DivisionError(Exception):
    """The values of a vendor's division settings exclude each other. The text is one line."""


@dataclass(frozen=True, slots=True)
class Division:
    """How devices are divided into units."""

    cores_per_unit: int = 0  # 0: a unit is a whole device
    partition_cores: int = 0  # 0: no partitions


@dataclass(frozen=True, slots=True)
class NamedCores:
    """Cores that a device file's name stands for."""

    index: int  # of the device
    cores: tuple[int, ...]  # empty: all of the device


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device, or some of its cores, that a container gets."""

    device: Device  # as last read
    cores: tuple[int, ...] = ()  # empty: all of the device


@dataclass(frozen=True, slots=True)
class DeviceNode:
    container_path: str
    host_path: str
    permissions: str = READ_WRITE


@dataclass(frozen=True, slots=True)
class Mount:
    """A read-only mount."""

    container_path: str
    host_path: str


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()


def comma_separated(values: Iterable[str]) -> str:
    """The value of an environment variable: each value once, in order."""
    return ",".join(dict.fromkeys(values))


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest thing that can be allocated by itself."""

    id: str  # survives a reboot: the kubelet stores it, and attribution resolves it
    cores: tuple[int, ...] = ()  # empty: all of the device


class VendorPlugin(Protocol):
    def default_resource(self, devices: Sequence[Device], partition_cores: int) -> str:
        """The resource where the settings name none. `partition_cores` 0: no partitions."""

    def serves(self, device: Device, resource: str, partition_cores: int) -> bool:
        """Whether the device can be offered under that resource with that partition size."""

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:
        """The units of a device, each of `cores_per_unit` cores (0: the whole device). Empty: nothing of it
        can be allocated."""

    def cdi_name(self, device: Device) -> str | None:
        """The device's name in the vendor's CDI specification; None if there is none."""

    def container_edits(self, allocated: Sequence[AllocatedDevice], *, cdi: bool) -> ContainerEdits:
        """What a container with all these devices gets. Looks up names that may have changed since the last
        read. May block as long as the kernel does. Raises DeviceUnavailable."""


class StickyVendorPlugin:
    """Remembers the units of each device. A device whose files disappear becomes unhealthy after some checks;
    without its units it would leave the kubelet's list at once."""

    def __init__(self, plugin: VendorPlugin) -> None:
        self._plugin = plugin
        self._units: dict[tuple[str, str, int], tuple[Unit, ...]] = {}  # by arguments of units()

    def units(self, device: Device, resource: str, cores_per_unit: int) -> tuple[Unit, ...]:
        key = (device.id, resource, cores_per_unit)
        units = self._plugin.units(device, resource, cores_per_unit)
        if units:
            self._units[key] = units
            return units
        return self._units.get(key, ())

    def has_lost_files(self, device: Device, resource: str, cores_per_unit: int) -> bool:
        """Whether the device had units before and has none now."""
        remembered = (device.id, resource, cores_per_unit) in self._units
        return remembered and not self._plugin.units(device, resource, cores_per_unit)

    def default_resource(self, devices: Sequence[Device], partition_cores: int) -> str:
        return self._plugin.default_resource(devices, partition_cores)

    def serves(self, device: Device, resource: str, partition_cores: int) -> bool:
        return self._plugin.serves(device, resource, partition_cores)

    def cdi_name(self, device: Device) -> str | None:
        return self._plugin.cdi_name(device)

    def container_edits(self, allocated: Sequence[AllocatedDevice], *, cdi: bool) -> ContainerEdits:
        return self._plugin.container_edits(allocated, cdi=cdi)


def plugin_declarations() -> dict[str, PluginDeclaration]:
    """Vendors whose devices the plugin can offer."""
    return {name: vendor.plugin for name, vendor in declarations().items() if vendor.plugin is not None}


def open_vendor(vendor: Vendor, roots: Roots) -> VendorPlugin:
    plugin: VendorPlugin = declarations()[vendor].load(plugin_declarations()[vendor].part)(roots)
    return plugin


def division_of(vendor: Vendor, values: Mapping[str, str]) -> Division:
    """`values` are those of the vendor's division settings. Raises DivisionError."""
    part = plugin_declarations()[vendor].division
    division: Division = declarations()[vendor].load(part)(values) if part else Division()
    return division


def core_name_parser(vendor: Vendor) -> Callable[[str], NamedCores | None]:
    part = plugin_declarations()[vendor].named_cores
    parser: Callable[[str], NamedCores | None] = declarations()[vendor].load(part) if part else lambda _: None
    return parser
