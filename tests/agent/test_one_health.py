"""A device has one state with one reason: the same on the pages, in top, in doctor and for the kubelet."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.agent_process import AgentProcess
from tests.costless import costless
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.agent.health_state import FILE
from accelscope.agent.settings import AgentSettings
from accelscope.config.settings import make
from accelscope.deviceplugin.watch import DriverWatch
from accelscope.model import HealthState, Vendor
from accelscope.simulate import SimulatedNode
from accelscope.simulate.faults import Fault, FaultKind
from accelscope.sinks.documents import devices_document
from accelscope.vendors.common.contract import open_reader

REASON = "XID 48 (uncorrectable memory error)"
ACTION = "Drain the GPU and reset it"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    made = SimulatedNode(costless("nvidia-h100x8"), tmp_path / "node")
    made.build()
    stop = threading.Event()
    mover = threading.Thread(target=made.run, args=(stop, 0.25), daemon=True)
    mover.start()
    yield made
    stop.set()
    mover.join(PATIENCE_SECONDS)


def run(*words: str, settings: Mapping[str, str] | None = None) -> str:
    flags = [word for k, v in (settings or {}).items() for word in (f"--{k.replace('_', '-')}", v)]
    command = [sys.executable, "-m", "accelscope", *words, *flags]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120).stdout


def test_every_output_shows_the_same_state_and_reason(node: SimulatedNode, tmp_path: Path) -> None:
    options = make(AgentSettings, node.agent_settings()).reader_options
    watch = DriverWatch(
        open_reader(Vendor("nvidia"), options), survey_seconds=60, device_seconds=60, paths=options.paths
    )
    watch.check()
    settings = {**node.agent_settings(), "state_folder": str(tmp_path)}
    with AgentProcess(settings, tmp_path / "agent") as agent:
        agent.until(lambda s: len(s.devices) == 8, "all devices are read")
        node.set_faults([Fault(kind=FaultKind.XID, device=1, code=48)])
        snapshot = agent.until(
            lambda s: s.devices[1].health.state is HealthState.CRITICAL, "the agent sees the error"
        )
        health = snapshot.devices[1].health
        assert (health.reason, health.cause, health.until) == (REASON, "xid_48", "reset")
        assert (health.action or "").startswith(ACTION)
        page = agent.get("/metrics").body.decode()
        labels = f'state="critical",cause="xid_48",reason="{REASON}",action="{ACTION}'
        assert [line for line in page.splitlines() if "health_cause_info" in line and labels in line]
        entry = devices_document(snapshot).entries[1]
        assert entry.identity["health"] == "critical"
        shown = run("top", "--once", "--width", "200", f"http://127.0.0.1:{agent.port}")
        assert f"CRIT ({REASON}): {ACTION}" in shown
        wait_until(lambda: '"48"' in (tmp_path / FILE).read_text(), "the agent stores the error")
    assert [d.health.reason for d in watch.check().devices if d.health.state is HealthState.CRITICAL] == [
        REASON
    ]
    watch.close()
    found = run("doctor", settings=settings)
    assert f"critical ({REASON})" in found
    assert ACTION in found
    here = {k: v for k, v in settings.items() if k not in ("pod_source", "pod_resources_socket")}
    assert f"CRIT ({REASON})" in run("top", "--once", "--width", "200", settings=here)
