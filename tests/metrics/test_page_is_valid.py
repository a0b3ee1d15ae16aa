"""The pages of the ready-made nodes, read by programs that nobody here wrote."""

import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client import parser as text_parser
from prometheus_client.openmetrics import parser as openmetrics_parser
from tests.agent.collected import collected
from tests.agent_process import AgentProcess
from tests.costless import costless

from accelscope.metrics.exposition import OPENMETRICS_TYPE, TEXT_TYPE, Exposition
from accelscope.model import Device, Snapshot, Vendor
from accelscope.simulate import SimulatedNode, ready_made

FROZEN_AT = 777.0  # seconds of simulated time
MANY_TRIES = 50

Reader = Callable[[str], Iterable[Metric]]
read_text: Reader = text_parser.text_string_to_metric_families
read_openmetrics: Reader = openmetrics_parser.text_string_to_metric_families

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass(frozen=True)
class Served:
    text: str
    openmetrics: str
    snapshot: Snapshot

    @cached_property
    def in_text(self) -> Series:
        return series(read_text(self.text))

    @cached_property
    def in_openmetrics(self) -> Series:
        return series(read_openmetrics(self.openmetrics))


@pytest.fixture(scope="module", params=ready_made())
def served(request: pytest.FixtureRequest) -> Served:
    snapshot = collected(request.param)
    page = Exposition().render(snapshot)
    return Served(page.text.decode(), page.openmetrics.decode(), snapshot)


def series(families: Iterable[Metric]) -> Series:
    found: Series = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def test_promtool_finds_nothing(served: Served) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=served.text,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_both_forms_hold_the_same_numbers(served: Served) -> None:
    assert len(served.in_text) == sum(not line.startswith("#") for line in served.text.splitlines())
    assert served.in_openmetrics == served.in_text


def test_both_forms_hold_the_same_numbers_where_an_agent_serves_them(tmp_path: Path) -> None:
    node = SimulatedNode(costless("mixed"), tmp_path / "node")
    node.build(FROZEN_AT)
    with AgentProcess(node.agent_settings(), tmp_path) as agent:
        agent.settled()
        for _ in range(MANY_TRIES):
            before = agent.snapshot().agent.collections
            text, openmetrics = (
                agent.get("/metrics", accept=kind).body.decode() for kind in (TEXT_TYPE, OPENMETRICS_TYPE)
            )
            if before == agent.snapshot().agent.collections:
                break
        else:
            pytest.fail("no two requests met the same collection")
    assert series(read_openmetrics(openmetrics)) == series(read_text(text))


def test_both_forms_declare_the_same_families(served: Served) -> None:
    def declared(families: Iterable[Metric]) -> dict[str, tuple[str, str]]:
        return {family.name: (family.type, family.documentation) for family in families}

    assert declared(read_text(served.text)) == declared(read_openmetrics(served.openmetrics))


def test_units_are_at_the_end_of_the_names(served: Served) -> None:
    units = {family.name: family.unit for family in read_openmetrics(served.openmetrics) if family.unit}
    # Of every device from its first pass on; some tools tell power and the like a little later.
    assert units["accelerator_last_read_timestamp_seconds"] == "seconds"
    assert all(name.endswith(unit) for name, unit in units.items())


VALUES: tuple[tuple[str, dict[str, str], Callable[[Device], float | None]], ...] = (
    ("accelerator_up", {}, lambda d: not d.stale),
    ("accelerator_utilization_ratio", {}, lambda d: d.utilization_ratio),
    ("accelerator_sm_active_ratio", {}, lambda d: d.sm_active_ratio),
    ("accelerator_memory_used_bytes", {}, lambda d: d.memory_used_bytes),
    ("accelerator_power_watts", {}, lambda d: d.power_watts),
    ("accelerator_energy_joules_total", {}, lambda d: d.energy_joules),
    ("accelerator_last_read_timestamp_seconds", {}, lambda d: d.read_at),
    ("accelerator_pcie_max_generation", {}, lambda d: d.pcie.max_generation if d.pcie else None),
    (
        "accelerator_clock_hertz",
        {"clock": "sm"},
        lambda d: next((c.hertz for c in d.clocks if c.domain == "sm"), None),
    ),
    (
        "accelerator_ecc_errors_total",
        {"severity": "corrected"},
        lambda d: next(
            (e.count for e in d.ecc if e.severity == "corrected" and not e.lifetime and e.block is None), None
        ),
    ),
)


@pytest.mark.parametrize(
    ("family", "labels", "value"),
    VALUES,
    ids=[family for family, _, _ in VALUES],
)
def test_the_page_holds_the_numbers_of_the_snapshot(
    served: Served, family: str, labels: dict[str, str], value: Callable[[Device], float | None]
) -> None:
    expected = {d.id: float(v) for d in served.snapshot.devices if (v := value(d)) is not None}
    found = {
        dict(its)["device"]: number
        for (name, its), number in served.in_openmetrics.items()
        if name == family and labels.items() <= dict(its).items()
    }
    # Not every vendor gives every value; NVIDIA's does give these, some on newer boards only.
    newer_only = family == "accelerator_sm_active_ratio"
    assert expected or newer_only or all(d.vendor is not Vendor("nvidia") for d in served.snapshot.devices)
    assert found == expected


def test_the_page_holds_the_processes_of_the_snapshot(served: Served) -> None:
    found = {
        (dict(labels)["device"], dict(labels)["pid"], dict(labels)["name"]): number
        for (name, labels), number in served.in_text.items()
        if name == "accelerator_process_memory_bytes"
    }
    assert found == {
        (p.device, str(p.pid), p.name): p.memory_bytes
        for p in served.snapshot.processes
        if p.memory_bytes is not None
    }
