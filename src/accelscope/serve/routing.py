"""From a request to an answer: routes, who may use them, and what happens when a handler fails."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from accelscope.serve.message import Request, Response
from accelscope.serve.tokens import TokenFile, unauthorized

log = logging.getLogger(__name__)


Continuation = Callable[[], "Response | Deferred"]  # called in the server's thread


class Deferred:
    """An answer that another thread will give, for whoever has to ask somebody else first: it returns this
    and must not wait. The client gets 503 if `complete` is not called in time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answer: Response | Continuation | None = None
        self._deliver: Callable[[Response | Continuation], None] | None = None

    def complete(self, answer: Response | Continuation) -> None:
        """Give the answer, or what makes it, from any thread; only the first counts."""
        with self._lock:
            if self._answer is not None:
                return
            self._answer = answer
            deliver = self._deliver
        if deliver is not None:
            deliver(answer)

    def when_complete(self, deliver: Callable[[Response | Continuation], None]) -> None:
        """For the server: `deliver` is called once, in the thread that completes, or at once."""
        with self._lock:
            self._deliver = deliver
            answer = self._answer
        if answer is not None:
            deliver(answer)


Handler = Callable[[Request], Response | Deferred]


@dataclass(frozen=True, slots=True)
class Route:
    """A handler and whether token and client certificate, where set, are asked for. Handlers run in the
    server's only thread: they return ready bytes and never block."""

    handler: Handler
    guarded: bool = True


class Guard(Protocol):
    """Somebody to ask about a request to a guarded route that the token file, if any, does not let in."""

    def admit(self, request: Request, proceed: Continuation) -> Response | Deferred:
        """`proceed()`, a refusal, or a Deferred that is completed with `proceed` or with a refusal. Called in
        the server's only thread: it must not wait."""


class Router:
    """A client certificate, where asked for, is always needed; of token file and guard either suffices."""

    def __init__(
        self,
        routes: Mapping[str, Handler | Route],
        *,
        auth: TokenFile | None = None,
        guard: Guard | None = None,
        client_certificates: bool = False,
    ) -> None:
        self._routes = {
            path: route if isinstance(route, Route) else Route(route) for path, route in routes.items()
        }
        self._auth = auth
        self._guard = guard
        self._client_certificates = client_certificates
        self._failing: dict[str, str] = {}  # path -> the last error, so that each is logged once

    def answer(self, request: Request) -> Response | Deferred:
        route = self._routes.get(request.path)
        if route is None:
            return Response.text(404, "there is nothing at this path")
        if request.method not in ("GET", "HEAD"):
            return Response.text(405, "only GET and HEAD are answered here", ("Allow", "GET, HEAD"))
        if route.guarded:
            return self._guarded(route.handler, request)
        return self._handled(route.handler, request)

    def _guarded(self, handler: Handler, request: Request) -> Response | Deferred:
        if self._client_certificates and not request.certified:
            return Response.text(403, "a client certificate is needed here; the probes work without")
        open_to_all = self._auth is None and self._guard is None
        if open_to_all or (self._auth is not None and self._auth.allows(request)):
            return self._handled(handler, request)
        if self._guard is not None:
            return self._guard.admit(request, lambda: self._handled(handler, request))
        return unauthorized()

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
