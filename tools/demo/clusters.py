"""The three clusters of the demo and their nodes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from accelscope.simulate import load_node

LAB_CLUSTER, LAB = "berlin", "lab"
LAB_NODE = f"{LAB}-0001"  # with the real agent
INTERVAL_SECONDS = 5.0  # between two readings of an agent
_VARIANTS = 1  # recordings of each kind: its nodes play it from different readings on


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    kind: str
    share: int  # of the nodes


CLUSTERS: dict[str, tuple[str, tuple[Group, ...]]] = {
    "berlin": (
        "Berlin, training",
        (
            Group("h100", "nvidia-h100x8", 10),
            Group("a100", "nvidia-shared", 4),
            Group("mig", "nvidia-mig", 2),
        ),
    ),
    "oslo": (
        "Oslo, research",
        (
            Group("mi300", "amd-mi300x8", 8),
            Group("mi250", "amd-mi250", 2),
            Group("studio", "nvidia-mixed", 2),
            Group("warboy", "furiosa-warboy", 2),
        ),
    ),
    "seoul": (
        "Seoul, inference",
        (
            Group("ascend", "ascend-910b-x8", 8),
            Group("rngd", "furiosa-rngd", 6),
            Group("a100", "nvidia-shared", 4),
        ),
    ),
}
_ALL = sum(group.share for _, groups in CLUSTERS.values() for group in groups)


def counts(nodes: int) -> Iterator[tuple[str, Group, int]]:
    """The size of each group: about `nodes` in total, and at least one of each."""
    for cluster, (_, groups) in CLUSTERS.items():
        for group in groups:
            yield cluster, group, max(1, round(group.share * nodes / _ALL))


def write_kinds(folder: Path) -> None:
    """Writes the ready-made nodes without their faults, because the story has its own."""
    folder.mkdir(exist_ok=True)
    for kind in {group.kind for _, groups in CLUSTERS.values() for group in groups}:
        described = yaml.safe_load(load_node(kind).text)
        described.pop("faults", None)
        _file_of(kind, folder).write_text(yaml.safe_dump(described, sort_keys=False))


def _file_of(kind: str, folder: Path) -> Path:
    return folder / f"{kind}.yaml"


def description(nodes: int, kinds: Path, lab: Path, agent_url: str) -> dict[str, Any]:
    """For `accelscope simulate fleet`; `kinds` is the folder that `write_kinds` wrote to, `lab` describes the
    node with the real agent."""
    groups: dict[str, list[dict[str, Any]]] = {cluster: [] for cluster in CLUSTERS}
    for cluster, group, count in counts(nodes):
        groups[cluster].append({"node": str(_file_of(group.kind, kinds)), "name": group.name, "count": count})
    groups[LAB_CLUSTER].append({"node": str(lab), "name": LAB, "agent_url": agent_url})
    return {
        "interval_seconds": INTERVAL_SECONDS,
        "variants": _VARIANTS,
        "clusters": [
            {"id": cluster, "name": name, "nodes": groups[cluster]} for cluster, (name, _) in CLUSTERS.items()
        ],
    }
