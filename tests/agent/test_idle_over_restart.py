"""An agent that is replaced goes on counting how long pods have been idle."""

import json
from pathlib import Path

from tests.agent_process import AgentProcess
from tests.costless import costless
from tests.patient_kubelet import patient_kubelet
from tests.waiting import wait_until

from accelscope.model import PodUsage
from accelscope.simulate import SimulatedNode
from accelscope.simulate.kubernetes import SimulatedCluster
from accelscope.sinks.idle_state import FILE


def notebook(agent: AgentProcess) -> PodUsage | None:
    """It holds a share of a GPU and never ran anything on it."""
    usages = [usage for usage in agent.snapshot().pod_usages if usage.pod == "notebook-mara-0"]
    return usages[0] if usages and usages[0].pod_uid and usages[0].idle_seconds is not None else None


def idle_for(agent: AgentProcess, seconds: float) -> bool:
    usage = notebook(agent)
    return usage is not None and (usage.idle_seconds or 0.0) >= seconds


def test_idle_seconds_continue_after_a_restart(tmp_path: Path) -> None:
    spec = costless("nvidia-shared")
    node = SimulatedNode(spec, tmp_path / "node")
    node.build(100.0)
    state = tmp_path / "state"
    state.mkdir()
    with patient_kubelet(), SimulatedCluster(node, tmp_path / "cluster") as cluster:
        settings = {
            **node.agent_settings(),
            **cluster.agent_settings(),
            "node_name": spec.name,
            "state_folder": str(state),
        }
        with AgentProcess(settings, tmp_path / "first") as agent:
            wait_until(lambda: idle_for(agent, 0.5), "the first agent counts")
            wait_until((state / FILE).exists, "the first agent keeps what it knows")
            usage = notebook(agent)
            assert usage is not None
            taken_at = agent.snapshot().taken_at
        # As if it had counted for two hours: only times of a minute and more are kept.
        place = [usage.device, usage.partition or "", usage.namespace, usage.pod, usage.container]
        kept = {"version": 1, "saved_at": taken_at, "idle": [[*place, usage.pod_uid, 7200.0]]}
        (state / FILE).write_text(json.dumps(kept))
        with AgentProcess(settings, tmp_path / "second") as agent:
            wait_until(lambda: idle_for(agent, 7200.0), "the second agent goes on counting")
            wait_until(
                lambda: json.loads((state / FILE).read_text())["saved_at"] > taken_at, "and keeps it in turn"
            )
            [entry] = json.loads((state / FILE).read_text())["idle"]
            assert entry[:-1] == [*place, usage.pod_uid]
            assert entry[-1] >= 7200
            up = b'accelscope_sink_up{sink="idle-state"} 1'
            wait_until(lambda: up in agent.get("/metrics").body, "the next page tells of it")
