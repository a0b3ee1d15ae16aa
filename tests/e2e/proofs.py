"""What `make prove` runs, for a moment each: processes in the root of the repository."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.repository import REPOSITORY


def run(*command: str | Path, seconds: float, **variables: str) -> subprocess.CompletedProcess[str]:
    """Ended within these seconds, however it ended."""
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def printed_with(package: str, *command: str | Path, seconds: float, **variables: str) -> str:
    """By a script that installs this package first; the test is skipped where it cannot be installed."""
    finished = run(*command, seconds=seconds, **variables)
    if f"{package} cannot be installed" in finished.stderr:
        pytest.skip(finished.stderr.strip().splitlines()[-1])
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout
