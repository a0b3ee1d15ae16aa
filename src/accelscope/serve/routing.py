"""Routing of requests to handlers, with authentication by token file, guard and client certificate."""

import logging
import threading

# This is hmac.compare_digest. Importing hmac loads OpenSSL: 3.7 MiB of resident memory more (VmRSS 13.6 MiB
# before, 17.3 MiB after), in an agent with a budget of 25 MiB.
from _operator import _compare_digest as compare_digest
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from accelscope.files import FileWatch, open_regular, warn_world_readable
from accelscope.serve.message import Request, Response, ServeError

log = logging.getLogger(__name__)

_SIZE_LIMIT = 64 * 1024  # bytes


def request_tokens(request: Request) -> tuple[str, ...]:
    """The tokens in `Authorization: Bearer` and in `X-AccelScope-Token`, which is for clients behind the API
    server's proxy, because it drops the former. They are not checked for syntax: a header that is sent twice
    is joined and does not match any token."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    bearer = credentials.strip() if scheme.lower() == "bearer" else ""
    return tuple(token for token in (request.headers.get("x-accelscope-token", ""), bearer) if token)


def unauthorized(problem: str = "") -> Response:
    """401; `problem` describes what is wrong with the token that was sent."""
    challenge = 'Bearer realm="accelscope"'
    if problem:
        return Response.text(401, problem, ("WWW-Authenticate", f'{challenge}, error="invalid_token"'))
    text = "bearer token required, in Authorization or X-AccelScope-Token"
    return Response.text(401, text, ("WWW-Authenticate", challenge))


class TokenFile:
    """Accepted tokens, one per line, so that two are valid during a rotation. Raises ServeError if the file
    cannot be used at the start. Later, the old tokens stay valid until the file can be used again."""

    def __init__(self, path: str | Path) -> None:
        self._watch = FileWatch(path)
        self._tokens = _read(self._watch.path)

    def allows(self, request: Request) -> bool:
        """Whether the request has one of the tokens."""
        allowed = False
        for sent in request_tokens(request):
            for token in self._tokens:
                # All tokens are compared, so that the time does not depend on which one matches.
                allowed |= compare_digest(sent.encode("latin-1"), token)
        return allowed

    def refresh(self) -> None:
        """Reload a changed file."""
        if not self._watch.changed():
            return
        try:
            self._tokens = _read(self._watch.path)
        except ServeError as error:
            log.warning("cannot load the new token file; the old tokens stay valid: %s", error)
        else:
            log.info("tokens reloaded", extra={"fields": {"path": str(self._watch.path)}})
            warn_world_readable("the tokens", [str(self._watch.path)])


def _read(path: Path) -> tuple[bytes, ...]:
    try:
        with open_regular(path) as file:
            content = file.read(_SIZE_LIMIT + 1)
    except OSError as error:
        raise ServeError(f"token file {path}: {error.strerror or error}") from error
    if len(content) > _SIZE_LIMIT:
        raise ServeError(f"token file {path}: larger than {_SIZE_LIMIT // 1024} KiB")
    tokens = tuple(line.strip() for line in content.splitlines() if line.strip())
    if not tokens:
        raise ServeError(f"token file {path}: contains no token")
    return tokens


Continuation = Callable[[], "Response | DeferredResponse"]  # called in the server's thread


class DeferredResponse:
    """A response that another thread provides later, for handlers that would otherwise have to wait. The
    client gets 503 if `complete` is not called in time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._result: Response | Continuation | None = None
        self._deliver: Callable[[Response | Continuation], None] | None = None

    def complete(self, result: Response | Continuation) -> None:
        """Provide the response, or a function that creates it, from any thread. Only the first call
        counts."""
        with self._lock:
            if self._result is not None:
                return
            self._result = result
            deliver = self._deliver
        if deliver is not None:
            deliver(result)

    def when_complete(self, deliver: Callable[[Response | Continuation], None]) -> None:
        """For the server: `deliver` is called once, in the thread that calls `complete`, or immediately."""
        with self._lock:
            self._deliver = deliver
            result = self._result
        if result is not None:
            deliver(result)


Handler = Callable[[Request], Response | DeferredResponse]


@dataclass(frozen=True, slots=True)
class Route:
    """A handler, and whether it requires the configured token and client certificate. Handlers run in the
    server's only thread and must not block."""

    handler: Handler
    guarded: bool = True


class Guard(Protocol):
    """Decides about requests to guarded routes that the token file does not allow."""

    def admit(self, request: Request, proceed: Continuation) -> Response | DeferredResponse:
        """Return `proceed()`, a refusal, or a DeferredResponse that is completed with either. Runs in the
        server's only thread and must not block."""


class Router:
    """If client certificates are configured, one is always required. Either the token file or the guard must
    allow the request."""

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
        self._failing: dict[str, str] = {}  # path -> last error, which is logged once

    def answer(self, request: Request) -> Response | DeferredResponse:
        route = self._routes.get(request.path)
        if route is None:
            return Response.text(404, "not found")
        if request.method not in ("GET", "HEAD"):
            return Response.text(405, "only GET and HEAD are allowed", ("Allow", "GET, HEAD"))
        if route.guarded:
            return self._authorize(route.handler, request)
        return self._handle(route.handler, request)

    def _authorize(self, handler: Handler, request: Request) -> Response | DeferredResponse:
        if self._client_certificates and not request.certified:
            return Response.text(403, "client certificate required")
        open_to_all = self._auth is None and self._guard is None
        if open_to_all or (self._auth is not None and self._auth.allows(request)):
            return self._handle(handler, request)
        if self._guard is not None:
            return self._guard.admit(request, lambda: self._handle(handler, request))
        return unauthorized()

    def _handle(self, handler: Handler, request: Request) -> Response | DeferredResponse:
        path = request.path
        try:
            response = handler(request)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            if self._failing.get(path) != failure:
                self._failing[path] = failure
                log.error("request handler failed", exc_info=True, extra={"fields": {"path": path}})
            return Response.text(500, "internal error; see the log")
        if self._failing.pop(path, None) is not None:
            log.info("request handler works again", extra={"fields": {"path": path}})
        return response
