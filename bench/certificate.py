"""A throw-away certificate for 127.0.0.1."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SelfSigned:
    file: Path
    key: Path
    trust: ssl.SSLContext


def self_signed(folder: Path) -> SelfSigned:
    certificate, key = folder / "tls.pem", folder / "tls.key"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-days", "1", "-subj", "/CN=agent", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-addext", "keyUsage=critical,digitalSignature,keyCertSign"]  # which Python 3.13 insists on
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return SelfSigned(certificate, key, ssl.create_default_context(cafile=str(certificate)))
