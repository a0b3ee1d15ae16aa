"""Descriptions of nodes: what is read, and how mistakes are told."""

from pathlib import Path

import pytest

from accelscope.simulate import (
    DescriptionError,
    Fault,
    FaultKind,
    load_node,
    read_node,
    ready_made,
)
from accelscope.simulate.spec import CgroupKind, ProcessType
from accelscope.simulate.vendor import simulated_names
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

DEVICES = "nvidia: {devices: [{model: h100-80gb}, {model: t4}]}\n"


def test_documented_ready_made_nodes_exist() -> None:
    assert {vendor: ready_made(vendor) for vendor in simulated_names()} == {
        "nvidia": (
            "mixed",
            "nvidia-h100x8",
            "nvidia-mig",
            "nvidia-mixed",
            "nvidia-shared",
            "nvidia-sick",
        ),
        "amd": ("amd-mi250", "amd-mi300-cpx", "amd-mi300x8", "amd-radeon", "mixed"),
        "ascend": ("ascend-310p", "ascend-910b-x8", "ascend-950", "ascend-a3", "mixed"),
        "furiosa": ("furiosa-both", "furiosa-rngd", "furiosa-warboy", "mixed"),
    }
    for name in ready_made():
        assert load_node(name).name == name
    assert set(load_node("mixed").vendors) == set(simulated_names())
    assert [device.card.model for device in load_node("nvidia-h100x8").of(NvidiaSpec).devices] == [
        "h100-80gb"
    ] * 8


def test_everything_of_a_description_is_read() -> None:
    spec = read_node("""
node: mine
seed: 7
nvidia:
  driver_version: "535.104.05"
  cuda_version: "12.2"
  call_cost_us: 20
  pcie_window_ms: 0
  process_utilization: false
  tool: {cost_ms: 30, memory_mb: 16}
  devices:
    - {model: a100-40gb, count: 2, power_limit_watts: 300, ambient_celsius: 25, links_down: [11]}
    - {model: l4, name: My L4, memory_mib: 20000, count: 1}
processes:
  - name: train
    devices: [0, 1]
    spans_devices: true
    memory: 1.5GiB
    memory_reported: false
    load: {shape: wave, level: 0.5, period_seconds: 10}
    type: C+G
    uid: 0
    cgroup: {kind: slurm, job: 12}
    pid: 4242
    from: 5
    until: 50
faults:
  - {kind: xid, device: 1, code: 48, from: 3, until: 9}
  - {kind: tool_error, error: no_devices}
""")
    nvidia, [process] = spec.of(NvidiaSpec), spec.processes
    assert (spec.name, spec.seed, nvidia.driver_major, nvidia.cuda_version) == ("mine", 7, 535, "12.2")
    assert (nvidia.call_cost_microseconds, nvidia.pcie_window_milliseconds) == (20, 0)
    assert (nvidia.tool.cpu_milliseconds, nvidia.tool.memory_mib) == (30, 16)
    assert [device.card.model for device in nvidia.devices] == ["a100-40gb", "a100-40gb", "l4"]
    assert (nvidia.devices[0].power_limit_watts, nvidia.devices[0].links_down) == (300, (11,))
    assert (nvidia.devices[2].card.name, nvidia.devices[2].card.memory_mib) == ("My L4", 20000)
    assert (process.memory_bytes, process.type, process.pid) == (1536 << 20, ProcessType.BOTH, 4242)
    assert (process.cgroup.kind, process.cgroup.job) == (CgroupKind.SLURM, 12)
    assert spec.faults == (
        Fault(kind=FaultKind.XID, device=1, code=48, begin=3, until=9),
        Fault(kind=FaultKind.TOOL_ERROR, error="no_devices"),
    )


def test_an_empty_description_is_a_node_without_devices() -> None:
    assert read_node("node: bare\n").vendors == {}
    assert read_node("nvidia:\n").of(NvidiaSpec).devices == ()  # a driver without a device


def process(rest: str) -> str:
    return DEVICES + "processes: [{name: p, " + rest + "}]\n"


def fault(rest: str) -> str:
    return DEVICES + "faults: [{" + rest + "}]\n"


def device(rest: str) -> str:
    return "nvidia: {devices: [{" + rest + "}]}\n"


