"""The annotation sink against a Node that takes patches, and against everything that can go wrong."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kube.kube_server import Asked, Peer, Step, hang, raw, refuse
from tests.sinks.node_api import NodeApi
from tests.sinks.snapshots import START, Clock, card, chip, npu, snapshot
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.model import (
    Device,
    Health,
    HealthState,
    ReaderState,
    ReasonCount,
    Snapshot,
    Vendor,
    identity_of,
)
from accelscope.sinks import annotation as annotation_module
from accelscope.sinks import sink as known
from accelscope.sinks.annotation import LAST_READING_SECONDS, AnnotationSink
from accelscope.sinks.documents import DEVICES, devices_annotation
from accelscope.sinks.sink import WriteIntervals
from accelscope.vendors.ascend import NPU_METRICS

PACE = WriteIntervals(interval_seconds=3.0, renewal_seconds=60.0)


class Lab:
    """A sink whose steps and clock the test controls."""

    def __init__(self, api: NodeApi, *annotations: str, token_file: Path | None = None) -> None:
        self.api = api
        self.clock = Clock()
        client = api.client(token_file)
        self.sink = AnnotationSink(
            client, "node-1", annotations or (NPU_METRICS,), PACE, timing=self.clock.timing
        )

    def collect(self, *devices: Device, after: float = 0.0, **fields: Any) -> float | None:
        """A collection so many seconds later, and the sink's turn."""
        self.clock.now += after
        self.sink.offer(snapshot(*devices, at=START + self.clock.now, **fields))
        return self.sink.step()

    def written(self, name: str = NPU_METRICS) -> Any:
        return json.loads(self.api.annotations[name])

    def errors(self) -> dict[str, int]:
        return {counted.reason: counted.count for counted in self.sink.state.errors}


@pytest.fixture
def lab(node_api: NodeApi) -> Lab:
    return Lab(node_api)


def test_the_first_reading_is_written_at_once_and_nothing_of_others_is_touched(lab: Lab) -> None:
    assert lab.sink.state.reason == "starting"
    assert lab.collect(chip(0)) == 3.0
    assert lab.written()["chips"][0]["hbm_used"] == 3381
    assert lab.api.annotations["other.example/note"] == "stays"
    [patch] = lab.api.patches
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert json.loads(patch.body).keys() == {"metadata"}
    assert json.loads(patch.body)["metadata"].keys() == {"annotations"}
    assert json.loads(patch.body)["metadata"]["annotations"].keys() == {NPU_METRICS}
    state = lab.sink.state
    assert (state.up, state.reason, state.writes, state.last_success) == (True, None, 1, START)


def test_a_change_within_the_dead_band_is_skipped_and_one_beyond_it_is_written(lab: Lab) -> None:
    lab.collect(chip(0, power_watts=100.0))
    for _ in range(3):
        lab.collect(chip(0, power_watts=101.9), after=10)
    assert (lab.sink.state.writes, lab.sink.state.skips) == (1, 3)
    lab.collect(chip(0, power_watts=102.1), after=10)
    assert lab.sink.state.writes == 2
    assert lab.written()["chips"][0]["power"] == 102.1


def test_small_steps_add_up_until_they_leave_the_band(lab: Lab) -> None:
    for step in range(6):
        lab.collect(chip(0, temperature_celsius=40.0 + 0.5 * step), after=10)
    assert lab.written()["chips"][0]["temp"] >= 42


def test_writes_are_at_least_one_interval_apart(lab: Lab) -> None:
    lab.collect(chip(0, power_watts=100))
    assert lab.collect(chip(0, power_watts=200), after=1) == 2.0
    assert lab.collect(chip(0, power_watts=300), after=1) == 1.0
    assert lab.sink.state.writes == 1
    lab.clock.now += 1
    lab.sink.step()
    assert lab.sink.state.writes == 2
    assert lab.written()["chips"][0]["power"] == 300  # the newest, the one between is never written


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("interval", [1.0, 3.0, 10.0, 30.0])
def test_a_quiet_node_writes_once_a_heartbeat(node_api: NodeApi, chance: float, interval: float) -> None:
    lab = Lab(node_api)
    lab.clock.chance = chance
    end, next_collection, wake = 3600.0, 0.0, None
    while lab.clock.now < end:
        if lab.clock.now >= next_collection:
            wake = lab.collect(chip(0))
            next_collection += interval
        else:
            wake = lab.sink.step()
        later = [next_collection, *([] if wake is None else [lab.clock.now + wake])]
        lab.clock.now = min(later)
    assert 3600 / (60 + interval) - 1 <= lab.sink.state.writes <= 67


