"""The built wheel in an empty environment, bare and with each extra alone: everything works, and what needs
an extra that is not there says which."""

import json
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml
from tests.packaging.environments import Environment
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.cli.main import COMMANDS

OpenEnvironment = Callable[[str], Environment]
SERVE = ("--log-format", "json", "--exporter-host", "127.0.0.1", "--exporter-port", "0")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> OpenEnvironment:
    """By the name of an extra, or of none."""

    @cache
    def open_environment(extra: str) -> Environment:
        return Environment(tmp_path_factory.mktemp(extra or "bare"), wheel, extra)

    return open_environment


@pytest.fixture(scope="module")
def bare(environment: OpenEnvironment) -> Environment:
    return environment("")


@pytest.fixture(scope="module")
def node(bare: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The settings of a simulated node, made by the installed command itself."""
    folder = tmp_path_factory.mktemp("node")
    described = folder / "mine.yaml"
    described.write_text(
        "node: mine\nnvidia:\n  devices: [{model: h100-80gb}]\nfuriosa:\n  devices: [{model: warboy}]\n"
    )
    bare.run("simulate", "build", described, folder / "node")
    return folder / "node" / "agent.yaml"


# --- bare ------------------------------------------------------------------------------------------------


def test_version_is_that_of_the_wheel(bare: Environment, wheel: Path) -> None:
    assert bare.run("--version").stdout == f"accelscope {wheel.name.split('-')[1]}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_tells_what_it_is(bare: Environment, command: str) -> None:
    assert bare.run(command, "--help").stdout.startswith(f"usage: accelscope {command} ")


def test_agent_serves_a_node(bare: Environment, node: Path) -> None:
    with bare.serving("agent", "--config-file", node, *SERVE) as agent:
        wait_until(lambda: agent.get("/readyz")[0] == 200, "the agent has collected")
        page = agent.get("/metrics")[1]
    assert 'accelerator_info{vendor="nvidia"' in page
    assert 'accelerator_info{vendor="furiosa"' in page


def test_top_shows_a_node_once(bare: Environment, node: Path) -> None:
    assert "H100" in bare.run("top", "--once", "--config-file", node).stdout


def test_other_commands_look_at_a_node(bare: Environment, node: Path, tmp_path: Path) -> None:
    labels = json.loads(bare.run("discover", "--output", "json", "--config-file", node).stdout)
    assert labels["labels"]
    assert json.loads(bare.run("doctor", "--json", "--config-file", node, codes=(0, 1, 2)).stdout)["checks"]
    bare.run("capture", "--config-file", node, "--output", tmp_path / "capture.tar.gz")
    assert (tmp_path / "capture.tar.gz").stat().st_size > 0


def test_parse_reads_a_saved_output(bare: Environment, tmp_path: Path) -> None:
    saved = tmp_path / "saved.csv"
    saved.write_text("index, uuid, name\n0, GPU-1, NVIDIA H100\n")
    assert json.loads(bare.run("parse", "nvidia-smi-query-gpu", saved).stdout)["devices"]


def test_compare_needs_no_extra(bare: Environment, tmp_path: Path) -> None:
    saved = tmp_path / "page.prom"
    saved.write_text('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 40\n')
    found = json.loads(bare.run("compare", saved, saved, "--output", "json").stdout)
    assert (found["differs"], found["dialect"]) == (False, "dcgm")


@pytest.mark.parametrize("name", ["chart", "dashboards", "examples", "manifests", "rules", "systemd"])
def test_files_that_came_with_it(bare: Environment, tmp_path: Path, name: str) -> None:
    found = Path(bare.run("files", name).stdout.strip())
    assert bare.command.parents[1] in found.parents
    bare.run("files", name, "--to", tmp_path / "copy")
    copied = {path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").rglob("*")}
    assert copied == {path.relative_to(found) for path in found.rglob("*")}
    assert copied


def test_chart_in_it_is_of_its_version(bare: Environment, wheel: Path) -> None:
    chart = Path(bare.run("files", "chart").stdout.strip()) / "Chart.yaml"
    assert yaml.safe_load(chart.read_text())["appVersion"] == wheel.name.split("-")[1]


# --- without an extra ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("fleet", ["fleet"]),
        ("fleet", ["fleet", "token", "create", "ann"]),
        ("fleet", ["simulate", "fleet", "clusters"]),
        ("device-plugin", ["device-plugin"]),
    ],
)
def test_a_missing_extra_is_named_in_one_line(bare: Environment, extra: str, words: list[str]) -> None:
    [line] = bare.run(*words, codes=(2,)).stderr.splitlines()
    assert line.startswith(f"accelscope {words[0]}: ")
    assert line.endswith(
        f"is not installed; install the extra where accelscope is: pip install 'accelscope[{extra}]' "
        f"(with pipx: pipx runpip accelscope install 'accelscope[{extra}]')"
    )


def test_top_without_its_extra_says_so_on_a_terminal(bare: Environment, node: Path) -> None:
    code, shown = bare.on_terminal("top", "--config-file", node)
    assert code == 2
    assert shown.strip().decode() == (
        "accelscope top: shtab is not installed; install the extra where accelscope is: "
        "pip install 'accelscope[top]' (with pipx: pipx runpip accelscope install 'accelscope[top]'), "
        "or use --once"
    )


# --- each extra alone ------------------------------------------------------------------------------------


def test_top_alone_has_a_screen(environment: OpenEnvironment, node: Path) -> None:
    code, shown = environment("top").on_terminal("top", "--config-file", node, keys=b"q", after=b"H100")
    assert code == 0, shown
    assert b"install the extra" in environment("top").run("fleet", codes=(2,)).stderr.encode()


def test_fleet_alone_serves_clusters_and_its_page(environment: OpenEnvironment, tmp_path: Path) -> None:
    fleet = environment("fleet")
    words = [str(fleet.command), "simulate", "fleet", str(tmp_path), "--clusters", "1", "--nodes", "2"]
    with subprocess.Popen(words, env=fleet.variables(), stdout=subprocess.DEVNULL) as clusters:
        try:
            file = tmp_path / "clusters.yaml"
            # Recordings of its nodes are made first.
            wait_until(file.exists, "the simulated clusters are there", 3 * PATIENCE_SECONDS)
            options = ("--clusters-file", file, "--listen-port", "0", "--log-format", "json")
            with fleet.serving("fleet", *options) as served:
                wait_until(
                    lambda: json.loads(served.get("/api/v1/summary")[1])["total"]["devices"] > 0,
                    "the fleet has read the clusters",
                )
                status, page = served.get("/")
        finally:
            clusters.send_signal(signal.SIGTERM)
            clusters.wait(PATIENCE_SECONDS)
    assert status == 200
    assert "<html" in page
    assert fleet.run("fleet", "token", "create", "ann").stdout.strip()
    assert "[device-plugin]" in fleet.run("device-plugin", codes=(2,)).stderr


def test_device_plugin_alone_offers_devices(environment: OpenEnvironment, node: Path, tmp_path: Path) -> None:
    settings = yaml.safe_load(node.read_text())
    paths = [
        word
        for key, flag in (("sysRoot", "--sys-root"), ("devRoot", "--dev-root"), ("procRoot", "--proc-root"))
        for word in (flag, settings[key])
    ]
    options = [*paths, "--plugin-dir", str(tmp_path), "--pod-resources-socket", ""]
    plugin = environment("device-plugin")
    with plugin.serving("device-plugin", *options, *SERVE) as served:
        wait_until(
            lambda: 'resource="beta.furiosa.ai/npu"' in served.get("/metrics")[1], "a device is offered"
        )
    assert "[fleet]" in plugin.run("fleet", codes=(2,)).stderr
