"""The benchmark runs, and what it prints is not wrong by an order of magnitude: machines are noisy."""

import re
import sys

import pytest
from bench.peers import OUT_OF_REACH, PEERS
from tests.e2e.proofs import run

from accelscope.cli.main import COMMANDS

SUBJECTS = ("collection", "rendering", "attribution", "commands")
ORDER_OF_MAGNITUDE = 10
SCENE = "slow driver"
COLUMNS = (
    "node",
    "exporter",
    "series",
    "RSS MiB",
    "CPU ms/collection",
    "CPU ms/first scrape",
    "first p50 ms",
    "new p50 ms",
    "p99",
    "kept p50 ms",
    "p99",
    "start ms",
    "remark",
)


def _measure(*arguments: str) -> str:
    """What the benchmark prints."""
    finished = run(sys.executable, "-m", "bench", "--quick", *arguments, seconds=400)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def printed() -> str:
    return _measure(*(f"--only={subject}" for subject in SUBJECTS))


@pytest.fixture(scope="module")
def compared() -> list[list[str]]:
    """Cells of the table of exporters, on one node, with those exporters that are there."""
    text = _measure("--only=exporters", f"--scene={SCENE}")
    [table] = re.findall(r"^Exporters side by side\n-+\n(.*?)\n  \S", text, re.MULTILINE | re.DOTALL)
    return [re.split(" {2,}", line) for line in table.splitlines()]


@pytest.mark.parametrize("row", ["agent through NVML", "agent through nvidia-smi"])
def test_a_collection_costs_about_what_its_driver_calls_cost(printed: str, row: str) -> None:
    found = re.search(rf"^{row} .* ([0-9.]+) x$", printed, re.MULTILINE)
    assert found is not None, printed
    assert 1 / ORDER_OF_MAGNITUDE < float(found[1]) < ORDER_OF_MAGNITUDE


@pytest.mark.parametrize("where", ["simulated /proc", "the machine's /proc"])
def test_known_processes_cost_far_less_than_new_ones(printed: str, where: str) -> None:
    found = re.search(rf"^[0-9]+, {where} .* first .* ([0-9.]+) x$", printed, re.MULTILINE)
    assert found is not None, printed
    assert float(found[1]) > 3


@pytest.mark.parametrize("command", COMMANDS)
def test_cost_of_every_command_is_told(printed: str, command: str) -> None:
    told = re.search(rf"^{command}\b.* ([0-9.]+) x .* ([0-9.]+) x .* ([0-9.]+) x$", printed, re.MULTILINE)
    assert told is not None, printed
    help_time, useful_time, memory = map(float, told.groups())
    assert 1 <= help_time < 15 * ORDER_OF_MAGNITUDE
    assert 1 <= useful_time < 60 * ORDER_OF_MAGNITUDE
    assert 1 <= memory < ORDER_OF_MAGNITUDE * 2


def test_contracts_that_were_measured_are_listed(printed: str) -> None:
    assert "Contracts" in printed
    assert "CPU per collection beside the same NVML calls in C" in printed
    assert "cold start" not in printed


def test_exporters_are_compared_in_every_respect(compared: list[list[str]]) -> None:
    head, *rows = compared
    assert head == list(COLUMNS)
    [figures] = [row[2:] for row in rows if row[:2] == [SCENE, "agent"]]
    assert len(figures) == len(COLUMNS[2:-1])  # no remark
    assert all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", figure) for figure in figures), figures


@pytest.mark.parametrize(
    "exporter",
    [*(peer.name for peer in PEERS if peer.reads_devices), *OUT_OF_REACH, "agent to the best peer"],
)
def test_every_exporter_has_figures_or_a_reason(compared: list[list[str]], exporter: str) -> None:
    [row] = [row for row in compared if row[1] == exporter]
    assert len(row) > 2, row
    if row[0] != SCENE:
        assert re.match("not (obtained|measured): .", row[-1]), row
