"""Every process with a secret in every place where one can be given, in trouble of every kind, and with the
most talkative log: nothing that it says holds one.

What stands on a command line is the user's: /proc/PID/cmdline shows it to everybody. So the tests give no
secret there, and see that the processes keep it as it was; test_secret_inputs.py has what is refused.
"""

import base64
import hashlib
import json
import shlex
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from tests.agent_process import AgentProcess
from tests.certificates import Certificates, make_certificates
from tests.costless import costless
from tests.fleet_process import FleetApi, FleetProcess
from tests.programs import script
from tests.security.echoing_server import EchoingServer, echoing_server
from tests.security.marks import Marks
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.config.settings import settings_of as declared_settings
from accelscope.deviceplugin.settings import PluginSettings
from accelscope.model import Snapshot
from accelscope.simulate import SimulatedNode
from accelscope.simulate.workload import SECRET_ARGUMENT

NOBODY_THERE = "https://127.0.0.1:9"
NO_SUCH_HOST = "https://host.invalid:6443"
STATUSES = (401, 403, 302, 500, 0)  # of what the echoing server answers


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> Marks:
    """With one in the environment of every process, as operators' tools put them there."""
    made = Marks()
    monkeypatch.setenv("SOMEBODYS_PASSWORD", made.new("environment"))
    made.add("arguments of a process", SECRET_ARGUMENT)
    return made


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, native_cache: Path) -> SimulatedNode:
    made = SimulatedNode(costless("nvidia-mig"), tmp_path_factory.mktemp("node"), cache=native_cache)
    made.build(60.0)
    return made


@pytest.fixture
def echo() -> Iterator[EchoingServer]:
    with echoing_server() as server:
        yield server


def file(path: Path, content: str) -> str:
    path.write_text(content)
    return str(path)


def key_lines(path: Path) -> str:
    """The middle of a private key."""
    return "".join(path.read_text().splitlines()[1:-1])[20:60]


