"""What the kubelet is offered: units of devices, each so many times as it is shared."""

import logging
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelscope.deviceplugin.health import DeviceHealth
from accelscope.deviceplugin.settings import Disabled
from accelscope.deviceplugin.vendor import Unit, VendorPart
from accelscope.model import Device
from accelscope.vendors.common.files import numa_node_of

_MOST_ID_CHARACTERS = 63  # what the kubelet takes
_CORES = re.compile(r"(.+)_cores_([0-9]{1,3})(?:-([0-9]{1,3}))?", re.ASCII)
_PARTITION_CORES = (0, 1, 2, 4)
_REPLICA = "::"  # NVIDIA's way to name a share, which attribution knows for every vendor


@dataclass(frozen=True, slots=True)
class Offer:
    id: str
    device: Device  # as it was last seen
    cores: tuple[int, ...] = ()  # empty: all of the device
    share: int = 0
    numa_node: int | None = None
    healthy: bool = True
    reason: str = ""  # why it is not


@dataclass(frozen=True, slots=True)
class Policy:
    """What the settings say about what to offer."""

    resource: str
    disabled: Disabled
    cores_per_unit: int = 0
    partition_cores: int = 0
    shares: int = 1
    cdi: bool = False


@dataclass(frozen=True, slots=True)
class Offers:
    """`withheld` says of devices that are not offered why, in one line each; disabled ones are apart.
    `unfitting` are names of disabled devices that are none of these."""

    offers: tuple[Offer, ...] = ()
    healthy: int = 0  # devices of which something is offered
    unhealthy: int = 0
    disabled: int = 0  # devices of which nothing is offered by setting
    withheld: tuple[str, ...] = ()
    unfitting: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # ids that containers hold and that the settings would not offer


@dataclass(frozen=True, slots=True)
class _Layout:
    """How one device is offered."""

    units: tuple[Unit, ...]
    shares: int

    def ids(self, unit: Unit) -> list[str]:
        return [f"{unit.id}{_REPLICA}{n}" for n in range(self.shares)] if self.shares > 1 else [unit.id]


def make_offers(
    devices: Iterable[DeviceHealth],
    part: VendorPart,
    policy: Policy,
    sys: Path,
    held: Mapping[str, frozenset[str]] | None = None,
) -> Offers:
    """`held` are the ids that containers hold, each with the names of its resources. A device of which
    something is held stays as it is: neither its parts nor the whole may be given a second time."""
    shown = tuple(devices)
    known = [each for each in shown if part.belongs(each.device, policy.resource, policy.partition_cores)]
    ambiguous = _ambiguous_names([each.device for each in shown], part) if policy.cdi else set()
    unit_ids: list[str] = []
    uuids = Counter(each.device.uuid for each in known)
    offers: list[Offer] = []
    withheld: list[str] = []
    kept: list[str] = []
    counts: Counter[str] = Counter()
    for each in known:
        device = each.device
        if uuids[device.uuid] > 1:  # the same uuid given to several: their places tell them apart
            device = replace(device, uuid=None)
        layout = _Layout(part.units(device, policy.resource, policy.cores_per_unit), policy.shares)
        unit_ids += [unit.id for unit in layout.units]
        of_device = _held_of(device, part, policy, held or {})
        elsewhere = _held_elsewhere(device, part, policy, of_device)
        offered = {name for unit in layout.units for name in layout.ids(unit)}
        others = sorted(of_device.keys() - offered)
        if others and not elsewhere:
            kept += others
            layout = _held_layout(device, part, policy, of_device)
        units = layout.units
        enabled = _enabled(units, each.device, policy.disabled)
        own = [
            Offer(name, device, unit.cores, share)
            for unit in enabled
            for share, name in enumerate(layout.ids(unit))
        ]
        if elsewhere:
            withheld.append(f"{each.device.id}: containers hold {elsewhere}, until it is free")
        elif not units:
            withheld.append(f"{each.device.id}: it has no stable id or no device files here")
        elif not enabled:
            counts["disabled"] += 1
        elif part.cdi_name(device) in ambiguous:
            withheld.append(
                f"{each.device.id}: {part.cdi_name(device)} is the CDI name of another card here, too: leave "
                "--cdi out"
            )
        elif any(len(offer.id) > _MOST_ID_CHARACTERS for offer in own):
            withheld.append(f"{own[0].id}: longer than the {_MOST_ID_CHARACTERS} characters of an id")
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
        policy.disabled.unfitting([each.device for each in shown], unit_ids),
        tuple(kept),
    )


