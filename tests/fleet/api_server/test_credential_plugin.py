"""Credential plugins, as real child processes."""

import asyncio
import json
import shlex
import ssl
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web
from tests import programs
from tests.certificates import make_certificates
from tests.fleet.api_server.served import served, session_at, status
from tests.fleet.loop import run
from tests.processes import runs
from tests.waiting import PATIENCE_SECONDS, growing_patience, wait_until

from accelscope.fleet.api_server.connection import ConnectionResolver, PluginCredential, run_plugin
from accelscope.fleet.clusters import KubeconfigAccess
from accelscope.fleet.kubeconfig import CredentialPlugin, resolve
from accelscope.kube.endpoint import KubeError, Reason

VERSION = "client.authentication.k8s.io/v1"
SECRET = "eyJhbGciOiJub25lIn0.c2VjcmV0LXBheWxvYWQ.c2ln"


def script(folder: Path, text: str, name: str = "plugin") -> Path:
    return programs.script(folder / name, text)


def plugin(path: Path | str, **fields: object) -> CredentialPlugin:
    return CredentialPlugin(name="user", api_version=VERSION, command=str(path), **fields)  # type: ignore[arg-type]


def credential(**status_fields: object) -> str:
    document = {"kind": "ExecCredential", "apiVersion": VERSION, "status": status_fields}
    return f"printf '%s' {shlex.quote(json.dumps(document))}"


def read_credential(given: CredentialPlugin, timeout_seconds: float = 10.0) -> PluginCredential:
    return run(run_plugin(given, {"PATH": "/usr/bin:/bin"}, timeout_seconds=timeout_seconds))


def test_a_plugin_returns_a_token_and_its_expiry(tmp_path: Path) -> None:
    path = script(tmp_path, credential(token="t", expirationTimestamp="2026-01-02T03:04:05Z"))
    assert read_credential(plugin(path)) == PluginCredential(token="t", expires_at=1767323045.0)
    path = script(tmp_path, credential(clientCertificateData="CERT", clientKeyData="KEY"))
    assert read_credential(plugin(path)) == PluginCredential(certificate=b"CERT", key=b"KEY")


def test_a_plugin_gets_its_cluster_and_environment(tmp_path: Path) -> None:
    expected = tmp_path / "output"
    path = script(
        tmp_path,
        f'printf "%s\\n" "$KUBERNETES_EXEC_INFO" "$A" "$@" > {expected}\n'
        f"test -t 0 || echo no terminal >> {expected}\n" + credential(token="t"),
    )
    read_credential(
        plugin(path, arguments=("x y", "$(z)"), environment=(("A", "b"),), cluster='{"server": "https://a"}')
    )
    info, *others = expected.read_text().splitlines()
    assert json.loads(info) == {
        "kind": "ExecCredential",
        "apiVersion": VERSION,
        "spec": {"interactive": False, "cluster": {"server": "https://a"}},
    }
    assert others == ["b", "x y", "$(z)", "no terminal"]


BAD = {
    "echo no": "did not print JSON",
    "echo []": "did not print an ExecCredential",
    f'echo \'{{"kind":"ExecCredential","apiVersion":"{VERSION}beta1"}}\'': "another apiVersion",
    f'echo \'{{"kind":"ExecCredential","apiVersion":"{VERSION}"}}\'': "no status",
    credential(): "neither a token nor a certificate",
    credential(token=" "): "neither a token nor a certificate",
    credential(clientCertificateData="x"): "without the other",
    credential(token="a\nb"): "an invalid token",
    credential(token=7): "an invalid token",
    credential(token="t", expirationTimestamp="soon"): "an invalid expirationTimestamp",
    credential(token="t", expirationTimestamp="2026-01-02T03:04:05"): "without a time zone",
    "head -c 2000000 /dev/zero": "wrote more than",
    "exit 3": "exited with 3",
    "kill -9 $$": "exited with -9",
    f"echo one >&2; echo 'no session for {SECRET}' >&2; exit 1": "no session for [",
}


@pytest.mark.parametrize(("text", "problem"), BAD.items(), ids=range(len(BAD)))
def test_a_failing_plugin_is_reported_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(KubeError) as raised:
        read_credential(plugin(script(tmp_path, text)))
    assert raised.value.reason is Reason.UNAUTHORIZED
    assert problem in raised.value.text
    assert SECRET not in raised.value.text
    assert "one" not in raised.value.text.split(": ")[-1].split()