class Talk:
    """All that a process has said to anybody."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._said: list[tuple[str, bytes]] = []

    def heard(self, where: str, content: str | bytes) -> bytes:
        content = content if isinstance(content, bytes) else content.encode()
        self._said.append((where, content))
        return content

    def holds_no_secret(self) -> None:
        told = [f"{place}, in {where}" for where, text in self._said for place in self._marks.seen_in(text)]
        assert not told
        assert all(text for _, text in self._said), "it must have said something"

    def holds(self, word: str) -> bool:
        return any(word.encode() in text for _, text in self._said)


# --- the agent, and what reads its settings --------------------------------------------------------------


@pytest.fixture
def agent_settings(
    node: SimulatedNode, echo: EchoingServer, certificates: Certificates, marks: Marks, tmp_path: Path
) -> dict[str, str]:
    """A secret in each file that it reads, and everything switched on that shows one to somebody."""
    key = tmp_path / "tls.key"
    key.write_bytes(certificates.server_key.read_bytes())
    marks.add("TLS key", key_lines(key))
    switches = {"devicesAnnotation": "true", "tokenReview": "true", "featureLabels": "node"}
    return {
        **node.agent_settings(),
        "config_file": file(tmp_path / "agent.yaml", yaml.safe_dump(switches)),
        "node_name": "node-1",
        "kube_api_url": echo.url,
        "kube_token_file": file(tmp_path / "api.token", marks.new("API server token")),
        "pod_source": "api-server",
        "node_labels": "zone",
        "token_file": file(tmp_path / "page.token", marks.new("page token")),
        "tls_certificate": str(certificates.server),
        "tls_key": str(key),
    }


def flags(settings: Mapping[str, str]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


def command(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "accelscope", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


def unencrypted(port: int, text: str) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection, suppress(OSError):
        connection.sendall(text.encode())
        while connection.recv(4096):
            pass


def met_by_all(snapshot: Snapshot) -> bool:
    """Both watches and both sinks have been refused, and say so."""
    followed = {each.source for each in snapshot.attribution if each.error}
    return {"pods", "node"} <= followed and len([each for each in snapshot.sinks if each.error]) == 2


@pytest.mark.parametrize("status", STATUSES)
def test_agent(
    agent_settings: dict[str, str],
    echo: EchoingServer,
    certificates: Certificates,
    marks: Marks,
    tmp_path: Path,
    status: int,
) -> None:
    """One for each kind of answer: whoever is refused waits long before the next try."""
    talk = Talk(marks)
    echo.status = status
    page_token = Path(agent_settings["token_file"]).read_text()
    agent = AgentProcess(
        {**agent_settings, "log_level": "debug"},
        tmp_path / "run",
        trust=certificates.trust(),
        token=page_token,
    )

    def looked_at() -> None:
        for path in ("/metrics", "/snapshot", "/", "/healthz", "/readyz", f"/metrics?token={page_token}"):
            talk.heard(path, agent.get(path).body)

    with agent:
        stranger = marks.new("token of a stranger")
        refused = agent.get("/metrics", authorization=f"Bearer {stranger}", x_accelscope_token=stranger)
        assert refused.status in (401, 429, 503)
        talk.heard("refusal", refused.body + str(refused.headers).encode())
        agent.until(met_by_all, "watches and sinks have failed")
        assert echo.methods == {"GET", "PATCH", "POST"}, "who watches, who writes, who has tokens reviewed"
        looked_at()
        unencrypted(agent.port, f"GET / HTTP/1.1\r\nAuthorization: Bearer {page_token}\r\n\r\n")
        looked_at()
        file(Path(agent_settings["tls_key"]), marks.new("broken key"))
        file(Path(agent_settings["kube_token_file"]), marks.new("token of two lines") + "\n\x01")
        file(Path(agent_settings["token_file"]), page_token + "\n" + marks.new("next page token") + "\n\x01")
        wait_until(lambda: "tls" in agent.log().lower(), "it has looked at its key")
        looked_at()
        words = Path(f"/proc/{agent._process.pid}/cmdline").read_bytes().split(b"\0")[:-1]
        assert words == [word.encode() for word in agent._command], "as it was given"
    talk.heard("log", agent.log())
    talk.holds_no_secret()
    # What is no HTTP is not quoted at all.
    assert talk.holds("[token]") == (status != 0), "the server repeated a token, and that was told"


@pytest.mark.parametrize("status", [401, 0])
def test_doctor(agent_settings: dict[str, str], echo: EchoingServer, marks: Marks, status: int) -> None:
    talk = Talk(marks)
    echo.status = status
    for form in ([], ["--json"]):
        done = command("doctor", *form, *flags(agent_settings))
        assert echo.asked
        talk.heard(f"doctor {form}", done.stdout + done.stderr)
    file(Path(agent_settings["tls_key"]), marks.new("broken key"))
    file(Path(agent_settings["kube_token_file"]), marks.new("token of two lines") + "\n\x01")
    file(Path(agent_settings["token_file"]), marks.new("next page token") + "\n\x01")
    talk.heard("doctor of bad files", command("doctor", "--json", *flags(agent_settings)).stdout)
    talk.holds_no_secret()


def test_capture(agent_settings: dict[str, str], marks: Marks, tmp_path: Path) -> None:
    talk = Talk(marks)
    archive = tmp_path / "capture.tar.gz"
    done = command("capture", f"--output={archive}", *flags(agent_settings))
    assert done.returncode == 0, done.stderr
    talk.heard("capture", done.stdout + done.stderr)
    talk.heard("plan", command("capture", "--dry-run", *flags(agent_settings)).stdout)
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            content = opened.extractfile(member)
            talk.heard(member.name, member.name.encode() + (content.read() if content else b""))
    talk.holds_no_secret()


# --- the device plugin -------------------------------------------------------------------------------------


def test_device_plugin(node: SimulatedNode, marks: Marks, tmp_path: Path) -> None:
    """It is given no secret; what its environment and others' processes have is all there is."""
    talk = Talk(marks)
    known = {declared.name for declared in declared_settings(PluginSettings)}
    settings = {name: value for name, value in node.agent_settings().items() if name in known}
    (tmp_path / "plugins").mkdir()
    settings |= {"vendor": "nvidia", "plugin_dir": str(tmp_path / "plugins"), "exporter_host": "127.0.0.1"}
    settings |= {"exporter_port": "0", "log_level": "debug", "log_format": "json", "node_name": "node-1"}
    log = tmp_path / "plugin.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "accelscope", "device-plugin", *flags(settings)],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )
    try:
        ports: list[int] = []

        def serves() -> bool:
            assert process.poll() is None, log.read_text()
            lines = [json.loads(each) for each in log.read_text().splitlines() if each.endswith("}")]
            ports[:] = [each["port"] for each in lines if "port" in each]
            return bool(ports)

        wait_until(serves, "it tells its port")
        for path in ("/metrics", "/", "/healthz", "/readyz"):
            talk.heard(path, FleetApi(ports[0]).ask(path).body)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
    talk.heard("log", log.read_bytes())
    talk.holds_no_secret()


