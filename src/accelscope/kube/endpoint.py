"""Where an API server or a kubelet is, and what we show it."""

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

from accelscope.files import FileWatch, open_regular
from accelscope.kube.errors import KubeError, Reason

_TOKEN_LIMIT = 64 << 10  # bytes; service account tokens are about 1 KiB
_TOKEN_SECONDS = 60.0  # a token is re-read after this even if its file looks the same


class EndpointError(ValueError):
    """An address that cannot be used. The text is one line that says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Raises EndpointError for a URL that cannot be used."""

    url: str
    token_file: str | None = None
    ca_file: str | None = None  # None: the authorities that the system trusts
    client_certificate: str | None = None
    client_key: str | None = None
    skip_tls_verify: bool = False
    server_name: str | None = None  # the name in the server's certificate, where it is not the URL's host
    allow_http: bool = False  # to other machines too; then neither token nor client certificate may be given

    secure: bool = field(init=False)
    host: str = field(init=False)  # without brackets
    port: int = field(init=False)
    base_path: str = field(init=False)  # before every request's path; without a slash at its end

    def __post_init__(self) -> None:
        secure, host, port, base_path = _split(self.url)
        if not secure and not is_loopback(host):
            if not self.allow_http:
                raise EndpointError(
                    f"{self.url}: http is taken only for this machine itself (127.0.0.1, ::1, localhost), "
                    "since a token would travel unencrypted; use https"
                )
            if self.token_file is not None or self.client_certificate is not None:
                raise EndpointError(
                    f"{self.url}: a token is not sent over http to another machine; use https"
                )
        if self.client_key is not None and self.client_certificate is None:
            raise EndpointError(f"{self.url}: a client key without a client certificate")
        for name, value in (("secure", secure), ("host", host), ("port", port), ("base_path", base_path)):
            object.__setattr__(self, name, value)

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PemSource:
    """A certificate or a key in PEM form: in a file that may be rotated, or in memory."""

    name: str  # where it is from, for errors
    path: str | None = None
    content: bytes | None = field(default=None, repr=False)


def in_cluster(environ: Mapping[str, str], token_file: str | None, ca_file: str | None) -> Endpoint | None:
    """The API server as every container of a cluster is told it; None outside of a cluster."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "").strip()
    port = environ.get("KUBERNETES_SERVICE_PORT", "").strip() or "443"
    if not host:
        return None
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return Endpoint(f"https://{host}:{port}", token_file, ca_file)


def is_loopback(host: str) -> bool:
    """Whether it is certain, without asking a name server, that packets stay on this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return socket.inet_pton(socket.AF_INET, host)[0] == 127
    except OSError:
        pass
    try:
        return socket.inet_pton(socket.AF_INET6, host) == bytes(15) + b"\x01"
    except OSError:
        return False


def _split(url: str) -> tuple[bool, str, int, str]:
    if not url.isprintable() or " " in url or not url.isascii():
        raise _unusable(url, "not a URL")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _unusable(url, str(error)) from None
    if parts.username is not None or parts.password is not None:
        raise _unusable(url, "")
    if parts.scheme not in ("http", "https") or not host:
        raise _unusable(url, "not an https:// URL with a host")
    if parts.query or parts.fragment:
        raise _unusable(url, "a query or fragment does not belong here")
    secure = parts.scheme == "https"
    return secure, host, port or (443 if secure else 80), parts.path.rstrip("/")


def _unusable(url: str, problem: str) -> EndpointError:
    """What may be a password is not repeated, nor is a query. A password with a / or # in it makes a URL with
    another host, or none: so any @ counts."""
    if "@" in url:
        return EndpointError("a URL with a user or password in it; use a token file or a client certificate")
    place = url.partition("?")[0].partition("#")[0]
    return EndpointError(f"{place if place.isprintable() and ' ' not in place else repr(place)}: {problem}")


