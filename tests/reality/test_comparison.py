"""What counts as a difference, without any program."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.reality.comparison import (
    Comparison,
    Difference,
    Field,
    Finding,
    Report,
    Value,
    flat,
    overlooked,
    table,
    unused,
)
from tests.reality.differences import DIFFERENCES

from accelscope.model import Absence, AbsenceReason, Device, ErrorCount, Vendor

Holds = Callable[[Finding], bool]

FIELDS = (
    Field("temp", "temperature_celsius", within=0.5),
    Field("core.{}.mhz", "cores.{}.clock_hertz", scale=1e6),
)
OURS: dict[str, dict[str, Value]] = {"0": {"temperature_celsius": 40.4, "cores.3.clock_hertz": 2e9}}


def comparison(*differences: Difference) -> Comparison:
    return Comparison(program="tool", version="1", node="node", table=FIELDS, differences=differences)


def known(holds: Holds) -> Difference:
    return Difference(program="to*", field="temp", right="accelscope", reason="0", holds=holds)


def reports(**values: Value) -> list[Report]:
    return [Report(device="0", values={name.replace("_", "."): value for name, value in values.items()})]


def test_values_within_their_tolerance_are_equal_and_others_are_not_compared() -> None:
    outcome = comparison().run(reports(temp=40, core_3_mhz=2000, other=1), OURS)
    assert (len(outcome.compared), outcome.equal, outcome.unexplained) == (2, 2, [])


@pytest.mark.parametrize("values", [{"temp": 41}, {"core_3_mhz": 1999}, {"core_4_mhz": 2000}])
def test_a_value_that_differs_or_is_missing_is_found(values: dict[str, Value]) -> None:
    assert len(comparison().run(reports(**values), OURS).unexplained) == 1


def test_a_device_that_the_snapshot_lacks_is_found() -> None:
    assert len(comparison().run([Report(device="1", values={})], OURS).unexplained) == 1


@pytest.mark.parametrize(("theirs", "explained"), [(0, 1), (1, 0)])
def test_an_explanation_holds_for_the_difference_that_it_describes(theirs: int, explained: int) -> None:
    outcome = comparison(known(lambda finding: finding.theirs == 0)).run(reports(temp=theirs), OURS)
    assert (len(outcome.explained), len(outcome.unexplained)) == (explained, 1 - explained)


@pytest.mark.parametrize(("device", "explained"), [("0", 0), ("1", 1)])
def test_an_explanation_holds_for_a_device_in_the_state_that_explains_it(device: str, explained: int) -> None:
    ours: dict[str, dict[str, Value]] = {"0": {"stale": False}, "1": {"stale": True}}
    lost = known(lambda finding: finding.values["stale"] is True)
    outcome = comparison(lost).run([Report(device=device, values={"temp": 40})], ours)
    assert (len(outcome.explained), len(outcome.unexplained)) == (explained, 1 - explained)


def test_every_value_that_is_bent_on_purpose_is_found() -> None:
    assert overlooked(comparison(), reports(temp=40, core_3_mhz=2000), OURS) == []


@pytest.mark.parametrize(
    ("holds", "missed"),
    [
        (lambda finding: finding.ours is None and "stale" in finding.values, []),
        (lambda finding: finding.ours is None, ["0 temperature_celsius: None for 40.4"]),
        (lambda finding: finding.theirs == 40, ["41.4", "None"]),
    ],
    ids=["narrow", "any missing value", "any other value"],
)
def test_an_explanation_that_is_too_wide_is_found(holds: Holds, missed: list[str]) -> None:
    found = overlooked(comparison(known(holds)), reports(temp=40, core_3_mhz=2000), OURS)
    assert len(found) == len(missed)
    assert all(part in text for part, text in zip(missed, found, strict=True))


def test_an_explanation_that_explains_nothing_is_found_if_its_program_ran() -> None:
    used, stale = known(lambda finding: True), known(lambda finding: False)
    other = replace(stale, program="other")
    outcome = comparison(stale, used).run(reports(temp=0), OURS)
    assert unused([used, stale, other], [outcome]) == [stale]


def test_the_table_has_a_row_for_each_comparison() -> None:
    outcome = comparison().run(reports(temp=41, core_3_mhz=2000), OURS)
    assert [line.split() for line in table([outcome])][1] == ["tool", "1", "node", "2", "1", "0", "1"]


def test_errors_and_absent_values_of_the_snapshot_have_names_of_their_own() -> None:
    device = Device(
        vendor=Vendor("amd"),
        id="amd:0",
        errors=(ErrorCount("pcie", "nak_sent", 1), ErrorCount("pcie", "nak_received", 2)),
        absent=tuple(Absence(name, AbsenceReason.LOST) for name in ("power_watts", "sensors.edge")),
    )
    values = flat(device)
    assert (values["errors.pcie.nak_sent.count"], values["errors.pcie.nak_received.count"]) == (1, 2)
    assert values["absent.power_watts.reason"] == values["absent.sensors.edge.reason"] == "lost"


def test_no_known_difference_explains_a_device_that_the_snapshot_lacks() -> None:
    for program in ("amd-smi", "rocm-smi", "nvtop", "nvitop", "gpustat", "furiosa-smi"):
        check = replace(comparison(*DIFFERENCES), program=program, node="amd-radeon")
        assert len(check.run([Report(device="1", values={})], OURS).unexplained) == 1
