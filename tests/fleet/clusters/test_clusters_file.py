"""The clusters file: its keys, and one-line errors for invalid ones."""

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.config import ConfigError
from accelscope.fleet.clusters import (
    AddressAccess,
    AgentsEntry,
    AnnotationsEntry,
    ClusterEntry,
    ClustersFile,
    ExecEntry,
    KubeconfigAccess,
    PrometheusEntry,
    load_clusters,
)

WHOLE = """\
clusters:
  - id: berlin
    name: Berlin 1
    kubeconfig: {path: kc, context: berlin}
    capabilities: {gpu: true}
  - id: oslo.2
    simulated: yes
    server:
      url: https://10.0.0.1:6443/
      tokenFile: /etc/token
      caFile: ca.pem
      tlsServerName: oslo
      proxyUrl: http://proxy:3128
    sources:
      agents:
        {namespace: monitoring, labelSelector: app=a, via: direct, port: 9500, scheme: https, tokenFile: t,
         clientCertificateFile: c.pem, clientKeyFile: k.pem, caFile: ca.pem, tlsServerName: agent}
      exec: {namespaces: [drivers], timeout: 5s, concurrency: 4, ttl: 1m, perSecond: 2.5}
      annotations:
  - id: thanos
    sources:
      prometheus:
        {url: "http://thanos.example:9090/", matchers: {cluster: rome}, tenant: team-a, timeout: 30}
"""


def written(folder: Path, text: str) -> str:
    path = folder / "clusters.yaml"
    path.write_text(text)
    return str(path)


def test_all_keys_of_an_entry_are_read(tmp_path: Path) -> None:
    berlin, oslo, thanos = load_clusters(written(tmp_path, WHOLE))
    assert berlin == ClusterEntry(
        id="berlin",
        name="Berlin 1",
        gpu="true",
        access=KubeconfigAccess(paths=(str(tmp_path / "kc"),), context="berlin"),
        agents=AgentsEntry(),
        exec=ExecEntry(),
        annotations=AnnotationsEntry(),
    )
    assert oslo == ClusterEntry(
        id="oslo.2",
        simulated=True,
        access=AddressAccess(
            url="https://10.0.0.1:6443",
            token_file="/etc/token",
            ca_file=str(tmp_path / "ca.pem"),
            tls_server_name="oslo",
            proxy_url="http://proxy:3128",
        ),
        agents=AgentsEntry(
            namespace="monitoring",
            label_selector="app=a",
            via="direct",
            port=9500,
            scheme="https",
            token_file=str(tmp_path / "t"),
            ca_file=str(tmp_path / "ca.pem"),
            client_certificate_file=str(tmp_path / "c.pem"),
            client_key_file=str(tmp_path / "k.pem"),
            tls_server_name="agent",
        ),
        exec=ExecEntry(
            namespaces=("drivers",), timeout_seconds=5, concurrency=4, ttl_seconds=60, per_second=2.5
        ),
        annotations=AnnotationsEntry(),
    )
    assert thanos == ClusterEntry(
        id="thanos",
        prometheus=PrometheusEntry(
            url="http://thanos.example:9090",
            matchers={"cluster": "rome"},
            tenant="team-a",
            timeout_seconds=30,
        ),
    )


def test_a_kubeconfig_without_a_path_is_that_of_kubectl(tmp_path: Path) -> None:
    path = written(tmp_path, "clusters: [{id: a, kubeconfig: {context: b}}, {id: c, kubeconfig: }]")
    first, second = load_clusters(path, {"KUBECONFIG": "/one:/two", "HOME": "/home/x"})
    assert first.access == KubeconfigAccess(paths=("/one", "/two"), context="b")
    assert second.access == KubeconfigAccess(paths=("/one", "/two"), context=None)


def test_a_tilde_is_the_home_folder(tmp_path: Path) -> None:
    path = written(tmp_path, "clusters: [{id: a, kubeconfig: {path: ~/.kube/a}}]")
    (entry,) = load_clusters(path, {"HOME": "/home/x"})
    assert entry.access == KubeconfigAccess(paths=("/home/x/.kube/a",))


def test_an_empty_list_is_valid(tmp_path: Path) -> None:
    assert load_clusters(written(tmp_path, "clusters: []\n")) == ()


ONE = "clusters:\n  - id: a\n    server: {url: https://a}\n"

