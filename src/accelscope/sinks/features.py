"""Labels of the Node that say which devices it has. Pure: devices in, labels out.

A fact is a label only while it is true of the whole node: where devices disagree, as two cards with different
firmware, the label is left out, and with the last device all of a vendor's go.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from accelscope.model import Device, HealthState, Vendor
from accelscope.vendors import declarations

# --- domains ------------------------------------------------------------
# Under which domains a Node's labels may stand. Apart from what makes the labels, because the settings name
# the domains in every agent, and few write labels.


ACCELSCOPE = "accelscope.io"
DOMAINS = (ACCELSCOPE, *(domain for vendor in declarations().values() for domain, _ in vendor.label_domains))


# --- label value ------------------------------------------------------------
# Texts of drivers and machines as values that Kubernetes takes for a label.


MOST_CHARACTERS = 63
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9._-]+")
_ENDS = "._-"  # allowed within, not at either end


def label_value(text: str) -> str | None:
    """`NVIDIA H100 80GB HBM3` as `NVIDIA-H100-80GB-HBM3`; None where nothing is left."""
    written = _NOT_ALLOWED.sub("-", text).lstrip(_ENDS)[:MOST_CHARACTERS].rstrip(_ENDS)
    return written or None


# --- machine ------------------------------------------------------------
# Who made the machine and what it is called, as its firmware tells (DMI).


_MOST_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class Machine:
    vendor: str | None = None
    name: str | None = None


def read_machine(sys: Path) -> Machine:
    """Machines without DMI, such as many with Arm processors, tell nothing."""
    folder = sys / "class/dmi/id"
    return Machine(_text(folder / "sys_vendor"), _text(folder / "product_name"))


def _text(path: Path) -> str | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS).strip() or None
    except OSError:
        return None


# --- versions ------------------------------------------------------------
# Versions of drivers and firmware, taken apart.


# `550.54.15`, `24.1.rc3`, `1.9.8, 4c1f0aa`, `2026.1.0-dev0+96977d5`, `6.10.5 (build 7)`
_VERSION = re.compile(
    r"v?(?P<text>(?P<major>\d{1,9})(?:\.(?P<minor>\d{1,9})(?:\.(?P<patch>\d{1,9}))?)?"
    r"(?P<more>[0-9A-Za-z._~-]{0,100}))"
    r"(?:(?:\+|,\s*)(?P<reference>[0-9A-Za-z.-]{1,100}))?(?![0-9A-Za-z])",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Version:
    """`reference` is the commit or build that it was made from."""

    text: str
    major: str | None = None
    minor: str | None = None
    patch: str | None = None
    prerelease: str | None = None
    reference: str | None = None

    @property
    def numbers(self) -> str:
        """x.y.z where it has all three."""
        parts = (self.major, self.minor, self.patch)
        return ".".join(part for part in parts if part) if None not in parts else self.text


def version_of(text: str) -> Version:
    match = _VERSION.match(text.strip())
    if match is None:
        return Version(text.strip())
    more = match["more"]
    minor, patch = match["minor"], match["patch"]
    if more and more[0].isalnum():
        # `24.1rc3`, `535.1a`: the last number is not a number by itself.
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
class Facts:
    """What all devices of a vendor agree about."""

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
    """Sorted by name. A device that is lost does not count; one that only did not answer is still there."""
    present = [device for device in devices if device.health.state is not HealthState.LOST]
    by_vendor = {
        vendor: _agreed_facts(own)
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
    """Remembers how large each device's memory is, for a time in which it does not answer: what pods select
    nodes by must not come and go with a slow driver."""

    def __init__(self) -> None:
        self._known: dict[str, int | None] = {}

    def filled_in(self, devices: Iterable[Device]) -> list[Device]:
        filled = [
            replace(device, memory_total_bytes=self._known.get(device.id)) if device.stale else device
            for device in devices
        ]
        self._known = {device.id: device.memory_total_bytes for device in filled}
        return filled


def _agreed_facts(devices: Sequence[Device]) -> Facts:
    def agreed(fact: Callable[[Device], T | None]) -> T | None:
        """The one value that all have; a device that did not answer this time keeps what it last told."""
        told = {fact(device) for device in devices if not device.stale or fact(device) is not None}
        return told.pop() if len(told) == 1 else None

    driver, firmware = agreed(lambda d: d.driver_version), agreed(lambda d: d.firmware_version)
    return Facts(
        len(devices),
        agreed(lambda d: d.model),
        agreed(lambda d: d.architecture),
        agreed(lambda d: d.memory_total_bytes),
        None if driver is None else version_of(driver),
        None if firmware is None else version_of(firmware),
        agreed(lambda d: d.revision),
    )


def _labels_of(domain: str, by_vendor: Mapping[Vendor, Facts], machine: Machine) -> Iterator[Fact]:
    if domain == ACCELSCOPE:
        yield from _accelscope(by_vendor, machine)
    for vendor, facts in by_vendor.items():
        declared = declarations()[vendor]
        for own, part in declared.label_domains:
            if own == domain:
                yield from declared.load(part)(facts, machine)


def _accelscope(by_vendor: Mapping[Vendor, Facts], machine: Machine) -> Iterator[Fact]:
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
