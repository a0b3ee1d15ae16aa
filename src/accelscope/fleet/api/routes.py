"""All routes, in the order in which they are described."""

from accelscope.fleet.api import (
    clusters,
    details,
    device_columns,
    events,
    gpu,
    health,
    history,
    idle,
    namespaces,
    service,
    stream,
    summary,
    tables,
)
from accelscope.fleet.api.documents import document_routes

_DESCRIBED = (
    *clusters.CLUSTER_ROUTES,
    *summary.SUMMARY_ROUTES,
    *namespaces.NAMESPACE_ROUTES,
    *idle.IDLE_ROUTES,
    *health.HEALTH_ROUTES,
    *tables.ROUTES,
    *device_columns.ROUTES,
    *details.ROUTES,
    *events.EVENT_ROUTES,
    *history.ROUTES,
    *stream.STREAM_ROUTES,
    *gpu.ROUTES,
    *service.ROUTES,
)

ROUTES = (*_DESCRIBED, *document_routes(_DESCRIBED))
