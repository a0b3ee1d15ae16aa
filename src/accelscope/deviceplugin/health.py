"""From looks at a driver to what the kubelet is told: healthy, unhealthy, or not there.

Kubelets act at once on what they hear: pods are refused, and some controllers evict. So one bad look changes
nothing, and a device that keeps falling must stand longer each time before it is trusted again.

A driver that answers without saying how a device is leaves it as it was. So does a driver that cannot be
asked at all, but only for so long: nobody vouches for the device then.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from accelscope.deviceplugin.watch import Look
from accelscope.model import Device, HealthState
from accelscope.readers.contract import DriverAbsent

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
    UNREADABLE = auto()  # it does not answer, while the driver does
    UNANSWERED = auto()  # the driver as a whole does not
    GONE = auto()  # the driver does not show it


_BAD_STATES = (HealthState.CRITICAL, HealthState.LOST)


@dataclass(slots=True)
class _Record:
    device: Device
    listed: bool = True
    healthy: bool = True
    reason: str = ""  # of the last look that was not good
    told_bad: bool = False  # the driver's last word, which its silence does not take back
    good: int = 0
    bad: int = 0
    unanswered: int = 0
    gone: int = 0
    falls: deque[int] = field(default_factory=lambda: deque(maxlen=_MOST_DOUBLINGS))

    def take(self, verdict: Verdict, rule: HealthRule, now: int) -> None:
        if verdict in (Verdict.GOOD, Verdict.BAD):
            self.told_bad = verdict is Verdict.BAD
        good = verdict is Verdict.GOOD or (verdict is Verdict.UNKNOWN and not self.told_bad)
        self.good = self.good + 1 if good else 0
        if good or verdict is not Verdict.UNKNOWN:
            self.bad = self.bad + 1 if verdict in (Verdict.BAD, Verdict.UNREADABLE) else 0
        self.unanswered = self.unanswered + 1 if verdict is Verdict.UNANSWERED else 0
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
        answered = {device.id: device for device in look.devices}
        for device_id, record in self._records.items():
            device = answered.pop(device_id, None)
            verdict, reason = _verdict(device_id, device, look)
            if device is not None:
                record.device = device
            record.take(verdict, self.rule, self._looks)
            record.reason = "" if record.healthy else reason or record.reason
        for device_id, device in answered.items():
            if len(self._records) < _MOST_KNOWN_DEVICES:
                self._records[device_id] = _first(device)

    def listed(self) -> Iterator[DeviceHealth]:
        for record in self._records.values():
            if record.listed:
                yield DeviceHealth(record.device, record.healthy, record.reason)


def _first(device: Device) -> _Record:
    """A plugin that starts must not keep good devices back; a bad one is bad from the start."""
    verdict, reason = _told(device)
    if verdict is Verdict.BAD:
        return _Record(device, healthy=False, reason=reason, told_bad=True)
    return _Record(device)


def _verdict(device_id: str, device: Device | None, look: Look) -> tuple[Verdict, str]:
    if device is not None:
        return _told(device)
    if device_id in look.failed:
        return Verdict.UNREADABLE, str(look.failed[device_id])
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