def test_a_heartbeat_does_not_make_an_old_reading_look_fresh(lab: Lab) -> None:
    lab.collect(chip(0))
    lab.clock.now += 1000
    assert lab.sink.step() is None
    assert lab.sink.state.writes == 1


def test_both_annotations_go_in_one_patch(node_api: NodeApi) -> None:
    lab = Lab(node_api, NPU_METRICS, DEVICES)
    lab.collect(chip(0), card(0))
    assert len(node_api.patches) == 1
    assert [d["vendor"] for d in lab.written(DEVICES)["devices"]] == ["ascend", "nvidia"]
    assert len(lab.written()["chips"]) == 1


def test_a_node_without_chips_has_no_annotation_and_costs_one_request(lab: Lab) -> None:
    lab.api.annotations[NPU_METRICS] = "left by a former collector"
    absent = ReaderState(vendor=Vendor("ascend"), found=False, up=False, reason="npu-smi is not on this node")
    for _ in range(100):
        assert lab.collect(after=60, readers=(absent,)) in (None, 3.0)
    assert NPU_METRICS not in lab.api.annotations
    assert (lab.sink.state.up, lab.sink.state.writes) == (True, 1)


def test_without_chips_the_list_becomes_empty(lab: Lab) -> None:
    lab.collect(chip(0))
    lab.collect(chip(0, stale=True, health=Health(HealthState.LOST, "not shown")), after=10)
    assert lab.written()["chips"] == []
    lab.collect(after=70)
    assert lab.written()["timestamp"] == "2026-01-02T03:05:25Z"


def silent(device: Device) -> Device:
    """As the agent shows a device that it could not read."""
    return replace(identity_of(device), stale=True, health=Health(HealthState.UNKNOWN, "driver_in_use"))


@pytest.mark.parametrize("name", [NPU_METRICS, DEVICES])
def test_after_a_failed_reading_the_last_one_stays_with_its_timestamp(node_api: NodeApi, name: str) -> None:
    lab = Lab(node_api, name)
    lab.collect(chip(0), chip(1))
    good = node_api.annotations[name]
    lab.collect(silent(chip(0)), silent(chip(1)), after=10)
    assert node_api.annotations[name] == good
    lab.collect(chip(0, power_watts=200), chip(1), after=10)
    assert lab.written(name)["timestamp"] == "2026-01-02T03:04:25Z"


@pytest.mark.parametrize("name", [NPU_METRICS, DEVICES])
def test_a_reading_that_is_too_old_is_no_longer_kept(node_api: NodeApi, name: str) -> None:
    lab = Lab(node_api, name)
    lab.collect(chip(0))
    good = node_api.annotations[name]
    while lab.clock.now < LAST_READING_SECONDS:
        lab.collect(silent(chip(0)), after=10)
        assert node_api.annotations[name] == good
    assert lab.sink.state.writes == 1  # a heartbeat has nothing new to write
    lab.collect(silent(chip(0)), after=10)
    [entry] = lab.written(name).popitem()[1]
    assert entry["health"].casefold() == "unknown"
    assert not entry.keys() & {"temp", "power", "temperature_celsius", "power_watts"}
    assert lab.written(name)["timestamp"] == "2026-01-02T03:09:15Z"
    lab.collect(chip(0), after=10)
    [entry] = lab.written(name).popitem()[1]
    assert entry["health"].casefold() == "ok"


def test_one_stale_chip_holds_back_the_timestamp_but_not_the_others(lab: Lab) -> None:
    lab.collect(chip(0, power_watts=100), chip(1, power_watts=100))
    lab.collect(silent(chip(0)), chip(1, power_watts=200), after=10)
    assert [entry["power"] for entry in lab.written()["chips"]] == [100, 200]
    assert lab.written()["timestamp"] == "2026-01-02T03:04:05Z"
    lab.collect(silent(chip(0)), chip(1, power_watts=300), after=LAST_READING_SECONDS)
    assert [entry.get("power") for entry in lab.written()["chips"]] == [None, 300]
    assert lab.written()["timestamp"] == "2026-01-02T03:09:15Z"


