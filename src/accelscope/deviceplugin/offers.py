"""Offers to the kubelet: units of devices, each offered once per share."""

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from accelscope.deviceplugin.health import DeviceHealth
from accelscope.deviceplugin.settings import DisabledDevice
from accelscope.deviceplugin.vendor import Division, NamedCores, Unit, VendorPlugin
from accelscope.model import Device
from accelscope.vendors.common.files import numa_node_of

log = logging.getLogger(__name__)

_MAX_ID_CHARACTERS = 63  # the kubelet's limit
_CORES = re.compile(r"(.+)_cores_([0-9]{1,3})(?:-([0-9]{1,3}))?", re.ASCII)
_REPLICA = "::"  # separates id and number of a share; attribution resolves it for every vendor

Allocated = Mapping[str, frozenset[str]]  # ids that containers hold -> their resources


class DisabledFilter:
    """The disabled devices of one node."""

    def __init__(
        self,
        devices: Iterable[DisabledDevice],
        node: str,
        named_cores: Callable[[str], NamedCores | None] = lambda _: None,
    ) -> None:
        self._spelling = {each.name.casefold(): each.name for each in devices if each.node in (None, node)}
        cores = {name: named_cores(name) for name in self._spelling}
        self._cores = {name: named for name, named in cores.items() if named is not None and named.cores}

    def enabled_units(self, units: Sequence[Unit], device: Device) -> list[Unit]:
        """A disabled core disables every unit that contains it."""
        if not self._spelling.keys().isdisjoint(_names(device)):
            return []
        cores = {
            core for named in self._cores.values() if named.index == device.index for core in named.cores
        }
        return [
            unit
            for unit in units
            if unit.id.casefold() not in self._spelling
            and (cores.isdisjoint(unit.cores) if unit.cores else not cores)
        ]

    def unmatched(self, devices: Sequence[Device], unit_ids: Iterable[str]) -> tuple[str, ...]:
        """Names that match nothing on this node, as the settings spell them."""
        known = {name for device in devices for name in _names(device)}
        known.update(unit_id.casefold() for unit_id in unit_ids)
        indices = {device.index for device in devices}
        known.update(name for name, named in self._cores.items() if named.index in indices)
        return tuple(spelling for name, spelling in self._spelling.items() if name not in known)


def _names(device: Device) -> Iterable[str]:
    names = (device.device_name, device.uuid, device.serial, device.pci_address, device.id)
    return (name.casefold() for name in names if name is not None)


@dataclass(frozen=True, slots=True)
class Offer:
    """An id that the kubelet can allocate."""

    id: str
    device: Device  # as last read
    cores: tuple[int, ...] = ()  # empty: all of the device
    share: int = 0
    numa_node: int | None = None
    healthy: bool = True
    reason: str = ""  # why it is unhealthy


@dataclass(frozen=True, slots=True)
class Policy:
    """What the settings ask for."""

    resource: str
    disabled: DisabledFilter
    division: Division = field(default_factory=Division)
    shares: int = 1
    cdi: bool = False
    partition_cores: tuple[int, ...] = ()  # all sizes of partitions that the vendor has


@dataclass(frozen=True, slots=True)
class Offers:
    offers: tuple[Offer, ...] = ()
    healthy: int = 0  # devices
    unhealthy: int = 0  # devices
    disabled: int = 0  # devices with all units disabled
    withheld: tuple[str, ...] = ()  # devices that cannot be offered: one line each, with the reason
    unmatched: tuple[str, ...] = ()  # names in disabledDevices that match nothing here
    retained: tuple[str, ...] = ()  # ids offered only because containers hold them


@dataclass(frozen=True, slots=True)
class _Layout:
    """How one device is offered."""

    units: tuple[Unit, ...]
    shares: int

    def ids(self, unit: Unit) -> list[str]:
        return [f"{unit.id}{_REPLICA}{n}" for n in range(self.shares)] if self.shares > 1 else [unit.id]


