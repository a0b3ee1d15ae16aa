"""Mutation testing for a moment: that it works, and what it says. `make prove` takes its time."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def test_faults_are_put_in_and_noticed() -> None:
    finished = subprocess.run(
        [sys.executable, REPOSITORY / "scripts" / "mutate", "--short"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if "mutmut cannot be installed" in finished.stderr:
        pytest.skip(finished.stderr.strip().splitlines()[-1])
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = re.findall(r"^(\w+): (\d+) of (\d+) tried: .*?\b(\d+) killed", finished.stdout, re.MULTILINE)
    assert [name for name, *_ in found] == ["cgroup", "checkpoint"], finished.stdout
    for _, tried, known, killed in found:
        assert 0 < int(tried) <= int(known)
        assert int(killed) > int(tried) / 2, finished.stdout
