"""When errors were last seen that a driver only counts. Readers that know the time say it themselves."""

from collections.abc import Hashable
from dataclasses import replace
from typing import TypeVar

from accelscope.model import Device, EccCount, ErrorCount
from accelscope.vendors.common.values import Growth

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
