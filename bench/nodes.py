"""The simulated nodes that are measured."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from accelscope.agent.settings import AgentSettings
from accelscope.model import Device, Process, Vendor
from accelscope.readers.registry import open_reader
from accelscope.simulate import SimulatedNode, load_node

CALL_COST_MICROSECONDS = 20  # CPU time of every driver call: what makes a comparison mean something
DEVICES = 8
PROCESSES_PER_DEVICE = 4
_FROZEN_AT = 1000.0  # seconds of simulated time


def make_node(folder: Path, description: Mapping[str, object]) -> SimulatedNode:
    """A node that stands still: what is measured is who reads it, not what moves it."""
    folder.mkdir(parents=True)
    text = folder / "description.yaml"
    text.write_text(yaml.safe_dump(dict(description)))
    node = SimulatedNode(load_node(text), folder / "node")
    node.build()
    node.write(at=_FROZEN_AT)
    return node


def describe(devices: int, processes: list[dict[str, object]]) -> dict[str, object]:
    return {
        "node": "bench",
        "seed": 1,
        "nvidia": {
            "call_cost_us": CALL_COST_MICROSECONDS,
            "tool": {"cost_ms": 20, "memory_mb": 16},
            "devices": [{"model": "h100-80gb", "count": devices}],
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
    """Eight devices, each with a pod of four processes. They really run, because nvitop looks them up in the
    machine's own /proc and leaves out what is not there."""
    sleepers = [
        subprocess.Popen(["sleep", "1000000"], stdin=subprocess.DEVNULL)
        for _ in range(DEVICES * PROCESSES_PER_DEVICE)
    ]
    try:
        processes: list[dict[str, object]] = [
            {
                "name": "worker",
                "device": number % DEVICES,
                "pid": sleeper.pid,
                "memory": "4GiB",
                "cgroup": {"kind": "pod", "namespace": "team", "pod": f"worker-{number % DEVICES}"},
            }
            for number, sleeper in enumerate(sleepers)
        ]
        yield make_node(folder, describe(DEVICES, processes))
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def read(node: SimulatedNode) -> tuple[list[Device], list[Process]]:
    """What the agent's own reader makes of the node."""
    settings = AgentSettings(**node.agent_settings())  # type: ignore[arg-type]
    reader = open_reader(Vendor.NVIDIA, settings.reader_options)
    readings = [reader.read(key) for key in reader.survey().keys]
    reader.close()
    return [r.device for r in readings], [process for r in readings for process in r.processes]
