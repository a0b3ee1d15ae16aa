"""A snapshot goes over the wire and comes back the same; other versions are read or refused."""

import json
from typing import Any

import pytest

from accelscope.model import (
    Absence,
    AbsenceReason,
    AgentState,
    Clock,
    Device,
    Health,
    HealthState,
    Pcie,
    Process,
    ProcessType,
    ReaderState,
    ReasonCount,
    Sensor,
    Snapshot,
    Vendor,
)
from accelscope.model.wire import SchemaError, drop_unknown_vendors, plain, read_snapshot, snapshot_document

SNAPSHOT = Snapshot(
    node="node-1",
    taken_at=1000.5,
    agent=AgentState(version="1", started_at=1.0, config_reloads=(ReasonCount("applied", 2),)),
    labels=(("rack", "7"),),
    readers=(ReaderState(vendor=Vendor("nvidia"), found=True, up=True, errors=(ReasonCount("timeout", 3),)),),
    devices=(
        Device(
            vendor=Vendor("nvidia"),
            id="nvidia:GPU-1",
            health=Health(HealthState.WARNING, "hot"),
            sensors=(Sensor("gpu", 40.0),),
            clocks=(Clock("sm", 1e9),),
            pcie=Pcie(generation=5),
            utilization_ratio=0.0,
            memory_used_bytes=0,
        ),
    ),
    processes=(Process(pid=7, device="nvidia:GPU-1", type=ProcessType.BOTH, mps=False),),
)


def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(snapshot_document(SNAPSHOT)))
    return loaded


def test_a_snapshot_comes_back_the_same() -> None:
    assert read_snapshot(document()) == SNAPSHOT


def test_absent_is_left_out_and_zero_is_not() -> None:
    device = plain(SNAPSHOT.devices[0])
    assert device["utilization_ratio"] == 0.0
    assert device["memory_used_bytes"] == 0
    assert "power_watts" not in device
    assert device["health"] == {"state": "warning", "reason": "hot"}


def test_fields_that_a_newer_minor_added_are_ignored() -> None:
    newer = document() | {"schema_version": "1.9", "colour": "blue"}
    assert read_snapshot(newer) == SNAPSHOT


def test_words_that_a_newer_minor_added_cost_as_little_as_can_be() -> None:
    newer = document() | {"schema_version": "1.9"}
    [device, *others] = newer["devices"]
    device["health"]["state"] = "retired"
    device["absent"] = [
        {"field": "power_watts", "reason": "asleep"},
        {"field": "fan_ratio", "reason": "not_supported"},
    ]
    newer["processes"][0]["type"] = "video"
    read = read_snapshot(newer)
    assert len(read.devices) == 1 + len(others)
    assert read.devices[0].health == Health(HealthState.UNKNOWN, reason="hot")
    assert read.devices[0].absent == (Absence("fan_ratio", AbsenceReason.NOT_SUPPORTED),)
    assert len(read.processes) == len(SNAPSHOT.processes)
    assert read.processes[0].type is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": "2.0"}, "version 2.0, but this release reads 1."),
        ({"schema_version": None}, "version None"),
        ({"node": 7}, r"\.node: expected str"),
        ({"taken_at": "now"}, r"\.taken_at: expected float"),
        ({"devices": {}}, r"\.devices: expected a list"),
        (
            {"devices": [{"vendor": "acme", "id": "x"}]},
            r'\.devices\[0\]\.vendor: this version does not support the vendor "acme"; update accelscope',
        ),
        ({"devices": [{"vendor": "nvidia"}]}, r"\.devices\[0\]\.id: missing"),
        ({"agent": []}, r"\.agent: expected an object"),
        ({"labels": [["rack", "7", "8"]]}, r"\.labels\[0\]: expected a list of 2, got 3"),
        ({"labels": [["rack"]]}, r"\.labels\[0\]: expected a list of 2, got 1"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_snapshot(document() | changes)


def test_of_vendors_that_are_not_known_all_is_left_out_and_the_devices_are_told() -> None:
    strange = {"vendor": "acme", "id": "acme:1"}
    newer = document() | {"schema_version": "1.9"}
    for name, item in {
        "readers": {"vendor": "acme", "found": True, "up": True},
        "devices": strange,
        "processes": {"pid": 7, "device": "acme:1"},
        "allocations": {"device": "acme:1", "device_id": "1"},
        "pod_usages": {"device": "acme:1"},
        "unattributed": {"device": "acme:1"},
        "balances": {"device": "acme:1"},
    }.items():
        newer[name] = [*newer.get(name, ()), item]
    newer["devices"] += [{"vendor": "bolt", "id": "bolt:1"}, strange | {"id": "acme:2"}]
    known, remark = drop_unknown_vendors(newer)
    assert read_snapshot(known) == SNAPSHOT
    assert remark == (
        'left out devices of vendors that this version does not support: "acme" (2), "bolt" (1)'
    )


def test_a_reader_of_a_vendor_that_is_not_known_is_passed_over() -> None:
    newer = document()
    newer["readers"].append({"vendor": "acme", "found": False, "up": False})
    known, remark = drop_unknown_vendors(newer)
    assert read_snapshot(known) == SNAPSHOT
    assert remark is None


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {"devices": 7, "readers": {}},
        {"devices": [7, {"vendor": 7}, {"vendor": None}, {}], "processes": [{"device": []}]},
    ],
)
def test_what_is_wrong_otherwise_stays_for_the_reader_to_find(odd: object) -> None:
    assert drop_unknown_vendors(odd) == (odd, None)


def test_beside_a_vendor_that_is_not_known_too() -> None:
    odd = document() | {"devices": [{"vendor": "acme", "id": "x"}], "readers": {}}
    with pytest.raises(SchemaError, match=r"\.readers: expected a list"):
        read_snapshot(drop_unknown_vendors(odd)[0])


@pytest.mark.parametrize("nonsense", [None, [], "text", 7])
def test_a_snapshot_is_an_object(nonsense: object) -> None:
    with pytest.raises(SchemaError, match="JSON object"):
        read_snapshot(nonsense)
