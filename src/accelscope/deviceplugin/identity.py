"""Who is who from one look at a driver to the next.

A `Device.id` is made of the best fact that a driver tells: uuid, else serial number, else PCI address. A
driver that tells less for a moment must not make a second device of one that is known already.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from accelscope.model import Device, device_id


class _Likeness(Enum):
    SAME = auto()
    LESS = auto()  # nothing speaks against it, but it does not tell what is known of the other
    MORE = auto()  # nothing speaks against it, and it tells who it is, which was not known
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Recognised:
    """The answers of one look, by the ids under which devices are known."""

    told: dict[str, Device] = field(default_factory=dict)
    renamed: dict[str, Device] = field(default_factory=dict)  # their own ids are better than the known ones
    unclear: dict[str, Device] = field(default_factory=dict)  # it must be that one, but does not tell so
    ousted: set[str] = field(default_factory=set)  # known ids in whose place another device answers
    new: list[Device] = field(default_factory=list)

    def is_taken(self, known_id: str) -> bool:
        return known_id in self.told or known_id in self.renamed or known_id in self.unclear


def recognise(known: Mapping[str, Device], listed: Collection[str], devices: Iterable[Device]) -> Recognised:
    """`listed` are those of the known ids that the kubelet is told of: only they have a place to defend."""
    found = Recognised()
    doubtful = []
    for device in devices:
        if device.id in known and not _moved(known[device.id], device):
            found.told[device.id] = _with_known_facts(device, known[device.id])
        else:
            doubtful.append(device)
    for device in doubtful:
        holder = _holder(device, known, listed, found)
        likeness = _Likeness.OTHER if holder is None else _likeness(known[holder], device)
        if holder is not None and likeness is _Likeness.SAME:
            found.told[holder] = _with_known_facts(device, known[holder])
        elif holder is not None and likeness is _Likeness.LESS:
            found.unclear[holder] = device
        elif holder is not None and likeness is _Likeness.MORE and device.id not in known:
            found.renamed[holder] = _with_known_facts(device, known[holder], device.id)
        elif holder is not None and likeness is _Likeness.OTHER and holder in listed:
            found.ousted.add(holder)
            if device.id not in known:
                found.new.append(device)
        elif device.id not in known:
            found.new.append(device)
        elif not found.is_taken(device.id):
            found.told[device.id] = _with_known_facts(device, known[device.id])
    return found


def place(device: Device) -> tuple[str, int | None] | None:
    """Where no two devices are at a time. Chips of one board may share its address."""
    return None if device.pci_address is None else (device.pci_address, device.chip_id)


def _moved(known: Device, told: Device) -> bool:
    return None not in (place(known), place(told)) and place(known) != place(told)


def _holder(
    device: Device, known: Mapping[str, Device], listed: Collection[str], found: Recognised
) -> str | None:
    """The known device that this one could be by its place, its serial number, or as a last resort its name;
    those that are listed, and then the latest, come first."""
    free = [known_id for known_id in reversed(list(known)) if not found.is_taken(known_id)]
    free.sort(key=lambda known_id: known_id not in listed)
    here = place(device)
    if here is not None:
        at_place = next((each for each in free if place(known[each]) == here), None)
        if at_place is not None:
            return at_place
    if _own_uuid(device) is not None:
        return None
    if device.serial is not None:
        serial = (device.serial, device.chip_id)
        return next((each for each in free if (known[each].serial, known[each].chip_id) == serial), None)
    if here is not None or device.device_name is None:
        return None
    name = (device.device_name, device.architecture)
    return next((each for each in free if (known[each].device_name, known[each].architecture) == name), None)


def _likeness(known: Device, told: Device) -> _Likeness:
    if _differ(known.architecture, told.architecture) or _differ(known.serial, told.serial):
        return _Likeness.OTHER
    if known.uuid is not None and known.uuid == told.uuid:
        return _Likeness.SAME
    if _differ(_own_uuid(known), _own_uuid(told)):
        return _Likeness.OTHER if known.serial is None or told.serial is None else _Likeness.LESS
    for before, now in zip(_facts(known), _facts(told), strict=True):
        if (before is None) != (now is None):
            return _Likeness.LESS if now is None else _Likeness.MORE
    return _Likeness.SAME


def _facts(device: Device) -> tuple[str | None, ...]:
    """The best first."""
    return _own_uuid(device), device.serial, device.pci_address


def _differ(known: str | None, told: str | None) -> bool:
    return None not in (known, told) and known != told


def _own_uuid(device: Device) -> str | None:
    """None also for one that is not the device's own: of zeros, or the same as another's."""
    if device.uuid is None or device.id != device_id(device.vendor, uuid=device.uuid):
        return None
    return device.uuid


def _with_known_facts(device: Device, known: Device, own_id: str | None = None) -> Device:
    """What was told once of a device is not forgotten because one look did not tell it."""
    return replace(
        device,
        id=known.id if own_id is None else own_id,
        uuid=device.uuid if device.uuid is not None else known.uuid,
        serial=device.serial if device.serial is not None else known.serial,
        pci_address=device.pci_address if device.pci_address is not None else known.pci_address,
    )
