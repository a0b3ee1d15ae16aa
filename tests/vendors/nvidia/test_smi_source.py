"""The nvidia-smi source with a driver that changes."""

from pathlib import Path

from accelscope.simulate import SimulatedNode, read_node
from accelscope.vendors.common.contract import Paths, ReaderOptions
from accelscope.vendors.nvidia.smi import SmiSource

WITHOUT_MIG = """
node: changing
nvidia:
  devices: [{model: h100-80gb}]
processes: [{name: train, device: 0, pid: 4242}]
"""
WITH_MIG = WITHOUT_MIG.replace("{model: h100-80gb}", "{model: h100-80gb, mig: [3g.40gb]}").replace(
    "pid: 4242", "pid: 4242, instance: 0"
)


def test_the_numa_node_comes_from_sysfs(tmp_path: Path) -> None:
    node = SimulatedNode(read_node(WITHOUT_MIG), tmp_path / "node")
    node.build()
    source = SmiSource(ReaderOptions(Paths(sys=tmp_path / "sys"), node.agent_settings()))
    [key] = source.survey().keys
    device = source.read(key).device
    assert device.numa_node is None
    folder = tmp_path / f"sys/bus/pci/devices/{device.pci_address}"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text("1\n")
    [key] = source.survey().keys
    assert source.read(key).device.numa_node == 1


def test_a_process_has_no_instance_after_mig_was_switched_off(tmp_path: Path) -> None:
    node = SimulatedNode(read_node(WITH_MIG), tmp_path)
    node.build()
    source = SmiSource(ReaderOptions(settings=node.agent_settings()))
    [key] = source.survey().keys
    [process] = source.read(key).processes
    assert process.gpu_instance_id is not None
    SimulatedNode(read_node(WITHOUT_MIG), tmp_path).build()
    [key] = source.survey().keys
    [process] = source.read(key).processes
    assert (process.pid, process.gpu_instance_id, process.partition) == (4242, None, None)


IDLE = """
node: idle
nvidia:
  devices: [{model: h100-80gb}, {model: h100-80gb}, {model: h100-80gb, mig: [3g.40gb]}]
processes:
  - {name: burn, device: 0, pid: 11, load: {level: 0.9}}
  - {name: hold, device: 0, pid: 12, load: {shape: idle}}
  - {name: hold, device: 1, pid: 13, load: {shape: idle}}
  - {name: hold, device: 2, instance: 0, pid: 14, load: {shape: idle}}
"""


def test_an_idle_process_has_a_utilization_of_0_except_in_mig_mode(tmp_path: Path) -> None:
    """pmon prints `-` for a process that did not run, and for every process on a GPU in MIG mode."""
    node = SimulatedNode(read_node(IDLE), tmp_path)
    node.build(100.0)
    source = SmiSource(ReaderOptions(settings=node.agent_settings()))
    read = {p.pid: p.utilization_ratio for key in source.survey().keys for p in source.read(key).processes}
    busy = read.pop(11)
    assert busy is not None
    assert busy > 0.5
    assert read == {12: 0.0, 13: 0.0, 14: None}
