"""AMD's own programs, of three Debian suites, on simulated nodes."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from struct import pack

import pytest
from tests.reality import amd
from tests.reality.comparison import Report, Value
from tests.reality.conftest import Compare, available_tree, required_tree
from tests.reality.debian import Tree
from tests.reality.programs import EXPERIMENTAL, SID, TRIXIE

from accelscope.simulate import Fault, FaultKind, SimulatedNode, load_node
from accelscope.simulate.fleet.agent_session import AgentSession

pytestmark = pytest.mark.usefixtures("namespaces")

_START, _INTERVAL = 10.0, 60.0
_LATER = 40.0  # faults begin when the agent knows the devices
_FAULTY = (
    Fault(kind=FaultKind.HOT, device=0, begin=_LATER),
    Fault(kind=FaultKind.ECC_STORM, device=1, begin=_START - 120),  # long enough for two bad pages
    Fault(kind=FaultKind.THROTTLED, device=2, cause="ppt", begin=_LATER),
)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    node: str
    faults: tuple[Fault, ...] = ()


CASES = (
    Case("amd-mi300x8", "amd-mi300x8"),
    Case("amd-mi300x8, faulty", "amd-mi300x8", _FAULTY),
    Case("amd-mi300x8, lost", "amd-mi300x8", (Fault(kind=FaultKind.LOST, device=7, begin=_LATER),)),
    Case("amd-mi300-cpx", "amd-mi300-cpx"),
    Case("amd-mi250", "amd-mi250"),
    Case("amd-radeon", "amd-radeon"),
)


@dataclass(frozen=True, slots=True)
class Scene:
    case: Case
    node: Path
    ours: Mapping[str, Mapping[str, Value]]


# An agent that starts after a fault has never seen a lost device.
HEALTHY = pytest.mark.parametrize(
    "scene", [case for case in CASES if not case.faults], indirect=True, ids=lambda case: case.name
)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def scene(request: pytest.FixtureRequest, native_cache: Path) -> Iterator[Scene]:
    case: Case = request.param
    session = AgentSession(load_node(case.node), _INTERVAL, _START, faults=case.faults, cache=native_cache)
    with closing(session):
        snapshot = session.collect(_START + _INTERVAL).snapshot
        yield Scene(case, session.node.folder, amd.values_of(snapshot))


def version_in(tree: Tree, program: str) -> str:
    """Trixie is required; the test is skipped where another suite does not have the program."""
    required_tree(tree) if tree is TRIXIE else available_tree(tree)
    version = tree.versions().get(program)
    if version is None:
        pytest.skip(f"Debian {tree.suite} has no {program}")
    return version


@pytest.mark.parametrize("tree", [TRIXIE, SID, EXPERIMENTAL], ids=lambda tree: tree.suite)
def test_rocm_smi_and_the_snapshot_agree(scene: Scene, tree: Tree, compare: Compare) -> None:
    version = version_in(tree, "rocm-smi")
    reports = amd.rocm_smi(amd.place(scene.node, tree))
    assert reports
    compare("rocm-smi", version, scene.case.name, amd.ROCM_SMI_FIELDS, reports, scene.ours)


@pytest.mark.parametrize("tree", [TRIXIE, SID], ids=lambda tree: tree.suite)
def test_amd_smi_and_the_snapshot_agree(scene: Scene, tree: Tree, compare: Compare) -> None:
    version = version_in(tree, "amd-smi")
    reports = amd.amd_smi(amd.place(scene.node, tree))
    assert reports
    compare("amd-smi", version, scene.case.name, amd.AMD_SMI_FIELDS, reports, scene.ours)


def test_nvtop_and_the_snapshot_agree(scene: Scene, compare: Compare) -> None:
    version = version_in(TRIXIE, "nvtop")
    addresses = {str(values["device_name"]): address for address, values in scene.ours.items()}
    reports = amd.nvtop(amd.place(scene.node, TRIXIE), addresses)
    assert {report.device for report in reports} == scene.ours.keys()
    compare("nvtop", version, scene.case.name, amd.NVTOP_FIELDS, reports, scene.ours)


def test_amd_smi_counts_the_throttling_that_the_snapshot_reports(
    native_cache: Path, compare: Compare
) -> None:
    """A count that rises between two runs is a reason that is active. The status, which amd-smi derives from
    two readings of its own, stays empty on a node that does not move meanwhile."""
    version = version_in(SID, "amd-smi")
    session = AgentSession(load_node("amd-mi300x8"), _INTERVAL, _START, faults=_FAULTY, cache=native_cache)
    with closing(session):
        where = amd.place(session.node.folder, SID)
        before = amd.throttle_counts(where)
        ours = amd.values_of(session.collect(_START + _INTERVAL).snapshot)
        after = amd.throttle_counts(where)
    reports = [
        Report(device=address, values={name: count > before[address][name] for name, count in counts.items()})
        for address, counts in after.items()
    ]
    throttled = {name for report in reports for name, rose in report.values.items() if rose}
    assert throttled == {"socket_thermal_accumulated", "ppt_accumulated"}
    compare("amd-smi", version, "amd-mi300x8, throttled", amd.THROTTLE_FIELDS, reports, ours)


def without(values: Mapping[str, Value], *endings: str) -> dict[str, Value]:
    return {name: value for name, value in values.items() if not name.endswith(endings) and value is not None}


@HEALTHY
@pytest.mark.parametrize("tools", [("amd-smi", "rocm-smi"), ("amd-smi",), ("rocm-smi",)], ids=" and ".join)
@pytest.mark.parametrize("tree", [TRIXIE, SID], ids=lambda tree: tree.suite)
def test_the_agents_values_stay_the_same_with_the_real_tools(
    scene: Scene, tree: Tree, tools: tuple[str, ...], tmp_path: Path
) -> None:
    """Tools may add values that no file has. They neither change one nor add an energy that was never
    counted."""
    version_in(tree, tools[0])
    where = amd.place(scene.node, tree)
    none = {"amd-smi": Path("/no/such"), "rocm-smi": Path("/no/such")}
    wrappers = {name: where.write_wrapper(tmp_path / name, name) for name in tools}
    plain = amd.snapshot_with(scene.node, none)
    tooled = amd.snapshot_with(scene.node, none | wrappers)
    assert plain.keys() == tooled.keys()
    for address, before in plain.items():
        after = tooled[address]
        known = without(before, "read_at", ".reason", ".count")
        assert {name: after.get(name) for name in known} == known
        assert ("energy_joules" in after) == ("energy_joules" in before)


def test_pcie_errors_that_the_driver_counts_have_the_names_of_amd_smi(
    tmp_path: Path, native_cache: Path, compare: Compare
) -> None:
    """Those of simulated nodes are 0, so this one has others, each of its own."""
    version = version_in(SID, "amd-smi")
    node = SimulatedNode(load_node("amd-mi300x8"), tmp_path / "node", cache=native_cache)
    node.build(60.0)
    for path in (node.folder / "sys/devices").rglob("gpu_metrics"):
        with path.open("r+b") as table:  # 1.7: after the traffic, recoveries, replays, rollovers and NAKs
            table.seek(104)
            table.write(pack("<3Q2I", 5, 6, 7, 11, 13))
    none = Path("/no/such")
    documents = amd.snapshot_with(node.folder, {"amd-smi": none, "rocm-smi": none})
    ours = {
        address: {
            f"errors.{values[f'errors.{n}.kind']}.{values[f'errors.{n}.code']}.count": values[
                f"errors.{n}.count"
            ]
            for n in range(4)
        }
        for address, values in documents.items()
    }
    counts = ("l0_to_recovery", "replay_roll_over", "nak_sent", "nak_received")
    fields = tuple(f for f in amd.AMD_SMI_FIELDS if f.theirs in {f"metric.pcie.{c}_count" for c in counts})
    reports = amd.amd_smi(amd.place(node.folder, SID))
    outcome = compare("amd-smi", version, "amd-mi300x8, PCIe errors", fields, reports, ours)
    assert len(outcome.compared) == 4 * len(ours)
    assert set(ours["0000:10:00.0"].values()) == {5, 7, 11, 13}


# Tools round: they print MiB and whole watts.
_OF_A_TOOL = ("memory_total_bytes", "memory_used_bytes", "temperature_celsius", "power_watts")


@HEALTHY
@pytest.mark.parametrize("tool", ["amd-smi", "rocm-smi"])
@pytest.mark.parametrize("tree", [TRIXIE, SID], ids=lambda tree: tree.suite)
def test_a_tool_is_enough_where_the_drivers_files_are_not_visible(
    scene: Scene, tree: Tree, tool: str, tmp_path: Path
) -> None:
    """As in a container without the node's /sys: the tool alone reports what the files contain."""
    version_in(tree, tool)
    where = amd.place(scene.node, tree)
    none = {"amd-smi": Path("/no/such"), "rocm-smi": Path("/no/such")}
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    before = amd.snapshot_with(scene.node, none)
    after = amd.snapshot_with(
        scene.node, none | {tool: where.write_wrapper(tmp_path / tool, tool)}, sys_root=tmp_path / "sys"
    )
    assert before.keys() <= after.keys()
    for address, known in before.items():
        own = after[address]
        assert own.get("uuid") == known.get("uuid")
        for name in _OF_A_TOOL:
            # An amd-smi that is older than the driver prints N/A for all that is in gpu_metrics.
            if known.get(name) is not None and (tool == "rocm-smi" or own.get(name) is not None):
                assert own.get(name) == pytest.approx(known[name], rel=0.01, abs=1), name
        assert own["memory_total_bytes"] is not None
