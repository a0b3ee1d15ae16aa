"""Runs promtool: checks rule files, and evaluates queries over given series."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.monitoring.rule_case import Series, answer_group, write

NO_RULES: Mapping[str, Any] = {"groups": []}


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (make test installs it)")
    return subprocess.run([found, *words], capture_output=True, text=True, check=False, timeout=120)


def assert_answers(
    folder: Path,
    given: Series,
    answers: Mapping[str, float | None],
    *,
    rules: Mapping[str, Any] = NO_RULES,
    at: str = "10m",
) -> None:
    """`answers`: query -> value without labels; None for an empty result."""
    file = folder / "answers.yaml"
    write(file, dict(rules), [answer_group(given, answers, at)])
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
