"""The parsers under the fuzzing engine, for a moment each: `make prove` takes its time."""

import os
import subprocess
from pathlib import Path

import pytest

from accelscope.parsing.registry import sources

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 30


def test_no_input_that_breaks_a_parser_is_found_in_a_moment() -> None:
    finished = subprocess.run(
        [REPOSITORY / "scripts" / "fuzz"],
        cwd=REPOSITORY,
        env={**os.environ, "FUZZ_SECONDS": str(SECONDS)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if "atheris cannot be installed" in finished.stderr:
        pytest.skip(finished.stderr.strip().splitlines()[-1])
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "fuzz: nothing found" in finished.stdout
    lines = [line.split() for line in finished.stdout.splitlines() if " inputs " in line]
    assert {words[0] for words in lines} == set(sources())
    assert all(int(words[1]) > 0 for words in lines), finished.stdout
