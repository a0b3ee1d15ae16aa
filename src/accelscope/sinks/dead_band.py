"""Which changes of an annotation are worth a write: idle devices flicker, and every write goes to etcd."""

from collections.abc import Mapping
from dataclasses import dataclass

from accelscope.sinks.documents import Document, Entry, Value


@dataclass(frozen=True, slots=True)
class Band:
    """A value may move by the larger of the two since it was written."""

    absolute: float = 0.0
    share: float = 0.0
    of: str | None = None  # the value that the share is of; None: the written value itself


_POWER = Band(absolute=1.0, share=0.02)
_CELSIUS = Band(absolute=1.0)
BANDS: Mapping[str, Band] = {
    "power": _POWER,
    "power_watts": _POWER,
    "temp": _CELSIUS,
    "temperature_celsius": _CELSIUS,
    "aicore": Band(absolute=2.0),
    "utilization_ratio": Band(absolute=0.02),
    "hbm_used": Band(share=0.01, of="hbm_total"),
    "memory_used_bytes": Band(share=0.01, of="memory_total_bytes"),
}
_ROUNDING = 1e-9


def differ(new: Document, written: Document) -> bool:
    """Other devices, another health, a value that came or went, or one that left its band."""
    if len(new.entries) != len(written.entries):
        return True
    return any(_moved(entry, before) for entry, before in zip(new.entries, written.entries, strict=True))


def _moved(entry: Entry, before: Entry) -> bool:
    if entry.identity != before.identity or entry.values.keys() != before.values.keys():
        return True
    return any(_left(name, value, before.values) for name, value in entry.values.items())


def _left(name: str, value: Value, before: Mapping[str, Value]) -> bool:
    band = BANDS.get(name, Band())
    whole = before.get(band.of or name, 0)
    return abs(value - before[name]) > max(band.absolute, band.share * abs(whole)) + _ROUNDING
