"""The annotations' content as JSON text. Numbers are rounded, and absent values are omitted."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from accelscope.model import Device, HealthState, Snapshot
from accelscope.vendors import VendorDeclaration

DEVICES = "accelscope.io/devices"

# The annotations of an object may have 256 KiB in total, and other programs need some of it.
BUDGET_BYTES = 200 << 10
_LARGEST = 2**63  # limit of Go's int

Value = int | float


@dataclass(frozen=True, slots=True)
class Entry:
    """One device: identity and health, and the values, which are omitted first if there is no room."""

    identity: dict[str, int | str]
    values: dict[str, Value]
    device: str  # its id
    answered: bool = True  # False: the last attempt to read it failed
    lacks_number: bool = False  # programs that read the annotation would show the number 0


@dataclass(frozen=True, slots=True)
class Document:
    annotation: str
    member: str  # name of the list of entries
    taken_at: float  # seconds since the epoch
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class FittedDocument:
    text: str
    without_values: int = 0  # entries whose values were omitted
    left_out: int = 0  # entries that were omitted


def devices_annotation(readers: Iterable[str] | None) -> str:
    """The annotation's name. Agents that read only some vendors (None: all) may share a node, and each writes
    its own annotation."""
    return DEVICES if readers is None else f"{DEVICES}.{'-'.join(sorted(readers))}"


def vendor_document(vendor: VendorDeclaration, snapshot: Snapshot) -> Document:
    """The document of an annotation that a vendor declares."""
    assert vendor.annotation is not None
    devices = (device for device in snapshot.devices if device.vendor == vendor.name)
    entries = vendor.load(vendor.annotation.entries)(devices)
    return Document(vendor.annotation.name, vendor.annotation.member, snapshot.taken_at, tuple(entries))


def devices_document(snapshot: Snapshot) -> Document:
    """Every device, with the names and units of the model."""
    return Document(
        DEVICES, "devices", snapshot.taken_at, tuple(_device(device) for device in snapshot.devices)
    )


def fit(document: Document, budget_bytes: int = BUDGET_BYTES) -> FittedDocument:
    """Valid JSON within the budget: values are omitted first, then devices, both from the last one on."""
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
    return FittedDocument(_framed(document, shown), without - left_out, left_out)


def smallest_bytes(document: Document) -> int:
    """The budget for one device. An empty list would mean that the node has no devices."""
    first = [_compact(dict(entry.identity)) for entry in document.entries[:1]]
    return len(document.annotation) + len(_framed(document, first)) + len(first)


def timestamp(seconds: float) -> str:
    """RFC 3339, as Go's time.RFC3339 reads it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(seconds)))


def _device(device: Device) -> Entry:
    identity = without_none(
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
    """A lost device counts as answered: the driver reports the loss."""
    return not device.stale or device.health.state is HealthState.LOST


def without_none(*pairs: tuple[str, int | str | None]) -> dict[str, int | str]:
    return {name: value for name, value in pairs if value is not None}


def numbers(*values: tuple[str, Value | None, int | None]) -> dict[str, Value]:
    """Takes names, values and decimals (None: an integer). Values that are not finite or too large are
    omitted."""
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
