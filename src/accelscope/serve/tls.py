"""TLS of the server: certificate, key and client CA from files, re-read when they change; and its streams.

Imported only where TLS is on: `ssl` takes some 5 MiB.
"""

import logging
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE

from accelscope.filewatch import FileWatch, open_regular
from accelscope.serve.error import ServeError

log = logging.getLogger(__name__)

_SIZE_LIMIT = 1 << 20  # bytes; bundles of authorities are a few hundred KiB


class TlsFiles:
    """The context in force. Raises ServeError if the files cannot be used at the start; later the old
    certificate stays until good files are there."""

    def __init__(self, certificate: str, key: str, client_ca: str | None = None) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._watches = [FileWatch(path) for path in (certificate, key, client_ca) if path is not None]
        self.context = self._load()

    def refresh(self) -> None:
        """Take up changed files. Connections made with the old certificate end after their next answer."""
        changed = [watch.changed() for watch in self._watches]  # each must be asked, hence no lazy any()
        if not any(changed):
            return
        try:
            self.context = self._load()
        except ServeError as error:
            log.warning("the certificate files cannot be used, the old certificate stays: %s", error)
        else:
            log.info("certificate re-read", extra={"fields": {"path": self._certificate}})

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        _look_at(self._certificate, b"-----BEGIN CERTIFICATE-----", "certificate")
        _look_at(self._key, b"PRIVATE KEY-----", "private key")
        try:
            # Without a password function OpenSSL would ask at the terminal for that of an encrypted key.
            context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            pair = f"certificate {self._certificate} and key {self._key}"
            mismatch = getattr(error, "reason", None) == "KEY_VALUES_MISMATCH"
            problem = "do not belong together" if mismatch else f"cannot be used: {error}"
            raise ServeError(f"{pair} {problem}") from error
        if self._client_ca is not None:
            _look_at(self._client_ca, b"-----BEGIN CERTIFICATE-----", "certificate")
            # Optional, because probes come without one; routes that are guarded ask for it themselves.
            context.verify_mode = ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(cafile=self._client_ca)
            except (ssl.SSLError, OSError) as error:
                raise ServeError(f"client CA {self._client_ca} cannot be used: {error}") from error
        return context


class TlsStream:
    """TLS over a socket that does not block. Takes the socket over."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        self._sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._unsent = b""

    def handshake(self) -> int:
        """Go on with the handshake: the event to wait for, 0 when it is done."""
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            return EVENT_READ
        except ssl.SSLWantWriteError:
            return EVENT_WRITE
        return 0

    def certified(self) -> bool:
        """Whether the client showed a certificate; one that the client CA did not sign ends the handshake."""
        return bool(self._sock.getpeercert())

    def receive(self, size: int) -> bytes | None:
        try:
            return self._sock.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return None

    def send(self, parts: Sequence[memoryview]) -> int:
        # OpenSSL wants to see the same bytes again after it had to stop, so they are joined once.
        self._unsent = self._unsent or b"".join(parts)
        try:
            sent = self._sock.send(self._unsent)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        self._unsent = b""
        return sent

    def pending(self) -> bool:
        return self._sock.pending() > 0

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            self._sock.unwrap()  # says goodbye; the client's goodbye is not waited for
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()


def _look_at(path: str, marker: bytes, what: str) -> None:
    """OpenSSL's errors name no file and say "PEM lib" for most that can be wrong with one."""
    try:
        with open_regular(Path(path)) as file:
            content = file.read(_SIZE_LIMIT)
    except OSError as error:
        raise ServeError(f"{path}: {error.strerror or error}") from error
    if marker not in content:
        raise ServeError(f"{path}: holds no {what} in PEM form")
    if b"ENCRYPTED" in content:
        raise ServeError(f"{path}: is encrypted; give a key without a password")
