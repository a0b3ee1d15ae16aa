"""A real agent on a simulated node while something breaks that the matrix of tests/faults does not have."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.broken_agent import IMPATIENT, Broken, stale
from tests.waiting import PATIENCE_SECONDS

from accelscope.model import HealthState, Snapshot
from accelscope.simulate.faults import Fault, FaultKind

SOON_SECONDS = 20.0  # a wait for the library would last for ever; a service manager waits at least 30 s


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Broken]:
    with Broken(tmp_path) as running:
        running.until_fresh()
        yield running


def lost(snapshot: Snapshot) -> list[str]:
    return [device.id for device in snapshot.devices if device.health.state is HealthState.LOST]


def test_sigterm_ends_the_agent_at_once_while_the_library_hangs(tmp_path: Path) -> None:
    with Broken(tmp_path, IMPATIENT) as running:
        running.until_fresh()
        running.fault(FaultKind.LIBRARY_HANG)
        running.until(lambda s: s.readers[0].abandoned_calls > 0, "a call hangs")
        began = time.monotonic()
        running.agent.stop()
        assert time.monotonic() - began < SOON_SECONDS


def test_a_device_that_is_no_longer_listed_is_lost(broken: Broken) -> None:
    before = broken.agent.snapshot()
    gone = before.devices[0].id
    broken.fault(FaultKind.VANISHED, device=0)
    snapshot = broken.until(lambda s: bool(stale(s)), "one is missing")
    assert lost(snapshot) == [gone]  # and none of the others while they are read again
    assert len(snapshot.devices) == len(before.devices)
    left = list(range(len(before.devices) - 1))
    broken.until(
        lambda s: lost(s) == [gone] and [d.index for d in s.devices if not d.stale] == left,
        "the indices of the others have moved up",
    )
    broken.clear()
    broken.until_fresh("it is back")


def test_xids_are_counted_by_code_with_the_time(broken: Broken) -> None:
    broken.fault(FaultKind.XID, device=0)
    snapshot = broken.until(lambda s: bool(s.devices[0].errors), "an XID was seen")
    [xid] = snapshot.devices[0].errors
    assert (xid.kind, xid.code) == ("xid", "31")
    assert xid.last_seen is not None
    assert abs(xid.last_seen - snapshot.taken_at) < PATIENCE_SECONDS
    assert 'kind="xid",code="31"' in broken.page()


def test_a_library_that_is_installed_later_is_found(tmp_path: Path) -> None:
    running = Broken(tmp_path)
    missing = [Fault(kind=FaultKind.LIBRARY_MISSING), Fault(kind=FaultKind.TOOL_MISSING)]
    running.node.set_faults(missing)
    running.node.write(0.0)
    with running:
        snapshot = running.agent.settled()
        assert snapshot.devices == ()
        assert not snapshot.readers[0].found
        running.until_ready(200)
        running.clear()
        running.until_fresh("the driver is found")
        running.until(lambda s: s.readers[0].source == "nvml", "it is read through its library")


def test_a_lost_device_through_the_tool(tmp_path: Path) -> None:
    with Broken(tmp_path, library=False) as running:
        running.until_fresh("all answer through the tool")
        running.fault(FaultKind.LOST, device=1)
        snapshot = running.until(lambda s: bool(stale(s)), "a device is stale")
        assert stale(snapshot) == [1]
        assert snapshot.devices[1].health.state is HealthState.LOST
        running.clear()
        running.until_fresh("it is back")


def test_sigterm_ends_the_agent_at_once_if_the_library_hangs_between_collections(tmp_path: Path) -> None:
    with Broken(tmp_path, {"collection_interval": "60s"}) as running:
        running.fault(FaultKind.LIBRARY_HANG)
        began = time.monotonic()
        running.agent.stop()
        assert time.monotonic() - began < SOON_SECONDS


def test_sigterm_to_a_stopped_agent_is_not_lost(tmp_path: Path) -> None:
    with Broken(tmp_path) as running:
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
            running.agent._process.send_signal(number)
            time.sleep(0.1)
        assert running.agent._process.wait(PATIENCE_SECONDS) == 0


def test_a_lost_device_and_a_missing_device_are_counted_separately(broken: Broken) -> None:
    before = broken.agent.snapshot()
    two = {before.devices[3].id, before.devices[0].id}
    broken.fault(FaultKind.LOST, device=3)
    broken.until(lambda s: stale(s) == [3], "device 3 is lost")
    broken.node.set_faults([Fault(kind=FaultKind.LOST, device=3), Fault(kind=FaultKind.VANISHED, device=0)])
    # Of a pass in which it goes, the other may only be stale: its number is no longer there.
    snapshot = broken.until(lambda s: set(lost(s)) == two, "device 0 has gone too")
    assert sorted(d.id for d in snapshot.devices) == sorted(d.id for d in before.devices)
    assert snapshot.readers[0].devices_expected == len(before.devices)


def test_sigint_ends_the_agent(tmp_path: Path) -> None:
    with Broken(tmp_path) as running:
        running.agent._process.send_signal(signal.SIGINT)
        assert running.agent._process.wait(PATIENCE_SECONDS) == 0
