"""The simulated library with faults of the library, the driver or one device."""

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pynvml
import pytest

from accelscope.simulate import Fault, FaultKind, SimulatedNode
from accelscope.vendors.nvidia.simulated.driver import NvidiaDriver

MakeNode = Callable[..., SimulatedNode]
OpenNvml = Callable[[SimulatedNode], AbstractContextManager[Any]]
LONG = 60.0  # seconds after which a call counts as hung
SHORT = 0.15  # seconds in which a call returns unless it hangs

NODE = """
nvidia: {devices: [{model: h100-80gb, count: 8}]}
processes: [{name: p, device: 3, count: 4, load: {level: 0.2}}, {name: q, device: 0, load: {shape: wave}}]
"""


class Background:
    """A call in a thread, with its result."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.result: Any = None
        self._done = threading.Event()

        def work() -> None:
            try:
                self.result = call(*arguments)
            except pynvml.NVMLError as error:
                self.result = error
            self._done.set()

        threading.Thread(target=work, daemon=True).start()

    def blocked(self) -> bool:
        return not self._done.wait(SHORT)

    def finished(self) -> Any:
        assert self._done.wait(LONG)
        return self.result


def device_fault(kind: FaultKind, device: int) -> list[Fault]:
    return [Fault(kind=kind, device=device)]


@pytest.fixture
def node(make_node: MakeNode) -> Iterable[SimulatedNode]:
    made = make_node(NODE)
    yield made
    made.set_faults([])  # releases threads that a failed test left blocked


def test_a_hung_device_blocks_only_its_own_calls(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    with open_nvml(node) as nvml:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(8)]
        nvml.nvmlDeviceGetUUID(handles[3])
        node.set_faults(device_fault(FaultKind.HANG, 3))
        power = Background(nvml.nvmlDeviceGetPowerUsage, handles[3])
        processes = Background(nvml.nvmlDeviceGetComputeRunningProcesses, handles[3])
        assert power.blocked()
        assert processes.blocked()
        assert (
            nvml.nvmlDeviceGetPowerUsage(handles[4])
            == node.readings(NvidiaDriver)[4].power_average_milliwatts
        )
        assert nvml.nvmlDeviceGetCount() == 8
        # The library caches identities, like the real one.
        assert (
            nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(3))
            == node.readings(NvidiaDriver)[3].gpu.uuid
        )
        node.set_faults([])
        assert power.finished() == node.readings(NvidiaDriver)[3].power_average_milliwatts
        assert len(processes.finished()) == 4


def test_the_first_read_of_an_identity_hangs(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    node.set_faults(device_fault(FaultKind.HANG, 3))
    with open_nvml(node) as nvml:
        name = Background(nvml.nvmlDeviceGetName, nvml.nvmlDeviceGetHandleByIndex(3))
        assert name.blocked()
        node.set_faults([])
        assert name.finished() == "NVIDIA H100 80GB HBM3"


def test_a_hung_library_blocks_every_call(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    with open_nvml(node) as nvml:
        node.set_faults([Fault(kind=FaultKind.LIBRARY_HANG)])
        calls = [Background(nvml.nvmlDeviceGetCount), Background(nvml.nvmlInit)]
        assert all(call.blocked() for call in calls)
        node.set_faults([])
        assert [call.finished() for call in calls] == [8, None]
        nvml.nvmlShutdown()


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (FaultKind.LOST, pynvml.NVMLError_GpuIsLost),
        (FaultKind.RESET_REQUIRED, pynvml.NVMLError_ResetRequired),
    ],
)
def test_a_failed_device_returns_its_error_and_recovers(
    node: SimulatedNode, open_nvml: OpenNvml, kind: FaultKind, error: type[Exception]
) -> None:
    with open_nvml(node) as nvml:
        handle, neighbour = (nvml.nvmlDeviceGetHandleByIndex(index) for index in (5, 6))
        node.set_faults(device_fault(kind, 5))
        for call in (nvml.nvmlDeviceGetPowerUsage, nvml.nvmlDeviceGetUUID, nvml.nvmlDeviceGetMemoryInfo):
            with pytest.raises(error):
                call(handle)
        assert nvml.nvmlDeviceGetCount() == 8
        assert nvml.nvmlDeviceGetPowerUsage(neighbour) > 0
        node.set_faults([])
        assert nvml.nvmlDeviceGetPowerUsage(handle) > 0


def test_a_lost_device_has_no_handle(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    with open_nvml(node) as nvml:
        uuid = node.readings(NvidiaDriver)[5].gpu.uuid
        node.set_faults(device_fault(FaultKind.LOST, 5))
        for call, argument in ((nvml.nvmlDeviceGetHandleByIndex, 5), (nvml.nvmlDeviceGetHandleByUUID, uuid)):
            with pytest.raises(pynvml.NVMLError_GpuIsLost):
                call(argument)


def test_a_loss_is_reported_to_a_waiting_event_set(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    with open_nvml(node) as nvml:
        handle = nvml.nvmlDeviceGetHandleByIndex(5)
        events = nvml.nvmlEventSetCreate()
        nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        waiting = Background(nvml.nvmlEventSetWait_v2, events, 60_000)
        assert waiting.blocked()
        node.set_faults(device_fault(FaultKind.LOST, 5))
        assert waiting.finished().eventData == 79
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            nvml.nvmlEventSetWait_v2(events, 0)
        with pytest.raises(pynvml.NVMLError_Timeout):
            nvml.nvmlEventSetWait_v2(events, 0)
        nvml.nvmlEventSetFree(events)


def test_a_vanished_device_is_not_enumerated(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    uuids = [gpu.gpu.uuid for gpu in node.readings(NvidiaDriver)]
    with open_nvml(node) as nvml:
        old = nvml.nvmlDeviceGetHandleByIndex(2)
        node.set_faults(device_fault(FaultKind.VANISHED, 2))
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        assert [nvml.nvmlDeviceGetUUID(handle) for handle in handles] == uuids[:2] + uuids[3:]
        assert [nvml.nvmlDeviceGetIndex(handle) for handle in handles] == list(range(7))
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            nvml.nvmlDeviceGetPowerUsage(old)
        assert not (node.folder / "dev" / "nvidia2").exists()
        node.set_faults([])
        assert nvml.nvmlDeviceGetCount() == 8


def test_a_hot_device_is_throttled(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    with open_nvml(node) as nvml:
        handle = nvml.nvmlDeviceGetHandleByIndex(3)
        clock = nvml.nvmlDeviceGetClockInfo(handle, 1)
        node.set_faults(device_fault(FaultKind.HOT, 3))
        assert nvml.nvmlDeviceGetTemperature(handle, 0) > nvml.nvmlDeviceGetTemperatureThreshold(handle, 1)
        reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
        assert reasons & nvml.nvmlClocksEventReasonHwThermalSlowdown
        assert nvml.nvmlDeviceGetClockInfo(handle, 1) < clock
        node.write(70.0)
        violation = nvml.nvmlDeviceGetViolationStatus(handle, nvml.NVML_PERF_POLICY_THERMAL)
        assert violation.violationTime == 10 * 10**9


def test_calls_fail_if_the_driver_is_not_loaded(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    with open_nvml(node) as nvml:
        node.set_faults([Fault(kind=FaultKind.DRIVER_NOT_LOADED)])
        for call in (nvml.nvmlInit, nvml.nvmlDeviceGetCount):
            with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
                call()
        assert not (node.folder / "sys" / "module" / "nvidia").exists()
        node.set_faults([])
        assert nvml.nvmlDeviceGetCount() == 8


def test_a_version_mismatch_affects_only_new_processes(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    with open_nvml(node) as nvml:
        node.set_faults([Fault(kind=FaultKind.VERSION_MISMATCH)])
        with pytest.raises(pynvml.NVMLError_LibRmVersionMismatch):
            nvml.nvmlInit()
        assert nvml.nvmlDeviceGetCount() == 8


def test_the_library_can_be_removed_and_restored(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    library = Path(node.agent_settings()["nvml_library"])
    node.set_faults([Fault(kind=FaultKind.LIBRARY_MISSING)])
    assert not library.exists()
    node.set_faults([])
    with open_nvml(node) as nvml:
        assert nvml.nvmlDeviceGetCount() == 8


def test_calls_see_each_new_state_whole_while_it_changes(node: SimulatedNode, open_nvml: OpenNvml) -> None:
    stop = threading.Event()
    mover = threading.Thread(target=node.run, args=(stop, 0.005), daemon=True)
    with open_nvml(node) as nvml:
        mover.start()
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(0)
            for _ in range(3000):
                memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
                assert memory.used + memory.free + memory.reserved == memory.total
                assert len(nvml.nvmlDeviceGetComputeRunningProcesses(handle)) == 1
        finally:
            stop.set()
            mover.join(LONG)
