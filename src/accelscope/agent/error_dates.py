"""When errors were last seen that a driver only counts: a count that grew between two readings dates them.

Of errors before the first reading nobody knows when they were. Readers that are told the time keep theirs.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TypeVar

from accelscope.model import Device, EccCount, ErrorCount

T = TypeVar("T", EccCount, ErrorCount)


@dataclass(slots=True)
class _Seen:
    count: int
    last_seen: float | None = None


class ErrorDates:
    """Of one device."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, _Seen] = {}

    def dated(self, device: Device) -> Device:
        """The same object while no error has a date that the reader did not give."""
        at = device.read_at
        ecc = tuple(self._dated(e, ("ecc", e.severity, e.lifetime, e.block), at) for e in device.ecc)
        pages = tuple(self._dated(e, ("pages", e.severity), at) for e in device.retired_pages)
        errors = tuple(self._dated(e, (e.kind, e.code), at) for e in device.errors)
        if ecc == device.ecc and pages == device.retired_pages and errors == device.errors:
            return device
        return replace(device, ecc=ecc, retired_pages=pages, errors=errors)

    def _dated(self, error: T, key: Hashable, read_at: float | None) -> T:
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen(error.count)
        # Below what it was: the driver was loaded anew, and these came since.
        if error.count != seen.count and error.count > 0:
            seen.last_seen = read_at
        seen.count = error.count
        if error.last_seen is not None or seen.last_seen is None:
            return error
        return replace(error, last_seen=seen.last_seen)
