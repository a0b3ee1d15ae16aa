"""From checks of a driver to the kubelet's view of a device: healthy, unhealthy, or not listed.

A kubelet acts on a change at once: it rejects pods, and some controllers evict them. One failed check
therefore changes nothing, and a device that keeps failing must stay good for longer each time before it is
healthy again.

A check without a health value leaves the device as it was. So does a driver that does not answer at all, for
a limited time. Only a good check resets the count of failed ones, whatever failed at each of them. Good
checks count only in a row, which an unanswered check interrupts too.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from accelscope.deviceplugin.watch import CheckResult
from accelscope.model import AbsenceReason, Device, HealthState, device_id
from accelscope.vendors.common.contract import DriverAbsent

_FLAPPING_CHECKS = 240  # a device that fails again within so many checks is flapping
_MAX_DOUBLINGS = 5
_MAX_KNOWN_DEVICES = 1024


# Identity of a device from one check to the next: `Device.id` comes from the best value that a driver reports
# (uuid, else serial number, else PCI address). A driver that reports less for a moment must not turn a known
# device into a second one.


class _Identity(Enum):
    """Whether a reading is of a known device."""

    SAME = auto()
    LESS = auto()  # no contradiction, but a value of the known device is missing
    MORE = auto()  # no contradiction, and it has a value that was not known
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Match:
    """The readings of one check, by the ids of the known devices."""

    readings: dict[str, Device] = field(default_factory=dict)
    renamed: dict[str, Device] = field(default_factory=dict)  # the new id is better than the known one
    unclear: dict[str, Device] = field(default_factory=dict)  # most likely the known device, without its uuid
    displaced: set[str] = field(default_factory=set)  # known ids at whose address another device answers
    new: list[Device] = field(default_factory=list)

    def is_matched(self, known_id: str) -> bool:
        return known_id in self.readings or known_id in self.renamed or known_id in self.unclear


def match_devices(known: Mapping[str, Device], listed: Collection[str], devices: Iterable[Device]) -> Match:
    """`listed` are the known ids that are in the kubelet's list; only those can be displaced."""
    found = Match()
    doubtful = []
    for device in devices:
        if device.id in known and not _moved(known[device.id], device):
            found.readings[device.id] = _with_known_identifiers(device, known[device.id])
        else:
            doubtful.append(device)
    for device in doubtful:
        candidate = _candidate(device, known, listed, found)
        identity = _Identity.OTHER if candidate is None else _compare(known[candidate], device)
        if candidate is not None and identity is _Identity.SAME:
            found.readings[candidate] = _with_known_identifiers(device, known[candidate])
        elif candidate is not None and identity is _Identity.LESS:
            found.unclear[candidate] = device
        elif candidate is not None and identity is _Identity.MORE and device.id not in known:
            found.renamed[candidate] = _with_known_identifiers(device, known[candidate], device.id)
        elif candidate is not None and identity is _Identity.OTHER and candidate in listed:
            found.displaced.add(candidate)
            if device.id not in known:
                found.new.append(device)
        elif device.id not in known:
            found.new.append(device)
        elif not found.is_matched(device.id):
            found.readings[device.id] = _with_known_identifiers(device, known[device.id])
    return found


def place(device: Device) -> tuple[str, int | None] | None:
    """PCI address and chip: no two devices share both. Chips of one board may share its address."""
    return None if device.pci_address is None else (device.pci_address, device.chip_id)


def _moved(known: Device, reading: Device) -> bool:
    return None not in (place(known), place(reading)) and place(known) != place(reading)


def _candidate(
    device: Device, known: Mapping[str, Device], listed: Collection[str], found: Match
) -> str | None:
    """The known device that this one may be, by its place, its serial number, or as a last resort its name.
    Listed devices go first, then the latest."""
    free = [known_id for known_id in reversed(list(known)) if not found.is_matched(known_id)]
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


