"""Vendors side by side on one node. One is made up here: all that a vendor's package needs."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from accelscope.agent.settings import AgentSettings
from accelscope.config.document import Section
from accelscope.config.settings import settings_of
from accelscope.config.values import WholeNumber
from accelscope.simulate import DescriptionError, Fault, FaultKind, SimulatedNode, read_node
from accelscope.simulate.faults import TOOL_FAULTS, PossibleFaults, lasted
from accelscope.simulate.folder import BlockingFile, Content, Link
from accelscope.simulate.pods import PluginDevice
from accelscope.simulate.spec import MemoryPool, ToolCost, VendorSpec, read_devices, read_tool_cost
from accelscope.simulate.vendor import (
    InstalledPart,
    SimulatedHost,
    SimulatedVendor,
    SimulationTime,
    Tool,
    ToolAnswer,
    simulated_names,
    simulated_vendor,
)
from accelscope.simulate.workload import DeviceLoad, PowerDraw, place
from accelscope.vendors import VendorDeclaration, declarations
from accelscope.vendors.nvidia.simulated.driver import NvidiaDriver

MakeNode = Callable[..., SimulatedNode]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcmeDevice:
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcmeSpec(VendorSpec):
    devices: tuple[AcmeDevice, ...]
    tool: ToolCost

    @property
    def device_count(self) -> int:
        return len(self.devices)

    def memory_pool(self, device: int, instance: int | None) -> MemoryPool:
        return MemoryPool((device, instance), self.devices[device].memory_mib << 20)


@dataclass(frozen=True, slots=True)
class AcmeReading:
    address: str
    watts: float
    errors: int
    pids: tuple[int, ...]


class AcmeDriver:
    def __init__(self, spec: AcmeSpec, site: SimulatedHost) -> None:
        self._spec, self._site = spec, site
        broken = ToolAnswer(text="acme: broken\n", exit_code=3)
        self._tools = tuple(
            Tool(name=name, cost=spec.tool, errors={"broken": broken}) for name in ("acme-smi", "acmectl")
        )

    @property
    def native_parts(self) -> tuple[InstalledPart, ...]:
        return tuple(tool.installed for tool in self._tools)

    def readings(self, instant: SimulationTime) -> tuple[AcmeReading, ...]:
        return tuple(self._reading(slot, instant) for slot in range(self._spec.device_count))

    def _reading(self, slot: int, instant: SimulationTime) -> AcmeReading:
        own = [p for p in self._site.placements if p.device == slot]
        storms = lasted(instant.faults.of_device(slot), FaultKind.ECC_STORM, instant.at)
        return AcmeReading(
            self._site.pci_address(slot, self._spec.device_count),
            PowerDraw(20, 80, DeviceLoad((placement, 1.0) for placement in own)).mean(instant.at),
            sum(1 + int(seconds) for seconds in storms),
            tuple(p.process.pid for p in own),
        )

    def plugin_device(self, device: int, instance: int | None, own: Hashable) -> PluginDevice:
        return PluginDevice("acme.com/npu", f"acme{device}", -1)

    def files(self, instant: SimulationTime) -> Iterator[tuple[str, Content]]:
        readings = self.readings(instant)
        hung = {fault.device for fault in instant.active if fault.kind is FaultKind.HANG}
        for slot, reading in enumerate(readings):
            power: Content = BlockingFile() if slot in hung else f"{reading.watts:.1f}\n"
            yield f"sys/bus/pci/devices/{reading.address}/power", power
            yield f"sys/class/acme/acme{slot}", Link(f"../../bus/pci/devices/{reading.address}")
            for pid in reading.pids:
                yield f"proc/{pid}/fd/3", Link(f"/dev/acme{slot}")
        answer = ToolAnswer(
            patterns=("info",), text="".join(f"{reading.watts:.1f}\n" for reading in readings)
        )
        for tool in self._tools:
            yield tool.state_file([answer], instant.active)


def read_section(section: Section) -> AcmeSpec:
    def read_device(entry: Section) -> AcmeDevice:
        return AcmeDevice(memory_mib=entry.take("memory_mib", WholeNumber(1, 1 << 20), 4096))

    return AcmeSpec(devices=read_devices(section, read_device), tool=read_tool_cost(section))


def read_process(section: Section, spec: AcmeSpec, devices: tuple[int, ...]) -> int:
    return section.take("cores", WholeNumber(1, 8 * spec.device_count), 2 * len(devices))


VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=AcmeDriver,
    read_process=read_process,
    settings={"acme_smi_path": "bin/acme-smi"},
    faults=PossibleFaults(
        kinds=TOOL_FAULTS | {FaultKind.HANG, FaultKind.ECC_STORM},
        errors=("broken",),
        tools=("acme-smi", "acmectl"),
    ),
)


@pytest.fixture(autouse=True)
def _acme(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("acme.simulated")
    module.__dict__["VENDOR"] = VENDOR
    monkeypatch.setitem(sys.modules, module.__name__, module)
    acme = VendorDeclaration(
        package="acme",
        name="acme",
        title="Acme",
        order=90,
        reader="",
        examination="",
        sources="",
        simulated="simulated:VENDOR",
    )
    every = {**declarations(), "acme": acme}
    monkeypatch.setattr("accelscope.simulate.vendor.declarations", lambda: every)


BOTH = """
seed: 5
nvidia: {devices: [{model: t4}]}
acme: {tool: {cost_ms: 1}, devices: [{count: 2}]}
processes:
  - {name: trainer, vendor: nvidia, memory: 2GiB, load: {level: 0.9}}
  - {name: server, vendor: acme, devices: all, count: 3, cores: 5}
