"""Clusters, their refresh, and reports of unhealthy and unusual devices."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from accelscope.config.values import WholeNumber
from accelscope.fleet.api.access import AccessScope
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.route import TEXT, ApiRoute, Call, Parameter, several
from accelscope.fleet.api.tables import LIMIT_DEFAULT, LIMIT_MOST, At, Generation, visible
from accelscope.fleet.rows import ClusterView, DeviceRow, NodeRow, PodRow
from accelscope.fleet.store.node_rows import FRESH, INCOMPATIBLE, STALE, UNREAD
from accelscope.fleet.store.query import Condition, RowQuery, Sort
from accelscope.fleet.store.table import ColumnTable, R
from accelscope.model import HealthState


def path_parameter(name: str, description: str) -> Parameter:
    return Parameter(name=name, kind=TEXT, description=description, where="path", required=True)


def visible_clusters(call: Call) -> list[ClusterView]:
    """The clusters that the caller may see, ordered by id."""
    clusters = call.fleet.store.clusters
    return [clusters[name] for name in sorted(clusters) if call.caller.sees(name)]


def visible_cluster(call: Call, id: str) -> ClusterView:  # noqa: A002
    """Raises Problem: 404."""
    view = call.fleet.store.clusters.get(id)
    if view is None or not call.caller.sees(id):
        raise Problem(ProblemKind.NOT_FOUND, f"cluster {id!r} not found", cluster=id)
    return view


class Clusters(Struct, frozen=True, kw_only=True):
    items: Annotated[list[ClusterView], Meta(description="the clusters of the clusters file")]
    total: int
    generation: Generation
    at: At


class Refreshed(Struct, frozen=True, kw_only=True):
    cluster: Annotated[ClusterView, Meta(description="the cluster after the refresh")]
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
    view = visible_cluster(call, id_)  # it may have been removed from the list
    return Refreshed(cluster=view, generation=call.generation, at=call.now)


_CLUSTER = path_parameter("cluster", "id of the cluster")

CLUSTER_ROUTES = (
    ApiRoute(
        path="/api/v1/clusters",
        summary="All clusters with their sources",
        tag="fleet",
        response=Clusters,
        handle=clusters,
        cached=True,
    ),
    ApiRoute(
        path="/api/v1/clusters/{cluster}",
        summary="One cluster",
        tag="fleet",
        response=ClusterView,
        handle=cluster,
        parameters=(_CLUSTER,),
        problems=(ProblemKind.NOT_FOUND,),
        cached=True,
    ),
    ApiRoute(
        path="/api/v1/clusters/{cluster}/refresh",
        method="POST",
        summary="Refresh a cluster now",
        description="Returns when the refresh has succeeded or failed; `cluster` shows which.",
        tag="fleet",
        response=Refreshed,
        handle=refresh,
        parameters=(_CLUSTER,),
        problems=(ProblemKind.NOT_FOUND,),
        scope=AccessScope.ADMIN,
    ),
)


# --- Reports --------------------------------------------------------------------


_WORST_FIRST = (HealthState.LOST, HealthState.CRITICAL, HealthState.WARNING)
_NODE_STATES = (INCOMPATIBLE, STALE, UNREAD)


class HealthReport(Struct, frozen=True, kw_only=True):
    ok: Annotated[bool, Meta(description="true: no problem with any of these devices, nodes and clusters")]
    devices: Annotated[
        list[DeviceRow], Meta(description="lost, critical, then warning devices; at most `limit`")
    ]
    devices_by_health: Annotated[dict[str, int], Meta(description="number of devices by health")]
    nodes: Annotated[
        list[NodeRow], Meta(description="incompatible, stale, then unread nodes; at most `limit`")
    ]
    nodes_by_state: Annotated[dict[str, int], Meta(description="number of nodes by state")]
    clusters: Annotated[
        list[ClusterView], Meta(description="unreachable clusters, and clusters with a source that is down")
    ]
    generation: Generation
    at: At


class UnusualReport(Struct, frozen=True, kw_only=True):
    devices: Annotated[list[DeviceRow], Meta(description="unusual devices; at most `limit`")]
    devices_total: Annotated[int, Meta(description="number of unusual devices")]
    pods: Annotated[list[PodRow], Meta(description="unusual containers; at most `limit`")]
    pods_total: Annotated[int, Meta(description="number of unusual containers")]
    generation: Generation
    at: At


def health(call: Call) -> HealthReport:
    store = call.fleet.store
    where = _requested(call)
    devices = _count(store.devices, "health", tuple(HealthState), where)
    nodes = _count(store.nodes, "state", (FRESH, *_NODE_STATES), where)
    sought = call.values["cluster"]
    clusters = [
        view
        for view in visible_clusters(call)
        if (sought is None or view.id in sought)
        and (view.reachable is False or any(source.up is False for source in view.sources))
    ]
    problems = sum(devices[state] for state in _WORST_FIRST) + sum(nodes[state] for state in _NODE_STATES)
    return HealthReport(
        ok=not problems and not clusters,
        devices=_first_rows(call, store.devices, "health", _WORST_FIRST, where),
        devices_by_health=devices,
        nodes=_first_rows(call, store.nodes, "state", _NODE_STATES, where),
        nodes_by_state=nodes,
        clusters=clusters,
        generation=call.generation,
        at=call.now,
    )


def unusual(call: Call) -> UnusualReport:
    store = call.fleet.store
    where = (*_requested(call), Condition("unusual", "present"))
    query = RowQuery(where=where, sort=(Sort("cluster"), Sort("node")), limit=call.values["limit"])
    devices, pods = store.devices.select(query), store.pods.select(query)
    return UnusualReport(
        devices=store.devices.rows(devices.positions, call.now),
        devices_total=devices.total,
        pods=store.pods.rows(pods.positions, call.now),
        pods_total=pods.total,
        generation=call.generation,
        at=call.now,
    )


def _requested(call: Call) -> tuple[Condition, ...]:
    where = list(visible(call))
    if call.values["cluster"] is not None:
        where.append(Condition("cluster", "in", call.values["cluster"]))
    return tuple(where)


def _count(
    table: ColumnTable[Any], field: str, words: tuple[str, ...], where: tuple[Condition, ...]
) -> dict[str, int]:
    codes = table.column(field, table.matching(RowQuery(where=where)))
    texts = table.texts(field)
    return {
        str(word): 0 if (code := texts.code(str(word))) is None else int((codes == code).sum())
        for word in words
    }


def _first_rows(
    call: Call, table: ColumnTable[R], field: str, words: tuple[str, ...], where: tuple[Condition, ...]
) -> list[R]:
    """The first `limit` rows, in the order of `words`."""
    rows: list[R] = []
    for word in words:
        left = call.values["limit"] - len(rows)
        if left > 0:
            query = RowQuery(where=(*where, Condition(field, "=", str(word))), limit=left)
            rows += table.rows(table.select(query).positions, call.now)
    return rows


_PARAMETERS = (
    Parameter(name="cluster", kind=several(TEXT), description="only these clusters"),
    Parameter(
        name="limit",
        kind=WholeNumber(1, LIMIT_MOST),
        default=LIMIT_DEFAULT,
        description="number of rows in each list; the tables return all rows, in pages",
    ),
)

HEALTH_ROUTES = (
    ApiRoute(
        path="/api/v1/health",
        summary="Problems: unhealthy devices, stale nodes, unreachable clusters",
        description=(
            "For more than `limit` rows see /api/v1/devices?health=lost,critical,warning and "
            "/api/v1/nodes?state=stale,incompatible,unread."
        ),
        tag="fleet",
        response=HealthReport,
        handle=health,
        parameters=_PARAMETERS,
        cached=True,
    ),
    ApiRoute(
        path="/api/v1/unusual",
        summary="Devices and pods that differ from their usual behaviour",
        description="For more rows see /api/v1/devices?present=unusual and /api/v1/pods?present=unusual.",
        tag="fleet",
        response=UnusualReport,
        handle=unusual,
        parameters=_PARAMETERS,
        cached=True,
    ),
)