def _compare(known: Device, reading: Device) -> _Identity:
    if _differ(known.architecture, reading.architecture) or _differ(known.serial, reading.serial):
        return _Identity.OTHER
    if known.uuid is not None and known.uuid == reading.uuid:
        return _Identity.SAME
    if _differ(_own_uuid(known), _own_uuid(reading)):
        return _Identity.OTHER if known.serial is None or reading.serial is None else _Identity.LESS
    for before, now in zip(_identifiers(known), _identifiers(reading), strict=True):
        if (before is None) != (now is None):
            return _Identity.LESS if now is None else _Identity.MORE
    return _Identity.SAME


def _identifiers(device: Device) -> tuple[str | None, ...]:
    """The best first."""
    return _own_uuid(device), device.serial, device.pci_address


def _differ(known: str | None, reading: str | None) -> bool:
    return None not in (known, reading) and known != reading


def _own_uuid(device: Device) -> str | None:
    """None also for a uuid that does not identify the device: all zeros, or the same as another device's."""
    if device.uuid is None or device.id != device_id(device.vendor, uuid=device.uuid):
        return None
    return device.uuid


def _with_known_identifiers(device: Device, known: Device, own_id: str | None = None) -> Device:
    """Keeps identifiers that this reading lacks."""
    return replace(
        device,
        id=known.id if own_id is None else own_id,
        uuid=device.uuid if device.uuid is not None else known.uuid,
        serial=device.serial if device.serial is not None else known.serial,
        pci_address=device.pci_address if device.pci_address is not None else known.pci_address,
    )


@dataclass(frozen=True, slots=True)
class HealthRule:
    """Numbers of checks after which the health changes."""

    bad: int = 3
    good: int = 2
    unanswered: int = 30  # 0: never


class HealthVerdict(Enum):
    GOOD = auto()
    UNKNOWN = auto()  # it answers without a health value
    BAD = auto()  # the driver reports it
    UNREADABLE = auto()  # the driver answers, but the device or its uuid cannot be read
    UNANSWERED = auto()  # the whole driver does not answer
    GONE = auto()  # the driver does not list it


_BAD_STATES = (HealthState.CRITICAL, HealthState.LOST)
_BAD_VERDICTS = (HealthVerdict.BAD, HealthVerdict.UNREADABLE, HealthVerdict.GONE)
# A uuid that is missing for one of these reasons may be readable at the next check.
_TEMPORARY = (
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
    reason: str = ""  # of the last check that was not good
    reported_bad: bool = False  # the last health value; a check without one does not change it
    other_id: str = ""  # the last id of a reading without the uuid
    good: int = 0
    bad: int = 0
    unanswered: int = 0
    gone: int = 0
    failures: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_DOUBLINGS))

    def add(self, verdict: HealthVerdict, rule: HealthRule, now: int) -> None:
        if verdict in (HealthVerdict.GOOD, HealthVerdict.BAD):
            self.reported_bad = verdict is HealthVerdict.BAD
        good = verdict is HealthVerdict.GOOD or (verdict is HealthVerdict.UNKNOWN and not self.reported_bad)
        if good:
            self.good += 1
            self.bad = self.unanswered = self.gone = 0
        else:
            self.good = 0
            if verdict is HealthVerdict.UNANSWERED:
                self.unanswered += 1
            else:
                self.bad += verdict in _BAD_VERDICTS
                self.gone = self.gone + 1 if verdict is HealthVerdict.GONE else 0
        if self.gone >= rule.bad:
            self._fail(now)
            self.listed = False
        elif self.bad >= rule.bad or 0 < rule.unanswered <= self.unanswered:
            self._fail(now)
        elif good and not (self.listed and self.healthy) and self.good >= self._needed(rule, now):
            self.listed = self.healthy = True

    def _fail(self, now: int) -> None:
        if self.healthy:
            self.failures.append(now)
        self.healthy = False

    def _needed(self, rule: HealthRule, now: int) -> int:
        recent = sum(now - failure <= _FLAPPING_CHECKS for failure in self.failures)
        return int(rule.good * 2 ** max(0, recent - 1))


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    device: Device
    healthy: bool
    reason: str = ""  # why it is unhealthy


