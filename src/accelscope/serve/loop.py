"""The server's loop: one thread, one selector, sockets that never block."""

import errno
import logging
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from accelscope.serve.connection import Connection, Phase
from accelscope.serve.limits import Limits
from accelscope.serve.message import Request, Response
from accelscope.serve.routing import Continuation, Deferred
from accelscope.serve.tokens import TokenFile

if TYPE_CHECKING:
    from accelscope.certificate_files import CertificateFiles

log = logging.getLogger(__name__)

_REFRESH_SECONDS = 2.0  # between looks at certificate and token files
_ACCEPTS_AT_ONCE = 32  # then clients that are connected already get their turn
_OVERFLOW = 32  # connections beyond the limit, which live just long enough to be told 503
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS = 0.5  # between attempts to accept when the process or the machine is out of descriptors


class Loop:
    """Drives connections until it is told to stop. Owns the listening socket."""

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[Request], Response | Deferred],
        limits: Limits,
        tls: "CertificateFiles | None",
        auth: TokenFile | None,
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._limits = limits
        self._tls = tls
        self._auth = auth
        self._connections: dict[Connection, int] = {}  # with the events that the selector watches for
        # From other threads.
        self._answers: deque[tuple[Connection, Deferred, Response | Continuation]] = deque()
        self._stopping = False
        self._accept_again: float | None = None  # when accepting is paused
        self._starved = False  # out of file descriptors, and the log says so
        self._next_refresh = 0.0
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for sock in (self._listener, self._wake_receiver, self._wake_sender):
            sock.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, self._wake_receiver)
        self._selector.register(self._listener, selectors.EVENT_READ, self._listener)

    def stop(self) -> None:
        """From any thread: end `run` soon."""
        self._stopping = True
        self._wake()

    def run(self) -> None:
        """Serve until stopped, then close every connection."""
        while not self._stopping:
            events = self._selector.select(self._patience())
            now = time.monotonic()
            for key, _ in events:
                if key.data is self._listener:
                    self._accept(now)
                elif key.data is self._wake_receiver:
                    self._wake_receiver.recv(4096)
                else:
                    self._drive(key.data, key.data.proceed, now)
            self._give_answers(now)
            self._keep_time(now)
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        self._listener.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _patience(self) -> float | None:
        """Seconds until something must be done even if nothing happens; None: nothing must."""
        moments = [connection.deadline for connection in self._connections]
        if self._accept_again is not None:
            moments.append(self._accept_again)
        if self._tls is not None or self._auth is not None:
            moments.append(self._next_refresh)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _keep_time(self, now: float) -> None:
        for connection in [each for each in self._connections if each.deadline <= now]:
            self._drive(connection, connection.expire, now)
        if self._accept_again is not None and self._accept_again <= now:
            self._accept_again = None
            self._selector.register(self._listener, selectors.EVENT_READ, self._listener)
        if self._next_refresh <= now:
            self._next_refresh = now + _REFRESH_SECONDS
            self._refresh()

    def _refresh(self) -> None:
        if self._auth is not None:
            self._auth.refresh()
        if self._tls is not None:
            self._tls.refresh()
            for connection in self._connections:
                connection.retiring = connection.context is not self._tls.context

    def _drive(self, connection: Connection, step: Callable[[float], None], now: float) -> None:
        """Let a connection do something, then wait for what it wants next."""
        if connection.phase is Phase.CLOSED:
            return  # dropped by an earlier event of the same turn
        try:
            step(now)
        except OSError:
            connection.phase = Phase.CLOSED
        except Exception:
            log.exception("a connection failed unexpectedly and is closed")
            connection.phase = Phase.CLOSED
        if connection.phase is Phase.CLOSED:
            self._drop(connection)
        else:
            self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        watched, wanted = self._connections.get(connection, 0), connection.interest
        self._connections[connection] = wanted
        if watched == wanted:
            return
        if not wanted:
            self._selector.unregister(connection.descriptor)
        elif not watched:
            self._selector.register(connection.descriptor, wanted, connection)
        else:
            self._selector.modify(connection.descriptor, wanted, connection)

    def _drop(self, connection: Connection) -> None:
        if self._connections.pop(connection, 0):
            self._selector.unregister(connection.descriptor)
        connection.close()

    def _accept(self, now: float) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                sock, address = self._listener.accept()
            except BlockingIOError:
                if self._starved:  # and now all who waited are in
                    self._starved = False
                    log.info("connections are accepted again")
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    continue  # the client was gone before it was its turn
                if not self._make_room(now):
                    self._pause(error, now)
                    return
                continue
            self._welcome(sock, address[0].removeprefix("::ffff:"), now)

    def _pause(self, error: OSError, now: float) -> None:
        """Out of file descriptors: trying again at once would burn the processor until one is free."""
        if not self._starved:
            self._starved = True
            log.warning("no connection can be accepted for now: %s", error.strerror)
        self._selector.unregister(self._listener)
        self._accept_again = now + _PAUSE_SECONDS

    def _welcome(self, sock: socket.socket, peer: str, now: float) -> None:
        sock.setblocking(False)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # gone already
            sock.close()
            return
        context = self._tls.context if self._tls is not None else None
        connection = Connection(
            sock,
            peer=peer,
            answer=self._answer,
            deliver=self._deliver,
            limits=self._limits,
            now=now,
            context=context,
        )
        full = len(self._connections) >= self._limits.connections and not self._make_room(now)
        if not full:
            self._watch(connection)
        elif context is None and len(self._connections) < self._limits.connections + _OVERFLOW:
            answer = Response.text(503, "too many connections", ("Retry-After", "1"))
            self._drive(connection, partial(connection.refuse, answer), now)
        else:
            connection.close()

    def _make_room(self, now: float) -> bool:
        """Close the connection that misses it least: the longest idle, else the slowest. What counts is when
        its request or answer began, not that a byte moves now and then."""
        slow_since = now - self._limits.slow_seconds
        candidates = [each for each in self._connections if each.spare or each.since <= slow_since]
        if not candidates:
            return False
        self._drop(min(candidates, key=lambda each: (not each.spare, each.since)))
        return True

    def _deliver(self, connection: Connection, deferred: Deferred, answer: Response | Continuation) -> None:
        self._answers.append((connection, deferred, answer))
        self._wake()

    def _give_answers(self, now: float) -> None:
        while self._answers:
            connection, deferred, answer = self._answers.popleft()
            self._drive(connection, partial(connection.complete, deferred, answer), now)

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake already, or has ended
            self._wake_sender.send(b"\0")
