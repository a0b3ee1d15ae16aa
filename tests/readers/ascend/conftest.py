"""The Ascend reader, run as the agent runs it, on simulated nodes and on tools that a test writes."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests import programs
from tests.costless import costless

from accelscope.agent.runner import Deadlines, Result, Runner
from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.model import Device
from accelscope.readers.ascend.reader import AscendReader
from accelscope.simulate import Fault, FaultKind, SimulatedNode

LONG_SECONDS = 60.0  # how long a test waits for what must come
# Time enough on a busy machine for a tool, of which a survey takes a share to find out who new chips are.
PATIENT = {"reader_timeout": "60s"}


@dataclass
class Watched:
    """A reader and its runner. `clock` is what they take for the time since the epoch."""

    settings: AgentSettings
    node: SimulatedNode | None = None
    now: float = 1000.0
    reader: AscendReader = field(init=False)

    def __post_init__(self) -> None:
        options = replace(self.settings.reader_options, tool_interval_seconds=0.5, clock=lambda: self.now)
        self.reader = AscendReader(options)
        self._changed = threading.Condition()
        self._runner = Runner(
            self.reader,
            deadlines=Deadlines(survey_seconds=60, device_seconds=60, pass_seconds=60),
            changed=self._changed,
        )

    def read(self) -> Result:
        """One pass."""
        with self._changed:
            self._runner.begin()
            while self._runner.busy:
                self._changed.wait(0.05)
                self._runner.abandon_overdue()
            return self._runner.result()

    def devices(self) -> tuple[Device, ...]:
        return self.read().devices

    def until(self, condition: Callable[[Result], bool]) -> Result:
        """Passes until one fulfils the condition: details come when they come."""
        give_up = time.monotonic() + LONG_SECONDS
        while True:
            result = self.read()
            if condition(result):
                return result
            assert time.monotonic() < give_up, result
            time.sleep(0.05)

    def fault(self, kind: FaultKind, device: int | None = None, error: str | None = None) -> None:
        assert self.node is not None
        self.node.set_faults([Fault(kind=kind, device=device, error=error)])

    def clear(self) -> None:
        assert self.node is not None
        self.node.set_faults(())

    def close(self) -> None:
        with self._changed:
            self._runner.stop()


Watch = Callable[..., Watched]


@pytest.fixture
def watch(tmp_path: Path, native_cache: Path) -> Iterator[Watch]:
    """`watch("ascend-a3")` or `watch(yaml text)`: a reader on a simulated node. Details are asked for
    twice a second."""
    watched: list[Watched] = []

    def begin(node: str, at: float = 60.0, **settings: str) -> Watched:
        made = SimulatedNode(costless(node), tmp_path / f"node{len(watched)}", cache=native_cache)
        made.build(at)
        given = {**made.agent_settings(), **PATIENT, **settings}
        watched.append(Watched(load(AgentSettings, given, {}).settings, made))
        return watched[-1]

    yield begin
    for one in watched:
        one.clear()
        one.close()


@pytest.fixture
def watch_script(tmp_path: Path) -> Iterator[Watch]:
    """`watch_script("cat table.txt")`: a reader whose npu-smi is this shell script."""
    watched: list[Watched] = []

    def begin(script: str, **settings: str) -> Watched:
        tool = programs.script(tmp_path / f"npu-smi-{len(watched)}", script)
        (tmp_path / "dev").mkdir(exist_ok=True)
        given = {
            "npu_smi_path": str(tool),
            "ascend_driver_root": str(tmp_path / "driver"),
            "sys_root": str(tmp_path / "sys"),
            "dev_root": str(tmp_path / "dev"),
            **PATIENT,
            **settings,
        }
        watched.append(Watched(load(AgentSettings, given, {}).settings))
        return watched[-1]

    yield begin
    for one in watched:
        one.close()
