"""The certificate that a server shows, its key and its clients' authority, from files that others renew.

Imported only where TLS is on: `ssl` takes some 5 MiB.
"""

import logging
import ssl
from pathlib import Path

from accelscope.filewatch import FileWatch, open_regular
from accelscope.secret_files import warn_world_readable

log = logging.getLogger(__name__)

_SIZE_LIMIT = 1 << 20  # bytes; bundles of authorities are a few hundred KiB


class CertificateError(Exception):
    """Files that cannot be used. The text is one line that names them."""


class CertificateFiles:
    """`context` is the one in force. Raises CertificateError if the files cannot be used at the start; later
    the old certificate stays until good files are there."""

    def __init__(self, certificate: str, key: str, client_ca: str | None = None) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._watches = [FileWatch(path) for path in (certificate, key, client_ca) if path is not None]
        self.context = self._load()

    def refresh(self) -> None:
        """Take up changed files. Connections that are open keep the context they began with."""
        changed = [watch.changed() for watch in self._watches]  # each must be asked, hence no lazy any()
        if not any(changed):
            return
        try:
            self.context = self._load()
        except CertificateError as error:
            log.warning("the certificate files cannot be used, the old certificate stays: %s", error)
        else:
            log.info("certificate re-read", extra={"fields": {"path": self._certificate}})
            warn_world_readable("the private key", [self._key])

    def following_context(self) -> ssl.SSLContext:
        """For a server that keeps the context it is given, as asyncio's do: each handshake with this one goes
        on with the one that is in force by then."""

        def follow(connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
            connection.context = self.context

        self.context.sni_callback = follow  # called for clients that name no server too
        return self.context

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
            raise CertificateError(f"{pair} {problem}") from error
        if self._client_ca is not None:
            _look_at(self._client_ca, b"-----BEGIN CERTIFICATE-----", "certificate")
            # Optional, because probes come without one; routes that are guarded ask for it themselves.
            context.verify_mode = ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(cafile=self._client_ca)
            except (ssl.SSLError, OSError) as error:
                raise CertificateError(f"client CA {self._client_ca} cannot be used: {error}") from error
        return context


def _look_at(path: str, marker: bytes, what: str) -> None:
    """OpenSSL's errors name no file and say "PEM lib" for most that can be wrong with one."""
    try:
        with open_regular(Path(path)) as file:
            content = file.read(_SIZE_LIMIT)
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror or error}") from error
    if marker not in content:
        raise CertificateError(f"{path}: holds no {what} in PEM form")
    if b"ENCRYPTED" in content:
        raise CertificateError(f"{path}: is encrypted; give a key without a password")
