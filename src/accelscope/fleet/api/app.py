"""The application: routes bound to a fleet."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from accelscope.fleet.api.access import AccessControl
from accelscope.fleet.api.answering import (
    NO_FRAMES,
    SECURITY_HEADERS,
    Answering,
    Body,
    Ready,
    Traffic,
    accepted,
    confirms,
    problem_response,
    takes_gzip,
)
from accelscope.fleet.api.events import Streams
from accelscope.fleet.api.problem import DEFAULT_LIMITS, ApiLimits, Problem, ProblemKind
from accelscope.fleet.api.route import Fleet
from accelscope.fleet.api.routes import ROUTES
from accelscope.fleet.history import History, Past
from accelscope.fleet.page import BuiltPage, PageFile
from accelscope.fleet.store.fleet_store import FleetStore

# --- page ------------------------------------------------------------
# The web page over HTTP. It holds no data, so that it is open; what it shows it asks the API for.
#
# The page is one document for all of its places: `/nodes/berlin/alpha` exists only in it. A path that nobody
# else answers is therefore the page's for whoever asks for a document, and stays a problem for programs.


# Style attributes that a script sets are no inline style to a browser: charts may do that.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    f"font-src 'self'; {NO_FRAMES}"
)
_HEADERS = {**SECURITY_HEADERS, "Content-Security-Policy": PAGE_POLICY, "Vary": "Accept, Accept-Encoding"}
_A_YEAR = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"
_NOT_A_PLACE = {"assets"} | {route.path.split("/")[1] for route in ROUTES}
_NOT_BUILT = b"""\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>AccelScope: no page</title></head>
<body>
<h1>The page is not built</h1>
<p>This installation of AccelScope came without its web page. In a clone, <code>make page</code> builds it and
<code>make wheel</code> packs it; then start the fleet anew.</p>
<p>The API is there: <a href="/docs">/docs</a> describes it.</p>
</body>
</html>
"""


def page_answer(page: BuiltPage, path: str, headers: Mapping[str, str]) -> Ready | None:
    """None: the path is none of the page's."""
    found = page.file(path)
    if found is None:
        if path != "/" and not _is_place(path, headers.get("Accept", "")):
            return None
        found = page.index
    if found is None:
        unbuilt = {**_HEADERS, "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}
        return Ready(404, unbuilt, Body((_NOT_BUILT,)))
    return _sent(found, headers)


def _sent(file: PageFile, asked: Mapping[str, str]) -> Ready:
    headers = {**_HEADERS, "ETag": file.etag, "Cache-Control": _A_YEAR if file.lasts else _ASK_AGAIN}
    if confirms(asked.get("If-None-Match"), file.etag):
        return Ready(304, headers)
    headers["Content-Type"] = file.media_type
    if takes_gzip(asked.get("Accept-Encoding", "")) and file.compressed is not None:
        headers["Content-Encoding"] = "gzip"
        return Ready(200, headers, Body((file.compressed,), "gzip"))
    return Ready(200, headers, Body((file.content,)))


def _is_place(path: str, accept: str) -> bool:
    """Whether somebody went there with a browser. Never below what others answer for: a mistyped path of the
    API must not look like an answer."""
    root = path.split("/")[1]  # empty in //elsewhere.example, which scripts would take for another host
    # Browsers name HTML. Programs that take anything do not mean it.
    return root not in _NOT_A_PLACE and root != "" and accepted(accept).get("text/html", False)


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


# --- listening ------------------------------------------------------------
# The socket: how many connections, for how long, and what is no HTTP.


_SHUTDOWN_SECONDS = 5.0  # for answers that are under way


class Listener:
    def __init__(self, runner: web.AppRunner, server: asyncio.Server) -> None:
        self._runner = runner
        self._server = server

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Takes no more connections, ends streams, and lets answers that are under way be finished."""
        self._server.close()
        await self._runner.cleanup()


async def listen(
    app: web.Application,
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    limits: ApiLimits = DEFAULT_LIMITS,
) -> Listener:
    """Raises OSError where the address cannot be had."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    server, loop = runner.server, asyncio.get_running_loop()
    assert server is not None
    connections = _Connections(limits.connections)

    def connection() -> _Connection:
        return _Connection(
            connections,
            server,
            loop=loop,
            access_log=None,
            keepalive_timeout=limits.idle_seconds,
            lingering_time=1.0,
            max_line_size=limits.url_bytes,
            max_field_size=limits.header_bytes,
            max_headers=limits.headers,
        )

    try:
        listening = await loop.create_server(connection, host, port, ssl=tls, reuse_address=True)
    except BaseException:
        await runner.cleanup()
        raise
    return Listener(runner, listening)


class _Connections:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open = 0


class _Connection(web.RequestHandler):
    """Of too many, the newest is closed at once: those that are served go on."""

    __slots__ = ("_connections", "_counted")

    def __init__(self, connections: _Connections, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._connections = connections
        self._counted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._counted = True
        self._connections.open += 1
        if self._connections.open > self._connections.limit:
            transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._counted:
            self._counted = False
            self._connections.open -= 1
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status >= 500:
            log.error("a request could not be handled", exc_info=exc)
            problem = Problem(ProblemKind.INTERNAL, "the log of the fleet says more")
        else:
            problem = Problem(ProblemKind.BAD_REQUEST, (message or "this is not HTTP").splitlines()[0][:200])
        response = problem_response(problem, request)
        response.force_close()
        return response
