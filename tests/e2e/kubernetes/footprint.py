"""What a pod costs, as its kubelet and the kernel count it."""

import os
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.kubernetes import cgroups
from tests.e2e.kubernetes.cluster import Cluster
from tests.waiting import wait_until

_PATIENCE_SECONDS = 180.0  # the kubelet looks every ten seconds or so
_PEAKS = ("memory.peak", "memory.max_usage_in_bytes")  # of cgroup v2 and v1


class Footprint(NamedTuple):
    working_set_bytes: int
    resident_bytes: int
    cores: float  # used on average between two looks of the kubelet


def footprint(cluster: Cluster, namespace: str, pod: str) -> Footprint:
    """By two of the kubelet's looks at the pod from now on."""
    looks: dict[str, dict[str, Any]] = {}  # by the time that the kubelet says it looked at

    def looked_twice() -> bool:
        stats = _container(cluster, namespace, pod)
        if stats is not None and "workingSetBytes" in stats["memory"]:
            looks[stats["cpu"]["time"]] = stats
        return len(looks) >= 3  # the first may be older than what is asked about

    wait_until(looked_twice, "the kubelet has looked at the pod", _PATIENCE_SECONDS)
    _, first, last = (looks[time] for time in sorted(looks)[:3])
    used = last["cpu"]["usageCoreNanoSeconds"] - first["cpu"]["usageCoreNanoSeconds"]
    seconds = _seconds(last["cpu"]["time"]) - _seconds(first["cpu"]["time"])
    memory = last["memory"]
    return Footprint(memory["workingSetBytes"], memory["rssBytes"], used / 1e9 / seconds)


def peak_memory_bytes(container_id: str) -> int:
    """The most that a container ever had, files that it read included."""
    for tree in cgroups.trees():
        for folder, _, files in os.walk(tree):
            for name in _PEAKS:
                if container_id in Path(folder).name and name in files:
                    return int(Path(folder, name).read_text())
    raise AssertionError(f"no control group tells the memory of container {container_id}")


def _container(cluster: Cluster, namespace: str, pod: str) -> dict[str, Any] | None:
    reply = cluster.api.request("GET", f"/api/v1/nodes/{cluster.node_name}/proxy/stats/summary")
    assert reply.status == 200, reply.body
    for each in reply.json()["pods"]:
        if (each["podRef"]["namespace"], each["podRef"]["name"]) == (namespace, pod):
            for container in each.get("containers", ()):
                return container if {"cpu", "memory"} <= container.keys() else None
    return None


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
