"""The official binding reads the values of the node from the simulated library."""

import ctypes
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pynvml
import pytest

from accelscope.simulate import Fault, FaultKind, SimulatedNode, ready_made
from accelscope.simulate.spec import ProcessType
from accelscope.vendors.nvidia.simulated.driver import NvidiaDriver
from accelscope.vendors.nvidia.simulated.gpu import GpuReading, ProcessReading
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

MakeNode = Callable[..., SimulatedNode]
OpenNvml = Callable[[SimulatedNode], AbstractContextManager[Any]]
ABSENT = "Not Supported"


def value(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call, or ABSENT."""
    try:
        return call(*arguments)
    except pynvml.NVMLError_NotSupported:
        return ABSENT


def field_value(nvml: Any, handle: Any, field: int, scope: int = 0) -> Any:
    [answer] = nvml.nvmlDeviceGetFieldValues(handle, [(field, scope)])
    if answer.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED:
        return ABSENT
    assert answer.nvmlReturn == pynvml.NVML_SUCCESS
    names = {1: "uiVal", 3: "ullVal", 5: "siVal"}
    return getattr(answer.value, names[answer.valueType])


def or_absent(wanted: Any) -> Any:
    return ABSENT if wanted is None else wanted


def answering_gpus(node: SimulatedNode) -> list[GpuReading]:
    return [gpu for gpu in node.readings(NvidiaDriver) if gpu.fault is None]


@pytest.mark.parametrize("name", ready_made("nvidia"))
def test_the_library_returns_the_identity(make_node: MakeNode, open_nvml: OpenNvml, name: str) -> None:
    node = make_node(name)
    with open_nvml(node) as nvml:
        assert nvml.nvmlSystemGetDriverVersion() == node.spec.of(NvidiaSpec).driver_version
        major, minor = map(int, node.spec.of(NvidiaSpec).cuda_version.split("."))
        assert nvml.nvmlSystemGetCudaDriverVersion_v2() == 1000 * major + 10 * minor
        assert nvml.nvmlDeviceGetCount() == len(node.readings(NvidiaDriver))
        for gpu in answering_gpus(node):
            handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
            card = gpu.gpu.card
            pci = nvml.nvmlDeviceGetPciInfo(handle)
            assert nvml.nvmlDeviceGetName(handle) == card.name
            assert nvml.nvmlDeviceGetUUID(handle) == gpu.gpu.uuid
            assert re.fullmatch(r"GPU(-[0-9a-f]{4,12}){5}", gpu.gpu.uuid)
            assert value(nvml.nvmlDeviceGetSerial, handle) == or_absent(gpu.gpu.serial)
            assert nvml.nvmlDeviceGetIndex(handle) == gpu.index
            assert nvml.nvmlDeviceGetMinorNumber(handle) == gpu.gpu.slot
            assert nvml.nvmlDeviceGetVbiosVersion(handle) == card.vbios
            assert nvml.nvmlDeviceGetBrand(handle) == card.brand
            assert nvml.nvmlDeviceGetArchitecture(handle) == card.architecture
            assert tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)) == card.compute_capability
            assert (pci.busId, pci.bus, pci.pciDeviceId) == (gpu.gpu.bus_id, gpu.gpu.bus, card.pci_device_id)
            assert pci.busIdLegacy == gpu.gpu.bus_id[4:]
            extended = nvml.nvmlPciInfoExt_v1_t(version=nvml.nvmlPciInfoExt_v1)
            nvml.nvmlDeviceGetPciInfoExt(handle, ctypes.byref(extended))
            assert (extended.baseClass, extended.busId) == (card.pci_class >> 8, gpu.gpu.bus_id)


@pytest.mark.parametrize("name", ready_made("nvidia"))
def test_the_library_returns_the_measurements(make_node: MakeNode, open_nvml: OpenNvml, name: str) -> None:
    node = make_node(name)
    with open_nvml(node) as nvml:
        for gpu in answering_gpus(node):
            handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
            rates = value(nvml.nvmlDeviceGetUtilizationRates, handle)
            engines = [
                value(call, handle)
                for call in (nvml.nvmlDeviceGetEncoderUtilization, nvml.nvmlDeviceGetDecoderUtilization)
            ]
            if gpu.gpu.partitioned:
                assert [rates, *engines] == [ABSENT] * 3
            else:
                assert (rates.gpu, rates.memory) == (gpu.utilization_percent, gpu.memory_utilization_percent)
                assert [engine[0] for engine in engines] == [gpu.encoder_percent, gpu.decoder_percent]
            new = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
            old = nvml.nvmlDeviceGetMemoryInfo(handle)
            assert new.total == gpu.memory_total_bytes == new.used + new.free + new.reserved
            assert (new.used, new.reserved) == (gpu.memory_used_bytes, gpu.memory_reserved_bytes)
            assert (old.total, old.used) == (new.total, new.used + new.reserved)
            assert nvml.nvmlDeviceGetBAR1MemoryInfo(handle).bar1Used == gpu.bar1_used_bytes
            assert nvml.nvmlDeviceGetTemperature(handle, 0) == gpu.temperature_celsius
            assert nvml.nvmlDeviceGetTemperatureV(handle, 0) == gpu.temperature_celsius
            assert field_value(nvml, handle, 82) == or_absent(gpu.memory_temperature_celsius)
            assert nvml.nvmlDeviceGetTemperatureThreshold(handle, 1) == gpu.gpu.card.temperature.slowdown
            assert nvml.nvmlDeviceGetPowerUsage(handle) == gpu.power_average_milliwatts
            assert field_value(nvml, handle, 186) == gpu.power_instant_milliwatts
            limit = int(1000 * gpu.gpu.spec.power_limit_watts)
            assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == limit
            assert nvml.nvmlDeviceGetEnforcedPowerLimit(handle) == limit
            assert nvml.nvmlDeviceGetTotalEnergyConsumption(handle) == gpu.energy_millijoules
            assert field_value(nvml, handle, 83) == gpu.energy_millijoules
            clocks = [nvml.nvmlDeviceGetClockInfo(handle, clock) for clock in range(4)]
            assert clocks == [gpu.sm_clock_mhz, gpu.sm_clock_mhz, gpu.memory_clock_mhz, gpu.video_clock_mhz]
            assert nvml.nvmlDeviceGetMaxClockInfo(handle, 1) == gpu.gpu.card.clocks.max_sm
            assert nvml.nvmlDeviceGetPerformanceState(handle) == gpu.pstate
            assert value(nvml.nvmlDeviceGetFanSpeed, handle) == or_absent(gpu.fan_percent)
            assert value(nvml.nvmlDeviceGetFanSpeedRPM, handle) == or_absent(gpu.fan_rpm)
            assert nvml.nvmlDeviceGetNumFans(handle) == gpu.gpu.card.fans
            assert nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle) == gpu.pcie_generation
            assert nvml.nvmlDeviceGetPcieReplayCounter(handle) == gpu.pcie_replays
            assert nvml.nvmlDeviceGetPcieThroughput(handle, 0) == gpu.pcie_transmit_kb_per_second
            assert nvml.nvmlDeviceGetPcieThroughput(handle, 1) == gpu.pcie_receive_kb_per_second
            assert field_value(nvml, handle, 197) == gpu.pcie_transmit_bytes
            reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            assert (
                reasons == gpu.clock_event_reasons == nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            )


@pytest.mark.parametrize("name", ready_made("nvidia"))
def test_the_library_returns_errors_and_links(make_node: MakeNode, open_nvml: OpenNvml, name: str) -> None:
    node = make_node(name)
    with open_nvml(node) as nvml:
        for gpu in answering_gpus(node):
            handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
            counts = [value(nvml.nvmlDeviceGetTotalEccErrors, handle, e, c) for e in (0, 1) for c in (0, 1)]
            dram = [
                value(nvml.nvmlDeviceGetMemoryErrorCounter, handle, e, c, 2) for e in (0, 1) for c in (0, 1)
            ]
            if gpu.ecc is None:
                assert counts == dram == [ABSENT] * 4
            else:
                ecc = gpu.ecc
                assert counts == dram
                assert counts == [
                    ecc.volatile_corrected,
                    ecc.aggregate_corrected,
                    ecc.volatile_uncorrected,
                    ecc.aggregate_uncorrected,
                ]
            rows = value(nvml.nvmlDeviceGetRemappedRows, handle)
            if gpu.remapping is None:
                assert rows == ABSENT
            else:
                remapping = gpu.remapping
                wanted = (remapping.correctable, remapping.uncorrectable, remapping.pending, remapping.failed)
                assert tuple(rows) == wanted
            retired = value(nvml.nvmlDeviceGetRetiredPages, handle, 1)
            assert retired == ABSENT if gpu.retired_pages is None else len(retired) == gpu.retired_pages[1]
            assert value(nvml.nvmlDeviceGetNvLinkState, handle, 0) == (
                int(gpu.links[0].active) if gpu.links else ABSENT
            )
            for link in gpu.links:
                assert nvml.nvmlDeviceGetNvLinkState(handle, link.link) == int(link.active)
                transmitted = field_value(nvml, handle, 138, link.link)
                assert transmitted == (link.transmit_kib if link.active else ABSENT)
                replays = value(nvml.nvmlDeviceGetNvLinkErrorCounter, handle, link.link, 0)
                assert replays == (link.replays if link.active else ABSENT)
            if any(link.active for link in gpu.links):
                total = field_value(nvml, handle, 138, 0xFFFFFFFF)
                assert total == sum(link.transmit_kib for link in gpu.links)


def as_tuples(processes: list[Any]) -> set[tuple[Any, ...]]:
    return {(p.pid, p.usedGpuMemory, p.gpuInstanceId, p.computeInstanceId) for p in processes}


def expected(processes: list[ProcessReading]) -> set[tuple[Any, ...]]:
    none = 0xFFFFFFFF
    return {
        (
            p.pid,
            p.memory_bytes,
            none if p.gpu_instance_id is None else p.gpu_instance_id,
            none if p.compute_instance_id is None else p.compute_instance_id,
        )
        for p in processes
    }


@pytest.mark.parametrize("name", ready_made("nvidia"))
def test_the_library_returns_the_processes(make_node: MakeNode, open_nvml: OpenNvml, name: str) -> None:
    node = make_node(name)
    with open_nvml(node) as nvml:
        for gpu in answering_gpus(node):
            handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)

            def of(*types: ProcessType, processes: Any = gpu.processes) -> set[tuple[Any, ...]]:
                return expected([p for p in processes if p.placement.type in types])

            compute = of(ProcessType.COMPUTE, ProcessType.BOTH, ProcessType.MPS)
            assert as_tuples(nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)) == compute
            assert as_tuples(nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)) == compute
            graphics = of(ProcessType.GRAPHICS, ProcessType.BOTH)
            assert as_tuples(nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)) == graphics
            assert as_tuples(nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)) == of(ProcessType.MPS)
            for process in gpu.processes:
                assert nvml.nvmlSystemGetProcessName(process.pid) == process.path
            _check_utilization(nvml, handle, gpu, by_process=node.spec.of(NvidiaSpec).process_utilization)


def _check_utilization(nvml: Any, handle: Any, gpu: GpuReading, *, by_process: bool) -> None:
    wanted = {(p.pid, p.sm, p.memory, p.encoder, p.decoder) for p in gpu.processes if p.sm is not None}
    for call, works in (
        (nvml.nvmlDeviceGetProcessUtilization, by_process),
        (nvml.nvmlDeviceGetProcessesUtilizationInfo, True),
    ):
        samples = value(call, handle, 0)
        if gpu.gpu.partitioned or not works:
            assert samples == ABSENT
        else:
            assert {(s.pid, s.smUtil, s.memUtil, s.encUtil, s.decUtil) for s in samples} == wanted
            assert all(abs(s.timeStamp / 1e6 - time.time()) < 60 for s in samples)
            in_an_hour = int(1e6 * (time.time() + 3600))
            with pytest.raises(pynvml.NVMLError_NotFound):
                call(handle, in_an_hour)


def test_the_old_process_list_has_the_old_layout(ready_node: MakeNode, open_nvml: OpenNvml) -> None:
    class ProcessInfoV1(ctypes.Structure):
        _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))

    node = ready_node("nvidia-mixed")
    with open_nvml(node) as nvml:
        handle = nvml.nvmlDeviceGetHandleByIndex(1)
        call = nvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses
        count = ctypes.c_uint(0)
        assert call(handle, ctypes.byref(count), None) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        array = (ProcessInfoV1 * count.value)()
        assert call(handle, ctypes.byref(count), array) == pynvml.NVML_SUCCESS
        wanted = [(p.pid, p.memory_bytes) for p in node.readings(NvidiaDriver)[1].processes]
        assert [(p.pid, p.usedGpuMemory) for p in array] == wanted


def test_the_library_returns_mig_devices(ready_node: MakeNode, open_nvml: OpenNvml) -> None:
    node = ready_node("nvidia-mig")
    with open_nvml(node) as nvml:
        for gpu in node.readings(NvidiaDriver):
            parent = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
            assert nvml.nvmlDeviceGetMigMode(parent) == [int(gpu.gpu.partitioned)] * 2
            assert nvml.nvmlDeviceGetMaxMigDeviceCount(parent) == 7
            assert nvml.nvmlDeviceIsMigDeviceHandle(parent).value == 0
            with pytest.raises(pynvml.NVMLError_NotFound):
                nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 6)
            for mig in gpu.mig:
                part = mig.part
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, part.index)
                memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
                attributes = nvml.nvmlDeviceGetAttributes_v2(handle)
                above = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
                assert nvml.nvmlDeviceIsMigDeviceHandle(handle).value == 1
                assert nvml.nvmlDeviceGetUUID(handle) == mig.uuid
                assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByUUID(mig.uuid)) == mig.uuid
                assert nvml.nvmlDeviceGetName(handle) == mig.name
                assert nvml.nvmlDeviceGetUUID(above) == gpu.gpu.uuid
                assert nvml.nvmlDeviceGetGpuInstanceId(handle) == part.gpu_instance_id
                assert nvml.nvmlDeviceGetComputeInstanceId(handle) == part.compute_instance_id
                assert (memory.total, memory.used) == (mig.memory_total_bytes, mig.memory_used_bytes)
                assert attributes.multiprocessorCount == part.multiprocessors
                assert attributes.gpuInstanceSliceCount == part.profile.slices
                assert attributes.computeInstanceSliceCount == part.compute_slices
                assert value(nvml.nvmlDeviceGetUtilizationRates, handle) == ABSENT
                own = [p for p in gpu.processes if p.placement.instance == part.index]
                assert as_tuples(nvml.nvmlDeviceGetComputeRunningProcesses(handle)) == expected(own)


def test_compute_instances_of_one_gpu_instance_share_its_memory(
    ready_node: MakeNode, open_nvml: OpenNvml
) -> None:
    with open_nvml(ready_node("nvidia-mig")) as nvml:
        parent = nvml.nvmlDeviceGetHandleByIndex(1)
        handles = [nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index) for index in range(3)]
        assert [nvml.nvmlDeviceGetGpuInstanceId(handle) for handle in handles] == [1, 1, 2]
        assert [nvml.nvmlDeviceGetComputeInstanceId(handle) for handle in handles] == [0, 1, 0]
        used = [nvml.nvmlDeviceGetMemoryInfo(handle).used for handle in handles]
        assert used[0] == used[1] != used[2]


def activity(nvml: Any, take: Callable[[Any], None], between: Callable[[], None]) -> dict[int, float]:
    samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
    take(samples[0])
    between()
    take(samples[1])
    request = nvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, 3
    request.sample1, request.sample2 = samples
    for place, metric in enumerate((1, 2, 10)):
        request.metrics[place].metricId = metric
    nvml.nvmlGpmMetricsGet(request)
    for sample in samples:
        nvml.nvmlGpmSampleFree(sample)
    metrics = request.metrics[:3]
    assert [metric.nvmlReturn for metric in metrics] == [0, 0, 0]
    return {metric.metricId: metric.value for metric in metrics}


def test_gpm_returns_the_mean_between_two_samples(make_node: MakeNode, open_nvml: OpenNvml) -> None:
    node = make_node("nvidia-h100x8", at=10)
    with open_nvml(node) as nvml:
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        assert nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 1

        def take(sample: Any) -> None:
            nvml.nvmlGpmSampleGet(handle, sample)

        first = {a.metric: a for a in node.readings(NvidiaDriver)[0].activity}
        still = activity(nvml, take, lambda: None)
        moving = activity(nvml, take, lambda: node.write(30))
        last = {a.metric: a for a in node.readings(NvidiaDriver)[0].activity}
        for metric, shown in still.items():
            assert shown == pytest.approx(first[metric].percent, abs=1e-5)
            mean = (last[metric].integral - first[metric].integral) / 20
            assert moving[metric] == pytest.approx(mean, abs=1e-5)
        assert still[1] != pytest.approx(moving[1], abs=0.1)


def test_gpm_works_for_mig_instances_but_not_on_every_card(ready_node: MakeNode, open_nvml: OpenNvml) -> None:
    node = ready_node("nvidia-mig")
    with open_nvml(node) as nvml:
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        for instance, wanted in node.readings(NvidiaDriver)[0].instance_activity:
            shown = activity(
                nvml,
                lambda sample, gi=instance: nvml.nvmlGpmMigSampleGet(handle, gi, sample),  # type: ignore[misc]
                lambda: None,
            )
            assert shown[1] == pytest.approx(next(a.percent for a in wanted if a.metric == 1), abs=1e-5)
    with open_nvml(ready_node("nvidia-mixed")) as nvml:
        handle = nvml.nvmlDeviceGetHandleByIndex(3)
        assert nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 0
        sample = nvml.nvmlGpmSampleAlloc()
        assert value(nvml.nvmlGpmSampleGet, handle, sample) == ABSENT
        nvml.nvmlGpmSampleFree(sample)


def events(nvml: Any, event_set: Any) -> list[tuple[str, int]]:
    result: list[tuple[str, int]] = []
    while True:
        try:
            event = nvml.nvmlEventSetWait_v2(event_set, 0)
        except pynvml.NVMLError_Timeout:
            return result
        assert event.eventType == nvml.nvmlEventTypeXidCriticalError
        result.append((nvml.nvmlDeviceGetUUID(event.device), event.eventData))


def test_every_xid_is_delivered_once_per_event_set(make_node: MakeNode, open_nvml: OpenNvml) -> None:
    node = make_node("nvidia-sick", at=25)
    with open_nvml(node) as nvml:
        handle = nvml.nvmlDeviceGetHandleByIndex(2)
        uuid = nvml.nvmlDeviceGetUUID(handle)

        def register() -> Any:
            event_set = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, event_set)
            return event_set

        first = register()
        assert events(nvml, first) == [(uuid, 63), (uuid, 94), (uuid, 31)]
        assert events(nvml, first) == []
        node.set_faults([Fault(kind=FaultKind.XID, device=2, code=13)])
        assert events(nvml, first) == [(uuid, 13)]
        node.write(51)  # the storm goes on
        assert events(nvml, first) == [(uuid, 94)]
        second = register()
        assert [code for _, code in events(nvml, second)] == [63, 94, 31, 13, 94]
        for event_set in (first, second):
            nvml.nvmlEventSetFree(event_set)


def test_handles_are_found_by_uuid_address_and_serial(ready_node: MakeNode, open_nvml: OpenNvml) -> None:
    node = ready_node("nvidia-h100x8")
    with open_nvml(node) as nvml:
        for gpu in node.readings(NvidiaDriver):
            address = gpu.gpu.bus_id
            for handle in (
                nvml.nvmlDeviceGetHandleByUUID(gpu.gpu.uuid),
                nvml.nvmlDeviceGetHandleBySerial(gpu.gpu.serial),
                nvml.nvmlDeviceGetHandleByPciBusId(address),
                nvml.nvmlDeviceGetHandleByPciBusId(address[4:].lower()),
            ):
                assert nvml.nvmlDeviceGetIndex(handle) == gpu.index
        for call, unknown in (
            (nvml.nvmlDeviceGetHandleByUUID, "GPU-none"),
            (nvml.nvmlDeviceGetHandleByPciBusId, "0000:ff:1f.0"),
        ):
            with pytest.raises(pynvml.NVMLError_NotFound):
                call(unknown)
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            nvml.nvmlDeviceGetHandleByIndex(8)


def test_the_library_counts_how_often_it_was_opened(ready_node: MakeNode, open_nvml: OpenNvml) -> None:
    with open_nvml(ready_node("nvidia-mig")) as nvml:
        nvml.nvmlInit()
        nvml.nvmlShutdown()
        assert nvml.nvmlDeviceGetCount() == 3
        nvml.nvmlShutdown()
        for call in (nvml.nvmlDeviceGetCount, nvml.nvmlShutdown, nvml.nvmlSystemGetDriverVersion):
            with pytest.raises(pynvml.NVMLError_Uninitialized):
                call()
        nvml.nvmlInit()


def test_wrong_structure_versions_and_arguments_are_rejected(
    ready_node: MakeNode, open_nvml: OpenNvml
) -> None:
    with open_nvml(ready_node("nvidia-mig")) as nvml:
        handle = nvml.nvmlDeviceGetHandleByIndex(2)
        memory = nvml.c_nvmlMemory_v2_t(version=0x03000028)
        answer = nvml.nvmlLib.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(memory))
        assert answer == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        buffer = ctypes.create_string_buffer(4)
        assert nvml.nvmlLib.nvmlDeviceGetName(handle, buffer, 4) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        stranger = ctypes.c_void_p(0x1000)
        assert nvml.nvmlLib.nvmlDeviceGetName(stranger, buffer, 4) == pynvml.NVML_ERROR_INVALID_ARGUMENT
        assert nvml.nvmlErrorString(15) == "GPU is lost"


def test_every_function_of_the_binding_exists(ready_node: MakeNode, open_nvml: OpenNvml) -> None:
    source = Path(pynvml.__file__).read_text(encoding="utf-8")
    names = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', source))
    assert len(names) > 300
    with open_nvml(ready_node("nvidia-mig")) as nvml:
        assert [name for name in sorted(names) if not hasattr(nvml.nvmlLib, name)] == []
        assert value(nvml.nvmlSystemGetConfComputeCapabilities) == ABSENT


def test_one_process_can_open_two_nodes(make_node: MakeNode) -> None:
    counts = []
    for name in ("nvidia-h100x8", "nvidia-mig"):
        library = ctypes.CDLL(make_node(name).agent_settings()["nvml_library"])
        count = ctypes.c_uint()
        assert library.nvmlInit_v2() == 0
        assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        library.nvmlShutdown()
        counts.append(count.value)
    assert counts == [8, 3]


COSTLY = """
nvidia:
  call_cost_us: 2000
  pcie_window_ms: 50
  devices: [{model: t4}]
"""


def test_calls_use_the_configured_cpu_time(make_node: MakeNode, open_nvml: OpenNvml) -> None:
    with open_nvml(make_node(COSTLY)) as nvml:
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        before = time.thread_time()
        for _ in range(10):
            nvml.nvmlDeviceGetPowerUsage(handle)
        assert time.thread_time() - before >= 0.019
        before = time.monotonic()
        nvml.nvmlDeviceGetPcieThroughput(handle, 0)
        assert time.monotonic() - before >= 0.049
