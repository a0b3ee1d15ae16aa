"""The blocking client against real sockets and real TLS."""

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.certificates import Certificates, make_certificates
from tests.kube.kube_server import Asked, KubeServer, Peer, hang, raw, refuse
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.kube.client import Client, Response
from accelscope.kube.endpoint import TEXT_LIMIT, Endpoint, KubeError, Reason

Serve = Callable[..., KubeServer]

SECRET = "eyJ-this-is-the-token"


def reply(body: bytes = b"{}", *headers: str) -> Callable[[Peer, Asked], None]:
    return lambda peer, asked: peer.answer(200, body, *headers)


def get(client: Client, path: str = "/x", *, limit_bytes: int = 1 << 20) -> Response:
    return client.request("GET", path, limit_bytes=limit_bytes)


def failure(act: Callable[[], object]) -> KubeError:
    with pytest.raises(KubeError) as caught:
        act()
    error = caught.value
    assert (error.text.isprintable(), len(error.text) <= TEXT_LIMIT) == (True, True)
    assert SECRET not in repr(error) + str(error) + error.text
    return error


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(SECRET)
    return file


class TestRequests:
    def test_what_is_sent(self, serve: Serve, token_file: Path) -> None:
        server = serve(reply(b'{"a": 1}', "X-Y: z"), reply())
        client = Client(Endpoint(f"{server.url}/base/", str(token_file)), user_agent="me/1")
        answer = get(client, "/api?x=%20")
        assert (answer.status, json.loads(answer.body), answer.headers["x-y"]) == (200, {"a": 1}, "z")
        client.request("PATCH", "/n", body=b"[]", content_type="application/merge-patch+json")
        first, second = server.asked
        assert (first.method, first.target) == ("GET", "/base/api?x=%20")
        assert first.headers == {
            "host": f"127.0.0.1:{server.port}",
            "user-agent": "me/1",
            "accept": "application/json",
            "accept-encoding": "identity",
            "authorization": f"Bearer {SECRET}",
        }
        assert (second.method, second.body) == ("PATCH", b"[]")
        assert second.headers["content-type"] == "application/merge-patch+json"
        client.close()

    def test_a_connection_is_kept_and_replaced_once_it_is_closed(self, serve: Serve) -> None:
        def last(peer: Peer, _: Asked) -> None:
            peer.answer(200, b"3")
            peer.cut()

        server = serve(reply(b"1"), reply(b"2"), last, reply(b"4", "Connection: close"), reply(b"5"))
        client = Client(Endpoint(server.url))
        bodies = [get(client).body for _ in range(5)]
        client.close()
        assert (bodies, server.connections) == ([b"1", b"2", b"3", b"4", b"5"], 3)

    @pytest.mark.parametrize(("method", "again"), [("GET", True), ("PATCH", True), ("POST", False)])
    def test_a_kept_connection_that_dies_under_the_request(
        self, serve: Serve, method: str, again: bool
    ) -> None:
        server = serve(reply(), raw(b""), reply(b"again"))
        client = Client(Endpoint(server.url))
        get(client)
        if again:
            assert client.request(method, "/x").body == b"again"
        else:
            assert failure(lambda: client.request(method, "/x")).reason is Reason.UNREACHABLE
        assert len(server.asked) == (3 if again else 2)
        client.close()

    def test_304_is_a_response_only_where_an_etag_was_sent(self, serve: Serve) -> None:
        not_modified = raw(b"HTTP/1.1 304 Not Modified\r\n\r\n")
        server = serve(not_modified, not_modified)
        client = Client(Endpoint(server.url))
        answer = client.request("GET", "/x", etag='"7"')
        assert (answer.status, answer.body) == (304, b"")
        assert server.asked[0].headers["if-none-match"] == '"7"'
        assert failure(lambda: get(client)).status == 304
        client.close()

    def test_a_stream_may_take_any_status(self, serve: Serve) -> None:
        server = serve(refuse(401, "who are you", "X-Y: z"))
        with Client(Endpoint(server.url)).stream("/x", idle_seconds=20, any_status=True) as stream:
            assert (stream.head.status, stream.head.headers["x-y"]) == (401, "z")
            assert b"who are you" in b"".join(stream)

    def test_a_new_connection_that_dies_is_an_error(self, serve: Serve) -> None:
        server = serve(raw(b""), reply())
        assert failure(lambda: get(Client(Endpoint(server.url)))).reason is Reason.UNREACHABLE
        assert len(server.asked) == 1

    def test_several_threads_at_once(self, serve: Serve) -> None:
        def echo(peer: Peer, asked: Asked) -> None:
            peer.answer(200, asked.path.encode())

        server = serve(*[echo] * 80)
        client = Client(Endpoint(server.url))
        wrong: list[str] = []

        def ask(name: str) -> None:
            for number in range(20):
                path = f"/{name}/{number}"
                if get(client, path).body != path.encode():
                    wrong.append(path)

        threads = [threading.Thread(target=ask, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        client.close()
        assert (wrong, len(server.asked)) == ([], 80)

    def test_a_rotated_token_is_used_for_the_next_request(self, serve: Serve, token_file: Path) -> None:
        server = serve(reply(), reply())
        client = Client(Endpoint(server.url, str(token_file)))
        before = client.token_generation()
        get(client)
        token_file.write_text("another")
        assert client.token_generation() != before
        get(client)
        client.close()
        assert [asked.headers["authorization"] for asked in server.asked] == [
            f"Bearer {SECRET}",
            "Bearer another",
        ]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, Reason.UNAUTHORIZED),
        (403, Reason.FORBIDDEN),
        (404, Reason.NOT_FOUND),
        (409, Reason.CONFLICT),
        (410, Reason.GONE),
        (429, Reason.THROTTLED),
        (500, Reason.SERVER_ERROR),
        (503, Reason.SERVER_ERROR),
        (400, Reason.BAD_ANSWER),
        (302, Reason.BAD_ANSWER),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_statuses(serve: Serve, token_file: Path, status: int, reason: Reason, streamed: bool) -> None:
    message = f"no,\nnot {SECRET} " + "x" * 400
    server = serve(refuse(status, message, "Retry-After: 7"))
    client = Client(Endpoint(server.url, str(token_file)))

    def ask() -> None:
        if streamed:
            with client.stream("/x", idle_seconds=PATIENCE_SECONDS):
                pass
        else:
            get(client)

    error = failure(ask)
    assert (error.reason, error.retry_after) == (reason, 7.0)
    assert f"{status} no, not [token] xxx" in error.text


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('nodes "a" is forbidden: ValidatingAdmissionPolicy denied request: not yours', Reason.FORBIDDEN),
        ('Node "a" is invalid: metadata.annotations: Too long', Reason.BAD_ANSWER),
    ],
)
def test_an_admission_policy_forbids_with_the_status_of_what_is_invalid(
    serve: Serve, message: str, reason: Reason
) -> None:
    server = serve(refuse(422, message))
    error = failure(lambda: get(Client(Endpoint(server.url))))
    assert (error.reason, error.status) == (reason, 422)
    assert message in error.text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"Unauthorized\n", "401 Unauthorized"),
        (b"", "HTTP status 401"),
        (b"<html><body>proxy</body></html>", "HTTP status 401"),
        (b'{"message": 7}', "HTTP status 401"),
        (b'{"broken', '401 {"broken'),
        (b"\xff\xfe", "401"),
    ],
)
def test_refusals_that_are_no_status_object(serve: Serve, body: bytes, text: str) -> None:
    server = serve(lambda peer, _: peer.answer(401, body, "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"))
    error = failure(lambda: get(Client(Endpoint(server.url))))
    assert (error.reason, error.retry_after) == (Reason.UNAUTHORIZED, None)
    assert text in error.text


