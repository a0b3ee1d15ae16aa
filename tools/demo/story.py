"""The timeline of the demo: a round of a few minutes that repeats on other nodes. Pure functions of time;
`running.py` applies them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from accelscope.simulate.fleet.description import FleetSpec, NodeGroup, read_fleet
from accelscope.simulate.fleet.faults import FleetFault, FleetFaultKind, fleet_fault_document
from tools.demo.clusters import LAB_NODE
from tools.demo.scenes import SCENES, Scene

ROUND_SECONDS = 360.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedScene:
    """A scene of one round, with its node and device. Times are since the beginning."""

    scene: Scene
    begin: float
    until: float
    node: str | None
    device: int | None

    @property
    def place(self) -> str:
        return self.scene.cluster if self.node is None else f"{self.scene.cluster}/{self.node}"

    @property
    def on_lab_node(self) -> bool:
        """Whether it is on the node with the real agent."""
        return self.node == LAB_NODE

    @property
    def began_before(self) -> bool:
        """Whether it began before the demo."""
        return self.scene.before_seconds > 0

    def active(self, at: float) -> bool:
        return self.begin <= at < self.until

    def message(self, *, begins: bool) -> str:
        text = self.scene.begins if begins else self.scene.ends
        return f"{self.place} {text.format(device=f'device {self.device}')}"

    def fault(self) -> FleetFault:
        """The fault for the simulated fleet."""
        scene = self.scene
        of_process = scene.process if scene.kind == FleetFaultKind.IDLE else None
        return FleetFault(
            kind=scene.kind, cluster=scene.cluster, node=self.node, device=self.device,
            code=scene.code, process=of_process, seconds=scene.seconds, schema=scene.schema,
            begin=-scene.before_seconds,
        )  # fmt: skip


class Story:
    def __init__(self, fleet: FleetSpec, scenes: Sequence[Scene] = SCENES) -> None:
        self._groups = {(c.id, group.prefix): group for c in fleet.clusters for group in c.groups}
        self._scenes = scenes

    def of_round(self, number: int) -> tuple[PlayedScene, ...]:
        """The scenes that begin in this round, counted from 0."""
        start = number * ROUND_SECONDS
        return tuple(
            self._played(scene, number, start) for scene in self._scenes if scene.again or number == 0
        )

    def at(self, at: float) -> tuple[PlayedScene, ...]:
        """The active scenes, in seconds since the beginning."""
        number = int(at // ROUND_SECONDS)
        rounds = sorted({0, max(0, number - 1), number})  # what lasts began in the first
        return tuple(h for each in rounds for h in self.of_round(each) if h.active(at))

    def next_change(self, at: float) -> float:
        """The next time when a scene begins or ends."""
        number = int(at // ROUND_SECONDS)
        times = {
            time
            for each in (max(0, number - 1), number, number + 1)
            for scene in self.of_round(each)
            for time in (scene.begin, scene.until)
        }
        return min(time for time in times if time > at)

    def _played(self, scene: Scene, number: int, start: float) -> PlayedScene:
        group = self._groups[scene.cluster, scene.group] if scene.group is not None else None
        return PlayedScene(
            scene=scene,
            begin=start + scene.begin,
            until=start + scene.until,
            node=None if group is None else _node(group, scene.first + number),
            device=None if group is None or scene.device is None else _device(group, scene.device + number),
        )


def _node(group: NodeGroup, number: int) -> str:
    return list(group.names())[number % group.count]


def _device(group: NodeGroup, number: int) -> int:
    """Of the node's first vendor, whose faults are meant where it is not said."""
    return number % next(iter(group.spec.vendors.values())).device_count


def faults_before(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Faults for the description of a fleet: those that began before the demo."""
    story = Story(read_fleet(yaml.safe_dump(dict(description))))
    return [fleet_fault_document(h.fault(), times=True) for h in story.of_round(0) if h.began_before]


def changes(before: Iterable[PlayedScene], now: Iterable[PlayedScene]) -> list[str]:
    """Messages for the difference: ends first, then begins."""
    before, now = tuple(before), tuple(now)
    return [
        *(h.message(begins=False) for h in before if h.scene.ends and h not in now),
        *(h.message(begins=True) for h in now if h not in before),
    ]
