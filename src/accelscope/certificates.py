"""TLS of the servers: reloaded certificate files, and TLS over a non-blocking socket.

Import this module only if TLS is on: `ssl` takes 4 MiB of resident memory.
"""

import logging
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE

from accelscope.files import FileWatch, open_regular, warn_world_readable

log = logging.getLogger(__name__)

_SIZE_LIMIT = 1 << 20  # bytes; CA bundles are a few hundred KiB


class CertificateError(Exception):
    """The files cannot be used. The message is one line and names them."""


class CertificateFiles:
    """`context` uses the current files. Raises CertificateError if they cannot be used at the start. Later,
    the old certificate stays in use until the files are valid again."""

    def __init__(self, certificate: str, key: str, client_ca: str | None = None) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._watches = [FileWatch(path) for path in (certificate, key, client_ca) if path is not None]
        self.context = self._load()

    def refresh(self) -> None:
        """Reload changed files. Open connections keep their context."""
        changed = [watch.changed() for watch in self._watches]  # a list, because any() would skip some
        if not any(changed):
            return
        try:
            self.context = self._load()
        except CertificateError as error:
            log.warning("cannot load the new certificate files; the old certificate stays in use: %s", error)
        else:
            log.info("certificate reloaded", extra={"fields": {"path": self._certificate}})
            warn_world_readable("the private key", [self._key])

    def following_context(self) -> ssl.SSLContext:
        """A context for servers that never change theirs, like asyncio's: each handshake switches to the
        current `context`."""

        def follow(connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
            connection.context = self.context

        self.context.sni_callback = follow  # also called for clients without SNI
        return self.context

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        _check_pem(self._certificate, b"-----BEGIN CERTIFICATE-----", "certificate")
        _check_pem(self._key, b"PRIVATE KEY-----", "private key")
        try:
            # Without a password function OpenSSL would prompt for the password of an encrypted key.
            context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            pair = f"certificate {self._certificate} and key {self._key}"
            mismatch = getattr(error, "reason", None) == "KEY_VALUES_MISMATCH"
            problem = "do not belong together" if mismatch else f"cannot be used: {error}"
            raise CertificateError(f"{pair} {problem}") from error
        if self._client_ca is not None:
            _check_pem(self._client_ca, b"-----BEGIN CERTIFICATE-----", "certificate")
            # Optional, because probes have no certificate; guarded routes check for it.
            context.verify_mode = ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(cafile=self._client_ca)
            except (ssl.SSLError, OSError) as error:
                raise CertificateError(f"client CA {self._client_ca} cannot be used: {error}") from error
        return context


def _check_pem(path: str, marker: bytes, what: str) -> None:
    """Check the content first: OpenSSL's errors name no file, and are "PEM lib" for most problems."""
    try:
        with open_regular(Path(path)) as file:
            content = file.read(_SIZE_LIMIT)
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror or error}") from error
    if marker not in content:
        raise CertificateError(f"{path}: contains no {what} in PEM format")
    if b"ENCRYPTED" in content:
        raise CertificateError(f"{path}: the key is encrypted; use a key without a password")


# --- TLS of a connection --------------------------------------------------


class TlsStream:
    """TLS over a non-blocking socket, which it takes over."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        self._sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._unsent = b""

    def handshake(self) -> int:
        """Continue the handshake. Returns the event to wait for, or 0 when it is done."""
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            return EVENT_READ
        except ssl.SSLWantWriteError:
            return EVENT_WRITE
        return 0

    def certified(self) -> bool:
        """Whether the client has a certificate. The handshake fails if the client CA did not sign it."""
        return bool(self._sock.getpeercert())

    def receive(self, size: int) -> bytes | None:
        try:
            return self._sock.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return None

    def send(self, parts: Sequence[memoryview]) -> int:
        # After an incomplete write OpenSSL requires the same bytes again.
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
            self._sock.unwrap()  # sends close_notify, without waiting for the client's
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()
