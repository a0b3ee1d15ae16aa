"""The real agent on a simulated node, in simulated time.

The agent's readers, attribution and collector read the node's folder and its simulated cluster. The caller
sets the time, so readings follow each other without waiting. This is the only module of the simulator that
imports the agent (see .importlinter).
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accelscope import __version__
from accelscope.agent.assembly import attribution_options, chosen_annotations
from accelscope.agent.collector import CollectionInterval, Collector
from accelscope.agent.runner import Deadlines, Runner
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attributor
from accelscope.config import make
from accelscope.metrics.exposition import Exposition
from accelscope.model import AgentState, SinkState, Snapshot, Vendor
from accelscope.model.wire import snapshot_document
from accelscope.simulate.faults import Fault, FaultKind
from accelscope.simulate.kubernetes import SimulatedCluster
from accelscope.simulate.node import SimulatedNode
from accelscope.simulate.spec import NodeSpec, Pauses
from accelscope.sinks.annotation import document_builder
from accelscope.sinks.documents import fit
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import open_reader

_USERS = "root:x:0:0::/root:/bin/sh\n"
_ANNOTATING = make(
    AgentSettings, {v.annotation.setting: True for v in declarations().values() if v.annotation is not None}
)
_PATIENT = Deadlines(60, 60, 120)  # in real time: a busy machine must not decide what a recording contains
_PACE = CollectionInterval(60.0)  # likewise, for a collection that waits for its readers
_MAX_FIRST_COLLECTIONS = 20
_SOURCE_SECONDS = 0.2  # wait for a source of attribution, after the start and after pods changed


@dataclass(frozen=True, slots=True)
class AgentReading:
    at: float  # simulated time
    snapshot: Snapshot

    def document(self) -> dict[str, Any]:
        """The document that `/snapshot` serves."""
        return snapshot_document(self.snapshot)


def node_annotations(snapshot: Snapshot) -> dict[str, str]:
    """The annotations that an agent with that snapshot writes on its Node object."""
    documents = (document_builder(name)[0](snapshot) for name in chosen_annotations(_ANNOTATING))
    return {document.annotation: fit(document).text for document in documents if document.entries}


def metrics_page(snapshot: Snapshot) -> bytes:
    """The page that an agent with that snapshot serves at `/metrics`."""
    return Exposition().render(snapshot).text


class AgentSession:
    """One agent on one node, from its start until `close`. `faults` and `idle` are in simulated time."""

    def __init__(
        self,
        spec: NodeSpec,
        interval_seconds: float,
        at: float,
        *,
        faults: Iterable[Fault] = (),
        idle: Mapping[str, Pauses] | None = None,
        cache: Path | None = None,
    ) -> None:
        """Starts the agent at simulated time `at`, with a first reading."""
        faults = tuple(faults)
        hangs = any(fault.kind is FaultKind.HANG for fault in (*spec.faults, *faults))
        free = {name: own.without_costs() for name, own in spec.vendors.items()}
        self._interval = interval_seconds
        self._at = at
        self._stack = ExitStack()
        try:
            folder = Path(tempfile.mkdtemp(prefix="accelscope-agent-"))
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            self.node = SimulatedNode(replace(spec, vendors=free), folder / "node", cache=cache, idle=idle)
            self.node.schedule(faults)
            self.node.build(at)
            cluster = self._stack.enter_context(SimulatedCluster(self.node, folder / "cluster"))
            self._start(cluster, folder, Deadlines() if hangs else _PATIENT)
        except BaseException:
            self.close()
            raise

    def _start(self, cluster: SimulatedCluster, folder: Path, deadlines: Deadlines) -> None:
        node, changed = self.node, threading.Condition()
        (folder / "passwd").write_text(_USERS)
        settings = replace(
            make(AgentSettings, {**node.agent_settings(), **cluster.agent_settings()}),
            passwd_file=str(folder / "passwd"),
            gpu_allocation_file="",
        )
        options = replace(
            settings.reader_options,
            tool_interval_seconds=0,
            clock=self._clock,
            monotonic=self._monotonic,
        )
        runners = [
            Runner(
                open_reader(Vendor(name), options),
                deadlines=deadlines,
                changed=changed,
                paths=settings.paths,
                clock=self._clock,
            )
            for name in node.spec.vendors
        ]
        attributor = Attributor(
            attribution_options(settings, node.spec.name, {}), clock=self._clock, monotonic=self._monotonic
        )
        self._collector = Collector(
            runners,
            attributor,
            node=node.spec.name,
            version=__version__,
            pace=_PACE,
            changed=changed,
            publish=lambda _: None,
            clock=self._clock,
        )
        self._stack.callback(self._collector.stop)
        attributor.start()
        attributor.wait_for_first_lists(_PATIENT.pass_seconds)
        for _ in range(_MAX_FIRST_COLLECTIONS):
            if all(source.up for source in self._collector.collect().attribution):
                break
            time.sleep(_SOURCE_SECONDS)

    def _clock(self) -> float:
        return self.node.epoch + self._at

    def _monotonic(self) -> float:
        return self._at

    def collect(self, at: float) -> AgentReading:
        """A reading at simulated time `at`, which is not before the last one."""
        pods = self._running_pods()
        self._at = at
        self.node.write(at)
        if self._running_pods() != pods:
            time.sleep(_SOURCE_SECONDS)  # the agent watches pods in threads
        return AgentReading(at, self._published(self._collector.collect()))

    def schedule(self, faults: Iterable[Fault]) -> None:
        """`faults` apply from the next reading on."""
        self.node.schedule(faults)

    def close(self) -> None:
        self._stack.close()

    def _running_pods(self) -> set[str]:
        return {pod.uid for pod in self.node.pods if pod.runs_at(self._at)}

    def _published(self, snapshot: Snapshot) -> Snapshot:
        """Fills in what this process cannot measure like the process of an agent: its own resource usage, the
        state of a sink, and the times of watches, which use the machine's clock."""
        agent, processes = snapshot.agent, len(snapshot.processes)
        seconds = 0.012 * (1 + len(snapshot.devices) / 8)
        sink = SinkState(sink="annotation", up=True, last_success=snapshot.taken_at, writes=agent.collections)
        return replace(
            snapshot,
            interval_seconds=self._interval,
            agent=AgentState(
                version=agent.version,
                started_at=agent.started_at,
                collections=agent.collections,
                collection_seconds=seconds,
                cpu_seconds=round(0.2 + agent.collections * seconds, 2),
                memory_bytes=(19 << 20) + (processes << 12),
                threads=9,
                open_files=10,
            ),
            attribution=tuple(
                replace(source, last_success=min(source.last_success or 0.0, snapshot.taken_at))
                for source in snapshot.attribution
            ),
            sinks=(sink,) if node_annotations(snapshot) else (),
        )
