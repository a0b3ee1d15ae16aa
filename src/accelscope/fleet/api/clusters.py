"""Clusters: how each is doing, and having one read anew."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from accelscope.config.values import WholeNumber
from accelscope.fleet.api.access import Scope
from accelscope.fleet.api.parameter import TEXT, Parameter, several
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.api.tables import LIMIT_DEFAULT, LIMIT_MOST, At, Generation, visible
from accelscope.fleet.rows import ClusterView, DeviceRow, NodeRow, PodRow
from accelscope.fleet.store.node_rows import FRESH, INCOMPATIBLE, STALE, UNREAD
from accelscope.fleet.store.query import Condition, Query, Sort
from accelscope.fleet.store.table import R, Table
from accelscope.model import HealthState

# --- visible ------------------------------------------------------------
# Clusters as the caller sees them: to a token that is limited to some, the others are not there.


def path_parameter(name: str, description: str) -> Parameter:
    return Parameter(name=name, kind=TEXT, description=description, where="path", required=True)


def visible_clusters(call: Call) -> list[ClusterView]:
    """In the order of their ids."""
    clusters = call.fleet.store.clusters
    return [clusters[name] for name in sorted(clusters) if call.caller.sees(name)]


def visible_cluster(call: Call, id: str) -> ClusterView:  # noqa: A002 - it is the cluster's id
    """Raises Problem: 404."""
    view = call.fleet.store.clusters.get(id)
    if view is None or not call.caller.sees(id):
        raise Problem(ProblemKind.NOT_FOUND, f"there is no cluster {id!r}", cluster=id)
    return view


class Clusters(Struct, frozen=True, kw_only=True):
    items: Annotated[list[ClusterView], Meta(description="one for each cluster of the clusters file")]
    total: int
    generation: Generation
    at: At


class Refreshed(Struct, frozen=True, kw_only=True):
    cluster: Annotated[ClusterView, Meta(description="as it is after the refresh")]
    generation: Generation
    at: At


def clusters(call: Call) -> Clusters:
    items = visible_clusters(call)
    return Clusters(items=items, total=len(items), generation=call.generation, at=call.now)


def cluster(call: Call) -> ClusterView:
    return visible_cluster(call, call.values["cluster"])


async def refresh(call: Call) -> Refreshed:
    id_ = visible_cluster(call, call.values["cluster"]).id
    await call.fleet.refresh(id_)
    view = visible_cluster(call, id_)  # it may have left the list meanwhile
    return Refreshed(cluster=view, generation=call.generation, at=call.now)


_CLUSTER = path_parameter("cluster", "id of the cluster")

CLUSTER_ROUTES = (
    Route(
        path="/api/v1/clusters",
        summary="Clusters, reachable or not, with their sources",
        tag="fleet",
        answer=Clusters,
        handle=clusters,
        cached=True,
    ),
    Route(
        path="/api/v1/clusters/{cluster}",
        summary="One cluster",
        tag="fleet",
        answer=ClusterView,
        handle=cluster,
        parameters=(_CLUSTER,),
        problems=(ProblemKind.NOT_FOUND,),
        cached=True,
    ),
    Route(
        path="/api/v1/clusters/{cluster}/refresh",
        method="POST",
        summary="Have a cluster read anew, now",
        description="Waits until it is done, or has failed: the cluster says which. Takes no body.",
        tag="fleet",
        answer=Refreshed,
        handle=refresh,
        parameters=(_CLUSTER,),
        problems=(ProblemKind.NOT_FOUND,),
        scope=Scope.ADMIN,
    ),
)


# --- health ------------------------------------------------------------
# What needs looking after: devices that are not well, nodes that are silent, clusters out of reach, and what
# is out of its habit.


_WORST_FIRST = (HealthState.LOST, HealthState.CRITICAL, HealthState.WARNING)
_NODE_STATES = (INCOMPATIBLE, STALE, UNREAD)


class HealthReport(Struct, frozen=True, kw_only=True):
    ok: Annotated[bool, Meta(description="no device, node or cluster that is meant is unwell")]
    devices: Annotated[list[DeviceRow], Meta(description="lost, critical, then warning; `limit` at most")]
    devices_by_health: Annotated[dict[str, int], Meta(description="all devices, by their health")]
    nodes: Annotated[list[NodeRow], Meta(description="incompatible, stale, then unread; `limit` at most")]
    nodes_by_state: Annotated[dict[str, int], Meta(description="all nodes, by their state")]
    clusters: Annotated[list[ClusterView], Meta(description="out of reach, or with a source that is not up")]
    generation: Generation
    at: At


class UnusualReport(Struct, frozen=True, kw_only=True):
    devices: Annotated[list[DeviceRow], Meta(description="`limit` at most")]
    devices_total: Annotated[int, Meta(description="how many devices are out of their habit")]
    pods: Annotated[list[PodRow], Meta(description="`limit` at most")]
    pods_total: Annotated[int, Meta(description="how many containers are out of their habit")]
    generation: Generation
    at: At


def health(call: Call) -> HealthReport:
    store = call.fleet.store
    where = _meant(call)
    devices = _counted(store.devices, "health", tuple(HealthState), where)
    nodes = _counted(store.nodes, "state", (FRESH, *_NODE_STATES), where)
    sought = call.values["cluster"]
    clusters = [
        view
        for view in visible_clusters(call)
        if (sought is None or view.id in sought)
        and (view.reachable is False or any(source.up is False for source in view.sources))
    ]
    unwell = sum(devices[state] for state in _WORST_FIRST) + sum(nodes[state] for state in _NODE_STATES)
    return HealthReport(
        ok=not unwell and not clusters,
        devices=_first(call, store.devices, "health", _WORST_FIRST, where),
        devices_by_health=devices,
        nodes=_first(call, store.nodes, "state", _NODE_STATES, where),
        nodes_by_state=nodes,
        clusters=clusters,
        generation=call.generation,
        at=call.now,
    )


def unusual(call: Call) -> UnusualReport:
    store = call.fleet.store
    where = (*_meant(call), Condition("unusual", "present"))
    query = Query(where=where, sort=(Sort("cluster"), Sort("node")), limit=call.values["limit"])
    devices, pods = store.devices.select(query), store.pods.select(query)
    return UnusualReport(
        devices=store.devices.rows(devices.positions, call.now),
        devices_total=devices.total,
        pods=store.pods.rows(pods.positions, call.now),
        pods_total=pods.total,
        generation=call.generation,
        at=call.now,
    )


def _meant(call: Call) -> tuple[Condition, ...]:
    where = list(visible(call))
    if call.values["cluster"] is not None:
        where.append(Condition("cluster", "in", call.values["cluster"]))
    return tuple(where)


def _counted(
    table: Table[Any], field: str, words: tuple[str, ...], where: tuple[Condition, ...]
) -> dict[str, int]:
    codes = table.column(field, table.matching(Query(where=where)))
    texts = table.texts(field)
    return {
        str(word): 0 if (code := texts.code(str(word))) is None else int((codes == code).sum())
        for word in words
    }


def _first(
    call: Call, table: Table[R], field: str, words: tuple[str, ...], where: tuple[Condition, ...]
) -> list[R]:
    """In the order of the words, as many as are asked for."""
    rows: list[R] = []
    for word in words:
        left = call.values["limit"] - len(rows)
        if left > 0:
            query = Query(where=(*where, Condition(field, "=", str(word))), limit=left)
            rows += table.rows(table.select(query).positions, call.now)
    return rows


_PARAMETERS = (
    Parameter(name="cluster", kind=several(TEXT), description="only of these clusters"),
    Parameter(
        name="limit",
        kind=WholeNumber(1, LIMIT_MOST),
        default=LIMIT_DEFAULT,
        description="rows of each list; the tables have all of them, in pages",
    ),
)

HEALTH_ROUTES = (
    Route(
        path="/api/v1/health",
        summary="What is not well: devices, nodes, clusters",
        description=(
            "More than `limit` are at /api/v1/devices?health=lost,critical,warning and "
            "/api/v1/nodes?state=stale,incompatible,unread."
        ),
        tag="fleet",
        answer=HealthReport,
        handle=health,
        parameters=_PARAMETERS,
        cached=True,
    ),
    Route(
        path="/api/v1/unusual",
        summary="Devices and pods that are out of their own habit",
        description="More than `limit`: /api/v1/devices?present=unusual and /api/v1/pods?present=unusual.",
        tag="fleet",
        answer=UnusualReport,
        handle=unusual,
        parameters=_PARAMETERS,
        cached=True,
    ),
)
