"""Node labels in the formats of Furiosa's feature discovery."""

import re
from collections.abc import Iterator

from accelscope.sinks.documents import Fact, Machine, NodeFacts, version_parts

_PRODUCT = re.compile(r"rngd(?:-(?:max|s))?(?![a-z0-9])|warboy(?:[ _-]?b0)?|renegade", re.IGNORECASE)
_FORMER_FAMILIES = {"warboy": "warboy", "rngd": "renegade"}
# Labels of driver and firmware: with `npu.` in Furiosa's documents, without it in its program. Selectors may
# use either.
_PREFIXES = ("", "npu.")


def former_labels(facts: NodeFacts, machine: Machine) -> Iterator[Fact]:
    """Of beta.furiosa.ai."""
    yield "npu.count", str(facts.count)
    product = _product(facts)
    yield "npu.product", product if product is None or product.startswith("warboy") else "renegade"
    yield "npu.family", _FORMER_FAMILIES.get(facts.family or "")
    yield "machine.vendor", machine.vendor
    yield "machine.name", machine.name
    if facts.driver is not None:
        yield "driver.version", facts.driver.numbers
        yield from version_parts("driver.version", facts.driver)
        yield "driver.reference", facts.driver.reference


def labels(facts: NodeFacts, _: Machine) -> Iterator[Fact]:
    """Of furiosa.ai."""
    product = _product(facts)
    yield "npu.count", str(facts.count)
    yield "npu.product", "warboy" if product == "warboyB0" else product
    yield "npu.family", facts.family
    for prefix in _PREFIXES:
        for what, version in (("driver", facts.driver), ("firmware", facts.firmware)):
            if version is not None:
                name = f"{prefix}{what}.version"
                yield name, version.numbers
                yield from version_parts(name, version)
                yield f"{name}.metadata", version.reference
                yield f"{name}.prerelease", version.prerelease


def _product(facts: NodeFacts) -> str | None:
    """`warboy`, `warboyB0`, `rngd`, `rngd-s` or `rngd-max`, from the card's name in the driver or tool. The
    revision of the silicon shows a B0."""
    found = _PRODUCT.search(facts.product or "")
    if found is None:
        return None
    name = found[0].casefold()
    if name.startswith("warboy"):
        is_b0 = name.endswith("b0") or (facts.revision or "").casefold() == "b0"
        return "warboyB0" if is_b0 else "warboy"
    return "rngd" if name == "renegade" else name
