"""Details of one node, device or pod: its row, and its data from the node's last snapshot."""

import asyncio
from collections.abc import Iterable
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from accelscope.fleet.api.clusters import path_parameter, visible_cluster
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.route import ApiRoute, Call
from accelscope.fleet.api.tables import At, Generation
from accelscope.fleet.rows import DeviceRow, NodeRow, PodRow, ProcessRow
from accelscope.fleet.store.query import Condition, RowQuery
from accelscope.fleet.store.table import ColumnTable, R
from accelscope.model import (
    AgentState,
    Allocation,
    AttributionSourceState,
    Device,
    DeviceBalance,
    ErrorCount,
    Pod,
    ReaderState,
    SinkState,
    Snapshot,
    Unattributed,
)
from accelscope.vendors import declarations

_ROWS_LIMIT = 10_000  # per node or pod: far more than any has


class NodeDetail(Struct, frozen=True, kw_only=True):
    node: Annotated[NodeRow, Meta(description="row of the node")]
    labels: Annotated[dict[str, str], Meta(description="labels of the Node object")]
    devices: Annotated[list[DeviceRow], Meta(description="rows of its devices")]
    pods: Annotated[list[PodRow], Meta(description="rows of its containers")]
    processes: Annotated[list[ProcessRow], Meta(description="rows of its processes")]
    interval_seconds: Annotated[
        float | None, Meta(description="time from one collection of the agent to the next")
    ]
    agent: Annotated[
        AgentState | None, Meta(description="state of the agent; null: no agent, or not read yet")
    ]
    readers: Annotated[list[ReaderState], Meta(description="readers of the agent, one for each vendor")]
    attribution: Annotated[list[AttributionSourceState], Meta(description="attribution sources of the agent")]
    sinks: Annotated[list[SinkState], Meta(description="writers of the agent into the Node object")]
    unattributed: Annotated[list[Unattributed], Meta(description="use that is attributed to no pod")]
    generation: Generation
    at: At


class DeviceError(Struct, frozen=True, kw_only=True):
    """Errors of one code. The fleet knows what the code means, so that it does for agents of any version."""

    kind: Annotated[str, Meta(description="type of error: `xid`, `ras`, `axi`, `pcie` …")]
    code: Annotated[str, Meta(description="code that the driver reports")]
    count: Annotated[int, Meta(description="number of errors, at least 1")]
    last_seen: Annotated[float | None, Meta(description="Unix time of the last error with this code")]
    meaning: Annotated[str | None, Meta(description="what the code means; null: nothing is known about it")]
    severity: Annotated[
        str | None,
        Meta(description="`critical` or `warning`: it decides the health; `info`: it does not affect it"),
    ]
    origin: Annotated[
        str | None,
        Meta(
            description="usual cause: `hardware`, `driver`, `application` or `environment`; null: not stated"
        ),
    ]
    action: Annotated[str | None, Meta(description="what to do first")]
    until: Annotated[
        str | None,
        Meta(
            description="what ends the error: `reset`, `driver_reload`, `reboot` or `replacement`; null: it "
            "is over when it has happened"
        ),
    ]
    source: Annotated[str | None, Meta(description="URL of the public document about the code")]


class DeviceDetail(Struct, frozen=True, kw_only=True):
    device: Annotated[DeviceRow, Meta(description="row of the device")]
    reading: Annotated[Device | None, Meta(description="all values of the device, and why others are absent")]
    errors: Annotated[
        list[DeviceError],
        Meta(description="errors with a code that occurred, with their meaning, the most severe first"),
    ]
    balance: Annotated[
        DeviceBalance | None,
        Meta(description="memory, energy and shares of the device beyond the use by its pods"),
    ]
    pods: Annotated[
        list[PodRow], Meta(description="rows of the containers that it is allocated to or that use it")
    ]
    processes: Annotated[list[ProcessRow], Meta(description="rows of the processes on it")]
    unattributed: Annotated[
        list[Unattributed], Meta(description="use of the device that is attributed to no pod")
    ]
    generation: Generation
    at: At