"""
ALONE = "acme: {devices: [{count: 2}]}\nprocesses: [{name: server, pid: 9}]\n"


def test_each_has_its_devices_processes_and_files(make_node: MakeNode) -> None:
    node = make_node(BOTH)
    assert node.spec.device_count == 3
    [gpu] = node.readings(NvidiaDriver)
    first, second = node.readings(AcmeDriver)
    assert first.address == "0001:10:00.0"  # in a domain of its own
    power = node.folder / "sys/class/acme/acme1/power"
    assert power.read_text() == f"{second.watts:.1f}\n"
    pids = [process.pid for process in gpu.processes] + [*first.pids, *second.pids]
    assert len(pids) == len(set(pids)) == 7
    assert {path.name for path in (node.folder / "proc").iterdir() if path.name.isdigit()} == {
        str(pid) for pid in pids
    }
    comm = (node.folder / "proc" / str(first.pids[0]) / "comm").read_text()
    assert comm == "server\n"
    assert (node.folder / "proc" / str(first.pids[0]) / "fd/3").readlink() == Path("/dev/acme0")


def test_a_process_loads_only_its_vendors_device() -> None:
    alone = place(read_node(BOTH.replace("- {name: server", "- {name: server, load: {level: 0.01}")))
    together = place(read_node(BOTH))
    assert alone[0].curve == together[0].curve  # though both are on a device 0 that is full


def test_keys_of_its_own_are_kept() -> None:
    assert [process.own for process in read_node(BOTH).processes] == [None, 5]


def test_settings_of_absent_vendors_point_to_missing_paths(make_node: MakeNode) -> None:
    settings = make_node(ALONE).agent_settings()
    assert Path(settings["acme_smi_path"]).exists()
    assert not Path(settings["nvml_library"]).exists()


def test_the_agent_accepts_the_settings_of_a_node() -> None:
    vendors = (simulated_vendor(vendor) for vendor in simulated_names() if vendor != "acme")
    told = {name for vendor in vendors for name in vendor.settings}
    assert told <= {declared.name for declared in settings_of(AgentSettings)}


def test_parts_of_another_node_in_the_folder_are_removed(make_node: MakeNode, native_cache: Path) -> None:
    node = make_node(BOTH)
    SimulatedNode(read_node(ALONE), node.folder, cache=native_cache).build()
    assert {path.name for path in node.folder.glob("[bl]i[nb]/*")} == {"acme-smi", "acmectl"}
    assert not (node.folder / "state/nvml").exists()


def test_faults_are_of_one_vendor(make_node: MakeNode) -> None:
    node = make_node(BOTH, at=100)
    storm = Fault(kind=FaultKind.ECC_STORM, vendor="acme", device=0)
    node.set_faults([storm, Fault(kind=FaultKind.LIBRARY_MISSING, vendor="nvidia")])
    node.write(110)
    assert not (node.folder / "lib/libnvidia-ml.so.1").exists()
    assert [reading.errors for reading in node.readings(AcmeDriver)] == [11, 0]
    [gpu] = node.readings(NvidiaDriver)
    assert gpu.ecc is not None
    assert gpu.ecc.volatile_corrected == 0
    again = SimulatedNode.open(node.folder)
    assert again.faults() == node.faults()
    assert again.readings(AcmeDriver) == node.readings(AcmeDriver)
    memory = json.loads((node.folder / "state/memory.json").read_text())
    assert {"kind": "ecc_storm", "vendor": "acme", "device": 0, "from": 100} in memory["faults"]


def test_a_hung_device_blocks_reads_of_its_files_only(make_node: MakeNode) -> None:
    node = make_node(BOTH)
    node.set_faults([Fault(kind=FaultKind.HANG, vendor="acme", device=1)])
    power = [node.folder / f"sys/class/acme/acme{slot}/power" for slot in (0, 1)]
    assert power[0].read_text()
    results: list[str] = []
    reader = threading.Thread(target=lambda: results.append(power[1].read_text()), daemon=True)
    reader.start()
    reader.join(0.2)
    assert reader.is_alive()
    node.set_faults([])
    reader.join(60)
    assert results == [power[1].read_text()]


def test_one_tool_of_several_may_fail(make_node: MakeNode) -> None:
    node = make_node(BOTH)

    def run(tool: str) -> tuple[int, bytes]:
        path = node.folder / "bin" / tool
        result = subprocess.run([path, "info"], capture_output=True, check=False, timeout=30)
        return result.returncode, result.stdout

    good = run("acme-smi")
    assert good == run("acmectl") != (0, b"")
    node.set_faults([Fault(kind=FaultKind.TOOL_ERROR, vendor="acme", tool="acmectl", error="broken")])
    assert (run("acme-smi"), run("acmectl")) == (good, (3, b"acme: broken\n"))
    node.set_faults([Fault(kind=FaultKind.TOOL_MISSING, vendor="acme", tool="acmectl")])
    assert {path.name for path in (node.folder / "bin").iterdir()} == {"nvidia-smi", "acme-smi"}
    node.set_faults([Fault(kind=FaultKind.TOOL_MISSING, vendor="acme")])
    assert {path.name for path in (node.folder / "bin").iterdir()} == {"nvidia-smi"}


def process(rest: str) -> str:
    return "processes: [{" + rest + "}]\n"


def fault(rest: str) -> str:
    return "faults: [{" + rest + "}]\n"


MISTAKES = {
    process("name: p"): "processes[0].vendor: missing; expected one of nvidia, acme",
    process("vendor: amd"): 'processes[0].vendor: "amd" is not one of nvidia, acme',
    process("vendor: nvidia, device: 1"): "processes[0].device: 1 is not a device number from 0 to 0",
    process("vendor: nvidia, cores: 1"): 'processes[0]: unknown key "cores"; allowed: vendor, ',
    process("vendor: acme, cores: 99"): "processes[0].cores: 99 is not a whole number from 1 to 16",
    process("vendor: acme, instance: 0"): "processes[0].instance: device 0 is not partitioned",
    process("vendor: acme, memory: 4097MiB"): " does not fit: device 0 is 1 MiB short",
    process("vendor: acme, pid: 7}, {vendor: nvidia, pid: 7"): "processes: 2 have the pid 7",
    fault("kind: hang, device: 0"): "faults[0].vendor: missing; expected one of nvidia, acme",
    fault("vendor: acme, kind: xid, device: 0"): '"xid" is not one of hang, ecc_storm, tool_',
    fault("vendor: acme, kind: hang, device: 2"): "faults[0].device: 2 is not a device number from 0 to 1",
    fault("vendor: acme, kind: hang, device: 0, code: 1"): "no fault here has a code, not hang",
    fault("vendor: acme, kind: hang, device: 0, tool: acmectl"): "tool: hang is not a fault of a tool",
    fault(
        "vendor: acme, kind: tool_hang, tool: nvidia-smi"
    ): 'tool: "nvidia-smi" is not one of acme-smi, acmectl',
    fault("vendor: acme, kind: tool_error, error: no_devices"): 'error: "no_devices" is not broken',
}


@pytest.mark.parametrize("rest", MISTAKES)
def test_an_invalid_description_is_rejected_with_the_path_of_the_key(rest: str) -> None:
    text = "nvidia: {devices: [{model: t4}]}\nacme: {devices: [{count: 2}]}\n" + rest
    with pytest.raises(DescriptionError) as caught:
        read_node(text)
    assert MISTAKES[rest] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unsupported_faults_are_rejected(make_node: MakeNode) -> None:
    node = make_node(BOTH)
    for fault in (Fault(kind=FaultKind.TOOL_HANG), Fault(kind=FaultKind.XID, vendor="acme", device=0)):
        with pytest.raises(DescriptionError):
            node.set_faults([fault])
    assert node.faults() == ()


def test_the_vendor_is_optional_on_a_node_with_one_vendor(make_node: MakeNode) -> None:
    node = make_node(ALONE)
    for fault in (
        Fault(kind=FaultKind.HANG, device=1),
        Fault(kind=FaultKind.HANG, device=1, vendor="acme"),
    ):
        node.set_faults([fault])
        assert node.faults() == (Fault(kind=FaultKind.HANG, device=1),)
    with pytest.raises(DescriptionError, match="the node has no vendor's section"):
        read_node("processes: [{name: p}]\n")
