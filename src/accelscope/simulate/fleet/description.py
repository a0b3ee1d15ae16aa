"""Descriptions of simulated fleets: read from YAML, or made from a few numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from accelscope.config.document import Section, read_each
from accelscope.config.values import BOOLEAN, LINE, Decimal, Text, WholeNumber, shown
from accelscope.simulate.description import load_node, read_yaml
from accelscope.simulate.fleet.faults import FleetFault, fleet_fault_document, read_fleet_fault
from accelscope.simulate.fleet.recording import MAX_NODES
from accelscope.simulate.spec import Description, DescriptionError, NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """`count` nodes of one kind."""

    kind: str  # name of a ready-made node, or path of a description
    spec: NodeSpec
    count: int
    prefix: str  # of their names
    agent_url: str | None = None  # of a real agent that replaces the simulated one

    def names(self) -> Iterator[str]:
        for number in range(1, self.count + 1):
            yield f"{self.prefix}-{number:04d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    id: str
    name: str | None = None  # display name
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
    faults: tuple[FleetFault, ...] = ()

    def nodes(self) -> dict[str, dict[str, NodeSpec]]:
        """By cluster and name."""
        return {
            cluster.id: {name: group.spec for group in cluster.groups for name in group.names()}
            for cluster in self.clusters
        }


DESCRIPTION = "fleet.yaml"  # of a fleet's folder
_ID = Text("an id such as berlin-1", "[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NAME = Text("a name in lower case such as h100", "[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
_URL = Text("an address such as http://127.0.0.1:9400", "http://[^/\\s]+")
_MAX_CLUSTERS = 1000
_CITIES = ("berlin", "oslo", "lisbon", "seoul", "austin", "pune", "tromso", "quito")
# Shares of the nodes of a fleet that is made from numbers only.
_MIX = {
    "nvidia-h100x8": 8,
    "nvidia-shared": 4,
    "amd-mi300x8": 3,
    "ascend-910b-x8": 2,
    "furiosa-rngd": 2,
    "nvidia-mig": 1,
}


def load_fleet(path: Path | str) -> FleetSpec:
    """Raises DescriptionError."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DescriptionError(str(error.strerror), file=path) from None
    except UnicodeDecodeError:
        raise DescriptionError("not UTF-8 text", file=path) from None
    try:
        return read_fleet(text, folder=path.parent)
    except DescriptionError as error:
        raise error.in_file(path) from None


def read_fleet(text: str, *, folder: Path | None = None) -> FleetSpec:
    """Files with descriptions of nodes are in `folder`. Raises DescriptionError."""
    root = Description(read_yaml(text))
    default = FleetSpec()
    spec = FleetSpec(
        seed=root.take("seed", WholeNumber(0, 2**31 - 1), default.seed),
        interval_seconds=root.take("interval_seconds", Decimal(0.1, 86_400), default.interval_seconds),
        variants=root.take("variants", WholeNumber(1, 1000), default.variants),
        clusters=read_each(root.sections("clusters"), lambda section: _cluster(section, folder or Path())),
    )
    faults = root.sections("faults")
    root.finish()
    _check(spec)
    nodes = spec.nodes()
    return replace(spec, faults=read_each(faults, lambda section: read_fleet_fault(section, nodes)))


def made_fleet(
    *, clusters: int, nodes: int, kinds: Sequence[str] = (), interval_seconds: float = 10.0, seed: int = 1
) -> FleetSpec:
    """A fleet of `clusters` with `nodes` each, of the given kinds or of a mix. Raises DescriptionError."""
    shares = dict.fromkeys(kinds, 1) if kinds else _MIX
    specs = {kind: load_node(kind) for kind in shares}
    spec = FleetSpec(
        seed=seed,
        interval_seconds=interval_seconds,
        clusters=tuple(
            ClusterSpec(
                id=_city(number),
                groups=tuple(
                    NodeGroup(kind=kind, spec=specs[kind], count=count, prefix=specs[kind].name)
                    for kind, count in _split(nodes, shares).items()
                ),
            )
            for number in range(clusters)
        ),
    )
    _check(spec)
    return spec


def fleet_text(spec: FleetSpec) -> str:
    """The description as YAML, with absolute paths."""
    clusters = [
        {
            "id": cluster.id,
            **({"name": cluster.name} if cluster.name else {}),
            "agents": cluster.agents,
            "driver_pods": cluster.driver_pods,
            "nodes": [_group_document(group) for group in cluster.groups],
        }
        for cluster in spec.clusters
    ]
    document = {
        "seed": spec.seed,
        "interval_seconds": spec.interval_seconds,
        "variants": spec.variants,
        "clusters": clusters,
        "faults": [fleet_fault_document(fault, times=True) for fault in spec.faults],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _group_document(group: NodeGroup) -> dict[str, Any]:
    document = {"node": group.kind, "count": group.count, "name": group.prefix}
    return document if group.agent_url is None else {**document, "agent_url": group.agent_url}


def _city(number: int) -> str:
    turn, place = divmod(number, len(_CITIES))
    return f"{_CITIES[place]}-{turn + 1}"


def _split(count: int, shares: Mapping[str, int]) -> dict[str, int]:
    """The first kind gets the remainder."""
    total = sum(shares.values())
    counts = {kind: count * share // total for kind, share in shares.items()}
    counts[next(iter(shares))] += count - sum(counts.values())
    return {kind: number for kind, number in counts.items() if number}


def _cluster(section: Section, folder: Path) -> ClusterSpec:
    return ClusterSpec(
        id=section.require("id", _ID),
        name=section.take("name", LINE),
        agents=section.take("agents", BOOLEAN, default=True),
        driver_pods=section.take("driver_pods", BOOLEAN, default=False),
        groups=read_each(section.sections("nodes"), lambda member: _group(member, folder)),
    )


def _group(section: Section, folder: Path) -> NodeGroup:
    kind = section.require("node", Text("the name of a ready-made node, or a YAML file", ".+"))
    path = folder / kind
    kind = str(path.absolute()) if path.is_file() else kind
    spec = load_node(kind)
    agent_url = section.take("agent_url", _URL)
    return NodeGroup(
        kind=kind,
        spec=spec,
        count=section.take("count", WholeNumber(1, 1 if agent_url else MAX_NODES), 1),
        prefix=section.take("name", _NAME, spec.name),
        agent_url=agent_url,
    )


def _check(spec: FleetSpec) -> None:
    if not 1 <= len(spec.clusters) <= _MAX_CLUSTERS:
        raise DescriptionError(f"clusters: expected 1 to {_MAX_CLUSTERS}, got {len(spec.clusters)}")
    _unique("clusters", (cluster.id for cluster in spec.clusters))
    for cluster in spec.clusters:
        _unique(cluster.id, (group.prefix for group in cluster.groups))
    total = sum(cluster.node_count for cluster in spec.clusters)
    if total > MAX_NODES:
        raise DescriptionError(f"nodes: {total} exceed the limit of {MAX_NODES}")


def _unique(where: str, names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise DescriptionError(f"{where}: {times} have the name {shown(name)}; names must be unique")