class PodDetail(Struct, frozen=True, kw_only=True):
    cluster: str
    namespace: str
    pod: str
    object: Annotated[Pod | None, Meta(description="the pod itself; null: not known")]
    containers: Annotated[
        list[PodRow], Meta(description="rows of its containers, one for each container and device")
    ]
    devices: Annotated[
        list[DeviceRow], Meta(description="rows of the devices that are allocated to it or used by it")
    ]
    processes: Annotated[list[ProcessRow], Meta(description="rows of its processes")]
    allocations: Annotated[list[Allocation], Meta(description="device ids allocated to it")]
    generation: Generation
    at: At


async def node_detail(call: Call) -> NodeDetail:
    store = call.fleet.store
    cluster, name = _cluster_and_node(call)
    await call.fleet.read_whole(cluster, name)
    position = store.nodes.find(cluster=cluster, node=name)
    if position is None:
        raise _not_found(f"node {name!r} with accelerators not found in cluster {cluster!r}", cluster)
    [node] = store.nodes.rows(np.array([position]), call.now)
    snapshot = store.snapshot(cluster, name)
    here = (Condition("cluster", "=", cluster), Condition("node", "=", name))
    return NodeDetail(
        node=node,
        labels=dict(store.labels(cluster, name)),
        devices=_rows(call, store.devices, *here),
        pods=_rows(call, store.pods, *here),
        processes=_rows(call, store.processes, *here),
        interval_seconds=None if snapshot is None else snapshot.interval_seconds,
        agent=None if snapshot is None or node.agent_version is None else snapshot.agent,
        readers=[] if snapshot is None else list(snapshot.readers),
        attribution=[] if snapshot is None else list(snapshot.attribution),
        sinks=[] if snapshot is None else list(snapshot.sinks),
        unattributed=[] if snapshot is None else list(snapshot.unattributed),
        generation=call.generation,
        at=call.now,
    )


async def device_detail(call: Call) -> DeviceDetail:
    store = call.fleet.store
    cluster, node = _cluster_and_node(call)
    await call.fleet.read_whole(cluster, node)
    id_ = call.values["device"]
    position = store.devices.find(cluster=cluster, node=node, id=id_)
    if position is None:
        raise _not_found(f"device {id_!r} not found on node {node!r} of cluster {cluster!r}", cluster)
    [row] = store.devices.rows(np.array([position]), call.now)
    snapshot = store.snapshot(cluster, node)
    there = (
        Condition("cluster", "=", cluster),
        Condition("node", "=", node),
        Condition("device", "=", id_),
    )
    devices: tuple[Device, ...] = () if snapshot is None else snapshot.devices
    balances: tuple[DeviceBalance, ...] = () if snapshot is None else snapshot.balances
    reading = next((device for device in devices if device.id == id_), None)
    return DeviceDetail(
        device=row,
        reading=reading,
        errors=[] if reading is None else _explained(row.vendor, reading.errors),
        balance=next((balance for balance in balances if balance.device == id_), None),
        pods=_rows(call, store.pods, *there),
        processes=_rows(call, store.processes, *there),
        unattributed=[] if snapshot is None else [one for one in snapshot.unattributed if one.device == id_],
        generation=call.generation,
        at=call.now,
    )


_EXPLANATION = ("meaning", "severity", "origin", "action", "until", "source")
_SEVERITIES = ("critical", "warning", "info", None)


def _explained(vendor: str, errors: Iterable[ErrorCount]) -> list[DeviceError]:
    explained = []
    for error in errors:
        if error.count:
            known = declarations()[vendor].error_code(error.code)
            explained.append(
                DeviceError(
                    kind=error.kind,
                    code=error.code,
                    count=error.count,
                    last_seen=error.last_seen,
                    **{name: getattr(known, name, None) for name in _EXPLANATION},
                )
            )
    return sorted(explained, key=lambda e: (_SEVERITIES.index(e.severity), -(e.last_seen or 0.0), e.code))


