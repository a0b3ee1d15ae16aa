"""A node of a simulated fleet plays what the real agent read on a simulated node."""

import errno
import gzip
import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from accelscope.model.wire import read_snapshot
from accelscope.simulate import DescriptionError, load_node
from accelscope.simulate.fleet import recording
from accelscope.simulate.fleet.agent_session import AgentSession, metrics_page
from accelscope.simulate.fleet.description import made_fleet
from accelscope.simulate.fleet.faults import FleetFault, FleetFaultKind
from accelscope.simulate.fleet.fleet import SimulatedFleet
from accelscope.simulate.fleet.node import FleetNode, Variant
from accelscope.simulate.fleet.recording import Identities, RecordingRequest, recorded

EPOCH = 1_800_000_000.0
INTERVAL = 10.0
KINDS = ("nvidia-shared", "ascend-910b-x8")


def played(kind: str, number: int = 7) -> FleetNode:
    spec = load_node(kind)
    [made] = recorded([RecordingRequest(spec.text, spec.seed, INTERVAL)])
    return FleetNode(f"node-{number}", number, Variant(spec, made, INTERVAL), seed=1, epoch=EPOCH)


def compared(document: dict[str, Any]) -> Any:
    """Without identities, times and what the machine's own speed decides."""
    left_out = {
        "id", "uuid", "serial", "uid", "pod", "pod_uid", "container_id", "device", "device_id", "partition",
        "taken_at", "read_at", "last_success", "last_seen", "started_at", "duration_seconds", "node", "name",
    }  # fmt: skip

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: kept(member) for key, member in value.items() if key not in left_out}
        if isinstance(value, list | tuple):
            return [kept(member) for member in value]
        return round(value, 6) if isinstance(value, float) else value

    return kept(document)


@pytest.mark.parametrize("kind", KINDS)
def test_a_played_document_is_what_the_agent_serves(kind: str) -> None:
    node, spec = played(kind), load_node(kind)
    request = RecordingRequest(spec.text, spec.seed, INTERVAL)
    session = AgentSession(spec, INTERVAL, request.begin())
    try:
        own = [session.collect(request.begin() + INTERVAL * number).document() for number in (1, 2)]
    finally:
        session.close()
    frames = [node.variant.recording.frames[place].document() for place in (0, 1)]
    assert compared({"all": frames}) == compared({"all": json.loads(json.dumps(own))})
    first = next(at for at in range(0, 300, 10) if node.simulated(at)[1] == request.begin() + INTERVAL)
    document = json.loads(node.document(first))
    if node.tick(first) + node._ahead < node.variant.length:  # in the first round counters are as recorded
        assert compared(document) == compared(frames[0])
    assert document["node"] == "node-7"
    assert document["taken_at"] == pytest.approx(node.taken_at(first), abs=0.001)


@pytest.mark.parametrize("kind", ["nvidia-sick", "mixed"])
def test_times_in_a_document_are_those_of_the_fleet_and_not_of_the_recording(kind: str) -> None:
    node = played(kind)
    fault = FleetFault(kind="xid", cluster="c", node="node-7", vendor="nvidia", device=0, code=48, begin=20.0)
    node.set_faults((fault,), 30.0)
    text = node.document(60.0)
    recorded_at = node.variant.node.epoch

    def numbers(value: Any, key: str = "") -> list[str]:
        if isinstance(value, dict):
            return [found for name, member in value.items() for found in numbers(member, name)]
        if isinstance(value, list):
            return [found for member in value for found in numbers(member, key)]
        old = isinstance(value, int | float) and abs(value - recorded_at) < 30 * 86400.0
        return [key] if old else []

    assert '"cause":"xid_48"' in text.decode()
    assert numbers(json.loads(text)) == []
    node.close()


def samples(node: FleetNode, at: float) -> dict[tuple[str, str], float]:
    page = metrics_page(read_snapshot(json.loads(node.document(at)))).decode()
    return {
        (sample.name, json.dumps(sample.labels, sort_keys=True)): sample.value
        for family in text_string_to_metric_families(page)
        if family.type == "counter"
        for sample in family.samples
    }


@pytest.mark.parametrize("kind", KINDS)
def test_counters_and_times_go_on_over_the_rounds_of_a_recording(kind: str) -> None:
    node = played(kind)
    before, documents = samples(node, 0.0), []
    for tick in range(1, 2 * node.variant.length + 2):
        now = samples(node, tick * INTERVAL)
        assert [name for name, value in now.items() if value < before.get(name, 0.0)] == []
        before = now
        documents.append(json.loads(node.document(tick * INTERVAL)))
    times = [document["taken_at"] for document in documents]
    assert times == sorted(set(times))
    starts = {tuple(p["started_at"] for p in document["processes"]) for document in documents}
    assert len(starts) == 1


def test_a_fault_of_the_description_lasts_over_the_rounds_of_a_recording() -> None:
    node, last = played("nvidia-sick"), 0.0
    lost_at = set()
    for tick in range(4, 2 * node.variant.length):
        document = read_snapshot(json.loads(node.document(tick * INTERVAL)))
        [lost] = [device for device in document.devices if device.stale]
        lost_at.add(lost.read_at)
        now = sum(value for (name, _), value in samples(node, tick * INTERVAL).items() if "error" in name)
        assert now >= last
        last = now
    assert last > 0
    assert len(lost_at) == 1


