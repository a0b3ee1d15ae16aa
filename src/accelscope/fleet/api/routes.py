"""All routes, in the order in which they are described, and the routes about the server itself: version,
health, readiness, metrics."""

from typing import Annotated

from msgspec import Meta, Struct

from accelscope import __version__
from accelscope.fleet.api import (
    clusters,
    details,
    events,
    gpu,
    history,
    summary,
    tables,
)
from accelscope.fleet.api.openapi import document_routes
from accelscope.fleet.api.problem import ProblemKind, temporary
from accelscope.fleet.api.route import ApiRoute, Call, EncodedResponse
from accelscope.fleet.api.tables import Generation
from accelscope.model.wire import SCHEMA_VERSION

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_RETRY_SECONDS = 5.0


class Version(Struct, frozen=True, kw_only=True):
    version: str
    snapshot_schema: Annotated[
        str, Meta(description="schema version of snapshots; agents with the same major version are supported")
    ]
    generation: Generation


class ProbeStatus(Struct, frozen=True, kw_only=True):
    status: Annotated[str, Meta(description="`ok`, or `ready` for `/readyz`")]


def version(call: Call) -> Version:
    return Version(version=__version__, snapshot_schema=SCHEMA_VERSION, generation=call.generation)


def healthz(_: Call) -> ProbeStatus:
    return ProbeStatus(status="ok")


def readyz(call: Call) -> ProbeStatus:
    why = call.fleet.unready()
    if why is not None:
        raise temporary(ProblemKind.NOT_READY, why, _RETRY_SECONDS)
    return ProbeStatus(status="ready")


def metrics(call: Call) -> EncodedResponse:
    return EncodedResponse([call.fleet.metrics()])


_SERVICE_ROUTES = (
    ApiRoute(
        path="/api/v1/version",
        summary="Version of the fleet",
        tag="service",
        response=Version,
        handle=version,
    ),
    ApiRoute(
        path="/healthz",
        summary="Liveness: the event loop runs",
        tag="service",
        response=ProbeStatus,
        handle=healthz,
        scope=None,
        probe=True,
    ),
    ApiRoute(
        path="/readyz",
        summary="Readiness: every cluster was tried once",
        tag="service",
        response=ProbeStatus,
        handle=readyz,
        scope=None,
        probe=True,
        problems=(ProblemKind.NOT_READY,),
    ),
    ApiRoute(
        path="/metrics",
        summary="Metrics of the fleet process, for Prometheus",
        tag="service",
        response=None,
        media_type=METRICS_TYPE,
        handle=metrics,
        all_clusters=True,
    ),
)


_DESCRIBED = (
    *clusters.CLUSTER_ROUTES,
    *summary.SUMMARY_ROUTES,
    *summary.NAMESPACE_ROUTES,
    *summary.IDLE_ROUTES,
    *clusters.HEALTH_ROUTES,
    *tables.TABLE_ROUTES,
    *tables.DEVICE_COLUMN_ROUTES,
    *details.ROUTES,
    *events.EVENT_ROUTES,
    *history.ROUTES,
    *events.STREAM_ROUTES,
    *gpu.ROUTES,
    *_SERVICE_ROUTES,
)

ROUTES = (*_DESCRIBED, *document_routes(_DESCRIBED))
