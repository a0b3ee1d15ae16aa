"""A real agent on a simulated node while things break: what stays right, is counted, and the probes say."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.agent_process import AgentProcess, wait_until

from accelscope.model import Device, HealthState, Snapshot
from accelscope.simulate import SimulatedNode, load_node
from accelscope.simulate.faults import Fault, FaultKind

SETTINGS = {"collection_interval": "0.2s", "device_timeout": "0.5s", "reader_timeout": "2s"}


class Broken:
    """An agent on a node whose faults the test sets while both run."""

    def __init__(self, folder: Path, *, library: bool = True, name: str = "nvidia-mixed") -> None:
        self.node = SimulatedNode(load_node(name), folder / "node")
        self.node.build()
        self.node.write(0.0)
        self._stop = threading.Event()
        self._mover = threading.Thread(target=self.node.run, args=(self._stop, 0.1), daemon=True)
        settings = self.node.agent_settings()
        if not library:
            settings["nvml_library"] = str(folder / "no-library")
        self.agent = AgentProcess({**settings, **SETTINGS}, folder / "agent")

    def __enter__(self) -> "Broken":
        self._mover.start()
        self.agent.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.node.set_faults(())
        self._stop.set()
        self._mover.join(10)
        self.agent.stop()

    def fault(self, kind: FaultKind, device: int | None = None) -> None:
        self.node.set_faults([Fault(kind=kind, device=device)])

    def clear(self) -> None:
        self.node.set_faults(())

    def until(self, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
        wait_until(lambda: condition(self.agent.snapshot()), what)
        return self.agent.snapshot()

    def ready(self) -> int:
        return self.agent.get("/readyz", guarded=False).status

    def page(self) -> str:
        answer = self.agent.get("/metrics")
        assert answer.status == 200
        return answer.body.decode()


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Broken]:
    with Broken(tmp_path) as running:
        yield running


@pytest.fixture
def broken_tool(tmp_path: Path) -> Iterator[Broken]:
    with Broken(tmp_path, library=False) as running:
        yield running


def stale(snapshot: Snapshot) -> list[int | None]:
    return [device.index for device in snapshot.devices if device.stale]


def errors(snapshot: Snapshot) -> dict[str, int]:
    return {c.reason: c.count for c in snapshot.readers[0].errors}


def all_fresh(snapshot: Snapshot) -> bool:
    return bool(snapshot.devices) and not stale(snapshot)


def test_one_device_hangs_it_alone_goes_stale(broken: Broken) -> None:
    broken.fault(FaultKind.HANG, device=1)
    snapshot = broken.until(lambda s: stale(s) == [1], "device 1 is stale")
    assert snapshot.devices[1].power_watts is None
    assert errors(snapshot)["timeout"] == 1
    assert broken.ready() == 200
    page = broken.page()
    assert page.count("accelerator_power_watts{") == len(snapshot.devices) - 1
    first = snapshot.devices[0].read_at or 0
    broken.until(lambda s: (s.devices[0].read_at or 0) > first, "the others stay fresh")
    broken.clear()
    broken.until(all_fresh, "device 1 is back")


def test_the_whole_library_hangs(broken: Broken) -> None:
    broken.fault(FaultKind.LIBRARY_HANG)
    snapshot = broken.until(lambda s: len(stale(s)) == len(s.devices), "all devices are stale")
    wait_until(lambda: broken.ready() == 503, "not ready")
    assert broken.agent.get("/healthz", guarded=False).status == 200
    assert "accelerator_power_watts{" not in broken.page()
    assert snapshot.agent.threads is not None
    assert snapshot.agent.threads < 16
    broken.clear()
    broken.until(all_fresh, "all are back")
    wait_until(lambda: broken.ready() == 200, "ready again")


def test_sigterm_ends_at_once_while_the_library_hangs(tmp_path: Path) -> None:
    with Broken(tmp_path) as running:
        running.fault(FaultKind.LIBRARY_HANG)
        running.until(lambda s: len(stale(s)) == len(s.devices), "all devices are stale")
        began = time.monotonic()
        running.agent.stop()
        assert time.monotonic() - began < 3


def test_a_device_is_lost_and_comes_back(broken: Broken) -> None:
    broken.fault(FaultKind.LOST, device=2)
    snapshot = broken.until(lambda s: stale(s) == [2], "device 2 is stale")
    lost: Device = snapshot.devices[2]
    assert lost.health.state is HealthState.LOST
    assert lost.uuid is not None
    reader = snapshot.readers[0]
    assert reader.devices_seen == reader.devices_expected - 1
    assert errors(snapshot)["lost"] >= 1
    assert broken.ready() == 200
    broken.clear()
    broken.until(all_fresh, "device 2 is back")


def test_a_device_that_is_no_longer_enumerated_is_lost(broken: Broken) -> None:
    before = broken.until(all_fresh, "all answer")
    gone = before.devices[0].id
    broken.fault(FaultKind.VANISHED, device=0)
    snapshot = broken.until(lambda s: bool(stale(s)), "one is missing")
    assert [d.id for d in snapshot.devices if d.health.state is HealthState.LOST] == [gone]
    assert len(snapshot.devices) == len(before.devices)
    fresh = {d.id: d.index for d in snapshot.devices if not d.stale}
    assert sorted(index for index in fresh.values() if index is not None) == list(range(len(fresh)))
    broken.clear()
    broken.until(all_fresh, "it is back")


def test_xids_are_counted_by_code_with_the_time(broken: Broken) -> None:
    broken.fault(FaultKind.XID, device=0)
    snapshot = broken.until(lambda s: bool(s.devices[0].errors), "an XID was seen")
    [xid] = snapshot.devices[0].errors
    assert (xid.kind, xid.code) == ("xid", "31")
    assert xid.last_seen is not None
    assert abs(xid.last_seen - snapshot.taken_at) < 30
    assert 'kind="xid",code="31"' in broken.page()


def test_the_driver_is_upgraded_under_the_agent(broken: Broken) -> None:
    broken.until(all_fresh, "all answer")
    for kind in (FaultKind.DRIVER_NOT_LOADED, FaultKind.VERSION_MISMATCH):
        broken.fault(kind)
        snapshot = broken.until(lambda s, reason=str(kind): reason in errors(s), f"{kind} is counted")  # type: ignore[misc]
        assert len(stale(snapshot)) == len(snapshot.devices)
        wait_until(lambda: broken.ready() == 503, "not ready")
    broken.clear()
    broken.until(all_fresh, "the driver is back")


def test_a_library_that_comes_later_is_found(tmp_path: Path) -> None:
    running = Broken(tmp_path)
    missing = [Fault(kind=FaultKind.LIBRARY_MISSING), Fault(kind=FaultKind.TOOL_MISSING)]
    running.node.set_faults(missing)
    running.node.write(0.0)
    with running:
        snapshot = running.agent.settled()
        assert snapshot.devices == ()
        assert not snapshot.readers[0].found
        assert running.ready() == 200
        running.clear()
        snapshot = running.until(all_fresh, "the driver is found")
        assert snapshot.readers[0].source == "nvml"


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
    broken_tool: Broken, kind: FaultKind, reasons: set[str]
) -> None:
    broken_tool.until(all_fresh, "all answer through the tool")
    before = errors(broken_tool.agent.snapshot())
    broken_tool.fault(kind)
    snapshot = broken_tool.until(lambda s: len(stale(s)) == len(s.devices), "all are stale")
    assert all(d.power_watts is None for d in snapshot.devices)
    counted = {reason for reason, count in errors(snapshot).items() if count > before.get(reason, 0)}
    assert counted
    assert not reasons or counted & reasons
    wait_until(lambda: broken_tool.ready() == 503, "not ready")
    broken_tool.clear()
    broken_tool.until(all_fresh, "the tool is back")


@pytest.mark.parametrize("kind", [FaultKind.TOOL_TRUNCATED, FaultKind.TOOL_NON_UTF8])
def test_damaged_output_costs_the_damaged_part(broken_tool: Broken, kind: FaultKind) -> None:
    before = broken_tool.until(all_fresh, "all answer through the tool")
    broken_tool.fault(kind)
    snapshot = broken_tool.until(
        lambda s: bool(s.readers[0].rejected) or bool(errors(s)), "something was rejected"
    )
    assert [d.id for d in snapshot.devices] == [d.id for d in before.devices]
    assert not [d.id for d in snapshot.devices if d.health.state is HealthState.LOST]
    broken_tool.clear()
    broken_tool.until(all_fresh, "the tool is whole again")


def test_a_lost_device_through_the_tool(broken_tool: Broken) -> None:
    broken_tool.until(all_fresh, "all answer through the tool")
    broken_tool.fault(FaultKind.LOST, device=1)
    snapshot = broken_tool.until(lambda s: stale(s) == [1], "device 1 is stale")
    assert snapshot.devices[1].health.state is HealthState.LOST
    broken_tool.clear()
    broken_tool.until(all_fresh, "it is back")


def test_sigterm_ends_at_once_when_the_library_hangs_between_two_collections(tmp_path: Path) -> None:
    running = Broken(tmp_path)
    running.agent = AgentProcess(
        {**running.node.agent_settings(), "collection_interval": "60s"}, tmp_path / "slow-agent"
    )
    with running:
        running.fault(FaultKind.LIBRARY_HANG)
        time.sleep(0.5)
        began = time.monotonic()
        running.agent.stop()
        assert time.monotonic() - began < 5


def test_sigterm_to_a_stopped_agent_is_not_lost(tmp_path: Path) -> None:
    with Broken(tmp_path) as running:
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
            running.agent._process.send_signal(number)
            time.sleep(0.1)
        assert running.agent._process.wait(10) == 0


def test_a_lost_device_and_one_that_vanishes_are_two(broken: Broken) -> None:
    before = broken.until(all_fresh, "all answer")
    lost, vanished = before.devices[3].id, before.devices[0].id
    broken.fault(FaultKind.LOST, device=3)
    broken.until(lambda s: stale(s) == [3], "device 3 is lost")
    broken.node.set_faults([Fault(kind=FaultKind.LOST, device=3), Fault(kind=FaultKind.VANISHED, device=0)])
    snapshot = broken.until(lambda s: len(stale(s)) == 2, "device 0 has gone too")
    assert sorted(d.id for d in snapshot.devices) == sorted(d.id for d in before.devices)
    gone = {d.id for d in snapshot.devices if d.health.state is HealthState.LOST}
    assert gone == {lost, vanished}
    assert snapshot.readers[0].devices_expected == len(before.devices)


def test_sigint_ends_it_too(tmp_path: Path) -> None:
    with Broken(tmp_path) as running:
        running.agent._process.send_signal(signal.SIGINT)
        assert running.agent._process.wait(10) == 0
