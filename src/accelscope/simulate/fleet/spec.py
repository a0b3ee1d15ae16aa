"""What a fleet is, once its description has been read and found good."""

from collections.abc import Iterator
from dataclasses import dataclass

from accelscope.simulate.fleet.faults import Trouble
from accelscope.simulate.spec import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """So many nodes of one kind."""

    kind: str  # name of a ready-made node, or path of a description
    spec: NodeSpec
    count: int
    prefix: str  # of their names
    agent_url: str | None = None  # of a real agent, which answers in the place of a simulated one

    def names(self) -> Iterator[str]:
        for number in range(1, self.count + 1):
            yield f"{self.prefix}-{number:04d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    id: str
    name: str | None = None  # for people
    groups: tuple[NodeGroup, ...] = ()
    agents: bool = True  # every node has one
    driver_pods: bool = False  # the GPU operator's, on nodes with NVIDIA devices

    @property
    def node_count(self) -> int:
        return sum(group.count for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    seed: int = 1
    interval_seconds: float = 10.0  # between two readings of an agent
    variants: int = 2  # recordings of each kind of node
    clusters: tuple[ClusterSpec, ...] = ()
    troubles: tuple[Trouble, ...] = ()

    def nodes(self) -> dict[str, dict[str, NodeSpec]]:
        """By cluster and name."""
        return {
            cluster.id: {name: group.spec for group in cluster.groups for name in group.names()}
            for cluster in self.clusters
        }
