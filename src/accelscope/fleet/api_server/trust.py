"""TLS towards a server: whom we trust and who we are, from files that others rotate or from memory."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from accelscope.filewatch import FileWatch
from accelscope.fleet.clusters.server import Identity, Material, Server
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.tls import why


class Trust:
    """Makes contexts; the last one is kept until a file of it changes. A new context means new connections,
    so that those made with what was rotated away end by themselves."""

    def __init__(self, server: Server, identity: Identity) -> None:
        self._server = server
        self._identity = identity
        materials = (server.authority, identity.certificate, identity.key)
        paths = {
            material.path for material in materials if material is not None and material.path is not None
        }
        self._watches = [FileWatch(path) for path in sorted(paths)]
        self._kept: tuple[tuple[bytes, bytes] | None, ssl.SSLContext] | None = None
        self._generation = 0

    def look(self) -> None:
        """Notice files that are others than before."""
        changed = [watch.changed() for watch in self._watches]  # each must be asked, hence no lazy any()
        if any(changed):
            self._generation += 1
            self._kept = None

    def kept(self, given: tuple[bytes, bytes] | None) -> ssl.SSLContext | None:
        """The context for this certificate of a plugin (None: there is no such), if it is made already."""
        return self._kept[1] if self._kept is not None and self._kept[0] == given else None

    def make(self, given: tuple[bytes, bytes] | None) -> ssl.SSLContext:
        """Reads files for some milliseconds: not for an event loop. Raises KubeError."""
        server, generation = self._server, self._generation
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if server.skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif server.authority is not None:
            self._trust(context, server.authority)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        if given is not None:
            certificate = Material("certificate of the credential plugin", content=given[0])
            _show(context, certificate, Material("key of the credential plugin", content=given[1]))
        elif self._identity.certificate is not None:
            _show(context, self._identity.certificate, self._identity.key)
        if generation == self._generation:  # else it is of files that changed meanwhile
            self._kept = (given, context)
        return context

    @staticmethod
    def _trust(context: ssl.SSLContext, authority: Material) -> None:
        try:
            if authority.content is not None:
                context.load_verify_locations(cadata=authority.content.decode("ascii"))
            else:
                context.load_verify_locations(cafile=authority.path)
        except (ssl.SSLError, OSError, ValueError) as error:
            text = f"CA {authority.name} cannot be used: {why(error)}"
            raise KubeError(Reason.TLS, text) from None


def _show(context: ssl.SSLContext, certificate: Material, key: Material | None) -> None:
    try:
        with _as_file(certificate) as certificate_path, _as_file(key or certificate) as key_path:
            # Without a password function OpenSSL would ask at the terminal for that of an encrypted key.
            context.load_cert_chain(certificate_path, key_path, password=lambda: b"")
    except (ssl.SSLError, OSError, ValueError) as error:
        text = f"client certificate {certificate.name} cannot be used: {why(error)}"
        raise KubeError(Reason.TLS, text) from None


@contextmanager
def _as_file(material: Material) -> Iterator[str]:
    """A path for OpenSSL, which takes keys from files only. What is in memory stays there: the file is on no
    disk and has no name in any folder."""
    if material.path is not None:
        yield material.path
        return
    descriptor = os.memfd_create("accelscope-pem", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        view = memoryview(material.content or b"")
        while view:
            view = view[os.write(descriptor, view) :]
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
