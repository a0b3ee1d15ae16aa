"""The HTTP server: it sends bytes that others made ready, so one thread is enough, and nothing that a client
does or leaves undone makes the others wait."""

import errno
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from accelscope.serve.error import ServeError
from accelscope.serve.limits import Limits
from accelscope.serve.loop import Loop
from accelscope.serve.routing import Guard, Handler, Route, Router
from accelscope.serve.tokens import TokenFile

_EVERY_ADDRESS = ("", "*", "::")
_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files. With a client CA, guarded routes need a client certificate that it signed."""

    certificate: str
    key: str
    client_ca: str | None = None


class Server:
    """Serves `routes` (path -> handler; a bare handler is a guarded route) from `start()` to `stop()`.

    `host` "" is every address, IPv6 and IPv4; `port` 0 any free one. Raises ServeError at once for files that
    cannot be used, and from `start()` for an address that cannot be listened on.
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
            from accelscope.certificate_files import CertificateError, CertificateFiles  # noqa: PLC0415 - brings ssl

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
        """Stop listening and close every connection; no harm if it is not running."""
        if self._loop is not None and self._thread is not None:
            self._loop.stop()
            self._thread.join(timeout)


def _listen(host: str, port: int) -> socket.socket:
    try:
        if host in _EVERY_ADDRESS:
            return _listen_everywhere(port)
        # Bytes: for text, socket would load the tables of international names, half a mebibyte.
        name = host.encode() if host.isascii() else host
        family, _, _, _, address = socket.getaddrinfo(
            name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _bound(family, address)
    except OSError as error:
        where = f"port {port}" if host in _EVERY_ADDRESS else f"{host}, port {port}"
        hint = "; --exporter-port chooses another" if error.errno == errno.EADDRINUSE else ""
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
        return _bound(socket.AF_INET, ("0.0.0.0", port))  # noqa: S104 - what was asked for


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # An address that was named is that address; every address is those of IPv4 too.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address[0] == "::" else 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
