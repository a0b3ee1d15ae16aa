"""Labels of the Node that say which devices it has. Pure: devices in, labels out.

A fact is a label only while it is true of the whole node: where devices disagree, as two cards with different
firmware, the label is left out, and with the last device all of a vendor's go.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from accelscope.model import Device, HealthState, Vendor
from accelscope.sinks.domains import ACCELSCOPE, DOMAINS, FURIOSA, FURIOSA_BETA
from accelscope.sinks.label_value import label_value
from accelscope.sinks.machine import Machine
from accelscope.sinks.versions import Version, version_of

_MIB = 1 << 20
_FURIOSA_PRODUCT = re.compile(r"rngd(?:-(?:max|s))?(?![a-z0-9])|warboy(?:[ _-]?b0)?|renegade", re.IGNORECASE)
_OLD_FAMILIES = {"warboy": "warboy", "rngd": "renegade"}
# Furiosa's documents name driver and firmware with `npu.` before, its program writes them without: people
# select by either.
_FURIOSA_PREFIXES = ("", "npu.")

_NO_MACHINE = Machine()

Fact = tuple[str, str | None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Facts:
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
        for name, text in _FACTS_OF[domain](by_vendor, machine):
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


def _agreed_facts(devices: Sequence[Device]) -> _Facts:
    def agreed(fact: Callable[[Device], T | None]) -> T | None:
        """The one value that all have; a device that did not answer this time keeps what it last told."""
        told = {fact(device) for device in devices if not device.stale or fact(device) is not None}
        return told.pop() if len(told) == 1 else None

    driver, firmware = agreed(lambda d: d.driver_version), agreed(lambda d: d.firmware_version)
    return _Facts(
        len(devices),
        agreed(lambda d: d.model),
        agreed(lambda d: d.architecture),
        agreed(lambda d: d.memory_total_bytes),
        None if driver is None else version_of(driver),
        None if firmware is None else version_of(firmware),
        agreed(lambda d: d.revision),
    )


def _accelscope(by_vendor: Mapping[Vendor, _Facts], machine: Machine) -> Iterator[Fact]:
    for vendor, facts in by_vendor.items():
        yield f"{vendor}.count", str(facts.count)
        yield f"{vendor}.product", facts.product
        yield f"{vendor}.family", facts.family
        if facts.memory_bytes is not None:
            yield f"{vendor}.memory", str(facts.memory_bytes // _MIB)
        if facts.driver is not None:
            yield f"{vendor}.driver.version", facts.driver.text
            yield from _parts(f"{vendor}.driver.version", facts.driver)
            yield f"{vendor}.driver.reference", facts.driver.reference
        if facts.firmware is not None:
            yield f"{vendor}.firmware.version", facts.firmware.text
    if by_vendor:
        yield "machine.vendor", machine.vendor
        yield "machine.name", machine.name


def _furiosa_beta(by_vendor: Mapping[Vendor, _Facts], machine: Machine) -> Iterator[Fact]:
    facts = by_vendor.get(Vendor.FURIOSA)
    if facts is None:
        return
    yield "npu.count", str(facts.count)
    product = _furiosa_product(facts)
    yield "npu.product", product if product is None or product.startswith("warboy") else "renegade"
    yield "npu.family", _OLD_FAMILIES.get(facts.family or "")
    yield "machine.vendor", machine.vendor
    yield "machine.name", machine.name
    if facts.driver is not None:
        yield "driver.version", facts.driver.numbers
        yield from _parts("driver.version", facts.driver)
        yield "driver.reference", facts.driver.reference


def _furiosa(by_vendor: Mapping[Vendor, _Facts], _: Machine) -> Iterator[Fact]:
    facts = by_vendor.get(Vendor.FURIOSA)
    if facts is None:
        return
    product = _furiosa_product(facts)
    yield "npu.count", str(facts.count)
    yield "npu.product", "warboy" if product == "warboyB0" else product
    yield "npu.family", facts.family
    for prefix in _FURIOSA_PREFIXES:
        for what, version in (("driver", facts.driver), ("firmware", facts.firmware)):
            if version is not None:
                name = f"{prefix}{what}.version"
                yield name, version.numbers
                yield from _parts(name, version)
                yield f"{name}.metadata", version.reference
                yield f"{name}.prerelease", version.prerelease


def _parts(name: str, version: Version) -> Iterator[Fact]:
    yield f"{name}.major", version.major
    yield f"{name}.minor", version.minor
    yield f"{name}.patch", version.patch


def _furiosa_product(facts: _Facts) -> str | None:
    """`warboy`, `warboyB0`, `rngd`, `rngd-s`, `rngd-max`, out of what driver or tool call the card; the
    silicon's revision tells a B0."""
    found = _FURIOSA_PRODUCT.search(facts.product or "")
    if found is None:
        return None
    name = found[0].casefold()
    if name.startswith("warboy"):
        is_b0 = name.endswith("b0") or (facts.revision or "").casefold() == "b0"
        return "warboyB0" if is_b0 else "warboy"
    return "rngd" if name == "renegade" else name


_FACTS_OF = {ACCELSCOPE: _accelscope, FURIOSA_BETA: _furiosa_beta, FURIOSA: _furiosa}
