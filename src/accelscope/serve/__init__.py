"""The small HTTP server: routes, TLS, token, limits. Knows no other package but the leaf modules."""

from accelscope.serve.message import PLAIN_TEXT, Limits, Request, Response, ServeError, accepts
from accelscope.serve.routing import (
    Continuation,
    Deferred,
    Guard,
    Handler,
    Route,
    TokenFile,
    shown_tokens,
    unauthorized,
)
from accelscope.serve.server import Server, Tls

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
