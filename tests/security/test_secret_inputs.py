"""A secret in a place where it can be given, in a form that is refused: the error does not repeat it.

What stands on a command line is in /proc/PID/cmdline for everybody on the machine, whatever a program does:
so no flag takes a secret itself, and a URL that holds one is refused.
"""

import base64
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.fleet.loop import run
from tests.programs import script

from accelscope.agent.settings import AgentSettings
from accelscope.config import ConfigError, load
from accelscope.fleet import kubeconfig as kubeconfigs
from accelscope.fleet.api.access import read_tokens
from accelscope.fleet.api_server.connection import run_plugin
from accelscope.fleet.clusters import KubeconfigAccess, load_clusters
from accelscope.fleet.kubeconfig import CredentialPlugin, resolve
from accelscope.kube.endpoint import EndpointError, KubeError
from accelscope.top.sources.source import Credentials, endpoint_of

MARK = "hunter2MARKED"
SHORT = "pw7X"  # too short to be recognised by its looks

# A password in a URL, with the characters that tempt people not to escape them.
URLS = [
    f"https://admin:{MARK}@api.test:6443",
    f"https://admin:{MARK}@api.test:port",
    f"https://admin:{MARK}@api.test:99999",
    f"https://admin:{MARK}/x@api.test",
    f"https://admin:{MARK}?x@api.test",
    f"https://admin:{MARK}#x@api.test",
    f"https://admin:1{MARK} x@api.test",
    f"https://admin:{MARK}é@api.test",
    f"https://admin:{MARK}\u2100@api.test",
    f"https://admin:[{MARK}@api.test",
    f"https://admin:{MARK}@",
    f"http://admin:{MARK}@api.test",
    f"ftp://admin:{MARK}@api.test",
    f"admin:{MARK}@api.test",
    f"//admin:{MARK}@api.test",
    f"https://{MARK}@api.test",
    f"https://api.test/?token={MARK}",
    f"https://api.test/#{MARK}",
]


def told(call: Callable[[], object]) -> str:
    """What an error says, with the trace that a log of it would have. The call must fail."""
    try:
        call()
    except (ConfigError, EndpointError, KubeError) as error:
        return "".join(traceback.format_exception(error))
    raise AssertionError("it was taken")


@pytest.mark.parametrize("url", URLS)
def test_url_of_a_server(url: str, tmp_path: Path) -> None:
    settings, clusters = tmp_path / "agent.yaml", tmp_path / "clusters.yaml"
    settings.write_text(yaml.safe_dump({"kubeApiUrl": url}))
    said = [
        told(lambda: load(AgentSettings, {"kube_api_url": url}, {})),
        told(lambda: load(AgentSettings, {}, {"KUBELET_URL": url})),
        told(lambda: load(AgentSettings, {}, {}, str(settings))),
        told(lambda: endpoint_of(url, Credentials())),
        told(lambda: endpoint_of(url, Credentials(token_file="token"))),
    ]
    server = {"id": "a", "server": {"url": url}}
    store = {"id": "a", "sources": {"prometheus": {"url": url}}}
    proxy = {"id": "a", "server": {"url": "https://api.test", "proxyUrl": url}}
    for entry in (server, store, *([proxy] if "@" in url else [])):
        clusters.write_text(yaml.safe_dump({"clusters": [entry]}))
        said.append(told(lambda: load_clusters(str(clusters), {})))
    said.append(told(lambda: resolve(KubeconfigAccess(paths=(kubeconfig(tmp_path, {}, server=url),)))))
    assert MARK not in "".join(said)


@pytest.mark.parametrize("character", ["\t", "\n", "\x7f", "\x00"])
def test_control_character_in_a_url(character: str) -> None:
    url = f"https://admin:{MARK}{character}@api.test"
    assert MARK not in told(lambda: load(AgentSettings, {"kube_api_url": url}, {}))
    assert MARK not in told(lambda: endpoint_of(url, Credentials()))


