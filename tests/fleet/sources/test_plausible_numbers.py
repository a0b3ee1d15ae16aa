"""Impossible numbers and the limits of a node, for all sources."""

import json
import math
from typing import Any

import pytest

from accelscope.fleet.rows import NodeFailure, NodeReport, SourceKind
from accelscope.fleet.sources.snapshots import (
    BadDocument,
    SnapshotTooLarge,
    check_snapshot,
    decode_light,
    decode_snapshot,
    make_report,
)
from accelscope.model import AgentState, Device, Process, Sensor, Snapshot, Vendor

DEVICE: dict[str, Any] = {"vendor": "nvidia", "id": "nvidia:a", "power_watts": 70.0}
MINIMAL: dict[str, Any] = {
    "schema_version": "1.0",
    "node": "n1",
    "taken_at": 1000.0,
    "agent": {"version": "9.9", "started_at": 1.0},
}

ABSURD = [
    ("memory_total_bytes", -5),
    ("memory_total_bytes", int("9" * 39)),
    ("memory_used_bytes", 10**19),
    ("index", -3),
    ("index", 10**30),
    ("temperature_celsius", 1e308),
    ("temperature_celsius", -274),
    ("utilization_ratio", 1e300),
    ("utilization_ratio", -0.5),
    ("power_watts", -1e308),
    ("energy_joules", 1e16),
    ("uptime_seconds", -1),
    ("performance_state", -(2**60)),
    ("read_at", -1e300),
]


def written(*devices: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({**MINIMAL, "devices": devices, **fields}).encode()


def snapshot(*devices: Device, processes: tuple[Process, ...] = (), taken_at: float = 1000.0) -> Snapshot:
    return Snapshot(
        node="n1",
        taken_at=taken_at,
        agent=AgentState(version="", started_at=1.0),
        devices=devices,
        processes=processes,
    )


@pytest.mark.parametrize("decode", [decode_light, decode_snapshot])
@pytest.mark.parametrize(("field", "value"), ABSURD)
def test_an_impossible_number_is_absent_and_listed(decode: Any, field: str, value: float) -> None:
    result = decode(written({**DEVICE, field: value}, {**DEVICE, "id": "nvidia:b", "index": 1}))
    spoilt, good = result.snapshot.devices
    assert getattr(spoilt, field) is None
    assert (spoilt.id, good.index, good.power_watts) == ("nvidia:a", 1, 70.0)
    assert not result.whole  # the document must not be decoded again without checks
    assert field in result.remark


@pytest.mark.parametrize(("field", "value"), [*ABSURD, ("power_watts", math.inf), ("power_watts", math.nan)])
def test_an_impossible_number_of_an_assembled_snapshot_is_absent(field: str, value: float) -> None:
    fields: dict[str, Any] = {"vendor": Vendor("nvidia"), "id": "nvidia:a", field: value}
    device = Device(**fields)
    update = make_report("n1", SourceKind.PROMETHEUS, 5.0, snapshot(device))
    assert isinstance(update, NodeReport)
    assert getattr(update.snapshot.devices[0], field) is None
    assert update.remark is not None
    assert field in update.remark


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("utilization_ratio", 1.02),
        ("temperature_celsius", -40.0),
        ("memory_total_bytes", 2**40),
        ("numa_node", -1),
        ("power_watts", 0.0),
        ("energy_joules", 3e9),
        ("read_at", 1.8e9),
    ],
)
def test_unusual_but_possible_numbers_are_kept(field: str, value: float) -> None:
    result = decode_light(written({**DEVICE, field: value}))
    assert (result.whole, result.remark) == (True, None)
    assert getattr(result.snapshot.devices[0], field) == value


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("cpu_ratio", 511.5, True),  # a process may keep all CPUs of a large node busy
        ("cpu_ratio", -0.1, False),
        ("cpu_ratio", 1e9, False),
        ("resident_memory_bytes", 2**42, True),
        ("resident_memory_bytes", -1, False),
        ("started_at", 1.8e9, True),
        ("started_at", -1e300, False),
    ],
)
def test_host_usage_of_a_process_is_limited(field: str, value: float, kept: bool) -> None:
    result = decode_light(written(DEVICE, processes=[{"pid": 7, "device": "nvidia:a", field: value}]))
    assert getattr(result.snapshot.processes[0], field) == (value if kept else None)
    assert result.whole is kept


