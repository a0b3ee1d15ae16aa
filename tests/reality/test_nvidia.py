"""Programs that use NVIDIA's library, on simulated nodes, and NVIDIA's own without a driver."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.reality import nvidia
from tests.reality.comparison import Value
from tests.reality.conftest import Compare
from tests.reality.debian import Tree
from tests.reality.namespace import Place
from tests.reality.programs import GPUSTAT, NVIDIA_BOOKWORM, NVIDIA_TRIXIE, NVITOP, TRIXIE
from tests.simulate.made_nodes import MakeNode, make_node, ready_node

from accelscope.simulate import Fault, FaultKind, load_node
from accelscope.simulate.fleet.agent_session import AgentSession

pytestmark = pytest.mark.usefixtures("namespaces")

_START, _INTERVAL = 10.0, 60.0
_LATER = 40.0  # faults begin when the agent knows the devices
_FAULTY = (
    Fault(kind=FaultKind.HOT, device=0, begin=_LATER),
    Fault(kind=FaultKind.ECC_STORM, device=1, begin=_LATER),
    Fault(kind=FaultKind.XID, device=2, code=79, begin=_LATER),
)
_TO_BE_RESET = "nvidia-h100x8, to be reset"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    node: str
    faults: tuple[Fault, ...] = ()


CASES = (
    Case("nvidia-h100x8", "nvidia-h100x8"),
    Case("nvidia-h100x8, faulty", "nvidia-h100x8", _FAULTY),
    Case("nvidia-h100x8, lost", "nvidia-h100x8", (Fault(kind=FaultKind.LOST, device=7, begin=_LATER),)),
    Case(_TO_BE_RESET, "nvidia-h100x8", (Fault(kind=FaultKind.RESET_REQUIRED, device=3, begin=_LATER),)),
    Case("nvidia-mig", "nvidia-mig"),
    Case("nvidia-mixed", "nvidia-mixed"),
    Case("nvidia-shared", "nvidia-shared"),
    Case("nvidia-sick", "nvidia-sick"),
)


@dataclass(frozen=True, slots=True)
class Scene:
    case: Case
    node: Path
    ours: Mapping[str, Mapping[str, Value]]

    @property
    def addresses(self) -> dict[Value, str]:
        return {values["index"]: address for address, values in self.ours.items()}


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def scene(request: pytest.FixtureRequest, native_cache: Path) -> Iterator[Scene]:
    case: Case = request.param
    session = AgentSession(load_node(case.node), _INTERVAL, _START, faults=case.faults, cache=native_cache)
    with closing(session):
        snapshot = session.collect(_START + _INTERVAL).snapshot
        yield Scene(case, session.node.folder, nvidia.values_of(snapshot))


def test_nvitop_and_the_snapshot_agree(scene: Scene, compare: Compare) -> None:
    reports = nvidia.nvitop(scene.node)
    assert {report.device for report in reports} <= scene.ours.keys()
    compare("nvitop", NVITOP.version, scene.case.name, nvidia.NVITOP_FIELDS, reports, scene.ours)


def test_nvitop_prints_its_screen_of_partitions(ready_node: MakeNode) -> None:
    screen = nvidia.nvitop_screen(ready_node("nvidia-mig").folder)
    partitions = sorted(set(re.findall(r"│ ?(\d:\d)", screen)))
    assert partitions == ["0:0", "0:1", "0:2", "0:3", "1:0", "1:1", "1:2"]
    assert "BAR1:" in screen


def test_gpustat_and_the_snapshot_agree(scene: Scene, compare: Compare) -> None:
    if scene.case.name == _TO_BE_RESET:
        pytest.skip("gpustat ends with an error if a GPU must be reset")
    reports = nvidia.gpustat(scene.node, scene.addresses)
    compare("gpustat", GPUSTAT.version, scene.case.name, nvidia.GPUSTAT_FIELDS, reports, scene.ours)


def test_nvtop_and_the_snapshot_agree(scene: Scene, compare: Compare) -> None:
    if scene.case.name == _TO_BE_RESET:
        pytest.skip("nvtop leaves out a GPU that must be reset, and prints no name for the others")
    reports = nvidia.nvtop(scene.node, scene.addresses)
    version = TRIXIE.versions()["nvtop"]
    compare("nvtop", version, scene.case.name, nvidia.NVTOP_FIELDS, reports, scene.ours)


# --- NVIDIA's own library and tool, on a machine without a driver ---------------------------------------

_TREES = [pytest.param(tree, id=tree.suite) for tree in (NVIDIA_BOOKWORM, NVIDIA_TRIXIE)]
_LIBRARY = "usr/lib/x86_64-linux-gnu/nvidia/current"


@pytest.fixture
def _host_is_left_alone() -> Iterator[None]:
    """As root the library creates a device file, also where no driver is."""
    before = set(Path("/dev").glob("nvidia*"))
    yield
    assert set(Path("/dev").glob("nvidia*")) == before


def accelscope(tree: Tree, *words: str) -> subprocess.CompletedProcess[str]:
    """The command with the vendor's library, in a namespace with an empty /dev."""
    library = tree.root() / _LIBRARY / "libnvidia-ml.so.1"
    options = ("--nvml-library", library, "--nvidia-smi-path", "/no/such/nvidia-smi")
    return Place(machine_sys=True).run([sys.executable, "-m", "accelscope", *words, *options])


@pytest.mark.usefixtures("_host_is_left_alone")
@pytest.mark.parametrize("tree", _TREES)
def test_the_reader_reports_that_there_is_no_driver(tree: Tree) -> None:
    snapshot = json.loads(accelscope(tree, "top", "--json").stdout)["nodes"][0]["snapshot"]
    (reader,) = (reader for reader in snapshot["readers"] if reader["vendor"] == "nvidia")
    assert (reader["found"], reader["up"], snapshot.get("devices")) == (False, False, None)
    assert reader["reason"] == "NVML library found, but no driver and no GPU; nvidia-smi not found"


@pytest.mark.usefixtures("_host_is_left_alone")
@pytest.mark.parametrize("tree", _TREES)
def test_doctor_reports_no_lost_gpu_because_of_the_librarys_device_file(tree: Tree) -> None:
    text = " ".join(accelscope(tree, "doctor").stdout.split())
    assert "NVML library found, but no driver and no GPU" in text
    assert "fell off the bus" not in text


@pytest.mark.usefixtures("_host_is_left_alone")
@pytest.mark.parametrize("tree", _TREES)
def test_nvidia_smi_reports_what_the_simulated_one_does(tree: Tree, make_node: MakeNode) -> None:
    place = Place(root=str(tree.root()), environment={"LD_LIBRARY_PATH": f"/{_LIBRARY}"})
    real = place.run(["/usr/lib/nvidia/current/nvidia-smi", "-L"])
    node = make_node("nvidia-h100x8")
    node.set_faults([Fault(kind=FaultKind.DRIVER_NOT_LOADED)])
    simulated = subprocess.run(
        [node.folder / "bin" / "nvidia-smi", "-L"], capture_output=True, text=True, check=False
    )
    # The real one adds an empty line.
    assert (simulated.returncode, simulated.stdout.rstrip()) == (real.returncode, real.stdout.rstrip())
    assert real.returncode == 9  # NVML_ERROR_DRIVER_NOT_LOADED


__all__ = ["make_node", "ready_node"]
