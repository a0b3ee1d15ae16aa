"""The benchmark runs, and what it prints is not wrong by an order of magnitude: machines are noisy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SUBJECTS = ("collection", "rendering", "attribution")
ORDER_OF_MAGNITUDE = 10


@pytest.fixture(scope="module")
def printed() -> str:
    finished = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", *(f"--only={subject}" for subject in SUBJECTS)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize("row", ["agent through NVML", "agent through nvidia-smi"])
def test_a_collection_costs_about_what_its_driver_calls_cost(printed: str, row: str) -> None:
    found = re.search(rf"^{row} .* ([0-9.]+) x$", printed, re.MULTILINE)
    assert found is not None, printed
    assert 1 <= float(found[1]) < ORDER_OF_MAGNITUDE


@pytest.mark.parametrize("where", ["simulated /proc", "the machine's /proc"])
def test_known_processes_cost_far_less_than_new_ones(printed: str, where: str) -> None:
    found = re.search(rf"^[0-9]+, {where} .* first .* ([0-9.]+) x$", printed, re.MULTILINE)
    assert found is not None, printed
    assert float(found[1]) > 3


def test_contracts_that_were_measured_are_listed(printed: str) -> None:
    assert "Contracts" in printed
    assert "CPU per collection beside the same NVML calls in C" in printed
    assert "cold start" not in printed
