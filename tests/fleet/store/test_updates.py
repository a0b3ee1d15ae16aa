"""Updates of snapshots: rows after an update are those of the whole snapshot."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.fleet.store.nodes import Clock

from accelscope.fleet.rows import ClusterView, NodeReport, NodeValues, ReportNeeded, SourceKind
from accelscope.fleet.sources.snapshots import BadDocument, decode_snapshot, decode_update
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.model import Health, HealthState, Snapshot
from accelscope.model.update import Structures, rows_of, structure_of, update_document
from accelscope.model.wire import read_snapshot, snapshot_document

_FOLDER = sorted((Path(__file__).parents[2] / "agent" / "snapshots").iterdir())[-1]
NODES = sorted(path.stem for path in _FOLDER.glob("*.json"))
# Of a device, its parts, a container or a process: what another reading may change without another structure.
_STEADY = {
    "index", "pid", "device_index", "started_at", "taken_at", "read_at", "since", "allocated", "processes",
    "last_seen", "first_seen", "lifetime",
}  # fmt: skip


def snapshot_of(name: str) -> Snapshot:
    return read_snapshot(json.loads((_FOLDER / f"{name}.json").read_text()))


def moved(snapshot: Snapshot, seed: int) -> Snapshot:
    """Another reading: all numbers of devices, containers and processes are others, some are absent."""
    chance = random.Random(seed)

    def move(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: move(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [move(item, key) for item in value]
        if key in _STEADY or isinstance(value, bool | str) or value is None:
            return value
        return type(value)(value * chance.uniform(0.5, 1.0))

    document = snapshot_document(snapshot)
    for part in ("devices", "pod_usages", "processes"):
        document[part] = move(document.get(part, []))
    for device in document["devices"]:
        if not device.get("stale") and chance.random() < 0.3:
            device.pop("power_watts", None)
    return read_snapshot({**document, "taken_at": snapshot.taken_at + 10})


class Side:
    """A store that is given one node's readings."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = FleetStore(clock=self.clock)
        self.store.declare([ClusterView(id="c", reachable=True)])

    def report(self, snapshot: Snapshot, structure: str = "a-1") -> None:
        document = json.dumps(snapshot_document(snapshot)).encode()
        decoded = decode_snapshot(document).snapshot
        self.store.take(
            "c",
            NodeReport(
                node=snapshot.node,
                source=SourceKind.AGENTS,
                taken_at=self.clock.now,
                snapshot=decoded,
                structure=structure,
            ),
        )

    def update(self, snapshot: Snapshot, structure: str = "a-1") -> None:
        self.store.take("c", update_of(snapshot, self.clock.now, structure))

    def rows(self) -> list[Any]:
        tables = (self.store.nodes, self.store.devices, self.store.pods, self.store.processes)
        return [[msgspec.to_builtins(row) for row in table.rows(table.positions())] for table in tables]


def update_of(snapshot: Snapshot, taken_at: float, structure: str = "a-1") -> NodeValues:
    return decode_update(
        update_document(rows_of(snapshot)),
        node=snapshot.node,
        source=SourceKind.AGENTS,
        taken_at=taken_at,
        structure=structure,
    )


@pytest.mark.parametrize("name", NODES)
def test_rows_after_updates_are_those_of_the_whole_snapshot(name: str) -> None:
    updated, whole = Side(), Side()
    first = snapshot_of(name)
    updated.report(first)
    whole.report(first)
    for seed in range(3):
        reading = moved(first, seed)
        assert structure_of(reading, rows_of(reading)) == structure_of(first, rows_of(first))
        for side in (updated, whole):
            side.clock.advance(10.0)
        updated.update(reading)
        whole.report(reading)
        assert updated.rows() == whole.rows()


def test_a_change_of_health_is_an_event_as_in_a_whole_snapshot() -> None:
    side, first = Side(), snapshot_of("nvidia-h100x8")
    side.report(first)
    lost = Health(HealthState.LOST, "fell off the bus")
    side.update(replace(first, devices=(replace(first.devices[0], health=lost), *first.devices[1:])))
    [event] = [event for event in side.store.events.after(0) if event.kind == "device_lost"]
    assert event.device == first.devices[0].id
    [row] = [row for row in side.rows()[1] if row["health"] == "lost"]
    assert row["health_reason"] == "fell off the bus"
    assert side.rows()[0][0]["devices_lost"] == 1


