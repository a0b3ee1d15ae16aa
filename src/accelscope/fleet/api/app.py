"""The aiohttp application and its listener: the API's routes, the web page, connection limits."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from accelscope.fleet.api.access import AccessControl
from accelscope.fleet.api.events import StreamServer
from accelscope.fleet.api.problem import DEFAULT_LIMITS, ApiLimits, Problem, ProblemKind
from accelscope.fleet.api.request_handler import (
    NO_FRAMES,
    SECURITY_HEADERS,
    EncodedBody,
    PreparedResponse,
    RequestHandler,
    Traffic,
    accepted,
    accepts_gzip,
    etag_matches,
    problem_response,
)
from accelscope.fleet.api.route import FleetServices
from accelscope.fleet.api.routes import ROUTES
from accelscope.fleet.history import FleetHistory
from accelscope.fleet.history_rings import HistoryStore
from accelscope.fleet.page import BuiltPage, PageFile
from accelscope.fleet.store.fleet_store import FleetStore

# --- Web page -------------------------------------------------------------------
#
# The page contains no data and needs no token. It is a single-page application: paths such as
# `/nodes/berlin/alpha` exist only in the browser. A path that no route matches therefore returns the page to
# clients that accept HTML, and a problem to all others.


# Scripts may set style attributes under this policy, which the charts need.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    f"font-src 'self'; {NO_FRAMES}"
)
_HEADERS = {**SECURITY_HEADERS, "Content-Security-Policy": PAGE_POLICY, "Vary": "Accept, Accept-Encoding"}
_CACHE_FOREVER = "public, max-age=31536000, immutable"
_REVALIDATE = "no-cache"
_RESERVED_ROOTS = {"assets"} | {route.path.split("/")[1] for route in ROUTES}
_NOT_BUILT = b"""\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>AccelScope: no page</title></head>
<body>
<h1>The web page is not built</h1>
<p>This installation of AccelScope does not contain the web page. In a clone, <code>make page</code> builds it
and <code>make wheel</code> packages it; then restart the fleet.</p>
<p>The API works: see <a href="/docs">/docs</a>.</p>
</body>
</html>
"""


def page_response(page: BuiltPage, path: str, headers: Mapping[str, str]) -> PreparedResponse | None:
    """None: the path does not belong to the page."""
    found = page.file(path)
    if found is None:
        if path != "/" and not _is_page_path(path, headers.get("Accept", "")):
            return None
        found = page.index
    if found is None:
        unbuilt = {**_HEADERS, "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}
        return PreparedResponse(404, unbuilt, EncodedBody((_NOT_BUILT,)))
    return _file_response(found, headers)


def _file_response(file: PageFile, request_headers: Mapping[str, str]) -> PreparedResponse:
    headers = {
        **_HEADERS,
        "ETag": file.etag,
        "Cache-Control": _CACHE_FOREVER if file.is_immutable else _REVALIDATE,
    }
    if etag_matches(request_headers.get("If-None-Match"), file.etag):
        return PreparedResponse(304, headers)
    headers["Content-Type"] = file.media_type
    if accepts_gzip(request_headers.get("Accept-Encoding", "")) and file.compressed is not None:
        headers["Content-Encoding"] = "gzip"
        return PreparedResponse(200, headers, EncodedBody((file.compressed,), "gzip"))
    return PreparedResponse(200, headers, EncodedBody((file.content,)))


def _is_page_path(path: str, accept: str) -> bool:
    """Whether a browser requests a path of the page. A mistyped path of the API must not return the page."""
    root = path.split("/")[1]  # empty for //other.example, which scripts would interpret as another host
    # Browsers accept text/html explicitly; other clients send */*.
    return root not in _RESERVED_ROOTS and root != "" and accepted(accept).get("text/html", False)


log = logging.getLogger(__name__)

TRAFFIC = web.AppKey("traffic", Traffic)  # for metrics
STREAMS = web.AppKey("streams", StreamServer)


def make_app(
    store: FleetStore,
    history: FleetHistory,
    access: AccessControl,
    *,
    refresh: Callable[[str], Awaitable[None]],
    read_whole: Callable[[str, str], Awaitable[None]],
    metrics: Callable[[], bytes],
    unready: Callable[[], str | None],
    stored_history: HistoryStore | None = None,
    limits: ApiLimits = DEFAULT_LIMITS,
    page: BuiltPage | None = None,
) -> web.Application:
    """Must be called in a running loop. `refresh` reads one cluster and returns when it is done; `metrics`
    renders the metrics of the process; `read_whole` reads
    one node for its details; `unready` returns why the fleet is not ready; `stored_history` is
    the history from before the start of the process; `page` defaults to the installed one."""
    streams = StreamServer(limits)
    fleet = FleetServices(
        store=store,
        history=history,
        stored_history=stored_history,
        refresh=refresh,
        read_whole=read_whole,
        metrics=metrics,
        unready=unready,
        guarded=access.guarded,
        streams=streams,
    )
    requests = RequestHandler(fleet, access, limits)
    built = BuiltPage.load() if page is None else page
    if built.index is None:
        log.info("this installation does not contain the web page; see / for how to build it")

    async def document(request: web.Request) -> web.StreamResponse:
        prepared = page_response(built, request.path, request.headers)
        if prepared is None:
            raise web.HTTPNotFound
        return await requests.respond(request, "/", prepared)

    app = web.Application(middlewares=[_routing_errors(document)], client_max_size=1024)
    app.router.add_get("/", document)
    allowed = {"/": {"GET", "HEAD", "OPTIONS"}}
    for route in ROUTES:
        handle = requests.handler(route)
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
    app[TRAFFIC] = requests.traffic
    app[STREAMS] = streams
    return app


def _options(allow: str) -> Handler:
    """The allowed methods. No CORS headers: pages of other origins may not read the API."""

    async def options(_: web.Request) -> web.Response:
        return web.Response(status=204, headers={**SECURITY_HEADERS, "Allow": allow})

    return options


def _routing_errors(document: Handler) -> Middleware:
    """Handles requests that match no route: returns the page or a problem."""

    @web.middleware
    async def respond(request: web.Request, handler: Handler) -> web.StreamResponse:
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
            problem = Problem(ProblemKind.NOT_FOUND, "no such path; see /docs")
        return problem_response(problem, request)

    return respond


# --- Listener -------------------------------------------------------------------


_SHUTDOWN_SECONDS = 5.0  # for requests in progress


class ApiListener:
    def __init__(self, runner: web.AppRunner, server: asyncio.Server) -> None:
        self._runner = runner
        self._server = server

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stops accepting connections, ends streams and waits for requests in progress."""
        self._server.close()
        await self._runner.cleanup()


async def listen(
    app: web.Application,
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    limits: ApiLimits = DEFAULT_LIMITS,
) -> ApiListener:
    """Raises OSError if the address cannot be used."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    server, loop = runner.server, asyncio.get_running_loop()
    assert server is not None
    connections = _ConnectionCount(limits.connections)

    def connection() -> _ClientConnection:
        return _ClientConnection(
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
    return ApiListener(runner, listening)


class _ConnectionCount:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open = 0


class _ClientConnection(web.RequestHandler):
    """Closes itself at once if there are too many connections."""

    __slots__ = ("_connections", "_counted")

    def __init__(self, connections: _ConnectionCount, server: web.Server, **options: Any) -> None:
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
            log.error("unexpected error while handling a request", exc_info=exc)
            problem = Problem(ProblemKind.INTERNAL, "see the log of the fleet")
        else:
            problem = Problem(
                ProblemKind.BAD_REQUEST, (message or "not an HTTP request").splitlines()[0][:200]
            )
        response = problem_response(problem, request)
        response.force_close()
        return response
