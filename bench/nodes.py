"""The simulated nodes that are measured."""

import contextlib
import itertools
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from accelscope.agent.settings import AgentSettings
from accelscope.config import make
from accelscope.model import Device, Process, Vendor
from accelscope.simulate import SimulatedNode, load_node
from accelscope.vendors.common.contract import open_reader
from bench.compiling import compile_program

CALL_COST_MICROSECONDS = 20  # CPU time of every driver call: what makes a comparison mean something
DEVICES = 8
PROCESSES_PER_DEVICE = 4
_FROZEN_AT = 1000.0  # seconds of simulated time


@dataclass(frozen=True, slots=True)
class Driver:
    """How quickly the simulated driver answers, and for which card."""

    model: str = "h100-80gb"
    call_microseconds: int = CALL_COST_MICROSECONDS
    pcie_window_milliseconds: int = 20  # during which the caller waits, where PCIe traffic is asked for


USUAL_DRIVER = Driver()


def make_node(
    folder: Path, description: Mapping[str, object], pids: Sequence[int] | None = None
) -> SimulatedNode:
    """A node that stands still: what is measured is who reads it, not what moves it. Where ids are given, the
    described processes are repeated in turn until each id has one."""
    folder.mkdir(parents=True)
    text = folder / "description.yaml"
    text.write_text(yaml.safe_dump(dict(description)))
    spec = load_node(text)
    if pids is not None:
        copies = zip(pids, itertools.cycle(spec.processes), strict=False)
        spec = replace(spec, processes=tuple(replace(process, pid=pid) for pid, process in copies))
    node = SimulatedNode(spec, folder / "node")
    node.build()
    node.write(at=_FROZEN_AT)
    return node


def describe(
    devices: int, processes: list[dict[str, object]], driver: Driver = USUAL_DRIVER
) -> dict[str, object]:
    return {
        "node": "bench",
        "seed": 1,
        "nvidia": {
            "call_cost_us": driver.call_microseconds,
            "pcie_window_ms": driver.pcie_window_milliseconds,
            "tool": {"cost_ms": 20, "memory_mb": 16},
            "devices": [{"model": driver.model, "count": devices}],
        },
        "processes": processes,
    }


def with_processes(devices: int, processes: int, *, shape: str = "idle") -> dict[str, object]:
    """A node whose processes exist in its own /proc only, spread evenly. Numbers of processes are compared
    with idle ones: of hundreds of busy ones, each has less than the driver's smallest figure."""
    each, rest = divmod(processes, devices)
    worker: dict[str, object] = {"name": "worker", "memory": "64MiB", "load": {"shape": shape}}
    spread: list[dict[str, object]] = [
        {**worker, "devices": list(range(devices)), "count": each},
        {**worker, "device": 0, "count": rest},
    ]
    return describe(devices, [entry for entry in spread if entry["count"]])


@contextlib.contextmanager
def usual_node(folder: Path) -> Iterator[SimulatedNode]:
    """Eight devices, each with a pod of four processes."""
    with busy_node(folder, DEVICES, DEVICES * PROCESSES_PER_DEVICE) as node:
        yield node


@contextlib.contextmanager
def busy_node(
    folder: Path, devices: int, processes: int, *, driver: Driver = USUAL_DRIVER
) -> Iterator[SimulatedNode]:
    """A pod on each device, with a share of the processes. They really run, because nvitop and all-smi look
    them up in the machine's own /proc and leave out what is not there."""
    each: list[dict[str, object]] = [
        {
            "name": "worker",
            "device": device,
            "memory": "64MiB",
            "cgroup": {"kind": "pod", "namespace": "team", "pod": f"worker-{device}"},
        }
        for device in range(min(devices, processes))
    ]
    folder.mkdir(parents=True)
    with sleeping(processes, folder) as pids:
        yield make_node(folder / "described", describe(devices, each, driver), pids)


@contextlib.contextmanager
def sleeping(count: int, folder: Path) -> Iterator[list[int]]:
    """The ids of processes that do nothing; they end with the block, and with the benchmark."""
    program = compile_program("sleepers", folder)
    with subprocess.Popen(
        [str(program), str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        pids = [int(line) for line in iter(parent.stdout.readline, "\n") if line]
        yield pids


def read(node: SimulatedNode) -> tuple[list[Device], list[Process]]:
    """What the agent's own reader makes of the node."""
    settings = make(AgentSettings, node.agent_settings())
    reader = open_reader(Vendor("nvidia"), settings.reader_options)
    readings = [reader.read(key) for key in reader.survey().keys]
    reader.close()
    return [r.device for r in readings], [process for r in readings for process in r.processes]
