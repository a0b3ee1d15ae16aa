"""The matrix itself: whole, true to the code that it names, and the page as it makes it."""

from pathlib import Path

import pytest
from tests.faults.breaks import BREAKS, PREPARED
from tests.faults.matrix import ELSEWHERE, MATRIX, Elsewhere, Fault
from tests.faults.reference import reference

from accelscope.metrics.catalogue import CATALOGUE

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_page_is_as_the_matrix_says() -> None:
    page = REPOSITORY / "docs" / "faults.md"
    assert page.read_text() == reference(), "run make docs"


def test_each_fault_can_be_brought_about_and_none_is_twice() -> None:
    names = [fault.name for fault in MATRIX]
    assert len(set(names)) == len(names)
    assert set(names) == BREAKS.keys()
    assert PREPARED.keys() <= BREAKS.keys()


@pytest.mark.parametrize("fault", MATRIX, ids=lambda fault: fault.name)
def test_what_is_counted_is_in_the_catalogue(fault: Fault) -> None:
    families = {family.name for family in CATALOGUE}
    for series in fault.counted:
        assert set(series.partition("{")[0].split("|")) <= families
    assert bool(fault.counted) != bool(fault.told)
    assert bool(fault.collections) != bool(fault.seconds)


@pytest.mark.parametrize("row", [*MATRIX, *ELSEWHERE], ids=lambda row: row.broken)
def test_the_tests_that_are_named_exist(row: Fault | Elsewhere) -> None:
    for named in row.shown_by:
        path, *names = named.split("::")
        text = (REPOSITORY / path).read_text()
        *classes, test = names or [""]
        assert all(f"class {name}" in text for name in classes), named
        assert not test or f"def {test}(" in text, named
