"""What the API server or the kubelet tells of this node, kept current by threads of their own."""

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Generic, TypeVar

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, Resolved, vendor_of
from accelscope.attribution.options import AttributionOptions, PodSource
from accelscope.attribution.owners import PodTable
from accelscope.attribution.pod_resources import ClaimDevice
from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint
from accelscope.kube.errors import DecodeError
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


class Watched(Generic[T]):
    """A watch or a poll in its thread. What becomes of it is logged once per change."""

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
                log.info("attribution source %s answers", self._source)
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


class Pods(Watched[KubePod]):
    def __init__(self, informer: BlockingInformer[KubePod], detail: str) -> None:
        super().__init__("pods", informer, detail)
        self._made_from: tuple[int, bool] | None = None
        self._table = PodTable(asked=True)

    def table(self) -> PodTable:
        """The same object until something changes."""
        made_from = self._informer.version, self._informer.state.up
        if made_from != self._made_from:
            self._table = PodTable.of(self._informer.items, up=made_from[1])
            self._made_from = made_from
        return self._table


class NodeLabels(Watched[KubeNode]):
    def __init__(self, informer: BlockingInformer[KubeNode]) -> None:
        super().__init__("node", informer)

    def labels(self) -> tuple[tuple[str, str], ...]:
        return next((node.labels for node in self._informer.items.values()), ())


def pod_source(options: AttributionOptions) -> Pods | None:
    keep = frozenset(options.pod_labels)
    if options.pods is PodSource.API_SERVER and options.api_server is not None:
        return Pods(watch_pods(client_of(options.api_server), options.node, keep), "api-server")
    if options.pods is PodSource.KUBELET and options.kubelet is not None:
        return Pods(poll_kubelet_pods(client_of(options.kubelet), keep), "kubelet")
    return None


def node_source(options: AttributionOptions) -> NodeLabels | None:
    if not options.node_labels or options.api_server is None:
        return None
    keep = frozenset(options.node_labels)
    return NodeLabels(watch_node(client_of(options.api_server), options.node, keep))


# --- resource slices ------------------------------------------------------------
# Which device a claim means: what drivers of dynamic resource allocation publish in ResourceSlices.
#
# A claim names a device by driver, pool and name, and what that is stands in the slices of this node, as
# attributes. Only the few that tell which device it is are kept: a slice may have dozens for each of 128.


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


# --- claims ------------------------------------------------------------
# Which device a claim means: the watch on this node's ResourceSlices, begun when a pod holds a claim.


class _Slices(Watched[PublishedSlice]):
    def __init__(self, informer: BlockingInformer[PublishedSlice]) -> None:
        super().__init__("resource-slices", informer)
        self._version = -1
        self._table = SliceTable()

    def table(self) -> SliceTable:
        if self._informer.version != self._version:
            self._version = self._informer.version
            self._table = SliceTable(self._informer.items.values())
        return self._table


class Claims:
    def __init__(self, options: AttributionOptions) -> None:
        self._options = options
        self._slices: _Slices | None = None
        self.asked = False  # a pod holds or held a claim, and there is somebody to ask what it means

    def resolve(self, device: ClaimDevice, index: DeviceIndex) -> Resolved:
        if self._slices is None:
            if not self._options.resource_slices or self._options.api_server is None:
                return UNRESOLVED
            self.asked = True
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
            except RuntimeError:  # no thread to be had: the next collection tries again
                return UNRESOLVED
            self._slices = slices
        return device_for(device, self._slices.table(), index)

    def state(self) -> AttributionSourceState | None:
        return None if self._slices is None else self._slices.state()

    def stop(self) -> None:
        if self._slices is not None:
            self._slices.stop()
