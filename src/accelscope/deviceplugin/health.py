"""From looks at a driver to what the kubelet is told: healthy, unhealthy, or not there.

Kubelets act at once on what they hear: pods are refused, and some controllers evict. So one bad look changes
nothing, and a device that keeps falling must stand longer each time before it is trusted again.

A driver that answers without saying how a device is leaves it as it was. So does a driver that cannot be
asked at all, but only for so long: nobody vouches for the device then. Only a good look makes up for those
that were not: bad ones count together, whatever was wrong at each of them. Good ones count only in a row,
which a driver that cannot be asked ends as well.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from accelscope.deviceplugin.watch import Look
from accelscope.model import AbsenceReason, Device, HealthState, device_id
from accelscope.vendors.common.contract import DriverAbsent

# --- identity ------------------------------------------------------------
# Who is who from one look at a driver to the next.
#
# A `Device.id` is made of the best fact that a driver tells: uuid, else serial number, else PCI address. A
# driver that tells less for a moment must not make a second device of one that is known already.


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


_SOON_LOOKS = 240  # falls within so many looks of each other are flapping
_MOST_DOUBLINGS = 5
_MOST_KNOWN_DEVICES = 1024


@dataclass(frozen=True, slots=True)
class HealthRule:
    """All are numbers of looks in a row."""

    bad: int = 3
    good: int = 2
    unanswered: int = 30  # 0: for ever


class Verdict(Enum):
    GOOD = auto()
    UNKNOWN = auto()  # it answers, and nothing tells how it is
    BAD = auto()  # the driver says so
    UNREADABLE = auto()  # it does not answer, or not who it is, while the driver does
    UNANSWERED = auto()  # the driver as a whole does not
    GONE = auto()  # the driver does not show it


_BAD_STATES = (HealthState.CRITICAL, HealthState.LOST)
_BAD_VERDICTS = (Verdict.BAD, Verdict.UNREADABLE, Verdict.GONE)
# A uuid that is missing for one of these reasons may well be there at the next look.
_PASSING = (
    AbsenceReason.NO_SAMPLE,
    AbsenceReason.UNREADABLE,
    AbsenceReason.TIMEOUT,
    AbsenceReason.DRIVER_ERROR,
)


@dataclass(slots=True)
class _Record:
    device: Device
    listed: bool = True
    healthy: bool = True
    reason: str = ""  # of the last look that was not good
    told_bad: bool = False  # the driver's last word, which its silence does not take back
    also_told: str = ""  # the id under which the driver last showed it, where that was another
    good: int = 0
    bad: int = 0
    unanswered: int = 0
    gone: int = 0
    falls: deque[int] = field(default_factory=lambda: deque(maxlen=_MOST_DOUBLINGS))

    def take(self, verdict: Verdict, rule: HealthRule, now: int) -> None:
        if verdict in (Verdict.GOOD, Verdict.BAD):
            self.told_bad = verdict is Verdict.BAD
        good = verdict is Verdict.GOOD or (verdict is Verdict.UNKNOWN and not self.told_bad)
        if good:
            self.good += 1
            self.bad = self.unanswered = self.gone = 0
        else:
            self.good = 0
            if verdict is Verdict.UNANSWERED:
                self.unanswered += 1
            else:
                self.bad += verdict in _BAD_VERDICTS
                self.gone = self.gone + 1 if verdict is Verdict.GONE else 0
        if self.gone >= rule.bad:
            self._fall(now)
            self.listed = False
        elif self.bad >= rule.bad or 0 < rule.unanswered <= self.unanswered:
            self._fall(now)
        elif good and not (self.listed and self.healthy) and self.good >= self._needed(rule, now):
            self.listed = self.healthy = True

    def _fall(self, now: int) -> None:
        if self.healthy:
            self.falls.append(now)
        self.healthy = False

    def _needed(self, rule: HealthRule, now: int) -> int:
        soon = sum(now - fall <= _SOON_LOOKS for fall in self.falls)
        return int(rule.good * 2 ** max(0, soon - 1))


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    device: Device
    healthy: bool
    reason: str = ""  # why it is not


class HealthLedger:
    """What is known of every device that was ever seen."""

    def __init__(self, rule: HealthRule) -> None:
        self.rule = rule
        self._records: dict[str, _Record] = {}
        self._looks = 0

    def take(self, look: Look) -> None:
        self._looks += 1
        records = self._records
        known = {known_id: record.device for known_id, record in records.items()}
        listed = {known_id for known_id, record in records.items() if record.listed}
        found = recognise(known, listed, look.devices)
        told = dict(found.told)
        for known_id, device in found.renamed.items():
            told[device.id] = device
            waited = records.pop(known_id)
            # One that was only kept back until it tells who it is has no past to make up for.
            records[device.id] = waited if waited.listed or waited.falls else _first(device)
        failed = {self._known_id(told_id): error for told_id, error in look.failed.items()}
        for known_id, record in records.items():
            if known_id in told:
                verdict, reason = _told(told[known_id])
                record.device = told[known_id]
            elif known_id in found.unclear:
                verdict, reason = Verdict.UNREADABLE, "it does not tell who it is: its uuid cannot be read"
                record.also_told = found.unclear[known_id].id
            elif known_id in failed:
                verdict, reason = Verdict.UNREADABLE, str(failed[known_id])
            elif known_id in found.ousted:
                verdict, reason = Verdict.GONE, "another device answers in its place"
            else:
                verdict, reason = _missing(look)
            record.take(verdict, self.rule, self._looks)
            record.reason = "" if record.healthy else reason or record.reason
        self._take_in(found.new, told)

    def _known_id(self, told_id: str) -> str:
        if told_id in self._records:
            return told_id
        also = (known_id for known_id, record in self._records.items() if record.also_told == told_id)
        return next(also, told_id)

    def _take_in(self, new: Iterable[Device], answered: Collection[str]) -> None:
        """Never two in one place: whoever answers there is there, and who comes later waits until it left."""
        here = {place(self._records[each].device) for each in answered if self._records[each].listed} - {None}
        held = set()
        for known_id, record in self._records.items():
            if not record.listed or known_id in answered:
                continue
            where = place(record.device)
            if where in here:
                record.listed = False
            elif where is not None:
                held.add(where)
        for device in new:
            if place(device) not in held and len(self._records) < _MOST_KNOWN_DEVICES:
                self._records[device.id] = _first(device)

    def listed(self) -> Iterator[DeviceHealth]:
        for record in self._records.values():
            if record.listed:
                yield DeviceHealth(record.device, record.healthy, record.reason)


def _first(device: Device) -> _Record:
    """A plugin that starts must not keep good devices back; a bad one is bad from the start, and one whose
    uuid was damaged would be offered under another id, and perhaps though that uuid is disabled."""
    if any(absence.field == "uuid" and absence.reason in _PASSING for absence in device.absent):
        return _Record(device, listed=False, healthy=False)
    verdict, reason = _told(device)
    if verdict is Verdict.BAD:
        return _Record(device, healthy=False, reason=reason, told_bad=True)
    return _Record(device)


def _missing(look: Look) -> tuple[Verdict, str]:
    """Of a device of which a look says nothing."""
    if look.error is None:
        if look.complete:
            return Verdict.GONE, "the driver does not show it any more"
        return Verdict.UNANSWERED, "the driver's answer could not be read whole, and it is not in it"
    if isinstance(look.error, DriverAbsent):
        return Verdict.GONE, str(look.error)
    return Verdict.UNANSWERED, str(look.error)


def _told(device: Device) -> tuple[Verdict, str]:
    state = device.health.state
    if state in _BAD_STATES:
        return Verdict.BAD, device.health.reason or state.value
    return (Verdict.UNKNOWN if state is HealthState.UNKNOWN else Verdict.GOOD), ""
