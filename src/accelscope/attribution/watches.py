"""Watches of this node's pods, Node object and ResourceSlices, each in its own thread."""

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Generic, TypeVar

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, vendor_of
from accelscope.attribution.options import AttributionOptions, PodSource
from accelscope.attribution.pod_resources import ClaimDevice
from accelscope.attribution.processes import PodTable
from accelscope.kube.client import Client
from accelscope.kube.endpoint import DecodeError, Endpoint
from accelscope.kube.informer import (
    BlockingInformer,
    poll_kubelet_pods,
    watch_node,
    watch_pods,
    watch_resource_slices,
)
from accelscope.kube.objects import KubeNode, KubePod
from accelscope.model import AttributionSourceState, counted

_TIMEOUT_SECONDS = 10.0

T = TypeVar("T")

log = logging.getLogger(__name__)


def client_of(endpoint: Endpoint) -> Client:
    return Client(endpoint, timeout_seconds=_TIMEOUT_SECONDS)


class WatchedSource(Generic[T]):
    """An informer in its thread. Changes of its state are logged once."""

    def __init__(self, source: str, informer: BlockingInformer[T], detail: str | None = None) -> None:
        self._source = source
        self._informer = informer
        self._detail = detail
        self._logged: str | None = "starting"

    def start(self) -> None:
        threading.Thread(target=self._informer.run, name=self._source, daemon=True).start()

    def stop(self) -> None:
        self._informer.stop()

    def wait_for_first_list(self, seconds: float) -> bool:
        return self._informer.synced.wait(seconds)

    def state(self) -> AttributionSourceState:
        status = self._informer.state
        if status.reason != self._logged:
            if status.up:
                log.info("attribution source %s is up", self._source)
            elif status.error is not None:
                log.warning("attribution source %s: %s", self._source, status.error)
            self._logged = status.reason
        return AttributionSourceState(
            source=self._source,
            up=status.up,
            detail=self._detail,
            reason=status.reason,
            error=status.error,
            last_success=status.last_success,
            errors=counted(status.errors),
        )


class PodWatch(WatchedSource[KubePod]):
    def __init__(self, informer: BlockingInformer[KubePod], detail: str) -> None:
        super().__init__("pods", informer, detail)
        self._version: tuple[int, bool] | None = None
        self._table = PodTable(has_source=True)

    def table(self) -> PodTable:
        """The same object until something changes."""
        version = self._informer.version, self._informer.state.up
        if version != self._version:
            self._table = PodTable.of(self._informer.items, up=version[1])
            self._version = version
        return self._table


class NodeWatch(WatchedSource[KubeNode]):
    def __init__(self, informer: BlockingInformer[KubeNode]) -> None:
        super().__init__("node", informer)

    def labels(self) -> tuple[tuple[str, str], ...]:
        return next((node.labels for node in self._informer.items.values()), ())


def pod_source(options: AttributionOptions) -> PodWatch | None:
    keep = frozenset(options.pod_labels)
    if options.pods is PodSource.API_SERVER and options.api_server is not None:
        return PodWatch(watch_pods(client_of(options.api_server), options.node, keep), "api-server")
    if options.pods is PodSource.KUBELET and options.kubelet is not None:
        return PodWatch(poll_kubelet_pods(client_of(options.kubelet), keep), "kubelet")
    return None


def node_source(options: AttributionOptions) -> NodeWatch | None:
    if not options.node_labels or options.api_server is None:
        return None
    keep = frozenset(options.node_labels)
    return NodeWatch(watch_node(client_of(options.api_server), options.node, keep))


# ResourceSlices: a claim names a device by driver, pool and name; the node's slices have its attributes. Only
# those that identify the device are kept, because a slice may have dozens for each of 128 devices.
_UUID = ("uuid",)
_PARENT_UUID = ("parentUUID",)
_PCI = ("resource.kubernetes.io/pciBusID", "pciBusID", "pciAddr", "pciAddress")


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """The attributes of a device in a ResourceSlice that identify it."""

    name: str
    uuid: str | None = None
    parent_uuid: str | None = None  # of the GPU of a MIG instance
    pci_address: str | None = None


@dataclass(frozen=True, slots=True)
class PublishedSlice:
    uid: str
    driver: str
    pool: str
    generation: int
    devices: tuple[PublishedDevice, ...]


