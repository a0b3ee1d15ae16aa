"""What devices last reported, for a short time in which they do not answer.

A tool that fails once must not replace good values on the Node: readers of the annotations decode a missing
number as 0 and a health other than OK as a fault.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from accelscope.sinks.documents import Document, Entry

LAST_READING_SECONDS = 300.0  # a device that is silent for longer is written as such


@dataclass(frozen=True, slots=True)
class _LastReading:
    entry: Entry
    taken_at: float  # of the document that it comes from
    seen_at: float  # by the monotonic clock


class LastReadings:
    """Of the devices of one annotation."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._readings: dict[str, _LastReading] = {}  # by device id

    def fill_in(self, document: Document) -> Document:
        """The document with the last reading of each device that does not answer. Its time becomes that of
        the oldest reading in it, so that no reader takes an old value for a new one."""
        now = self._monotonic()
        readings: dict[str, _LastReading] = {}
        entries: list[Entry] = []
        taken_at = document.taken_at
        for entry in document.entries:
            reading = _LastReading(entry, document.taken_at, now)
            if not entry.answered:
                last = self._readings.get(entry.device)
                if last is None or now - last.seen_at > LAST_READING_SECONDS:
                    entries.append(entry)
                    continue
                reading = last
            readings[entry.device] = reading
            entries.append(reading.entry)
            taken_at = min(taken_at, reading.taken_at)
        self._readings = readings
        return replace(document, taken_at=taken_at, entries=tuple(entries))
