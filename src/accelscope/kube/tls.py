"""TLS of the clients: trusted authorities and client certificates, from files that others rotate.

Import this module only for https endpoints: `ssl` takes 4 MiB of resident memory.
"""

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from accelscope.files import FileWatch
from accelscope.kube.endpoint import Endpoint, KubeError, PemSource, Reason, host_argument


class ClientTls:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        files = (endpoint.ca_file, endpoint.client_certificate, endpoint.client_key)
        self._watches = [FileWatch(path) for path in files if path is not None]
        self._context: ssl.SSLContext | None = None

    def refresh(self) -> bool:
        """Whether the files have changed. Connections made with the old ones should be closed."""
        changed = [watch.changed() for watch in self._watches]  # a list, because any() would skip some
        if any(changed):
            self._context = None
        return any(changed)

    def wrap(self, sock: socket.socket) -> ssl.SSLSocket:
        """Take over the socket, without the handshake. Raises KubeError, OSError."""
        context = self._context  # another thread may reset it meanwhile
        if context is None:
            context = self._context = self._load()
        name = self._endpoint.server_name or self._endpoint.host
        return context.wrap_socket(sock, server_hostname=host_argument(name), do_handshake_on_connect=False)

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
    """Without an authority, the system's authorities are trusted. Without a key, the certificate's file must
    contain it. Reads files, which takes some milliseconds. Raises KubeError."""
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
            text = f"CA {authority.name} cannot be used: {tls_error_text(error)}"
            raise KubeError(Reason.TLS, text) from None
    if certificate is not None:
        try:
            with _as_file(certificate) as certificate_path, _as_file(key or certificate) as key_path:
                # Without a password function OpenSSL would prompt for the password of an encrypted key.
                context.load_cert_chain(certificate_path, key_path, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            text = f"client certificate {certificate.name} cannot be used: {tls_error_text(error)}"
            raise KubeError(Reason.TLS, text) from None
    return context


@contextmanager
def _as_file(source: PemSource) -> Iterator[str]:
    """A path for OpenSSL, which reads keys only from files. A key in memory is never written to disk: it is
    passed as an anonymous file in memory."""
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
    """The error for a failure of TLS; None for other failures, such as a closed connection."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"{endpoint.url}: the server's certificate is not trusted: {error.verify_message}"
        if endpoint.ca_file is not None:
            text += f" (CA file {endpoint.ca_file})"
        return KubeError(Reason.TLS, text)
    return KubeError(Reason.TLS, f"{endpoint.url}: {tls_error_text(error)}")


def tls_error_text(error: Exception) -> str:
    """OpenSSL's reason without its error codes and source lines."""
    if isinstance(error, ssl.SSLError):
        if error.reason == "WRONG_VERSION_NUMBER":
            return "wrong version number: the server does not use TLS; use http://?"
        return (error.reason or "not in PEM format").replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
