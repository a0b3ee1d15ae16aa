"""From looks at a driver to what the kubelet is told: healthy, unhealthy, or not there.

Kubelets act at once on what they hear: pods are refused, and some controllers evict. So one bad look changes
nothing, and a device that keeps falling must stand longer each time before it is trusted again.

A driver that answers without saying how a device is leaves it as it was. So does a driver that cannot be
asked at all, but only for so long: nobody vouches for the device then. Only a good look makes up for those
that were not: bad ones count together, whatever was wrong at each of them. Good ones count only in a row,
which a driver that cannot be asked ends as well.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from accelscope.deviceplugin.identity import place, recognise
from accelscope.deviceplugin.watch import Look
from accelscope.model import AbsenceReason, Device, HealthState
from accelscope.vendors.common.contract import DriverAbsent

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