MISTAKES = {
    "[1, 2]\n": "not a mapping of keys to values",
    "seed: [\n": "line 2: not valid YAML: ",
    "seed: -1\n": "seed: -1 is not a whole number from 0 to 9223372036854775807",
    "seed: true\n": "seed: true is not a whole number from 0 to",
    "colour: blue\n": f'unknown key "colour"; allowed: node, seed, {", ".join(simulated_names())}, ',
    "nvida: {devices: [{model: t4}]}\nprocesses: [{name: p}]\n": "; did you mean nvidia?",
    "nvidia: 5\n": "nvidia: not a mapping of keys to values",
    "nvidia: {driver_version: 590.48}\n": "590.48 is not a version such as '590.48.01'; write it in quotes",
    "nvidia: {call_cost_us: fast}\n": 'nvidia.call_cost_us: "fast" is not a whole number from 0 to 1000000',
    "nvidia: {process_utilization: 7}\n": "nvidia.process_utilization: 7 is not true or false",
    "nvidia: {devices: {model: t4}}\n": "nvidia.devices: not a list",
    device("model: h200"): 'nvidia.devices[0].model: "h200" is not one of h100-80gb, a100-40gb, l4,',
    device("model: t4, count: 0"): "nvidia.devices[0].count: 0 is not a whole number from 1 to 64",
    device("model: t4, count: 64}, {model: l4"): "nvidia.devices: 65 devices; at most 64",
    device("count: 2"): "nvidia.devices[0].model: missing; expected one of h100-80gb, a100-40gb, l4,",
    device("model: t4, colour: red"): 'nvidia.devices[0]: unknown key "colour"; allowed: count, model, ',
    device("model: t4, power_limit_watts: 300"): "power_limit_watts: 300 is not a number from 60 to 70",
    device("model: t4, links_down: [0]"): "nvidia.devices[0].links_down: t4 has no links",
    device(
        "model: t4, mig: [1g.10gb]"
    ): 'mig: "1g.10gb" is not a profile; allowed: none, this model has no MIG',
    device("model: h100-80gb, mig: [5g.50gb]"): 'mig: "5g.50gb" is not a profile; allowed: 1g.10gb, 1g.20gb,',
    device("model: h100-80gb, mig: [4g.40gb, 4g.40gb]"): "8 compute and 8 memory slices; a card has 7 and 8",
    device("model: h100-80gb, mig: [{profile: 3g.40gb, compute: [2c.3g.40gb, 2c.3g.40gb]}]"): (
        "mig: 3g.40gb has 3 slices, not 4"
    ),
    device("model: h100-80gb, mig: [{profile: 3g.40gb, compute: [1c.2g.20gb]}]"): (
        '"1c.2g.20gb" is not a compute instance of 3g.40gb'
    ),
    process("device: 2"): "processes[0].device: 2 is not a device number from 0 to 1",
    process("devices: most"): "processes[0].devices: expected a list of device numbers, or all",
    process("device: 0, devices: all"): "processes[0].device: cannot be combined with devices",
    process("memory: lots"): 'processes[0].memory: "lots" is not a size such as 12GiB or 800MiB',
    process("memory: 16GiB, device: 1"): "processes: p does not fit: device 1 is ",
    process("load: {shape: sine}"): 'processes[0].load.shape: "sine" is not one of steady, wave, bursty',
    process("load: {level: 2}"): "processes[0].load.level: 2 is not a number from 0 to 1",
    process("type: X"): 'processes[0].type: "X" is not one of C, G, C+G, M+C',
    process("cgroup: lxc"): 'processes[0].cgroup.kind: "lxc" is not one of pod, docker, slurm, host',
    process("cgroup: {kind: pod, pod_uid: x}"): 'processes[0].cgroup.pod_uid: "x" is not a uid',
    process("pid: 7, count: 2"): "processes[0].pid: several processes cannot have one pid",
    process("instance: 0"): "processes[0].instance: device 0 is not partitioned",
    fault("kind: tired"): 'faults[0].kind: "tired" is not one of lost, vanished, hang,',
    fault("kind: hang"): "faults[0].device: hang needs a device; allowed: 0 to 1",
    fault("kind: library_hang, device: 1"): "faults[0].device: library_hang is a fault of the whole node",
    fault("kind: hot, device: 1, code: 3"): "faults[0].code: only xid has a code, not hot",
    fault("kind: tool_error"): "faults[0].error: tool_error needs one of: no_devices, ",
    fault("kind: hot, device: 0, cause: ppt"): "faults[0].cause: ",
    fault("kind: tool_hang, error: no_devices"): "faults[0].error: tool_error needs one of: no_devices, ",
    fault(f"kind: hot, device: 0, from: {10**400}"): "faults[0].from: 1000",
    fault(f"kind: hot, device: 0, from: {'9' * 5000}"): "not valid YAML: a number is too long",
    "seed: 2026-13-45\n": "a date does not exist",
    fault("kind: hot, device: 0, from: -1"): "faults[0].from: -1 is not a number of at least 0",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_an_invalid_description_is_rejected_with_the_path_of_the_key(text: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        read_node(text)
    assert MISTAKES[text] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_process_on_a_partitioned_device_must_name_an_instance() -> None:
    text = "nvidia: {devices: [{model: h100-80gb, mig: [3g.40gb]}]}\nprocesses: [{name: p, device: 0}]\n"
    with pytest.raises(DescriptionError, match=r"processes\[0\].instance: device 0 is partitioned"):
        read_node(text)


def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match="nvidia-h100x8, nvidia-mig"):
        load_node("nvidia-h100x9")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DescriptionError, match="UTF-8"):
        load_node(binary)
