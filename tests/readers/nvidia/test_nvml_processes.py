"""Lists of processes through NVML: the newest form that a driver has, and none where it has none."""

from types import SimpleNamespace
from typing import Any

import pytest

from accelscope.model import Absence, AbsenceReason
from accelscope.readers.nvidia.nvml_ask import Ask
from accelscope.readers.nvidia.nvml_binding import FUNCTION_NOT_FOUND, NO_PERMISSION, NOT_SUPPORTED
from accelscope.readers.nvidia.nvml_processes import NO_INSTANCE, ProcessLister

COMPUTE = "nvmlDeviceGetComputeRunningProcesses"


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class Driver:
    """Stands in for the binding: answers by the name of the function, else a refusal."""

    NVMLError = NVMLError

    def __init__(self, answers: dict[str, list[Any] | int]) -> None:
        self._answers = answers

    def __getattr__(self, function: str) -> Any:
        def call(*_: Any) -> list[Any]:
            answer = self._answers.get(function, NOT_SUPPORTED)
            if isinstance(answer, int):
                raise NVMLError(answer)
            return answer

        return call


def read(answers: dict[str, list[Any] | int]) -> tuple[list[int], set[Absence]]:
    ask = Ask(Driver(answers))
    ask.begin()
    found = ProcessLister(None, None, ask).read("nvidia:GPU-1", 0, {})
    told = {absence for absence in ask.absent() if absence.field.startswith("processes.compute")}
    return [process.pid for process in found], told


def entry(pid: int) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=1, gpuInstanceId=NO_INSTANCE, computeInstanceId=NO_INSTANCE)


def test_an_older_form_of_the_list_is_good_enough() -> None:
    found, absent = read({f"{COMPUTE}_v3": FUNCTION_NOT_FOUND, f"{COMPUTE}_v2": [entry(7)]})
    assert (found, absent) == ([7], set())


@pytest.mark.parametrize(
    ("newer", "older", "reason"),
    [
        (NO_PERMISSION, NO_PERMISSION, AbsenceReason.NO_PERMISSION),
        (FUNCTION_NOT_FOUND, NO_PERMISSION, AbsenceReason.NO_PERMISSION),
        (NO_PERMISSION, FUNCTION_NOT_FOUND, AbsenceReason.NO_PERMISSION),
        (FUNCTION_NOT_FOUND, FUNCTION_NOT_FOUND, AbsenceReason.NOT_KNOWN),
    ],
)
def test_a_list_that_no_form_gives_is_absent(newer: int, older: int, reason: AbsenceReason) -> None:
    """By this name attribution knows that an empty list does not mean that nobody uses the GPU."""
    found, absent = read({f"{COMPUTE}_v3": newer, f"{COMPUTE}_v2": older})
    assert (found, absent) == ([], {Absence("processes.compute", reason)})
