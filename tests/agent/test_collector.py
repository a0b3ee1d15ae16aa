"""The loop: a slow reader delays nobody, overdue calls are given up between collections, stop is prompt."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from accelscope.agent.collector import Collector, Pace
from accelscope.agent.runner import Deadlines, Runner
from accelscope.attribution.attributor import Attributor
from accelscope.attribution.options import AttributionOptions
from accelscope.model import Device, Reading, Snapshot, Vendor
from accelscope.readers.contract import Survey


class OneDevice:
    """A reader of one device that takes as long as `seconds` says, or waits for `gate`."""

    def __init__(self, vendor: Vendor, seconds: float = 0.0) -> None:
        self.vendor = vendor
        self.seconds = seconds
        self.gate: threading.Event | None = None
        self.reads = 0

    def survey(self) -> Survey:
        return Survey("script", ("0",))

    def read(self, key: str) -> Reading:
        time.sleep(self.seconds)
        if self.gate is not None:
            self.gate.wait(20)
        self.reads += 1
        return Reading(Device(vendor=self.vendor, id=f"{self.vendor}:{key}", power_watts=float(self.reads)))

    def close(self) -> None:
        pass


class Loop:
    def __init__(self, *readers: OneDevice, interval: float = 0.1, device_seconds: float = 5.0) -> None:
        self.snapshots: list[Snapshot] = []
        self.changed = threading.Condition()
        deadlines = Deadlines(5.0, device_seconds, 5.0)
        runners = [Runner(reader, deadlines=deadlines, changed=self.changed) for reader in readers]
        self.collector = Collector(
            runners,
            Attributor(AttributionOptions(node="n1", proc=Path("/nonexistent"))),
            node="n1",
            version="1",
            pace=Pace(interval),
            changed=self.changed,
            publish=self.snapshots.append,
        )
        self.thread = threading.Thread(target=self.collector.run, daemon=True)

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < end, "it did not come to that"
            time.sleep(0.01)


@pytest.fixture
def started() -> Iterator[Callable[..., Loop]]:
    loops: list[Loop] = []

    def start(*readers: OneDevice, **options: float) -> Loop:
        loops.append(Loop(*readers, **options))
        loops[-1].thread.start()
        return loops[-1]

    yield start
    for loop in loops:
        loop.collector.stop()
        loop.thread.join(5)
        assert not loop.thread.is_alive()


def test_snapshots_follow_each_other(started: Callable[..., Loop]) -> None:
    loop = started(OneDevice(Vendor.NVIDIA))
    loop.until(lambda: len(loop.snapshots) >= 3)
    powers = [s.devices[0].power_watts for s in loop.snapshots[:3]]
    assert powers == [1.0, 2.0, 3.0]
    assert [s.agent.collections for s in loop.snapshots[:3]] == [1, 2, 3]
    assert (loop.snapshots[0].agent.memory_bytes or 0) > 1_000_000


def test_a_slow_reader_delays_nobody_and_keeps_its_last_reading(started: Callable[..., Loop]) -> None:
    fast, slow = OneDevice(Vendor.NVIDIA), OneDevice(Vendor.AMD, seconds=0.5)
    loop = started(fast, slow)
    loop.until(lambda: slow.reads >= 2)
    assert fast.reads > slow.reads * 2
    with_slow = [s for s in loop.snapshots if len(s.devices) == 2]
    assert all(not device.stale for s in with_slow for device in s.devices)


def test_a_hung_call_is_given_up_between_collections(started: Callable[..., Loop]) -> None:
    fine, hung = OneDevice(Vendor.NVIDIA), OneDevice(Vendor.AMD)
    hung.gate = threading.Event()
    loop = started(fine, hung, device_seconds=0.3)
    loop.until(lambda: any(s.readers[1].abandoned_calls for s in loop.snapshots))
    before = fine.reads
    loop.until(lambda: fine.reads > before + 3)
    assert [d.stale for d in loop.snapshots[-1].devices] == [False, True]
    hung.gate.set()
    loop.until(lambda: not any(d.stale for d in loop.snapshots[-1].devices))


def test_stop_does_not_wait_for_a_hung_call(started: Callable[..., Loop]) -> None:
    hung = OneDevice(Vendor.NVIDIA)
    hung.gate = threading.Event()
    loop = started(hung, interval=5.0)
    loop.until(loop.thread.is_alive)
    began = time.monotonic()
    loop.collector.stop()
    loop.thread.join(5)
    assert time.monotonic() - began < 2
    hung.gate.set()


def test_a_reload_is_counted() -> None:
    loop = Loop(OneDevice(Vendor.NVIDIA))
    loop.collector.count_reload("applied")
    loop.collector.count_reload("rejected")
    loop.collector.count_reload("applied")
    snapshot = loop.collector.collect()
    assert [(c.reason, c.count) for c in snapshot.agent.config_reloads] == [("applied", 2), ("rejected", 1)]
    loop.collector.stop()


def test_the_loop_outlives_a_fault_of_its_own(
    started: Callable[..., Loop], caplog: pytest.LogCaptureFixture
) -> None:
    loop = started(OneDevice(Vendor.NVIDIA))
    published: list[Snapshot] = []

    def publish(snapshot: Snapshot) -> None:
        published.append(snapshot)
        if len(published) == 1:
            raise ValueError("not foreseen")

    loop.collector._publish = publish
    loop.until(lambda: len(published) >= 3)
    assert "not foreseen" in caplog.text
