"""A reader, run as the agent runs it, on a simulated node or on tools that a test writes."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from accelscope.agent.runner import Deadlines, Result, Runner
from accelscope.agent.settings import AgentSettings
from accelscope.model import Device, Vendor
from accelscope.simulate import Fault, FaultKind, SimulatedNode
from accelscope.vendors.common.contract import Reader, open_reader

LONG_SECONDS = 60.0  # how long a test waits for what must come


@dataclass
class Watched:
    """A reader and its runner. `now` is what they take for every time; tools are asked twice a second."""

    vendor: Vendor
    settings: AgentSettings
    node: SimulatedNode | None = None
    device_seconds: float = 60.0
    now: float = 1000.0
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        options = replace(
            self.settings.reader_options,
            tool_interval_seconds=0.5,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )
        self.reader = open_reader(self.vendor, options)
        self._changed = threading.Condition()
        self._runner = Runner(
            self.reader,
            deadlines=Deadlines(survey_seconds=60.0, device_seconds=self.device_seconds, pass_seconds=60.0),
            changed=self._changed,
            paths=self.settings.paths,
            clock=lambda: self.now,
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
        """Passes until one fulfils the condition: a tool answers when it answers."""
        give_up = time.monotonic() + LONG_SECONDS
        while True:
            result = self.read()
            if condition(result):
                return result
            assert time.monotonic() < give_up, result
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