def test_pods_and_ids_of_one_node_stay_different() -> None:
    pods = [
        {"name": f"db-{number}", "owner_kind": "StatefulSet", "uid": f"9f0c-0000-0000-000{number}"}
        for number in range(3)
    ]
    identities = Identities.of([{"pods": pods, "devices": [{"serial": "7"}]}])
    assert len({identities.pod(pod["name"]) for pod in pods}) == 3
    assert len({identities.tagged(pod["uid"]) for pod in pods}) == 3
    assert identities.tagged("7") != "7"
    assert identities.tagged("driver 570.7") == identities.of_node("driver 570.7", "1") == "driver 570.7"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RecordingRequest, Path]:
    """A request whose recording is the only one in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    request = RecordingRequest(load_node("nvidia-shared").text, 1, INTERVAL)
    file = recording._file(request)
    file.parent.mkdir(parents=True)
    return request, file


def write_recording(file: Path) -> None:
    document = {
        "frames": [[10.0, "{}", {}]],
        "loop_from": 0,
        "growth": {},
        "identities": {"ids": {}, "pods": {}},
    }
    with gzip.open(file, "wt") as text:
        json.dump(document, text)


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"{}"), gzip.compress(b"{}")[:-9]],
    ids=["empty", "other", "incomplete", "cut"],
)
def test_a_damaged_recording_is_made_again(
    content: bytes, cached: tuple[RecordingRequest, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, file = cached
    file.write_bytes(content)

    def make(request: RecordingRequest) -> str:
        assert not file.exists()
        write_recording(recording._file(request))
        return "node"

    monkeypatch.setattr(recording, "_make", make)
    lines: list[str] = []
    assert len(recorded([request], lines.append)[0].frames) == 1
    assert lines[0].startswith("making 1 recordings;")


def test_recordings_in_a_read_only_cache_are_used(
    cached: tuple[RecordingRequest, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, file = cached
    write_recording(file)

    def read_only(_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", read_only)
    assert len(recorded([request])) == 1


def test_nothing_is_recorded_for_a_folder_or_port_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = made_fleet(clusters=1, nodes=1)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(DescriptionError, match="not empty"):
        SimulatedFleet(spec, tmp_path / "taken")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="cannot listen"):
        SimulatedFleet(spec, tmp_path / "new", first_port=taken.getsockname()[1])
    assert not (tmp_path / "cache").exists()


def test_nodes_of_one_recording_share_no_id() -> None:
    one, other = (json.loads(played("nvidia-shared", number).document(0.0)) for number in (1, 2))
    texts = {json.dumps(one), json.dumps(other)}
    assert not any("~" in text for text in texts)
    for part, key in (("devices", "uuid"), ("devices", "serial"), ("pods", "uid"), ("pods", "name")):
        assert {each[key] for each in one[part]}.isdisjoint(each[key] for each in other[part])
    assert {usage["device"] for usage in one["pod_usages"]} <= {device["id"] for device in one["devices"]}


@pytest.mark.parametrize("kind", KINDS)
def test_counters_go_on_when_a_node_gets_an_agent_of_its_own(kind: str) -> None:
    node = played(kind)
    length = node.variant.length
    at = (length + 3) * INTERVAL
    before = samples(node, at)
    lost = FleetFault(kind="lost", cluster="c", node=node.name, device=1, begin=at)
    node.set_faults([lost], at)
    try:
        for tick in range(3):
            now = samples(node, at + tick * INTERVAL)
            lower = [name for name, value in now.items() if value < before.get(name, value)]
            assert lower == []
            before = now
        document = read_snapshot(json.loads(node.document(at + 2 * INTERVAL)))
        stale = [device for device in document.devices if device.stale]
        assert len(stale) == 1
        assert stale[0].read_at == pytest.approx(node.taken_at(at), abs=0.01)
        node.set_faults([replace(lost, until=at + 2 * INTERVAL)], at + 2 * INTERVAL)
        mended = read_snapshot(json.loads(node.document(at + 3 * INTERVAL)))
        assert not any(device.stale for device in mended.devices)
    finally:
        node.close()


def test_a_reset_ends_a_fatal_error() -> None:
    node = played("nvidia-h100x8")
    fatal = FleetFault(kind="xid", cluster="c", node=node.name, device=1, code=48, begin=20.0)
    node.set_faults([fatal], 20.0)

    def cause(at: float) -> str | None:
        return read_snapshot(json.loads(node.document(at))).devices[1].health.cause

    try:
        assert [cause(at) for at in (30.0, 40.0, 1000.0)] == ["xid_48"] * 3
        node.set_faults([fatal, replace(fatal, kind="reset", code=None, begin=1010.0)], 1010.0)
        assert cause(1030.0) is None
    finally:
        node.close()


def test_a_chip_that_does_not_answer_is_unknown_in_the_annotation() -> None:
    node = played("ascend-910b-x8")
    [(name, text)] = node.annotations(0.0).items()
    assert name == "k8s-monitor.io/npu-metrics"
    assert json.loads(text)["timestamp"].startswith("2027-01-15T")
    hang = FleetFault(kind=FleetFaultKind.READER_HANG, cluster="c", node=node.name, begin=5.0)
    node.set_faults([hang], 5.0)
    [(_, text)] = node.annotations(20.0).items()
    assert text.count('"health":"UNKNOWN"') == len(json.loads(text)["chips"]) == 8
