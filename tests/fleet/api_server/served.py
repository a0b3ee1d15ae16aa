"""Servers in the event loop of a test: responses come from a function, and requests are recorded."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from accelscope.fleet.api_server.session import Session
from accelscope.fleet.clusters import Access, AddressAccess

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_SHUTDOWN_SECONDS = 0.2  # handlers that hang do so on purpose


@dataclass
class Served:
    url: str
    port: int
    requests: list[web.BaseRequest] = field(default_factory=list)


@asynccontextmanager
async def served(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        place.requests.append(request)
        return await handler(request)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    place = Served(f"{'http' if tls is None else 'https'}://127.0.0.1:{port}", port)
    try:
        yield place
    finally:
        await runner.cleanup()


@asynccontextmanager
async def session_at(access: Access | str, **options: object) -> AsyncIterator[Session]:
    reached = AddressAccess(url=access) if isinstance(access, str) else access
    session = Session(reached, **{"environ": {}, **options})  # type: ignore[arg-type]
    try:
        yield session
    finally:
        await session.close()


def status(code: int, message: str) -> web.Response:
    """An error response of an API server."""
    return web.json_response({"kind": "Status", "code": code, "message": message}, status=code)
