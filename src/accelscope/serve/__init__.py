"""The small HTTP server: routes, TLS, token, limits. Knows no other package but the leaf modules."""

from accelscope.serve.error import ServeError
from accelscope.serve.limits import Limits
from accelscope.serve.message import PLAIN_TEXT, Request, Response
from accelscope.serve.negotiation import accepts
from accelscope.serve.routing import Continuation, Deferred, Guard, Handler, Route
from accelscope.serve.server import Server, Tls
from accelscope.serve.tokens import TokenFile, shown_tokens, unauthorized

__all__ = [
    "PLAIN_TEXT",
    "Continuation",
    "Deferred",
    "Guard",
    "Handler",
    "Limits",
    "Request",
    "Response",
    "Route",
    "ServeError",
    "Server",
    "Tls",
    "TokenFile",
    "accepts",
    "shown_tokens",
    "unauthorized",
]