async def pod_detail(call: Call) -> PodDetail:
    store = call.fleet.store
    cluster = visible_cluster(call, call.values["cluster"]).id
    namespace, name = call.values["namespace"], call.values["pod"]
    named = (
        Condition("cluster", "=", cluster),
        Condition("namespace", "=", namespace),
        Condition("pod", "=", name),
    )
    nodes = {row.node for row in _rows(call, store.pods, *named)}
    await asyncio.gather(*(call.fleet.read_whole(cluster, node) for node in nodes))
    containers = _rows(call, store.pods, *named)
    if not containers:
        raise _not_found(f"pod {namespace}/{name} with a device not found in cluster {cluster!r}", cluster)
    snapshots = {row.node: store.snapshot(cluster, row.node) for row in containers}
    positions = [
        store.devices.find(cluster=cluster, node=row.node, id=row.device)
        for row in {(row.node, row.device): row for row in containers}.values()
    ]
    known = np.array([position for position in positions if position is not None], dtype=np.intp)
    return PodDetail(
        cluster=cluster,
        namespace=namespace,
        pod=name,
        object=_pod(snapshots.values(), namespace, name),
        containers=containers,
        devices=store.devices.rows(known, call.now),
        processes=_rows(call, store.processes, *named),
        allocations=[
            allocation
            for snapshot in snapshots.values()
            if snapshot is not None
            for allocation in snapshot.allocations
            if (allocation.namespace, allocation.pod) == (namespace, name)
        ],
        generation=call.generation,
        at=call.now,
    )


def _pod(snapshots: Iterable[Snapshot | None], namespace: str, name: str) -> Pod | None:
    pods = (pod for snapshot in snapshots if snapshot is not None for pod in snapshot.pods)
    return next((pod for pod in pods if (pod.namespace, pod.name) == (namespace, name)), None)


def _rows(call: Call, table: ColumnTable[R], *where: Condition) -> list[R]:
    found = table.select(RowQuery(where=where, limit=_ROWS_LIMIT))
    return table.rows(found.positions, call.now)


def _cluster_and_node(call: Call) -> tuple[str, str]:
    return visible_cluster(call, call.values["cluster"]).id, call.values["node"]


def _not_found(detail: str, cluster: str) -> Problem:
    return Problem(ProblemKind.NOT_FOUND, detail, cluster=cluster)


_CLUSTER = path_parameter("cluster", "id of the cluster")
_NODE = path_parameter("node", "name of the node")

ROUTES = (
    ApiRoute(
        path="/api/v1/nodes/{cluster}/{node}",
        summary="One node with everything on it",
        tag="tables",
        response=NodeDetail,
        handle=node_detail,
        parameters=(_CLUSTER, _NODE),
        problems=(ProblemKind.NOT_FOUND,),
        cached=True,
    ),
    ApiRoute(
        path="/api/v1/devices/{cluster}/{node}/{device}",
        summary="One device with all its values",
        tag="tables",
        response=DeviceDetail,
        handle=device_detail,
        parameters=(_CLUSTER, _NODE, path_parameter("device", "id of the device")),
        problems=(ProblemKind.NOT_FOUND,),
        cached=True,
    ),
    ApiRoute(
        path="/api/v1/pods/{cluster}/{namespace}/{pod}",
        summary="One pod with its devices and processes",
        tag="tables",
        response=PodDetail,
        handle=pod_detail,
        parameters=(
            _CLUSTER,
            path_parameter("namespace", "namespace of the pod"),
            path_parameter("pod", "name of the pod"),
        ),
        problems=(ProblemKind.NOT_FOUND,),
        cached=True,
    ),
)
