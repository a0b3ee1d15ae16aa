"""A small HTTP server with routes, TLS, token authentication and limits."""

from accelscope.serve.message import PLAIN_TEXT, Limits, Request, Response, ServeError, accepts
from accelscope.serve.routing import (
    Continuation,
    DeferredResponse,
    Guard,
    Handler,
    Route,
    TokenFile,
    request_tokens,
    unauthorized,
)
from accelscope.serve.server import Server, Tls

__all__ = [
    "PLAIN_TEXT",
    "Continuation",
    "DeferredResponse",
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
    "request_tokens",
    "unauthorized",
]
