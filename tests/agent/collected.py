"""What the agent makes of ready-made nodes, at a fixed time."""

import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.costless import costless
from tests.patient_kubelet import patient_kubelet
from tests.waiting import PATIENCE_SECONDS

from accelscope.agent.assembly import attribution_options
from accelscope.agent.collector import CollectionInterval, Collector
from accelscope.agent.runner import Deadlines, Runner
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attributor
from accelscope.config import make
from accelscope.model import Snapshot, Vendor
from accelscope.simulate import SimulatedNode
from accelscope.simulate.kubernetes import SimulatedCluster
from accelscope.vendors.common.contract import open_reader

WALL_CLOCK = 1_800_000_000.0
SIMULATED_TIMES = (7200.0, 7210.0)  # two collections: some values are measured between two samples


def collect(name: str, folder: Path, *, library: bool = True) -> Snapshot:
    """Through the vendor's library where there is one, or through its tool alone."""
    node = SimulatedNode(costless(name), folder / "node")
    node.build(SIMULATED_TIMES[0])
    users = folder / "passwd"
    users.write_text("root:x:0:0::/root:/bin/sh\nalice:x:1001:1001::/home/alice:/bin/sh\n")
    with patient_kubelet(), SimulatedCluster(node, folder / "cluster") as cluster:
        without = {} if library else {"nvml_library": str(folder / "no-library")}
        settings = replace(
            make(AgentSettings, {**node.agent_settings(), **cluster.agent_settings(), **without}),
            passwd_file=str(users),
            pod_labels=("app",),
            node_labels=("kubernetes.io/arch",),
            gpu_allocation_file="",
        )
        return _collect_with(settings, node)


@cache
def collected(name: str) -> Snapshot:
    """That snapshot, made once for all tests."""
    with TemporaryDirectory() as folder:
        return collect(name, Path(folder))


def _collect_with(settings: AgentSettings, node: SimulatedNode) -> Snapshot:
    changed = threading.Condition()
    simulated = [0.0]
    options = replace(
        settings.reader_options,
        tool_interval_seconds=0,
        clock=lambda: WALL_CLOCK,
        monotonic=lambda: simulated[0],
    )
    runners = [
        Runner(
            open_reader(Vendor(vendor), options),
            deadlines=Deadlines(30, 30, 60),
            changed=changed,
            clock=lambda: WALL_CLOCK,
        )
        for vendor in node.spec.vendors
    ]
    attributor = Attributor(
        attribution_options(settings, node.spec.name, {}),
        clock=lambda: WALL_CLOCK,
        monotonic=lambda: simulated[0],
    )
    collector = Collector(
        runners,
        attributor,
        node=node.spec.name,
        version="golden",
        pace=CollectionInterval(60.0),
        changed=changed,
        publish=lambda _: None,
        clock=lambda: WALL_CLOCK,
    )
    collector.labels = (("rack", "7"),)
    try:
        attributor.start()
        assert attributor.wait_for_first_lists(PATIENCE_SECONDS)
        for at in SIMULATED_TIMES:
            node.write(at)
            simulated[0] = at
            snapshot = collector.collect()
    finally:
        collector.stop()
    return snapshot