BAD = {
    "": "clusters.yaml:1: clusters: is missing",
    "- a": "clusters.yaml:1: the file must be a mapping",
    "cluster: []": "clusters.yaml:1: clusters: is missing",
    "clusters: []\nmore: 1": 'clusters.yaml:2: unknown key "more"; allowed: clusters',
    "clusters: 3": "clusters.yaml:1: clusters: not a list",
    "clusters:\n- 3": "clusters.yaml:1: clusters[0]: not a mapping of keys to values",
    "clusters:\n- {name: x}": "clusters.yaml:2: clusters[0].id: missing; expected an id",
    "clusters:\n- id: Berlin": 'clusters.yaml:2: clusters[0].id: "Berlin" is not an id',
    "clusters:\n- id: a\n  id: b": 'clusters.yaml:3: "id" is given twice, first in line 2',
    "clusters:\n- id: a": "clusters.yaml:2: clusters[0]: needs kubeconfig, server or a prometheus source",
    ONE + ONE.removeprefix("clusters:\n"): 'clusters.yaml:4: clusters[1].id: two clusters have the id "a"',
    ONE + "    kubeconfig: {}": "clusters.yaml:3: clusters[0].server: kubeconfig and server exclude",
    ONE + "    colour: red": 'clusters.yaml:4: clusters[0]: unknown key "colour"; allowed: id, name',
    ONE + "    sorces: {}": "; did you mean sources?",
    ONE
    + "    capabilities: {gpu: maybe}": 'clusters[0].capabilities.gpu: "maybe" is not one of true, false,',
    ONE + "    capabilities: {npu: true}": 'clusters[0].capabilities: unknown key "npu"; allowed: gpu',
    ONE + "    sources: {}": "clusters.yaml:4: clusters[0].sources: empty",
    ONE
    + "    sources:\n      exec:\n        ttl: -1s": 'clusters.yaml:6: clusters[0].sources.exec.ttl: "-1s"',
    ONE + "    sources: {exec: {namespaces: [A]}}": 'exec.namespaces: "A" is not the name of a namespace',
    ONE + "    sources: {exec: {namespaces: []}}": "exec.namespaces: empty",
    ONE + "    sources: {exec: {concurrency: 0}}": '"0" is not a whole number from 1 to 1000',
    ONE + "    sources: {agents: {caFile: x}}": "agents.caFile: requires via: direct and scheme: https",
    ONE + "    sources: {agents: {via: ssh}}": '"ssh" is not one of proxy, direct',
    ONE + "    sources: {annotations: {a: b}}": 'annotations: unknown key "a"; allowed: none',
    ONE + "    sources: {prometheus: {}}": "clusters[0].sources.prometheus.url: missing",
    ONE + "    sources: {prometheus: {url: http://p, tokenFile: t}}": "prometheus.url: http://p: http is",
    ONE + "    sources: {prometheus: {url: http://p, matchers: {0a: b}}}": '"0a" is not a label name',
    "clusters:\n- {id: a, sources: {exec: }}": "sources.exec: this source needs kubeconfig or server",
    "clusters:\n- {id: a, server: }": "clusters[0].server.url: missing",
    "clusters:\n- {id: a, server: {url: 'http://10.0.0.1'}}": "server.url: http://10.0.0.1: http is",
    "clusters:\n- {id: a, server: {url: 'https://a', insecureSkipTlsVerify: true, caFile: x}}": "exclude",
    "clusters:\n- {id: a, server: {url: 'https://a', clientKeyFile: x}}": "requires clientCertificateFile",
    "clusters:\n- {id: a, server: {url: 'https://a', proxyUrl: 'socks5://p:1'}}": "socks5 proxies",
    "clusters: [": "clusters.yaml:1: not valid YAML:",
    "clusters: &a []\nx: *a": "anchors and aliases (& and *) are not supported",
    "clusters: \x01": "clusters.yaml: not valid YAML",
    "clusters: " + "[" * 400: "clusters.yaml:1: nested more than",
    "clusters: " + "[" * 40 + "]" * 40: "clusters.yaml:1: nested more than",
}


@pytest.mark.parametrize(("text", "problem"), BAD.items(), ids=range(len(BAD)))
def test_the_error_is_one_line_with_the_invalid_key(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_clusters(written(tmp_path, text))
    error = str(raised.value)
    assert problem in error
    assert error.startswith(str(tmp_path))
    assert error.count("\n") == 0


@pytest.mark.parametrize(
    ("scheme", "problem"), [("ftp", "must be http"), ("http", "proxyUrl: must not contain a user")]
)
def test_a_password_in_a_proxy_url_is_rejected_and_not_repeated(
    tmp_path: Path, scheme: str, problem: str
) -> None:
    text = f"clusters:\n- {{id: a, server: {{url: 'https://a', proxyUrl: '{scheme}://user:hunter2@proxy'}}}}"
    with pytest.raises(ConfigError) as raised:
        load_clusters(written(tmp_path, text))
    assert problem in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (2 << 20)], ids=["not text", "huge"])
def test_a_file_that_is_not_utf8_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clusters.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        load_clusters(str(path))


def test_the_error_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone: cannot be read: No such file"):
        load_clusters(str(tmp_path / "gone"))


def test_a_change_is_noticed_once(tmp_path: Path) -> None:
    path = written(tmp_path, ONE)
    file = ClustersFile(path)
    assert not file.changed()
    assert [entry.id for entry in file.load()] == ["a"]
    written(tmp_path, ONE.replace("id: a", "id: b"))
    assert file.changed()
    assert not file.changed()
    assert [entry.id for entry in file.load()] == ["b"]


@given(st.text(st.sampled_from("ab:-{}[]&*!|>'\" \n#?,"), max_size=60))
def test_any_text_is_read_or_rejected(text: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        with suppress(ConfigError):
            load_clusters(file.name)
