"""The server itself: which it is, whether it lives, whether it is ready, and its own metrics."""

from typing import Annotated

from msgspec import Meta, Struct

from accelscope import __version__
from accelscope.fleet.api.problem import ProblemKind, later
from accelscope.fleet.api.route import Call, Document, Route
from accelscope.fleet.api.tables import Generation
from accelscope.model.wire import SCHEMA_VERSION

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_RETRY_SECONDS = 5.0


class Version(Struct, frozen=True, kw_only=True):
    version: str
    snapshot_schema: Annotated[str, Meta(description="of agents that it understands: this major version")]
    generation: Generation


class Alive(Struct, frozen=True, kw_only=True):
    status: Annotated[str, Meta(description="`ok`; of `/readyz`: `ready`")]


def version(call: Call) -> Version:
    return Version(version=__version__, snapshot_schema=SCHEMA_VERSION, generation=call.generation)


def healthz(_: Call) -> Alive:
    return Alive(status="ok")


def readyz(call: Call) -> Alive:
    why = call.fleet.unready()
    if why is not None:
        raise later(ProblemKind.NOT_READY, why, _RETRY_SECONDS)
    return Alive(status="ready")


def metrics(call: Call) -> Document:
    return Document([call.fleet.metrics()])


ROUTES = (
    Route(
        path="/api/v1/version", summary="Which version this is", tag="service", answer=Version, handle=version
    ),
    Route(
        path="/healthz",
        summary="Whether the process lives and its loop moves",
        tag="service",
        answer=Alive,
        handle=healthz,
        scope=None,
        probe=True,
    ),
    Route(
        path="/readyz",
        summary="Whether every cluster has been tried once",
        tag="service",
        answer=Alive,
        handle=readyz,
        scope=None,
        probe=True,
        problems=(ProblemKind.NOT_READY,),
    ),
    Route(
        path="/metrics",
        summary="Metrics of the fleet process itself, for Prometheus",
        tag="service",
        answer=None,
        media_type=METRICS_TYPE,
        handle=metrics,
        all_clusters=True,
    ),
)
