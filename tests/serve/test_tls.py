"""HTTPS: certificates that change, clients that must show theirs, probes that need not."""

import logging
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.certificates import new_certificate
from tests.files import put
from tests.waiting import wait_until

from accelscope.serve import Limits, Response, ServeError, Server, Tls, TokenFile

if TYPE_CHECKING:
    from tests.serve.conftest import Client

    Serve = Callable[..., Server]
    Connect = Callable[..., Client]

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")

BIG = b"0123456789abcdef" * (1 << 18)  # 4 MiB


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.certificate, self._key = self._make(name, [])

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key for a server on this machine, or for a client."""
        signing = ["-CA", str(self.certificate), "-CAkey", str(self._key)]
        return self._make(name, [*signing, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])

    def _make(self, name: str, options: list[str]) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        new_certificate(certificate, key, name, *options, days=2)
        return certificate, key


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture
def tls(authority: Authority, tmp_path: Path) -> Tls:
    certificate, key = authority.issue("server")
    return Tls(str(shutil.copy(certificate, tmp_path)), str(shutil.copy(key, tmp_path)))


def trusting(authority: Authority, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if own is not None:
        context.load_cert_chain(*own)
    return context


def secure(client: "Client", context: ssl.SSLContext) -> "Client":
    client.sock = context.wrap_socket(client.sock, server_hostname="localhost")
    return client


def subject(client: "Client") -> str:
    assert isinstance(client.sock, ssl.SSLSocket)
    certificate = client.sock.getpeercert()
    assert certificate is not None
    return str(dict(pair for part in certificate["subject"] for pair in part)["commonName"])  # type: ignore[misc]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_pages_over_tls(
    serve: "Serve", connect: "Connect", tls: Tls, authority: Authority, version: ssl.TLSVersion
) -> None:
    server = serve({"/": lambda _: Response({"identity": BIG})}, tls=tls)
    context = trusting(authority)
    context.minimum_version = context.maximum_version = version
    client = secure(connect(server), context)
    for _ in range(3):
        assert client.get("/").body == BIG
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 5)
    for _ in range(5):
        assert client.answer().body == BIG
    assert client.get("/", "Connection: close").body == BIG
    assert client.is_closed()


def test_many_small_requests_in_one_record(
    serve: "Serve", connect: "Connect", tls: Tls, authority: Authority
) -> None:
    """More than one read takes: what OpenSSL has taken in already, the selector does not report."""
    client = secure(connect(serve(tls=tls)), trusting(authority))
    client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
    for _ in range(2000):
        assert client.answer().status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_tls_is_refused(
    serve: "Serve", connect: "Connect", tls: Tls, authority: Authority, version: ssl.TLSVersion
) -> None:
    server = serve(tls=tls)
    context = trusting(authority)
    with pytest.warns(DeprecationWarning, match="TLSVersion"):
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secure(connect(server), context)


@pytest.mark.parametrize(
    ("shown", "path", "status"),
    [
        ("none", "/metrics", 403),
        ("none", "/healthz", 200),
        ("good", "/metrics", 200),
        ("good", "/healthz", 200),
    ],
)
def test_guarded_routes_need_a_client_certificate(
    serve: "Serve", connect: "Connect", tls: Tls, authority: Authority, shown: str, path: str, status: int
) -> None:
    server = serve(tls=Tls(tls.certificate, tls.key, str(authority.certificate)))
    own = authority.issue("client") if shown == "good" else None
    client = secure(connect(server), trusting(authority, own))
    answer = client.get(path)
    assert answer.status == status
    if status == 403:
        assert answer.body == b"client certificate required\n"


def test_a_certificate_of_somebody_else_is_no_certificate(
    serve: "Serve", connect: "Connect", tls: Tls, authority: Authority, stranger: Authority
) -> None:
    server = serve(tls=Tls(tls.certificate, tls.key, str(authority.certificate)))
    with pytest.raises((ssl.SSLError, ConnectionError)):  # noqa: PT012 - TLS 1.3 tells at the first read
        client = secure(connect(server), trusting(authority, stranger.issue("client")))
        client.get("/healthz")
    assert secure(connect(server), trusting(authority)).get("/healthz").status == 200


def test_certificate_and_token_together(
    serve: "Serve", connect: "Connect", tls: Tls, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret")
    server = serve(
        tls=Tls(tls.certificate, tls.key, str(authority.certificate)), auth=TokenFile(tmp_path / "token")
    )
    token = "Authorization: Bearer secret"
    without = secure(connect(server), trusting(authority))
    certified = secure(connect(server), trusting(authority, authority.issue("client")))
    assert without.get("/metrics", token).status == 403
    assert certified.get("/metrics").status == 401
    assert certified.get("/metrics", token).status == 200


@pytest.mark.usefixtures("quick_refresh")
def test_certificates_change_while_running(
    serve: "Serve",
    connect: "Connect",
    tls: Tls,
    authority: Authority,
    stranger: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    server = serve(tls=tls)
    context = trusting(authority)

    def common_name() -> str:
        return subject(secure(connect(server), context))

    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    open_before = secure(connect(server), context)
    assert open_before.get().status == 200
    assert common_name() == "server"

    # The key comes first: for a moment the two do not belong together, and nobody notices.
    certificate, key = authority.issue("renewed")
    put(Path(tls.key), key.read_text(), 0o600)
    wait_until(lambda: len(said()) == 1)
    assert said()[0].endswith(f"certificate {tls.certificate} and key {tls.key} do not belong together")
    assert common_name() == "server"
    put(Path(tls.certificate), certificate.read_text())
    wait_until(lambda: common_name() == "renewed")
    wait_until(lambda: said()[1:] == ["certificate reloaded"])

    answer = open_before.get()
    assert (answer.status, answer.headers["connection"]) == (200, "close")

    put(Path(tls.certificate), "garbage")
    wait_until(lambda: len(said()) == 3)
    time.sleep(0.2)
    assert common_name() == "renewed"
    assert len(said()) == 3, "a bad file is reported once"


@pytest.mark.usefixtures("quick_refresh")
def test_the_client_authority_changes_while_running(
    serve: "Serve", connect: "Connect", tls: Tls, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    client_ca = tmp_path / "client-ca.crt"
    shutil.copy(stranger.certificate, client_ca)
    server = serve(tls=Tls(tls.certificate, tls.key, str(client_ca)))
    own = authority.issue("client")

    def accepted() -> bool:
        try:
            return secure(connect(server), trusting(authority, own)).get().status == 200
        except (ssl.SSLError, ConnectionError):
            return False

    assert not accepted()
    put(client_ca, authority.certificate.read_text())
    wait_until(accepted)


@pytest.mark.parametrize("words", [b"", b"\x16\x03\x01", b"\x16" + b"\xff" * 600, b"\0" * 100, b"\x80\x2e"])
def test_garbage_instead_of_a_handshake_costs_nothing(
    serve: "Serve", connect: "Connect", tls: Tls, authority: Authority, words: bytes
) -> None:
    server = serve(tls=tls, limits=Limits(head_seconds=0.3))
    garbage = connect(server).send(words)
    wait_until(lambda: _answers(server, connect, authority))  # a busy machine may miss 0.3 s at first
    _drain(garbage.sock)


def _drain(sock: socket.socket) -> None:
    """To the end, past the alert that OpenSSL may send."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionError:
        pass


