"""The certificate that the fleet shows, taken up anew when its files change."""

import logging
import ssl

from accelscope.config import ConfigError
from accelscope.config.log import fields
from accelscope.filewatch import FileWatch
from accelscope.fleet.api_server.trust import why

log = logging.getLogger(__name__)


class OwnCertificate:
    """Raises ConfigError if the files cannot be used at the start; later the old certificate stays until good
    files are there. Connections that are open keep the one they began with."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate = certificate
        self._key = key
        self._watches = [FileWatch(certificate), FileWatch(key)]
        self.context = self._made()

    def look(self) -> None:
        changed = [watch.changed() for watch in self._watches]  # each must be asked, hence no lazy any()
        if not any(changed):
            return
        try:
            self._made()  # a pair that does not fit would spoil the context that is in use
            self._load(self.context)
        except ConfigError as error:
            log.warning("the certificate files cannot be used, the old certificate stays: %s", error)
        else:
            log.info("certificate re-read", extra=fields(path=self._certificate))

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            # Without a password function OpenSSL would ask at the terminal for that of an encrypted key.
            context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigError(
                f"certificate {self._certificate} and key {self._key} cannot be used: {why(error)}"
            ) from None
