"""From a request to an answer: routes, who may use them, and what happens when a handler fails."""

import logging
import threading

# What hmac.compare_digest is made of; hmac itself would load OpenSSL, some 4 MiB, for this one function.
from _operator import _compare_digest as equal_in_constant_time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from accelscope.files import FileWatch, open_regular, warn_world_readable
from accelscope.serve.message import Request, Response, ServeError

# --- tokens ------------------------------------------------------------
# Bearer tokens from a file, re-read when it changes.


log = logging.getLogger(__name__)

_SIZE_LIMIT = 64 * 1024  # bytes


def shown_tokens(request: Request) -> tuple[str, ...]:
    """From `X-AccelScope-Token`, since the API server's proxy drops the other, and `Authorization: Bearer`.
    Whatever stands there: a header that is sent twice is joined to something that is no token."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    bearer = credentials.strip() if scheme.lower() == "bearer" else ""
    return tuple(token for token in (request.headers.get("x-accelscope-token", ""), bearer) if token)


def unauthorized(problem: str = "") -> Response:
    """401. With a problem a token was shown, and that is what is wrong with it."""
    challenge = 'Bearer realm="accelscope"'
    if problem:
        return Response.text(401, problem, ("WWW-Authenticate", f'{challenge}, error="invalid_token"'))
    text = "a bearer token is needed here, in Authorization or X-AccelScope-Token"
    return Response.text(401, text, ("WWW-Authenticate", challenge))


class TokenFile:
    """Tokens that are accepted, one a line: two lines while a token is being rotated. Raises ServeError if
    the file cannot be used at the start; later the old tokens stay until a good file is there."""

    def __init__(self, path: str | Path) -> None:
        self._watch = FileWatch(path)
        self._tokens = _read(self._watch.path)

    def allows(self, request: Request) -> bool:
        """Whether any token that is shown is one of them."""
        allowed = False
        for sent in shown_tokens(request):
            for token in self._tokens:
                # All are compared, so that the time taken tells nothing about which one came close.
                allowed |= equal_in_constant_time(sent.encode("latin-1"), token)
        return allowed

    def refresh(self) -> None:
        """Take up a changed file."""
        if not self._watch.changed():
            return
        try:
            self._tokens = _read(self._watch.path)
        except ServeError as error:
            log.warning("the token file cannot be used, the old tokens stay: %s", error)
        else:
            log.info("tokens re-read", extra={"fields": {"path": str(self._watch.path)}})
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
        raise ServeError(f"token file {path}: holds no token")
    return tokens


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
