"""Runs one reader, one call at a time, each with a deadline (`accelscope.deadline`).

A device whose call was abandoned is stale and is not asked again until that call returns. So at most one
thread is lost per device, plus one for the survey, after which the vendor is stale.
"""

import errno
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from accelscope.deadline import Calls, NoThread, call_detached
from accelscope.model import (
    Device,
    EccCount,
    ErrorCount,
    Health,
    HealthState,
    Process,
    ReaderState,
    Reading,
    Rejection,
    Vendor,
    counted,
    device_id,
    identity_of,
)
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, Reader, ReaderError, Survey
from accelscope.vendors.common.values import Growth

# --- stale ------------------------------------------------------------
# Devices that could not be read: shown with their identity only, because old values would pass for new.


def _identity_only(device: Device, health: Health) -> Device:
    # Errors are counted by the agent, not by what is gone.
    return replace(
        identity_of(device), read_at=device.read_at, errors=device.errors, stale=True, health=health
    )


def stale_device(device: Device, error: ReaderError) -> Device:
    """Nobody can tell how it is: its health is unknown, not bad."""
    return _identity_only(device, Health(HealthState.UNKNOWN, f"{error.reason}: {error}"))


def lost_device(device: Device, error: ReaderError) -> Device:
    """The driver itself says that it is gone, or no longer shows it."""
    return _identity_only(device, Health(HealthState.LOST, f"{error.reason}: {error}"))


def unidentified_device(vendor: Vendor, key: str, keys: list[str]) -> Device:
    """A device that the driver names but that never answered."""
    index = keys.index(key)
    return Device(vendor=vendor, id=device_id(vendor, index=index), index=index)


# --- error dates ------------------------------------------------------------
# When errors were last seen that a driver only counts. Readers that know the time say it themselves.


T = TypeVar("T", EccCount, ErrorCount)


class ErrorDates:
    """Of one device."""

    def __init__(self) -> None:
        self._growth = Growth()

    def dated(self, device: Device) -> Device:
        """The same object while no error has a date that the reader did not give."""
        at = device.read_at
        ecc = tuple(self._dated(e, ("ecc", e.severity, e.lifetime, e.block), at) for e in device.ecc)
        pages = tuple(self._dated(e, ("pages", e.severity), at) for e in device.retired_pages)
        errors = tuple(self._dated(e, (e.kind, e.code), at) for e in device.errors)
        if ecc == device.ecc and pages == device.retired_pages and errors == device.errors:
            return device
        return replace(device, ecc=ecc, retired_pages=pages, errors=errors)

    def _dated(self, error: T, counter: Hashable, read_at: float | None) -> T:
        grew_at = self._growth.last(counter, error.count, read_at)
        if error.last_seen is not None or grew_at is None:
            return error
        return replace(error, last_seen=grew_at)


log = logging.getLogger(__name__)

SURVEY: Final = ""  # the key of calls that belong to no device
_MOST_KNOWN_DEVICES = 1024
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_INCOMPLETE = ReaderError(
    "incomplete", "the driver's answer could not be read whole, and this device is not in it"
)
_LATE = ReaderError("deadline", "not asked: other devices used up the time of this pass")
_NO_THREAD = ReaderError("exhausted", "the agent got no thread to ask the driver in")
_NOT_SHOWN = DeviceLost("the driver no longer shows this device", reason="not_shown")


@dataclass(frozen=True, slots=True)
class Deadlines:
    survey_seconds: float = 10.0
    device_seconds: float = 2.0
    pass_seconds: float = 10.0  # after it, devices not yet asked wait for the next pass


@dataclass(slots=True)
class _Slot:
    """What is known of one device: its last good reading, and how the last attempt ended."""

    reading: Reading | None = None
    error: ReaderError | None = None
    asked_at: float = 0.0  # by the monotonic clock


@dataclass(slots=True)
class _Tally:
    errors: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Result:
    """What a reader contributes to a snapshot."""

    state: ReaderState
    devices: tuple[Device, ...]
    processes: tuple[Process, ...]


