"""`accelscope doctor --cross-check` with the vendors' own tools on simulated nodes: silent where all is
right, precise where a value is bent.

To bend a value, the reader gets a copy of the node's /sys with another value in one file, and the tool runs
on the node itself. Furiosa has no test here: PyPI's wheels contain the library without the command
furiosa-smi (test_furiosa.py). Of NVIDIA's tool there is only the error: it accepts no other NVML than that
of a driver.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from tests.reality import amd
from tests.reality.debian import Tree
from tests.reality.namespace import Place
from tests.reality.programs import EXPERIMENTAL, NVIDIA_BOOKWORM, NVIDIA_TRIXIE, SID, TRIXIE
from tests.reality.test_amd import version_in
from tests.simulate.made_nodes import MakeNode, ready_node

from accelscope.simulate import load_node, read_node
from accelscope.simulate.fleet.agent_session import AgentSession
from accelscope.vendors.common.cross_check import Value, values_of

pytestmark = pytest.mark.usefixtures("namespaces")

_START, _INTERVAL = 10.0, 60.0
_OLD_DRIVER = "amd-mi300x8, older driver"  # gpu_metrics 1.5, which amd-smi 6.1 knows
_TOOLS = (
    *((tree, "rocm-smi") for tree in (TRIXIE, SID, EXPERIMENTAL)),
    *((tree, "amd-smi") for tree in (TRIXIE, SID)),
)


@dataclass(frozen=True, slots=True)
class Scene:
    name: str
    settings: Mapping[str, str]
    values: Mapping[int, Mapping[str, Value]]  # by index of the device, as the agent reads them

    @property
    def node(self) -> Path:
        return Path(self.settings["sys_root"]).parent


def _scene(name: str, cache: Path) -> Iterator[Scene]:
    text = load_node(name.partition(",")[0]).text
    spec = read_node(text.replace("6.14.14", "6.8.5") if name == _OLD_DRIVER else text)
    with closing(AgentSession(spec, _INTERVAL, _START, cache=cache)) as session:
        devices = session.collect(_START + _INTERVAL).snapshot.devices
        values = {device.index: values_of(device) for device in devices if device.index is not None}
        yield Scene(name, session.node.agent_settings(), values)


@pytest.fixture(
    scope="module", params=["amd-mi300x8", _OLD_DRIVER, "amd-mi300-cpx", "amd-mi250", "amd-radeon"]
)
def scene(request: pytest.FixtureRequest, native_cache: Path) -> Iterator[Scene]:
    yield from _scene(request.param, native_cache)


@dataclass(frozen=True, slots=True)
class Examination:
    exit_code: int
    findings: list[dict[str, Any]]

    @property
    def differences(self) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if "field" in finding["details"]]


def examine(settings: Mapping[str, str]) -> Examination:
    """What `accelscope doctor --cross-check` finds. All its other areas count for the exit code, too."""
    patient = {"reader_timeout": "60s", "device_timeout": "20s", "exporter_port": "0"}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in {**settings, **patient}.items()]
    words = [sys.executable, "-m", "accelscope", "doctor", "--cross-check", "--json", *flags]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    checks = json.loads(done.stdout)["checks"]
    return Examination(done.returncode, [check for check in checks if check["area"] == "cross-check"])


def with_tool(scene: Scene, tree: Tree, program: str, folder: Path) -> dict[str, str]:
    """The settings of the scene's node with this tool only."""
    version_in(tree, program)
    wrapper = amd.place(scene.node, tree).write_wrapper(folder / program, program)
    none = {"amd_smi_path": "/no/such/tool", "rocm_smi_path": "/no/such/tool"}
    return {**scene.settings, **none, f"{program.replace('-', '_')}_path": str(wrapper)}


# The known differences of each tool, by the scenes in which it has them. Any other is a mistake.
_MODEL = "the driver's file contains the name of the board, the tool prints the market name"
_ENERGY = "the tools multiply the counter by 15.3 µJ, its unit is 15.259 µJ"
_INDEX = "the tools count each partition as a GPU"
_GFX = "rocm-smi 6.1 prints the last digit of the architecture as two decimal ones"
_NO_LINKS = "`amd-smi xgmi --json` fails as expected"


