"""Snapshots of older and newer versions, and invalid documents."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from accelscope.fleet.sources.snapshots import BadDocument, IncompatibleSchema, decode_light, decode_snapshot
from accelscope.model import HealthState, OwnerKind, Vendor
from accelscope.model.wire import SCHEMA_VERSION, read_snapshot

STORED = sorted((Path(__file__).parents[2] / "agent" / "snapshots").glob("*/*.json"))
MINIMAL: dict[str, Any] = {
    "schema_version": "1.9",
    "node": "n1",
    "taken_at": 1000.0,
    "agent": {"version": "9.9", "started_at": 1.0},
}


def decoded(document: object) -> Any:
    return decode_snapshot(json.dumps(document).encode())


def test_there_are_stored_snapshots_of_every_minor() -> None:
    assert {path.parent.name for path in STORED} >= {"1.0", "1.1", "1.2"}


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_stored_snapshots_are_read_as_the_model_itself_reads_them(path: Path) -> None:
    result = decode_snapshot(path.read_bytes())
    assert result.whole
    assert result.snapshot == read_snapshot(json.loads(path.read_text()))


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_light_model_has_the_same_fields_and_values(path: Path) -> None:
    seen, snapshot = decode_light(path.read_bytes()), read_snapshot(json.loads(path.read_text()))
    assert seen.whole
    assert to_builtins(seen.snapshot) == to_builtins(snapshot)
    assert [device.vendor for device in seen.snapshot.devices] == [d.vendor for d in snapshot.devices]


def test_a_document_that_the_light_decoder_rejects_is_decoded_leniently() -> None:
    device = {"vendor": "nvidia", "id": "nvidia:a", "health": {"state": "drowsy"}}
    result = decode_light(json.dumps({**MINIMAL, "devices": [device]}).encode())
    assert not result.whole
    assert result.snapshot.devices[0].health.state is HealthState.UNKNOWN


def test_fields_of_a_newer_minor_version_are_ignored() -> None:
    device = {"vendor": "nvidia", "id": "nvidia:a", "health": {"state": "ok"}, "quantum_foam": [1, {"a": 2}]}
    result = decoded({**MINIMAL, "devices": [device], "weather": "rain"})
    assert result.whole
    assert [found.id for found in result.snapshot.devices] == ["nvidia:a"]


def test_only_unsupported_values_of_a_newer_minor_version_are_omitted() -> None:
    document = {
        **MINIMAL,
        "devices": [
            {
                "vendor": "nvidia",
                "id": "nvidia:a",
                "health": {"state": "drowsy", "reason": "it yawns"},
                "utilization_ratio": 0.5,
                "absent": [
                    {"field": "power_watts", "reason": "on_holiday"},
                    {"field": "fans", "reason": "not_supported"},
                ],
            },
            {"vendor": "cerebras", "id": "cerebras:b"},
        ],
        "readers": [
            {"vendor": "cerebras", "found": True, "up": True},
            {"vendor": "nvidia", "found": True, "up": True},
        ],
        "processes": [
            {"pid": 7, "device": "nvidia:a", "type": "dreaming", "owner": {"kind": "robot", "name": "r2"}},
            {"pid": 8, "device": "cerebras:b"},
        ],
        "unattributed": [{"device": "nvidia:a", "kind": "robot", "reason": "because"}],
    }
    result = decoded(document)
    snapshot = result.snapshot
    assert not result.whole
    assert result.remark == ('left out devices of vendors that this version does not support: "cerebras" (1)')
    [device] = snapshot.devices
    assert device.health.state is HealthState.UNKNOWN
    assert device.health.reason == "it yawns"
    assert device.utilization_ratio == 0.5
    assert [absence.field for absence in device.absent] == ["fans"]
    assert [reader.vendor for reader in snapshot.readers] == [Vendor("nvidia")]
    [process] = snapshot.processes
    assert process.type is None
    assert process.owner is not None
    assert process.owner.kind is OwnerKind.UNKNOWN
    assert snapshot.unattributed == ()


@pytest.mark.parametrize("version", ["2.0", "0.9", "17"])
@pytest.mark.parametrize("first", [True, False])
def test_another_major_version_is_rejected_with_both_versions(version: str, first: bool) -> None:
    head, tail = {"schema_version": version}, {"node": "n1"}
    document = {**head, **tail} if first else {**tail, **head}
    with pytest.raises(IncompatibleSchema):
        decode_light(json.dumps(document).encode())
    with pytest.raises(IncompatibleSchema) as raised:
        decoded(document)
    assert version in str(raised.value)
    assert SCHEMA_VERSION in str(raised.value)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"1.1"',
        b"\x00\xff\xfe",
        b"<html>502 Bad Gateway</html>",
        b'{"node": "n1"}',
        b'{"schema_version": 1.1}',
        b'{"schema_version":"1.1"}',
        b'{"schema_version":"1.1","node":7,"taken_at":1,"agent":{"version":"1","started_at":1}}',
        b'{"schema_version":"1.1","node":"n","taken_at":"noon","agent":{"version":"1","started_at":1}}',
        b'{"schema_version":"1.1","node":"n","taken_at":1,"agent":{"version":"1","started_at":1},"devices":7}',
        b'{"schema_version":"1.1","x":' + b"[" * 100_000,
        b'{"schema_version":"1.1","node":"n","taken_at":1e999,"agent":{"version":"1","started_at":1}}',
        b'{"schema_version":"1.1","node":"n","taken_at":1,"agent":{"version":"1","started_at":1},'
        b'"devices":[{"vendor":"amd","id":"a","memory_used_bytes":' + b"9" * 400 + b"}]}",
    ],
)
def test_an_invalid_snapshot_is_rejected_with_one_line(document: bytes) -> None:
    with pytest.raises(BadDocument):
        decode_light(document)
    with pytest.raises(BadDocument) as raised:
        decode_snapshot(document)
    assert str(raised.value).isprintable()