def make_offers(
    devices: Iterable[DeviceHealth],
    plugin: VendorPlugin,
    policy: Policy,
    sys: Path,
    allocated: Allocated | None = None,
) -> Offers:
    """A device with allocated ids keeps its layout: neither its parts nor the whole may be allocated a second
    time."""
    listed = tuple(devices)
    division = policy.division
    served = [
        each for each in listed if plugin.serves(each.device, policy.resource, division.partition_cores)
    ]
    ambiguous = _ambiguous_names([each.device for each in listed], plugin) if policy.cdi else set()
    unit_ids: list[str] = []
    uuids = Counter(each.device.uuid for each in served)
    offers: list[Offer] = []
    withheld: list[str] = []
    retained: list[str] = []
    counts: Counter[str] = Counter()
    for each in served:
        device = each.device
        if uuids[device.uuid] > 1:  # several devices report this uuid: their PCI addresses distinguish them
            device = replace(device, uuid=None)
        layout = _Layout(plugin.units(device, policy.resource, division.cores_per_unit), policy.shares)
        unit_ids += [unit.id for unit in layout.units]
        of_device = _allocated_of(device, plugin, policy, allocated or {})
        elsewhere = _allocated_elsewhere(device, plugin, policy, of_device)
        offered = {name for unit in layout.units for name in layout.ids(unit)}
        others = sorted(of_device.keys() - offered)
        if others and not elsewhere:
            retained += others
            layout = _allocated_layout(device, plugin, policy, of_device)
        units = layout.units
        enabled = policy.disabled.enabled_units(units, each.device)
        own = [
            Offer(name, device, unit.cores, share)
            for unit in enabled
            for share, name in enumerate(layout.ids(unit))
        ]
        if elsewhere:
            withheld.append(f"{each.device.id}: containers hold {elsewhere}; offered again when it is free")
        elif not units:
            withheld.append(f"{each.device.id}: it has no stable id, or its device files are missing")
        elif not enabled:
            counts["disabled"] += 1
        elif plugin.cdi_name(device) in ambiguous:
            withheld.append(
                f"{each.device.id}: another card here has the CDI name {plugin.cdi_name(device)} too: remove "
                "--cdi"
            )
        elif any(len(offer.id) > _MAX_ID_CHARACTERS for offer in own):
            withheld.append(f"{own[0].id}: the id is longer than {_MAX_ID_CHARACTERS} characters")
        else:
            counts["healthy" if each.healthy else "unhealthy"] += 1
            numa = _numa_node(device, sys)
            offers += [
                replace(offer, numa_node=numa, healthy=each.healthy, reason=each.reason) for offer in own
            ]
    offers.sort(key=lambda offer: (offer.device.index is None, offer.device.index or 0, offer.device.id))
    return Offers(
        tuple(offers),
        counts["healthy"],
        counts["unhealthy"],
        counts["disabled"],
        tuple(withheld),
        policy.disabled.unmatched([each.device for each in listed], unit_ids),
        tuple(retained),
    )


def _allocated_of(
    device: Device, plugin: VendorPlugin, policy: Policy, allocated: Allocated
) -> dict[str, frozenset[str]]:
    """The allocated ids of one device, with whichever layout it was offered."""
    if not allocated:
        return {}
    whole = {unit.id for unit in plugin.units(device, policy.resource, 0)}
    return {name: resources for name, resources in allocated.items() if _split(name)[0] in whole}


def _allocated_elsewhere(
    device: Device, plugin: VendorPlugin, policy: Policy, allocated: Allocated
) -> str | None:
    """An id that is allocated under the resource of another partition size. Resources of other plugins do not
    count: their ids may mean anything."""
    sizes = (0, *policy.partition_cores)
    names = {plugin.default_resource([device], cores) for cores in sizes} - {policy.resource}
    return next((f"{name} of {min(own & names)}" for name, own in allocated.items() if own & names), None)


