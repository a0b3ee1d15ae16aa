"""The matrix itself: whole, true to the code that it names, and the page as it makes it."""

from collections.abc import Iterable

import pytest
from tests.faults.breaks import BREAKS, PREPARED
from tests.faults.matrix import ELSEWHERE, MATRIX, OTHER_VENDORS, Elsewhere, Fault
from tests.faults.measured import Measured, table
from tests.faults.reference import reference
from tests.repository import REPOSITORY

from accelscope.metrics.catalogue import CATALOGUE


def test_the_documentation_matches_the_matrix() -> None:
    page = REPOSITORY / "docs" / "faults.md"
    assert page.read_text() == reference(), "run make docs"


def test_each_test_has_its_own_line() -> None:
    for line in reference().splitlines():
        assert line.startswith("|") or line.count(".py") <= 1, line


def test_each_fault_can_be_injected_and_none_is_repeated() -> None:
    names = [fault.name for fault in MATRIX]
    assert len(set(names)) == len(names)
    assert set(names) == BREAKS.keys()
    assert PREPARED.keys() <= BREAKS.keys()


@pytest.mark.parametrize("fault", MATRIX, ids=lambda fault: fault.name)
def test_counters_of_the_matrix_are_in_the_catalogue(fault: Fault) -> None:
    families = {family.name for family in CATALOGUE}
    for series in fault.counted:
        assert set(series.partition("{")[0].split("|")) <= families
    assert bool(fault.counted) != bool(fault.told)
    assert bool(fault.collections) != bool(fault.seconds)


@pytest.mark.parametrize("row", [*MATRIX, *ELSEWHERE], ids=lambda row: row.broken)
def test_named_tests_exist(row: Fault | Elsewhere) -> None:
    _exist(row.shown_by)


def test_named_tests_of_other_vendors_exist() -> None:
    _exist(OTHER_VENDORS)


def _exist(tests: Iterable[str]) -> None:
    for named in tests:
        path, *names = named.split("::")
        text = (REPOSITORY / path).read_text()
        *classes, test = names or [""]
        assert all(f"class {name}" in text for name in classes), named
        assert not test or f"def {test}(" in text, named


def test_measured_values_are_next_to_promised_ones() -> None:
    measured = [
        Measured(name="device-lost", collections=1, seconds=0.34, slowest_answer_seconds=0.0123),
        Measured(name="sigkill", collections=2, seconds=1.5, slowest_answer_seconds=None),
    ]
    _, lost, killed = (line.split("  ") for line in table(measured, MATRIX))
    assert [cell.strip() for cell in lost if cell] == [
        "device-lost",
        "1",
        "0.3 s",
        "3 collections",
        "0.012 s",
        "2 s",
    ]
    assert [cell.strip() for cell in killed if cell][1:3] == ["2", "1.5 s"]
