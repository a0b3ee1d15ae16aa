"""From simulated drivers through a running agent to the Node object and the metrics page."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent_process import AgentProcess, discover
from tests.costless import costless
from tests.kube.kube_server import refuse
from tests.processes import runs
from tests.programs import script
from tests.sinks.go_reader import decode_chips
from tests.sinks.node_api import NodeApi
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode

NPU_METRICS = "k8s-monitor.io/npu-metrics"
DEVICES = "accelscope.io/devices"


@pytest.fixture
def api() -> Iterator[NodeApi]:
    made = NodeApi("node-1")
    yield made
    made.close()


def simulated(name: str, folder: Path) -> dict[str, str]:
    """`name` of a ready-made one, or a description."""
    spec = costless(name)
    node = SimulatedNode(spec, folder / spec.name)
    node.build(100.0)
    return node.agent_settings()


def pointed(api: NodeApi, settings: dict[str, str], **more: str) -> dict[str, str]:
    to_the_api = {"kube_api_url": api.url, "kube_token_file": "", "kube_ca_file": "", "pod_source": "off"}
    return {**settings, **to_the_api, "node_name": "node-1", **more}


def switched_on(folder: Path, *keys: str) -> str:
    """A settings file: on the command line such a setting is a flag without a value."""
    file = folder / "agent.yaml"
    file.write_text("".join(f"{key}: true\n" for key in keys))
    return str(file)


def page_of(agent: AgentProcess) -> list[str]:
    return agent.get("/metrics").body.decode().splitlines()


@pytest.mark.parametrize(("name", "chips"), [("ascend-910b-x8", 8), ("ascend-a3", None), ("mixed", 2)])
def test_the_annotation_of_a_node_with_chips(
    api: NodeApi, tmp_path: Path, name: str, chips: int | None
) -> None:
    file = switched_on(tmp_path, "npuAnnotation", "devicesAnnotation")
    settings = pointed(api, simulated(name, tmp_path), config_file=file)
    with AgentProcess(settings, tmp_path / "agent") as agent:
        wait_until(lambda: NPU_METRICS in api.annotations, "the annotation")
        agent.until(lambda snapshot: bool(snapshot.sinks) and snapshot.sinks[0].up, "the sink is up")
        devices = agent.snapshot().devices
        wait_until(
            lambda: len(json.loads(api.annotations[DEVICES])["devices"]) == len(devices), "all devices"
        )
        page = page_of(agent)
    entries = decode_chips(api.annotations[NPU_METRICS])
    assert len(entries) == (chips or len(devices))
    assert all(entry["health"] == "OK" and entry["hbm_total"] > 0 for entry in entries)
    assert api.annotations["other.example/note"] == "stays"
    assert 'accelscope_sink_up{sink="annotation"} 1' in page
    assert any(line.startswith('accelscope_sink_writes_total{sink="annotation"} ') for line in page)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        (
            "furiosa-warboy",
            {
                "beta.furiosa.ai/npu.count": "2",
                "beta.furiosa.ai/npu.family": "warboy",
                "beta.furiosa.ai/driver.version": "1.9.8",
                "beta.furiosa.ai/driver.reference": "4c1f0aa",
                "furiosa.ai/npu.family": "warboy",
            },
        ),
        (
            "furiosa-rngd",
            {"beta.furiosa.ai/npu.family": "renegade", "furiosa.ai/npu.family": "rngd"},
        ),
        (
            "mixed",
            {
                "accelscope.io/nvidia.product": "NVIDIA-H100-80GB-HBM3",
                "accelscope.io/amd.family": "gfx942",
                "accelscope.io/ascend.count": "2",
            },
        ),
    ],
)
def test_labels_of_a_node(api: NodeApi, tmp_path: Path, name: str, labels: dict[str, str]) -> None:
    settings = pointed(api, simulated(name, tmp_path), feature_labels="node")
    with AgentProcess(settings, tmp_path / "agent"):
        wait_until(lambda: labels.items() <= api.labels.items(), "the labels")
    assert api.labels["kubernetes.io/arch"] == "amd64"


def test_an_agent_for_one_vendor_does_not_change_what_others_write(api: NodeApi, tmp_path: Path) -> None:
    api.annotations |= {NPU_METRICS: "of the agent for Ascend", DEVICES: "of the agent for all"}
    file = switched_on(tmp_path, "npuAnnotation", "devicesAnnotation")
    settings = pointed(api, simulated("mixed", tmp_path), config_file=file, readers="nvidia")
    with AgentProcess(settings, tmp_path / "agent") as agent:
        agent.until(lambda s: bool(s.devices) and bool(s.sinks) and s.sinks[0].up, "the sink is up")
    written = json.loads(api.annotations[f"{DEVICES}.nvidia"])["devices"]
    assert {device["vendor"] for device in written} == {"nvidia"}
    assert api.annotations[NPU_METRICS] == "of the agent for Ascend"
    assert api.annotations[DEVICES] == "of the agent for all"


def test_a_feature_file_needs_no_api_server(tmp_path: Path) -> None:
    folder = tmp_path / "features.d"
    folder.mkdir()
    settings = {
        **simulated("furiosa-warboy", tmp_path),
        "feature_labels": "nfd",
        "feature_file_folder": str(folder),
        "feature_domains": "beta.furiosa.ai",
    }
    with AgentProcess(settings, tmp_path / "agent") as agent:
        wait_until((folder / "accelscope").exists, "the file")
        agent.until(lambda snapshot: snapshot.sinks[0].up, "the sink is up")
        assert 'accelscope_sink_up{sink="feature-file"} 1' in page_of(agent)
    lines = (folder / "accelscope").read_text().splitlines()
    assert "beta.furiosa.ai/npu.count=2" in lines
    assert all(line.startswith(("#", "beta.furiosa.ai/")) for line in lines)


def test_a_rejected_write_affects_only_the_annotation(api: NodeApi, tmp_path: Path) -> None:
    api.fail(*[refuse(403, 'nodes "node-1" is forbidden')] * 50)
    file = switched_on(tmp_path, "npuAnnotation")
    settings = pointed(api, simulated("ascend-910b-x8", tmp_path), config_file=file)
    with AgentProcess(settings, tmp_path / "agent") as agent:
        agent.until(lambda s: bool(s.sinks) and s.sinks[0].reason == "forbidden", "the refusal")
        page = page_of(agent)
        assert agent.get("/readyz").status == 200
        assert agent.log().count("annotation: write failed") == 1
    assert 'accelscope_sink_up{sink="annotation"} 0' in page
    assert any(line.startswith('accelscope_sink_errors_total{sink="annotation",reason="f') for line in page)
    assert any("accelscope_sink_last_error_info" in line and "is forbidden" in line for line in page)
    assert any(line.startswith("accelerator_power_watts") for line in page)


# accelscope discover


def test_discover_prints_labels_and_writes_nothing(api: NodeApi, tmp_path: Path) -> None:
    settings = pointed(api, simulated("furiosa-warboy", tmp_path))
    done = discover(settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert "furiosa.ai/npu.count=2" in done.stdout.splitlines()
    document = json.loads(discover(settings, "--output", "json").stdout)
    assert document["node"] == "node-1"
    assert document["labels"] == dict(line.split("=") for line in done.stdout.splitlines())
    assert api.patches == []


def test_discover_applies_to_the_node(api: NodeApi, tmp_path: Path) -> None:
    settings = pointed(api, simulated("furiosa-warboy", tmp_path))
    done = discover(settings, "--apply")
    assert (done.returncode, done.stderr) == (0, "")
    assert api.labels["furiosa.ai/npu.count"] == "2"
    api.fail(refuse(403, "no"))
    refused = discover(settings, "--apply")
    assert refused.returncode == 1
    assert refused.stderr.startswith("accelscope discover: forbidden: ")


def test_discover_writes_a_feature_file_that_stays(tmp_path: Path) -> None:
    settings = simulated("furiosa-warboy", tmp_path)
    flags = ["--apply", "--output", "nfd", "--feature-labels", "nfd", "--feature-file-folder"]
    done = discover(settings, *flags, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "accelscope").read_text() == done.stdout
    assert "expiry" not in done.stdout
    missing = discover(settings, *flags, str(tmp_path / "none"))
    assert missing.returncode == 1
    assert "no_folder" in missing.stderr


def test_discover_on_a_node_without_accelerators_removes_the_labels(api: NodeApi, tmp_path: Path) -> None:
    with_cards = {**pointed(api, simulated("furiosa-warboy", tmp_path)), "readers": "furiosa"}
    discover(with_cards, "--apply")
    assert "furiosa.ai/npu.count" in api.labels
    for root in ("sys", "dev", "proc"):
        (tmp_path / "empty" / root).mkdir(parents=True)
        with_cards[f"{root}_root"] = str(tmp_path / "empty" / root)
    none = {"furiosa_smi_path": "/none", "furiosactl_path": "/none"}
    done = discover({**with_cards, **none}, "--apply")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert api.labels == {"kubernetes.io/arch": "amd64"}


def test_discover_applies_nothing_while_a_driver_cannot_be_read(api: NodeApi, tmp_path: Path) -> None:
    settings = pointed(api, simulated("ascend-910b-x8", tmp_path), readers="ascend")
    broken = script(tmp_path / "npu-smi", "echo dcmi module initialize failed. ret is -8005\nexit 1")
    done = discover({**settings, "npu_smi_path": str(broken)}, "--apply")
    assert done.returncode == 1
    assert done.stderr.startswith("accelscope discover: ascend: ")
    assert api.patches == []


# The name of a Radeon is known to the tool only.
RADEON = """
node: radeon
amd:
  rocm_version: "6.2.0"
  devices:
    - {model: rx-7900-xtx}
