"""A complete vendor in a folder outside the source tree works in every command, with no other file changed.

The folder is tests/vendors/acme, the example of docs/adding-a-vendor.md. A copy of it is added to the path of
`accelscope.vendors` in a child process that runs the command.
"""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.deviceplugin.fake_kubelet import FakeKubelet
from tests.ports import free_port
from tests.processes import end
from tests.repository import REPOSITORY
from tests.waiting import PATIENCE_SECONDS, wait_until

FOLDER = Path(__file__).parent / "acme"
START = """
import sys
import accelscope.vendors
accelscope.vendors.__path__.append(sys.argv.pop(1))
from accelscope.cli.main import main
sys.exit(main())
"""

Run = Callable[..., str]


@pytest.fixture(scope="module")
def vendors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vendors")
    shutil.copytree(FOLDER, folder / FOLDER.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def command(vendors: Path) -> list[str]:
    return [sys.executable, "-c", START, str(vendors)]


@pytest.fixture(scope="module")
def run(command: list[str]) -> Run:
    def run(*arguments: object, expected: int = 0) -> str:
        done = subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == expected, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def node(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy") / "node"
    run("simulate", "build", "acme-one", folder, "--at", "60s")
    return folder


@pytest.fixture(scope="module")
def uuids(node: Path) -> list[str]:
    """As the simulated tool prints them."""
    printed = subprocess.run([node / "bin/acme-smi", "query"], capture_output=True, text=True, check=True)
    return [line.split(",")[1] for line in printed.stdout.splitlines()[1:]]


@pytest.fixture(scope="module")
def moving(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A node with its API server and kubelet."""
    folder = tmp_path_factory.mktemp("m") / "n"
    log = folder.parent / "node.log"
    with running([*command, "simulate", "run", "acme-one", str(folder)], log):
        wait_until((folder / "kubernetes" / "kubelet.sock").exists, "the kubelet listens")
        yield folder


@contextmanager
def running(
    words: list[str], log: Path, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, env=environ)
    try:
        yield process
    finally:
        end(process, words[-1], log)


@contextmanager
def started(command: list[str], *arguments: object, log: Path) -> Iterator[int]:
    """A command that serves HTTP on a port of its own choosing, which its log names."""

    def port() -> int | None:
        assert process.poll() is None, log.read_text()
        events = [
            json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")
        ]
        return next((event["port"] for event in events if "port" in event), None)

    options = ("--log-format", "json", "--exporter-host", "127.0.0.1", "--exporter-port", "0")
    with running([*command, *map(str, arguments), *options], log) as process:
        wait_until(lambda: port() is not None, "it serves HTTP")
        yield port() or 0


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_its_ready_made_node_is_listed_beside_the_others(run: Run) -> None:
    summary = "Two Acme cards, one of them with a pod that computes."
    assert run("simulate", "list", "--vendor", "acme") == f"acme-one  2 acme  {summary}\n"
    every = run("simulate", "list")
    assert summary in every
    assert "nvidia-h100x8" in every


def test_its_settings_are_options_of_agent_and_device_plugin(run: Run) -> None:
    for command in ("agent", "device-plugin"):
        assert "--acme-smi-path PATH" in run(command, "--help")
    assert "nvidia,amd,ascend,furiosa,acme" in run("agent", "--help").replace("\n", "").replace(" ", "")


def test_a_saved_output_is_parsed(run: Run, node: Path, tmp_path: Path, uuids: list[str]) -> None:
    saved = tmp_path / "saved.txt"
    saved.write_bytes(subprocess.check_output([node / "bin/acme-smi", "query"]))
    parsed = json.loads(run("parse", "acme-smi-query", saved))
    assert [device["uuid"] for device in parsed["devices"]] == uuids
    assert [process["memory_bytes"] for process in parsed["processes"]] == [2 << 30]
    saved.write_text("error: no driver\n")
    assert json.loads(run("parse", "acme-smi-query", saved, expected=1))["error"]["reason"] == "driver_error"


def test_the_agent_publishes_its_devices_and_processes(
    command: list[str], node: Path, tmp_path: Path, uuids: list[str]
) -> None:
    settings = (
        "--config-file",
        node / "agent.yaml",
        "--collection-interval",
        "0.3s",
        "--reader-timeout",
        "60s",
    )
    with started(command, "agent", *settings, log=tmp_path / "agent.log") as port:
        wait_until(lambda: get(port, "/readyz")[0] == 200, "the agent is ready")
        _, page = get(port, "/metrics")
        snapshot = json.loads(get(port, "/snapshot")[1])
    for uuid in uuids:
        [power] = [
            line
            for line in page.splitlines()
            if line.startswith("accelerator_power_watts{") and f'device="acme:{uuid}"' in line
        ]
        assert 'vendor="acme"' in power
        assert 20 <= float(power.rsplit(" ", 1)[1]) <= 100
    assert {device["vendor"] for device in snapshot["devices"]} == {"acme"}
    [process] = snapshot["processes"]
    assert (process["device"], process["name"]) == (f"acme:{uuids[0]}", "trainer")


def test_its_devices_are_attributed_and_shown_under_the_names_of_its_exporter(
    command: list[str], moving: Path, tmp_path: Path
) -> None:
    settings = ("--config-file", moving / "agent.yaml", "--collection-interval", "0.3s", "--dialect", "acme")
    with started(command, "agent", *settings, log=tmp_path / "agent.log") as port:

        def allocations() -> list[dict[str, str]]:
            status, snapshot = get(port, "/snapshot")
            return json.loads(snapshot).get("allocations", []) if status == 200 else []

        wait_until(lambda: any("device" in each for each in allocations()), "the kubelet's devices are known")
        [allocation] = allocations()
        snapshot = json.loads(get(port, "/snapshot")[1])
        _, page = get(port, "/metrics")
    [first] = [device["id"] for device in snapshot["devices"] if device["index"] == 0]
    # The id of the vendor's own plugin, which `device_ids` resolves.
    assert (allocation["resource"], allocation["device_id"]) == ("acme.com/npu", "card-0")
    assert (allocation["device"], allocation["pod"]) == (first, "trainer-0")
    [usage] = snapshot["pod_usages"]
    assert (usage["device"], usage["pod"], usage["memory_used_bytes"]) == (first, "trainer-0", 2 << 30)
    assert page.count('acme_card_watts{card="') == 2


def test_a_fleet_lists_its_devices(command: list[str], tmp_path: Path) -> None:
    # The simulated fleet makes recordings in processes of its own, which need the folder too.
    added = f"import accelscope.vendors\naccelscope.vendors.__path__.append({command[-1]!r})\n"
    (tmp_path / "sitecustomize.py").write_text(added)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    accelscope = [sys.executable, "-m", "accelscope"]
    simulate = ("simulate", "fleet", str(tmp_path / "clusters"), "--clusters", "1", "--nodes", "2")
    clusters, port = tmp_path / "clusters" / "clusters.yaml", free_port()
    fleet = ("fleet", "--clusters-file", str(clusters), "--insecure-no-auth", "--listen-host", "127.0.0.1")

    def devices(query: str) -> list[dict[str, object]]:
        try:
            status, found = get(port, f"/api/v1/devices?{query}")
        except OSError:
            return []
        return json.loads(found)["items"] if status == 200 else []

    with running([*accelscope, *simulate, "--kind", "acme-one"], tmp_path / "simulator.log", environ):
        wait_until(clusters.exists, "the clusters run")
        with running([*accelscope, *fleet, "--listen-port", str(port)], tmp_path / "fleet.log", environ):
            wait_until(lambda: len(devices("vendor=acme")) == 4, "all devices are read")
            assert {device["model"] for device in devices("vendor=acme")} == {"Acme A1"}
            assert devices("vendor=nvidia") == []


def test_settings_reference_and_chart_schema_contain_its_settings(command: list[str]) -> None:
    code = f"""
import runpy
from accelscope.agent.settings import AgentSettings
from accelscope.config import reference
print(reference(AgentSettings))
manifests = runpy.run_path({str(REPOSITORY / "scripts" / "manifests")!r})
agents = manifests["agent_schema"](
    dict(enabled=True, nodes=[], privileged=False, env=dict(ACME="1"), driver=dict(root="/opt/acme"))
)
print(manifests["value_schema"](manifests["settings_of"](AgentSettings)[0]), agents["required"])
print([manifests["key_name"](each.name) for each in manifests["settings_of"](AgentSettings)])
"""
    start = START.partition("from accelscope.cli")[0]
    words = [sys.executable, "-c", start + code, command[-1]]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "`--acme-smi-path`" in printed
    assert "'acmeSmiPath'" in printed
    assert "['enabled', 'nodes', 'driver', 'privileged', 'env']" in printed


def test_node_labels_and_table_name_its_devices(run: Run, node: Path) -> None:
    labels = run("discover", "--config-file", node / "agent.yaml")
    assert "accelscope.io/acme.count=2" in labels
    assert "accelscope.io/acme.product=" in labels
    table = run("top", "--once", "--config-file", node / "agent.yaml")
    assert table.count("A1") == 2
    assert "trainer" in table


def test_doctor_examines_it(run: Run, node: Path) -> None:
    document = json.loads(run("doctor", "--json", "--readers", "acme", "--config-file", node / "agent.yaml"))
    own = {check["name"]: check for check in document["checks"] if check["area"] == "acme"}
    assert {check["severity"] for check in own.values()} == {"ok"}
    assert own["acme-smi"]["found"] == str(node / "bin/acme-smi")
    assert own["count"]["found"] == "reader 2, device files 2"


def test_capture_saves_its_outputs(run: Run, node: Path, tmp_path: Path, uuids: list[str]) -> None:
    archive = tmp_path / "capture.tar.gz"
    run("capture", "--output", archive, "--config-file", node / "agent.yaml")
    with tarfile.open(archive) as saved:
        texts = {}
        for source in ("acme-smi-query", "acme-smi-ps"):
            [name] = [name for name in saved.getnames() if source in name]
            output = saved.extractfile(name)
            assert output is not None
            texts[source] = output.read().decode()
    assert "Acme A1" in texts["acme-smi-query"]
    assert not any(uuid in texts["acme-smi-query"] for uuid in uuids)  # masked
    [process] = json.loads(texts["acme-smi-ps"])
    assert process["name"] == "trainer"  # of its command line only the program


def test_the_device_plugin_offers_and_hands_out_its_cards(
    command: list[str], node: Path, tmp_path_factory: pytest.TempPathFactory, uuids: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("k") / "p"
    folder.mkdir()
    kubelet = FakeKubelet(folder)
    kubelet.start()
    options = {
        "vendor": "acme",
        "acme-smi-path": node / "bin/acme-smi",
        "dev-root": node / "dev",
        "sys-root": node / "sys",
        "proc-root": node / "proc",
        "plugin-dir": folder,
        "pod-resources-socket": folder.parent / "pod-resources.sock",
        "interval": "0.3s",
        "node-name": "acme-one",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    try:
        with started(command, "device-plugin", *words, log=folder.parent / "plugin.log"):
            kubelet.wait_for("acme.com/npu", lambda health: set(health) == set(uuids), "it offers both cards")
            assert set(kubelet.health("acme.com/npu").values()) == {"Healthy"}
            with kubelet.client("acme.com/npu") as plugin:
                [given] = plugin.allocate([uuids[1]])
            assert [device.container_path for device in given.devices] == ["/dev/acme1"]
    finally:
        kubelet.stop()