def _held_of(
    device: Device, part: VendorPart, policy: Policy, held: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """What containers hold of one device, whichever way it was offered then."""
    if not held:
        return {}
    whole = {unit.id for unit in part.units(device, policy.resource, 0)}
    return {name: resources for name, resources in held.items() if _split(name)[0] in whole}


def _held_elsewhere(
    device: Device, part: VendorPart, policy: Policy, held: Mapping[str, frozenset[str]]
) -> str | None:
    """What is held under the name that this plugin has with another partition. Names of other plugins are
    theirs to know."""
    names = {part.usual_resource([device], cores) for cores in _PARTITION_CORES} - {policy.resource}
    return next((f"{name} of {min(own & names)}" for name, own in held.items() if own & names), None)


def _held_layout(
    device: Device, part: VendorPart, policy: Policy, held: Mapping[str, frozenset[str]]
) -> _Layout:
    """How the device was offered when these ids were given."""
    parts = [_split(name) for name in held]
    units = [
        unit
        for cores in sorted({cores for _, cores, _ in parts})
        for unit in part.units(device, policy.resource, cores)
    ]
    if len({cores for _, cores, _ in parts}) > 1:  # given twice before this was looked after: nothing more
        bases = {name.partition(_REPLICA)[0] for name in held}
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


def _ambiguous_names(devices: Iterable[Device], part: VendorPart) -> set[str]:
    """CDI names of several devices. Within a family two have one name only while a card that has gone is
    still listed, and then the name is the other's; so it is looked up anew when a container gets it."""
    named = {(name, device.architecture) for device in devices if (name := part.cdi_name(device))}
    families = Counter(name for name, _ in named)
    return {name for name, count in families.items() if count > 1}


def _enabled(units: Sequence[Unit], device: Device, disabled: Disabled) -> list[Unit]:
    """A unit with a core that is disabled is none."""
    if disabled.whole(device):
        return []
    cores = disabled.cores(device)
    return [
        unit
        for unit in units
        if not disabled.unit(unit.id) and (cores.isdisjoint(unit.cores) if unit.cores else not cores)
    ]


def _numa_node(device: Device, sys: Path) -> int | None:
    """Not every reader tells it; the kernel does."""
    node = device.numa_node
    if node is None and device.pci_address is not None:
        return numa_node_of(f"{sys}/bus/pci/devices/{device.pci_address}")
    return node if node is not None and node >= 0 else None


# --- inventory ------------------------------------------------------------
# What is offered now: the plugin's loop writes it, calls of the kubelet read it and wait for changes.


log = logging.getLogger(__name__)


class Inventory:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._offers = Offers()
        self._by_id: Mapping[str, Offer] = {}
        self._version = 0  # 0: nobody has looked yet
        self._closed = False

    def publish(self, offers: Offers) -> None:
        """Take new offers; those who wait are woken only if what the kubelet is told differs."""
        with self._changed:
            before, self._offers = self._by_id, offers
            self._by_id = {offer.id: offer for offer in offers.offers}
            if self._version == 0 or _told(before) != _told(self._by_id):
                self._version += 1
                self._changed.notify_all()
                _say(before, self._by_id)

    @property
    def offers(self) -> Offers:
        with self._changed:
            return self._offers

    @property
    def by_id(self) -> Mapping[str, Offer]:
        with self._changed:
            return self._by_id

    def newer(self, seen: int, timeout_seconds: float) -> tuple[int, tuple[Offer, ...]] | None:
        """The version and its offers, once it is not the one that was `seen`; None: not yet, or closed."""
        with self._changed:
            if self._version == seen and not self._closed:
                self._changed.wait(timeout_seconds)
            if self._version == seen or self._closed:
                return None
            return self._version, self._offers.offers

    def wake(self) -> None:
        """Let those who wait look around."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed


def _told(offers: Mapping[str, Offer]) -> dict[str, tuple[bool, int | None]]:
    return {offer.id: (offer.healthy, offer.numa_node) for offer in offers.values()}


def _say(before: Mapping[str, Offer], after: Mapping[str, Offer]) -> None:
    added, removed = after.keys() - before.keys(), before.keys() - after.keys()
    fell = [each for each in after.keys() & before.keys() if before[each].healthy and not after[each].healthy]
    rose = [each for each in after.keys() & before.keys() if after[each].healthy and not before[each].healthy]
    for what, ids in (("offered", added), ("no longer offered", removed), ("healthy again", rose)):
        if ids:
            log.info("%s: %s", what, ", ".join(sorted(ids)))
    reasons: dict[str, list[str]] = {}
    for each in sorted(fell):
        reasons.setdefault(after[each].reason, []).append(each)
    for reason, ids in reasons.items():
        log.warning("unhealthy: %s: %s", ", ".join(ids), reason)
