"""Requests over real sockets: what is sent, accepted and rejected."""

import asyncio
import base64
import gzip
import ssl
from pathlib import Path

import pytest
from aiohttp import web
from tests.certificates import Certificates, make_certificates
from tests.fleet.api_server.served import Handler, Served, served, session_at, status
from tests.fleet.loop import run
from tests.waiting import PATIENCE_SECONDS

from accelscope import __version__
from accelscope.fleet.api_server import pod_proxy_path
from accelscope.fleet.clusters import AddressAccess, KubeconfigAccess
from accelscope.kube.endpoint import KubeError, Reason

LIMIT = 1 << 20
SECRET = "top-secret-of-the-test"


async def answer_ok(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=b"{}")


async def test_a_request_has_a_user_agent_and_accepts_gzip() -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"hello", headers={"ETag": '"7"'})

    async with served(handler) as server, session_at(server.url + "/base/") as session:
        reply = await session.get("/api?a=%2F", headers={"X-A": "b"}, limit_bytes=LIMIT)
        assert (reply.status, reply.body, reply.gzip) == (200, b"hello", None)
        assert reply.headers["etag"] == '"7"'
        (requests,) = server.requests
        assert requests.raw_path == "/base/api?a=%2F"
        assert requests.headers["User-Agent"] == f"accelscope-fleet/{__version__}"
        assert requests.headers["Accept-Encoding"] == "gzip"
        assert requests.headers["X-A"] == "b"
        assert "Authorization" not in requests.headers


async def test_a_compressed_response_is_returned_in_both_forms() -> None:
    packed = gzip.compress(b"a" * 300_000)

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    async with served(handler) as server, session_at(server.url) as session:
        reply = await session.get("/", limit_bytes=LIMIT)
        assert reply.body == b"a" * 300_000
        assert reply.gzip == packed


async def test_not_modified_is_not_an_error() -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=304, headers={"Content-Encoding": "gzip"})

    async with served(handler) as server, session_at(server.url) as session:
        reply = await session.get("/", headers={"If-None-Match": '"7"'}, limit_bytes=LIMIT)
        assert (reply.status, reply.body) == (304, b"")


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        ({}, "application/json"),  # API servers accept only this type
        ({"content-type": "application/x-www-form-urlencoded"}, "application/x-www-form-urlencoded"),
    ],
)
async def test_a_body_is_posted(headers: dict[str, str], sent: str) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=await request.read() + request.headers["Content-Type"].encode())

    async with served(handler) as server, session_at(server.url) as session:
        reply = await session.post("/", b"{}", headers=headers, limit_bytes=LIMIT)
        assert reply.body == b"{}" + sent.encode()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (401, Reason.UNAUTHORIZED),
        (403, Reason.FORBIDDEN),
        (404, Reason.NOT_FOUND),
        (410, Reason.GONE),
        (429, Reason.THROTTLED),
        (503, Reason.SERVER_ERROR),
        (302, Reason.BAD_ANSWER),
    ],
)
def test_the_error_contains_the_reason(code: int, reason: Reason) -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        answer = status(code, "because of that")
        answer.headers["Retry-After"] = "7"
        answer.headers["Location"] = "/elsewhere"
        return answer

    async def go() -> KubeError:
        async with served(handler) as server, session_at(server.url) as session:
            with pytest.raises(KubeError) as raised:
                await session.get("/", limit_bytes=LIMIT)
            assert len(server.requests) == 1, "redirects are not followed"
            return raised.value

    error = run(go())
    assert (error.reason, error.status, error.retry_after) == (reason, code, 7)
    assert "because of that" in error.text


def test_a_token_is_sent_and_never_logged(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET)

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return status(
            403, f"no: {request.headers['Authorization'].partition(' ')[2]} {request.headers['X-A']}"
        )

    async def go() -> KubeError:
        async with served(handler) as server:
            access = AddressAccess(url=server.url, token_file=str(token))
            async with session_at(access) as session:
                headers = {"X-A": "agents-own", "X-AccelScope-Token": "agents-own"}
                with pytest.raises(KubeError) as raised:
                    await session.get("/", headers=headers, limit_bytes=LIMIT)
                assert server.requests[0].headers["Authorization"] == f"Bearer {SECRET}"
                return raised.value

    error = run(go())
    assert SECRET not in error.text
    assert "agents-own" not in error.text


