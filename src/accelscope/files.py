"""Notice that a file has new content: a leaf that every package may use.

Settings, certificates and tokens come from files that others rewrite, replace, or swap through a symlink (a
ConfigMap or Secret mount points `..data` at a new folder). Polling sees all of these; inotify does not see a
change behind a symlink, and a few `stat` calls every few seconds cost nothing.
"""

import errno
import logging
import os
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

_READ_LIMIT = 1 << 20  # bytes that are compared; files of this kind are far smaller

_Signature = tuple[str, int, int, int, int, int]


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open for reading without ever waiting: a pipe in the place of a file would hold the caller for good.
    Without `follow`, a symlink as the last part of `path` is an error. Raises OSError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return open(descriptor, "rb")  # noqa: PTH123 - of a descriptor; the caller closes it


class FileWatch:
    """Remembers what a file was when it was last asked. A file that cannot be read is a state like any other:
    it is reported once when it begins and once when it ends."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._signature: _Signature | None = None
        self._digest: int | None = None
        self.changed()

    def changed(self) -> bool:
        """Whether the content differs from that at the last call (or at construction)."""
        signature = self._stat()
        if signature == self._signature:
            return False
        digest = self._read()
        # The signature is kept as it was before the read: a write in between shows at the next call. None is
        # kept of a file that could not be read: what hinders may be the want of a descriptor, and pass.
        self._signature = None if digest is None else signature
        if digest == self._digest:
            return False
        self._digest = digest
        return True

    def _stat(self) -> _Signature | None:
        try:
            target = self.path.resolve(strict=True)
            status = target.stat()
        except (OSError, RuntimeError):  # RuntimeError: a loop of symlinks
            return None
        return (
            os.fspath(target),
            status.st_dev,
            status.st_ino,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_size,
        )

    def _read(self) -> int | None:
        """Python's own keyed 64-bit hash: hashlib would load OpenSSL, some 2 MiB, to compare two files."""
        try:
            with open_regular(self.path) as file:
                return hash(file.read(_READ_LIMIT))
        except OSError:
            return None


# --- secret files ------------------------------------------------------------
# Files that hold a secret, and whether every user of the machine can read them. A leaf that every package
# may use, so that agent, fleet and doctor go by one rule.


log = logging.getLogger(__name__)


def is_world_readable(path: str | Path) -> bool:
    """Whether the file gives every user the right to read it. A file that is not there does not."""
    try:
        return bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def warn_world_readable(what: str, paths: Iterable[str | None]) -> None:
    """Log each of these files that every user can read; `what` it holds. Volumes of the kubelet are left out:
    a Secret has mode 0644 by default, and nobody else is in the container."""
    for path in dict.fromkeys(paths):
        if path is not None and is_world_readable(path) and not (Path(path).parent / "..data").is_symlink():
            log.warning(
                "every user of this machine can read %s; take that right away with chmod o-r",
                what,
                extra={"fields": {"path": path}},
            )


# --- certificate files ------------------------------------------------------------
# The certificate that a server shows, its key and its clients' authority, from files that others renew.
#
# Imported only where TLS is on: `ssl` takes some 5 MiB.


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