class TokenFile:
    """A bearer token that others rotate: read anew when its file changes and at least once a minute."""

    def __init__(self, path: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = Lock()  # one client is used by several threads
        self._watch = FileWatch(path)
        self._token: str | None = None
        self._read_at = 0.0
        self._generation = 0

    def generation(self) -> int:
        """Increases with each other content that is seen: what failed for the old one may be tried again."""
        with self._lock:
            self._look()
            return self._generation

    def read(self) -> str:
        """Raises KubeError."""
        with self._lock:
            self._look()
            now = self._clock()
            if self._token is None or now - self._read_at >= _TOKEN_SECONDS:
                token = self._load()
                if self._token is not None and token != self._token:
                    self._generation += 1
                self._token, self._read_at = token, now
            return self._token

    def _look(self) -> None:
        if self._watch.changed():
            self._token = None
            self._generation += 1

    def _load(self) -> str:
        try:
            with open_regular(Path(self._path)) as file:
                content = file.read(_TOKEN_LIMIT + 1)
        except OSError as error:
            text = f"token file {self._path} cannot be read: {error.strerror or error}"
            raise KubeError(Reason.UNAUTHORIZED, text) from None
        token = content.strip()
        # What is printed of a bad token is nothing: it may still be most of a good one.
        if not token:
            raise KubeError(Reason.UNAUTHORIZED, f"token file {self._path} is empty")
        if len(content) > _TOKEN_LIMIT or not all(0x21 <= byte <= 0x7E for byte in token):
            raise KubeError(Reason.UNAUTHORIZED, f"token file {self._path} holds no token")
        return token.decode("ascii")


def wire_name(host: str) -> str | bytes:
    """As bytes where it has none but ASCII characters: for text, `socket` and `ssl` would load the tables of
    international names, half a mebibyte."""
    return host.encode() if host.isascii() else host


# --- tls ------------------------------------------------------------
# TLS towards a server: whom we trust, who we are, from files that others rotate.
#
# Imported only where an endpoint is https: `ssl` takes some 5 MiB.


class Trust:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        files = (endpoint.ca_file, endpoint.client_certificate, endpoint.client_key)
        self._watches = [FileWatch(path) for path in files if path is not None]
        self._context: ssl.SSLContext | None = None

    def refresh(self) -> bool:
        """Whether the files are others than before: connections made with the old ones should end."""
        changed = [watch.changed() for watch in self._watches]  # each must be asked, hence no lazy any()
        if any(changed):
            self._context = None
        return any(changed)

    def wrap(self, sock: socket.socket) -> ssl.SSLSocket:
        """Takes the socket over; the handshake is still to be made. Raises KubeError, OSError."""
        context = self._context  # another thread may notice new files meanwhile
        if context is None:
            context = self._context = self._load()
        # The host's name or address must be in the certificate; addresses are compared with its IP entries.
        name = self._endpoint.server_name or self._endpoint.host
        return context.wrap_socket(sock, server_hostname=wire_name(name), do_handshake_on_connect=False)

    def _load(self) -> ssl.SSLContext:
        endpoint = self._endpoint
        return client_context(
            authority=_file(endpoint.ca_file, "file "),
            certificate=_file(endpoint.client_certificate),
            key=_file(endpoint.client_key),
            skip_verify=endpoint.skip_tls_verify,
        )


def _file(path: str | None, kind: str = "") -> PemSource | None:
    return None if path is None else PemSource(f"{kind}{path}", path=path)


def client_context(
    *,
    authority: PemSource | None,
    certificate: PemSource | None,
    key: PemSource | None,
    skip_verify: bool,
) -> ssl.SSLContext:
    """Without an authority, those of the system are trusted; without a key, the certificate's file holds it.
    Reads files for some milliseconds. Raises KubeError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        try:
            if authority.content is not None:
                context.load_verify_locations(cadata=authority.content.decode("ascii"))
            else:
                context.load_verify_locations(cafile=authority.path)
        except (ssl.SSLError, OSError, ValueError) as error:
            text = f"CA {authority.name} cannot be used: {why(error)}"
            raise KubeError(Reason.TLS, text) from None
    if certificate is not None:
        try:
            with _as_file(certificate) as certificate_path, _as_file(key or certificate) as key_path:
                # Without a password function OpenSSL would ask at the terminal for that of an encrypted key.
                context.load_cert_chain(certificate_path, key_path, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            text = f"client certificate {certificate.name} cannot be used: {why(error)}"
            raise KubeError(Reason.TLS, text) from None
    return context


@contextmanager
def _as_file(source: PemSource) -> Iterator[str]:
    """A path for OpenSSL, which reads keys from files only. What is in memory stays there: the file is on no
    disk and has no name in any folder."""
    if source.path is not None:
        yield source.path
        return
    descriptor = os.memfd_create("accelscope-pem", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        view = memoryview(source.content or b"")
        while view:
            view = view[os.write(descriptor, view) :]
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def tls_error(error: OSError, endpoint: Endpoint) -> KubeError | None:
    """What went wrong, where it is TLS that did. An end of the connection is none of its business."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"{endpoint.url}: the server's certificate is not trusted: {error.verify_message}"
        if endpoint.ca_file is not None:
            text += f" (CA file {endpoint.ca_file})"
        return KubeError(Reason.TLS, text)
    return KubeError(Reason.TLS, f"{endpoint.url}: {why(error)}")


def why(error: Exception) -> str:
    """OpenSSL's reason without its error codes and source lines."""
    if isinstance(error, ssl.SSLError):
        if error.reason == "WRONG_VERSION_NUMBER":
            return "wrong version number: what answers is not https; is it http://?"
        return (error.reason or "not in PEM form").replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
