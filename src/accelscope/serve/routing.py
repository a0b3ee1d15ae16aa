"""From a request to an answer: routes, who may use them, and what happens when a handler fails."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accelscope.serve.message import Request, Response
from accelscope.serve.tokens import TokenFile

log = logging.getLogger(__name__)


class Deferred:
    """An answer that another thread will give, for a handler that has to ask somebody else first: it returns
    this and must not wait. The client gets 503 if `complete` is not called in time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._response: Response | None = None
        self._deliver: Callable[[Response], None] | None = None

    def complete(self, response: Response) -> None:
        """Give the answer, from any thread; only the first counts."""
        with self._lock:
            if self._response is not None:
                return
            self._response = response
            deliver = self._deliver
        if deliver is not None:
            deliver(response)

    def when_complete(self, deliver: Callable[[Response], None]) -> None:
        """For the server: `deliver` is called once, in the thread that completes, or at once."""
        with self._lock:
            self._deliver = deliver
            response = self._response
        if response is not None:
            deliver(response)


Handler = Callable[[Request], Response | Deferred]


@dataclass(frozen=True, slots=True)
class Route:
    """A handler and whether token and client certificate, where set, are asked for. Handlers run in the
    server's only thread: they return ready bytes and never block."""

    handler: Handler
    guarded: bool = True


class Router:
    def __init__(
        self,
        routes: Mapping[str, Handler | Route],
        *,
        auth: TokenFile | None = None,
        client_certificates: bool = False,
    ) -> None:
        self._routes = {
            path: route if isinstance(route, Route) else Route(route) for path, route in routes.items()
        }
        self._auth = auth
        self._client_certificates = client_certificates
        self._failing: dict[str, str] = {}  # path -> the last error, so that each is logged once

    def answer(self, request: Request) -> Response | Deferred:
        route = self._routes.get(request.path)
        if route is None:
            return Response.text(404, "there is nothing at this path")
        if request.method not in ("GET", "HEAD"):
            return Response.text(405, "only GET and HEAD are answered here", ("Allow", "GET, HEAD"))
        if route.guarded:
            refused = self._refusal(request)
            if refused is not None:
                return refused
        return self._handled(route.handler, request)

    def _refusal(self, request: Request) -> Response | None:
        if self._client_certificates and not request.certified:
            return Response.text(403, "a client certificate is needed here; the probes work without")
        if self._auth is not None and not self._auth.allows(request):
            return Response.text(
                401,
                "a bearer token is needed here, in Authorization or X-AccelScope-Token",
                ("WWW-Authenticate", 'Bearer realm="accelscope"'),
            )
        return None

    def _handled(self, handler: Handler, request: Request) -> Response | Deferred:
        path = request.path
        try:
            response = handler(request)
        except Exception as error:  # whatever it is, it costs this page only
            failure = f"{type(error).__name__}: {error}"
            if self._failing.get(path) != failure:
                self._failing[path] = failure
                log.error("a page cannot be made", exc_info=True, extra={"fields": {"path": path}})
            return Response.text(500, "this page cannot be made at the moment; the log says why")
        if self._failing.pop(path, None) is not None:
            log.info("a page can be made again", extra={"fields": {"path": path}})
        return response