def test_an_unwritten_reading_is_written_at_the_heartbeat_of_a_stale_chip(
    lab: Lab,
) -> None:
    lab.collect(chip(0, power_watts=100))
    lab.collect(chip(0, power_watts=101), after=10)
    for _ in range(10):
        lab.collect(silent(chip(0)), after=10)
    assert lab.sink.state.writes == 2
    assert lab.written()["chips"][0]["power"] == 101
    assert lab.written()["timestamp"] == "2026-01-02T03:04:15Z"


def test_a_chip_that_was_never_read_is_written_as_unknown(lab: Lab) -> None:
    lab.collect(silent(chip(0)))
    assert lab.written()["chips"][0]["health"] == "UNKNOWN"


def test_nothing_is_written_before_the_driver_responds_or_the_wait_ends(lab: Lab) -> None:
    lab.api.annotations[NPU_METRICS] = "of the agent before"
    hung = (ReaderState(vendor=Vendor("ascend"), found=True, up=False, reason="no answer"),)
    begins = (ReaderState(vendor=Vendor("ascend"), found=False, up=False),)
    assert lab.collect(readers=begins) is None
    assert lab.collect(readers=hung, after=10) is None
    assert lab.sink.state.reason == "no_reading"
    assert lab.api.patches == []
    lab.collect(readers=hung, after=known.PATIENCE_SECONDS)
    assert NPU_METRICS not in lab.api.annotations


def test_a_growing_list_after_a_start_does_not_replace_the_earlier_one(node_api: NodeApi) -> None:
    """A reader may need several collections to identify all devices."""
    lab = Lab(node_api, NPU_METRICS, DEVICES)
    lab.api.annotations[NPU_METRICS] = "of the agent before"

    def look(seen: int, expected: int = 4) -> None:
        reader = ReaderState(
            vendor=Vendor("ascend"), found=True, up=True, devices_seen=seen, devices_expected=expected
        )
        lab.collect(*(chip(n) for n in range(seen)), after=10, readers=(reader,))

    look(1)
    look(3)
    assert lab.api.annotations[NPU_METRICS] == "of the agent before"
    look(4)
    assert len(lab.written()["chips"]) == len(lab.written(DEVICES)["devices"]) == 4


def test_a_chip_that_is_missing_from_the_start_delays_the_first_write_by_one_collection(lab: Lab) -> None:
    reader = ReaderState(vendor=Vendor("ascend"), found=True, up=True, devices_seen=1, devices_expected=2)
    lab.collect(chip(0), readers=(reader,))
    assert lab.api.patches == []
    lab.collect(chip(0), after=10, readers=(reader,))
    assert len(lab.written()["chips"]) == 1


def test_chips_without_numbers_after_a_start_do_not_replace_the_earlier_list(node_api: NodeApi) -> None:
    """Readers decode a `phy_id` that is absent as 0, so every chip would have the number 0."""
    lab = Lab(node_api, NPU_METRICS, DEVICES)
    lab.api.annotations[NPU_METRICS] = "of the agent before"
    lab.collect(chip(0), chip(1, physical_id=None))
    lab.collect(chip(0), chip(1, physical_id=None), after=known.PATIENCE_SECONDS - 1)
    assert lab.api.annotations[NPU_METRICS] == "of the agent before"
    assert len(lab.written(DEVICES)["devices"]) == 2  # its readers need no number
    lab.collect(chip(0), chip(1, physical_id=None, index=1), after=0.5)
    lab.collect(chip(0), chip(1, physical_id=None, index=1), after=10)
    assert [each["phy_id"] for each in lab.written()["chips"]] == [0, 1]


def test_chips_that_never_get_a_number_are_written_after_five_minutes(lab: Lab) -> None:
    lab.collect(chip(0, physical_id=None), after=1000)  # the driver came late
    lab.collect(chip(0, physical_id=None), after=known.PATIENCE_SECONDS - 1)
    assert lab.api.patches == []
    lab.collect(chip(0, physical_id=None), after=1)
    assert "phy_id" not in lab.written()["chips"][0]


