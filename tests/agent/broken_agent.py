"""An agent on a simulated node on which something breaks."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.agent_process import AgentProcess
from tests.costless import costless
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.model import Snapshot
from accelscope.simulate import SimulatedNode
from accelscope.simulate.faults import Fault, FaultKind

OFTEN = {"collection_interval": "0.2s"}
# For nodes on which something hangs. On a busy machine healthy devices may miss these deadlines too, for a
# moment: a test waits for what it expects.
IMPATIENT = {**OFTEN, "device_timeout": "1s", "reader_timeout": "2.5s"}


class Broken:
    """An agent on a node whose faults the test sets while both run."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] = OFTEN,
        *,
        library: bool = True,
        name: str = "nvidia-mixed",
    ) -> None:
        self.node = SimulatedNode(costless(name), folder / "node")
        self.node.build()
        self.node.write(0.0)
        self._stop = threading.Event()
        self._mover = threading.Thread(target=self.node.run, args=(self._stop, 0.25), daemon=True)
        given = {**self.node.agent_settings(), **settings}
        if not library:
            given["nvml_library"] = str(folder / "no-library")
        self.agent = AgentProcess(given, folder / "agent")

    def __enter__(self) -> "Broken":
        self._mover.start()
        self.agent.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.node.set_faults(())
        self._stop.set()
        self._mover.join(PATIENCE_SECONDS)
        self.agent.stop()

    def fault(self, kind: FaultKind, device: int | None = None) -> None:
        self.node.set_faults([Fault(kind=kind, device=device)])

    def clear(self) -> None:
        self.node.set_faults(())

    def until(self, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
        return self.agent.until(condition, what)

    def until_fresh(self, what: str = "all answer") -> Snapshot:
        """All devices of the node are there and answer. (While the first pass lasts, some are not shown.)"""
        return self.until(lambda s: len(s.devices) == self.node.spec.device_count and not stale(s), what)

    def until_ready(self, status: int) -> None:
        wait_until(
            lambda: self.agent.get("/readyz", guarded=False).status == status, f"/readyz answers {status}"
        )

    def page(self) -> str:
        answer = self.agent.get("/metrics")
        assert answer.status == 200
        return answer.body.decode()


def stale(snapshot: Snapshot) -> list[int | None]:
    return [device.index for device in snapshot.devices if device.stale]
