"""Views made by hand, for tests of what is made of them."""

from collections.abc import Callable, Sequence
from typing import Any

from accelscope.model import HealthState
from accelscope.top.sources.source import Query
from accelscope.top.view.model import DeviceView, NodeView, ProcessUse, ProcessView, View, ViewKind

GIB = 1 << 30
NOW = 1_800_000_000.0


def device(index: int, node: str = "n", **values: Any) -> DeviceView:
    given: dict[str, Any] = {
        "vendor": "nvidia",
        "model": "NVIDIA H100 80GB HBM3",
        "health": HealthState.OK,
        "read_at": NOW,
        **values,
    }
    identity = f"{given['vendor']}:GPU-{index}"
    return DeviceView(key=f"{node} {identity}", node=node, id=identity, index=index, **given)


def process(pid: int, *devices: int, node: str = "n", **values: Any) -> ProcessView:
    memory, ratio = values.pop("memory", GIB), values.pop("ratio", 0.25)
    uses = tuple(
        ProcessUse(f"{node} nvidia:GPU-{index}", str(index), None, "compute", memory, ratio)
        for index in devices
    )
    return ProcessView(key=f"{node} {pid}", node=node, pid=pid, uses=uses, **values)


def node(
    devices: Sequence[DeviceView] = (), processes: Sequence[ProcessView] = (), name: str = "n", **values: Any
) -> NodeView:
    return NodeView(
        key=name,
        name=name,
        source=values.pop("source", "this node"),
        age_seconds=values.pop("age_seconds", 0.0),
        read=values.pop("read", True),
        devices=tuple(devices),
        processes=tuple(processes),
        **values,
    )


def view(*nodes: NodeView, kind: ViewKind = ViewKind.LOCAL, **values: Any) -> View:
    return View(kind=kind, title=values.pop("title", "n"), at=NOW, nodes=nodes, **values)


class StillSource:
    """Always the same view, or what a function makes of the query."""

    def __init__(self, answer: View | Callable[[Query], View], kind: ViewKind = ViewKind.LOCAL) -> None:
        self.kind = kind
        self.title = "n"
        self.proc_root = "/proc"
        self.questions: list[Query] = []
        self.intervals: list[float] = []
        self._answer = answer

    def start(self) -> None:
        pass

    def read(self, query: Query) -> View:
        self.questions.append(query)
        return self._answer(query) if callable(self._answer) else self._answer

    def settle(self) -> None:
        pass

    def hurry(self, interval_seconds: float) -> None:
        self.intervals.append(interval_seconds)

    def refresh(self) -> None:
        pass

    def stop(self) -> None:
        pass
