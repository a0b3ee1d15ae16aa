"""Bearer tokens from a file, re-read when it changes."""

import logging

# What hmac.compare_digest is made of; hmac itself would load OpenSSL, some 4 MiB, for this one function.
from _operator import _compare_digest as equal_in_constant_time
from pathlib import Path

from accelscope.filewatch import FileWatch, open_regular
from accelscope.secret_files import warn_world_readable
from accelscope.serve.error import ServeError
from accelscope.serve.message import Request, Response

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
