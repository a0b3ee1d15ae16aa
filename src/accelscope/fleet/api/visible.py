"""Clusters as the caller sees them: to a token that is limited to some, the others are not there."""

from accelscope.fleet.api.parameter import TEXT, Parameter
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.route import Call
from accelscope.fleet.cluster_view import ClusterView


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
