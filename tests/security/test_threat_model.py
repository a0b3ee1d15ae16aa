"""docs/threat-model.md names tests; they are there."""

import re

import pytest
from tests.repository import REPOSITORY

PAGE = (REPOSITORY / "docs" / "threat-model.md").read_text()
NAMED = sorted(set(re.findall(r"`((?!pods/)[a-z0-9_]+(?:/[a-z0-9_]+)+(?:\.py)?)(?:::(\w+))?`", PAGE)))
COMPONENTS = {
    "Agent", "Attribution and Kubernetes", "Sinks", "Device plugin", "Fleet", "Page", "top",
    "Image and chart", "Supply chain",
}  # fmt: skip


@pytest.mark.parametrize(("path", "test"), NAMED, ids=lambda part: part or "whole")
def test_tests_that_it_names_are_there(path: str, test: str) -> None:
    found = REPOSITORY / "tests" / path
    assert found.exists()
    assert not test or f"def {test}(" in found.read_text()
    assert found.suffix == ".py" or any(found.rglob("test_*.py"))


def test_every_component_has_threats_answers_and_what_remains() -> None:
    heads = re.findall(r"^### (.+)\n\n\| threat \| what answers it \| remains \|\n", PAGE, re.MULTILINE)
    assert set(heads) == COMPONENTS
    for line in PAGE.partition("## Threats")[2].splitlines():
        if line.startswith("| "):
            assert all(cell.strip() for cell in line.strip("|").split("|")), line
