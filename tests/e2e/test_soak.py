"""A short soak: what grows fast with pods, processes, scrapes or reloads shows in it, and what is lost from
sight. A leak of less than half a KiB for each process does not: `make prove` looks for that, in a day's."""

import re
import sys

import pytest
from tests.e2e.proofs import run


@pytest.fixture(scope="module")
def printed() -> str:
    finished = run(sys.executable, "-m", "tools.soak", "--short", seconds=600)
    assert "Soak\n----" in finished.stdout, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.parametrize("what", ["threads", "files", "series", "processes", "pods"])
def test_what_comes_and_goes_leaves_nothing(printed: str, what: str) -> None:
    assert re.search(rf"^  {what} +ok ", printed, re.MULTILINE), printed


def test_every_scrape_is_answered(printed: str) -> None:
    assert "a scrape failed" not in printed
    assert re.search(r"^  scrapes +ok ", printed, re.MULTILINE), printed
    assert re.search(r"^Scrapes: .*\bkept \d", printed, re.MULTILINE), printed


def test_what_should_happen_did(printed: str) -> None:
    for what in ("lost", "vanished", "hang", "driver not loaded", "certificate rotated", "kubelet restarted"):
        assert re.search(rf"^Happened: .*\b{what} \d", printed, re.MULTILINE), printed


def test_memory_is_flat(printed: str) -> None:
    assert re.search(r"^  RSS +ok ", printed, re.MULTILINE), printed
