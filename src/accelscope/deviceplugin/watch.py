"""Looks at a vendor's devices through its reader, and survives it.

Driver calls block, and some never come back. Each has a thread and a deadline; one that misses it is left
behind, and that device (or the driver as a whole) is not asked again until it returns.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from accelscope.model import Device, ReaderState, counted
from accelscope.readers.contract import DriverAbsent, Reader, ReaderError, Survey

log = logging.getLogger(__name__)

T = TypeVar("T")

_SURVEY: Final = ""  # the key of calls that belong to no device


@dataclass(frozen=True, slots=True)
class Look:
    devices: tuple[Device, ...] = ()  # that answered
    failed: Mapping[str, ReaderError] = field(default_factory=dict)  # Device.id of others that are there
    error: ReaderError | None = None  # the driver as a whole could not be asked
    complete: bool = True  # False: who is missing may still be there


class Deadline:
    """Runs calls that may hang, at most one for each key at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._failing = ""  # the last fault of ours that was logged

    @property
    def abandoned(self) -> int:
        with self._lock:
            return len(self._running)

    def call(self, key: str, what: Callable[[], T], seconds: float) -> T:
        """Raises ReaderError: what the call raises, or that it did not come back."""
        with self._lock:
            if key in self._running:
                raise ReaderError("timeout", "an earlier call into the driver has not come back")
            self._running.add(key)
        answers: list[T | ReaderError] = []

        def work() -> None:
            try:
                answers.append(what())
            except ReaderError as error:
                answers.append(error)
            except Exception as error:  # a fault in a reader must not cost the plugin
                text = f"{type(error).__name__}: {error}"
                if text != self._failing:
                    self._failing = text
                    log.exception("a reader failed in a way it does not know")
                answers.append(ReaderError("internal", text))
            finally:
                with self._lock:
                    self._running.discard(key)

        thread = threading.Thread(target=work, name=f"driver-{key or 'survey'}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._running.discard(key)
            raise ReaderError("exhausted", "the plugin got no thread to ask the driver in") from None
        thread.join(seconds)
        if not answers:
            raise ReaderError("timeout", f"no answer from the driver within {seconds:g} s")
        answer = answers[0]
        if isinstance(answer, ReaderError):
            raise answer
        return answer


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
        self._deadline = Deadline()
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
            survey = self._deadline.call(_SURVEY, self._reader.survey, self._survey_seconds)
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
                reading = self._deadline.call(key, partial(self._reader.read, key), self._device_seconds)
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
            abandoned_calls=self._deadline.abandoned,
            errors=counted(self._errors),
            rejected=counted(self._rejected),
        )

    def close(self) -> None:
        """The driver is let go of in a thread of its own, because that too may hang."""
        with suppress(RuntimeError):  # no thread to be had: the process ends without it
            threading.Thread(target=self._reader.close, name="close", daemon=True).start()
