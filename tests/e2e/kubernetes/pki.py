"""One authority, the certificates and tokens that the cluster's programs show each other, and their
kubeconfigs. Made anew for every run; nothing of it is worth anything outside of the node's own network."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.e2e.kubernetes.commands import run

_DAYS = "2"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Certificate:
    certificate: Path
    key: Path


class Authority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._own = Certificate(folder / "ca.crt", folder / "ca.key")
        self._sign(self._own, "/CN=accelscope-e2e", "basicConstraints=critical,CA:TRUE")

    @property
    def ca_file(self) -> Path:
        return self._own.certificate

    def issue(
        self, name: str, subject: str, addresses: tuple[str, ...] = (), names: tuple[str, ...] = ()
    ) -> Certificate:
        """For a server at these addresses and names, or a client that the subject describes."""
        issued = Certificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        extensions = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=serverAuth,clientAuth"]
        alternatives = [f"IP:{address}" for address in addresses] + [f"DNS:{each}" for each in names]
        if alternatives:
            extensions.append(f"subjectAltName={','.join(alternatives)}")
        by = ("-CA", str(self._own.certificate), "-CAkey", str(self._own.key))
        self._sign(issued, subject, *extensions, by=by)
        return issued

    def key_pair(self, name: str) -> tuple[Path, Path]:
        """A private key and its public one: what service account tokens are signed and verified with."""
        private, public = self._folder / f"{name}.key", self._folder / f"{name}.pub"
        generate = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        run([*generate, "-out", private])
        run(["openssl", "pkey", "-in", private, "-pubout", "-out", public])
        return private, public

    @staticmethod
    def _sign(wanted: Certificate, subject: str, *extensions: str, by: tuple[str, ...] = ()) -> None:
        command = ["openssl", "req", "-x509", *_KEY, "-days", _DAYS, "-subj", subject, *by]
        for extension in extensions:
            command += ["-addext", extension]
        run([*command, "-keyout", wanted.key, "-out", wanted.certificate])


def write_tokens(path: Path, users: tuple[User, ...]) -> dict[str, str]:
    """The API server's token file: user name -> token."""
    tokens = {user.name: secrets.token_hex(16) for user in users}
    lines = [f'{tokens[user.name]},{user.name},{user.name},"{",".join(user.groups)}"' for user in users]
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o600)
    return tokens


def write_kubeconfig(path: Path, server: str, ca_file: Path, token: str) -> Path:
    return write_kubeconfig_of(path, server, ca_file, {"token": token})


def write_kubeconfig_of(path: Path, server: str, ca_file: Path, user: Mapping[str, object]) -> Path:
    """`user`: as a kubeconfig describes one."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "e2e", "user": dict(user)}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        "current-context": "e2e",
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path