def other_process(snapshot: Snapshot) -> Snapshot:
    first, *others = snapshot.processes
    return replace(snapshot, processes=(replace(first, pid=first.pid + 1), *others))


def other_pod(snapshot: Snapshot) -> Snapshot:
    first, *others = snapshot.pod_usages
    return replace(snapshot, pod_usages=(replace(first, pod="another"), *others))


def other_driver(snapshot: Snapshot) -> Snapshot:
    first, *others = snapshot.devices
    return replace(snapshot, devices=(replace(first, driver_version="999"), *others))


def stale_device(snapshot: Snapshot) -> Snapshot:
    first, *others = snapshot.devices
    return replace(snapshot, devices=(replace(first, stale=True, read_at=1.0), *others))


@pytest.mark.parametrize("change", [other_process, other_pod, other_driver, stale_device])
def test_a_change_of_anything_else_is_another_structure(change: Callable[[Snapshot], Snapshot]) -> None:
    snapshot = snapshot_of("nvidia-shared")
    structures = Structures("a")
    names = [
        structures.name(structure_of(each, rows_of(each)))
        for each in (snapshot, moved(snapshot, 1), change(snapshot), snapshot)
    ]
    assert names == ["a-1", "a-1", "a-2", "a-3"]


def test_values_that_do_not_belong_to_the_stored_rows_are_rejected() -> None:
    side, snapshot = Side(), snapshot_of("nvidia-shared")
    with pytest.raises(ReportNeeded):
        side.update(snapshot)  # nothing is stored
    side.report(snapshot)
    before = side.rows()
    with pytest.raises(ReportNeeded):
        side.update(moved(snapshot, 1), structure="a-2")
    with pytest.raises(ReportNeeded):
        side.update(replace(snapshot, processes=snapshot.processes[1:]))
    side.clock.advance(200.0)
    side.store.tick()
    with pytest.raises(ReportNeeded):
        side.update(snapshot)  # the rows are marked as stale
    assert [row["id"] for row in side.rows()[1]] == [row["id"] for row in before[1]]


def test_updates_keep_a_node_fresh() -> None:
    side, snapshot = Side(), snapshot_of("nvidia-shared")
    side.report(snapshot)
    for _ in range(20):
        side.clock.advance(30.0)
        side.update(snapshot)
        side.store.tick()
    assert side.rows()[0][0]["state"] == "fresh"
    side.clock.advance(200.0)
    side.store.tick()
    assert side.rows()[0][0]["state"] == "stale"


def test_the_snapshot_of_a_node_knows_that_its_rows_are_newer() -> None:
    side, snapshot = Side(), snapshot_of("nvidia-shared")
    side.report(snapshot)
    assert not side.store.has_newer_values("c", snapshot.node)
    taken_at = side.clock.now
    side.clock.advance(10.0)
    side.update(moved(snapshot, 1))
    assert side.store.has_newer_values("c", snapshot.node)
    stored = side.store.snapshot("c", snapshot.node)
    assert stored is not None
    assert stored.taken_at == taken_at
    side.report(moved(snapshot, 1))
    assert not side.store.has_newer_values("c", snapshot.node)


def broken(**parts: Any) -> bytes:
    whole = json.loads(update_document(rows_of(snapshot_of("nvidia-h100x8"))))
    return json.dumps({**whole, **parts}).encode()


NUMBERS = len(json.loads(broken())["numbers"])


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{}",
        b"[]",
        broken(format=2),
        broken(rows=[8, 3]),
        broken(rows=[8, -3, 32]),
        broken(rows=[9, 3, 32]),
        broken(rows=[0, 10**12, 0], numbers=[]),
        broken(texts=[]),
        broken(texts=["well", None, None] * 8),
        broken(texts=["ok", "x" * 2000, None] * 8),
        broken(numbers=[]),
        broken(numbers=[1e19] * NUMBERS),
        broken(numbers=[-1.0] * NUMBERS),
        broken(numbers=["x"] * NUMBERS),
        broken(numbers="x"),
    ],
)
def test_a_broken_update_is_rejected(document: bytes) -> None:
    with pytest.raises(BadDocument):
        decode_update(document, node="n", source=SourceKind.AGENTS, taken_at=0.0, structure="a-1")


def test_absent_numbers_are_nan() -> None:
    values = update_of(snapshot_of("ascend-910b-x8"), 0.0)
    assert np.isnan(values.devices).any()
    assert np.isfinite(values.devices).any()
