"""Processes through NVML: versions of the list functions, and utilisation per process."""

from types import SimpleNamespace
from typing import Any

import pytest

from accelscope.model import Absence, AbsenceReason
from accelscope.vendors.nvidia.nvml_device import NO_INSTANCE, ProcessLister
from accelscope.vendors.nvidia.nvml_library import (
    FUNCTION_NOT_FOUND,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    NvmlCaller,
)

COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
SAMPLES = "nvmlDeviceGetProcessUtilization"
SAMPLES_INFO = "nvmlDeviceGetProcessesUtilizationInfo"


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class Driver:
    """Replaces the binding: results or error codes by function name, by default NOT_SUPPORTED."""

    NVMLError = NVMLError

    def __init__(self, results: dict[str, list[Any] | int]) -> None:
        self._results = results

    def __getattr__(self, function: str) -> Any:
        def nvml_function(*_: Any) -> list[Any]:
            result = self._results.get(function, NOT_SUPPORTED)
            if isinstance(result, int):
                raise NVMLError(result)
            return result

        return nvml_function


def read(results: dict[str, list[Any] | int]) -> tuple[list[int], set[Absence]]:
    call = NvmlCaller(Driver(results))
    call.begin()
    found = ProcessLister(None, None, call).read("nvidia:GPU-1", 0, {}, mig=False)
    absent = {absence for absence in call.absent() if absence.field.startswith("processes.compute")}
    return [process.pid for process in found], absent


def entry(pid: int) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=1, gpuInstanceId=NO_INSTANCE, computeInstanceId=NO_INSTANCE)


def test_the_older_version_of_a_list_function_is_used_if_the_newer_is_missing() -> None:
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
def test_a_process_list_that_no_version_returns_is_absent(
    newer: int, older: int, reason: AbsenceReason
) -> None:
    """Attribution looks for this absence: without it an empty list means that no process uses the GPU."""
    found, absent = read({f"{COMPUTE}_v3": newer, f"{COMPUTE}_v2": older})
    assert (found, absent) == ([], {Absence("processes.compute", reason)})


def sample(pid: int, sm: int, *, at: int = 1) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, timeStamp=at, smUtil=sm, memUtil=sm, encUtil=0, decUtil=0)


Samples = list[Any] | int


def utilization(
    samples: Samples, info: Samples = NOT_SUPPORTED, *, mig: bool = False
) -> tuple[list[tuple[float | None, ...]], dict[str, AbsenceReason]]:
    """SM, memory, encoder and decoder utilisation of the processes 7 and 8; and the absences."""
    call = NvmlCaller(Driver({f"{COMPUTE}_v3": [entry(7), entry(8)], SAMPLES: samples, SAMPLES_INFO: info}))
    call.begin()
    found = ProcessLister(None, None, call).read("nvidia:GPU-1", 0, {}, mig=mig)
    absent = {a.field: a.reason for a in call.absent() if a.field.startswith("processes.utilization")}
    return [
        (
            process.utilization_ratio,
            process.memory_utilization_ratio,
            process.encoder_utilization_ratio,
            process.decoder_utilization_ratio,
        )
        for process in found
    ], absent


IDLE = (0.0, 0.0, 0.0, 0.0)
UNKNOWN = (None, None, None, None)


def test_a_listed_process_without_a_sample_is_idle() -> None:
    """NVML returns samples only for processes that ran during the period."""
    assert utilization([sample(7, 40)]) == ([(0.4, 0.4, 0.0, 0.0), IDLE], {})


@pytest.mark.parametrize("samples", [NOT_FOUND, []])
def test_no_sample_at_all_means_that_every_process_is_idle(samples: Samples) -> None:
    assert utilization(samples) == ([IDLE, IDLE], {})


def test_the_newer_function_reports_idle_processes_in_the_same_way() -> None:
    assert utilization(NOT_SUPPORTED, NOT_FOUND) == ([IDLE, IDLE], {})
    assert utilization(NOT_SUPPORTED, [sample(8, 20)]) == ([IDLE, (0.2, 0.2, 0.0, 0.0)], {})


def test_samples_of_an_earlier_period_do_not_count() -> None:
    driver: dict[str, list[Any] | int] = {f"{COMPUTE}_v3": [entry(7)], SAMPLES: [sample(7, 40)]}
    call = NvmlCaller(Driver(driver))
    call.begin()
    lister = ProcessLister(None, None, call)
    [first] = lister.read("nvidia:GPU-1", 0, {}, mig=False)
    [second] = lister.read("nvidia:GPU-1", 0, {}, mig=False)
    assert (first.utilization_ratio, second.utilization_ratio) == (0.4, 0.0)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (NOT_SUPPORTED, AbsenceReason.NOT_SUPPORTED),
        (NO_PERMISSION, AbsenceReason.NO_PERMISSION),
    ],
)
def test_utilization_that_the_driver_does_not_measure_is_absent(code: int, reason: AbsenceReason) -> None:
    assert utilization(code, code) == (
        [UNKNOWN, UNKNOWN],
        {"processes.utilization": reason, "processes.utilization_info": reason},
    )


@pytest.mark.parametrize("samples", [NOT_SUPPORTED, NOT_FOUND, []])
def test_with_mig_the_utilization_of_processes_is_absent(samples: Samples) -> None:
    """The driver samples no process of a GPU in MIG mode, whatever it returns."""
    found, absent = utilization(samples, samples, mig=True)
    assert found == [UNKNOWN, UNKNOWN]
    assert set(absent.values()) == {AbsenceReason.NOT_SUPPORTED}


def test_an_impossible_sample_does_not_count_as_idle() -> None:
    assert utilization([sample(7, 4294967295), sample(8, 20)])[0] == [UNKNOWN, (0.2, 0.2, 0.0, 0.0)]
