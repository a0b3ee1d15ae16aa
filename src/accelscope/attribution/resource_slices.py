"""Which device a claim means: what drivers of dynamic resource allocation publish in ResourceSlices.

A claim names a device by driver, pool and name, and what that is stands in the slices of this node, as
attributes. Only the few that tell which device it is are kept: a slice may have dozens for each of 128.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, Resolved, vendor_of
from accelscope.attribution.pod_resources import ClaimDevice
from accelscope.kube.errors import DecodeError

_UUID = ("uuid",)
_PARENT_UUID = ("parentUUID",)
_PCI = ("resource.kubernetes.io/pciBusID", "pciBusID", "pciAddr", "pciAddress")


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """What a driver says of one of its devices, as far as it tells which one it is."""

    name: str
    uuid: str | None = None
    parent_uuid: str | None = None  # of the GPU that a MIG instance is cut from
    pci_address: str | None = None


@dataclass(frozen=True, slots=True)
class PublishedSlice:
    uid: str
    driver: str
    pool: str
    generation: int
    devices: tuple[PublishedDevice, ...]


def decode_slice(document: object) -> PublishedSlice:
    """A ResourceSlice of resource.k8s.io v1, v1beta2 or v1beta1. Raises DecodeError; a device in it that is
    none is left out."""
    spec = _mapping(_mapping(document).get("spec"))
    uid = _mapping(_mapping(document).get("metadata")).get("uid")
    driver, pool = spec.get("driver"), _mapping(spec.get("pool"))
    pool_name, generation = pool.get("name"), pool.get("generation", 0)
    if not isinstance(uid, str) or not isinstance(driver, str) or not isinstance(pool_name, str):
        raise DecodeError("a ResourceSlice without uid, driver or pool")
    if not isinstance(generation, int):
        raise DecodeError("a ResourceSlice whose pool has a generation that is no number")
    listed = spec.get("devices")
    devices = [_device(device, driver) for device in listed] if isinstance(listed, list) else []
    return PublishedSlice(
        uid=uid,
        driver=intern(driver),
        pool=intern(pool_name),
        generation=generation,
        devices=tuple(device for device in devices if device is not None),
    )


class SliceTable:
    """The devices of the pools by name. A pool that is being published anew stands there in two generations,
    of which only the newest counts."""

    def __init__(self, slices: Iterable[PublishedSlice] = ()) -> None:
        slices = tuple(slices)
        newest: dict[tuple[str, str], int] = {}
        for one in slices:
            pool = one.driver, one.pool
            newest[pool] = max(newest.get(pool, one.generation), one.generation)
        self._devices = {
            (one.driver, one.pool, device.name): device
            for one in slices
            if one.generation == newest[one.driver, one.pool]
            for device in one.devices
        }

    def find(self, driver: str, pool: str, device: str) -> PublishedDevice | None:
        return self._devices.get((driver, pool, device))


def device_for(claimed: ClaimDevice, slices: SliceTable, devices: DeviceIndex) -> Resolved:
    """The device of this node; none where no slice tells, or what it tells fits none."""
    vendor = vendor_of(claimed.driver)
    published = slices.find(claimed.driver, claimed.pool, claimed.device)
    if published is None:
        return UNRESOLVED
    if published.uuid is not None and (found := devices.by_uuid(published.uuid, vendor)).device is not None:
        return found
    if published.parent_uuid is not None:
        # An instance that is made when it is claimed: its own uuid is not known when it is published.
        return Resolved(devices.by_uuid(published.parent_uuid, vendor).device)
    if published.pci_address is not None:
        # Parts of a GPU have the address of the whole, so that which of them it is stays open.
        found_there = devices.by_pci(published.pci_address, vendor)
        return UNRESOLVED if found_there is None else Resolved(found_there.id)
    return UNRESOLVED


def _device(document: object, driver: str) -> PublishedDevice | None:
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        return None
    basic = document.get("basic")  # v1beta1 has it around the attributes
    holder = basic if isinstance(basic, dict) else document
    attributes = holder.get("attributes")
    if not isinstance(attributes, dict):
        attributes = {}
    return PublishedDevice(
        document["name"],
        _attribute(attributes, driver, _UUID),
        _attribute(attributes, driver, _PARENT_UUID),
        _attribute(attributes, driver, _PCI),
    )


def _attribute(attributes: Mapping[str, object], driver: str, names: tuple[str, ...]) -> str | None:
    """A name without a domain stands for one of the driver's own."""
    for name in names:
        for spelling in (name, f"{driver}/{name}"):
            value = attributes.get(spelling)
            if isinstance(value, dict) and isinstance(text := value.get("string"), str) and text:
                return text
    return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