def test_plain_http_is_told_so(serve: "Serve", connect: "Connect", tls: Tls) -> None:
    client = connect(serve(tls=tls))
    answer = client.get()
    assert (answer.status, answer.body) == (400, b"this port requires https://\n")
    assert client.is_closed()


def test_beyond_the_limit_tls_clients_are_dropped(
    serve: "Serve", connect: "Connect", tls: Tls, authority: Authority
) -> None:
    server = serve(tls=tls, limits=Limits(connections=1, slow_seconds=60, head_seconds=60))
    held = connect(server).send(b"\x16")
    assert connect(server).is_closed()
    held.sock.close()
    wait_until(lambda: _answers(server, connect, authority))


def _answers(server: Server, connect: "Connect", authority: Authority) -> bool:
    try:
        return secure(connect(server), trusting(authority)).get().status == 200
    except OSError:
        return False


def _encrypt(tls: Tls) -> None:
    key = Path(tls.key)
    plain = key.rename(key.with_suffix(".plain"))
    command = ["openssl", "pkey", "-aes256", "-passout", "pass:secret", "-in", str(plain), "-out", str(key)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _put_a_pipe_there(tls: Tls) -> None:
    Path(tls.key).unlink()
    os.mkfifo(tls.key)


FAULTS: dict[str, Callable[[Tls, Authority], object]] = {
    "{key}: No such file or directory": lambda tls, _: Path(tls.key).unlink(),
    "{key}: not a regular file": lambda tls, _: _put_a_pipe_there(tls),
    "{certificate}: contains no certificate in PEM format": lambda tls, _: Path(tls.certificate).write_text(
        "x"
    ),
    "{key}: contains no private key in PEM format": lambda tls, _: Path(tls.key).write_text(""),
    "{key}: the key is encrypted; use a key without a password": lambda tls, _: _encrypt(tls),
    "certificate {certificate} and key {key} do not belong together": lambda tls, authority: shutil.copy(
        authority.issue("other")[1], tls.key
    ),
    "certificate {certificate} and key {key} cannot be used: ": lambda tls, _: Path(
        tls.certificate
    ).write_text("-----BEGIN CERTIFICATE-----\nx"),
}


@pytest.mark.parametrize("message", FAULTS)
def test_files_that_cannot_be_used_are_an_error_at_the_start(
    tls: Tls, authority: Authority, message: str
) -> None:
    FAULTS[message](tls, authority)
    with pytest.raises(ServeError) as raised:
        Server({}, tls=tls)
    assert str(raised.value).startswith(message.format(certificate=tls.certificate, key=tls.key))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("garbage", "{path}: contains no certificate in PEM format"),
        ("-----BEGIN CERTIFICATE-----\nx", "client CA {path} cannot be used: "),
    ],
)
def test_a_client_ca_that_cannot_be_used_is_an_error_at_the_start(
    tls: Tls, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "ca"
    path.write_text(content)
    with pytest.raises(ServeError) as raised:
        Server({}, tls=Tls(tls.certificate, tls.key, str(path)))
    assert str(raised.value).startswith(message.format(path=path))
