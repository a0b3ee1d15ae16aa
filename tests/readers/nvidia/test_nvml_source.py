"""The NVML source over a library and a driver that change under it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accelscope.readers.contract import DriverAbsent, Paths, ReaderOptions
from accelscope.readers.nvidia.nvml import NvmlSource
from accelscope.readers.nvidia.nvml_binding import (
    FUNCTION_NOT_FOUND,
    NO_PERMISSION,
    NOT_SUPPORTED,
    load_binding,
    unload,
)
from accelscope.readers.nvidia.nvml_device import NvmlDevice
from accelscope.readers.nvidia.reader import NvidiaReader
from accelscope.simulate import SimulatedNode, load_node, read_node
from accelscope.simulate.faults import Fault, FaultKind

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


def paths_of(node: SimulatedNode) -> Paths:
    settings = node.agent_settings()
    return Paths(
        proc=Path(settings["proc_root"]),
        sys=Path(settings["sys_root"]),
        nvml_library=settings["nvml_library"],
        nvidia_smi=settings["nvidia_smi_path"],
    )


def mapped(name: str) -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.partition("/")[2] for line in lines if name in line})


def test_a_replaced_library_is_loaded_anew(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    source = NvmlSource(paths_of(node))
    assert len(source.survey().keys) == 4
    library = Path(paths_of(node).nvml_library)
    shutil.copy(library, tmp_path / "new")
    (tmp_path / "new").replace(library)
    assert len(source.survey().keys) == 4
    assert not [path for path in mapped(str(tmp_path)) if "deleted" in path]
    source.close()
    assert mapped(str(tmp_path)) == []


def test_a_removed_library_is_noticed(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    source = NvmlSource(paths_of(node))
    source.survey()
    Path(paths_of(node).nvml_library).unlink()
    with pytest.raises(DriverAbsent):
        source.survey()


def test_instances_come_and_go_without_a_restart(tmp_path: Path) -> None:
    cut = SimulatedNode(read_node(MIG), tmp_path / "node")
    cut.build()
    source = NvmlSource(paths_of(cut))
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


def test_keys_are_other_ones_when_the_enumeration_changes(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    source = NvmlSource(paths_of(node))
    before = source.survey()
    node.set_faults([Fault(kind=FaultKind.VANISHED, device=0)])
    node.write(1.0)
    after = source.survey()
    assert not set(before.keys) & set(after.keys)
    assert before.expected == 4
    source.close()


def test_a_node_with_the_software_but_neither_driver_nor_card_has_no_driver(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    node.set_faults([Fault(kind=FaultKind.DRIVER_NOT_LOADED)])
    node.write(1.0)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    paths = paths_of(node)
    empty = Paths(
        proc=paths.proc, sys=tmp_path / "sys", nvml_library=paths.nvml_library, nvidia_smi=paths.nvidia_smi
    )
    reader = NvidiaReader(ReaderOptions(empty))
    with pytest.raises(DriverAbsent):
        reader.survey()


def test_of_a_driver_that_does_not_tell_reserved_memory_only_that_is_absent(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    binding = load_binding(paths_of(node).nvml_library)
    newer = binding.nvmlDeviceGetMemoryInfo

    def before_510(handle: Any, version: int | None = None) -> Any:
        if version is not None:
            raise binding.NVMLError(FUNCTION_NOT_FOUND)
        return newer(handle)

    binding.nvmlDeviceGetMemoryInfo = before_510
    binding.nvmlInit()
    device = NvmlDevice(binding, 0, None, paths_of(node).sys).read(1.0, ()).device
    assert device.memory_total_bytes is not None
    assert [absence.field for absence in device.absent if absence.field.startswith("memory")] == [
        "memory_reserved_bytes"
    ]
    binding.nvmlShutdown()
    unload(binding)


def error(binding: Any, code: int) -> Callable[..., Any]:
    """A function of NVML that answers so whatever it is asked."""

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
    ("answers", "state", "reason"),
    [
        (dict.fromkeys(VITAL, UNKNOWN), "critical", "the driver answers 4 of 4 questions with an error"),
        (
            dict.fromkeys(VITAL, NOT_SUPPORTED) | {"nvmlDeviceGetPowerUsage": UNKNOWN},
            "critical",
            "the driver answers 1 of 4 questions with an error",
        ),
        (dict.fromkeys(VITAL - {"nvmlDeviceGetTemperature"}, UNKNOWN), "ok", None),
        (dict.fromkeys(VITAL, NOT_SUPPORTED), "ok", None),
        (dict.fromkeys(VITAL, NO_PERMISSION), "ok", None),
    ],
)
def test_a_gpu_whose_driver_fails_at_all_that_matters_is_critical(
    tmp_path: Path, answers: dict[str, int], state: str, reason: str | None
) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    binding = load_binding(paths_of(node).nvml_library)
    for function, code in answers.items():
        setattr(binding, function, error(binding, code))
    binding.nvmlInit()
    health = NvmlDevice(binding, 0, None, paths_of(node).sys).read(1.0, ()).device.health
    assert (health.state, health.reason) == (state, reason)
    binding.nvmlShutdown()
    unload(binding)


def test_a_gpu_of_which_nothing_at_all_can_be_read_is_critical(tmp_path: Path) -> None:
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    binding = load_binding(paths_of(node).nvml_library)
    for function in dir(binding):
        if function.startswith(("nvmlDevice", "nvmlGpm")) and function != "nvmlDeviceGetHandleByIndex":
            setattr(binding, function, error(binding, UNKNOWN))
    binding.nvmlInit()
    device = NvmlDevice(binding, 0, None, paths_of(node).sys).read(1.0, ()).device
    assert (device.health.state, device.health.vendor_word) == ("critical", "Unknown Error")
    binding.nvmlShutdown()
    unload(binding)


@pytest.mark.parametrize(("told", "expected"), [("7\n", 7), ("-1\n", None)])
def test_the_numa_node_is_the_one_that_the_kernel_says_the_gpu_is_attached_to(
    tmp_path: Path, told: str, expected: int | None
) -> None:
    """NVML's number is that of the memory of a GPU that is a NUMA node itself, as in a Grace Hopper."""
    node = SimulatedNode(load_node("nvidia-mixed"), tmp_path / "node")
    node.build()
    for file in paths_of(node).sys.glob("bus/pci/devices/*/numa_node"):
        file.write_text(told)
    source = NvmlSource(paths_of(node))
    assert {source.read(key).device.numa_node for key in source.survey().keys} == {expected}
    source.close()
