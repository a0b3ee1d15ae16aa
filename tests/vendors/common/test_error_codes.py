"""The meaning of error codes: docs/error-codes.md."""

from importlib import import_module

import pytest

from accelscope.vendors import declarations
from accelscope.vendors.common.error_codes import ErrorCode

WITH_CATALOGUE = [vendor for vendor in declarations().values() if vendor.error_codes]


def documented(vendor: str) -> list[ErrorCode]:
    declaration = declarations()[vendor]
    return list(import_module(f"{declaration.package}.{declaration.error_codes}").documented())


ALL = [(vendor.name, entry) for vendor in WITH_CATALOGUE for entry in documented(vendor.name)]


@pytest.mark.parametrize("vendor", WITH_CATALOGUE, ids=lambda vendor: vendor.name)
def test_each_documented_code_is_found_and_listed_once(vendor):
    entries = documented(vendor.name)
    assert [vendor.error_code(entry.code) for entry in entries] == entries
    assert len({entry.code for entry in entries}) == len(entries)


def test_each_entry_has_a_source_on_the_web():
    assert [entry for _, entry in ALL if not entry.source.startswith("https://")] == []


def test_texts_are_short_and_plain():
    wrong = [
        entry
        for _, entry in ALL
        for text, limit in ((entry.meaning, 70), (entry.action, 110))
        if not 0 < len(text) <= limit or text != text.strip() or text.endswith(".") or "\n" in text
    ]
    assert wrong == []


def test_a_critical_code_says_what_to_do_and_what_ends_it():
    wrong = [
        entry
        for _, entry in ALL
        if entry.severity == "critical" and (entry.until is None or entry.action.startswith("None"))
    ]
    assert wrong == []


def test_information_ends_when_it_has_happened():
    assert [entry for _, entry in ALL if entry.severity == "info" and entry.until is not None] == []


# code, severity, what ends it, cause
EXPECTED = {
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
    ],
}


@pytest.mark.parametrize(
    ("vendor", "code", "severity", "until", "origin"),
    [(vendor, *row) for vendor, rows in EXPECTED.items() for row in rows],
)
def test_severity_clearing_and_cause(vendor, code, severity, until, origin):
    entry = declarations()[vendor].error_code(code)
    assert (entry.code, entry.severity, entry.until, entry.origin) == (code, severity, until, origin)


def test_text_that_is_no_code_has_no_entry():
    assert [vendor.name for vendor in WITH_CATALOGUE if vendor.error_code("no such code") is not None] == []
