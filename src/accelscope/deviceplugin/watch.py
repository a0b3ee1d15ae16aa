"""Reads a vendor's devices through its reader, each call with a deadline (`accelscope.deadline`).

A device, or the whole driver, whose call was abandoned is not called again until that call returns.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from accelscope.deadline import CallInProgress, Calls, DeadlineExceeded, NoThreadAvailable, call_detached
from accelscope.model import Device, ReaderState, Reading, counted
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, Paths, Reader, ReaderError, Survey
from accelscope.vendors.common.health import HealthTracker

log = logging.getLogger(__name__)

T = TypeVar("T")

_PATHS = Paths()
_SURVEY: Final = ""  # the key of calls that belong to no device


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of all devices."""

    devices: tuple[Device, ...] = ()  # those that answered
    failed: Mapping[str, ReaderError] = field(
        default_factory=dict
    )  # by Device.id: listed by the driver, but not readable
    error: ReaderError | None = None  # the whole driver did not answer
    complete: bool = True  # False: a device that is not listed may still exist


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
        except DeadlineExceeded:
            raise ReaderError("timeout", f"no answer from the driver within {seconds:g} s") from None
        except CallInProgress:
            raise ReaderError("timeout", "an earlier call into the driver has not returned") from None
        except NoThreadAvailable:
            raise ReaderError(
                "exhausted", "no thread could be started for the call into the driver"
            ) from None
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
        paths: Paths = _PATHS,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._survey_seconds = survey_seconds
        self._device_seconds = device_seconds
        self._clock = clock
        self._monotonic = monotonic
        self._calls = DriverCalls()
        self._owners: dict[str, str] = {}  # key -> Device.id of its last answer
        self._health = HealthTracker(reader.vendor, paths)
        self._last: dict[str, Device] = {}  # last answers, by Device.id
        self._errors: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        self._survey: Survey | None = None
        self._most_seen = 0
        self._last_success: float | None = None
        self.state = ReaderState(vendor=reader.vendor, found=False, up=False)

    def check(self) -> CheckResult:
        """Blocks no longer than the deadlines of its calls."""
        started = self._monotonic()
        try:
            survey = self._calls.call(_SURVEY, self._reader.survey, self._survey_seconds)
        except ReaderError as error:
            if not isinstance(error, DriverAbsent) or self._most_seen:
                self._errors[error.reason] += 1
            self._update_state(started, CheckResult(error=error))
            return CheckResult(error=error)
        self._survey = survey
        self._errors.update(survey.warnings)
        self._rejected.update(rejection.reason for rejection in survey.rejected)
        result = self._read_devices(survey)
        self._update_state(started, result)
        return result

    def _read_devices(self, survey: Survey) -> CheckResult:
        devices: dict[str, Device] = {}
        failures: dict[str, ReaderError] = {}
        for key in survey.keys:
            try:
                reading = self._calls.call(key, partial(self._reader.read, key), self._device_seconds)
            except ReaderError as error:
                failures[key] = error
                self._errors[error.reason] += 1
                if isinstance(error, DeviceLost) and key in self._owners:
                    self._health.observe_failure(self._owners[key], self._clock())
                continue
            devices[reading.device.id] = self._with_health(reading)
            self._owners[key] = reading.device.id
            self._rejected.update(rejection.reason for rejection in reading.rejected)
        self._owners = {key: owner for key, owner in self._owners.items() if key in survey.keys}
        # A key may mean another device now: a device that answers under another key has not failed.
        failed = {self._owners.get(key, key): error for key, error in failures.items()}
        return CheckResult(
            tuple(devices.values()),
            {owner: error for owner, error in failed.items() if owner not in devices},
            complete=survey.complete,
        )

    def _with_health(self, reading: Reading) -> Device:
        """The device with the same health as in the agent."""
        device, now = reading.device, self._clock()
        self._health.observe(reading, self._last.get(device.id), now)
        self._last[device.id] = device
        return self._health.decide(device, reading.problems, now)

    def _update_state(self, started: float, result: CheckResult) -> None:
        self._most_seen = max(self._most_seen, len(result.devices) + len(result.failed))
        up = result.error is None and (bool(result.devices) or not result.failed)
        if up:
            self._last_success = self._clock()
        reason = str(result.error) if result.error else None
        if reason is None and not up:
            reason = "no device answers"
        self.state = ReaderState(
            vendor=self._reader.vendor,
            found=not isinstance(result.error, DriverAbsent),
            up=up,
            source=self._survey.source if self._survey else None,
            driver_version=self._survey.driver_version if self._survey else None,
            reason=reason,
            duration_seconds=self._monotonic() - started,
            last_success=self._last_success,
            devices_expected=self._most_seen,
            devices_seen=len(result.devices),
            abandoned_calls=len(self._calls.abandoned),
            errors=counted(self._errors),
            rejected=counted(self._rejected),
        )

    def close(self) -> None:
        """Closes the driver in a thread of its own, because that may hang too."""
        self._calls.close()
        call_detached("close", self._reader.close)