def explanations(scene: Scene, tree: Tree, program: str) -> set[str]:
    instinct = scene.name != "amd-radeon"
    knows_metrics = tree is not TRIXIE or scene.name in (_OLD_DRIVER, "amd-mi250")
    mi300 = "mi300" in scene.name
    # On MI250, the newer amd-smi prints no energy.
    energy = instinct and knows_metrics and (scene.name, tree, program) != ("amd-mi250", SID, "amd-smi")
    found = {
        _MODEL: mi300 and tree is TRIXIE and program == "amd-smi",
        _ENERGY: energy,
        _INDEX: scene.name == "amd-mi300-cpx",
        _GFX: not mi300 and tree is TRIXIE and program == "rocm-smi",
    }
    return {explanation for explanation, expected in found.items() if expected}


@pytest.mark.parametrize(("tree", "program"), _TOOLS, ids=lambda value: getattr(value, "suite", value))
def test_a_healthy_node_is_one_line(scene: Scene, tree: Tree, program: str, tmp_path: Path) -> None:
    examination = examine(with_tool(scene, tree, program, tmp_path))
    [finding] = examination.findings
    assert (examination.exit_code, finding["severity"]) == (0, "ok")
    details = finding["details"]
    devices = len(scene.values)
    assert details["devices"] == devices
    assert details["compared"] >= 12 * devices
    assert details["differ"] == 0
    assert {each["explanation"] for each in details["explanations"]} == explanations(scene, tree, program)
    agree, compared = details["agree"], details["compared"]
    count = f"{compared} values" if agree == compared else f"{agree} of {compared} values"
    assert re.match(rf"{count} of {devices} devices agree with {program} \d+\.\d", finding["found"])
    of_new_table = scene.name in ("amd-mi300x8", "amd-mi300-cpx")
    assert (_NO_LINKS in finding["found"]) == (of_new_table and (tree, program) == (TRIXIE, "amd-smi"))


@pytest.mark.parametrize(
    ("tree", "counts"),
    [
        # Up to 6.1: links 0 to 7 except the one with the GPU's own number. Link 7 is not connected.
        pytest.param(TRIXIE, {"receive_bytes_total": 49, "transmit_bytes_total": 49}, id="trixie"),
        pytest.param(
            SID, {"receive_bytes_total": 56, "transmit_bytes_total": 56, "bytes_per_second": 56}, id="sid"
        ),
    ],
)
def test_links_are_compared(
    native_cache: Path, tree: Tree, counts: Mapping[str, int], tmp_path: Path
) -> None:
    for scene in _scene(_OLD_DRIVER, native_cache):
        [finding] = examine(with_tool(scene, tree, "amd-smi", tmp_path)).findings
        fields = finding["details"]["fields"]
        found = {name: number for name, number in fields.items() if name.startswith("links.")}
        assert found == {f"links.xgmi.*.{name}": number for name, number in counts.items()}


# --- bent values ------------------------------------------------------------


Change = Callable[[bytes, Mapping[str, Value]], bytes]  # of the file and the values of the device


@dataclass(frozen=True, slots=True)
class Bend:
    """One value of one file of a device, and the fields that depend on it."""

    device: int
    file: str
    change: Change
    fields: tuple[str, ...]


def text(value: str) -> Change:
    return lambda _file, _values: f"{value}\n".encode()


def halved(file: bytes, _: Mapping[str, Value]) -> bytes:
    return f"{int(file) // 2}\n".encode()


def word(offset: int, value: int, *, after: bytes = b"") -> Change:
    """Another number at an offset in the file, or after these bytes."""

    def changed(file: bytes, _: Mapping[str, Value]) -> bytes:
        start = file.index(after) + offset
        return file[:start] + pack("<H", value) + file[start + 2 :]

    return changed


