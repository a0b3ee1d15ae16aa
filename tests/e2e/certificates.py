"""Throw-away certificates, made by openssl: a CA, a server's for 127.0.0.1 and a client's."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path

    def trust(self, *, with_client: bool = False) -> ssl.SSLContext:
        """For a client that trusts this CA and, if asked to, shows its own certificate."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if with_client:
            context.load_cert_chain(self.client, self.client_key)
        return context


def make_certificates(folder: Path) -> Certificates:
    ca, ca_key = folder / "ca.pem", folder / "ca.key"
    _new(ca, ca_key, "AccelScope test CA", "basicConstraints=critical,CA:TRUE")
    made = Certificates(
        ca, folder / "server.pem", folder / "server.key", folder / "client.pem", folder / "client.key"
    )
    signed_by = ("-CA", str(ca), "-CAkey", str(ca_key))
    _new(made.server, made.server_key, "agent", "subjectAltName=IP:127.0.0.1", *signed_by)
    _new(made.client, made.client_key, "prometheus", "extendedKeyUsage=clientAuth", *signed_by)
    return made


def _new(certificate: Path, key: Path, subject: str, extension: str, *more: str) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-nodes", "-days", "1", "-subj", f"/CN={subject}", "-addext", extension]
    command += ["-keyout", str(key), "-out", str(certificate), *more]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
