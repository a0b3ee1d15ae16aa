"""Reads a vendor's devices through its reader, each call with a deadline (`accelscope.deadline`).

A device (or the driver as a whole) whose call was abandoned is not asked again until that call returns.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from accelscope.deadline import Calls, NoThread, Overdue, StillRunning, call_detached
from accelscope.model import Device, ReaderState, counted
from accelscope.vendors.common.contract import DriverAbsent, Reader, ReaderError, Survey

log = logging.getLogger(__name__)

T = TypeVar("T")

_SURVEY: Final = ""  # the key of calls that belong to no device


@dataclass(frozen=True, slots=True)
class Look:
    devices: tuple[Device, ...] = ()  # that answered
    failed: Mapping[str, ReaderError] = field(default_factory=dict)  # Device.id of others that are there
    error: ReaderError | None = None  # the driver as a whole could not be asked
    complete: bool = True  # False: who is missing may still be there


class DriverCalls(Calls):
    """Calls into the driver: every failure is a ReaderError."""

    def __init__(self) -> None:
        super().__init__("driver")
        self._logged_fault = ""

    def call(self, key: str, function: Callable[[], T], seconds: float) -> T:
        try:
            return super().call(key, function, seconds)
        except ReaderError:
            raise
        except Overdue:
            raise ReaderError("timeout", f"no answer from the driver within {seconds:g} s") from None
        except StillRunning:
            raise ReaderError("timeout", "an earlier call into the driver has not come back") from None
        except NoThread:
            raise ReaderError("exhausted", "the plugin got no thread to ask the driver in") from None
        except Exception as error:  # a fault in a reader must not end the plugin
            text = f"{type(error).__name__}: {error}"
            if text != self._logged_fault:
                self._logged_fault = text
                log.exception("a reader failed with an unexpected error")
            raise ReaderError("internal", text) from None


class DriverWatch:
    def __init__(
        self,
        reader: Reader,
        *,
        survey_seconds: float,
        device_seconds: float,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._survey_seconds = survey_seconds
        self._device_seconds = device_seconds
        self._clock = clock
        self._monotonic = monotonic
        self._calls = DriverCalls()
        self._owners: dict[str, str] = {}  # key -> Device.id, as it last answered
        self._errors: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        self._survey: Survey | None = None
        self._most_seen = 0
        self._last_success: float | None = None
        self.state = ReaderState(vendor=reader.vendor, found=False, up=False)

    def look(self) -> Look:
        """Blocks no longer than the deadlines say."""
        started = self._monotonic()
        try:
            survey = self._calls.call(_SURVEY, self._reader.survey, self._survey_seconds)
        except ReaderError as error:
            if not isinstance(error, DriverAbsent) or self._most_seen:
                self._errors[error.reason] += 1
            self._note(started, Look(error=error))
            return Look(error=error)
        self._survey = survey
        self._errors.update(survey.warnings)
        self._rejected.update(rejection.reason for rejection in survey.rejected)
        look = self._ask(survey)
        self._note(started, look)
        return look

    def _ask(self, survey: Survey) -> Look:
        devices: dict[str, Device] = {}
        failures: dict[str, ReaderError] = {}
        for key in survey.keys:
            try:
                reading = self._calls.call(key, partial(self._reader.read, key), self._device_seconds)
            except ReaderError as error:
                failures[key] = error
                self._errors[error.reason] += 1
                continue
            devices[reading.device.id] = reading.device
            self._owners[key] = reading.device.id
            self._rejected.update(rejection.reason for rejection in reading.rejected)
        self._owners = {key: owner for key, owner in self._owners.items() if key in survey.keys}
        # Who a key means may have changed since it last answered: one that answers elsewhere has not failed.
        failed = {self._owners.get(key, key): error for key, error in failures.items()}
        return Look(
            tuple(devices.values()),
            {owner: error for owner, error in failed.items() if owner not in devices},
            complete=survey.complete,
        )

    def _note(self, started: float, look: Look) -> None:
        self._most_seen = max(self._most_seen, len(look.devices) + len(look.failed))
        up = look.error is None and (bool(look.devices) or not look.failed)
        if up:
            self._last_success = self._clock()
        reason = str(look.error) if look.error else None
        if reason is None and not up:
            reason = "no device answers"
        self.state = ReaderState(
            vendor=self._reader.vendor,
            found=not isinstance(look.error, DriverAbsent),
            up=up,
            source=self._survey.source if self._survey else None,
            driver_version=self._survey.driver_version if self._survey else None,
            reason=reason,
            duration_seconds=self._monotonic() - started,
            last_success=self._last_success,
            devices_expected=self._most_seen,
            devices_seen=len(look.devices),
            abandoned_calls=len(self._calls.abandoned),
            errors=counted(self._errors),
            rejected=counted(self._rejected),
        )

    def close(self) -> None:
        """The driver is closed in a thread of its own, because that too may hang."""
        self._calls.close()
        call_detached("close", self._reader.close)
