"""What counts as a difference, without any program."""

import pytest
from tests.reality.comparison import Comparison, Difference, Field, Report, Value, overlooked, table

FIELDS = (
    Field("temp", "temperature_celsius", within=0.5),
    Field("core.{}.mhz", "cores.{}.clock_hertz", scale=1e6),
)
OURS: dict[str, dict[str, Value]] = {"0": {"temperature_celsius": 40.4, "cores.3.clock_hertz": 2e9}}


def comparison(*differences: Difference) -> Comparison:
    return Comparison(program="tool", version="1", node="node", table=FIELDS, differences=differences)


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
    known = Difference(
        program="to*", field="temp", right="accelscope", reason="0", holds=lambda theirs, ours: theirs == 0
    )
    outcome = comparison(known).run(reports(temp=theirs), OURS)
    assert (len(outcome.explained), len(outcome.unexplained)) == (explained, 1 - explained)


def test_every_value_that_is_bent_on_purpose_is_found() -> None:
    assert overlooked(comparison(), reports(temp=40, core_3_mhz=2000), OURS) == []


def test_the_table_has_a_row_for_each_comparison() -> None:
    outcome = comparison().run(reports(temp=41, core_3_mhz=2000), OURS)
    assert [line.split() for line in table([outcome])][1] == ["tool", "1", "node", "2", "1", "0", "1"]
