"""What a run of the engine is taken for, by what it printed."""

import pytest
from tools.fuzz.run import outcome

TRIED = """INFO: seed corpus: files: 5
#6\tINITED cov: 110 ft: 130 corp: 5/1Kb exec/s: 0 rss: 90Mb
#4096\tpulse  cov: 117 ft: 201 corp: 19/3Kb exec/s: 2048 rss: 92Mb
#9123\tDONE   cov: 121 ft: 214 corp: 21/4Kb exec/s: 1500 rss: 93Mb
"""
BROKEN = """ === Uncaught Python exception: ===
ValueError: no number
Test unit written to findings/npu-smi-info-crash-1
"""


def test_inputs_that_break_nothing_are_counted() -> None:
    run = outcome("npu-smi-info", 0, TRIED)
    assert (run.failed, run.inputs, run.branches, run.finding, run.said) == (False, 9123, 121, None, "")


def test_an_input_that_breaks_is_kept_and_told() -> None:
    run = outcome("npu-smi-info", 77, TRIED + BROKEN)
    assert run.failed
    assert str(run.finding) == "findings/npu-smi-info-crash-1"
    assert run.said.splitlines()[0] == "ValueError: no number"


@pytest.mark.parametrize(
    "printed", ["", "INFO: seed corpus: files: 5\nsome complaint\n", "#0\tREAD   cov: 0"]
)
def test_a_run_that_tried_nothing_has_not_passed(printed: str) -> None:
    run = outcome("npu-smi-info", 0, printed)
    assert (run.failed, run.inputs) == (True, 0)
    assert ("some complaint" in run.said) == ("some complaint" in printed)