# --- the fleet ---------------------------------------------------------------------------------------------


class Clusters:
    """Entries of a clusters file, each with a secret of its own and a trouble of its own."""

    def __init__(self, folder: Path, marks: Marks, echo: EchoingServer, encrypted: EchoingServer) -> None:
        self._folder = folder
        self._marks = marks
        self._echo = echo
        self._encrypted = encrypted

    def entries(self) -> dict[str, dict[str, Any]]:
        token = self._token
        key = base64.b64encode(self._marks.new("client key").encode()).decode()
        certificate = base64.b64encode(b"no certificate").decode()
        proxy = quote(self._marks.new("proxy password"), safe="")
        return {
            "token-file": self._address(self._echo.url, token("token file")),
            "not-trusted": self._address(self._encrypted.url, token("token for a server not trusted")),
            "no-such-host": self._address(NO_SUCH_HOST, token("token for no host")),
            "nobody-there": self._address(NOBODY_THERE, token("token for nobody")),
            "two-lines": self._address(self._echo.url, token("token of two lines", "\n\x01")),
            "token": self._kubeconfig({"token": self._marks.new("kubeconfig token")}),
            "password": self._kubeconfig({"username": "me", "password": self._marks.new("password")}),
            "certificate": self._kubeconfig(
                {"client-certificate-data": certificate, "client-key-data": key}, server=self._encrypted.url
            ),
            "proxy": self._kubeconfig(
                {"token": self._marks.new("token by way of a proxy")},
                server=NO_SUCH_HOST,
                **{"proxy-url": f"http://me:{proxy}@127.0.0.1:9"},
            ),
            "plugin": self._kubeconfig(self._plugin("plugin", works=True)),
            "plugin-fails": self._kubeconfig(self._plugin("failing plugin", works=False)),
            "store": {
                "sources": {"prometheus": {"url": self._echo.url, "tokenFile": token("store's token")}},
            },
            "agents": {
                **self._address(self._echo.url, token("token beside agents' token")),
                "sources": {"agents": {"tokenFile": token("agents' token")}},
            },
        }

    def _token(self, place: str, more: str = "") -> str:
        return file(self._folder / f"{place}.token", self._marks.new(place) + more)

    def _address(self, url: str, token_file: str) -> dict[str, Any]:
        return {"server": {"url": url, "tokenFile": token_file}}

    def _kubeconfig(
        self, user: dict[str, object], *, server: str | None = None, **cluster: object
    ) -> dict[str, Any]:
        cluster = {"server": server or self._echo.url, **cluster}
        document = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        }
        path = self._folder / f"kubeconfig-{len(list(self._folder.iterdir()))}"
        return {"kubeconfig": {"path": file(path, yaml.safe_dump(document))}}

    def _plugin(self, place: str, *, works: bool) -> dict[str, object]:
        version = "client.authentication.k8s.io/v1"
        given = {"kind": "ExecCredential", "apiVersion": version}
        given["status"] = {"token": self._marks.new(f"token of the {place}")}  # type: ignore[assignment]
        prints = f"echo {shlex.quote(json.dumps(given))}"
        complains = 'echo "refused: $PLUGIN_SECRET, $1" >&2; exit 1'
        path = script(self._folder / place.replace(" ", "-"), prints if works else complains)
        variable = {"name": "PLUGIN_SECRET", "value": self._marks.new(f"environment of the {place}")}
        words = [self._marks.new(f"argument of the {place}")]
        return {"exec": {"apiVersion": version, "command": str(path), "args": words, "env": [variable]}}