def decode_slice(document: object) -> PublishedSlice:
    """A ResourceSlice of resource.k8s.io v1, v1beta2 or v1beta1. Malformed devices are left out. Raises
    DecodeError."""
    spec = _mapping(_mapping(document).get("spec"))
    uid = _mapping(_mapping(document).get("metadata")).get("uid")
    driver, pool = spec.get("driver"), _mapping(spec.get("pool"))
    pool_name, generation = pool.get("name"), pool.get("generation", 0)
    if not isinstance(uid, str) or not isinstance(driver, str) or not isinstance(pool_name, str):
        raise DecodeError("a ResourceSlice without uid, driver or pool")
    if not isinstance(generation, int):
        raise DecodeError("a ResourceSlice whose pool generation is not a number")
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
    """The devices of all pools by name. While a driver updates a pool, there are slices of two generations;
    only the newest is used."""

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


def device_for(claimed: ClaimDevice, slices: SliceTable, devices: DeviceIndex) -> ResolvedDevice:
    """The device of this node that a claim means; UNRESOLVED if no slice has it or no device matches."""
    vendor = vendor_of(claimed.driver)
    published = slices.find(claimed.driver, claimed.pool, claimed.device)
    if published is None:
        return UNRESOLVED
    if published.uuid is not None and (found := devices.by_uuid(published.uuid, vendor)).device is not None:
        return found
    if published.parent_uuid is not None:
        # A MIG instance that is created when it is claimed has no uuid yet when it is published.
        return ResolvedDevice(devices.by_uuid(published.parent_uuid, vendor).device)
    if published.pci_address is not None:
        # All parts of a GPU have its address, so the partition is unknown.
        device = devices.by_pci(published.pci_address, vendor)
        return UNRESOLVED if device is None else ResolvedDevice(device.id)
    return UNRESOLVED


def _device(document: object, driver: str) -> PublishedDevice | None:
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        return None
    basic = document.get("basic")  # v1beta1 has the attributes in it
    attributes = (basic if isinstance(basic, dict) else document).get("attributes")
    if not isinstance(attributes, dict):
        attributes = {}
    return PublishedDevice(
        document["name"],
        _attribute(attributes, driver, _UUID),
        _attribute(attributes, driver, _PARENT_UUID),
        _attribute(attributes, driver, _PCI),
    )


def _attribute(attributes: Mapping[str, object], driver: str, names: tuple[str, ...]) -> str | None:
    """A name without a domain belongs to the driver's domain."""
    for name in names:
        for spelling in (name, f"{driver}/{name}"):
            value = attributes.get(spelling)
            if isinstance(value, dict) and isinstance(text := value.get("string"), str) and text:
                return text
    return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


class _Slices(WatchedSource[PublishedSlice]):
    def __init__(self, informer: BlockingInformer[PublishedSlice]) -> None:
        super().__init__("resource-slices", informer)
        self._version = -1
        self._table = SliceTable()

    def table(self) -> SliceTable:
        if self._informer.version != self._version:
            self._version = self._informer.version
            self._table = SliceTable(self._informer.items.values())
        return self._table


class ClaimWatch:
    """Finds the devices of claims. The watch on ResourceSlices starts when a pod has a claim."""

    def __init__(self, options: AttributionOptions) -> None:
        self._options = options
        self._slices: _Slices | None = None
        self.is_needed = False  # a pod has or had a claim, and there is an API server

    def resolve(self, device: ClaimDevice, index: DeviceIndex) -> ResolvedDevice:
        if self._slices is None:
            if not self._options.resource_slices or self._options.api_server is None:
                return UNRESOLVED
            self.is_needed = True
            slices = _Slices(
                watch_resource_slices(
                    client_of(self._options.api_server),
                    self._options.node,
                    decode=decode_slice,
                    key=lambda published: published.uid,
                )
            )
            try:
                slices.start()
            except RuntimeError:  # no thread could be started; the next collection tries again
                return UNRESOLVED
            self._slices = slices
        return device_for(device, self._slices.table(), index)

    def state(self) -> AttributionSourceState | None:
        return None if self._slices is None else self._slices.state()

    def stop(self) -> None:
        if self._slices is not None:
            self._slices.stop()
