"""The engine over a simulated fleet: every source against simulated clusters."""

from collections import Counter
from pathlib import Path

from tests.fleet.loop import run
from tests.fleet.refresh.running import engine_over

from accelscope.fleet.clusters import ClustersFile
from accelscope.simulate.fleet.description import read_fleet
from accelscope.simulate.fleet.faults import read_fleet_fault, write_faults
from accelscope.simulate.fleet.fleet import SimulatedFleet
from accelscope.simulate.spec import Description

FLEET = """\
clusters:
  - id: berlin
    nodes: [{node: mixed, count: 2}, {node: nvidia-mig, count: 1}]
  - id: paris
    agents: false
    driver_pods: true
    nodes: [{node: nvidia-h100x8, count: 2}, {node: ascend-910b-x8, count: 1}]
"""


def test_each_node_of_a_simulated_fleet_is_read_by_its_source_and_has_its_own_faults(tmp_path: Path) -> None:
    async def go() -> None:
        simulated = SimulatedFleet(read_fleet(FLEET), tmp_path)
        async with simulated.running():
            clusters = ClustersFile(str(simulated.clusters_file))
            async with engine_over(clusters=clusters) as running:
                await running.until(lambda: len(running.nodes(state="fresh")) == 6, 60)
                assert Counter((row.cluster, row.source, row.devices) for row in running.nodes()) == {
                    ("berlin", "agents", 8): 2,
                    ("berlin", "agents", 3): 1,
                    ("paris", "exec", 8): 2,
                    ("paris", "annotations", 8): 1,
                }
                assert all(row.simulated for row in running.nodes())
                assert len(running.store.pods) > 0

                troubles = [
                    {"cluster": "berlin", "node": "nvidia-mig-0001", "kind": "agent_schema", "schema": "2.0"},
                    {"cluster": "paris", "kind": "api_unauthorized"},
                ]
                nodes = simulated.spec.nodes()
                write_faults(
                    tmp_path, [read_fleet_fault(Description(one, "fault"), nodes) for one in troubles]
                )
                await running.until(lambda: len(running.nodes(state="incompatible")) == 1, 60)
                await running.until(lambda: running.cluster("paris").reachable is False, 60)
                assert running.cluster("paris").reason == "unauthorized"
                assert len(running.nodes(cluster="paris")) == 3
                assert running.cluster("berlin").reachable

                write_faults(tmp_path, ())
                await running.until(lambda: len(running.nodes(state="fresh")) == 6, 60)
                await running.until(lambda: running.cluster("paris").reachable is True, 60)

    run(go(), 120)
