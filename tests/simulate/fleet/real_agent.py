"""What the real agent makes of a simulated node at given times: folder, cluster, readers and attribution."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tests.patient_kubelet import patient_kubelet
from tests.waiting import PATIENCE_SECONDS

from accelscope.agent.attribution_options import attribution_options
from accelscope.agent.collector import Collector, Pace
from accelscope.agent.runner import Deadlines, Runner
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attributor
from accelscope.model import Snapshot, Vendor
from accelscope.readers.registry import open_reader
from accelscope.simulate import SimulatedNode
from accelscope.simulate.kubernetes import SimulatedCluster
from accelscope.simulate.spec import NodeSpec

WALL_CLOCK = 1_767_225_600.0  # of simulated time zero, on a node that nobody keeps moving
_PASSWD = "root:x:0:0::/root:/bin/sh\n"


def collected(spec: NodeSpec, times: Sequence[float], folder: Path, cache: Path) -> Snapshot:
    """The last of several collections."""
    node = SimulatedNode(spec, folder / "node", cache=cache)
    node.build(times[0])
    assert node.epoch == WALL_CLOCK
    (folder / "passwd").write_text(_PASSWD)
    now = [times[0]]
    with ExitStack() as stack:
        stack.enter_context(patient_kubelet())
        cluster = stack.enter_context(SimulatedCluster(node, folder / "cluster"))
        settings = replace(
            AgentSettings(**{**node.agent_settings(), **cluster.agent_settings()}),  # type: ignore[arg-type]
            passwd_file=str(folder / "passwd"),
            gpu_allocation_file="",
        )
        options = replace(
            settings.reader_options,
            tool_interval_seconds=0,
            clock=lambda: WALL_CLOCK + now[0],
            monotonic=lambda: now[0],
        )
        changed = threading.Condition()
        runners = [
            Runner(open_reader(Vendor(name), options), deadlines=Deadlines(30, 30, 60), changed=changed)
            for name in spec.vendors
        ]
        attributor = Attributor(attribution_options(settings, spec.name, {}), monotonic=lambda: now[0])
        collector = Collector(
            runners,
            attributor,
            node=spec.name,
            version="test",
            pace=Pace(60.0),
            changed=changed,
            publish=lambda _: None,
            clock=lambda: WALL_CLOCK + now[0],
        )
        stack.callback(collector.stop)
        attributor.start()
        assert attributor.wait_for_first_lists(PATIENCE_SECONDS)
        for at in times:
            now[0] = at
            node.write(at)
            snapshot = collector.collect()
    return snapshot