class Runner:
    def __init__(
        self,
        reader: Reader,
        *,
        deadlines: Deadlines,
        changed: threading.Condition,
        expected: int = 0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`changed` is notified when a pass ends; it also guards this object's state."""
        self.deadlines = deadlines
        self.expected = expected
        self._reader = reader
        self._changed = changed
        self._clock = clock
        self._monotonic = monotonic
        self._calls = Calls(f"reader-{reader.vendor}", changed, monotonic)
        self._todo: deque[str] = deque()
        self._hung: dict[str, _Slot] = {}  # by the keys of abandoned calls, with what was known then
        self._slots: dict[str, _Slot] = {}
        self._survey: Survey | None = None
        self._survey_error: ReaderError | None = None
        self._known: dict[str, Device] = {}
        self._error_dates: dict[str, ErrorDates] = {}  # of those that are known
        self._ended: Result | None = None  # what was known when the last pass ended
        self._tally = _Tally()
        self._pass_started: float | None = None
        self._duration: float | None = None
        self._last_success: float | None = None
        self._said = ""
        self._internal_error = ""  # the last one that was logged
        self._stopped = False

    def begin(self) -> None:
        """Start a pass, unless one is under way or the survey has not come back. Holds `changed`."""
        if self._pass_started is not None or SURVEY in self._calls.abandoned or self._stopped:
            return
        self._pass_started = self._monotonic()
        self._todo.append(SURVEY)
        self._ask_next()

    @property
    def busy(self) -> bool:
        return self._pass_started is not None

    def deadline(self) -> float | None:
        """When the call under way must be back, by the monotonic clock."""
        return self._calls.deadline()

    def abandon_overdue(self) -> None:
        """Give up the call under way if it missed its deadline. Holds `changed`."""
        for key in self._calls.abandon_overdue():
            self._hung[key] = self._slots.get(key, _Slot())
            text = f"no answer from the driver within {self._seconds(key):g} s"
            self._take(key, ReaderError("timeout", text))

    def stop(self) -> None:
        """Holds `changed`. The driver is closed in a thread of its own, because that too may hang."""
        self._stopped = True
        self._calls.close()
        if not self._calls.abandoned and not self._calls.running:
            call_detached("close", self._reader.close)

    def _seconds(self, key: str) -> float:
        return self.deadlines.device_seconds if key else self.deadlines.survey_seconds

    def _ask_next(self) -> None:
        """Begin the next call of this pass, or end the pass."""
        if self._todo:
            key = self._todo.popleft()
            try:
                self._calls.begin(key, partial(self._ask, key), self._seconds(key), partial(self._take, key))
            except NoThread:  # the next pass tries again
                self._record(key, _NO_THREAD)
                self._give_up_waiting(_NO_THREAD)
            else:
                if key in self._slots:
                    self._slots[key].asked_at = self._monotonic()
                return
        self._end_pass()

    def _give_up_waiting(self, error: ReaderError) -> None:
        """The devices that this pass has not asked yet, it will not."""
        for waiting in self._todo:
            self._take_device(waiting, error)
        self._todo.clear()

    def _ask(self, key: str) -> Survey | Reading | ReaderError:
        try:
            return self._reader.read(key) if key else self._reader.survey()
        except ReaderError as error:
            return error
        except Exception as error:  # a fault in one reader must not cost the others
            if isinstance(error, OSError) and error.errno in _EXHAUSTED:
                return ReaderError(
                    "exhausted", f"the agent got no file or memory: {os.strerror(error.errno)}"
                )
            text = f"{type(error).__name__}: {error}"
            if text != self._internal_error:
                self._internal_error = text
                log.exception("the %s reader failed in a way it does not know", self._reader.vendor)
            return ReaderError("internal", text)

    def _take(self, key: str, outcome: Survey | Reading | ReaderError) -> None:
        if self._stopped:
            return
        self._record(key, outcome)
        overdue = (
            self._pass_started is not None
            and self._monotonic() - self._pass_started > self.deadlines.pass_seconds
        )
        if overdue:
            self._give_up_waiting(_LATE)
        self._ask_next()

    def _record(self, key: str, outcome: Survey | Reading | ReaderError) -> None:
        if isinstance(outcome, Survey):
            self._take_survey(outcome)
        elif key == SURVEY:
            assert isinstance(outcome, ReaderError)
            self._survey_error = outcome
            if not isinstance(outcome, DriverAbsent) or self._known:
                self._tally.errors[outcome.reason] += 1
        else:
            self._take_device(key, outcome)

    def _take_survey(self, survey: Survey) -> None:
        self._survey, self._survey_error = survey, None
        abandoned = self._calls.abandoned
        self._hung = {key: slot for key, slot in self._hung.items() if key in abandoned}
        # A key whose call is still out may have been away meanwhile: it stays what it was.
        self._slots = {key: self._slots.get(key) or self._hung.get(key, _Slot()) for key in survey.keys}
        self._count_rejected(survey.rejected)
        self._tally.errors.update(survey.warnings)
        # Those that were not reached in the pass before come first, so that slow ones do not starve them.
        asked = {key: self._slots[key].asked_at for key in survey.keys if key not in self._hung}
        self._todo.extend(sorted(asked, key=lambda key: asked[key]))

    def _take_device(self, key: str, outcome: Survey | Reading | ReaderError) -> None:
        slot = self._slots.setdefault(key, _Slot())
        if isinstance(outcome, Reading):
            slot.reading, slot.error = self._remembered(outcome), None
            self._count_rejected(outcome.rejected)
        elif isinstance(outcome, ReaderError):
            slot.error = outcome
            self._tally.errors[outcome.reason] += 1

    def _remembered(self, reading: Reading) -> Reading:
        id_ = reading.device.id
        if len(self._known) >= _MOST_KNOWN_DEVICES and id_ not in self._known:
            return reading
        dated = self._error_dates.setdefault(id_, ErrorDates()).dated(reading.device)
        self._known[id_] = dated
        return reading if dated is reading.device else replace(reading, device=dated)

    def _count_rejected(self, rejected: tuple[Rejection, ...]) -> None:
        self._tally.rejected.update(r.reason for r in rejected)

    def _end_pass(self) -> None:
        if self._pass_started is not None:
            self._duration = self._monotonic() - self._pass_started
        self._pass_started = None
        if self._survey_error is None and (
            not self._slots or any(s.error is None for s in self._slots.values())
        ):
            self._last_success = self._clock()
        self._ended = self.result()
        self._say(self._ended)
        self._changed.notify_all()

    def result(self) -> Result:
        """What is known now. Holds `changed`."""
        if self._ended is not None and self._ended.devices and self._meets_new_devices():
            # A known device may be one of those, under another key: who is missing shows when all were asked.
            return replace(self._ended, state=self._state(self._ended.devices))
        devices: list[Device] = []
        processes: list[Process] = []
        error = self._survey_error
        slots = {} if error else self._slots
        for slot in slots.values():
            if slot.error is None and slot.reading is not None:
                devices.append(slot.reading.device)
                processes += slot.reading.processes
        shown = {device.id for device in devices}
        stale = (self._stale(key, slot) for key, slot in slots.items() if slot.error is not None)
        devices += [device for device in stale if device.id not in shown]  # it may answer under another key
        shown = {device.id for device in devices}
        missing = [device for device in self._known.values() if device.id not in shown]
        # One that answers nothing any more, not even who it is, is one of those that are missing.
        nameless = [d for d in devices if d.id == device_id(d.vendor, index=d.index)]
        for device in nameless[: len(missing)]:
            devices.remove(device)
        if error is None and self._survey is not None and not self._survey.complete:
            error = _INCOMPLETE
        for device in missing:
            devices.append(lost_device(device, _NOT_SHOWN) if error is None else stale_device(device, error))
        devices.sort(key=lambda d: (d.index is None, d.index or 0, d.id))
        return Result(self._state(devices), tuple(devices), tuple(processes))

    def _meets_new_devices(self) -> bool:
        """The pass under way has yet to ask a key that never answered."""
        slots = (self._slots.get(key) for key in (*self._todo, *self._calls.running))
        return any(slot is not None and slot.reading is None and slot.error is None for slot in slots)

    def _stale(self, key: str, slot: _Slot) -> Device:
        assert slot.error is not None
        vendor = self._reader.vendor
        device = slot.reading.device if slot.reading else unidentified_device(vendor, key, list(self._slots))
        if isinstance(slot.error, DeviceLost):
            return lost_device(device, slot.error)
        return stale_device(device, slot.error)

    def _state(self, devices: Sequence[Device]) -> ReaderState:
        error = self._survey_error
        found = self._survey is not None or (error is not None and not isinstance(error, DriverAbsent))
        fresh = sum(not device.stale for device in devices)
        up = self._survey is not None and error is None and (fresh > 0 or not devices)
        reason = str(error) if error else None
        if reason is None and not up and found:
            reason = "no device answers"
        return ReaderState(
            vendor=self._reader.vendor,
            found=found,
            up=up,
            source=self._survey.source if self._survey else None,
            driver_version=self._survey.driver_version if self._survey else None,
            reason=reason,
            duration_seconds=self._duration,
            last_success=self._last_success,
            devices_expected=max(self.expected, len(devices), self._survey.expected if self._survey else 0),
            devices_seen=fresh,
            abandoned_calls=len(self._calls.abandoned),
            errors=counted(self._tally.errors),
            rejected=counted(self._tally.rejected),
        )

    def _say(self, result: Result) -> None:
        """Log what changed, once."""
        troubled = [d for d in result.devices if d.stale]
        lines = [f"{d.id}: {_told(d.health)}" for d in troubled]
        state = replace(result.state, duration_seconds=None, last_success=None, errors=(), rejected=())
        said = f"{state.found} {state.up} {state.reason} {len(result.devices)} {lines}"
        if said == self._said:
            return
        self._said = said
        vendor = self._reader.vendor
        if not state.found:
            log.info("%s: not on this node (%s)", vendor, state.reason)
        elif not state.up:
            log.warning("%s: cannot be read: %s", vendor, state.reason)
        else:
            log.info(
                "%s: %d of %d devices answer, through %s, driver %s",
                vendor,
                state.devices_seen,
                state.devices_expected,
                state.source,
                state.driver_version,
            )
        for line in lines if state.up else ():
            log.warning("%s", line)


def _told(health: Health) -> str:
    """Many a reason begins with the state."""
    reason = str(health.reason)
    return reason if reason.startswith(f"{health.state}: ") else f"{health.state}: {reason}"
