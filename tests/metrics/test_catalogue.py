"""The catalogue: names, units, documentation."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.metrics.dialect_nodes import H100, node
from tests.repository import REPOSITORY

from accelscope.metrics.catalogue import CATALOGUE
from accelscope.metrics.exposition import Exposition
from accelscope.metrics.family import SCOPE_LABELS, Family, Type
from accelscope.model import Health, HealthState

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


@pytest.mark.parametrize(
    ("used", "total", "shown"),
    [(20, 80, ["0.25"]), (0, 80, ["0"]), (None, 80, []), (20, None, []), (0, 0, [])],
)
def test_memory_used_is_also_a_fraction_of_the_total(
    used: int | None, total: int | None, shown: list[str]
) -> None:
    device = replace(H100, memory_used_bytes=used, memory_total_bytes=total)
    page = Exposition().render(node(device)).text.decode()
    assert re.findall(r"^accelerator_memory_used_ratio{.*} (\S+)$", page, re.MULTILINE) == shown


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("reset_required: GPU requires a reset", "reset required"),
        ("throttled by hardware: temperature", "throttled by hardware"),
        ("XID 148 (NVLink error (NVLPW_CTRL))", "XID 148 (NVLink error (NVLPW_CTRL))"),
    ],
)
def test_the_reason_of_a_state_is_text_that_does_not_change(reason: str, shown: str) -> None:
    device = replace(H100, health=Health(HealthState.CRITICAL, reason))
    page = Exposition().render(node(device)).text.decode()
    assert re.findall(r'^accelerator_health_cause_info{.*reason="([^"]*)"', page, re.MULTILINE) == [shown]