def test_a_rotated_token_is_used_after_401(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    good = "old"

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers["Authorization"] != f"Bearer {good}":
            return status(401, "Unauthorized")
        return web.Response(body=b"in")

    async def go() -> None:
        nonlocal good
        async with (
            served(handler) as server,
            session_at(AddressAccess(url=server.url, token_file=str(token))) as session,
        ):
            assert (await session.get("/", limit_bytes=LIMIT)).body == b"in"
            good = "new"
            with pytest.raises(KubeError, match="401"):
                await session.get("/", limit_bytes=LIMIT)
            assert len(server.requests) == 2, "the same token is not shown twice"
            token.write_text("new")
            assert (await session.get("/", limit_bytes=LIMIT)).body == b"in"

    run(go())


async def test_the_error_names_a_missing_token_file(tmp_path: Path) -> None:
    access = AddressAccess(url="https://127.0.0.1:1", token_file=str(tmp_path / "gone"))
    async with session_at(access) as session:
        with pytest.raises(KubeError, match=r"cannot read token file .*gone") as raised:
            await session.get("/", limit_bytes=LIMIT)
        assert raised.value.reason is Reason.UNAUTHORIZED


async def test_a_changed_kubeconfig_is_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelscope.fleet.api_server.connection._CHECK_FILES_SECONDS", 0.0)
    path = tmp_path / "config"

    def write(url: str, token: str) -> None:
        path.write_text(
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
            f"users: [{{name: u, user: {{token: {token}, as: ada, as-groups: [a, b]}}}}]\n"
        )

    async with served(answer_ok) as first, served(answer_ok) as second:
        write(first.url, "one")
        async with session_at(KubeconfigAccess(paths=(str(path),))) as session:
            await session.get("/", limit_bytes=LIMIT)
            write(second.url, "two")
            await session.get("/", limit_bytes=LIMIT)
            path.write_text("- broken")
            with pytest.raises(KubeError, match="not a mapping"):
                await session.get("/", limit_bytes=LIMIT)
        assert first.requests[0].headers["Authorization"] == "Bearer one"
        assert second.requests[0].headers["Authorization"] == "Bearer two"
        assert second.requests[0].headers.getall("Impersonate-Group") == ["a", "b"]


async def test_a_username_is_sent_as_basic_authorization(tmp_path: Path) -> None:
    path = tmp_path / "config"
    async with served(answer_ok) as server:
        path.write_text(
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{server.url}', disable-compression: true}}}}]\n"
            "users: [{name: u, user: {username: ada, password: lovelace}}]\n"
        )
        async with session_at(KubeconfigAccess(paths=(str(path),))) as session:
            await session.get("/", limit_bytes=LIMIT)
        assert server.requests[0].headers["Authorization"] == "Basic YWRhOmxvdmVsYWNl"
        assert server.requests[0].headers["Accept-Encoding"] == "identity"


async def test_other_servers_are_reached_with_the_same_credentials(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("for-agents")
    async with served(answer_ok) as agent:
        access = AddressAccess(url="https://agents.invalid", token_file=str(token))
        async with session_at(access) as session:
            await session.get("/snapshot", at=agent.url, limit_bytes=LIMIT)
        assert agent.requests[0].path == "/snapshot"
        assert agent.requests[0].headers["Authorization"] == "Bearer for-agents"


# Hostile responses.


BOMB = gzip.compress(bytes(32 << 20))


async def gzip_bomb(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip"})


async def endless(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(bytes(64 << 10))


async def announced(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=bytes(2 << 20))


async def not_gzip(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=b"plain", headers={"Content-Encoding": "gzip"})


async def cut_gzip(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=gzip.compress(b"a" * 1000)[:-9], headers={"Content-Encoding": "gzip"})


async def brotli(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=b"x", headers={"Content-Encoding": "br"})


async def silent(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def trickle(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x")
        await asyncio.sleep(0.05)


async def cut_off(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"x")
    assert request.transport is not None
    request.transport.close()
    return response


async def garbage(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(b"\x00\xff garbage \r\n\r\n" * 3)
    request.transport.close()
    await asyncio.sleep(1)
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (gzip_bomb, Reason.TOO_LARGE),
        (endless, Reason.TOO_LARGE),
        (announced, Reason.TOO_LARGE),
        (not_gzip, Reason.BAD_ANSWER),
        (cut_gzip, Reason.BAD_ANSWER),
        (brotli, Reason.BAD_ANSWER),
        (silent, Reason.TIMEOUT),
        (trickle, Reason.TIMEOUT),
        (cut_off, Reason.UNREACHABLE),
        (garbage, Reason.BAD_ANSWER),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_hostile_response_is_limited_in_time_and_size(handler: Handler, reason: Reason) -> None:
    seconds = 0.5 if reason is Reason.TIMEOUT else 15.0

    async def go() -> KubeError:
        async with served(handler) as server, session_at(server.url, timeout_seconds=seconds) as session:
            with pytest.raises(KubeError) as raised:
                await session.get("/", limit_bytes=LIMIT)
            return raised.value

    error = run(go())
    assert error.reason is reason
    assert "http://127.0.0.1" in error.text


def test_a_refused_connection_is_reported() -> None:
    async def go() -> Served:
        async with served(answer_ok) as server:
            pass
        async with session_at(server.url) as session:
            with pytest.raises(KubeError, match="cannot connect: Connect") as raised:
                await session.get("/", limit_bytes=LIMIT)
            assert raised.value.reason is Reason.UNREACHABLE
        async with session_at("https://nobody.invalid") as session:
            with pytest.raises(KubeError) as raised:
                await session.get("/", limit_bytes=LIMIT)
            assert raised.value.reason is Reason.UNREACHABLE
        return server

    run(go())


async def test_waiting_for_a_connection_does_not_count_against_the_timeout() -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(2)
        return web.Response()

    async with (
        served(handler) as server,
        session_at(server.url, connections=1, timeout_seconds=PATIENCE_SECONDS) as session,
    ):
        await asyncio.gather(*(session.get("/", limit_bytes=LIMIT, timeout_seconds=6) for _ in range(4)))


async def test_a_closed_session_rejects_requests() -> None:
    async with session_at("https://127.0.0.1:1") as session:
        await session.close()
        with pytest.raises(KubeError, match="closed"):
            await session.get("/", limit_bytes=LIMIT)


def test_paths_of_the_pod_proxy() -> None:
    assert pod_proxy_path("a", "b", 9400, "/snapshot") == "/api/v1/namespaces/a/pods/b:9400/proxy/snapshot"
    assert pod_proxy_path("a", "b", 1, "x?y", "https") == "/api/v1/namespaces/a/pods/https:b:1/proxy/x?y"


# TLS.


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def serving(certificates: Certificates, *, ask_clients: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    if ask_clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates.ca)
    return context


async def test_a_certificate_must_be_signed_by_the_ca(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def levels() -> list[str]:
        return [r.levelname for r in caplog.records if r.name == "accelscope.fleet.api_server.connection"]

    async with served(answer_ok, serving(certificates)) as server:
        url = server.url
        async with session_at(AddressAccess(url=url, ca_file=str(certificates.ca))) as session:
            assert (await session.get("/", limit_bytes=LIMIT)).body == b"{}"
        assert levels() == []
        async with session_at(AddressAccess(url=url, insecure_skip_tls_verify=True)) as session:
            for _ in range(2):
                assert (await session.get("/", limit_bytes=LIMIT)).body == b"{}"
        assert levels() == ["WARNING"]
        assert "TLS verification is disabled" in caplog.text
        for access, expected in (
            (AddressAccess(url=url), "CA: system"),
            (AddressAccess(url=url, ca_file=str(certificates.client)), str(certificates.client)),
            (AddressAccess(url=url, ca_file=str(certificates.ca), tls_server_name="other"), "mismatch"),
            (AddressAccess(url=url, ca_file=str(tmp_path / "gone")), "No such file"),
            (AddressAccess(url=url, ca_file=str(certificates.server_key)), "cannot be used"),
        ):
            async with session_at(access) as session:
                with pytest.raises(KubeError) as raised:
                    await session.get("/", limit_bytes=LIMIT)
                assert raised.value.reason is Reason.TLS
                assert expected in raised.value.text


async def test_a_client_certificate_in_a_kubeconfig_is_not_written_to_disk(
    certificates: Certificates, tmp_path: Path
) -> None:
    path = tmp_path / "config"

    def data(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        return web.Response(text=str(subject))

    async with served(handler, serving(certificates, ask_clients=True)) as server:
        path.write_text(
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{server.url}',"
            f" certificate-authority-data: {data(certificates.ca)}}}}}]\n"
            f"users: [{{name: u, user: {{client-certificate-data: {data(certificates.client)},"
            f" client-key-data: {data(certificates.client_key)}}}}}]\n"
        )
        async with session_at(KubeconfigAccess(paths=(str(path),))) as session:
            assert b"prometheus" in (await session.get("/", limit_bytes=LIMIT)).body
        path.write_text(path.read_text().replace(data(certificates.client_key), data(certificates.ca)))
        async with session_at(KubeconfigAccess(paths=(str(path),))) as session:
            with pytest.raises(KubeError, match="client certificate client-certificate-data of") as raised:
                await session.get("/", limit_bytes=LIMIT)
            assert raised.value.reason is Reason.TLS
        without = AddressAccess(url=server.url, ca_file=str(certificates.ca))
        async with session_at(without) as session:
            with pytest.raises(KubeError):
                await session.get("/", limit_bytes=LIMIT)


async def test_a_client_certificate_can_be_in_files(certificates: Certificates, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(certificates.client.read_bytes() + certificates.client_key.read_bytes())
    async with served(answer_ok, serving(certificates, ask_clients=True)) as server:
        for certificate, key in (
            (str(certificates.client), str(certificates.client_key)),
            (str(both), None),
        ):
            access = AddressAccess(
                url=server.url,
                ca_file=str(certificates.ca),
                client_certificate_file=certificate,
                client_key_file=key,
            )
            async with session_at(access) as session:
                assert (await session.get("/", limit_bytes=LIMIT)).status == 200


async def test_a_server_without_tls_is_reported() -> None:
    async with (
        served(answer_ok) as server,
        session_at(server.url.replace("http:", "https:")) as session,
    ):
        with pytest.raises(KubeError) as raised:
            await session.get("/", limit_bytes=LIMIT)
        assert raised.value.reason is Reason.TLS


async def test_a_rotated_ca_is_used_without_a_restart(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelscope.fleet.api_server.connection._CHECK_FILES_SECONDS", 0.0)
    authority = tmp_path / "ca.pem"
    authority.write_bytes(certificates.client.read_bytes())
    async with (
        served(answer_ok, serving(certificates)) as server,
        session_at(AddressAccess(url=server.url, ca_file=str(authority))) as session,
    ):
        with pytest.raises(KubeError, match="not trusted"):
            await session.get("/", limit_bytes=LIMIT)
        authority.write_bytes(certificates.ca.read_bytes())
        await session.get("/", limit_bytes=LIMIT)


# Proxies.


class ConnectProxy:
    """Accepts CONNECT, and forwards bytes."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        host, _, port = head.split(b" ")[1].rpartition(b":")
        there, out = await asyncio.open_connection(host.decode(), int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            await asyncio.gather(_copy(reader, out), _copy(there, writer))
        finally:
            out.close()
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while content := await reader.read(65536):
            writer.write(content)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def test_a_proxy_gets_its_own_password(certificates: Certificates) -> None:
    proxy = ConnectProxy()
    listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with served(answer_ok, serving(certificates)) as server, listener:
        address = f"http://me:{SECRET}@127.0.0.1:{port}"
        access = AddressAccess(url=server.url, ca_file=str(certificates.ca), proxy_url=address)
        async with session_at(access) as session:
            assert (await session.get("/", limit_bytes=LIMIT)).body == b"{}"
    assert proxy.heads[0].startswith(f"CONNECT 127.0.0.1:{server.port}".encode())
    assert b"Proxy-Authorization: Basic" in proxy.heads[0]
    assert "Proxy-Authorization" not in server.requests[0].headers
    async with session_at(access) as session:
        with pytest.raises(KubeError, match=f"via proxy http://127.0.0.1:{port}") as raised:
            await session.get("/", limit_bytes=LIMIT)
        assert SECRET not in raised.value.text
