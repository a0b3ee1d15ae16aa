"""The nodes on which exporters are compared."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from accelscope.simulate import SimulatedNode
from bench.effort import Effort
from bench.nodes import DEVICES, PROCESSES_PER_DEVICE, Driver, busy_node

# Nobody waits for PCIe windows but in the scene that is about them: the peers at their best.
_QUICK = Driver(pcie_window_milliseconds=0)
# On this card the agent has no other source of PCIe traffic, and so waits as others do.
_SLOW = Driver("a100-40gb", call_microseconds=50, pcie_window_milliseconds=20)


USUAL_NODE = "usual"


@dataclass(frozen=True, slots=True)
class Scene:
    name: str
    told: str  # for the notes below the table
    devices: int
    processes: int
    driver: Driver = _QUICK
    interval_seconds: int = 1  # of collections, for every exporter that has one
    millicpu: int | None = None  # what it may use
    pause_seconds: float = 0.02  # from one scrape to the next
    yardsticks: bool = False  # also exporters that read no devices
    uncapped: bool = False  # also an agent that shows every process

    @contextlib.contextmanager
    def node(self, folder: Path) -> Iterator[SimulatedNode]:
        with busy_node(folder, self.devices, self.processes, driver=self.driver) as node:
            yield node


def scenes(effort: Effort) -> tuple[Scene, ...]:
    usual = DEVICES * PROCESSES_PER_DEVICE
    many, crowd = effort.scene_devices, effort.scene_processes
    return (
        Scene(
            USUAL_NODE,
            f"8 H100 with 4 processes each, {_QUICK.call_microseconds} us of CPU a driver call",
            DEVICES,
            usual,
            yardsticks=True,
        ),
        Scene(
            f"{many} devices",
            "4 processes each",
            many,
            many * PROCESSES_PER_DEVICE,
            interval_seconds=2,
        ),
        Scene(
            f"{crowd} processes",
            "on 8 devices; the agent with its usual cap on series of processes, and without",
            DEVICES,
            crowd,
            interval_seconds=effort.scene_interval_seconds,
            uncapped=True,
        ),
        Scene(
            "slow driver",
            f"8 A100, {_SLOW.call_microseconds} us of CPU a call, and whoever asks for PCIe traffic waits "
            f"{_SLOW.pcie_window_milliseconds} ms",
            DEVICES,
            usual,
            _SLOW,
        ),
        Scene(
            "100m CPU",
            "the usual node; each exporter in a control group that may use 10 ms of CPU in 100 ms; a scrape "
            "every 250 ms",
            DEVICES,
            usual,
            interval_seconds=2,
            millicpu=100,
            pause_seconds=0.25,
            yardsticks=True,
        ),
    )