def _allocated_layout(device: Device, plugin: VendorPlugin, policy: Policy, allocated: Allocated) -> _Layout:
    """How the device was offered when these ids were allocated."""
    parts = [_split(name) for name in allocated]
    sizes = {cores for _, cores, _ in parts}
    units = [unit for cores in sorted(sizes) for unit in plugin.units(device, policy.resource, cores)]
    if len(sizes) > 1:  # overlapping units were allocated by an earlier version: offer only those
        bases = {name.partition(_REPLICA)[0] for name in allocated}
        units = [unit for unit in units if unit.id in bases]
    numbers = [share for _, _, share in parts if share is not None]
    return _Layout(tuple(units), max(2, policy.shares, *(n + 1 for n in numbers)) if numbers else 1)


def _split(name: str) -> tuple[str, int, int | None]:
    """An id as the device's own id, the number of cores of the unit (0: all), and the share."""
    base, _, share = name.partition(_REPLICA)
    match = _CORES.fullmatch(base)
    number = int(share) if share.isdecimal() and len(share) < 6 else None
    if match is None:
        return base, 0, number
    first, last = int(match[2]), int(match[3] or match[2])
    return match[1], max(1, last - first + 1), number


def _ambiguous_names(devices: Iterable[Device], plugin: VendorPlugin) -> set[str]:
    """CDI names that devices of several families have. Within a family two devices share a name only while a
    card that has failed is still listed; the name is looked up again at allocation."""
    named = {(name, device.architecture) for device in devices if (name := plugin.cdi_name(device))}
    families = Counter(name for name, _ in named)
    return {name for name, count in families.items() if count > 1}


def _numa_node(device: Device, sys: Path) -> int | None:
    """From the kernel where the reader does not report it."""
    node = device.numa_node
    if node is None and device.pci_address is not None:
        return numa_node_of(f"{sys}/bus/pci/devices/{device.pci_address}")
    return node if node is not None and node >= 0 else None


class Inventory:
    """The current offers. The plugin's loop publishes them; calls of the kubelet wait for changes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._offers = Offers()
        self._by_id: Mapping[str, Offer] = {}
        self._version = 0  # 0: nothing was published yet
        self._closed = False

    def publish(self, offers: Offers) -> None:
        """Wakes the waiting calls only if the kubelet's list differs."""
        with self._changed:
            before, self._offers = self._by_id, offers
            self._by_id = {offer.id: offer for offer in offers.offers}
            if self._version == 0 or _kubelet_view(before) != _kubelet_view(self._by_id):
                self._version += 1
                self._changed.notify_all()
                _log_changes(before, self._by_id)

    @property
    def offers(self) -> Offers:
        with self._changed:
            return self._offers

    @property
    def by_id(self) -> Mapping[str, Offer]:
        with self._changed:
            return self._by_id

    def wait_for_change(self, seen: int, timeout_seconds: float) -> tuple[int, tuple[Offer, ...]] | None:
        """The version and its offers, once the version is not `seen`; None: no change yet, or closed."""
        with self._changed:
            if self._version == seen and not self._closed:
                self._changed.wait(timeout_seconds)
            if self._version == seen or self._closed:
                return None
            return self._version, self._offers.offers

    def wake(self) -> None:
        """Let waiting calls check whether their client is still there."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed


def _kubelet_view(offers: Mapping[str, Offer]) -> dict[str, tuple[bool, int | None]]:
    return {offer.id: (offer.healthy, offer.numa_node) for offer in offers.values()}


def _log_changes(before: Mapping[str, Offer], after: Mapping[str, Offer]) -> None:
    added, removed = after.keys() - before.keys(), before.keys() - after.keys()
    both = after.keys() & before.keys()
    recovered = [each for each in both if after[each].healthy and not before[each].healthy]
    failed = [each for each in both if before[each].healthy and not after[each].healthy]
    for change, ids in (("offered", added), ("no longer offered", removed), ("healthy again", recovered)):
        if ids:
            log.info("%s: %s", change, ", ".join(sorted(ids)))
    reasons: dict[str, list[str]] = {}
    for each in sorted(failed):
        reasons.setdefault(after[each].reason, []).append(each)
    for reason, ids in reasons.items():
        log.warning("unhealthy: %s: %s", ", ".join(ids), reason)
