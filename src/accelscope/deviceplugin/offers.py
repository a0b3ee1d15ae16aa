"""What the kubelet is offered: units of devices, each so many times as it is shared."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelscope.deviceplugin.disabled import Disabled
from accelscope.deviceplugin.health import DeviceHealth
from accelscope.deviceplugin.vendors.contract import Unit, VendorPart
from accelscope.model import Device
from accelscope.readers.pci import numa_node_of

_MOST_ID_CHARACTERS = 63  # what the kubelet takes
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


def make_offers(devices: Iterable[DeviceHealth], part: VendorPart, policy: Policy, sys: Path) -> Offers:
    shown = tuple(devices)
    known = [each for each in shown if part.belongs(each.device, policy.resource, policy.partition_cores)]
    ambiguous = _ambiguous_names([each.device for each in shown], part) if policy.cdi else set()
    unit_ids: list[str] = []
    uuids = Counter(each.device.uuid for each in known)
    offers: list[Offer] = []
    withheld: list[str] = []
    counts: Counter[str] = Counter()
    for each in known:
        device = each.device
        if uuids[device.uuid] > 1:  # the same uuid given to several: their places tell them apart
            device = replace(device, uuid=None)
        units = part.units(device, policy.resource, policy.cores_per_unit)
        unit_ids += [unit.id for unit in units]
        enabled = _enabled(units, each.device, policy.disabled)
        own = [
            Offer(f"{unit.id}{_REPLICA}{share}" if policy.shares > 1 else unit.id, device, unit.cores, share)
            for unit in enabled
            for share in range(policy.shares)
        ]
        if not units:
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
    )


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
