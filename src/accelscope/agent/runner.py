"""Runs one reader, one call at a time, each with a deadline (`accelscope.deadline`).

A device whose call was abandoned is stale and is not read again until that call returns. So at most one
thread is lost per device, plus one for the survey; then all devices of the vendor are stale.
"""

import errno
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from accelscope.deadline import Calls, NoThreadAvailable, call_detached
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
from accelscope.vendors.common.contract import (
    DeviceLost,
    DriverAbsent,
    Paths,
    Reader,
    ReaderError,
    Survey,
)
from accelscope.vendors.common.values import CounterTimes

if TYPE_CHECKING:
    from accelscope.vendors.common.health import ErrorHistory, HealthTracker

log = logging.getLogger(__name__)

Count = TypeVar("Count", EccCount, ErrorCount)

SURVEY: Final = ""  # key of the call that lists the devices
_MOST_KNOWN_DEVICES = 1024
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_UNDECIDED = Health(
    HealthState.UNKNOWN,
    "exhausted: the agent is out of file descriptors or memory",
    cause="exhausted",
    until="condition",
)
_INCOMPLETE = ReaderError("incomplete", "the driver's output is incomplete and does not contain this device")
_PATHS = Paths()
_LATE = ReaderError("deadline", "not read: other devices used up the time of this pass")
_NO_THREAD = ReaderError("exhausted", "the agent could not start a thread to call the driver")
_NOT_LISTED = DeviceLost("the driver no longer lists this device", reason="not_shown")


@dataclass(frozen=True, slots=True)
class Deadlines:
    survey_seconds: float = 10.0
    device_seconds: float = 2.0
    pass_seconds: float = 10.0  # after it, the remaining devices wait for the next pass


@dataclass(slots=True)
class _Slot:
    """One device: its last good reading, and the error of the last attempt."""

    reading: Reading | None = None
    error: ReaderError | None = None
    called_at: float = 0.0  # by the monotonic clock