def without_traffic(file: bytes, values: Mapping[str, Value]) -> bytes:
    counter = pack("<Q", int(values[_LINK]) // 1024)
    assert file.count(counter) == 1
    return file.replace(counter, bytes(8))


# PCIe lanes and speed, XGMI lanes and speed, as they follow each other in gpu_metrics of an MI300X.
_WIDTHS = pack("<4H", 16, 320, 16, 32)
_LINK = "links.xgmi.3.receive_bytes_total"


_MEMORY = ("memory_used_bytes", "memory_free_bytes", "memory_used_ratio")
_ECC = ("ecc.corrected.volatile.umc.count", "ecc.corrected.volatile.count")
_FILES = (
    Bend(0, "hwmon/hwmon*/power1_cap", text("321000000"), ("power_limit_watts",)),
    Bend(1, "mem_info_vram_used", halved, _MEMORY),
    Bend(2, "serial_number", text("BENT0001"), ("serial",)),
    Bend(3, "ras/umc_err_count", text("ue: 0\nce: 4711"), _ECC),
)
BENDS = {
    "amd-mi300x8": (
        *_FILES,
        Bend(4, "gpu_metrics", word(6, 91), ("sensors.memory.celsius",)),
        Bend(5, "gpu_metrics", word(0, 8, after=_WIDTHS), ("pcie.width",)),
        Bend(6, "gpu_metrics", without_traffic, (_LINK,)),
        Bend(7, "product_name", text("AMD Instinct MI355X"), ("model",)),
    ),
    "amd-mi250": (
        *_FILES,
        Bend(4, "gpu_metrics", word(8, 91), ("sensors.memory.celsius",)),
        Bend(5, "current_link_width", text("8"), ()),  # the table wins
        Bend(5, "gpu_metrics", word(0, 8, after=pack("<2H", 16, 160)), ("pcie.width",)),
        Bend(6, "vbios_version", text("113-BENT-001"), ("firmware_version",)),
        Bend(7, "numa_node", text("5"), ("numa_node",)),
    ),
}
BENDS[_OLD_DRIVER] = BENDS["amd-mi300x8"]
_NUMBER = re.compile(r"\.[0-9]+(?=\.)")


def bend(scene: Scene, folder: Path) -> Path:
    """A copy of the node's /sys in which all values of BENDS are others."""
    sys_root = folder / "sys"
    shutil.copytree(scene.settings["sys_root"], sys_root, symlinks=True)
    for each in BENDS[scene.name]:
        values = scene.values[each.device]
        [path] = (sys_root / "bus/pci/devices" / str(values["pci_address"])).resolve().glob(each.file)
        assert path.is_relative_to(sys_root)
        path.write_bytes(each.change(path.read_bytes(), values))
    return sys_root


@pytest.mark.parametrize(("tree", "program"), _TOOLS, ids=lambda value: getattr(value, "suite", value))
@pytest.mark.parametrize("name", BENDS)
def test_bent_values_are_reported_and_nothing_else(
    native_cache: Path, name: str, tree: Tree, program: str, tmp_path: Path
) -> None:
    for scene in _scene(name, native_cache):
        settings = with_tool(scene, tree, program, tmp_path)
        examination = examine({**settings, "sys_root": str(bend(scene, tmp_path))})
        [summary, *others] = examination.findings
        assert (examination.exit_code, summary["severity"]) == (1, "ok")
        compared = summary["details"]["fields"]
        expected = {
            (each.device, field)
            for each in BENDS[name]
            for field in each.fields
            if _NUMBER.sub(".*", field) in compared
        }
        found = [finding["details"] for finding in others]
        assert sorted((each["index"], each["field"]) for each in found) == sorted(expected)
        for each, finding in zip(found, others, strict=True):
            original = scene.values[each["index"]][each["field"]]
            assert each["tool"] != each["reader"][0]
            if isinstance(original, int | float):
                assert each["tool"] == pytest.approx(original, rel=0.01)
            elif each["field"] != "model":
                assert each["tool"] == original
            assert finding["name"] == f"device {each['index']}"
            assert f"{each['field']} is " in finding["found"]
            assert each["command"].startswith(f"{program} ")
            assert "accelscope capture" in finding["advice"]
        assert summary["details"]["differ"] == len(expected)
        if program == "amd-smi" and (name, tree) != ("amd-mi300x8", TRIXIE):
            assert {field for _, field in expected} >= {*_MEMORY, *_ECC, "serial", "pcie.width"}


# --- a tool that accepts no simulated driver ------------------------------------------------------------


@pytest.mark.parametrize("tree", [NVIDIA_BOOKWORM, NVIDIA_TRIXIE], ids=lambda tree: tree.suite)
def test_the_error_of_nvidia_smi_is_reported(tree: Tree, ready_node: MakeNode, tmp_path: Path) -> None:
    """The simulated NVML is the reader's only: NVIDIA's tool reports that it has no driver."""
    folder = "/usr/lib/nvidia/current"
    libraries = {"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu/nvidia/current"}
    place = Place(root=str(tree.root()), environment=libraries)
    wrapper = place.write_wrapper(tmp_path / "nvidia-smi", f"{folder}/nvidia-smi")
    settings = {**ready_node("nvidia-h100x8").agent_settings(), "nvidia_smi_path": str(wrapper)}
    examination = examine(settings)
    [finding] = examination.findings
    assert (examination.exit_code, finding["severity"], finding["name"]) == (1, "warning", "nvidia-smi")
    message = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert finding["found"].startswith(f"not compared: nvidia-smi -q -x: {message}")
    assert finding["details"]["reason"] == "driver_not_loaded"
    assert finding["advice"]


__all__ = ["ready_node"]
