"""A real agent on a simulated node while things break: what stays right, is counted, and the probes say."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.broken_agent import IMPATIENT, OFTEN, Broken, stale
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.model import Device, HealthState, Snapshot
from accelscope.simulate.faults import Fault, FaultKind

SOON_SECONDS = 20.0  # who waits for the library waits for ever; a service manager waits 30 s or more


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Broken]:
    with Broken(tmp_path) as running:
        running.until_fresh()
        yield running


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Broken]:
    with Broken(tmp_path, IMPATIENT) as running:
        running.until_fresh()
        yield running


def all_stale(snapshot: Snapshot) -> bool:
    return bool(snapshot.devices) and len(stale(snapshot)) == len(snapshot.devices)


def lost(snapshot: Snapshot) -> list[str]:
    return [device.id for device in snapshot.devices if device.health.state is HealthState.LOST]


def errors(snapshot: Snapshot) -> dict[str, int]:
    return {c.reason: c.count for c in snapshot.readers[0].errors}


def test_one_device_hangs_it_alone_goes_stale(hanging: Broken) -> None:
    hanging.fault(FaultKind.HANG, device=1)
    snapshot = hanging.until(lambda s: stale(s) == [1], "device 1 is stale")
    assert snapshot.devices[1].power_watts is None
    assert errors(snapshot)["timeout"] >= 1
    hanging.until_ready(200)
    others = len(snapshot.devices) - 1
    wait_until(
        lambda: hanging.page().count("accelerator_power_watts{") == others, "the page shows the others"
    )
    first = snapshot.devices[0].read_at or 0
    hanging.until(lambda s: (s.devices[0].read_at or 0) > first, "the others stay fresh")
    hanging.clear()
    hanging.until_fresh("device 1 is back")


def test_the_whole_library_hangs(hanging: Broken) -> None:
    hanging.fault(FaultKind.LIBRARY_HANG)
    snapshot = hanging.until(all_stale, "all devices are stale")
    hanging.until_ready(503)
    assert hanging.agent.get("/healthz", guarded=False).status == 200
    assert "accelerator_power_watts{" not in hanging.page()
    assert snapshot.agent.threads is not None
    assert snapshot.agent.threads < 16
    hanging.clear()
    hanging.until_fresh("all are back")
    hanging.until_ready(200)


def test_sigterm_ends_at_once_while_the_library_hangs(hanging: Broken) -> None:
    hanging.fault(FaultKind.LIBRARY_HANG)
    hanging.until(lambda s: s.readers[0].abandoned_calls > 0, "a call hangs")
    began = time.monotonic()
    hanging.agent.stop()
    assert time.monotonic() - began < SOON_SECONDS


def test_a_device_is_lost_and_comes_back(broken: Broken) -> None:
    broken.fault(FaultKind.LOST, device=2)
    snapshot = broken.until(lambda s: bool(stale(s)), "a device is stale")
    assert stale(snapshot) == [2]
    device: Device = snapshot.devices[2]
    assert device.health.state is HealthState.LOST
    assert device.uuid is not None
    reader = snapshot.readers[0]
    assert reader.devices_seen == reader.devices_expected - 1
    assert errors(snapshot)["lost"] >= 1
    broken.until_ready(200)
    broken.clear()
    broken.until_fresh("device 2 is back")


def test_a_device_that_is_no_longer_enumerated_is_lost(broken: Broken) -> None:
    before = broken.agent.snapshot()
    gone = before.devices[0].id
    broken.fault(FaultKind.VANISHED, device=0)
    snapshot = broken.until(lambda s: bool(stale(s)), "one is missing")
    assert lost(snapshot) == [gone]  # and never, while the others are asked anew, one of them
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


def test_the_driver_is_upgraded_under_the_agent(broken: Broken) -> None:
    for kind in (FaultKind.DRIVER_NOT_LOADED, FaultKind.VERSION_MISMATCH):
        broken.fault(kind)
        broken.until(
            lambda s, reason=str(kind): reason in errors(s) and all_stale(s),  # type: ignore[misc]
            f"{kind} is counted, and no device answers",
        )
        broken.until_ready(503)
    broken.clear()
    broken.until_fresh("the driver is back")


def test_a_library_that_comes_later_is_found(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        (FaultKind.TOOL_HANG, {"tool_timeout", "timeout"}),
        (FaultKind.TOOL_GARBAGE, set()),
        (FaultKind.TOOL_KILLED, {"tool_killed"}),
        (FaultKind.TOOL_MISSING, {"driver_absent"}),
    ],
)
def test_a_tool_that_fails_costs_what_it_would_have_told(
    tmp_path: Path, kind: FaultKind, reasons: set[str]
) -> None:
    settings = IMPATIENT if kind is FaultKind.TOOL_HANG else OFTEN
    with Broken(tmp_path, settings, library=False) as running:
        before = errors(running.until_fresh("all answer through the tool"))

        def counted(snapshot: Snapshot) -> set[str]:
            return {reason for reason, count in errors(snapshot).items() if count > before.get(reason, 0)}

        running.fault(kind)
        snapshot = running.until(lambda s: all_stale(s) and bool(counted(s)), "all are stale")
        assert all(d.power_watts is None for d in snapshot.devices)
        assert not reasons or counted(snapshot) & reasons
        running.until_ready(503)
        running.clear()
        running.until_fresh("the tool is back")


@pytest.mark.parametrize("kind", [FaultKind.TOOL_TRUNCATED, FaultKind.TOOL_NON_UTF8])
def test_damaged_output_costs_the_damaged_part(tmp_path: Path, kind: FaultKind) -> None:
    with Broken(tmp_path, library=False) as running:
        before = running.until_fresh("all answer through the tool")
        running.fault(kind)
        snapshot = running.until(
            lambda s: bool(s.readers[0].rejected) or bool(errors(s)), "something was rejected"
        )
        assert [d.id for d in snapshot.devices] == [d.id for d in before.devices]
        assert not lost(snapshot)
        running.clear()
        running.until_fresh("the tool is whole again")


def test_a_lost_device_through_the_tool(tmp_path: Path) -> None:
    with Broken(tmp_path, library=False) as running:
        running.until_fresh("all answer through the tool")
        running.fault(FaultKind.LOST, device=1)
        snapshot = running.until(lambda s: bool(stale(s)), "a device is stale")
        assert stale(snapshot) == [1]
        assert snapshot.devices[1].health.state is HealthState.LOST
        running.clear()
        running.until_fresh("it is back")


def test_sigterm_ends_at_once_when_the_library_hangs_between_two_collections(tmp_path: Path) -> None:
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


def test_a_lost_device_and_one_that_vanishes_are_two(broken: Broken) -> None:
    before = broken.agent.snapshot()
    two = {before.devices[3].id, before.devices[0].id}
    broken.fault(FaultKind.LOST, device=3)
    broken.until(lambda s: stale(s) == [3], "device 3 is lost")
    broken.node.set_faults([Fault(kind=FaultKind.LOST, device=3), Fault(kind=FaultKind.VANISHED, device=0)])
    snapshot = broken.until(lambda s: len(stale(s)) >= 2, "device 0 has gone too")
    assert sorted(d.id for d in snapshot.devices) == sorted(d.id for d in before.devices)
    assert set(lost(snapshot)) == two
    assert snapshot.readers[0].devices_expected == len(before.devices)


def test_sigint_ends_it_too(tmp_path: Path) -> None:
    with Broken(tmp_path) as running:
        running.agent._process.send_signal(signal.SIGINT)
        assert running.agent._process.wait(PATIENCE_SECONDS) == 0
