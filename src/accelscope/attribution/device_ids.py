"""Resolves the device ids of device plugins to devices of this node.

Each plugin has its own form of ids, which the kubelet passes on unchanged. An id is resolved only if exactly
one device matches: a wrong match would attribute one pod's use to another. If the name of the resource
identifies the vendor, only that vendor's devices are considered.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from accelscope.model import Device, Vendor, pci_address
from accelscope.vendors import declarations

_REPLICA = "::"  # time-slicing and MPS: GPU-<uuid>::3
_NUMBERED_COPY = re.compile(r"(.+)-[0-9]{1,6}", re.ASCII)  # HAMi: <uuid>-3


@dataclass(frozen=True, slots=True)
class ResolvedDevice:
    device: str | None = None  # Device.id; None: no device of this node, or several match
    partition: str | None = None  # Partition.id; None: the whole device, or the partition is unknown


UNRESOLVED = ResolvedDevice()


class PartitionIdentity(NamedTuple):
    id: str
    uuid: str | None
    number: int | None  # Partition.index; `index` is a method of tuples
    device_name: str | None
    gpu_instance_id: int | None
    compute_instance_id: int | None


class DeviceIdentity(NamedTuple):
    vendor: Vendor
    id: str
    uuid: str | None
    pci_address: str | None
    device_name: str | None
    number: int | None  # Device.index
    physical_id: int | None
    architecture: str | None
    partitions: tuple[PartitionIdentity, ...]


def identities(devices: Iterable[Device]) -> tuple[DeviceIdentity, ...]:
    """The fields that a DeviceIndex uses. While they are equal to those of an index, the index is current.
    Devices are not kept, because they refer to all readings of a collection."""
    return tuple(
        DeviceIdentity(
            *(device.vendor, device.id, device.uuid, device.pci_address, device.device_name),
            *(device.index, device.physical_id, device.architecture),
            tuple(
                PartitionIdentity(
                    *(part.id, part.uuid, part.index, part.device_name),
                    *(part.gpu_instance_id, part.compute_instance_id),
                )
                for part in device.partitions
            ),
        )
        for device in devices
    )


class DeviceIndex:
    """The devices of a node by every name that a plugin may use. A name of two devices finds neither."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self.identities = identities(devices)
        self.vendors = frozenset(device.vendor for device in self.identities)
        self._named: dict[tuple[str, Hashable], list[tuple[DeviceIdentity, PartitionIdentity | None]]] = {}
        for device in self.identities:
            self._name("uuid", device.uuid and device.uuid.casefold(), device)
            self._name("pci", device.pci_address, device)
            self._name("file", device.device_name, device)
            self._name("index", device.number, device)
            # Plugins use the numbers of the device files. If only the runtime's number is known, it is the
            # same unless chips are hidden.
            self._name("chip", device.number if device.physical_id is None else device.physical_id, device)
            for part in device.partitions:
                self._name("uuid", part.uuid and part.uuid.casefold(), device, part)
                self._name("part", part.device_name, device, part)

    def by_uuid(self, uuid: str, vendor: Vendor | None = None) -> ResolvedDevice:
        """A device or a partition."""
        return _resolved(self._find("uuid", uuid.casefold(), vendor))

    def by_pci(self, address: str, vendor: Vendor | None = None) -> DeviceIdentity | None:
        return self._device("pci", pci_address(address), vendor)

    def by_file(self, name: str, vendor: Vendor, architecture: str | None = None) -> DeviceIdentity | None:
        """By the name of its device file. A vendor's only device matches if its reader reports no name."""
        found = self._device("file", name, vendor, architecture)
        only = self.only(vendor)
        if found is None and only is not None and only.device_name is None:
            return only if architecture in (None, only.architecture) else None
        return found

    def by_part_name(self, name: str, vendor: Vendor) -> ResolvedDevice:
        """By a partition's device name. A vendor's only device matches if its reader reports no names."""
        found = _resolved(self._find("part", name, vendor))
        only = self.only(vendor)
        if found.device is None and only is not None:
            return whole(only) if all(part.device_name is None for part in only.partitions) else UNRESOLVED
        return found

    def by_index(self, index: int, vendor: Vendor) -> DeviceIdentity | None:
        return self._device("index", index, vendor)

    def by_chip(self, number: int, vendor: Vendor) -> DeviceIdentity | None:
        """By the number of its device file."""
        return self._device("chip", number, vendor)

    def only(self, vendor: Vendor) -> DeviceIdentity | None:
        """The vendor's device, if it has exactly one."""
        own = [device for device in self.identities if device.vendor is vendor]
        return own[0] if len(own) == 1 else None

    def instance(
        self, device: str | None, gpu_instance: int, compute_instance: int | None = None
    ) -> ResolvedDevice:
        """A MIG instance of a device; the device alone if several match or the instance is not listed."""
        parts = [
            part.id
            for candidate in self.identities
            if candidate.id == device
            for part in candidate.partitions
            if part.gpu_instance_id == gpu_instance and compute_instance in (None, part.compute_instance_id)
        ]
        return ResolvedDevice(device, parts[0] if len(parts) == 1 else None)

    def _name(
        self, kind: str, name: Hashable, device: DeviceIdentity, part: PartitionIdentity | None = None
    ) -> None:
        if name not in (None, ""):
            self._named.setdefault((kind, name), []).append((device, part))

    def _find(
        self, kind: str, name: Hashable, vendor: Vendor | None, architecture: str | None = None
    ) -> tuple[DeviceIdentity, PartitionIdentity | None] | None:
        found = [
            (device, part)
            for device, part in self._named.get((kind, name), ())
            if vendor in (None, device.vendor) and architecture in (None, device.architecture)
        ]
        return found[0] if len(found) == 1 else None

    def _device(
        self, kind: str, name: Hashable, vendor: Vendor | None, architecture: str | None = None
    ) -> DeviceIdentity | None:
        found = self._find(kind, name, vendor, architecture)
        return None if found is None else found[0]


