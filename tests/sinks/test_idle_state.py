"""Idle times outlive the agent, in a file that may be missing, damaged or old."""

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sinks.snapshots import START, card, snapshot

from accelscope.model import AttributionSourceState, PodUsage, ReaderState, Snapshot, Vendor
from accelscope.sinks.idle_state import FILE, AllocationKey, IdleStateSink, read_idle_times
from accelscope.sinks.sink import Timing

SLEEPY = AllocationKey("nvidia:a", "", "ns", "sleepy", "main", "uid-1")
BUSY = AllocationKey("nvidia:a", "nvidia:MIG-1", "ns", "busy", "main", None)
SOURCES = (
    AttributionSourceState(source="pod-resources", up=True),
    AttributionSourceState(source="pods", up=True),
)


def seen(idle: dict[AllocationKey, float | None], at: float = START) -> Snapshot:
    usages = tuple(
        PodUsage(
            device=holder.device,
            partition=holder.partition or None,
            namespace=holder.namespace,
            pod=holder.pod,
            container=holder.container,
            pod_uid=holder.pod_uid,
            allocated=1,
            idle_seconds=seconds,
        )
        for holder, seconds in idle.items()
    )
    return replace(snapshot(card(0), at=at), pod_usages=usages, attribution=SOURCES)


class Lab:
    def __init__(self, folder: Path, now: float = START) -> None:
        self.folder = folder
        self.now = now
        self.sink = IdleStateSink(
            folder,
            read_idle_times(folder, now),
            timing=Timing(clock=lambda: self.now, monotonic=lambda: self.now, random=lambda: 0.0),
        )

    def collect(self, idle: dict[AllocationKey, float | None], **changes: Any) -> None:
        self.now += 10
        self.sink.offer(replace(seen(idle, self.now), **changes))
        self.sink.step()

    def read(self, later: float = 0.0) -> dict[AllocationKey, float]:
        now = self.now + later
        return read_idle_times(self.folder, now).at(now)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_restarted_agent_finds_how_long_a_pod_has_been_idle(lab: Lab, tmp_path: Path) -> None:
    lab.collect({SLEEPY: 7200.0, BUSY: 12.0})
    assert lab.read(later=40) == {SLEEPY: 7240.0}
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_the_file_is_written_every_minute_and_when_a_pod_becomes_active(lab: Lab) -> None:
    for n in range(13):
        lab.collect({SLEEPY: 7200.0 + 10 * n})
    assert lab.sink.state.writes == 3
    lab.collect({SLEEPY: 0.0})
    assert lab.sink.state.writes == 4
    assert lab.read() == {}


def test_nothing_is_overwritten_before_devices_and_pods_are_known(lab: Lab, tmp_path: Path) -> None:
    lab.collect({SLEEPY: 7200.0})
    silent = ReaderState(vendor=Vendor("nvidia"), found=True, up=False)
    down = AttributionSourceState(source="pods", up=False)
    for after_restart in (False, True):
        if after_restart:
            lab = Lab(tmp_path, START + 50)
        lab.collect({}, readers=(silent,))
        lab.collect({}, attribution=())
        lab.collect({}, attribution=(SOURCES[0], down))
        assert lab.read(later=START + 40 - lab.now) == {SLEEPY: 7230.0}
        assert lab.sink.state.up


def test_an_old_file_is_not_used(lab: Lab) -> None:
    lab.collect({SLEEPY: 7200.0})
    assert lab.read(later=601) == {}
    assert lab.read(later=-60) == {}, "the clock was set back"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b'{"version": 2, "saved_at": 1, "idle": []}',
        b'{"version": 1, "saved_at": 1}',
        b'{"version": 1, "saved_at": NaN, "idle": []}',
        b'{"version": 1, "saved_at": true, "idle": []}',
        b'{"version": 1, "saved_at": 1, "idle": [["d", "", "n", "p", "c", null]]}',
        b'{"version": 1, "saved_at": 1, "idle": [["d", "", "n", "p", "c", null, -5]]}',
        b'{"version": 1, "saved_at": 1, "idle": [["d", "", "n", 7, "c", null, 5]]}',
        b'{"version": 1, "saved_at": 1, "idle": [["d", "", "n", "p", "c", 7, 5]]}',
        b'{"version": 1, "saved_at": 1, "idle": 7}',
        b'{"version": 1, "saved_at": 1%s, "idle": []}' % (b"0" * 400),
        b'{"version": 1, "saved_at": 1, "idle": [["d", "", "n", "p", "c", null, 1%s]]}' % (b"0" * 400),
        b'{"version": 1, "saved_at": 1, "idle": [["d", "", "n", "p", "c", null, 1%s]]}' % (b"0" * 5000),
        b'{"version": 1, "saved_at": 1, "idle": [["d", "", "n", "p", "c", null, 1e300]]}',
        b'{"version": 1, "saved_at": 1, "idle": [["d", "", "n", "p", "c", null, 1e999]]}',
        b" " * (5 << 20),
        json.dumps({"version": 1, "saved_at": 1, "idle": [["x" * 600, "", "", "", "", None, 5]]}).encode(),
    ],
)
def test_a_damaged_file_is_ignored(lab: Lab, tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert read_idle_times(tmp_path, 2.0).seconds == {}
    lab.collect({SLEEPY: 7200.0})
    assert lab.read() == {SLEEPY: 7200.0}


def test_an_unusable_folder_affects_only_the_idle_times(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "missing")
    assert lab.read() == {}
    lab.collect({SLEEPY: 7200.0})
    assert (lab.sink.state.up, lab.sink.state.reason) == (False, "no_folder")
    (tmp_path / FILE).mkdir()
    assert read_idle_times(tmp_path, START).seconds == {}


def test_a_link_instead_of_the_file_is_replaced_and_not_followed(lab: Lab, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / FILE).symlink_to(other)
    lab.collect({SLEEPY: 7200.0})
    assert other.read_text() == "precious"
    assert lab.read() == {SLEEPY: 7200.0}


def test_the_size_of_the_file_is_limited(lab: Lab, tmp_path: Path) -> None:
    lab.collect({SLEEPY._replace(pod=f"p{n}"): 100.0 + n for n in range(5000)})
    assert len(lab.read()) == 4096
    assert min(lab.read().values()) == 1004.0
    assert lab.sink.state.up
    assert lab.sink.state.error is not None
    assert "904 containers are not kept" in lab.sink.state.error
