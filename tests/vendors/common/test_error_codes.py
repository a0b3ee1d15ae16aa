"""The meaning of error codes: docs/error-codes.md."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tools.demo.scenes import SCENES

from accelscope.simulate import Fault, FaultKind, SimulatedNode, load_node
from accelscope.simulate.description import ready_made
from accelscope.simulate.vendor import simulated_vendor
from accelscope.vendors import VendorDeclaration, declarations
from accelscope.vendors.common import pcie_errors
from accelscope.vendors.common.error_codes import ErrorCode

WITH_CATALOGUE = [vendor for vendor in declarations().values() if vendor.error_codes]


def documented(vendor: str) -> list[ErrorCode]:
    declaration = declarations()[vendor]
    return list(import_module(f"{declaration.package}.{declaration.error_codes}").documented())


ALL = [entry for vendor in WITH_CATALOGUE for entry in documented(vendor.name)]
ALL += pcie_errors.documented()


@pytest.mark.parametrize("vendor", WITH_CATALOGUE, ids=lambda vendor: vendor.name)
def test_each_documented_code_is_found_and_listed_once(vendor: VendorDeclaration) -> None:
    entries = documented(vendor.name)
    assert [vendor.error_code(entry.code) for entry in entries] == entries
    assert len({entry.code for entry in entries}) == len(entries)


def test_each_error_of_a_pcie_link_is_found() -> None:
    assert [pcie_errors.error_code(entry.code) for entry in pcie_errors.documented()] == list(
        pcie_errors.documented()
    )
    assert pcie_errors.error_code("no such error") is None


def test_each_entry_has_a_source_on_the_web() -> None:
    assert [entry for entry in ALL if not entry.source.startswith("https://")] == []


def test_texts_are_short_and_plain() -> None:
    wrong = [
        entry
        for entry in ALL
        for text, limit in ((entry.meaning, 70), (entry.action, 110))
        if not 0 < len(text) <= limit or text != text.strip() or text.endswith(".") or "\n" in text
    ]
    assert wrong == []


def test_a_critical_code_says_what_to_do_and_what_ends_it() -> None:
    wrong = [
        entry
        for entry in ALL
        if entry.severity == "critical" and (entry.until is None or entry.action.startswith("None"))
    ]
    assert wrong == []


def test_information_ends_when_it_has_happened() -> None:
    assert [entry for entry in ALL if entry.severity == "info" and entry.until is not None] == []


# code, severity, what ends it, cause
EXPECTED: dict[str, list[tuple[str, str, str | None, str | None]]] = {
    "nvidia": [
        ("13", "info", None, "application"),
        ("31", "info", None, "application"),
        ("43", "info", None, "application"),
        ("45", "info", None, "application"),
        ("68", "info", None, None),
        ("69", "info", None, "application"),
        ("48", "critical", "reset", "hardware"),
        ("63", "info", None, "hardware"),
        ("64", "critical", "reset", "hardware"),
        ("74", "critical", "reset", "hardware"),
        ("79", "critical", "reboot", "hardware"),
        ("92", "info", None, "hardware"),
        ("94", "warning", None, "hardware"),
        ("95", "critical", "reset", "hardware"),
        ("119", "critical", "reset", "driver"),
        ("120", "critical", "reset", "driver"),
        ("145", "warning", None, "hardware"),
        ("154", "info", None, None),
        ("1", "warning", None, None),  # only of older GPUs
        ("999", "warning", None, None),  # of no document
        ("10001", "info", None, None),
        ("12020", "critical", "reset", "hardware"),
        ("19006", "critical", "reset", "hardware"),
        ("24009", "critical", "reset", "hardware"),
        ("28001", "warning", None, "environment"),
        ("31001", "warning", None, None),  # of no document
    ],
    "amd": [
        ("umc.ue", "critical", "reset", "hardware"),
        ("umc.de", "warning", None, "hardware"),
        ("umc.ce", "info", None, "hardware"),
        ("xgmi_wafl.ue", "critical", "reset", "hardware"),
        ("of_a_later_driver.ue", "critical", "reset", "hardware"),
        ("replay_rollover", "info", None, "hardware"),
    ],
    "ascend": [
        ("80E01801", "warning", None, "hardware"),
        ("80E01809", "info", None, "hardware"),
        ("81078603", "warning", None, None),
        ("80CD8008", "critical", "reset", None),
        ("8C084E00", "critical", "reset", None),
        ("80E18402", "critical", "replacement", "hardware"),
        ("A2301001", "critical", "replacement", "hardware"),  # has two levels: the worse one decides
        ("81078605", "warning", None, None),
        ("80E38003", "info", None, None),
        ("80FFFFFF", "warning", None, None),  # of no document
    ],
    "furiosa": [
        ("axi_post_error", "warning", None, None),
        ("device_error", "warning", None, None),
        ("pcie_doorbell_done", "info", None, None),
        ("a_later_error", "warning", None, None),
    ],
}


@pytest.mark.parametrize(
    ("vendor", "code", "severity", "until", "origin"),
    [(vendor, *row) for vendor, rows in EXPECTED.items() for row in rows],
)
def test_severity_clearing_and_cause(
    vendor: str, code: str, severity: str, until: str | None, origin: str | None
) -> None:
    entry = declarations()[vendor].error_code(code)
    assert (entry.code, entry.severity, entry.until, entry.origin) == (code, severity, until, origin)


def test_text_that_is_no_code_has_no_entry() -> None:
    assert [vendor.name for vendor in WITH_CATALOGUE if vendor.error_code("no such code") is not None] == []


KNOWN = {vendor.name: {entry.code for entry in documented(vendor.name)} for vendor in WITH_CATALOGUE}

# The codes in one reading of a simulated device.
CODES: dict[str, Callable[[Any], Iterable[str]]] = {
    "nvidia": lambda reading: (str(xid.code) for xid in reading.xids),
    "amd": lambda reading: (f"{block}.{kind}" for block in reading.errors for kind in ("ue", "ce")),
    "ascend": lambda reading: (f"{error.code:08X}" for error in reading.errors),
    "furiosa": lambda reading: ("_".join(name.casefold().split()) for name in reading.errors),
}


@pytest.mark.parametrize("name", ready_made())
def test_each_code_of_the_simulator_has_an_entry(name: str, tmp_path: Path) -> None:
    """Those of the description's own faults, and of each fault of a device that the simulator knows."""
    spec = load_node(name)
    possible = {vendor: simulated_vendor(vendor).faults.kinds for vendor in spec.vendors}
    nodes = [SimulatedNode(spec, tmp_path)]
    nodes += (
        SimulatedNode(replace(spec, faults=(Fault(kind=kind, vendor=vendor, device=0),)), tmp_path)
        for vendor, kinds in possible.items()
        for kind in kinds
        if kind not in (FaultKind.VANISHED, FaultKind.THROTTLED) and not kind.startswith("tool_")
    )
    found = {
        (vendor, code)
        for node in nodes
        for vendor in spec.vendors
        for reading in node.readings_at(vendor, 600.0)
        for code in CODES[vendor](reading)
    }
    assert [(vendor, code) for vendor, code in found if code not in KNOWN[vendor]] == []


def test_each_code_of_the_demo_has_an_entry() -> None:
    codes = {str(scene.code) for scene in SCENES if scene.code is not None}
    assert codes
    assert codes <= KNOWN["nvidia"]  # the only simulated driver whose faults have a code


@pytest.mark.parametrize("vendor", WITH_CATALOGUE, ids=lambda vendor: vendor.name)
def test_each_code_in_a_capture_has_an_entry(vendor: VendorDeclaration, captures: Path) -> None:
    files = [path for path in (captures / vendor.name).iterdir() if path.suffix != ".tsv"]
    texts = [path.read_text(errors="replace") for path in files]
    found = {
        error.code
        for text in texts
        for source in vendor.load(vendor.sources)
        for device in source.parse(text, ()).devices
        for error in device.errors
    }
    assert found - KNOWN[vendor.name] == set()
