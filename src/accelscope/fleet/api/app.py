"""The application: routes bound to a fleet."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from accelscope.fleet.api.access import AccessControl
from accelscope.fleet.api.answering import SECURITY_HEADERS, Answering, Traffic, problem_response
from accelscope.fleet.api.fleet import Fleet
from accelscope.fleet.api.limits import DEFAULT_LIMITS, ApiLimits
from accelscope.fleet.api.page import page_answer
from accelscope.fleet.api.problem import Problem, ProblemKind
from accelscope.fleet.api.routes import ROUTES
from accelscope.fleet.api.stream import Streams
from accelscope.fleet.history import History, Past
from accelscope.fleet.page import BuiltPage
from accelscope.fleet.store.fleet_store import FleetStore

log = logging.getLogger(__name__)

TRAFFIC = web.AppKey("traffic", Traffic)  # for metrics
STREAMS = web.AppKey("streams", Streams)


def make_app(
    store: FleetStore,
    history: History,
    access: AccessControl,
    *,
    refresh: Callable[[str], Awaitable[None]],
    metrics: Callable[[], bytes],
    unready: Callable[[], str | None],
    past: Past | None = None,
    limits: ApiLimits = DEFAULT_LIMITS,
    page: BuiltPage | None = None,
) -> web.Application:
    """Must be called within the loop. `refresh` has one cluster read anew and returns when that is done;
    `metrics` renders the process's own; `unready` says why it is not ready yet; `past` is where history is
    asked for that is older than the process's own; `page` is the installed one unless another is given."""
    streams = Streams(limits)
    fleet = Fleet(
        store=store,
        history=history,
        past=past,
        refresh=refresh,
        metrics=metrics,
        unready=unready,
        guarded=access.guarded,
        streams=streams,
    )
    answering = Answering(fleet, access, limits)
    built = BuiltPage.load() if page is None else page
    if built.index is None:
        log.info("this installation has no web page in it; / tells how to build one")

    async def document(request: web.Request) -> web.StreamResponse:
        ready = page_answer(built, request.path, request.headers)
        if ready is None:
            raise web.HTTPNotFound
        return await answering.give(request, "/", ready)

    app = web.Application(middlewares=[_refusals(document)], client_max_size=1024)
    app.router.add_get("/", document)
    allowed = {"/": {"GET", "HEAD", "OPTIONS"}}
    for route in ROUTES:
        handle = answering.handler(route)
        methods = {route.method, "HEAD"} if route.method == "GET" and route.stream is None else {route.method}
        for method in sorted(methods):
            app.router.add_route(method, route.path, handle)
        allowed.setdefault(route.path, {"OPTIONS"}).update(methods)
    for path, methods in allowed.items():
        app.router.add_route("OPTIONS", path, _options(", ".join(sorted(methods))))

    async def end_streams(_: web.Application) -> None:
        streams.close()

    async def end_reviews(_: web.Application) -> None:
        await access.close()

    app.on_shutdown.append(end_streams)
    app.on_cleanup.append(end_reviews)
    app[TRAFFIC] = answering.traffic
    app[STREAMS] = streams
    return app


def _options(allow: str) -> Handler:
    """What may be done. Nothing about other origins: their pages may not read this."""

    async def options(_: web.Request) -> web.Response:
        return web.Response(status=204, headers={**SECURITY_HEADERS, "Allow": allow})

    return options


def _refusals(document: Handler) -> Middleware:
    """What the router turns away: the page's, or a problem."""

    @web.middleware
    async def refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            try:
                return await handler(request)
            except web.HTTPNotFound:
                if request.method not in ("GET", "HEAD"):
                    raise
                return await document(request)
        except web.HTTPMethodNotAllowed as error:
            allow = ", ".join(sorted(error.allowed_methods))
            problem = Problem(
                ProblemKind.METHOD_NOT_ALLOWED, f"{request.path} allows {allow}", headers={"Allow": allow}
            )
        except web.HTTPNotFound:
            problem = Problem(
                ProblemKind.NOT_FOUND, "there is nothing at this path; /docs lists what there is"
            )
        return problem_response(problem, request)

    return refusals