def test_the_text_of_a_refusal_may_never_come(serve: Serve) -> None:
    def cut_off(peer: Peer, _: Asked) -> None:
        peer.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\nYou may")
        peer.cut()

    server = serve(cut_off, raw(b"HTTP/1.1 403 No\r\n\r\n" + b"x" * 1_000_000))
    assert failure(lambda: get(Client(Endpoint(server.url)))).reason is Reason.FORBIDDEN
    assert failure(lambda: get(Client(Endpoint(server.url)))).reason is Reason.FORBIDDEN


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", Reason.BAD_ANSWER),
        (b"\x15\x03\x01\x00\x02\x02\x46\n", Reason.BAD_ANSWER),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", Reason.BAD_ANSWER),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Reason.BAD_ANSWER),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, Reason.BAD_ANSWER),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", Reason.UNREACHABLE),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Reason.UNREACHABLE),
        (b"HTTP/1.1 2", Reason.UNREACHABLE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, Reason.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, Reason.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", Reason.TOO_LARGE),
    ],
)
def test_answers_that_are_wrong(serve: Serve, content: bytes, reason: Reason) -> None:
    server = serve(raw(content))
    assert failure(lambda: get(Client(Endpoint(server.url)), limit_bytes=1000)).reason is reason


class TestReach:
    def test_nobody_there(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        error = failure(lambda: get(Client(Endpoint(f"http://127.0.0.1:{port}"))))
        assert (error.reason, "refused" in error.text) == (Reason.UNREACHABLE, True)

    def test_no_such_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(*_: object, **__: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        error = failure(lambda: get(Client(Endpoint("https://kube.invalid"))))
        assert (error.reason, "Name or service not known" in error.text) == (Reason.UNREACHABLE, True)

    def test_a_host_with_several_addresses_is_tried_through(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = serve(reply(b"here"))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            dead = listener.getsockname()[1]
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        addresses = [(*kind, ("127.0.0.1", dead)), (*kind, ("127.0.0.1", server.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
        client = Client(Endpoint("http://localhost:1"))
        assert get(client).body == b"here"
        client.close()

    @pytest.mark.parametrize(
        "slow",
        [
            hang,
            raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", cut=False),
        ],
    )
    def test_who_does_not_answer_in_time(self, serve: Serve, slow: object) -> None:
        server = serve(slow)
        error = failure(lambda: get(Client(Endpoint(server.url), timeout_seconds=0.3)))
        assert error.reason is Reason.TIMEOUT

    def test_who_drips(self, serve: Serve) -> None:
        """The time is for the whole answer, not for each byte."""

        def drip(peer: Peer, _: Asked) -> None:
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while True:
                peer.send(b"x")
                time.sleep(0.01)

        server = serve(drip)
        error = failure(lambda: get(Client(Endpoint(server.url), timeout_seconds=0.5)))
        assert error.reason is Reason.TIMEOUT


class TestStreams:
    def test_pieces_come_as_they_arrive(self, serve: Serve) -> None:
        taken = threading.Event()

        def two(peer: Peer, _: Asked) -> None:
            peer.begin_chunked()
            peer.chunk(b"one")
            assert taken.wait(PATIENCE_SECONDS)
            peer.chunk(b"two")
            peer.end_chunked()

        server = serve(two)
        with Client(Endpoint(server.url)).stream("/x", idle_seconds=PATIENCE_SECONDS) as stream:
            pieces = iter(stream)
            assert next(pieces) == b"one"
            taken.set()
            assert list(pieces) == [b"two"]

    def test_silence(self, serve: Serve) -> None:
        def half(peer: Peer, _: Asked) -> None:
            peer.begin_chunked()
            peer.chunk(b"one")
            peer.hang()

        server = serve(half)
        with Client(Endpoint(server.url)).stream("/x", idle_seconds=PATIENCE_SECONDS) as stream:
            pieces = iter(stream)
            assert next(pieces) == b"one"
            stream._idle_seconds = 0.2
            assert failure(lambda: next(pieces)).reason is Reason.TIMEOUT

    def test_a_stream_that_should_have_been_over(self, serve: Serve) -> None:
        def endless(peer: Peer, _: Asked) -> None:
            peer.begin_chunked()
            while True:
                peer.chunk(b"more")
                time.sleep(0.01)

        server = serve(endless)
        stream = Client(Endpoint(server.url)).stream("/x", idle_seconds=PATIENCE_SECONDS, total_seconds=0.3)
        with stream:
            assert failure(lambda: list(stream)).reason is Reason.TIMEOUT

    @pytest.mark.parametrize("content", [b"", b"7\r\nhal"])
    def test_a_disconnect_is_not_an_end(self, serve: Serve, content: bytes) -> None:
        def cut(peer: Peer, _: Asked) -> None:
            peer.begin_chunked()
            peer.chunk(b"one")
            peer.send(content)
            peer.cut()

        server = serve(cut)
        with Client(Endpoint(server.url)).stream("/x", idle_seconds=PATIENCE_SECONDS) as stream:
            assert failure(lambda: list(stream)).reason is Reason.UNREACHABLE


@dataclass(frozen=True)
class Tls:
    folder: Path
    good: Certificates

    @property
    def server(self) -> tuple[str, str]:
        return str(self.good.server), str(self.good.server_key)

    def issue(self, name: str, subject: str, *, days: int = 1) -> tuple[str, str]:
        """A certificate of the same authority with other alternative names, or one that is over."""
        files = {part: str(self.folder / f"{name}.{part}") for part in ("crt", "key", "csr", "ext")}
        Path(files["ext"]).write_text(f"subjectAltName={subject}\n")
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"]
        ask = ["openssl", "req", "-new", *kind, "-keyout", files["key"], "-out", files["csr"]]
        authority = ["-CA", str(self.good.ca), "-CAkey", str(self.good.ca.with_name("ca.key"))]
        sign = ["openssl", "x509", "-req", "-in", files["csr"], *authority, "-CAcreateserial"]
        sign += ["-days", str(days), "-extfile", files["ext"], "-out", files["crt"]]
        for command in (ask, sign):
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_SECONDS)
        return files["crt"], files["key"]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("certificates")
    return Tls(folder, make_certificates(folder))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
class TestTls:
    def test_a_server_that_is_trusted_by_its_address(self, serve: Serve, tls: Tls, token_file: Path) -> None:
        server = serve(reply(b"1"), reply(b"2"), certificate=tls.server)
        client = Client(Endpoint(server.url, str(token_file), str(tls.good.ca)))
        assert [get(client).body, get(client).body] == [b"1", b"2"]
        assert server.connections == 1
        client.close()

    def test_a_server_that_goes_by_another_name(self, serve: Serve, tls: Tls) -> None:
        certificate = tls.issue("named", "DNS:node-1")
        server = serve(reply(), certificate=certificate)
        error = failure(lambda: get(Client(Endpoint(server.url, ca_file=str(tls.good.ca)))))
        assert (error.reason, "127.0.0.1" in error.text) == (Reason.TLS, True)
        client = Client(Endpoint(server.url, ca_file=str(tls.good.ca), server_name="node-1"))
        assert get(client).status == 200
        client.close()

    def test_no_token_reaches_a_server_that_is_not_trusted(
        self, serve: Serve, tls: Tls, token_file: Path, tmp_path: Path
    ) -> None:
        stranger = make_certificates(tmp_path)
        server = serve(reply(), certificate=tls.server)
        for ca_file in (str(stranger.ca), None):
            client = Client(Endpoint(server.url, str(token_file), ca_file))
            error = failure(partial(get, client))
            assert (error.reason, "not trusted" in error.text) == (Reason.TLS, True)
            stream = client.stream("/", idle_seconds=PATIENCE_SECONDS)
            assert failure(stream.__enter__).reason is Reason.TLS
        assert server.asked == []

    def test_a_certificate_that_is_over(self, serve: Serve, tls: Tls) -> None:
        server = serve(reply(), certificate=tls.issue("over", "IP:127.0.0.1", days=-1))
        error = failure(lambda: get(Client(Endpoint(server.url, ca_file=str(tls.good.ca)))))
        assert (error.reason, "expired" in error.text) == (Reason.TLS, True)

    def test_verification_can_be_turned_off(self, serve: Serve, tls: Tls) -> None:
        server = serve(reply(), certificate=tls.issue("over2", "DNS:other", days=-1))
        client = Client(Endpoint(server.url, skip_tls_verify=True))
        assert get(client).status == 200
        client.close()

    def test_a_new_authority_is_taken_up(self, serve: Serve, tls: Tls, tmp_path: Path) -> None:
        stranger = make_certificates(tmp_path)
        trusted = tmp_path / "trusted.pem"
        trusted.write_bytes(stranger.ca.read_bytes())
        server = serve(reply(), reply(), certificate=tls.server)
        client = Client(Endpoint(server.url, ca_file=str(trusted)))
        assert failure(lambda: get(client)).reason is Reason.TLS
        trusted.write_bytes(tls.good.ca.read_bytes())
        assert get(client).status == 200
        # And one that is withdrawn is not kept alive by the connection that rests.
        trusted.write_bytes(stranger.ca.read_bytes())
        assert failure(lambda: get(client)).reason is Reason.TLS

    def test_a_client_certificate(self, serve: Serve, tls: Tls) -> None:
        ca = str(tls.good.ca)
        server = serve(reply(), certificate=tls.server, client_ca=ca)
        assert failure(lambda: get(Client(Endpoint(server.url, ca_file=ca)))).reason in (
            Reason.TLS,
            Reason.UNREACHABLE,  # the server's alert may come after its end of the connection
        )
        mine = str(tls.good.client), str(tls.good.client_key)
        client = Client(Endpoint(server.url, None, ca, *mine))
        assert get(client).status == 200
        client.close()

    @pytest.mark.parametrize("content", [None, b"", b"no certificate"])
    def test_files_that_cannot_be_used(self, tls: Tls, tmp_path: Path, content: bytes | None) -> None:
        bad = tmp_path / "bad.pem"
        if content is not None:
            bad.write_bytes(content)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"https://127.0.0.1:{listener.getsockname()[1]}"
            for endpoint in (
                Endpoint(url, ca_file=str(bad)),
                Endpoint(url, ca_file=str(tls.good.ca), client_certificate=str(bad)),
            ):
                error = failure(partial(get, Client(endpoint)))
                assert (error.reason, str(bad) in error.text) == (Reason.TLS, True)

    def test_a_server_without_tls(self) -> None:
        def speak_plainly() -> None:
            with listener.accept()[0] as accepted:
                accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                accepted.recv(1 << 16)

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=speak_plainly, daemon=True)
            thread.start()
            url = f"https://127.0.0.1:{listener.getsockname()[1]}"
            error = failure(lambda: get(Client(Endpoint(url, skip_tls_verify=True))))
            thread.join(PATIENCE_SECONDS)
        assert error.reason is Reason.TLS
        assert error.text == f"{url}: wrong version number: the server does not use TLS; use http://?"

    def test_a_handshake_that_hangs(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"https://127.0.0.1:{listener.getsockname()[1]}"
            client = Client(Endpoint(url, skip_tls_verify=True), timeout_seconds=0.3)
            assert failure(lambda: get(client)).reason is Reason.TIMEOUT


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("where", ["before", "handshake", "head", "body"])
def test_another_thread_ends_a_wait_at_once(serve: Serve, tls: Tls, where: str, secure: bool) -> None:
    def begin(peer: Peer, _: Asked) -> None:
        peer.begin_chunked()
        peer.chunk(b"one")
        peer.hang()

    server = serve(hang if where == "head" else begin, certificate=tls.server if secure else None)
    silent = socket.create_server(("127.0.0.1", 0))
    url = server.url
    if where == "handshake":
        url = f"http{'s' if secure else ''}://127.0.0.1:{silent.getsockname()[1]}"
    client = Client(Endpoint(url, ca_file=str(tls.good.ca)), timeout_seconds=2 * PATIENCE_SECONDS)
    stream = client.stream("/x", idle_seconds=2 * PATIENCE_SECONDS)
    pieces: list[bytes] = []
    outcome: list[str] = []

    def read() -> None:
        try:
            with stream:
                pieces.extend(iter(stream))
        except KubeError as error:
            outcome.append(str(error.reason))
        else:
            outcome.append("ended")

    thread = threading.Thread(target=read, daemon=True)
    if where == "before":
        stream.close()
    thread.start()
    if where == "head":
        wait_until(lambda: server.asked)
    elif where == "body":
        wait_until(lambda: pieces)
    elif where == "handshake":
        with silent.accept()[0] as accepted:
            assert accepted.recv(1)  # it has begun to speak, and waits
            stream.close()
            thread.join(PATIENCE_SECONDS)
    stream.close()
    thread.join(PATIENCE_SECONDS)
    silent.close()
    assert not thread.is_alive()
    assert outcome == ["ended" if where == "body" else "unreachable"]
