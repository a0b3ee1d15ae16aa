"""A simulated node: a folder that looks like a machine with a driver, kept up to date as time goes on."""

import time
from collections.abc import Iterable
from pathlib import Path
from threading import Event

from accelscope.simulate.faults import Fault, FaultLog
from accelscope.simulate.nvidia.driver import NvidiaDriver
from accelscope.simulate.spec import NodeSpec


class SimulatedNode:
    def __init__(self, spec: NodeSpec, folder: Path | str, *, cache: Path | None = None) -> None:
        self.spec = spec
        self.folder = Path(folder).absolute()
        self._faults = FaultLog(spec.faults)
        self._nvidia = NvidiaDriver(spec, self.folder, cache)

    def build(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._nvidia.build()

    def write(self, at: float) -> None:
        self._nvidia.write(at, self._faults)

    def set_faults(self, faults: Iterable[Fault]) -> None:
        self._faults.observe(faults, 0.0)

    def run(self, stop: Event, period: float = 1.0) -> None:
        started = time.monotonic()
        while not stop.is_set():
            self.write(time.monotonic() - started)
            stop.wait(period)
