"""The HTTP server. One thread serves all connections with non-blocking sockets, because handlers only return
bytes that are ready. No client can delay the others.
"""

import errno
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from accelscope.serve.connection import Connection, Phase
from accelscope.serve.message import Limits, Request, Response, ServeError
from accelscope.serve.routing import Continuation, DeferredResponse, Guard, Handler, Route, Router, TokenFile

if TYPE_CHECKING:
    from accelscope.certificates import CertificateFiles


log = logging.getLogger(__name__)

_REFRESH_SECONDS = 2.0  # between checks of certificate and token files
_ACCEPTS_AT_ONCE = 32  # then existing connections get their turn
_OVERFLOW = 32  # connections beyond the limit that get a 503
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS = 0.5  # between attempts to accept without free file descriptors


class Loop:
    """Drives the connections until stop(). Owns the listening socket."""

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[Request], Response | DeferredResponse],
        limits: Limits,
        tls: "CertificateFiles | None",
        auth: TokenFile | None,
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._limits = limits
        self._tls = tls
        self._auth = auth
        self._connections: dict[Connection, int] = {}  # with the registered events
        # Completed by other threads.
        self._results: deque[tuple[Connection, DeferredResponse, Response | Continuation]] = deque()
        self._stopping = False
        self._accept_again: float | None = None  # when accepting is paused
        self._starved = False  # out of file descriptors, which is logged once
        self._next_refresh = 0.0
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for sock in (self._listener, self._wake_receiver, self._wake_sender):
            sock.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ, self._wake_receiver)
        self._selector.register(self._listener, selectors.EVENT_READ, self._listener)

    def stop(self) -> None:
        """Make run() return soon. May be called from any thread."""
        self._stopping = True
        self._wake()

    def run(self) -> None:
        """Serve until stopped, then close every connection."""
        while not self._stopping:
            events = self._selector.select(self._timeout())
            now = time.monotonic()
            for key, _ in events:
                if key.data is self._listener:
                    self._accept(now)
                elif key.data is self._wake_receiver:
                    self._wake_receiver.recv(4096)
                else:
                    self._drive(key.data, key.data.proceed, now)
            self._complete_deferred(now)
            self._run_timers(now)
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        self._listener.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _timeout(self) -> float | None:
        """Seconds until the next timer; None if there is none."""
        timers = [connection.deadline for connection in self._connections]
        if self._accept_again is not None:
            timers.append(self._accept_again)
        if self._tls is not None or self._auth is not None:
            timers.append(self._next_refresh)
        return max(0.0, min(timers) - time.monotonic()) if timers else None

    def _run_timers(self, now: float) -> None:
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
        """Run one step of a connection, then register the events that it waits for."""
        if connection.phase is Phase.CLOSED:
            return  # dropped by an earlier event of this iteration
        try:
            step(now)
        except OSError:
            connection.phase = Phase.CLOSED
        except Exception:
            log.exception("unexpected error; the connection is closed")
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
                if self._starved:
                    self._starved = False
                    log.info("accepting connections again")
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    continue  # the client has disconnected
                if not self._make_room(now):
                    self._pause(error, now)
                    return
                continue
            self._add(sock, address[0].removeprefix("::ffff:"), now)

    def _pause(self, error: OSError, now: float) -> None:
        """Out of file descriptors: retrying at once would only use CPU time."""
        if not self._starved:
            self._starved = True
            log.warning("cannot accept connections: %s", error.strerror)
        self._selector.unregister(self._listener)
        self._accept_again = now + _PAUSE_SECONDS

    def _add(self, sock: socket.socket, peer: str, now: float) -> None:
        sock.setblocking(False)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # already disconnected
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
            refusal = Response.text(503, "too many connections", ("Retry-After", "1"))
            self._drive(connection, partial(connection.refuse, refusal), now)
        else:
            connection.close()

    def _make_room(self, now: float) -> bool:
        """Close the connection that has been idle for longest, otherwise the slowest one. The time counts
        from the start of its request or response, whether or not bytes arrive now and then."""
        slow_since = now - self._limits.slow_seconds
        candidates = [each for each in self._connections if each.spare or each.since <= slow_since]
        if not candidates:
            return False
        self._drop(min(candidates, key=lambda each: (not each.spare, each.since)))
        return True

    def _deliver(
        self, connection: Connection, deferred: DeferredResponse, result: Response | Continuation
    ) -> None:
        self._results.append((connection, deferred, result))
        self._wake()

    def _complete_deferred(self, now: float) -> None:
        while self._results:
            connection, deferred, result = self._results.popleft()
            self._drive(connection, partial(connection.complete, deferred, result), now)

    def _wake(self) -> None:
        with suppress(OSError):  # the buffer is full, or the loop has ended
            self._wake_sender.send(b"\0")


