"""TLS towards a server: whom we trust, who we are, from files that others rotate.

Imported only where an endpoint is https: `ssl` takes some 5 MiB.
"""

import socket
import ssl

from accelscope.filewatch import FileWatch
from accelscope.kube.endpoint import Endpoint, wire_name
from accelscope.kube.errors import KubeError, Reason


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
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if endpoint.skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif endpoint.ca_file is not None:
            try:
                context.load_verify_locations(cafile=endpoint.ca_file)
            except (ssl.SSLError, OSError) as error:
                text = f"CA file {endpoint.ca_file} cannot be used: {why(error)}"
                raise KubeError(Reason.TLS, text) from None
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        if endpoint.client_certificate is not None:
            try:
                # Without a password function OpenSSL would ask at the terminal for that of an encrypted key.
                context.load_cert_chain(
                    endpoint.client_certificate, endpoint.client_key, password=lambda: b""
                )
            except (ssl.SSLError, OSError, ValueError) as error:
                text = f"client certificate {endpoint.client_certificate} cannot be used: {why(error)}"
                raise KubeError(Reason.TLS, text) from None
        return context


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