def test_fleet(certificates: Certificates, marks: Marks, echo: EchoingServer, tmp_path: Path) -> None:
    talk = Talk(marks)
    own = marks.new("token of the fleet's API")
    listed = {"name": "test", "sha256": hashlib.sha256(own.encode()).hexdigest(), "scopes": ["admin"]}
    tokens = file(tmp_path / "tokens.yaml", yaml.safe_dump({"tokens": [listed]}))
    settings = {"tokens_file": tokens, "log_level": "debug", "refresh_interval": "1s"}
    settings |= {"state_folder": str(tmp_path / "state"), "token_review_cluster": "token-file"}
    (tmp_path / "state").mkdir()
    (tmp_path / "secrets").mkdir()
    with echoing_server(certificates) as encrypted:
        entries = Clusters(tmp_path / "secrets", marks, echo, encrypted).entries()
        fleet = FleetProcess(
            [{"id": name, **entry} for name, entry in entries.items()], tmp_path / "run", settings
        )
        with fleet:
            api = FleetApi(fleet.port, own)
            for status in STATUSES:
                echo.status = status
                stranger = FleetApi(fleet.port, marks.new(f"token of a stranger {status}"))
                talk.heard("refusal", stranger.ask("/api/v1/clusters").body)
                before = echo.asked
                wait_until(lambda asked=before: echo.asked > asked, "a cluster is asked")  # type: ignore[misc]
                for path in ("/api/v1/clusters", "/api/v1/health", "/metrics", "/readyz", "/openapi.json"):
                    talk.heard(path, api.ask(path).body)
                for name in entries:
                    answer = api.ask(f"/api/v1/clusters/{name}")
                    assert answer.status == 200
                    talk.heard(f"cluster {name}", answer.body)
            in_trouble = {name for name in entries if told_errors(api.cluster(name))}
            talk.heard("by query", api.ask(f"/api/v1/clusters?token={quote(own)}").body)
            file(Path(tokens), f"tokens: [{{name: x, sha256: *{marks.new('tokens file')}}}]")

            def looked_at_tokens() -> bool:
                talk.heard("clusters", api.ask("/api/v1/clusters").body)
                return "the old tokens stay" in fleet.log()

            wait_until(looked_at_tokens, "the file of tokens is refused")
    talk.heard("log", fleet.log())
    kept = [each for each in (tmp_path / "state").rglob("*") if each.is_file()]
    assert kept, "it keeps what it knows over a restart"
    for each in kept:
        talk.heard(f"state {each.name}", each.name.encode() + each.read_bytes())
    talk.holds_no_secret()
    assert in_trouble == entries.keys(), "each had the trouble that it was made for"
    assert talk.holds("[token]"), "the server repeated a token, and that was told"
    assert talk.holds("[masked]"), "a plugin repeated its secret, and that was told"


def told_errors(cluster: Any) -> list[str]:
    return [each["text"] for each in (cluster, *cluster["sources"]) if each.get("text")]


# --- top ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["--once", "--json"])
def test_top(
    certificates: Certificates, marks: Marks, echo: EchoingServer, tmp_path: Path, form: str
) -> None:
    talk = Talk(marks)
    token = tmp_path / "token"
    file(token, marks.new("token"))
    with echoing_server(certificates) as encrypted:
        asked = [[echo.url], ["--fleet", echo.url]]
        for status in (401, 500, 0):
            echo.status = status
            if status == 0:
                asked = [[echo.url, NOBODY_THERE, NO_SUCH_HOST, encrypted.url], ["--fleet", encrypted.url]]
            for urls in asked:
                done = command("top", form, f"--token-file={token}", *urls)
                assert done.returncode == 1, done.stderr
                talk.heard(f"top {urls}", done.stdout + done.stderr)
    for text in (marks.new("token of two lines") + "\n\x01", ""):
        file(token, text)
        done = command("top", form, f"--token-file={token}", echo.url)
        talk.heard("top with a bad token", done.stdout + done.stderr)
    key = file(tmp_path / "client.key", marks.new("client key"))
    words = (f"--client-certificate={certificates.client}", f"--client-key={key}", NOBODY_THERE)
    done = command("top", form, *words)
    talk.heard("top with a bad key", done.stdout + done.stderr)
    talk.holds_no_secret()
    assert talk.holds("[token]"), "the server repeated a token, and that was told"


# --- the marks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_a_secret_is_recognised_however_it_is_spelled(before: str) -> None:
    marks = Marks()
    secret = marks.new("here")
    encoded = base64.b64encode(f"{before}{secret}:more".encode())
    for spelled in (secret.encode(), quote(secret, safe="").encode(), json.dumps(secret).encode(), encoded):
        assert marks.seen_in(b"some " + spelled + b" text") == ["here"]
    assert marks.seen_in(b"some text") == []