def test_a_member_without_its_required_number_is_omitted() -> None:
    hot = {**DEVICE, "sensors": [{"name": "die", "celsius": 1e9}, {"name": "board", "celsius": 40}]}
    processes = [{"pid": -1, "device": "nvidia:a"}, {"pid": 7, "device": "nvidia:a"}]
    found = decode_light(written(hot, processes=processes)).snapshot
    assert found.devices[0].sensors == (Sensor("board", 40.0),)
    assert [process.pid for process in found.processes] == [7]


def test_a_reading_with_an_impossible_time_is_rejected() -> None:
    with pytest.raises(BadDocument, match="taken_at"):
        decode_light(written(DEVICE, taken_at=1e300))
    failure = make_report("n1", SourceKind.EXEC, 5.0, snapshot(taken_at=-1e300))
    assert isinstance(failure, NodeFailure)
    assert failure.reason == "bad_answer"


def test_a_value_of_a_wrong_type_is_a_failure_of_its_node() -> None:
    nameless: Any = Sensor(None, 40.0)  # type: ignore[arg-type]
    device = Device(vendor=Vendor("nvidia"), id="nvidia:a", sensors=(nameless,))
    failure = make_report("n1", SourceKind.PROMETHEUS, 5.0, snapshot(device))
    assert isinstance(failure, NodeFailure)
    assert failure.reason == "bad_answer"
    assert "name" in failure.text


def many(member: str, count: int) -> dict[str, list[dict[str, Any]]]:
    one: dict[str, Any] = {
        "devices": DEVICE,
        "processes": {"pid": 1},
        "pod_usages": {"device": "nvidia:a", "namespace": "a", "pod": "b", "container": "c"},
    }[member]
    return {member: [one] * count}


@pytest.mark.parametrize(
    ("member", "most"), [("devices", 1024), ("processes", 16_384), ("pod_usages", 16_384)]
)
@pytest.mark.parametrize("decode", [decode_light, decode_snapshot])
def test_a_snapshot_that_exceeds_the_limits_of_a_node_is_rejected(
    decode: Any, member: str, most: int
) -> None:
    enough = decode(json.dumps({**MINIMAL, **many(member, most)}).encode())
    assert len(getattr(enough.snapshot, member)) == most
    for spoilt in ({}, {"interval_seconds": -1}):
        with pytest.raises(SnapshotTooLarge, match=str(most)):
            decode(json.dumps({**MINIMAL, **many(member, most + 1), **spoilt}).encode())


def test_the_limits_of_a_node_apply_to_all_sources() -> None:
    crowd = tuple(Device(vendor=Vendor("amd"), id=f"amd:{number}") for number in range(1025))
    failure = make_report("n1", SourceKind.PROMETHEUS, 5.0, snapshot(*crowd))
    assert isinstance(failure, NodeFailure)
    assert failure.reason == "too_large"
    with pytest.raises(SnapshotTooLarge):
        check_snapshot(snapshot(processes=tuple(Process(pid=number) for number in range(16_385))))


def test_a_large_invalid_document_is_rejected_without_the_lenient_decoder() -> None:
    """It would delay all other nodes."""
    labels = [[f"label{number}", "x" * 1000] for number in range(1100)]
    assert decode_light(written(DEVICE, labels=labels)).whole
    with pytest.raises(BadDocument, match="power_watts"):
        decode_light(written({**DEVICE, "power_watts": -1}, labels=labels))
