"""A GPU with a fatal error does not become healthy because its agent was restarted."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent_process import AgentProcess
from tests.costless import costless
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.agent.health_state import FILE
from accelscope.model import Health, HealthState, Snapshot
from accelscope.simulate import SimulatedNode
from accelscope.simulate.faults import Fault, FaultKind

XID = Fault(kind=FaultKind.XID, device=1, code=48)
OK, CRITICAL = HealthState.OK, HealthState.CRITICAL


class Lab:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.state.mkdir()
        self.node = SimulatedNode(costless("nvidia-h100x8"), folder / "node")
        self.node.build()
        self.agents = 0

    @property
    def settings(self) -> dict[str, str]:
        return {**self.node.agent_settings(), "state_folder": str(self.state)}

    @contextmanager
    def agent(self) -> Iterator[AgentProcess]:
        self.agents += 1
        with AgentProcess(self.settings, self.folder / f"agent-{self.agents}") as agent:
            yield agent

    def stored(self) -> list[str]:
        if not (self.state / FILE).exists():
            return []
        devices = json.loads((self.state / FILE).read_text())["devices"]
        return [code for _, errors, _ in devices for _, code, _, _ in errors]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """After an agent that saw the error."""
    made = Lab(tmp_path)
    stop = threading.Event()
    mover = threading.Thread(target=made.node.run, args=(stop, 0.25), daemon=True)
    mover.start()
    try:
        with made.agent() as agent:
            agent.until(lambda s: len(s.devices) == 8, "all devices are read")
            made.node.set_faults([XID])
            agent.until(lambda s: health(s) == (CRITICAL, "xid_48"), "the agent sees the error")
            wait_until(lambda: made.stored() == ["48"], "and stores it")
        yield made
    finally:
        stop.set()
        mover.join(PATIENCE_SECONDS)


def full_health(snapshot: Snapshot) -> Health | None:
    return next((device.health for device in snapshot.devices if device.index == 1), None)


def health(snapshot: Snapshot) -> tuple[HealthState, str | None] | None:
    found = full_health(snapshot)
    return None if found is None else (found.state, found.cause)


def test_the_error_stays_after_a_restart_and_ends_with_a_reset(lab: Lab) -> None:
    with lab.agent() as agent:
        snapshot = agent.until(lambda s: len(s.devices) == 8, "all devices are read")
        found = full_health(snapshot)
        assert found is not None
        assert (found.state, found.reason) == (CRITICAL, "XID 48 (uncorrectable memory error)")
        assert found.since is not None
        assert found.since < snapshot.agent.started_at
        up = b'accelscope_sink_up{sink="health-state"} 1'
        wait_until(lambda: up in agent.get("/metrics").body, "the sink is up")
        lab.node.set_faults([XID, Fault(kind=FaultKind.RESET, device=1)])
        agent.until(lambda s: health(s) == (OK, None), "the agent sees the reset")
        wait_until(lambda: lab.stored() == [], "and forgets the error")


def test_doctor_sees_it_too(lab: Lab) -> None:
    flags = [word for k, v in lab.settings.items() for word in (f"--{k.replace('_', '-')}", v)]
    command = [sys.executable, "-m", "accelscope", "doctor", *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "critical (XID 48 (uncorrectable memory error))" in done.stdout


@pytest.mark.parametrize("kind", [FaultKind.REBOOT, FaultKind.DRIVER_RELOAD, FaultKind.RESET])
def test_what_ends_it_while_no_agent_runs_ends_it(lab: Lab, kind: FaultKind) -> None:
    lab.node.set_faults([Fault(kind=kind, device=1 if kind.of_device else None)])
    with lab.agent() as agent:
        assert health(agent.until(lambda s: len(s.devices) == 8, "all devices are read")) == (OK, None)


def test_with_a_damaged_file_the_agent_starts_and_writes_another(lab: Lab) -> None:
    (lab.state / FILE).write_text('{"version": 1, "devices": [["')
    with lab.agent() as agent:
        agent.until(lambda s: len(s.devices) == 8, "all devices are read")
        up = b'accelscope_sink_up{sink="health-state"} 1'
        wait_until(lambda: up in agent.get("/metrics").body, "the file is written")
        assert agent.log().count("errors of devices before the restart are unknown") == 1
