"""What it costs to tell whose processes are: at first sight, and when they are known."""

import contextlib
import gc
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from accelscope.agent.assembly import attribution_options
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attributor
from accelscope.attribution.options import AttributionOptions
from accelscope.config import make
from accelscope.model import Device, OwnerKind, Process
from accelscope.simulate.kubernetes import SimulatedCluster
from bench.children import Workshop
from bench.contracts import Contract, Outcome, Verdict
from bench.nodes import DEVICES, describe, make_node, read
from bench.tables import Table, ms, times

_WORKLOADS = 125  # of which about 100 are pods
_QOS = ("guaranteed", "burstable", "besteffort")
_REAL_PROCESSES = 200
_PASSES = 9  # over known processes, for each first one
_SLOW_SECONDS = 30.0
_CONTRACT = 10


@dataclass(frozen=True, slots=True)
class Passes:
    """CPU seconds of one pass over some processes; the fastest, because what else the machine does only
    adds."""

    processes: int
    first: float
    steady: float
    in_pods: int  # of the processes
    pods: int

    @property
    def ratio(self) -> float:
        return self.first / self.steady


def attribute(workshop: Workshop) -> Outcome:
    rounds = 2 * workshop.effort.repeats + 1
    count = workshop.effort.processes[-1]
    node = make_node(workshop.folder / "attribution", describe(DEVICES, _workloads(count)))
    devices, processes = read(node)
    with SimulatedCluster(node, workshop.folder / "attribution-cluster") as cluster:
        settings = make(AgentSettings, {**node.agent_settings(), **cluster.agent_settings()})
        options = attribution_options(settings, node.spec.name, {})
        simulated = measure(options, devices, processes, rounds)
    with _sleepers(devices) as real_processes:
        beside = AttributionOptions(node=node.spec.name)
        real = measure(beside, devices, real_processes, rounds)
    table = Table(
        "Attribution", ("processes", "in pods", "pods", "pass", "CPU ms", "CPU us each", "to steady")
    )
    for name, passes in (("simulated /proc", simulated), ("the machine's /proc", real)):
        numbers = f"{passes.processes}, {name}", str(passes.in_pods), str(passes.pods)
        for kind, seconds in (("first", passes.first), ("steady", passes.steady)):
            each = f"{1e6 * seconds / passes.processes:.1f}"
            table.add(*numbers, kind, ms(seconds), each, times(seconds / passes.steady))
    table.notes = (
        "One call of the attributor: processes, owners, pods' use, energy, what is left over. First: nothing "
        "is known of any process; the pods are. Steady: all are known, and /proc is asked of each whether it "
        "is still the same.",
        f"Fastest of {rounds} first passes and of {rounds * _PASSES} steady ones. The kubelet is asked "
        "beside, in a thread that is not counted. Processes in no pod are read anew once a minute, which "
        "no steady pass here was late enough for. Files of a simulated /proc cost less to read than those "
        "that the kernel makes up.",
    )
    return Outcome([table], {Contract.ATTRIBUTION: _verdict(simulated, real)})


def _verdict(simulated: Passes, real: Passes) -> Verdict:
    holds = simulated.ratio >= _CONTRACT
    measured = (
        f"{times(simulated.ratio)} ({ms(simulated.first)} and {ms(simulated.steady)} ms for "
        f"{simulated.processes}); in the machine's own /proc {times(real.ratio)}"
    )
    return measured, holds, holds


def measure(
    options: AttributionOptions, devices: Sequence[Device], processes: Sequence[Process], rounds: int
) -> Passes:
    """Of an attributor that knows the pods, and in each round at first none of the processes."""
    first: list[float] = []
    steady: list[float] = []
    gc.collect()
    gc.freeze()  # what else is in this process, such as a simulated node, is no part of an agent
    try:
        for _ in range(rounds):
            attributor = Attributor(options)
            attributor.start()
            if not attributor.wait_for_first_lists(_SLOW_SECONDS):
                raise RuntimeError(f"no list of pods after {_SLOW_SECONDS:g} s")
            for number in range(1 + _PASSES):
                shown = [replace(process) for process in processes]  # readers make new ones, too
                attributor.begin()
                started = time.thread_time()
                result = attributor.attribute(devices, shown)
                (steady if number else first).append(time.thread_time() - started)
            attributor.stop()
    finally:
        gc.unfreeze()
    in_pods = sum(1 for p in result.processes if p.owner is not None and p.owner.kind is OwnerKind.POD)
    return Passes(len(processes), min(first), min(steady), in_pods, len(result.pods))


def _workloads(processes: int) -> list[dict[str, object]]:
    return [
        {
            "name": "worker",
            "device": number % DEVICES,
            "count": processes // _WORKLOADS,
            "memory": "64MiB",
            "load": {"shape": "idle"},
            "cgroup": _cgroup(number),
        }
        for number in range(_WORKLOADS)
    ]


def _cgroup(number: int) -> dict[str, object]:
    match number % 20:
        case 0:
            return {"kind": "host"}
        case 1:
            return {"kind": "host", "unit": f"service-{number}.service"}
        case 2:
            return {"kind": "slurm"}
        case 3:
            return {"kind": "docker"}
        case _:
            name = {"namespace": f"team-{number % 7}", "pod": f"worker-{number}"}
            return {"kind": "pod", "qos": _QOS[number % len(_QOS)], **name}


@contextlib.contextmanager
def _sleepers(devices: Sequence[Device]) -> Iterator[list[Process]]:
    """Processes of this machine."""
    children = [
        subprocess.Popen(["sleep", "1000000"], stdin=subprocess.DEVNULL) for _ in range(_REAL_PROCESSES)
    ]
    try:
        yield [
            Process(pid=child.pid, device=devices[number % len(devices)].id, memory_bytes=1 << 26)
            for number, child in enumerate(children)
        ]
    finally:
        for child in children:
            child.kill()
            child.wait()