@pytest.mark.parametrize(
    "words",
    [
        ("agent",),
        ("doctor", "--json"),
        ("capture",),
        ("device-plugin", "--vendor", "none"),
        ("top", "--once", f"http://admin:{MARK}/x@node.test:9400"),
        ("top", "--once", "--fleet", f"http://admin:{MARK}@[fleet.test"),
    ],
    ids=lambda words: words[0],
)
def test_commands_say_what_is_wrong_and_not_with_what(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "accelscope", *words],
        env={**os.environ, "KUBE_API_URL": f"https://admin:{MARK}/x@api.test"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"accelscope {words[0]}: " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert MARK not in done.stdout + done.stderr


def kubeconfig(folder: Path, user: dict[str, object], server: str = "https://api.test") -> str:
    path = folder / "config"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


# Every one is no YAML, or none that a kubeconfig may be; the secret is at the spot that the error is about.
BROKEN = [
    f"users: [{{name: me, user: {{password: *{MARK}}}}}]",
    f"users: [{{name: me, user: {{password: !{MARK}!x y}}}}]",
    f"users: [{{name: me, user: {{password: &{MARK} &{MARK} x}}}}]",
    f'users: [{{name: me, user: {{password: "{MARK}}}}}]',
    f'users: [{{name: me, user: {{password: "\\{MARK}"}}}}]',
    f"users: [{{name: me, user: {{password: @{MARK}}}}}]",
    f"users: [{{name: me, user: {{password: %{MARK}}}}}]",
    f"%{MARK} x\n---\nusers: []",
    f"users:\n- name: me\n  user:\n    token: {MARK}: {MARK}",
    f"users:\n\t- token: {MARK}",
    f"users: {MARK}",
    f"{MARK}",
    f"users: [{MARK}]",
    f"users: [{{name: me, user: [{MARK}]}}]",
    f"users: [{{name: [{MARK}], user: {{}}}}]",
    f'{{"users": [{{"name": "me", "user": {{"token": "{MARK}}}}}]}}',
    f"users: [{{name: me, user: {{token: {MARK}\x07}}}}]",
]


@pytest.mark.parametrize("loader", [kubeconfigs._LOADER, yaml.BaseLoader], ids=["usual", "without libyaml"])
@pytest.mark.parametrize("text", BROKEN)
def test_kubeconfig_that_cannot_be_read(
    text: str, loader: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfigs, "_LOADER", loader)
    path = tmp_path / "config"
    path.write_text(text)
    said = told(lambda: resolve(KubeconfigAccess(paths=(str(path),), context="here")))
    assert MARK not in said
    assert str(path) in said


USERS: list[dict[str, object]] = [
    {"token": MARK, "username": MARK},
    {"token": [MARK]},
    {"client-key-data": MARK},
    {"client-key-data": base64.b64encode(MARK.encode()).decode()},
    {"client-certificate-data": f"{MARK}="},
    {"client-key": {"path": MARK}},
    {"exec": MARK},
    {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "env": [MARK]}},
    {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "env": {"A": MARK}}},
    {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "args": [{"a": MARK}]}},
    {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "env": [{"name": "A", "value": MARK}]}},
    {"auth-provider": {"config": {"access-token": MARK}}},
    {"as-user-extra": {"secret": [MARK]}},
]


@pytest.mark.parametrize("user", USERS, ids=json.dumps)
def test_user_of_a_kubeconfig_that_is_none(user: dict[str, object], tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, user)
    assert MARK not in told(lambda: resolve(KubeconfigAccess(paths=(path,))))


def test_what_is_resolved_does_not_show_its_secrets(tmp_path: Path) -> None:
    """Whoever puts it into a log line by accident."""
    plugin = {"command": "x", "args": [MARK], "env": [{"name": "A", "value": MARK}]}
    user: dict[str, object] = {
        "token": MARK,
        "password": MARK,
        "client-certificate-data": base64.b64encode(MARK.encode()).decode(),
        "client-key-data": base64.b64encode(MARK.encode()).decode(),
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", **plugin},
    }
    server, identity = resolve(KubeconfigAccess(paths=(kubeconfig(tmp_path, user),)))
    assert identity.token == identity.password == MARK
    assert MARK not in f"{server} {identity}"


@pytest.mark.parametrize(
    "text",
    [
        f"tokens: [{{name: grafana, sha256: {MARK}}}]",
        f"tokens: [{{name: grafana, token: {MARK}}}]",
        f"tokens: [{MARK}]",
        f"tokens: {MARK}",
        MARK,
        f"tokens: [{{name: grafana, sha256: *{MARK}}}]",
        f"tokens: [{{name: grafana, sha256: !{MARK}!x y}}]",
        f"tokens: [{{name: grafana, sha256: &{MARK} &{MARK} y}}]",
    ],
)
@pytest.mark.parametrize("libyaml", [yaml.__with_libyaml__, False])
def test_tokens_file_that_holds_the_token_itself(
    text: str, libyaml: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml, "__with_libyaml__", libyaml)
    path = tmp_path / "tokens.yaml"
    path.write_text(text)
    assert MARK not in told(lambda: read_tokens(str(path)))


@pytest.mark.parametrize("value", [MARK, SHORT])
@pytest.mark.parametrize("name", ["OIDC_CLIENT_SECRET", "DB_PASSWORD", "ApiKey", "VAULT_TOKEN"])
def test_credential_plugin_that_complains_with_its_secret(name: str, value: str, tmp_path: Path) -> None:
    """Of the variables that a kubeconfig gives it, what is called a secret is one, however short."""
    plugin = CredentialPlugin(
        name="user",
        api_version="client.authentication.k8s.io/v1",
        command=str(script(tmp_path / "plugin", f'echo "refused: ${name}" >&2; exit 1')),
        environment=((name, value), ("REGION", "eu-1")),
    )
    said = told(lambda: run(run_plugin(plugin, {"PATH": "/usr/bin:/bin"})))
    assert value not in said
    assert "refused: [masked]" in said
