"""The catalogue: names, units, documentation."""

import re
import subprocess
import sys

import pytest
from tests.repository import REPOSITORY

from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.family import SCOPE_LABELS, Family, Type

BASE_UNITS = (
    "ratio",
    "bytes",
    "watts",
    "joules",
    "celsius",
    "hertz",
    "volts",
    "amperes",
    "seconds",
    "rpm",
    "bytes_per_second",
)
families = pytest.mark.parametrize("family", CATALOGUE, ids=lambda family: family.name)


def test_names_are_given_once() -> None:
    names = [family.name for family in CATALOGUE]
    assert sorted(names) == sorted(set(names))


@families
def test_a_name_is_well_formed_and_carries_its_unit(family: Family) -> None:
    assert re.fullmatch(r"(accelerator|accelscope)_[a-z0-9_]+", family.name)
    assert (family.type is Type.COUNTER) == family.name.endswith("_total")
    if family.unit:
        assert family.unit in BASE_UNITS
        assert family.base_name.endswith(f"_{family.unit}")
    else:
        assert not family.base_name.endswith(tuple(f"_{unit}" for unit in BASE_UNITS))


@families
def test_labels_are_given_once_and_help_is_a_sentence(family: Family) -> None:
    labels = (*SCOPE_LABELS[family.scope], *family.labels)
    assert len(labels) == len(set(labels))
    assert family.help.endswith(".")


def test_reference_pages_are_as_the_code_says() -> None:
    checked = subprocess.run(
        [sys.executable, REPOSITORY / "scripts/docs", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
