"""The whole page of each ready-made node, byte for byte: a change of output is a diff in review.

    UPDATE_GOLDEN=1 make test ARGS=tests/agent/test_golden_pages.py

writes them anew. Time is fixed, self-metrics are left out.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.agent.collected import collect, collected

from accelscope.metrics.exposition import Exposition
from accelscope.model.wire import SCHEMA_VERSION, plain, read_snapshot, snapshot_document
from accelscope.simulate import ready_made

PAGES = Path(__file__).parent / "golden"
SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))

nodes = pytest.mark.parametrize("name", ready_made())


def compare(page: str, golden: Path) -> None:
    if UPDATE:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(page)
    assert golden.exists(), f"{golden.name} is not stored: run with UPDATE_GOLDEN=1 and look at it"
    assert page == golden.read_text()


@nodes
def test_page(name: str) -> None:
    page = Exposition(deny=("accelscope_*",)).render(collected(name))
    compare(page.text.decode(), PAGES / f"{name}.prom")


@pytest.mark.parametrize("name", ready_made("nvidia"))
def test_page_through_the_tool(name: str, tmp_path: Path) -> None:
    snapshot = collect(name, tmp_path, library=False)
    assert snapshot.readers[0].source == "nvidia-smi"
    compare(
        Exposition(deny=("accelscope_*",)).render(snapshot).text.decode(), PAGES / f"{name}.nvidia-smi.prom"
    )


@nodes
def test_a_snapshot_of_this_version_is_stored(name: str) -> None:
    """Stored snapshots are never changed: they are what agents of that version sent. If only a text of the
    snapshot changes, the new one is stored beside it under another name."""
    stored = SNAPSHOTS / SCHEMA_VERSION / f"{name}.json"
    if UPDATE and not stored.exists():
        stored.parent.mkdir(parents=True, exist_ok=True)
        document = snapshot_document(collected(name))
        stored.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    assert stored.exists(), "run with UPDATE_GOLDEN=1 to store it"


STORED = sorted(SNAPSHOTS.glob("*/*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_snapshots_of_earlier_versions_are_read_completely(path: Path) -> None:
    document = json.loads(path.read_text())
    assert_holds(plain(read_snapshot(document)), {k: v for k, v in document.items() if k != "schema_version"})


def assert_holds(read: Any, stored: Any, where: str = "") -> None:
    """Everything that was stored is there after reading; newer versions may have more."""
    if isinstance(stored, dict):
        assert isinstance(read, dict), where
        for key, value in stored.items():
            assert key in read, f"{where}.{key}"
            assert_holds(read[key], value, f"{where}.{key}")
    elif isinstance(stored, list):
        assert isinstance(read, list), where
        assert len(read) == len(stored), where
        for place, (one, other) in enumerate(zip(read, stored, strict=True)):
            assert_holds(one, other, f"{where}[{place}]")
    else:
        assert read == stored, where
