"""Nodes of every vendor with pods, as reports of agents and as rows."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from accelscope.fleet.rows import ClusterView, NodeReport, SourceKind
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.table import ColumnTable
from accelscope.model import Device, Health, HealthState, HostUse, Snapshot
from accelscope.model.wire import read_snapshot
from accelscope.simulate.fleet.description import made_fleet
from accelscope.simulate.fleet.fleet import SimulatedFleet

CLUSTER = "berlin"
TAKEN_AT = 1_800_000_000.0  # seconds since the epoch
_SIMULATED_SECONDS = 700.0
_KINDS = ("nvidia-h100x8", "nvidia-shared", "nvidia-mig", "amd-mi300x8", "ascend-910b-x8", "furiosa-rngd")
Rows = dict[str, list[dict[str, object]]]  # by table

# Fields without a series in a store.
NOT_IN_A_STORE = {"health_reason", *HostUse._fields}
# Fields about the source and not about the node.
_OF_THE_WAY = {"source", "taken_at", "age_seconds", "agent_version"}


def simulated_snapshots(
    count: int = 6, *, cluster: int = 0, taken_at: float = TAKEN_AT
) -> dict[str, Snapshot]:
    """Snapshots by node, with every vendor. They are equal each time, except for ids of other clusters. One
    device of the first node does not respond."""
    fleet = SimulatedFleet(made_fleet(clusters=cluster + 1, nodes=count, kinds=_KINDS), "/nowhere")
    nodes = list(fleet.clusters.values())[cluster].nodes
    found = [read_snapshot(json.loads(node.document(_SIMULATED_SECONDS))) for node in nodes.values()]
    first, *others = (replace(_named_apart(snapshot), taken_at=taken_at) for snapshot in found)
    silent, *answering = first.devices
    first = replace(first, devices=(_silent(silent, taken_at - 30), *answering))
    return {snapshot.node: snapshot for snapshot in (first, *others)}


def _named_apart(snapshot: Snapshot) -> Snapshot:
    """Merges pods of a Deployment, which share a name on a simulated node and never on a real one."""
    pods = {(pod.namespace, pod.name): pod for pod in snapshot.pods}
    usages = (replace(usage, pod_uid=pods[usage.namespace, usage.pod].uid) for usage in snapshot.pod_usages)
    return replace(snapshot, pods=tuple(pods.values()), pod_usages=tuple(usages))


def _silent(device: Device, read_at: float) -> Device:
    return Device(
        vendor=device.vendor,
        id=device.id,
        index=device.index,
        model=device.model,
        uuid=device.uuid,
        serial=device.serial,
        pci_address=device.pci_address,
        health=Health(HealthState.LOST),
        stale=True,
        read_at=read_at,
    )


def reports_of_agents(snapshots: Mapping[str, Snapshot], taken_at: float) -> list[NodeReport]:
    """The same reports as from the agents source."""
    return [
        NodeReport(node=node, source=SourceKind.AGENTS, taken_at=taken_at, snapshot=snapshot)
        for node, snapshot in snapshots.items()
    ]


def store_of(reports: Iterable[NodeReport], now: float) -> FleetStore:
    store = FleetStore(clock=lambda: now)
    store.declare([ClusterView(id=CLUSTER, reachable=True)])
    for report in reports:
        store.take(CLUSTER, report)
    store.tick(now)
    return store


def rows(reports: Iterable[NodeReport], now: float) -> Rows:
    """The rows of all tables of the store, without fields about the source."""
    store = store_of(reports, now)
    tables: dict[str, ColumnTable[Any]] = {
        "nodes": store.nodes,
        "devices": store.devices,
        "pods": store.pods,
        "processes": store.processes,
    }
    found: Rows = {}
    for name, table in tables.items():
        positions = table.live().nonzero()[0]
        plain = [msgspec.to_builtins(row) for row in table.rows(positions, now)]
        kept = [
            {field: value for field, value in row.items() if field not in _OF_THE_WAY | NOT_IN_A_STORE}
            for row in plain
        ]
        found[name] = sorted(kept, key=lambda row: json.dumps([row.get(key) for key in _KEYS]))
    return found


_KEYS = ("node", "id", "device", "namespace", "pod", "container", "partition", "pid")
