"""Kubeconfigs as kubectl reads them: users, clusters and errors."""

import base64
import json
from pathlib import Path

import pytest

from accelscope.config import ConfigError
from accelscope.fleet.clusters import AddressAccess, AgentsEntry, KubeconfigAccess, kubeconfig_paths
from accelscope.fleet.kubeconfig import Identity, ResolvedServer, default_clusters, read_kubeconfig, resolve

CA = base64.b64encode(b"a CA").decode()


def kubeconfig(folder: Path, *, cluster: str = "server: https://a:6443", user: str = "{}") -> str:
    path = folder / "config"
    path.write_text(
        f"""\
apiVersion: v1
kind: Config
current-context: here
preferences: {{}}
contexts:
- name: here
  context: {{cluster: c, user: u, namespace: default}}
clusters:
- name: c
  cluster: {{{cluster}}}
users:
- name: u
  user: {user if user.startswith("{") else "{" + user + "}"}
"""
    )
    return str(path)


def resolved(
    folder: Path, cluster: str = "server: https://a:6443", user: str = "{}"
) -> tuple[ResolvedServer, Identity]:
    path = kubeconfig(folder, cluster=cluster, user=user)
    return resolve(KubeconfigAccess(paths=(path,)))


def test_a_cluster_has_a_server_and_a_ca(tmp_path: Path) -> None:
    cluster = (
        "server: 'https://a:6443/k8s/', certificate-authority: ca.pem, tls-server-name: b, "
        "proxy-url: 'http://me:hunter2@proxy:3128', disable-compression: true"
    )
    server, identity = resolved(tmp_path, cluster)
    assert server.url == "https://a:6443/k8s"
    assert server.authority is not None
    assert server.authority.path == str(tmp_path / "ca.pem")
    assert server.tls_server_name == "b"
    assert server.proxy_url == "http://me:hunter2@proxy:3128"
    assert not server.compression
    assert not server.skip_tls_verify
    assert identity == Identity()
    assert "hunter2" not in repr(server)


def test_data_takes_precedence_over_files_and_is_not_shown(tmp_path: Path) -> None:
    user = f"client-certificate-data: {CA}, client-certificate: x, client-key-data: {CA}, token: s3cret-token"
    server, identity = resolved(
        tmp_path, f"server: https://a, certificate-authority-data: {CA}, certificate-authority: x", user
    )
    materials = (server.authority, identity.certificate, identity.key)
    for material in materials:
        assert material is not None
        assert material.content == b"a CA"
        assert material.path is None
    shown = repr((server, identity))
    assert "s3cret" not in shown
    assert "a CA" not in shown


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("server: 'localhost:8080'", "http://localhost:8080"),
        ("server: 'https://[::1]:6443'", "https://[::1]:6443"),
        ("server: 'a:6443', insecure-skip-tls-verify: true", "https://a:6443"),
        ("server: 'http://127.0.0.1:8001/'", "http://127.0.0.1:8001"),
    ],
)
def test_addresses_are_interpreted_as_by_kubectl(tmp_path: Path, server: str, url: str) -> None:
    assert resolved(tmp_path, server)[0].url == url


def test_a_user_has_a_token_a_password_or_a_certificate(tmp_path: Path) -> None:
    _, identity = resolved(tmp_path, user="tokenFile: token, token: '0123'")
    assert identity == Identity(token="0123", token_file=str(tmp_path / "token"))
    _, identity = resolved(tmp_path, user="username: ada, password: 'p:w'")
    assert identity == Identity(username="ada", password="p:w")


