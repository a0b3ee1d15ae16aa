"""scripts/mutate: what it names is there. Whether it works, tests/e2e/test_mutation.py tries."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from tests.repository import REPOSITORY

SCRIPT: dict[str, Any] = runpy.run_path(str(REPOSITORY / "scripts" / "mutate"))
ACCEPTED = sorted(SCRIPT["accepted_changes"](SCRIPT["ACCEPTED"]))


@pytest.mark.parametrize("subject", SCRIPT["SUBJECTS"])
def test_subject_has_sources_and_tests(subject: str) -> None:
    sources, tests = SCRIPT["SUBJECTS"][subject]
    for pattern in sources:
        assert list((REPOSITORY / "src" / "accelscope").glob(pattern)), pattern
    for path in tests:
        assert (REPOSITORY / "tests" / path).is_file(), path


@pytest.mark.parametrize(("function", "lines"), ACCEPTED)
def test_what_an_accepted_mutant_changes_stands_there(function: str, lines: tuple[str, ...]) -> None:
    """One that does not can be taken from the list: its function is another now."""
    module, _, _ = function.rpartition(".")
    source = Path(REPOSITORY, "src", *module.split(".")).with_suffix(".py").read_text()
    present = {line.strip() for line in source.splitlines()}
    removed = [line[2:] for line in lines if line.startswith("- ")]
    assert removed
    assert set(removed) <= present


def test_a_block_is_a_function_and_its_change(tmp_path: Path) -> None:
    file = tmp_path / "accepted.txt"
    file.write_text(
        "# a word\n\nmodule.x_f: why: because\n-     a = 1\n+     a = 2\n\nmodule.x_g: why\n- b\n+ c\n"
    )
    assert SCRIPT["accepted_changes"](file) == {
        ("module.x_f", ("- a = 1", "+ a = 2")),
        ("module.x_g", ("- b", "+ c")),
    }