@dataclass(slots=True)
class _Tally:
    errors: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Result:
    """A reader's part of a snapshot."""

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
        paths: Paths = _PATHS,
        histories: "Mapping[str, ErrorHistory] | None" = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`changed` is notified when a pass ends; it also guards this object's state. `histories`: lasting
        errors of an earlier agent, by the id of the device."""
        self.deadlines = deadlines
        self.expected = expected
        self._reader = reader
        self._changed = changed
        self._clock = clock
        self._monotonic = monotonic
        self._calls = Calls(f"reader-{reader.vendor}", changed, monotonic)
        self._todo: deque[str] = deque()
        self._hung: dict[str, _Slot] = {}  # by the keys of abandoned calls, as they were then
        self._slots: dict[str, _Slot] = {}
        self._survey: Survey | None = None
        self._survey_error: ReaderError | None = None
        self._known: dict[str, Device] = {}
        self._error_dates: dict[str, ErrorDates] = {}  # by the ids in `_known`
        self._paths = paths
        self._health: HealthTracker | None = None  # since the first problem or error
        if histories:
            self._health = self._new_tracker(histories)
        self._last_result: Result | None = None  # at the end of the last pass
        self._tally = _Tally()
        self._pass_started: float | None = None
        self._duration: float | None = None
        self._last_success: float | None = None
        self._logged = ""  # the last state that was logged
        self._logged_error = ""  # the last internal error that was logged
        self._stopped = False

    def begin(self) -> None:
        """Start a pass, unless one is running or an abandoned survey has not returned. Requires `changed`."""
        if self._pass_started is not None or SURVEY in self._calls.abandoned or self._stopped:
            return
        self._pass_started = self._monotonic()
        self._todo.append(SURVEY)
        self._begin_next()

    @property
    def busy(self) -> bool:
        return self._pass_started is not None

    def deadline(self) -> float | None:
        """Of the running call, by the monotonic clock."""
        return self._calls.deadline()

    def abandon_overdue(self) -> None:
        """Abandon the running call if it missed its deadline. Requires `changed`."""
        for key in self._calls.abandon_overdue():
            self._hung[key] = self._slots.get(key, _Slot())
            text = f"no answer from the driver within {self._seconds(key):g} s"
            self._finish_call(key, ReaderError("timeout", text))

    def stop(self) -> None:
        """Requires `changed`. Closes the driver in a separate thread, because closing may hang."""
        self._stopped = True
        self._calls.close()
        if not self._calls.abandoned and not self._calls.running:
            call_detached("close", self._reader.close)

    def _seconds(self, key: str) -> float:
        return self.deadlines.device_seconds if key else self.deadlines.survey_seconds

    def _begin_next(self) -> None:
        """Begin the next call of this pass, or end the pass."""
        if self._todo:
            key = self._todo.popleft()
            try:
                self._calls.begin(
                    key, partial(self._call, key), self._seconds(key), partial(self._finish_call, key)
                )
            except NoThreadAvailable:  # the next pass tries again
                self._record(key, _NO_THREAD)
                self._skip_remaining(_NO_THREAD)
            else:
                if key in self._slots:
                    self._slots[key].called_at = self._monotonic()
                return
        self._end_pass()

    def _skip_remaining(self, error: ReaderError) -> None:
        for key in self._todo:
            self._record_device(key, error)
        self._todo.clear()

    def _call(self, key: str) -> Survey | Reading | ReaderError:
        try:
            return self._reader.read(key) if key else self._reader.survey()
        except ReaderError as error:
            return error
        except Exception as error:  # a bug in one reader must not affect the others
            if isinstance(error, OSError) and error.errno in _EXHAUSTED:
                return ReaderError(
                    "exhausted", f"the agent is out of file descriptors or memory: {os.strerror(error.errno)}"
                )
            text = f"{type(error).__name__}: {error}"
            if text != self._logged_error:
                self._logged_error = text
                log.exception("unexpected error in the %s reader", self._reader.vendor)
            return ReaderError("internal", text)

    def _finish_call(self, key: str, outcome: Survey | Reading | ReaderError) -> None:
        if self._stopped:
            return
        self._record(key, outcome)
        overdue = (
            self._pass_started is not None
            and self._monotonic() - self._pass_started > self.deadlines.pass_seconds
        )
        if overdue:
            self._skip_remaining(_LATE)
        self._begin_next()

    def _record(self, key: str, outcome: Survey | Reading | ReaderError) -> None:
        if isinstance(outcome, Survey):
            self._record_survey(outcome)
        elif key == SURVEY:
            assert isinstance(outcome, ReaderError)
            self._survey_error = outcome
            if not isinstance(outcome, DriverAbsent) or self._known:
                self._tally.errors[outcome.reason] += 1
        else:
            self._record_device(key, outcome)

    def _record_survey(self, survey: Survey) -> None:
        self._survey, self._survey_error = survey, None
        abandoned = self._calls.abandoned
        self._hung = {key: slot for key, slot in self._hung.items() if key in abandoned}
        # The key of an abandoned call may have been missing in between: it keeps its slot.
        self._slots = {key: self._slots.get(key) or self._hung.get(key, _Slot()) for key in survey.keys}
        self._count_rejected(survey.rejected)
        self._tally.errors.update(survey.warnings)
        # Devices that the last pass did not reach come first, so that slow devices do not starve them.
        called = {key: self._slots[key].called_at for key in survey.keys if key not in self._hung}
        self._todo.extend(sorted(called, key=lambda key: called[key]))

    def _record_device(self, key: str, outcome: Survey | Reading | ReaderError) -> None:
        slot = self._slots.setdefault(key, _Slot())
        if isinstance(outcome, Reading):
            previous = self._known.get(outcome.device.id)
            slot.reading, slot.error = self._remember(outcome), None
            self._count_rejected(outcome.rejected)
            read = slot.reading
            self._observe(read.device, lambda tracker: tracker.observe(read, previous, self._clock()))
        elif isinstance(outcome, ReaderError):
            slot.error = outcome
            if isinstance(outcome, DeviceLost) and slot.reading is not None:
                lost = self._stale(key, slot)
                self._observe(lost, lambda tracker: tracker.observe_failure(lost.id, self._clock()))
            self._tally.errors[outcome.reason] += 1

    def _remember(self, reading: Reading) -> Reading:
        id_ = reading.device.id
        if len(self._known) >= _MOST_KNOWN_DEVICES and id_ not in self._known:
            return reading
        dated = self._error_dates.setdefault(id_, ErrorDates()).fill_in(reading.device)
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
        self._last_result = self.result()
        self._log_changes(self._last_result)
        self._changed.notify_all()

    def result(self) -> Result:
        """The current state of all devices. Requires `changed`."""
        last = self._last_result
        if last is not None and last.devices and self._has_unread_devices():
            # A known device may have a new key: which ones are missing is clear only after all were read.
            return replace(last, state=self._state(last.devices))
        devices: list[Device] = []
        processes: list[Process] = []
        problems: dict[str, tuple[Health, ...]] = {}
        error = self._survey_error
        slots = {} if error else self._slots
        for slot in slots.values():
            if slot.error is None and slot.reading is not None:
                devices.append(slot.reading.device)
                processes += slot.reading.processes
                if slot.reading.problems:
                    problems[slot.reading.device.id] = slot.reading.problems
        shown = {device.id for device in devices}
        stale = (self._stale(key, slot) for key, slot in slots.items() if slot.error is not None)
        devices += [device for device in stale if device.id not in shown]  # it may have another key now
        shown = {device.id for device in devices}
        missing = [device for device in self._known.values() if device.id not in shown]
        # A device without its usual id must be one of the missing ones.
        unidentified = [d for d in devices if d.id == device_id(d.vendor, index=d.index)]
        for device in unidentified[: len(missing)]:
            devices.remove(device)
        if error is None and self._survey is not None and not self._survey.complete:
            error = _INCOMPLETE
        for device in missing:
            devices.append(lost_device(device, _NOT_LISTED) if error is None else stale_device(device, error))
        devices = [self._with_health(device, problems.get(device.id, ())) for device in devices]
        devices.sort(key=lambda d: (d.index is None, d.index or 0, d.id))
        return Result(self._state(devices), tuple(devices), tuple(processes))

    # The tracker and the table of codes are imported when they are first needed, which fails while the agent
    # is out of file descriptors.

    def _observe(self, device: Device, observe: "Callable[[HealthTracker], None]") -> None:
        with _exhaustion_ignored():  # the next reading has the same errors
            if (tracker := self._tracker(device)) is not None:
                observe(tracker)

    def _with_health(self, device: Device, problems: Sequence[Health]) -> Device:
        with _exhaustion_ignored():
            tracker = self._tracker(device)
            return device if tracker is None else tracker.decide(device, problems, self._clock())
        return device if device.health.state is not HealthState.OK else replace(device, health=_UNDECIDED)

    def _tracker(self, device: Device) -> "HealthTracker | None":
        """None: no device had a problem or an error yet."""
        if self._health is None and (
            device.health.state is not HealthState.OK
            or any(error.last_seen is not None for error in device.errors)
        ):
            self._health = self._new_tracker()
        return self._health

    def _new_tracker(self, histories: "Mapping[str, ErrorHistory] | None" = None) -> "HealthTracker":
        from accelscope.vendors.common.health import HealthTracker  # noqa: PLC0415 - saves memory

        return HealthTracker(self._reader.vendor, self._paths, histories)

    def lasting_errors(self) -> "Mapping[str, ErrorHistory]":
        """Errors that end with an event, by the id of the device. Requires `changed`."""
        return {} if self._health is None else self._health.lasting()

    def _has_unread_devices(self) -> bool:
        """Whether the running pass still has to read a key that was never read."""
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
            reason = "no device responds"
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

    def _log_changes(self, result: Result) -> None:
        lines = [f"{d.id}: {_health_text(d.health)}" for d in result.devices if d.stale]
        state = result.state
        current = f"{state.found} {state.up} {state.reason} {len(result.devices)} {lines}"
        if current == self._logged:
            return
        self._logged = current
        vendor = self._reader.vendor
        if not state.found:
            log.info("%s: not on this node (%s)", vendor, state.reason)
        elif not state.up:
            log.warning("%s: cannot read the driver: %s", vendor, state.reason)
        else:
            log.info(
                "%s: read %d of %d devices through %s, driver version %s",
                vendor,
                state.devices_seen,
                state.devices_expected,
                state.source,
                state.driver_version,
            )
        for line in lines if state.up else ():
            log.warning("%s", line)


@contextmanager
def _exhaustion_ignored() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _EXHAUSTED:
            raise


def _health_text(health: Health) -> str:
    """Some reasons already begin with the state."""
    reason = str(health.reason)
    return reason if reason.startswith(f"{health.state}: ") else f"{health.state}: {reason}"


class ErrorDates:
    """When the errors of one device were last seen, for drivers that only count them."""

    def __init__(self) -> None:
        self._growth = CounterTimes()

    def fill_in(self, device: Device) -> Device:
        """Adds the dates that the reader did not set. Returns the same object if there are none to add."""
        at = device.read_at
        ecc = tuple(self._fill_in(e, ("ecc", e.severity, e.lifetime, e.block), at) for e in device.ecc)
        pages = tuple(self._fill_in(e, ("pages", e.severity), at) for e in device.retired_pages)
        errors = tuple(self._fill_in(e, (e.kind, e.code), at) for e in device.errors)
        if ecc == device.ecc and pages == device.retired_pages and errors == device.errors:
            return device
        return replace(device, ecc=ecc, retired_pages=pages, errors=errors)

    def _fill_in(self, error: Count, counter: Hashable, read_at: float | None) -> Count:
        grew_at = self._growth.last(counter, error.count, read_at)
        if error.last_seen is not None or grew_at is None:
            return error
        return replace(error, last_seen=grew_at)


def _identity_only(device: Device, health: Health) -> Device:
    # Old values would look current, so only the identity stays. The agent itself has counted the errors.
    return replace(
        identity_of(device), read_at=device.read_at, errors=device.errors, stale=True, health=health
    )


def stale_device(device: Device, error: ReaderError) -> Device:
    """A device that could not be read. By itself its health is unknown, not critical."""
    reason = f"{error.reason}: {error}"
    return _identity_only(device, Health(HealthState.UNKNOWN, reason, cause=error.reason, until="condition"))


def lost_device(device: Device, error: ReaderError) -> Device:
    """A device that the driver reports as lost, or no longer lists."""
    reason = f"{error.reason}: {error}"
    if error.reason == "reset_required":
        action = "Drain the device and reset it; if that fails, reboot the node"
        return _identity_only(
            device,
            Health(HealthState.CRITICAL, reason, cause="reset_required", action=action, until="reset"),
        )
    action = "Drain the node and reboot it; if the device stays lost, check card, power cable and cooling"
    return _identity_only(
        device,
        Health(HealthState.LOST, reason, cause="lost", action=action, origin="hardware", until="reboot"),
    )


def unidentified_device(vendor: Vendor, key: str, keys: list[str]) -> Device:
    """A device that the driver lists but that was never read."""
    index = keys.index(key)
    return Device(vendor=vendor, id=device_id(vendor, index=index), index=index)