def test_impersonation_becomes_header_fields(tmp_path: Path) -> None:
    user = "token: t, as: ada, as-groups: [dev, ops], as-uid: '7', as-user-extra: {example.com/a b: [x, y]}"
    _, identity = resolved(tmp_path, user=user)
    assert identity.impersonation == (
        ("Impersonate-User", "ada"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-example.com%2Fa%20b", "x"),
        ("Impersonate-Extra-example.com%2Fa%20b", "y"),
    )


def test_all_keys_of_a_credential_plugin_are_read(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("a CA")
    user = (
        "exec: {apiVersion: client.authentication.k8s.io/v1, command: bin/login, args: [--region, x],"
        " env: [{name: A, value: b}], installHint: get it, provideClusterInfo: true,"
        " interactiveMode: IfAvailable}"
    )
    cluster = (
        "server: https://a, certificate-authority: ca.pem, "
        "extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: z}}]"
    )
    _, identity = resolved(tmp_path, cluster, user)
    plugin = identity.plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/login")
    assert plugin.arguments == ("--region", "x")
    assert plugin.environment == (("A", "b"),)
    assert plugin.install_hint == "get it"
    assert json.loads(plugin.cluster or "") == {
        "server": "https://a",
        "certificate-authority-data": CA,
        "config": {"audience": "z"},
    }


EXEC = "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws"


def test_a_plugin_without_a_folder_is_searched_in_path(tmp_path: Path) -> None:
    _, identity = resolved(tmp_path, user=EXEC + "}")
    assert identity.plugin is not None
    assert identity.plugin.command == "aws"
    assert identity.plugin.cluster is None


BAD_USERS = {
    "client-certificate: x": "client-certificate and client-key must be set together",
    "client-key-data: '***', client-certificate: x": "client-key-data: the value is not base64",
    "auth-provider: {name: gcp}": "auth-provider: removed in Kubernetes",
    "token: t, username: ada": "a token and a username exclude each other",
    "as-groups: [a]": "require as",
    "as: ada, as-groups: x": "as-groups: not a list",
    'as: "a\\nb"': "control characters",
    "exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}": "v1beta1 are supported",
    "exec: {command: x}": "apiVersion is none",
    "exec: {apiVersion: client.authentication.k8s.io/v1}": "has no command",
    EXEC + ", interactiveMode: Always}": "interactiveMode Always is not supported",
    EXEC + ", args: [[a]]}": "args[0]: the value is not text",
    EXEC + ", env: [{value: v}]}": "env[0]: name: missing",
    EXEC + ", provideClusterInfo: perhaps}": 'provideClusterInfo: "perhaps" is not true or false',
    "token: [a]": "token: the value is not text",
}


@pytest.mark.parametrize(("user", "problem"), BAD_USERS.items(), ids=range(len(BAD_USERS)))
def test_the_error_names_an_invalid_user(tmp_path: Path, user: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        resolved(tmp_path, user=user)
    assert problem in str(raised.value)
    assert str(raised.value).startswith(f'{tmp_path}/config: user "u": ')


BAD_CLUSTERS = {
    "{}": "has no server",
    "server: http://10.0.0.1": "http is allowed only for 127.0.0.1",
    "server: 'https://me:hunter2@a'": "must not contain a user or password",
    "server: https://a, insecure-skip-tls-verify: true, certificate-authority: x": "exclude each other",
    "server: https://a, proxy-url: 'socks5://me:hunter2@p:1'": "socks5 proxies are not supported",
    "server: https://a, proxy-url: 'me:hunter2'": "the URL of the proxy must be http",
    "server: https://a, certificate-authority-data: '%'": "-data: the value is not base64",
}


@pytest.mark.parametrize(("cluster", "problem"), BAD_CLUSTERS.items(), ids=range(len(BAD_CLUSTERS)))
def test_the_error_names_an_invalid_cluster(tmp_path: Path, cluster: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        resolved(tmp_path, cluster.strip("{}"))
    assert problem in str(raised.value)
    assert "hunter2" not in str(raised.value)


BAD_FILES = {
    "- a": "not a mapping of keys to values",
    "a: [": ":1: not valid YAML",
    "a: \x01": "config: not valid YAML: unacceptable character",
    '{"a":' * 20_000: "config: nested too deep",
    "contexts: 3": "contexts: not a list",
    "users: [{user: {}}]": "users[0]: name: missing",
    "contexts: [{name: a, context: {cluster: c}}]\ncurrent-context: a": 'cluster "c" not found',
    "contexts: [{name: a, context: {}}]\ncurrent-context: a": 'context "a": has no cluster',
    "contexts: [{name: a}]\ncurrent-context: b": 'context "b" not found; contexts: a',
    "contexts: []": "no current context",
}


@pytest.mark.parametrize(("text", "problem"), BAD_FILES.items(), ids=range(len(BAD_FILES)))
def test_the_error_names_an_invalid_file(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        resolve(KubeconfigAccess(paths=(str(path),)))
    assert problem in str(raised.value)
    assert str(raised.value).startswith(str(path))


def test_the_first_of_several_files_counts_for_each_name(tmp_path: Path) -> None:
    first, second = tmp_path / "one" / "a", tmp_path / "two" / "b"
    for path, text in (
        (first, "clusters: [{name: c, cluster: {server: https://first, certificate-authority: ca}}]"),
        (
            second,
            "current-context: x\nclusters: [{name: c, cluster: {server: https://second}}, "
            "{name: d, cluster: {server: https://third, certificate-authority: ca}}]\n"
            "contexts: [{name: x, context: {cluster: c}}, {name: y, context: {cluster: d}}]",
        ),
    ):
        path.parent.mkdir()
        path.write_text(text)
    paths = (str(first), str(tmp_path / "gone"), str(second))
    merged = read_kubeconfig(paths)
    server, _ = merged.server()
    assert server.url == "https://first"
    assert server.authority is not None
    assert server.authority.path == str(first.parent / "ca")
    other, _ = merged.server("y")
    assert other.authority is not None
    assert other.authority.path == str(second.parent / "ca")


def test_json_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "config"
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://a", "insecure-skip-tls-verify": True}}],
    }
    path.write_text(json.dumps(document, indent="\t"))
    server, _ = resolve(KubeconfigAccess(paths=(str(path),)))
    assert server.skip_tls_verify


@pytest.mark.parametrize(
    ("environ", "paths"),
    [
        ({"KUBECONFIG": "/a::/b:/a", "HOME": "/h"}, ("/a", "/b")),
        ({"HOME": "/h"}, ("/h/.kube/config",)),
        ({}, ()),
    ],
)
def test_the_files_are_those_of_kubectl(environ: dict[str, str], paths: tuple[str, ...]) -> None:
    assert kubeconfig_paths(environ) == paths


def test_the_default_cluster_is_the_current_context(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("current-context: Admin@Kube_1\ncontexts: [{name: Admin@Kube_1, context: {}}]")
    (entry,) = default_clusters({"KUBECONFIG": str(path), "KUBERNETES_SERVICE_HOST": "10.96.0.1"})
    assert entry.id == "admin-kube-1"
    assert entry.name == "Admin@Kube_1"
    assert entry.access == KubeconfigAccess(paths=(str(path),), context="Admin@Kube_1")
    assert entry.agents == AgentsEntry()
    assert entry.exec is not None
    assert entry.annotations is not None
    assert entry.prometheus is None


@pytest.mark.parametrize("content", [None, "", "apiVersion: v1\ncontexts: []\n"])
def test_the_default_cluster_in_a_pod_is_its_own(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    environ = {"KUBECONFIG": str(path), "KUBERNETES_SERVICE_HOST": "10.96.0.1"}
    (entry,) = default_clusters(environ)
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert entry.access == AddressAccess(
        url="https://10.96.0.1:443", token_file=f"{folder}/token", ca_file=f"{folder}/ca.crt"
    )
    with pytest.raises(ConfigError) as raised:
        default_clusters({"KUBECONFIG": str(path)})
    problem = f"{path} not found" if content is None else f"{path} has no current context"
    assert str(raised.value) == (
        f"no cluster: {problem}, and this is not a pod; set --clusters-file, --kubeconfig or KUBECONFIG"
    )


def test_without_a_kubeconfig_and_a_home_there_is_no_cluster() -> None:
    with pytest.raises(ConfigError, match="no cluster: KUBECONFIG is not set, and this is not a pod"):
        default_clusters({})


def test_plain_http_is_allowed_only_without_secrets() -> None:
    server, _ = resolve(AddressAccess(url="http://prometheus:9090/base/", plain_http=True))
    assert server.url == "http://prometheus:9090/base"
    for access in (
        AddressAccess(url="http://prometheus:9090"),
        AddressAccess(url="http://prometheus:9090", plain_http=True, token_file="t"),
        AddressAccess(url="http://", plain_http=True),
        AddressAccess(url="https://a", client_key_file="k"),
    ):
        with pytest.raises(ConfigError):
            resolve(access)