def test_a_later_chip_without_a_number_delays_no_write(lab: Lab) -> None:
    lab.collect(chip(0))
    lab.collect(chip(0), chip(1, physical_id=None), after=10)
    assert len(lab.written()["chips"]) == 2


def cut(peer: Peer, _: Asked) -> None:
    peer.cut()


FAULTS: dict[str, tuple[Step, str]] = {
    "409": (refuse(409, "the object has been modified"), "conflict"),
    "429": (refuse(429, "slow down"), "throttled"),
    "500": (refuse(500, "etcd"), "server_error"),
    "503": (refuse(503), "server_error"),
    "hang": (hang, "timeout"),
    "garbage": (raw(b"\x00\xff not http\r\n\r\n"), "bad_answer"),
    "not json": (lambda peer, _: peer.answer(200, b"<html>hello</html>"), "bad_answer"),
    "another object": (lambda peer, _: peer.document(200, {"metadata": {"name": "x"}}), "bad_answer"),
    "disconnect": (cut, "unreachable"),
    "cut off": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"), "unreachable"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_it_recovers_and_counts_errors(lab: Lab, name: str) -> None:
    fault, reason = FAULTS[name]
    lab.api.fail(fault, fault)
    if fault is hang:
        lab.api.give_up_after(0.3)
    first = lab.collect(chip(0))
    assert first is not None
    assert 1 <= first <= 2
    state = lab.sink.state
    assert (state.up, state.reason, lab.errors()) == (False, reason, {reason: 1})
    assert state.error
    lab.clock.now += first
    second = lab.sink.step()
    assert second is not None
    assert 2 <= second <= 4
    lab.clock.now += second
    lab.api.give_up_after(PATIENCE_SECONDS)
    lab.sink.step()
    assert (lab.sink.state.up, lab.sink.state.reason, lab.errors()) == (True, None, {reason: 2})
    assert lab.sink.state.error == state.error  # for people, also afterwards
    assert len(lab.written()["chips"]) == 1


def test_it_backs_off_for_at_most_a_minute(lab: Lab) -> None:
    lab.clock.chance = 0.5
    lab.api.fail(*[refuse(500)] * 12)
    waits = []
    lab.sink.offer(snapshot(chip(0)))
    for _ in range(12):
        wait = lab.sink.step()
        assert wait is not None
        waits.append(round(wait, 3))
        lab.clock.now += wait
    assert waits == [1.5, 3.0, 6.0, 12.0, 24.0, *[45.0] * 7]


def test_retry_after_is_respected(lab: Lab) -> None:
    lab.api.fail(refuse(429, "slow down", "Retry-After: 37"))
    assert lab.collect(chip(0)) == pytest.approx(37)
    assert lab.collect(chip(0), after=36) == pytest.approx(1)
    assert lab.api.patches == []
    lab.collect(chip(0), after=1)
    assert lab.sink.state.up


@pytest.mark.parametrize(("status", "reason"), [(403, "forbidden"), (404, "not_found")])
def test_a_missing_permission_is_retried_soon_after_other_failures(
    lab: Lab, status: int, reason: str
) -> None:
    lab.api.fail(*[refuse(503)] * 8, *[refuse(status)] * 2)
    for _ in range(9):
        lab.collect(chip(0), after=60)
    refusals = []
    for after in (0, 0.9, 0.1, 1.9):
        lab.collect(chip(0), after=after)
        refusals.append(lab.errors()[reason])
    assert refusals == [1, 1, 2, 2]
    assert lab.sink.state.reason == reason
    lab.collect(chip(0), after=0.1)
    assert lab.sink.state.up


def test_a_rotated_token_is_used_at_once(node_api: NodeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    node_api.token = "new"
    lab = Lab(node_api, token_file=token)
    assert lab.collect(chip(0)) == 1.0  # looks at the file every second
    assert (lab.sink.state.reason, lab.errors()) == ("unauthorized", {"unauthorized": 1})
    lab.clock.now += 1
    assert lab.sink.step() == 1.0
    replacement = tmp_path / "token.new"
    replacement.write_text("new")
    replacement.rename(token)
    lab.clock.now += 1
    lab.sink.step()
    assert lab.sink.state.up
    assert lab.errors() == {"unauthorized": 1}


def test_a_token_is_in_no_error(node_api: NodeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-token")
    node_api.fail(refuse(500, "bad token secret-token"))
    lab = Lab(node_api, token_file=token)
    lab.collect(chip(0))
    assert "secret-token" not in (lab.sink.state.error or "")


def test_after_a_failure_the_same_content_is_written_again(lab: Lab) -> None:
    lab.collect(chip(0))
    lab.api.fail(hang)
    lab.api.give_up_after(0.3)
    lab.collect(chip(0, power_watts=500), after=10)
    lab.api.give_up_after(PATIENCE_SECONDS)
    lab.collect(chip(0), after=10)  # as it was before the write that may or may not have been made
    assert lab.sink.state.writes == 2


def test_too_many_devices_lose_values_and_the_state_reports_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.sink, "_budget_bytes", 1000)
    for after in (0, 60, 60):
        lab.collect(*(chip(n) for n in range(8)), after=after)
    assert len(lab.written()["chips"]) == 8
    assert "power" not in lab.written()["chips"][-1]
    state = lab.sink.state
    assert (state.up, state.reason) == (True, "too_large")
    assert "no room for the values of" in (state.error or "")
    assert lab.errors() == {"too_large": 1}  # once, though it was written three times
    monkeypatch.setattr(lab.sink, "_budget_bytes", 100_000)
    lab.collect(chip(0), after=60)
    assert (lab.sink.state.up, lab.sink.state.reason) == (True, None)


def full_of_others(api: NodeApi, room: list[int]) -> Step:
    """A server that refuses annotations of more bytes than there is room for."""

    def step(peer: Peer, asked: Asked) -> None:
        ours = json.loads(asked.body)["metadata"]["annotations"]
        if sum(len(name) + len(text) for name, text in ours.items()) <= room[0]:
            api.answer(peer, asked)
        else:
            refuse(422, "metadata.annotations: Too long: may not be more than 262144 bytes")(peer, asked)

    return step


def steps(lab: Lab, count: int) -> None:
    for _ in range(count):
        wait = lab.sink.step()
        assert wait is not None
        lab.clock.now += wait


@pytest.mark.parametrize(
    ("names", "chips", "room", "refusals"),
    [
        ((NPU_METRICS,), 40, 4096, 1),
        ((NPU_METRICS,), 16, 1200, 1),
        ((NPU_METRICS,), 40, 400, 4),
        ((NPU_METRICS,), 1, 170, 1),
        ((NPU_METRICS, DEVICES), 40, 1200, 4),
    ],
)
def test_on_a_full_node_the_annotations_halve_until_they_fit(
    node_api: NodeApi, names: tuple[str, ...], chips: int, room: int, refusals: int
) -> None:
    lab = Lab(node_api, *names)
    node_api.fail(*[full_of_others(node_api, [room])] * (refusals + 1))
    lab.sink.offer(snapshot(*(chip(n) for n in range(chips))))
    steps(lab, refusals + 1)
    assert lab.sink.state.up
    assert lab.errors()["too_large"] == refusals
    assert len(lab.written()["chips"]) >= 1
    assert "has no room for" in (lab.sink.state.error or "")


def test_without_room_for_one_device_there_is_an_error_and_no_empty_list(lab: Lab) -> None:
    room = [100]
    lab.api.fail(*[full_of_others(lab.api, room)] * 10)
    lab.sink.offer(snapshot(*(chip(n) for n in range(4))))
    steps(lab, 6)
    assert (lab.sink.state.up, lab.sink.state.reason) == (False, "too_large")
    assert "no room for a single device: remove some of them" in (lab.sink.state.error or "")
    assert NPU_METRICS not in lab.api.annotations
    room[0] = 300
    steps(lab, 1)
    assert len(lab.written()["chips"]) == 1


def test_free_room_is_used_after_an_hour(lab: Lab) -> None:
    lab.api.fail(full_of_others(lab.api, [300]), full_of_others(lab.api, [300]))
    lab.sink.offer(snapshot(chip(0), chip(1)))
    steps(lab, 2)
    assert "power" not in lab.written()["chips"][0]
    lab.collect(chip(0), chip(1), after=1800)
    assert "power" not in lab.written()["chips"][0]
    lab.collect(chip(0), chip(1), after=1801)
    assert "power" in lab.written()["chips"][1]
    assert (lab.sink.state.up, lab.sink.state.reason) == (True, None)


def test_a_policy_that_forbids_the_write_is_no_size_error(lab: Lab) -> None:
    denied = "nodes node-1 is forbidden: ValidatingAdmissionPolicy denied request: not yours"
    lab.api.fail(refuse(422, denied))
    lab.collect(*(chip(n) for n in range(40)))
    assert lab.errors() == {"forbidden": 1}
    assert "denied request: not yours" in (lab.sink.state.error or "")
    lab.collect(*(chip(n) for n in range(40)), after=60)
    assert "power" in lab.written()["chips"][-1]  # nothing was left out for it


def test_a_declared_annotation_has_its_vendors_devices_and_ours_has_all() -> None:
    assert annotation_module.document_builder(NPU_METRICS)[1] is Vendor("ascend")
    assert annotation_module.document_builder(DEVICES)[1] is None
    assert annotation_module.document_builder(devices_annotation(["amd"]))[1] is None


def test_agents_for_different_vendors_do_not_overwrite_each_other(node_api: NodeApi) -> None:
    names = [devices_annotation(["nvidia"]), devices_annotation(["furiosa", "amd"]), devices_annotation(None)]
    assert names == [f"{DEVICES}.nvidia", f"{DEVICES}.amd-furiosa", DEVICES]
    gpus, others = Lab(node_api, names[0]), Lab(node_api, names[1])
    gpus.collect(card(0))
    others.collect(npu(0))
    gpus.collect(card(0), after=61)
    assert [device["id"] for device in gpus.written(names[0])["devices"]] == ["nvidia:card-0"]
    assert [device["id"] for device in gpus.written(names[1])["devices"]] == ["furiosa:card-0"]
    assert DEVICES not in node_api.annotations
    assert (gpus.sink.state.writes, others.sink.state.writes) == (2, 1)


# In its own thread


@pytest.fixture
def running(node_api: NodeApi) -> Any:
    sinks: list[AnnotationSink] = []

    def start() -> AnnotationSink:
        sink = AnnotationSink(node_api.client(), "node-1", (NPU_METRICS,), WriteIntervals(0.01, 60))
        sinks.append(sink)
        sink.start()
        return sink

    yield start
    for sink in sinks:
        sink.stop()


def test_the_thread_writes_offered_snapshots(running: Callable[[], AnnotationSink]) -> None:
    sink = running()
    sink.offer(snapshot(chip(0)))
    wait_until(lambda: sink.state.writes == 1)
    sink.offer(snapshot(chip(0), chip(1)))
    wait_until(lambda: sink.state.writes == 2)


def test_a_hanging_server_delays_neither_collections_nor_stopping(
    node_api: NodeApi, running: Callable[[], AnnotationSink]
) -> None:
    release = threading.Event()

    def wait(peer: Peer, _: Asked) -> None:
        release.wait(30)

    node_api.fail(wait)
    sink = running()
    taken = snapshot(chip(0))
    for _ in range(1000):
        sink.offer(taken)  # returns at once, or this test would take for ever
    sink.stop()
    release.set()


def test_an_unexpected_error_does_not_end_the_sink(
    running: Callable[[], AnnotationSink], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = running()

    def broken(_: Snapshot) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(sink, "_content", broken)
    sink.offer(snapshot(chip(0)))
    wait_until(lambda: sink.state.errors == (ReasonCount("internal", 1),))
    assert (sink.state.up, sink.state.error) == (False, "ZeroDivisionError: ours")
    monkeypatch.undo()
    sink._not_before = 0.0
    sink.offer(replace(snapshot(chip(0)), taken_at=START + 1))
    wait_until(lambda: sink.state.up)


def test_another_validation_error_is_no_size_error(lab: Lab) -> None:
    lab.api.fail(refuse(422, "spec.podCIDRs: Invalid value"))
    lab.collect(*(chip(n) for n in range(40)))
    assert lab.errors() == {"bad_answer": 1}
    lab.collect(*(chip(n) for n in range(40)), after=60)
    assert "power" in lab.written()["chips"][-1]