# A vendor's `device_ids`. Arguments: the id without its replica suffix, the resource if it is one of the
# vendor's own (otherwise None), and the devices of the node.
DeviceIdForms = Callable[[str, str | None, DeviceIndex], ResolvedDevice]


def resolve(device_id: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    """`resource` is the name of the id's resource, such as nvidia.com/gpu."""
    vendor = None if resource is None else vendor_of(resource)
    bare = device_id.partition(_REPLICA)[0]
    found = devices.by_uuid(bare, vendor)
    if found.device is None and (copy := _NUMBERED_COPY.fullmatch(bare)):
        found = devices.by_uuid(copy[1], vendor)
    if found.device is None and (device := devices.by_pci(bare, vendor)):
        found = first_part(device)
    if found.device is not None:
        return found
    for name, declared in declarations().items():
        if name in devices.vendors and vendor in (None, name) and declared.device_ids:
            forms: DeviceIdForms = declared.load(declared.device_ids)
            found = forms(bare, None if vendor is None else resource, devices)
            if found.device is not None:
                return found
    return UNRESOLVED


def vendor_of(name: str) -> Vendor | None:
    """The vendor of a resource (nvidia.com/gpu) or of a claim driver (gpu.nvidia.com), by its domain."""
    domain = name.partition("/")[0].casefold()
    return _vendors_by_domain().get(".".join(domain.split(".")[-2:]))


@cache
def _vendors_by_domain() -> Mapping[str, Vendor]:
    return {
        declared.resource_domain: Vendor(name)
        for name, declared in declarations().items()
        if declared.resource_domain
    }


def first_part(device: DeviceIdentity) -> ResolvedDevice:
    """What the vendor's plugin means by a PCI address: the device, or its first partition."""
    if not declarations()[device.vendor].first_partition_by_address or not device.partitions:
        return ResolvedDevice(device.id)
    return ResolvedDevice(device.id, next((part.id for part in device.partitions if part.number == 0), None))


def whole(device: DeviceIdentity | None) -> ResolvedDevice:
    return UNRESOLVED if device is None else ResolvedDevice(device.id)


def _resolved(found: tuple[DeviceIdentity, PartitionIdentity | None] | None) -> ResolvedDevice:
    if found is None:
        return UNRESOLVED
    device, part = found
    return ResolvedDevice(device.id, None if part is None else part.id)