_EVERY_ADDRESS = ("", "*", "::")
_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files. With a client CA, guarded routes require a client certificate signed by it."""

    certificate: str
    key: str
    client_ca: str | None = None


class Server:
    """Serves `routes` (path -> handler; a bare handler is a guarded route) from `start()` to `stop()`.

    `host` "" means all addresses, IPv6 and IPv4; `port` 0 any free port. The constructor raises ServeError
    for files that cannot be used, and `start()` for an address that it cannot listen on.
    """

    def __init__(
        self,
        routes: Mapping[str, Handler | Route],
        *,
        host: str = "",
        port: int = 0,
        tls: Tls | None = None,
        auth: TokenFile | None = None,
        guard: Guard | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._auth = auth
        self._limits = limits or Limits()
        self._router = Router(
            routes,
            auth=auth,
            guard=guard,
            client_certificates=tls is not None and tls.client_ca is not None,
        )
        self._tls = None
        if tls is not None:
            from accelscope.certificates import CertificateError, CertificateFiles  # noqa: PLC0415 - imports ssl

            try:
                self._tls = CertificateFiles(tls.certificate, tls.key, tls.client_ca)
            except CertificateError as error:
                raise ServeError(str(error)) from error
        self._address: tuple[str, int] | None = None
        self._loop: Loop | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
        if self._address is None:
            raise ServeError("the server has not been started")
        return self._address

    def start(self) -> None:
        listener = _listen(self._host, self._port)
        self._address = listener.getsockname()[:2]
        self._loop = Loop(listener, self._router.answer, self._limits, self._tls, self._auth)
        self._thread = threading.Thread(target=self._loop.run, name="http", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop listening and close all connections. Does nothing if the server is not running."""
        if self._loop is not None and self._thread is not None:
            self._loop.stop()
            self._thread.join(timeout)


def _listen(host: str, port: int) -> socket.socket:
    try:
        if host in _EVERY_ADDRESS:
            return _listen_everywhere(port)
        # Bytes: for str, socket loads the tables of the IDNA codec, half a mebibyte.
        name = host.encode() if host.isascii() else host
        family, _, _, _, address = socket.getaddrinfo(
            name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _bound(family, address)
    except OSError as error:
        where = f"port {port}" if host in _EVERY_ADDRESS else f"{host}, port {port}"
        hint = "; choose another port with --exporter-port" if error.errno == errno.EADDRINUSE else ""
        raise ServeError(f"cannot listen on {where}: {error.strerror or error}{hint}") from error
    except (OverflowError, UnicodeError) as error:
        raise ServeError(f"cannot listen on {host!r}, port {port}: {error}") from error


def _listen_everywhere(port: int) -> socket.socket:
    """One socket for both families; IPv4 alone on a machine without IPv6."""
    try:
        return _bound(socket.AF_INET6, ("::", port))
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
        return _bound(socket.AF_INET, ("0.0.0.0", port))  # noqa: S104 - all addresses were requested


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # "::" also accepts IPv4.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address[0] == "::" else 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
