"""`/gpu/*`: GPUs in the format of exec-based collectors: percent, MB (bytes / 2^20), lists without pages.

The fields of those collectors come first, followed by those of AccelScope (`age_seconds`, `stale`,
`simulated` …). `/gpu/summary` returns the object of the cluster that is named, as those collectors do, and
otherwise a list with one object per cluster. Sums over all clusters are at `/api/v1/summary`.

An empty list means that there are no GPUs. A cluster whose GPUs were not read yet is a problem (503) if it is
requested by name; in the list of all clusters its counts and sums are null.

Lists can contain tens of thousands of devices. Columns are copied in one step, so that a response shows one
state, and a thread makes the objects from the copies.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from accelscope.fleet.api.clusters import path_parameter, visible_cluster, visible_clusters
from accelscope.fleet.api.problem import Problem, ProblemKind, temporary
from accelscope.fleet.api.route import TEXT, ApiRoute, Call, EncodedResponse, Parameter, ThreadedResponse
from accelscope.fleet.api.tables import CopiedColumns, countable, visible
from accelscope.fleet.api_server.objects import resources_of
from accelscope.fleet.rows import ClusterView, DeviceRow, HealthName, VendorName
from accelscope.fleet.store.node_rows import FRESH, INCOMPATIBLE, STALE, UNREAD
from accelscope.fleet.store.query import Condition, RowQuery
from accelscope.fleet.store.table import ColumnTable
from accelscope.model import ProcessType
from accelscope.vendors import declarations

# --- Types --------------------------------------------------------------------


Measured = int | float | None
Percent = Annotated[Measured, Meta(description="0 to 100")]
Megabytes = Annotated[Measured, Meta(description="bytes / 2^20")]
Stale = Annotated[bool, Meta(description="true: no newer reading came in time")]


class Gpu(Struct, frozen=True, gc=False):
    index: int | None
    uuid: str | None
    name: Annotated[str | None, Meta(description="name of the product")]
    driver_version: str | None
    temperature_celsius: Measured
    utilization_gpu_percent: Percent
    utilization_memory_percent: Percent
    memory_total_mb: Megabytes
    memory_used_mb: Megabytes
    memory_free_mb: Megabytes
    power_draw_watts: Measured
    power_limit_watts: Measured
    pcie_generation: int | None
    pcie_link_width: int | None
    fan_speed_percent: Percent
    vendor: VendorName
    id: str
    health: HealthName


class GpuNode(Struct, frozen=True, kw_only=True):
    node_name: str
    cluster_id: str
    gpus: Annotated[list[Gpu], Meta(description="GPUs of the node")]
    gpu_count: int
    total_memory_mb: Annotated[int | float, Meta(description="sum over GPUs that report it")]
    labels: Annotated[dict[str, str], Meta(description="labels of the Node object")]
    age_seconds: float | None
    stale: Stale
    simulated: bool
    source: str | None


class GpuProcess(Struct, frozen=True, gc=False):
    pid: int
    gpu_index: Annotated[int | None, Meta(description="index of the GPU on its node")]
    process_type: Annotated[
        str, Meta(description="`compute` (also for processes that do both), `graphics` or `unknown`")
    ]
    sm_utilization: Percent
    memory_utilization: Percent
    encoder_utilization: Percent
    decoder_utilization: Percent
    fb_memory_mb: Megabytes
    command: Annotated[str | None, Meta(description="name of the program, without arguments")]
    node_name: str
    cluster_id: str
    age_seconds: float | None
    stale: Stale
    simulated: bool
    gpu_id: Annotated[str, Meta(description="`id` of the device")]
    namespace: str | None
    pod: str | None
    container: str | None


class GpuSummary(Struct, frozen=True, kw_only=True):
    cluster_id: str
    node_count: Annotated[int | None, Meta(description="number of nodes with GPUs; null: GPUs not read yet")]
    gpu_count: Annotated[int | None, Meta(description="number of GPUs; null: GPUs not read yet")]
    total_memory_mb: Annotated[Measured, Meta(description="sum over all GPUs; null: GPUs not read yet")]
    used_memory_mb: Annotated[Measured, Meta(description="sum over all GPUs; null: GPUs not read yet")]
    memory_utilization_percent: Annotated[
        Measured, Meta(description="used memory divided by total memory, over GPUs that report both")
    ]
    average_gpu_utilization_percent: Annotated[Measured, Meta(description="mean over GPUs that report it")]
    average_temperature_celsius: Annotated[Measured, Meta(description="mean over GPUs that report it")]
    age_seconds: Annotated[float | None, Meta(description="time since the cluster last responded")]
    stale: Annotated[
        bool,
        Meta(description="true: the cluster is unreachable, or all its GPUs are stale"),
    ]
    simulated: bool


# --- Objects, made from columns -------------------------------------------------
#
# This runs in a thread while the event loop handles other requests. A single call that encodes everything
# would block all other threads for a tenth of a second (GIL), so objects are encoded in batches.


GPU_VENDORS = tuple(name for name, vendor in declarations().items() if vendor.makes_gpus)
MEBIBYTE = 1 << 20
_NODES_AT_ONCE = 50
_PROCESSES_AT_ONCE = 500
_TYPES = {
    ProcessType.COMPUTE.value: "compute",
    ProcessType.BOTH.value: "compute",
    ProcessType.GRAPHICS.value: "graphics",
}

NODE_ORDER = ("cluster", "node")
PROCESS_ORDER = ("cluster", "node", "device_index", "pid", "device")
NODE_FIELDS = ("cluster", "node", "taken_at", "state", "simulated", "source")
GPU_FIELDS = (
    *("cluster", "node", "index", "uuid", "model", "driver_version", "temperature_celsius"),
    *("utilization_ratio", "memory_utilization_ratio"),
    *("memory_total_bytes", "memory_used_bytes", "memory_free_bytes", "power_watts", "power_limit_watts"),
    *("pcie_generation", "pcie_width", "fan_speed_ratio", "vendor", "id", "health"),
)
PROCESS_FIELDS = (
    *("cluster", "node", "pid", "device_index", "type", "utilization_ratio", "memory_utilization_ratio"),
    *("encoder_utilization_ratio", "decoder_utilization_ratio", "memory_bytes", "name", "taken_at", "state"),
    *("simulated", "device", "namespace", "pod", "container"),
)


def tidy(value: float) -> int | float | None:
    """As `tenths`; None for values outside the range of 64-bit integers."""
    return tenths(value) if abs(value) < 2.0**63 else None


def tenths(value: float) -> int | float:
    """Rounded to one decimal; integers for whole numbers, since some clients accept only those."""
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded


class NodeGpus:
    """Nodes with their GPUs. `labels` is parallel to the rows of `nodes`. Nodes without GPUs are omitted."""

    def __init__(
        self,
        gpus: CopiedColumns,
        nodes: CopiedColumns,
        labels: Sequence[Mapping[str, str]],
        now: float,
    ) -> None:
        self._gpus = gpus
        self._nodes = nodes
        self._labels = labels
        self._now = now

    def encoded(self) -> Iterator[bytes]:
        return _encoded(self.nodes(), _NODES_AT_ONCE)

    def nodes(self) -> Iterator[GpuNode]:
        """Ordered by cluster and name."""
        by_node = self._by_node()
        nodes = self._nodes
        rows = list(
            zip(
                nodes.nodes.tolist(),
                nodes.text("node"),
                nodes.text("cluster"),
                nodes.ages(self._now),
                nodes.equals("state", FRESH),
                nodes.flags("simulated"),
                nodes.text("source"),
                self._labels,
                strict=True,
            )
        )
        for place in np.lexsort([nodes.keys(field) for field in reversed(NODE_ORDER)]).tolist():
            number, name, cluster, age, fresh, simulated, source, labels = rows[place]
            gpus = by_node.get(number)
            if gpus is None:
                continue
            total = sum(gpu.memory_total_mb for gpu in gpus if gpu.memory_total_mb is not None)
            yield GpuNode(
                node_name=name,
                cluster_id=cluster,
                gpus=gpus,
                gpu_count=len(gpus),
                total_memory_mb=tenths(total),
                labels=dict(labels),
                age_seconds=age,
                stale=not fresh,
                simulated=simulated,
                source=source,
            )

    def _by_node(self) -> dict[int, list[Gpu]]:
        """GPUs by the number of their node, ordered by vendor and index."""
        columns = self._gpus
        ranks = np.zeros(len(columns.nodes), np.uint8)
        for rank, vendor in enumerate(GPU_VENDORS):
            ranks[np.array(columns.equals("vendor", vendor), np.bool_)] = rank
        columns.reorder(np.lexsort([columns.keys("index"), ranks, columns.nodes]))
        by_node: dict[int, list[Gpu]] = {}
        for number, gpu in zip(columns.nodes.tolist(), _gpus(columns), strict=True):
            by_node.setdefault(number, []).append(gpu)
        return by_node


def _gpus(columns: CopiedColumns) -> Iterator[Gpu]:
    return map(
        Gpu,
        columns.number("index"),
        columns.text("uuid"),
        columns.text("model"),
        columns.text("driver_version"),
        columns.number("temperature_celsius"),
        columns.number("utilization_ratio", 100),
        columns.number("memory_utilization_ratio", 100),
        columns.number("memory_total_bytes", 1 / MEBIBYTE),
        columns.number("memory_used_bytes", 1 / MEBIBYTE),
        columns.number("memory_free_bytes", 1 / MEBIBYTE),
        columns.number("power_watts"),
        columns.number("power_limit_watts"),
        columns.number("pcie_generation"),
        columns.number("pcie_width"),
        columns.number("fan_speed_ratio", 100),
        columns.text("vendor"),
        columns.text("id"),
        columns.text("health"),
    )


def encoded_processes(columns: CopiedColumns, now: float) -> Iterator[bytes]:
    """Ordered by cluster, node, GPU and pid."""
    columns.reorder(np.lexsort([columns.keys(field) for field in reversed(PROCESS_ORDER)]))
    return _encoded(_processes(columns, now), _PROCESSES_AT_ONCE)


def _encoded(items: Iterator[object], at_once: int) -> Iterator[bytes]:
    """A JSON list in pieces of `at_once` items."""
    before = b"["
    while some := list(islice(items, at_once)):
        yield before + msgspec.json.encode(some)[1:-1]
        before = b","
    yield b"]" if before == b"," else b"[]"


def _processes(columns: CopiedColumns, now: float) -> Iterator[GpuProcess]:
    return map(
        GpuProcess,
        columns.number("pid"),
        columns.number("device_index"),
        [_TYPES.get(kind, "unknown") for kind in columns.text("type")],
        columns.number("utilization_ratio", 100),
        columns.number("memory_utilization_ratio", 100),
        columns.number("encoder_utilization_ratio", 100),
        columns.number("decoder_utilization_ratio", 100),
        columns.number("memory_bytes", 1 / MEBIBYTE),
        columns.text("name"),
        columns.text("node"),
        columns.text("cluster"),
        columns.ages(now),
        columns.equals("state", STALE),
        columns.flags("simulated"),
        columns.text("device"),
        columns.text("namespace"),
        columns.text("pod"),
        columns.text("container"),
    )


_GPU_RESOURCE = resources_of(vendor for vendor in declarations().values() if vendor.makes_gpus)
_RETRY_SECONDS = 15.0
_LABELS_AT_ONCE = 200


async def nodes(call: Call) -> ThreadedResponse:
    found = await _nodes(call, _requested_clusters(call))
    return ThreadedResponse(lambda: EncodedResponse(found.encoded()))


async def node(call: Call) -> GpuNode:
    """The cluster is in the path, or a query parameter."""
    cluster = call.values.get("cluster") or call.values["cluster_id"]
    view = _reached_cluster(call, cluster)
    where = (Condition("cluster", "=", cluster), Condition("node", "=", call.values["node"]))
    for found in (await _nodes(call, where)).nodes():
        return found
    store = call.fleet.store
    position = store.nodes.find(cluster=cluster, node=call.values["node"])
    if position is None:
        if view.devices is None:
            raise _not_read(view, "")
        raise Problem(
            ProblemKind.NOT_FOUND,
            f"node {call.values['node']!r} with accelerators not found in cluster {view.id!r}",
            cluster=view.id,
        )
    [row] = store.nodes.rows(np.array([position]), call.now)
    if row.state in (UNREAD, INCOMPATIBLE):
        raise temporary(
            ProblemKind.NOT_READ_YET,
            f"node {row.node!r} was not read yet{_because(row.reason)}",
            _RETRY_SECONDS,
            cluster=view.id,
        )
    return GpuNode(
        node_name=row.node,
        cluster_id=row.cluster,
        gpus=[],
        gpu_count=0,
        total_memory_mb=0,
        labels=dict(store.labels(row.cluster, row.node)),
        age_seconds=row.age_seconds,
        stale=row.state != FRESH,
        simulated=row.simulated,
        source=row.source,
    )


def processes(call: Call) -> ThreadedResponse:
    where = [*_requested_clusters(call), Condition("vendor", "in", GPU_VENDORS)]
    if call.values["node_name"] is not None:
        where.append(Condition("node", "=", call.values["node_name"]))
    table = call.fleet.store.processes
    columns = CopiedColumns(
        table, table.matching(RowQuery(where=tuple(where))), PROCESS_FIELDS, sorted_by=PROCESS_ORDER
    )
    return ThreadedResponse(lambda: EncodedResponse(encoded_processes(columns, call.now)))


def summary(call: Call) -> GpuSummary | list[GpuSummary]:
    named = call.values["cluster_id"]
    if named is not None:
        [found] = _summaries(call, [_requested_cluster(call, named)])
        return found
    return _summaries(call, [view for view in visible_clusters(call) if view.gpu_setting != "false"])


def _summaries(call: Call, views: Sequence[ClusterView]) -> list[GpuSummary]:
    table = call.fleet.store.devices
    positions = table.matching(RowQuery(where=(*visible(call), Condition("vendor", "in", GPU_VENDORS))))
    clusters = table.column("cluster", positions)
    summaries = []
    for view in views:
        code = table.texts("cluster").code(view.id)
        own = positions[clusters == (-1 if code is None else code)]
        read = len(own) > 0 or _why_unread(call, view) is None
        summaries.append(_summary(view, table, own, read=read))
    return summaries


def _summary(
    view: ClusterView, table: ColumnTable[DeviceRow], positions: np.ndarray[Any, Any], *, read: bool
) -> GpuSummary:
    total = countable(table.column("memory_total_bytes", positions))
    used = countable(table.column("memory_used_bytes", positions))
    both = ~np.isnan(total) & ~np.isnan(used)
    of_both = float(total[both].sum())
    return GpuSummary(
        cluster_id=view.id,
        node_count=len(np.unique(table.nodes(positions))) if read else None,
        gpu_count=len(positions) if read else None,
        total_memory_mb=tenths(float(np.nansum(total)) / MEBIBYTE) if read else None,
        used_memory_mb=tenths(float(np.nansum(used)) / MEBIBYTE) if read else None,
        memory_utilization_percent=tidy(100 * float(used[both].sum()) / of_both) if of_both else None,
        average_gpu_utilization_percent=_mean(countable(table.column("utilization_ratio", positions)) * 100),
        average_temperature_celsius=_mean(table.column("temperature_celsius", positions)),
        age_seconds=view.age_seconds,
        stale=view.reachable is not True or _all_stale(table, positions),
        simulated=view.simulated,
    )


def _all_stale(table: ColumnTable[DeviceRow], positions: np.ndarray[Any, Any]) -> bool:
    """True if the cluster responds but its nodes do not. False if there are no GPUs."""
    code = table.texts("state").code(STALE)
    return len(positions) > 0 and bool((table.column("state", positions) == code).all())


def _mean(values: np.ndarray[Any, Any]) -> int | float | None:
    values = countable(values)
    known = values[~np.isnan(values)]
    return tidy(float(known.mean())) if len(known) else None


async def _nodes(call: Call, where: Sequence[Condition]) -> NodeGpus:
    store = call.fleet.store
    query = RowQuery(where=(*where, Condition("vendor", "in", GPU_VENDORS)))
    gpus = CopiedColumns(store.devices, store.devices.matching(query), GPU_FIELDS)
    nodes = CopiedColumns(
        store.nodes, store.nodes.matching(RowQuery(where=tuple(where))), NODE_FIELDS, sorted_by=NODE_ORDER
    )
    labels: list[Mapping[str, str]] = []
    for cluster, name in zip(nodes.text("cluster"), nodes.text("node"), strict=True):
        labels.append(store.labels(cluster, name))
        if not len(labels) % _LABELS_AT_ONCE:
            await asyncio.sleep(0)  # lets other tasks run: there may be ten thousand nodes
    return NodeGpus(gpus, nodes, labels, call.now)


def _requested_clusters(call: Call) -> tuple[Condition, ...]:
    """The named cluster, or all visible ones except those declared without GPUs."""
    named = call.values["cluster_id"]
    if named is not None:
        _requested_cluster(call, named)
        return (Condition("cluster", "=", named),)
    with_gpus = [view.id for view in visible_clusters(call) if view.gpu_setting != "false"]
    return (Condition("cluster", "in", tuple(with_gpus)),)


def _reached_cluster(call: Call, named: str) -> ClusterView:
    """Raises Problem: 404 for an unknown cluster, 400 for one without GPUs, 503 for one not reached yet."""
    view = visible_cluster(call, named)
    if view.gpu_setting == "false":
        raise Problem(
            ProblemKind.NO_GPU_CAPABILITY,
            f"cluster {named!r} is declared without GPUs (capabilities.gpu: false)",
            parameter="cluster_id",
            cluster=named,
        )
    if view.succeeded_at is None and not view.nodes:
        raise temporary(
            ProblemKind.CLUSTER_NEVER_REACHED,
            f"cluster {named!r} was not reached yet{_because(view.text)}",
            _RETRY_SECONDS,
            cluster=named,
            reason=view.reason,
        )
    return view


def _requested_cluster(call: Call, named: str) -> ClusterView:
    """Raises Problem: as `_reached_cluster`, and 503 if no GPU was read although there may be some."""
    view = _reached_cluster(call, named)
    devices = call.fleet.store.devices
    where = (Condition("cluster", "=", named), Condition("vendor", "in", GPU_VENDORS))
    if not len(devices.matching(RowQuery(where=where))) and (why := _why_unread(call, view)) is not None:
        raise _not_read(view, why)
    return view


def _why_unread(call: Call, view: ClusterView) -> str | None:
    """Why a cluster without GPU rows may still have GPUs; the text may be empty. None: it has no GPUs. NPUs
    that were read do not imply that there are no GPUs on other nodes."""
    node = call.fleet.store.unread_node(view.id, lambda name: _GPU_RESOURCE.fullmatch(name) is not None)
    if node is not None:
        return f"node {node[0]!r}: {node[1]}"
    silent = any(source.expected and not source.up and source.succeeded_at is None for source in view.sources)
    return "" if silent or view.devices is None else None


def _not_read(view: ClusterView, why: str) -> Problem:
    failed = [source for source in view.sources if source.text is not None]
    texts = "; ".join(f"{source.kind}: {source.text}" for source in failed)
    return temporary(
        ProblemKind.NOT_READ_YET,
        f"the GPUs of cluster {view.id!r} were not read yet{_because(texts or why)}",
        _RETRY_SECONDS,
        cluster=view.id,
        reason=failed[0].reason if failed else None,
    )


def _because(text: str | None) -> str:
    return f": {text}" if text else ""


_CLUSTER = Parameter(name="cluster_id", kind=TEXT, description="id of the cluster; default: all clusters")
_PROBLEMS = (
    ProblemKind.NOT_FOUND,
    ProblemKind.NO_GPU_CAPABILITY,
    ProblemKind.CLUSTER_NEVER_REACHED,
    ProblemKind.NOT_READ_YET,
)
_RULES = (
    "An unreachable cluster is returned with its last known values and their age. Requested by name, an "
    "unknown cluster is 404, a cluster declared without GPUs is 400, and a cluster that was not reached yet, "
    "or whose GPUs were not read yet, is 503. An empty list means that there are no GPUs."
)

ROUTES = (
    ApiRoute(
        path="/api/v1/gpu/nodes",
        summary="Nodes with GPUs, each with its GPUs",
        description=_RULES,
        tag="gpu",
        response=list[GpuNode],
        handle=nodes,
        parameters=(_CLUSTER,),
        problems=_PROBLEMS,
        cached=True,
    ),
    ApiRoute(
        path="/api/v1/gpu/nodes/{cluster}/{node}",
        summary="One node with its GPUs",
        tag="gpu",
        response=GpuNode,
        handle=node,
        parameters=(
            path_parameter("cluster", "id of the cluster"),
            path_parameter("node", "name of the node"),
        ),
        problems=_PROBLEMS,
        cached=True,
    ),
    ApiRoute(
        path="/api/v1/gpu/nodes/{node}",
        summary="One node with its GPUs; the cluster is a query parameter",
        tag="gpu",
        response=GpuNode,
        handle=node,
        parameters=(
            path_parameter("node", "name of the node"),
            Parameter(name="cluster_id", kind=TEXT, description="id of the cluster", required=True),
        ),
        problems=_PROBLEMS,
        cached=True,
    ),
    ApiRoute(
        path="/api/v1/gpu/processes",
        summary="Processes on GPUs",
        description=_RULES,
        tag="gpu",
        response=list[GpuProcess],
        handle=processes,
        parameters=(
            _CLUSTER,
            Parameter(name="node_name", kind=TEXT, description="name of the node; default: all nodes"),
        ),
        problems=_PROBLEMS,
        cached=True,
    ),
    ApiRoute(
        path="/api/v1/gpu/summary",
        summary="Sums and averages of one cluster, or of each cluster",
        description=(
            f"{_RULES} With `cluster_id` the response is the object of that cluster, without it a list with "
            "one object per cluster. Unknown values are omitted from sums and averages. Without any value a "
            "sum is 0 and an average is null. In the list, counts and sums of a cluster whose GPUs were not "
            "read yet are null. Sums over all clusters are at /api/v1/summary."
        ),
        tag="gpu",
        response=GpuSummary | list[GpuSummary],
        handle=summary,
        parameters=(_CLUSTER,),
        problems=_PROBLEMS,
        cached=True,
    ),
)
