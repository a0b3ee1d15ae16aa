"""All routes, in the order in which they are described."""

from accelscope.fleet.api import (
    clusters,
    details,
    device_columns,
    events,
    gpu,
    history,
    service,
    summary,
    tables,
)
from accelscope.fleet.api.openapi import document_routes

_DESCRIBED = (
    *clusters.CLUSTER_ROUTES,
    *summary.SUMMARY_ROUTES,
    *summary.NAMESPACE_ROUTES,
    *summary.IDLE_ROUTES,
    *clusters.HEALTH_ROUTES,
    *tables.ROUTES,
    *device_columns.ROUTES,
    *details.ROUTES,
    *events.EVENT_ROUTES,
    *history.ROUTES,
    *events.STREAM_ROUTES,
    *gpu.ROUTES,
    *service.ROUTES,
)

ROUTES = (*_DESCRIBED, *document_routes(_DESCRIBED))
