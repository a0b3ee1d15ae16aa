"""Content of the Node's annotations, as JSON text, and of its labels.

In annotations numbers are rounded, and absent values are omitted.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TypeVar

from accelscope.model import Device, HealthState, Snapshot, Vendor
from accelscope.sinks import ACCELSCOPE, DOMAINS
from accelscope.vendors import VendorDeclaration, declarations

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
    """A lost device counts as answered: the driver reports the loss. So does a device that is stale because
    of a known fatal error or a request for a reset."""
    return not device.stale or device.health.state in (HealthState.LOST, HealthState.CRITICAL)


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


# --- labels ---------------------------------------------------------------
# Labels of the Node that describe its devices. A label exists only if it is true of all devices of a vendor.
# If two cards have different firmware, there is no label of the firmware version. Without devices of a
# vendor, there are no labels of that vendor.


MOST_CHARACTERS = 63
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9._-]+")
_ENDS = "._-"  # not allowed at either end


def label_value(text: str) -> str | None:
    """A text as a valid label value: `NVIDIA H100 80GB HBM3` becomes `NVIDIA-H100-80GB-HBM3`; None if nothing
    is left."""
    written = _NOT_ALLOWED.sub("-", text).lstrip(_ENDS)[:MOST_CHARACTERS].rstrip(_ENDS)
    return written or None


_MOST_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class Machine:
    """Vendor and product name from the machine's firmware (DMI)."""

    vendor: str | None = None
    name: str | None = None


def read_machine(sys: Path) -> Machine:
    """Machines without DMI, such as many with Arm processors, have neither value."""
    folder = sys / "class/dmi/id"
    return Machine(_text(folder / "sys_vendor"), _text(folder / "product_name"))


def _text(path: Path) -> str | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS).strip() or None
    except OSError:
        return None


# `550.54.15`, `24.1.rc3`, `1.9.8, 4c1f0aa`, `2026.1.0-dev0+96977d5`, `6.10.5 (build 7)`
_VERSION = re.compile(
    r"v?(?P<text>(?P<major>\d{1,9})(?:\.(?P<minor>\d{1,9})(?:\.(?P<patch>\d{1,9}))?)?"
    r"(?P<more>[0-9A-Za-z._~-]{0,100}))"
    r"(?:(?:\+|,\s*)(?P<reference>[0-9A-Za-z.-]{1,100}))?(?![0-9A-Za-z])",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a driver or firmware. `reference` is its commit or build."""

    text: str
    major: str | None = None
    minor: str | None = None
    patch: str | None = None
    prerelease: str | None = None
    reference: str | None = None

    @property
    def numbers(self) -> str:
        """x.y.z if it has all three numbers."""
        parts = (self.major, self.minor, self.patch)
        return ".".join(part for part in parts if part) if None not in parts else self.text


def version_of(text: str) -> Version:
    match = _VERSION.match(text.strip())
    if match is None:
        return Version(text.strip())
    more = match["more"]
    minor, patch = match["minor"], match["patch"]
    if more and more[0].isalnum():
        # `24.1rc3`, `535.1a`: the last part is not a number.
        minor, patch = (minor if patch else None), None
    return Version(
        match["text"],
        match["major"],
        minor,
        patch,
        more[1:] or None if more.startswith("-") else None,
        match["reference"],
    )


_MIB = 1 << 20

_NO_MACHINE = Machine()

Fact = tuple[str, str | None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Values that all devices of a vendor have in common."""

    count: int
    product: str | None
    family: str | None
    memory_bytes: int | None
    driver: Version | None
    firmware: Version | None
    revision: str | None


def feature_labels(
    devices: Iterable[Device], machine: Machine = _NO_MACHINE, domains: Sequence[str] = DOMAINS
) -> dict[str, str]:
    """Sorted by name. Lost devices are ignored; stale devices count."""
    present = [device for device in devices if device.health.state is not HealthState.LOST]
    by_vendor = {
        vendor: _common_facts(own)
        for vendor in Vendor
        if (own := [device for device in present if device.vendor is vendor])
    }
    found: dict[str, str] = {}
    for domain in domains:
        for name, text in _labels_of(domain, by_vendor, machine):
            value = None if text is None else label_value(text)
            if value is not None:
                found[f"{domain}/{name}"] = value
    return dict(sorted(found.items()))


class Sizes:
    """Keeps the memory size of each device while it is stale: labels that pods select nodes by must not
    disappear because of a slow driver."""

    def __init__(self) -> None:
        self._known: dict[str, int | None] = {}

    def fill_in(self, devices: Iterable[Device]) -> list[Device]:
        filled = [
            replace(device, memory_total_bytes=self._known.get(device.id)) if device.stale else device
            for device in devices
        ]
        self._known = {device.id: device.memory_total_bytes for device in filled}
        return filled


def _common_facts(devices: Sequence[Device]) -> NodeFacts:
    def common(fact: Callable[[Device], T | None]) -> T | None:
        """The value that all devices have. Stale devices without a value are ignored."""
        values = {fact(device) for device in devices if not device.stale or fact(device) is not None}
        return values.pop() if len(values) == 1 else None

    driver, firmware = common(lambda d: d.driver_version), common(lambda d: d.firmware_version)
    return NodeFacts(
        len(devices),
        common(lambda d: d.model),
        common(lambda d: d.architecture),
        common(lambda d: d.memory_total_bytes),
        None if driver is None else version_of(driver),
        None if firmware is None else version_of(firmware),
        common(lambda d: d.revision),
    )


def _labels_of(domain: str, by_vendor: Mapping[Vendor, NodeFacts], machine: Machine) -> Iterator[Fact]:
    if domain == ACCELSCOPE:
        yield from _accelscope(by_vendor, machine)
    for vendor, facts in by_vendor.items():
        declared = declarations()[vendor]
        for own, part in declared.label_domains:
            if own == domain:
                yield from declared.load(part)(facts, machine)


def _accelscope(by_vendor: Mapping[Vendor, NodeFacts], machine: Machine) -> Iterator[Fact]:
    for vendor, facts in by_vendor.items():
        yield f"{vendor}.count", str(facts.count)
        yield f"{vendor}.product", facts.product
        yield f"{vendor}.family", facts.family
        if facts.memory_bytes is not None:
            yield f"{vendor}.memory", str(facts.memory_bytes // _MIB)
        if facts.driver is not None:
            yield f"{vendor}.driver.version", facts.driver.text
            yield from version_parts(f"{vendor}.driver.version", facts.driver)
            yield f"{vendor}.driver.reference", facts.driver.reference
        if facts.firmware is not None:
            yield f"{vendor}.firmware.version", facts.firmware.text
    if by_vendor:
        yield "machine.vendor", machine.vendor
        yield "machine.name", machine.name


def version_parts(name: str, version: Version) -> Iterator[Fact]:
    yield f"{name}.major", version.major
    yield f"{name}.minor", version.minor
    yield f"{name}.patch", version.patch
