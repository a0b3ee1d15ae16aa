"""The NVML source with libraries and drivers that change or fail."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accelscope.model import AbsenceReason
from accelscope.simulate import SimulatedNode, load_node, read_node
from accelscope.simulate.faults import Fault, FaultKind
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, Paths, ReaderError, ReaderOptions
from accelscope.vendors.nvidia import NVML_LIBRARY
from accelscope.vendors.nvidia.nvml_device import NvmlDevice
from accelscope.vendors.nvidia.nvml_library import (
    FUNCTION_NOT_FOUND,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    load_binding,
    unload,
)
from accelscope.vendors.nvidia.reader import NvidiaReader, NvmlSource

MIG = """
node: changing
seed: 7
nvidia:
  driver_version: "590.48.01"
  devices:
    - {model: h100-80gb, mig: [3g.40gb, 3g.40gb]}
"""
UNKNOWN = 999  # NVML_ERROR_UNKNOWN
WHOLE = MIG.replace(", mig: [3g.40gb, 3g.40gb]", "")


def options_of(node: SimulatedNode) -> ReaderOptions:
    settings = node.agent_settings()
    return ReaderOptions(Paths(proc=Path(settings["proc_root"]), sys=Path(settings["sys_root"])), settings)


def mapped(name: str) -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.partition("/")[2] for line in lines if name in line})


def test_a_replaced_library_is_reloaded(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    source = NvmlSource(options_of(node))
    assert len(source.survey().keys) == 4
    library = Path(options_of(node).value(NVML_LIBRARY))
    shutil.copy(library, tmp_path / "new")
    (tmp_path / "new").replace(library)
    assert len(source.survey().keys) == 4
    assert not [path for path in mapped(str(tmp_path)) if "deleted" in path]
    source.close()
    assert mapped(str(tmp_path)) == []


def test_a_removed_library_means_that_the_driver_is_absent(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    source = NvmlSource(options_of(node))
    source.survey()
    Path(options_of(node).value(NVML_LIBRARY)).unlink()
    with pytest.raises(DriverAbsent):
        source.survey()


def test_mig_can_be_switched_off_while_the_agent_runs(tmp_path: Path) -> None:
    cut = SimulatedNode(read_node(MIG), tmp_path / "node")
    cut.build()
    source = NvmlSource(options_of(cut))
    [key] = source.survey().keys
    device = source.read(key).device
    assert device.mig_enabled
    assert len(device.partitions) == 2
    assert device.utilization_ratio is None

    whole = SimulatedNode(read_node(WHOLE), tmp_path / "node")
    whole.build()
    [key] = source.survey().keys
    device = source.read(key).device
    assert not device.mig_enabled
    assert device.partitions == ()
    assert device.utilization_ratio is not None
    source.close()


def test_all_keys_change_when_the_enumeration_changes(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    source = NvmlSource(options_of(node))
    before = source.survey()
    node.set_faults([Fault(kind=FaultKind.VANISHED, device=0)])
    node.write(1.0)
    after = source.survey()
    assert not set(before.keys) & set(after.keys)
    assert before.expected == 4
    source.close()


def test_a_library_without_driver_and_gpu_means_that_the_driver_is_absent(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    node.set_faults([Fault(kind=FaultKind.DRIVER_NOT_LOADED)])
    node.write(1.0)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    options = options_of(node)
    reader = NvidiaReader(replace(options, paths=replace(options.paths, sys=tmp_path / "sys")))
    with pytest.raises(DriverAbsent):
        reader.survey()


def test_a_driver_without_reserved_memory_lacks_only_that_value(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    binding = load_binding(options_of(node).value(NVML_LIBRARY))
    newer = binding.nvmlDeviceGetMemoryInfo

    def before_510(handle: Any, version: int | None = None) -> Any:
        if version is not None:
            raise binding.NVMLError(FUNCTION_NOT_FOUND)
        return newer(handle)

    binding.nvmlDeviceGetMemoryInfo = before_510
    binding.nvmlInit()
    device = NvmlDevice(binding, 0, None, options_of(node).paths.sys).read(1.0, ()).device
    assert device.memory_total_bytes is not None
    assert [absence.field for absence in device.absent if absence.field.startswith("memory")] == [
        "memory_reserved_bytes"
    ]
    binding.nvmlShutdown()
    unload(binding)


def error(binding: Any, code: int) -> Callable[..., Any]:
    """An NVML function that always fails with this code."""

    def raised(*_: Any) -> Any:
        raise binding.NVMLError(code)

    return raised


VITAL = {
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetMemoryInfo",
}


@pytest.mark.parametrize(
    ("codes", "state", "reason"),
    [
        (dict.fromkeys(VITAL, UNKNOWN), "critical", "the driver returned an error for 4 of 4 values"),
        (
            dict.fromkeys(VITAL, NOT_SUPPORTED) | {"nvmlDeviceGetPowerUsage": UNKNOWN},
            "critical",
            "the driver returned an error for 1 of 4 values",
        ),
        (dict.fromkeys(VITAL - {"nvmlDeviceGetTemperature"}, UNKNOWN), "ok", None),
        (dict.fromkeys(VITAL, NOT_SUPPORTED), "ok", None),
        (dict.fromkeys(VITAL, NO_PERMISSION), "ok", None),
    ],
)
def test_a_gpu_without_any_vital_value_is_critical_if_the_driver_fails(
    tmp_path: Path, codes: dict[str, int], state: str, reason: str | None
) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    binding = load_binding(options_of(node).value(NVML_LIBRARY))
    for function, code in codes.items():
        setattr(binding, function, error(binding, code))
    binding.nvmlInit()
    health = NvmlDevice(binding, 0, None, options_of(node).paths.sys).read(1.0, ()).device.health
    assert (health.state, health.reason) == (state, reason)
    binding.nvmlShutdown()
    unload(binding)


Gpu = tuple[Any, Callable[[], NvmlDevice]]  # the binding, and a function that opens the GPU


@pytest.fixture
def h100(tmp_path: Path) -> Iterator[Gpu]:
    node = SimulatedNode(read_node(WHOLE), tmp_path / "node")
    node.build()
    binding = load_binding(options_of(node).value(NVML_LIBRARY))
    binding.nvmlInit()
    yield binding, lambda: NvmlDevice(binding, 0, "590", options_of(node).paths.sys)
    binding.nvmlShutdown()
    unload(binding)


def fail_all_calls(binding: Any, patch: pytest.MonkeyPatch) -> None:
    for function in dir(binding):
        if function.startswith(("nvmlDevice", "nvmlGpm")) and function != "nvmlDeviceGetHandleByIndex":
            patch.setattr(binding, function, error(binding, UNKNOWN))


def test_a_gpu_whose_every_call_fails_is_critical(h100: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    binding, open_gpu = h100
    gpu = open_gpu()
    well = gpu.read(1.0, ()).device
    fail_all_calls(binding, monkeypatch)
    device = gpu.read(2.0, ()).device
    assert (device.health.state, device.health.vendor_word) == ("critical", "Unknown Error")
    assert (device.id, device.model, device.serial) == (well.id, well.model, well.serial)


def test_a_gpu_that_fails_from_the_start_gets_no_temporary_id(
    h100: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    binding, open_gpu = h100
    with monkeypatch.context() as patch:
        fail_all_calls(binding, patch)
        with pytest.raises(ReaderError, match="GPU 0: cannot read uuid") as raised:
            open_gpu()
        assert raised.value.reason == "driver_error"
    assert open_gpu().id.startswith("nvidia:GPU-")


@pytest.mark.parametrize("code", [NOT_SUPPORTED, FUNCTION_NOT_FOUND])
def test_a_gpu_without_uuid_is_identified_by_its_address(
    h100: Gpu, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    binding, open_gpu = h100
    for function in ("nvmlDeviceGetUUID", "nvmlDeviceGetSerial"):
        monkeypatch.setattr(binding, function, error(binding, code))
    device = open_gpu().read(1.0, ()).device
    assert device.id == f"nvidia:{device.pci_address}"


def test_constant_values_are_read_until_a_call_succeeds(h100: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    binding, open_gpu = h100
    known = {
        "nvmlDeviceGetName": "model",
        "nvmlDeviceGetPowerManagementDefaultLimit": "power_limit_default_watts",
        "nvmlDeviceGetNvLinkState": "links",
        "nvmlGpmQueryDeviceSupport": "activity",
    }
    with monkeypatch.context() as patch:
        for function in known:
            patch.setattr(binding, function, error(binding, UNKNOWN))
        gpu = open_gpu()
        failing = gpu.read(1.0, ()).device
    assert set(known.values()) <= {a.field for a in failing.absent if a.reason is AbsenceReason.DRIVER_ERROR}
    assert (failing.model, failing.power_limit_default_watts, failing.links) == (None, None, ())
    gpu.read(2.0, ())
    well = gpu.read(3.0, ()).device
    assert (well.model, well.power_limit_default_watts) == ("NVIDIA H100 80GB HBM3", 700.0)
    assert len(well.links) == 18
    assert well.sm_active_ratio is not None
    assert not set(known.values()) & {a.field for a in well.absent}


def test_ecc_counts_of_blocks_are_read_again_when_their_total_changes(
    h100: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    binding, open_gpu = h100
    errors = 5
    asked: list[int] = []

    def in_block(handle: Any, severity: int, span: int, block: int) -> int:
        asked.append(block)
        return errors

    monkeypatch.setattr(binding, "nvmlDeviceGetTotalEccErrors", lambda *_: errors)
    monkeypatch.setattr(binding, "nvmlDeviceGetMemoryErrorCounter", in_block)
    gpu = open_gpu()
    first = gpu.read(1.0, ()).device.ecc
    calls = len(asked)
    assert {count.count for count in first if count.block is not None} == {5}
    assert gpu.read(2.0, ()).device.ecc == first
    assert len(asked) == calls
    errors = 6
    later = gpu.read(3.0, ()).device.ecc
    assert {count.count for count in later} == {6}
    assert len(later) == len(first)


def test_unsupported_values_are_listed_in_every_reading(h100: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    binding, open_gpu = h100
    functions = {"nvmlDeviceGetSerial": "serial", "nvmlDeviceGetVbiosVersion": "firmware_version"}
    for function in functions:
        monkeypatch.setattr(binding, function, error(binding, NOT_SUPPORTED))
    gpu = open_gpu()
    for at in (1.0, 2.0, 3.0):
        absent = [a for a in gpu.read(at, ()).device.absent if a.field in functions.values()]
        assert sorted(a.field for a in absent) == sorted(functions.values())
        assert {a.reason for a in absent} == {AbsenceReason.NOT_SUPPORTED}


def test_pcie_rates_come_from_nvml_if_gpm_is_not_available(
    h100: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    binding, open_gpu = h100
    first = open_gpu().read(1.0, ()).device
    assert first.pcie is not None
    assert first.pcie.transmit_bytes_per_second is None  # GPM has one sample only
    waiting = {a.field for a in first.absent if a.reason is AbsenceReason.NO_SAMPLE}
    assert {"pcie.transmit_bytes_per_second", "pcie.receive_bytes_per_second"} <= waiting
    monkeypatch.setattr(binding, "nvmlGpmSampleGet", error(binding, NO_PERMISSION))
    refused = open_gpu().read(1.0, ()).device
    assert refused.pcie is not None
    assert refused.pcie.transmit_bytes_per_second is not None
    assert refused.pcie.receive_bytes_per_second is not None


def test_a_gpu_in_mig_mode_has_pcie_rates(tmp_path: Path) -> None:
    cut = SimulatedNode(read_node(MIG), tmp_path / "node")
    cut.build()
    source = NvmlSource(options_of(cut))
    [key] = source.survey().keys
    pcie = source.read(key).device.pcie
    assert pcie is not None
    assert pcie.transmit_bytes_per_second is not None
    assert pcie.receive_bytes_per_second is not None
    source.close()


@pytest.mark.parametrize(
    ("kind", "watched", "reason", "text"),
    [
        (FaultKind.LOST, True, "lost", "GPU lost (XID 79)"),
        (FaultKind.LOST, False, "lost", "GPU lost"),
        (FaultKind.RESET_REQUIRED, True, "reset_required", "GPU requires a reset"),
    ],
)
def test_the_error_of_a_lost_gpu_contains_xid_79_if_it_was_reported(
    tmp_path: Path, kind: FaultKind, watched: bool, reason: str, text: str
) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    source = NvmlSource(options_of(node))
    first, *_ = source.survey().keys
    if watched:
        source.read(first)
    node.set_faults([Fault(kind=kind, device=0)])
    node.write(1.0)
    for _ in range(2):  # the device is reopened at the second reading
        source.survey()
        with pytest.raises(DeviceLost) as raised:
            source.read(first)
        assert (raised.value.reason, str(raised.value)) == (reason, text)
    source.close()


def test_xids_of_other_gpus_are_counted_after_a_gpu_is_lost(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    source = NvmlSource(options_of(node))
    first, second, *_ = source.survey().keys
    for key in (first, second):
        source.read(key)
    lost = Fault(kind=FaultKind.LOST, device=0)
    node.set_faults([lost])
    node.write(1.0)
    source.survey()
    with pytest.raises(DeviceLost):
        source.read(first)
    source.read(second)
    node.set_faults([lost, Fault(kind=FaultKind.XID, device=1, code=48)])
    node.write(2.0)
    source.survey()
    assert [(e.code, e.count) for e in source.read(second).device.errors] == [("48", 1)]
    source.close()


@pytest.mark.parametrize(("content", "expected"), [("7\n", 7), ("-1\n", None)])
def test_the_numa_node_comes_from_sysfs(tmp_path: Path, content: str, expected: int | None) -> None:
    """NVML returns the node that a GPU itself forms, as in a Grace Hopper."""
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    for file in options_of(node).paths.sys.glob("bus/pci/devices/*/numa_node"):
        file.write_text(content)
    source = NvmlSource(options_of(node))
    assert {source.read(key).device.numa_node for key in source.survey().keys} == {expected}
    source.close()


def test_temperature_limits_come_from_margins_if_a_card_has_no_thresholds(tmp_path: Path) -> None:
    """As on Ada and later cards, where the thresholds in degrees are deprecated."""
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    binding = load_binding(options_of(node).value(NVML_LIBRARY))
    binding.nvmlInit()

    def limits(index: int) -> tuple[float | None, float | None]:
        device = NvmlDevice(binding, index, None, options_of(node).paths.sys).read(1.0, ()).device
        absent = {absence.field for absence in device.absent}
        missing = {"temperature_slowdown_celsius", "temperature_shutdown_celsius"} & absent
        values = (device.temperature_slowdown_celsius, device.temperature_shutdown_celsius)
        assert bool(missing) == (None in values)
        assert "temperature_margin" not in absent
        return values

    models = [binding.nvmlDeviceGetName(binding.nvmlDeviceGetHandleByIndex(index)) for index in range(4)]
    in_degrees = [limits(index) for index in range(4)]

    def removed(*_: Any) -> int:
        raise binding.NVMLError(NOT_SUPPORTED)

    binding.nvmlDeviceGetTemperatureThreshold = removed
    by_margin = [limits(index) for index in range(4)]
    for model, before, after in zip(models, in_degrees, by_margin, strict=True):
        assert after == (before if model in ("NVIDIA H100 80GB HBM3", "NVIDIA L4") else (None, None))
    assert any(None not in pair for pair in by_margin)
    assert any(None in pair for pair in by_margin)
    binding.nvmlShutdown()
    unload(binding)


def test_pcie_throughput_is_converted_from_units_of_1000_bytes(tmp_path: Path) -> None:
    node = SimulatedNode(read_node(WHOLE.replace("h100-80gb", "a100-40gb")), tmp_path / "node")
    node.build()
    binding = load_binding(options_of(node).value(NVML_LIBRARY))
    binding.nvmlInit()
    binding.nvmlDeviceGetPcieThroughput = lambda _handle, counter: 4000 + counter
    pcie = NvmlDevice(binding, 0, None, options_of(node).paths.sys).read(1.0, ()).device.pcie
    assert pcie is not None
    assert (pcie.transmit_bytes_per_second, pcie.receive_bytes_per_second) == (4_000_000, 4_001_000)
    binding.nvmlShutdown()
    unload(binding)


@pytest.mark.parametrize(
    ("code", "reasons"),
    [
        (NOT_FOUND, set()),
        (NO_PERMISSION, {AbsenceReason.NO_PERMISSION}),
        (UNKNOWN, {AbsenceReason.DRIVER_ERROR}),
    ],
)
def test_a_mig_slot_that_fails_is_absent_but_an_empty_slot_is_not(
    tmp_path: Path, code: int, reasons: set[AbsenceReason]
) -> None:
    node = SimulatedNode(read_node(MIG), tmp_path / "node")
    node.build()
    binding = load_binding(options_of(node).value(NVML_LIBRARY))
    binding.nvmlInit()
    binding.nvmlDeviceGetMigDeviceHandleByIndex = error(binding, code)
    device = NvmlDevice(binding, 0, None, options_of(node).paths.sys).read(1.0, ()).device
    assert device.partitions == ()
    assert {absence.reason for absence in device.absent if absence.field.startswith("partitions")} == reasons
    binding.nvmlShutdown()
    unload(binding)
