"""The socket: how many connections, for how long, and what is no HTTP."""

import asyncio
import logging
import ssl
from typing import Any

from aiohttp import web

from accelscope.fleet.api.answering import problem_response
from accelscope.fleet.api.limits import DEFAULT_LIMITS, ApiLimits
from accelscope.fleet.api.problem import Problem, ProblemKind

log = logging.getLogger(__name__)

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
