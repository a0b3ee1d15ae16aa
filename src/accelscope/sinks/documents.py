"""What the annotations hold, as JSON text. Pure: devices in, text out. Numbers are rounded, and absent values
are left out."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from accelscope.model import Device, HealthState, Snapshot
from accelscope.vendors import VendorDeclaration

DEVICES = "accelscope.io/devices"

# All annotations of an object may take 256 KiB together, and others have theirs.
BUDGET_BYTES = 200 << 10
_LARGEST = 2**63  # an int of Go

Value = int | float


@dataclass(frozen=True, slots=True)
class Entry:
    """One device: who it is and how it is, and the numbers that are left out first where there is no room."""

    identity: dict[str, int | str]
    values: dict[str, Value]
    device: str  # its id
    answered: bool = True  # False: the last attempt to read it failed
    lacks_number: bool = False  # readers would show the number 0


@dataclass(frozen=True, slots=True)
class Document:
    annotation: str
    member: str  # under which the entries stand
    taken_at: float  # seconds since the epoch
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Fitted:
    text: str
    without_values: int = 0  # entries that had to leave their numbers out
    left_out: int = 0  # entries that are missing


def devices_annotation(readers: Iterable[str] | None) -> str:
    """Its name. An agent with these readers only (None: with all) may have another one beside it on the node,
    and each writes what it knows."""
    return DEVICES if readers is None else f"{DEVICES}.{'-'.join(sorted(readers))}"


def vendor_document(vendor: VendorDeclaration, snapshot: Snapshot) -> Document:
    """What a vendor that declares an annotation writes there."""
    assert vendor.annotation is not None
    devices = (device for device in snapshot.devices if device.vendor == vendor.name)
    entries = vendor.load(vendor.annotation.entries)(devices)
    return Document(vendor.annotation.name, vendor.annotation.member, snapshot.taken_at, tuple(entries))


def devices_document(snapshot: Snapshot) -> Document:
    """Every device, with the names and units of the model."""
    return Document(
        DEVICES, "devices", snapshot.taken_at, tuple(_device(device) for device in snapshot.devices)
    )


def fitted(document: Document, budget_bytes: int = BUDGET_BYTES) -> Fitted:
    """Within the budget: devices lose their numbers from the last one on, then are left out themselves. It is
    JSON in any case."""
    full = [_compact({**entry.identity, **entry.values}) for entry in document.entries]
    bare = [_compact(dict(entry.identity)) for entry in document.entries]
    frame = _framed(document, [])
    room = budget_bytes - len(frame) - len(document.annotation)
    size = sum(len(text) + 1 for text in full)
    shown = list(full)
    without = 0
    while size > room and without < len(shown):
        without += 1
        size -= len(full[-without]) - len(bare[-without])
        shown[-without] = bare[-without]
    left_out = 0
    while size > room and shown:
        size -= len(shown.pop()) + 1
        left_out += 1
    return Fitted(_framed(document, shown), without - left_out, left_out)


def smallest_bytes(document: Document) -> int:
    """The budget that still has room for one device: a list without any would say that there is none."""
    first = [_compact(dict(entry.identity)) for entry in document.entries[:1]]
    return len(document.annotation) + len(_framed(document, first)) + len(first)


def timestamp(seconds: float) -> str:
    """RFC 3339, as Go's time.RFC3339 reads it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(seconds)))


def _device(device: Device) -> Entry:
    identity = given(
        ("id", device.id),
        ("vendor", device.vendor.value),
        ("index", device.index),
        ("model", device.model),
        ("health", device.health.state.value),
    )
    return Entry(
        identity,
        numbers(
            ("utilization_ratio", device.utilization_ratio, 2),
            ("memory_used_bytes", device.memory_used_bytes, None),
            ("memory_total_bytes", device.memory_total_bytes, None),
            ("temperature_celsius", device.temperature_celsius, 1),
            ("power_watts", device.power_watts, 1),
        ),
        device.id,
        is_answered(device),
    )


def is_answered(device: Device) -> bool:
    """That a device is lost is an answer of the driver."""
    return not device.stale or device.health.state is HealthState.LOST


def given(*pairs: tuple[str, int | str | None]) -> dict[str, int | str]:
    return {name: value for name, value in pairs if value is not None}


def numbers(*values: tuple[str, Value | None, int | None]) -> dict[str, Value]:
    """Name, value, decimals; None: an integer. What is no number, or none that fits, is no reading."""
    return {
        name: round(value) if decimals is None else round(value, decimals)
        for name, value, decimals in values
        if value is not None and isfinite(value) and abs(value) < _LARGEST
    }


def _compact(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


def _framed(document: Document, entries: Iterable[str]) -> str:
    head = _compact({"timestamp": timestamp(document.taken_at)})[:-1]
    return f'{head},"{document.member}":[{",".join(entries)}]}}'
