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
    *clusters.ROUTES,
    *summary.ROUTES,
    *namespaces.ROUTES,
    *idle.ROUTES,
    *health.ROUTES,
    *tables.ROUTES,
    *device_columns.ROUTES,
    *details.ROUTES,
    *events.ROUTES,
    *history.ROUTES,
    *stream.ROUTES,
    *gpu.ROUTES,
    *service.ROUTES,
)

ROUTES = (*_DESCRIBED, *document_routes(_DESCRIBED))
