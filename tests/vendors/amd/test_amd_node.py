"""Simulated AMD nodes: files, tools and processes over time."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from accelscope.simulate import (
    DescriptionError,
    Fault,
    FaultKind,
    SimulatedNode,
    load_node,
    read_node,
    ready_made,
)
from accelscope.vendors.amd.simulated.driver import AmdDriver

NODES = ("amd-mi250", "amd-mi300-cpx", "amd-mi300x8", "amd-radeon")


def build(folder: Path, cache: Path, node: str, at: float = 60.0) -> SimulatedNode:
    simulated = SimulatedNode(
        read_node(node) if "\n" in node else load_node(node), folder / "node", cache=cache
    )
    simulated.build(at)
    return simulated


def say(node: SimulatedNode, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    place = node.agent_settings()[f"{tool}_path"]
    return subprocess.run([place, *arguments], capture_output=True, text=True, check=False, timeout=60)


def device(node: SimulatedNode, slot: int) -> Path:
    return node.folder / "sys/bus/pci/devices" / node.readings(AmdDriver)[slot].gpu.address


def tree(node: SimulatedNode) -> dict[str, bytes]:
    """All files of the driver, without the state of the tools."""
    files = (path for top in ("sys", "proc", "dev") for path in sorted((node.folder / top).rglob("*")))
    return {
        str(path.relative_to(node.folder)): path.read_bytes()
        for path in files
        if path.is_file() and not path.is_symlink()
    }


def test_the_simulated_nodes_are_in_the_package() -> None:
    assert set(NODES) <= set(ready_made("amd"))


@pytest.mark.parametrize("name", NODES)
def test_the_same_instant_has_the_same_files(tmp_path: Path, native_cache: Path, name: str) -> None:
    node = build(tmp_path, native_cache, name, 60.0)
    first = tree(node)
    node.write(200.0)
    assert tree(node) != first
    node.write(60.0)
    assert tree(node) == first


@pytest.mark.parametrize("name", NODES)
def test_counters_never_decrease(tmp_path: Path, native_cache: Path, name: str) -> None:
    node = build(tmp_path, native_cache, name, 0.0)
    before = None
    for at in range(0, 600, 37):
        node.write(float(at))
        now = [
            (gpu.energy_microjoules, *(p.graphics_ns + p.compute_ns for p in gpu.processes))
            for gpu in node.readings(AmdDriver)
        ]
        assert before is None or all(
            later >= earlier
            for mine, mine_before in zip(now, before, strict=True)
            for later, earlier in zip(mine, mine_before, strict=True)
        )
        before = now


def test_the_dies_of_a_module_share_power_and_serial_number(tmp_path: Path, native_cache: Path) -> None:
    node = build(tmp_path, native_cache, "amd-mi250")
    readings = node.readings(AmdDriver)
    assert [gpu.gpu.module for gpu in readings] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len({gpu.gpu.serial for gpu in readings}) == 4
    assert len({gpu.gpu.unique_id for gpu in readings}) == 8
    assert readings[0].power_microwatts == readings[1].power_microwatts
    shown = [next(device(node, slot).glob("hwmon/*/power1_average")).read_text() for slot in (0, 1)]
    assert shown[0] == shown[1] != "0\n"


def test_the_output_of_tools_depends_on_the_version(tmp_path: Path, native_cache: Path) -> None:
    for version, shape in (("6.1.0", list), ("7.0.2", dict)):
        text = f"amd:\n  rocm_version: '{version}'\n  devices: [{{model: mi300x, count: 2}}]\n"
        node = build(tmp_path / version, native_cache, text)
        for command in ("static", "metric"):
            assert isinstance(json.loads(say(node, "amd_smi", command, "--json").stdout), shape)
        assert isinstance(json.loads(say(node, "amd_smi", "process", "--json").stdout), list)
        header = say(node, "amd_smi", "monitor").stdout.split("\n")[0].split()
        assert ("XCP" in header) == (shape is dict)
        cards = json.loads(say(node, "rocm_smi", "-a", "--json").stdout)
        assert set(cards) == {"card0", "card1", "system"}


def test_the_tools_list_partitions_as_gpus(tmp_path: Path, native_cache: Path) -> None:
    node = build(tmp_path, native_cache, "amd-mi300-cpx")
    listed = json.loads(say(node, "amd_smi", "static", "--json").stdout)
    assert [entry["gpu"] for entry in listed] == list(range(16))
    assert listed[9]["bus"]["bdf"] == listed[8]["bus"]["bdf"]
    nodes = list((node.folder / "sys/class/kfd/kfd/topology/nodes").iterdir())
    assert len(nodes) == 2 + 16  # CPUs, partitions


def test_a_uuid_combines_unique_id_and_pci_device_id(tmp_path: Path, native_cache: Path) -> None:
    node = build(tmp_path, native_cache, "amd-mi300x8")
    [static] = json.loads(say(node, "amd_smi", "static", "--json").stdout)["gpu_data"][:1]
    [listed] = json.loads(say(node, "amd_smi", "list", "--json").stdout)["gpu_data"][:1]
    number = static["asic"]["asic_serial"].removeprefix("0x").lower()
    assert listed["uuid"] == f"{number[:2]}ff74a1-0000-1000-80{number[2:4]}-{number[4:]}"


def test_a_radeon_has_no_ecc_blocks(tmp_path: Path, native_cache: Path) -> None:
    node = build(tmp_path, native_cache, "amd:\n  devices: [{model: rx-7900-xtx}]\n")
    document = json.loads(say(node, "amd_smi", "metric", "--json").stdout)
    [gpu] = (document["gpu_data"] if isinstance(document, dict) else document)[:1]
    assert gpu["ecc"]["total_uncorrectable_count"] == 0
    assert (gpu["ecc"]["cache_correctable_count"], gpu["ecc_blocks"]) == ("N/A", "N/A")


def test_partitions_have_platform_devices_numbered_across_the_gpus(
    tmp_path: Path, native_cache: Path
) -> None:
    text = "amd:\n  devices: [{model: mi300x, compute_partition: QPX, count: 2}]\n"
    node = build(tmp_path, native_cache, text)
    sys = node.folder / "sys"
    # Seven for each GPU, also where it is cut into four.
    held = {path.name: path.parents[1].name for path in sys.glob("devices/platform/*/drm/renderD*")}
    assert held == {
        **{f"renderD{129 + number}": f"amdgpu_xcp_{number}" for number in range(7)},
        **{f"renderD{137 + number}": f"amdgpu_xcp_{7 + number}" for number in range(7)},
    }
    for slot, own in enumerate(("renderD128", "renderD136")):
        held[own] = device(node, slot).name
    links = {path.name: path.resolve(strict=True) for path in sys.glob("class/drm/renderD*")}
    assert {name: place.parents[1].name for name, place in links.items()} == held
    assert {path.name for path in (node.folder / "dev/dri").glob("renderD*")} == set(held)
    assert [gpu.gpu.drm_card for gpu in node.readings(AmdDriver)] == ["card1", "card9"]
    properties = [path.read_text() for path in sys.glob("class/kfd/kfd/topology/nodes/*/properties")]
    minors = {int(found[1]) for text in properties if (found := re.search(r"drm_render_minor (\d+)", text))}
    assert minors - {0} == {128, 129, 130, 131, 136, 137, 138, 139}
    node.set_faults([Fault(kind=FaultKind.DRIVER_NOT_LOADED)])
    assert not (sys / "devices/platform").exists()
    assert not list(sys.glob("class/drm/renderD*"))


def test_a_whole_gpu_has_no_platform_device(tmp_path: Path, native_cache: Path) -> None:
    node = build(tmp_path, native_cache, "amd-mi300x8")
    assert not (node.folder / "sys/devices/platform").exists()


def test_files_of_a_suspended_gpu_cannot_be_read(tmp_path: Path, native_cache: Path) -> None:
    node = build(tmp_path, native_cache, "amd-radeon")
    assert (device(node, 1) / "power/runtime_status").read_text() == "suspended\n"
    assert (device(node, 1) / "gpu_busy_percent").is_dir()
    assert (device(node, 1) / "unique_id").read_text().strip()
    assert (device(node, 0) / "power/runtime_status").read_text() == "active\n"


def test_duplicated_descriptors_are_one_client(tmp_path: Path, native_cache: Path) -> None:
    node = build(tmp_path, native_cache, "amd-radeon")
    process = node.readings(AmdDriver)[0].processes[0]
    texts = [p.read_text() for p in (node.folder / f"proc/{process.pid}/fdinfo").iterdir()]
    assert len([text for text in texts if "drm-driver:\tamdgpu" in text]) == 2
    assert len({line for text in texts for line in text.split("\n") if "client-id" in line}) == 1


@pytest.mark.parametrize(
    ("kind", "file", "is_shown"),
    [
        (FaultKind.HANG, "gpu_busy_percent", lambda path: path.is_fifo()),
        (FaultKind.LOST, "gpu_busy_percent", lambda path: path.is_dir()),
        (FaultKind.VANISHED, "gpu_busy_percent", lambda path: not path.exists()),
        (FaultKind.DRIVER_NOT_LOADED, "gpu_busy_percent", lambda path: not path.exists()),
    ],
)
def test_faults_of_a_device_start_and_end(
    tmp_path: Path, native_cache: Path, kind: FaultKind, file: str, is_shown: object
) -> None:
    assert callable(is_shown)
    node = build(tmp_path, native_cache, "amd-radeon")
    path = device(node, 0) / file
    node.set_faults([Fault(kind=kind, device=0 if kind.of_device else None)])
    assert is_shown(path)
    node.set_faults(())
    assert path.is_file()


def test_faults_of_the_tool_change_its_output(tmp_path: Path, native_cache: Path) -> None:
    node = build(tmp_path, native_cache, "amd:\n  devices: [{model: mi300x}]\n")
    node.set_faults([Fault(kind=FaultKind.TOOL_ERROR, error="no_permission")])
    refused = say(node, "amd_smi", "metric", "--json")
    assert (refused.returncode, "NO_PERM" in refused.stderr) == (246, True)
    assert say(node, "rocm_smi", "--json").returncode == 0
    node.set_faults([Fault(kind=FaultKind.DRIVER_NOT_LOADED)])
    assert "amdgpu not found" in say(node, "amd_smi", "metric", "--json").stderr
    node.set_faults([Fault(kind=FaultKind.VANISHED, device=0)])
    assert "No JSON data" in say(node, "rocm_smi", "--json").stdout
    node.set_faults([Fault(kind=FaultKind.TOOL_MISSING, tool="amd-smi")])
    assert not Path(node.agent_settings()["amd_smi_path"]).exists()
    assert Path(node.agent_settings()["rocm_smi_path"]).exists()


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ("devices: [{model: mi9000}]", "mi9000"),
        ("devices: [{model: mi250x, compute_partition: CPX}]", "cannot be partitioned"),
        ("devices: [{model: mi300x, compute_partition: XYZ}]", "XYZ"),
        ("devices: [{model: mi300x, power_limit_watts: 9000}]", "power_limit_watts"),
        ("rocm_version: '3.0'", "rocm_version"),
        ("tools: [nvidia-smi]", "nvidia-smi"),
        ("colour: red", "colour"),
        ("devices: [{model: mi300x}]\nfaults: [{kind: throttled, device: 0}]", "needs one of: prochot, ppt"),
    ],
)
def test_an_invalid_description_is_rejected_in_one_line(section: str, complaint: str) -> None:
    with pytest.raises(DescriptionError) as refused:
        read_node(f"amd:\n  {section}\n")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_memory_of_a_process_must_fit_into_its_partition() -> None:
    node = (
        "amd:\n  devices: [{model: mi300x, compute_partition: CPX}]\n"
        "processes:\n  - {device: 0, instance: 0, memory: %s}\n"
    )
    read_node(node % "20GiB")
    with pytest.raises(DescriptionError):
        read_node(node % "30GiB")