class HealthLedger:
    """The health of every device seen since the plugin started."""

    def __init__(self, rule: HealthRule) -> None:
        self.rule = rule
        self._records: dict[str, _Record] = {}
        self._checks = 0

    def record(self, result: CheckResult) -> None:
        self._checks += 1
        records = self._records
        known = {known_id: record.device for known_id, record in records.items()}
        listed = {known_id for known_id, record in records.items() if record.listed}
        found = match_devices(known, listed, result.devices)
        readings = dict(found.readings)
        for known_id, device in found.renamed.items():
            readings[device.id] = device
            waited = records.pop(known_id)
            # A device that was only not listed because its uuid was missing starts without a history.
            records[device.id] = waited if waited.listed or waited.failures else _first(device)
        failed = {self._known_id(other_id): error for other_id, error in result.failed.items()}
        for known_id, record in records.items():
            if known_id in readings:
                verdict, reason = _verdict(readings[known_id])
                record.device = readings[known_id]
            elif known_id in found.unclear:
                verdict, reason = HealthVerdict.UNREADABLE, "its uuid cannot be read"
                record.other_id = found.unclear[known_id].id
            elif known_id in failed:
                verdict, reason = HealthVerdict.UNREADABLE, str(failed[known_id])
            elif known_id in found.displaced:
                verdict, reason = HealthVerdict.GONE, "another device answers at its PCI address"
            else:
                verdict, reason = _missing(result)
            record.add(verdict, self.rule, self._checks)
            record.reason = "" if record.healthy else reason or record.reason
        self._add_new(found.new, readings)

    def _known_id(self, other_id: str) -> str:
        if other_id in self._records:
            return other_id
        also = (known_id for known_id, record in self._records.items() if record.other_id == other_id)
        return next(also, other_id)

    def _add_new(self, new: Iterable[Device], answered: Collection[str]) -> None:
        """Lists no two devices in one place: a device that answers removes others from its place, and a new
        device waits until its place is free."""
        answering = {place(self._records[each].device) for each in answered if self._records[each].listed} - {
            None
        }
        occupied = set()
        for known_id, record in self._records.items():
            if not record.listed or known_id in answered:
                continue
            where = place(record.device)
            if where in answering:
                record.listed = False
            elif where is not None:
                occupied.add(where)
        for device in new:
            if place(device) not in occupied and len(self._records) < _MAX_KNOWN_DEVICES:
                self._records[device.id] = _first(device)

    def listed(self) -> Iterator[DeviceHealth]:
        for record in self._records.values():
            if record.listed:
                yield DeviceHealth(record.device, record.healthy, record.reason)


def _first(device: Device) -> _Record:
    """A new device is listed at once, as unhealthy if the driver reports so. One whose uuid cannot be read is
    not listed: it would get another id, even if its uuid is disabled."""
    if any(absence.field == "uuid" and absence.reason in _TEMPORARY for absence in device.absent):
        return _Record(device, listed=False, healthy=False)
    verdict, reason = _verdict(device)
    if verdict is HealthVerdict.BAD:
        return _Record(device, healthy=False, reason=reason, reported_bad=True)
    return _Record(device)


def _missing(result: CheckResult) -> tuple[HealthVerdict, str]:
    """Of a device that is not in the result."""
    if result.error is None:
        if result.complete:
            return HealthVerdict.GONE, "the driver no longer lists it"
        return HealthVerdict.UNANSWERED, "the driver's answer is incomplete and does not contain it"
    if isinstance(result.error, DriverAbsent):
        return HealthVerdict.GONE, str(result.error)
    return HealthVerdict.UNANSWERED, str(result.error)


def _verdict(device: Device) -> tuple[HealthVerdict, str]:
    state = device.health.state
    if state in _BAD_STATES:
        return HealthVerdict.BAD, device.health.reason or state.value
    return (HealthVerdict.UNKNOWN if state is HealthState.UNKNOWN else HealthVerdict.GOOD), ""
