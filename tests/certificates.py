"""Throw-away certificates, made by openssl: a CA, a server's for 127.0.0.1 and a client's.

They say what they are for: from 3.13 on, Python's own contexts insist on it.
"""

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
    new_certificate(ca, ca_key, "AccelScope test CA")
    made = Certificates(
        ca, folder / "server.pem", folder / "server.key", folder / "client.pem", folder / "client.key"
    )
    signed = ("-CA", str(ca), "-CAkey", str(ca_key), "-addext")
    new_certificate(made.server, made.server_key, "agent", *signed, "subjectAltName=IP:127.0.0.1")
    new_certificate(made.client, made.client_key, "prometheus", *signed, "extendedKeyUsage=clientAuth")
    return made


def new_certificate(certificate: Path, key: Path, subject: str, *options: str, days: int = 1) -> None:
    """Signed by itself and an authority, unless the options (of `openssl req`) name another."""
    use = "digitalSignature" if "-CA" in options else "digitalSignature,keyCertSign,cRLSign"
    authority = "FALSE" if "-CA" in options else "TRUE"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-nodes", "-days", str(days), "-subj", f"/CN={subject}"]
    command += ["-addext", f"basicConstraints=critical,CA:{authority}", "-addext", f"keyUsage=critical,{use}"]
    command += ["-keyout", str(key), "-out", str(certificate), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
