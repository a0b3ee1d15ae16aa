"""What one client may take of the server."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    line_bytes: int = 8 * 1024  # request line
    head_bytes: int = 16 * 1024  # request line and header fields together
    body_bytes: int = 4 * 1024  # nothing here takes a body; a small one is read and thrown away
    head_seconds: float = 5.0  # handshake and head of a request: from connecting, later from its first byte
    deferred_seconds: float = 10.0  # for an answer that another thread gives
    response_seconds: float = 30.0  # for the client to take the whole answer
    idle_seconds: float = 120.0  # between requests
    linger_seconds: float = 1.0  # after the last answer, for the client to read it and close
    slow_seconds: float = 1.0  # a request or answer under way for longer may go when the server is full
    connections: int = 256