def test_secrets_of_the_environment_and_arguments_are_masked(tmp_path: Path) -> None:
    path = script(tmp_path, 'echo "bad: $A $1" >&2; exit 1')
    given = plugin(path, arguments=("--secret=open sesame now",), environment=(("A", "a long secret"),))
    with pytest.raises(KubeError) as raised:
        read_credential(given)
    assert "sesame" not in raised.value.text
    assert "a long secret" not in raised.value.text


def test_the_error_for_a_missing_plugin_contains_the_install_hint() -> None:
    with pytest.raises(KubeError, match="No such file or directory; install it with x"):
        read_credential(plugin("accelscope-no-such-plugin", install_hint="install it with x"))


def test_a_hanging_plugin_is_killed_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "pid"
    path = script(tmp_path, f"sleep 600 & echo $! > {child}; wait")
    for seconds in growing_patience(1.0, child):
        with pytest.raises(KubeError, match="did not exit within"):
            read_credential(plugin(path), timeout_seconds=seconds)
    wait_until(lambda: not runs(int(child.read_text())), "the plugin's child ended")


def test_a_child_that_keeps_running_does_not_block_the_plugin(tmp_path: Path) -> None:
    path = script(tmp_path, "sleep 600 &\n" + credential(token="t"))
    began = time.monotonic()
    assert read_credential(plugin(path)).token == "t"
    assert time.monotonic() - began < PATIENCE_SECONDS  # the child sleeps ten times as long


def kubeconfig(folder: Path, url: str, command: Path) -> KubeconfigAccess:
    path = folder / "config"
    path.write_text(
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
        f"users: [{{name: u, user: {{exec: {{apiVersion: {VERSION}, command: {command}}}}}}}]\n"
    )
    return KubeconfigAccess(paths=(str(path),))


def counting(folder: Path, text: str) -> Path:
    """A plugin that writes a line for each run, and returns the number of the run as the token."""
    runs = folder / "runs"
    return script(folder, f"echo x >> {runs}; N=$(wc -l < {runs})\n{text}")


def numbered(expires: str | None = None) -> str:
    return credential(token="token-NUMBER", expirationTimestamp=expires) + ' | sed "s/NUMBER/$N/"'


def runs_of(folder: Path) -> int:
    return (folder / "runs").read_text().count("x")


def test_concurrent_requests_run_a_plugin_once(tmp_path: Path) -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    async def go() -> None:
        async with served(handler) as server:
            access = kubeconfig(tmp_path, server.url, counting(tmp_path, numbered()))
            async with session_at(access, environ={"PATH": "/usr/bin:/bin"}) as session:
                await asyncio.gather(*(session.get("/", limit_bytes=9) for _ in range(20)))
            assert {request.headers["Authorization"] for request in server.requests} == {"Bearer token-1"}

    run(go())
    assert runs_of(tmp_path) == 1


def test_a_rejected_token_is_renewed_but_not_for_each_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = "token-1"

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers["Authorization"] == f"Bearer {good}":
            return web.Response()
        return status(401, "Unauthorized")

    async def go() -> None:
        nonlocal good
        async with served(handler) as server:
            access = kubeconfig(tmp_path, server.url, counting(tmp_path, numbered()))
            async with session_at(access, environ={"PATH": "/usr/bin:/bin"}) as session:
                await session.get("/", limit_bytes=9)
                good = "token-2"
                monkeypatch.setattr("accelscope.fleet.api_server.connection._PLUGIN_SECONDS", 0.0)
                await asyncio.gather(*(session.get("/", limit_bytes=9) for _ in range(10)))
                assert runs_of(tmp_path) == 2
                monkeypatch.setattr("accelscope.fleet.api_server.connection._PLUGIN_SECONDS", 600.0)
                good = "none"
                for _ in range(5):
                    with pytest.raises(KubeError, match="401"):
                        await session.get("/", limit_bytes=9)
                assert runs_of(tmp_path) == 2

    run(go())


