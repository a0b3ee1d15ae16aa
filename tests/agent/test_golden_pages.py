"""The whole page of each ready-made node, byte for byte: a change of output is a diff in review.

    UPDATE_GOLDEN=1 make test ARGS=tests/agent/test_golden_pages.py

writes them anew. Time is fixed, self-metrics are left out.
"""

import json
import os
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.costless import costless
from tests.waiting import PATIENCE_SECONDS

from accelscope.agent.attribution_options import attribution_options
from accelscope.agent.collector import Collector, Pace
from accelscope.agent.runner import Deadlines, Runner
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attributor
from accelscope.metrics.exposition import Exposition
from accelscope.model import Snapshot, Vendor
from accelscope.model.wire import SCHEMA_VERSION, plain, read_snapshot, snapshot_document
from accelscope.readers.registry import open_reader
from accelscope.simulate import SimulatedNode, ready_made
from accelscope.simulate.kubernetes import SimulatedCluster

PAGES = Path(__file__).parent / "golden"
SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))
WALL_CLOCK = 1_800_000_000.0
SIMULATED_TIMES = (7200.0, 7210.0)  # two collections: some values are measured between two samples

nodes = pytest.mark.parametrize("name", ready_made())


def collect(name: str, folder: Path, *, library: bool = True) -> Snapshot:
    """What the agent makes of a ready-made node at a fixed time."""
    node = SimulatedNode(costless(name), folder / "node")
    node.build(SIMULATED_TIMES[0])
    users = folder / "passwd"
    users.write_text("root:x:0:0::/root:/bin/sh\nalice:x:1001:1001::/home/alice:/bin/sh\n")
    with SimulatedCluster(node, folder / "cluster") as cluster:
        settings = replace(
            AgentSettings(**{**node.agent_settings(), **cluster.agent_settings()}),  # type: ignore[arg-type]
            passwd_file=str(users),
            pod_labels=("app",),
            node_labels=("kubernetes.io/arch",),
            gpu_allocation_file="",
        )
        if not library:
            settings = replace(settings, nvml_library=str(folder / "no-library"))
        return collect_with(settings, node)


@cache
def collected(name: str) -> Snapshot:
    """That snapshot, made once for all tests."""
    with TemporaryDirectory() as folder:
        return collect(name, Path(folder))


def collect_with(settings: AgentSettings, node: SimulatedNode) -> Snapshot:
    changed = threading.Condition()
    simulated = [0.0]
    options = replace(
        settings.reader_options,
        tool_interval_seconds=0,
        clock=lambda: WALL_CLOCK,
        monotonic=lambda: simulated[0],
    )
    runners = [
        Runner(
            open_reader(Vendor(vendor), options),
            deadlines=Deadlines(30, 30, 60),
            changed=changed,
            clock=lambda: WALL_CLOCK,
        )
        for vendor in node.spec.vendors
    ]
    attributor = Attributor(
        attribution_options(settings, node.spec.name, {}),
        clock=lambda: WALL_CLOCK,
        monotonic=lambda: simulated[0],
    )
    collector = Collector(
        runners,
        attributor,
        node=node.spec.name,
        version="golden",
        pace=Pace(60.0),
        changed=changed,
        publish=lambda _: None,
        clock=lambda: WALL_CLOCK,
    )
    collector.labels = (("rack", "7"),)
    try:
        attributor.start()
        assert attributor.wait_for_first_lists(PATIENCE_SECONDS)
        for at in SIMULATED_TIMES:
            node.write(at)
            simulated[0] = at
            snapshot = collector.collect()
    finally:
        collector.stop()
    return snapshot


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
    """Stored snapshots are never changed: they are what agents of that version sent."""
    stored = SNAPSHOTS / SCHEMA_VERSION / f"{name}.json"
    if UPDATE and not stored.exists():
        stored.parent.mkdir(parents=True, exist_ok=True)
        document = snapshot_document(collected(name))
        stored.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    assert stored.exists(), "run with UPDATE_GOLDEN=1 to store it"


STORED = sorted(SNAPSHOTS.glob("*/*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_snapshots_of_earlier_versions_are_read_whole(path: Path) -> None:
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
