"""The simulated Ascend driver: npu-smi in all layouts, files and faults."""

import os
import re
import subprocess
from collections.abc import Callable

import pytest

from accelscope.simulate import DescriptionError, Fault, FaultKind, SimulatedNode, read_node, ready_made
from accelscope.vendors.ascend.simulated.driver import AscendDriver
from accelscope.vendors.ascend.simulated.spec import MODELS

MakeNode = Callable[..., SimulatedNode]
NODES = ("ascend-910b-x8", "ascend-a3", "ascend-310p", "ascend-950")
LIBRARIES = "opt/Ascend/driver/lib64/driver"


def run(node: SimulatedNode, *arguments: str, libraries: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath}
    if libraries:
        environment["LD_LIBRARY_PATH"] = str(node.folder / LIBRARIES)
    return subprocess.run(
        [node.folder / "bin/npu-smi", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )


def printed(node: SimulatedNode, arguments: str) -> str:
    done = run(node, *arguments.split())
    assert done.returncode == 0, done.stderr
    return done.stdout


def described(devices: str, **more: str) -> str:
    keys = "".join(f"  {key}: {value}\n" for key, value in more.items())
    return f"node: n\nascend:\n{keys}  devices: {devices}\n"


def test_the_simulated_nodes_are_in_the_package() -> None:
    assert set(NODES) <= set(ready_made("ascend"))


@pytest.mark.parametrize("name", NODES)
def test_all_lines_of_a_table_have_the_same_width(ready_node: MakeNode, name: str) -> None:
    lines = [line for line in printed(ready_node(name), "info").splitlines() if line[0] in "|+"]
    assert len({len(line) for line in lines}) == 1
    assert sum(line.startswith("| npu-smi ") for line in lines) == 1


@pytest.mark.parametrize(
    ("name", "upper", "lower", "process"),
    [
        ("ascend-310p", "NPU Name", "Chip Device", "NPU Chip"),
        ("ascend-910b-x8", "NPU Name", "Chip", "NPU Chip"),
        ("ascend-a3", "NPU Name", "Chip Phy-ID", "NPU Chip"),
        ("ascend-950", "NPU ID", "", "NPU ID"),
    ],
)
def test_each_generation_has_its_own_layout(
    ready_node: MakeNode, name: str, upper: str, lower: str, process: str
) -> None:
    rows = [line.split("|") for line in printed(ready_node(name), "info").splitlines() if "|" in line]
    heads = [" ".join(row[1].split()) for row in rows]
    place = heads.index(upper)
    assert heads[place + 1] == lower
    assert any(
        row[2].strip() == "Process id" and head == process for head, row in zip(heads, rows, strict=True)
    )


def test_the_table_is_wide_from_version_26_on(make_node: MakeNode) -> None:
    narrow = printed(make_node(described("[{model: 910b3}]", driver_version='"25.5.1"')), "info")
    wide = printed(make_node(described("[{model: 910b3}]", driver_version='"26.0.1"')), "info")
    assert (len(narrow.split("\n", 1)[0]), len(wide.split("\n", 1)[0])) == (98, 116)
    assert "Process id in container" in wide
    assert "Process id in container" not in narrow


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_output(make_node: MakeNode, model: str) -> None:
    node = make_node(described(f"[{{model: {model}, count: 4}}]"))
    text = printed(node, "info")
    assert text.count(MODELS[model].name) == 4
    readings = node.readings(AscendDriver)
    boards = {reading.chip.board for reading in readings}
    assert len(boards) == 4 // MODELS[model].chips_per_board
    assert len({reading.chip.die for reading in readings}) == 4
    for board in boards:
        for kind in ("board", "usages", "common", "ecc", "proc-mem"):
            assert f": {board}\n" in printed(node, f"info -t {kind} -i {board}")


def test_tool_and_driver_may_have_different_versions(ready_node: MakeNode) -> None:
    assert re.search(r"npu-smi 24\.1\.rc3 +Version: 24\.1\.0 ", printed(ready_node("ascend-310p"), "info"))


def test_a_noisy_library_prints_before_the_table(ready_node: MakeNode) -> None:
    assert printed(ready_node("ascend-310p"), "info").startswith("DrvMngGetConsoleLogLevel failed.")


def test_without_the_drivers_libraries_the_tool_does_not_start(ready_node: MakeNode) -> None:
    done = run(ready_node("ascend-a3"), "info", libraries=False)
    assert done.returncode == 127
    assert "error while loading shared libraries: libdrvdsmi_host.so" in done.stderr


def test_the_output_depends_only_on_the_instant(make_node: MakeNode) -> None:
    node = make_node("ascend-910b-x8")
    first = printed(node, "info")
    node.write(200.0)
    assert printed(node, "info") != first
    node.write(60.0)
    assert printed(node, "info") == first


def test_counters_do_not_fall_when_a_fault_ends(make_node: MakeNode) -> None:
    node = make_node("ascend-910b-x8", at=0.0)
    node.set_faults([Fault(kind=FaultKind.ECC_STORM, device=0)])
    node.write(50.0)
    during = node.readings(AscendDriver)[0]
    node.set_faults([])
    node.write(90.0)
    after = node.readings(AscendDriver)[0]
    assert during.ecc.single == after.ecc.single == 100
    assert (during.health, after.health) == ("Alarm", "OK")
    assert "HBM Double Bit Error Count               : 6" in printed(node, "info -t ecc -i 0")


def test_a_lost_chip_is_listed_and_a_vanished_one_is_not(make_node: MakeNode) -> None:
    node = make_node("ascend-910b-x8")
    node.set_faults([Fault(kind=FaultKind.LOST, device=3)])
    assert "Total Count                    : 8" in printed(node, "info -l")
    assert printed(node, "info").count("910B3") == 7
    node.set_faults([Fault(kind=FaultKind.VANISHED, device=3)])
    assert "Total Count                    : 7" in printed(node, "info -l")
    assert not (node.folder / "dev/davinci3").exists()
    assert len(list((node.folder / "sys/bus/pci/devices").iterdir())) == 7


def test_a_driver_that_is_not_loaded_has_no_device_files(make_node: MakeNode) -> None:
    node = make_node("ascend-910b-x8")
    assert (node.folder / "dev/davinci_manager").exists()
    node.set_faults([Fault(kind=FaultKind.DRIVER_NOT_LOADED)])
    assert not (node.folder / "dev/davinci_manager").exists()
    assert "ret is -8005" in run(node, "info").stdout


def test_an_unknown_npu_id_is_an_error(ready_node: MakeNode) -> None:
    done = run(ready_node("ascend-910b-x8"), "info", "-t", "ecc", "-i", "99")
    assert done.returncode != 0
    assert "Error parameter" in done.stdout


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (described("[{model: h100}]"), "is not one of 310,"),
        (described("[{model: 910b3}, {model: a3}]"), "chips of one layout"),
        (described("[{model: 910b3, count: 2}]", npu_ids="[1]"), "expected 2 ids, one for each NPU; got 1"),
        (described("[{model: 910b3, count: 2}]", npu_ids="[1, 1]"), "is the id of another NPU"),
        (described("[{model: 910b3}]", npu_ids="[-1]"), "npu_ids[0]: -1 is not a whole number"),
        (described("[{model: 910b3}]", driver_version="latest"), "is not a version"),
        (described("[{model: 910b3}]", colour="red"), 'unknown key "colour"'),
        (
            described("[{model: 310p3}]") + "processes: [{memory: 30GiB}]\n",
            "does not fit",
        ),
        (described("[{model: 910b3}]") + "faults: [{kind: xid, device: 0}]\n", '"xid" is not one of'),
    ],
)
def test_an_invalid_description_is_rejected_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(DescriptionError, match=re.escape(complaint)) as caught:
        read_node(text)
    assert "\n" not in str(caught.value)