def test_a_plugin_that_fails_is_not_run_for_each_request(tmp_path: Path) -> None:
    async def go() -> None:
        access = kubeconfig(tmp_path, "https://127.0.0.1:1", counting(tmp_path, "exit 7"))
        async with session_at(access, environ={"PATH": "/usr/bin:/bin"}) as session:
            for _ in range(5):
                with pytest.raises(KubeError, match="exited with 7"):
                    await session.get("/", limit_bytes=9)

    run(go())
    assert runs_of(tmp_path) == 1


async def test_a_token_is_renewed_before_it_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelscope.fleet.api_server.connection._CHECK_FILES_SECONDS", 0.0)

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    async with served(handler) as server:
        command = counting(tmp_path, numbered(expires="2020-01-01T00:00:00Z"))
        async with session_at(
            kubeconfig(tmp_path, server.url, command), environ={"PATH": "/usr/bin:/bin"}
        ) as session:
            await session.get("/", limit_bytes=9)
            await session.get("/", limit_bytes=9)
        assert [request.headers["Authorization"] for request in server.requests] == [
            "Bearer token-1",
            "Bearer token-2",
        ]


def test_plugins_run_without_a_shell() -> None:
    given = plugin(sys.executable, arguments=("-c", "import os; print(os.environ['SHELL_METACHARS'])"))
    with pytest.raises(KubeError, match="exited with 1: KeyError"):
        read_credential(given)


async def test_the_certificate_of_a_plugin_is_sent_to_the_server(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    context.load_verify_locations(certificates.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    given = credential(
        clientCertificateData=certificates.client.read_text(),
        clientKeyData=certificates.client_key.read_text(),
    )

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        return web.Response(text=str(request.transport.get_extra_info("peercert")["subject"]))

    async with served(handler, context) as server:
        access = kubeconfig(tmp_path, server.url, script(tmp_path, given))
        text = (tmp_path / "config").read_text()
        authority = f"{{server: '{server.url}', certificate-authority: {certificates.ca}}}"
        (tmp_path / "config").write_text(text.replace(f"{{server: '{server.url}'}}", authority))
        async with session_at(access, environ={"PATH": "/usr/bin:/bin"}) as session:
            assert b"prometheus" in (await session.get("/", limit_bytes=1000)).body
            assert "Authorization" not in server.requests[0].headers


async def test_a_watch_continues_with_renewed_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelscope.fleet.api_server.connection._PLUGIN_SECONDS", 0.0)

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers["Authorization"] != "Bearer token-2":
            return status(401, "Unauthorized")
        return web.Response(body=b"in")

    async with served(handler) as server:
        access = kubeconfig(tmp_path, server.url, counting(tmp_path, numbered()))
        async with (
            session_at(access, environ={"PATH": "/usr/bin:/bin"}) as session,
            session.stream("/") as pieces,
        ):
            assert [piece async for piece in pieces] == [b"in"]


def test_representations_contain_no_secrets(tmp_path: Path) -> None:
    """The representations of a session that could be logged: its objects and its errors."""
    secrets = ("s3cret-token", "s3cret-word", "s3cret-value", "s3cret-argument", "s3cret-of-proxy")
    path = tmp_path / "config"

    def write(user: str) -> KubeconfigAccess:
        path.write_text(
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
            "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', "
            f"proxy-url: 'http://me:{secrets[4]}@127.0.0.1:2'}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        )
        return KubeconfigAccess(paths=(str(path),))

    noisy = script(tmp_path, 'echo "$@ $A" >&2; exit 1')
    users = (
        f"{{token: {secrets[0]}}}",
        f"{{username: ada, password: {secrets[1]}}}",
        f"{{exec: {{apiVersion: {VERSION}, command: {noisy}, args: [--key={secrets[3]}],"
        f" env: [{{name: A, value: {secrets[2]}}}]}}}}",
    )

    async def go() -> str:
        shown = ""
        for user in users:
            access = write(user)
            shown += repr(resolve(access))
            routes = ConnectionResolver(access, {})
            with suppress(KubeError):
                shown += repr(await routes.current())
            async with session_at(access) as session:
                with pytest.raises(KubeError) as raised:
                    await session.get("/", limit_bytes=9)
                shown += "".join(traceback.format_exception(raised.value)) + repr(raised.value)
        return shown

    shown = run(go())
    assert "127.0.0.1:2" in shown
    for secret in secrets:
        assert secret not in shown
