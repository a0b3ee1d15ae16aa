"""Clusters: how each is doing, and having one read anew."""

from typing import Annotated

from msgspec import Meta, Struct

from accelscope.fleet.api.problem import ProblemKind
from accelscope.fleet.api.route import Call, Route
from accelscope.fleet.api.tables import At, Generation
from accelscope.fleet.api.tokens import Scope
from accelscope.fleet.api.visible import path_parameter, visible_cluster, visible_clusters
from accelscope.fleet.cluster_view import ClusterView


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
