"""The AMD reader, run as the agent runs it, on simulated nodes and with tools that a test writes."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.costless import costless
from tests.programs import script

from accelscope.agent.runner import Deadlines, Result, Runner
from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.readers.amd.reader import AmdReader
from accelscope.simulate import Fault, FaultKind, SimulatedNode

LONG_SECONDS = 60.0  # how long a test waits for what must come


@dataclass
class Watched:
    """A reader and its runner. `now` is what they take for the time since the epoch."""

    settings: AgentSettings
    node: SimulatedNode | None = None
    device_seconds: float = 60.0
    now: float = 1000.0
    reader: AmdReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = AmdReader(
            replace(self.settings.reader_options, tool_interval_seconds=0.5),
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )
        self._changed = threading.Condition()
        self._runner = Runner(
            self.reader,
            deadlines=Deadlines(60.0, self.device_seconds, 60.0),
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

    def until(self, condition: Callable[[Result], bool]) -> Result:
        """Passes until one fulfils the condition: a tool answers when it answers."""
        give_up = time.monotonic() + LONG_SECONDS
        while True:
            result = self.read()
            if condition(result):
                return result
            assert time.monotonic() < give_up, result.state
            time.sleep(0.05)

    def with_tool(self) -> Result:
        return self.until(lambda result: "smi" in (result.state.source or ""))

    def write(self, at: float) -> None:
        assert self.node is not None
        self.node.write(at)

    def fault(
        self,
        kind: FaultKind,
        device: int | None = None,
        tool: str | None = None,
        error: str | None = None,
    ) -> None:
        assert self.node is not None
        self.node.set_faults([Fault(kind=kind, device=device, tool=tool, error=error)])

    def clear(self) -> None:
        if self.node is not None:
            self.node.set_faults(())

    def close(self) -> None:
        self.clear()
        with self._changed:
            self._runner.stop()


Watch = Callable[..., Watched]


@pytest.fixture
def watch(tmp_path: Path, native_cache: Path) -> Iterator[Watch]:
    """`watch("amd-mi250")` or `watch(yaml text)`: a reader on a simulated node whose tools cost nothing and
    are asked twice a second."""
    watched: list[Watched] = []

    def begin(node: str, at: float = 60.0, device_seconds: float = 60.0, **settings: str) -> Watched:
        made = SimulatedNode(costless(node), tmp_path / f"node{len(watched)}", cache=native_cache)
        made.build(at)
        given = {**made.agent_settings(), **settings}
        watched.append(Watched(load(AgentSettings, given, {}).settings, made, device_seconds))
        return watched[-1]

    yield begin
    for one in watched:
        one.close()


@pytest.fixture
def watch_folder(tmp_path: Path) -> Iterator[Watch]:
    """`watch_folder(rocm_smi="cat x.json")`: a reader on `tmp_path` with these shell scripts as tools."""
    watched: list[Watched] = []

    def begin(**scripts: str) -> Watched:
        given = {
            name: str(tmp_path / name.partition("_")[0]) for name in ("proc_root", "sys_root", "dev_root")
        }
        for name in ("amd_smi", "rocm_smi"):
            given[f"{name}_path"] = str(tmp_path / name)
            if name in scripts:
                script(tmp_path / name, scripts[name])
        loaded = load(AgentSettings, {**given, "reader_timeout": "30"}, {})
        watched.append(Watched(loaded.settings))
        return watched[-1]

    yield begin
    for one in watched:
        one.close()
