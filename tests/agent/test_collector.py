"""The collection loop: slow readers, overdue calls, stopping."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.agent.collector import CollectionInterval, Collector
from accelscope.agent.runner import Deadlines, Runner
from accelscope.attribution.attributor import Attributor
from accelscope.attribution.options import AttributionOptions
from accelscope.model import Device, Reading, Snapshot, Vendor
from accelscope.vendors.common.contract import Survey


class OneDevice:
    """A reader of one device, which waits for `gate` if there is one."""

    def __init__(self, vendor: Vendor) -> None:
        self.vendor = vendor
        self.gate: threading.Event | None = None
        self.inside = threading.Event()
        self.reads = 0

    def survey(self) -> Survey:
        return Survey("script", ("0",))

    def read(self, key: str) -> Reading:
        self.inside.set()
        gate = self.gate
        if gate is not None:
            gate.wait(PATIENCE_SECONDS)
        self.reads += 1
        return Reading(Device(vendor=self.vendor, id=f"{self.vendor}:{key}", power_watts=float(self.reads)))

    def close(self) -> None:
        pass


class Loop:
    def __init__(
        self, *readers: OneDevice, interval: float = 0.1, device_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self.snapshots: list[Snapshot] = []
        self.fault: Exception | None = None  # of what is done between collections
        self.changed = threading.Condition()
        deadlines = Deadlines(PATIENCE_SECONDS, device_seconds, PATIENCE_SECONDS)
        runners = [Runner(reader, deadlines=deadlines, changed=self.changed) for reader in readers]
        self.collector = Collector(
            runners,
            Attributor(AttributionOptions(node="n1", proc=Path("/nonexistent"))),
            node="n1",
            version="1",
            pace=CollectionInterval(interval),
            changed=self.changed,
            publish=self.snapshots.append,
            between=self._between,
        )
        self.thread = threading.Thread(target=self.collector.run, daemon=True)

    def _between(self) -> None:
        if self.fault is not None:
            raise self.fault


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
        loop.thread.join(PATIENCE_SECONDS)
        assert not loop.thread.is_alive()


def powers(loop: Loop) -> list[float]:
    """Those of the first device, as one snapshot after the other showed them, each once."""
    return list(dict.fromkeys(s.devices[0].power_watts or 0.0 for s in list(loop.snapshots) if s.devices))


def test_snapshots_follow_each_other(started: Callable[..., Loop]) -> None:
    loop = started(OneDevice(Vendor("nvidia")))
    wait_until(lambda: len(powers(loop)) >= 3)
    assert powers(loop) == sorted(powers(loop))
    assert [s.agent.collections for s in loop.snapshots[:3]] == [1, 2, 3]
    assert (loop.snapshots[0].agent.memory_bytes or 0) > 1_000_000


def test_a_slow_reader_does_not_delay_others_and_keeps_its_last_reading(started: Callable[..., Loop]) -> None:
    fast, slow = OneDevice(Vendor("nvidia")), OneDevice(Vendor("amd"))
    loop = started(fast, slow)
    wait_until(lambda: any(len(s.devices) == 2 for s in list(loop.snapshots)))
    slow.gate = threading.Event()
    before = fast.reads
    wait_until(lambda: fast.reads > before + 5)
    assert [device.stale for device in loop.snapshots[-1].devices] == [False, False]
    reads = slow.reads
    slow.gate.set()
    wait_until(lambda: slow.reads > reads)


def test_a_hung_call_is_abandoned_between_collections(started: Callable[..., Loop]) -> None:
    fine, hung = OneDevice(Vendor("nvidia")), OneDevice(Vendor("amd"))
    hung.gate = threading.Event()
    loop = started(fine, hung, device_seconds=0.3)
    wait_until(lambda: any(s.readers[1].abandoned_calls for s in list(loop.snapshots)))
    before = fine.reads
    wait_until(lambda: fine.reads > before + 3)
    wait_until(lambda: [d.stale for d in loop.snapshots[-1].devices] == [False, True])
    hung.gate.set()
    wait_until(lambda: not any(d.stale for d in loop.snapshots[-1].devices))


def test_stop_does_not_wait_for_a_hung_call(started: Callable[..., Loop]) -> None:
    hung = OneDevice(Vendor("nvidia"))
    hung.gate = threading.Event()
    loop = started(hung, interval=2 * PATIENCE_SECONDS)
    wait_until(hung.inside.is_set)
    loop.collector.stop()
    loop.thread.join(PATIENCE_SECONDS / 2)
    assert not loop.thread.is_alive()
    hung.gate.set()


def test_a_reload_is_counted() -> None:
    loop = Loop(OneDevice(Vendor("nvidia")))
    loop.collector.count_reload("applied")
    loop.collector.count_reload("rejected")
    loop.collector.count_reload("applied")
    snapshot = loop.collector.collect()
    assert [(c.reason, c.count) for c in snapshot.agent.config_reloads] == [("applied", 2), ("rejected", 1)]
    loop.collector.stop()


def test_the_loop_continues_after_an_unexpected_error(
    started: Callable[..., Loop], caplog: pytest.LogCaptureFixture
) -> None:
    loop = started(OneDevice(Vendor("nvidia")))
    published: list[Snapshot] = []

    def publish(snapshot: Snapshot) -> None:
        published.append(snapshot)
        if len(published) == 1:
            raise ValueError("not foreseen")

    loop.collector._publish = publish
    wait_until(lambda: len(published) >= 3)
    assert "not foreseen" in caplog.text


def test_an_unexpected_error_between_collections_is_logged_once(
    started: Callable[..., Loop], caplog: pytest.LogCaptureFixture
) -> None:
    loop = started(OneDevice(Vendor("nvidia")))
    wait_until(lambda: len(loop.snapshots) >= 1)
    loop.fault = ValueError("not foreseen")
    before = len(loop.snapshots)
    wait_until(lambda: len(loop.snapshots) >= before + 3)
    logged = [record for record in caplog.records if "reloading settings" in record.message]
    assert len(logged) == 1


def test_the_loop_makes_progress_while_it_waits_for_a_driver(started: Callable[..., Loop]) -> None:
    hung = OneDevice(Vendor("nvidia"))
    hung.gate = threading.Event()
    loop = started(hung, interval=2 * PATIENCE_SECONDS)
    wait_until(hung.inside.is_set)
    before = loop.collector.moved_at
    wait_until(lambda: loop.collector.moved_at > before)
    assert not loop.snapshots
    hung.gate.set()
