"""The vendor's library reads simulated RNGDs and Warboys as `accelscope simulate build` makes them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.kubernetes.errors import ClusterError
from tests.reality.comparison import Report, Value
from tests.reality.conftest import Compare
from tests.reality.furiosa import FIELDS, libraries, values_of
from tests.reality.programs import FURIOSA
from tests.reality.pypi import Environment

from accelscope.simulate import Fault, FaultKind, load_node, read_node
from accelscope.simulate.fleet.agent_session import AgentSession

pytestmark = pytest.mark.usefixtures("namespaces")

_START, _INTERVAL = 60.0, 10.0

_HEALTHY: tuple[Fault, ...] = ()
_FAULTY = (
    Fault(kind=FaultKind.HOT, device=0),
    Fault(kind=FaultKind.RESET_REQUIRED, device=1),
    Fault(kind=FaultKind.ECC_STORM, device=2),
    Fault(kind=FaultKind.LOST, device=3),
)
_OF_2025 = load_node("furiosa-rngd").text.replace(
    "  devices:", "  rngd: {driver: '2025.3.0, 5d1c0be', firmware: '2025.3.0, 5d1c0be'}\n  devices:", 1
)


@dataclass(frozen=True, slots=True)
class Case:
    name: str  # in the table
    node: str
    versions: str  # first words of the versions of the library
    devices: int  # that the library lists
    faults: tuple[Fault, ...] = _HEALTHY


CASES = (
    Case("furiosa-rngd", "furiosa-rngd", "2026", 4),
    Case("furiosa-rngd, driver of 2025", _OF_2025, "2025", 4),
    Case("furiosa-rngd, faulty", "furiosa-rngd", "2026", 3, _FAULTY),
    Case("furiosa-rngd, vanished", "furiosa-rngd", "2026", 3, (Fault(kind=FaultKind.VANISHED, device=1),)),
    Case("furiosa-warboy", "furiosa-warboy", "2025", 2),
    Case("furiosa-both", "furiosa-both", "2026", 1),
)


def installable(environment: Environment) -> bool:
    try:
        environment.python()
    except ClusterError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Scene:
    case: Case
    ours: Mapping[str, Mapping[str, Value]]
    reports: Sequence[tuple[Environment, Sequence[Report]]]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def scene(request: pytest.FixtureRequest, native_cache: Path) -> Iterator[Scene]:
    """All versions of the library on one node, after it moved."""
    case: Case = request.param
    wanted = [each for each in FURIOSA if each.version.startswith(case.versions) and installable(each)]
    if not wanted:
        pytest.skip(f"PyPI has no library of {case.versions} for this Python")
    spec = read_node(case.node) if "\n" in case.node else load_node(case.node)
    session = AgentSession(spec, _INTERVAL, _START, faults=case.faults, cache=native_cache)
    with closing(session), libraries(wanted, session.node.folder) as started:
        for library in started:
            library.reports()
        ours = values_of(session.collect(_START + _INTERVAL).snapshot)
        yield Scene(case, ours, [(library.environment, library.reports()) for library in started])


def test_the_vendors_library_and_the_snapshot_agree(scene: Scene, compare: Compare) -> None:
    for environment, reports in scene.reports:
        assert len(reports) == scene.case.devices
        compare(environment.package, environment.version, scene.case.name, FIELDS, reports, scene.ours)