"""


def test_discover_waits_for_values_of_a_slow_tool(api: NodeApi, tmp_path: Path) -> None:
    settings = pointed(api, simulated(RADEON, tmp_path), readers="amd")
    slow = script(tmp_path / "slow-smi", f'sleep 0.5\nexec {settings["amd_smi_path"]} "$@"')
    settings |= {"amd_smi_path": str(slow), "reader_timeout": "60s"}
    done = discover(settings, "--apply")
    assert (done.returncode, done.stderr) == (0, "")
    assert api.labels["accelscope.io/amd.product"] == "AMD-Radeon-RX-7900-XTX"


def test_discover_ends_without_a_hanging_tool_and_leaves_no_process(tmp_path: Path) -> None:
    settings = {**simulated(RADEON, tmp_path), "readers": "amd", "reader_timeout": "5s"}
    pid = tmp_path / "pid"
    hanging = script(tmp_path / "hanging-smi", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600")
    done = discover({**settings, "amd_smi_path": str(hanging)})
    assert done.returncode == 0
    assert "accelscope.io/amd.count=1" in done.stdout.splitlines()
    assert done.stderr.startswith("accelscope discover: amd: a tool timed out")
    wait_until(lambda: not runs(int(pid.read_text())), "the tool has ended")


def test_discover_outside_a_cluster_names_the_missing_setting(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": ""}
    done = discover(simulated("furiosa-warboy", tmp_path), "--apply", **environ)
    assert done.returncode == 2
    assert done.stderr == (
        "accelscope discover: --apply: not in a cluster; set --kube-api-url, or --feature-labels nfd\n"
    )
