"""A running agent takes up a changed settings file, and keeps the old settings when the new file is bad."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent_process import AgentProcess
from tests.costless import costless
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode

SETTINGS = "collectionInterval: 200ms\nlabels: {rack: '7'}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """As a ConfigMap is mounted: the file is a link into a folder that is swapped whole."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1/agent.yaml").write_text(SETTINGS)
    (tmp_path / "..data").symlink_to("1")
    file = tmp_path / "agent.yaml"
    file.symlink_to("..data/agent.yaml")
    return file


def swap(config: Path, text: str) -> None:
    folder = config.parent
    new = folder / str(sum(1 for path in folder.iterdir() if path.is_dir()) + 1)
    new.mkdir()
    (new / "agent.yaml").write_text(text)
    (folder / "..tmp").symlink_to(new.name)
    (folder / "..tmp").replace(folder / "..data")


@pytest.fixture
def agent(config: Path, tmp_path: Path) -> Iterator[AgentProcess]:
    # Not on the command line: that would go before the file.
    process = AgentProcess({"config_file": str(config)}, tmp_path / "agent")
    for option in ("--collection-interval", "--reader-timeout"):
        position = process._command.index(option)
        del process._command[position : position + 2]
    with process:
        yield process


def reloads(agent: AgentProcess) -> dict[str, int]:
    return {c.reason: c.count for c in agent.snapshot().agent.config_reloads}


def test_a_swapped_config_map_is_reloaded(agent: AgentProcess, config: Path) -> None:
    assert agent.snapshot().labels == (("rack", "7"),)
    swap(config, "collectionInterval: 300ms\nlabels: {rack: '8'}\nmetricDenylist: [accelscope_threads]\n")
    wait_until(lambda: agent.snapshot().labels == (("rack", "8"),), "the new labels")
    assert agent.snapshot().interval_seconds == 0.3
    assert b"accelscope_threads" not in agent.get("/metrics").body
    assert reloads(agent) == {"applied": 1}
    assert "taken up" in agent.log()
    swap(config, "collectionInterval: 300ms\nmetricAllowlist: [accelerator_powr_*, accelscope_*]\n")
    wait_until(lambda: reloads(agent) == {"applied": 2}, "the list with a misspelt name")
    assert "--metric-allowlist: no metric matches accelerator_powr_*" in agent.log()
    assert "fits accelscope_*" not in agent.log()
    swap(config, "collectionInterval: 200ms\nmetricAllowlist: [accelerator_powr_*, accelscope_*]\n")
    wait_until(lambda: reloads(agent) == {"applied": 3}, "something that is not about the page")
    assert agent.log().count("matches accelerator_powr_*") == 1, "the page was made anew"


def test_an_invalid_file_keeps_the_old_settings_and_is_logged_once(agent: AgentProcess, config: Path) -> None:
    swap(config, "collectionInterval: never\n")
    wait_until(lambda: reloads(agent) == {"rejected": 1}, "the bad file is noticed")
    made = agent.snapshot().agent.collections
    agent.until(lambda snapshot: snapshot.agent.collections >= made + 5, "five more collections")
    assert reloads(agent) == {"rejected": 1}
    assert agent.snapshot().labels == (("rack", "7"),)
    assert agent.log().count("collectionInterval") == 1
    swap(config, SETTINGS)
    wait_until(lambda: reloads(agent).get("applied") == 1, "a good file again")


def test_settings_that_need_a_restart_are_named(agent: AgentProcess, config: Path) -> None:
    swap(config, SETTINGS + "nodeName: other\nreaderTimeout: 20s\n")  # of which tools have got their part
    wait_until(
        lambda: "settings that need a restart: nodeName, readerTimeout" in agent.log(), "they are named"
    )
    swap(config, SETTINGS)
    wait_until(
        lambda: "no longer need a restart: nodeName, readerTimeout" in agent.log(), "that it is taken back"
    )
    assert agent.get("/healthz").status == 200


def test_a_changed_counters_file_is_reloaded_and_an_invalid_one_changes_nothing(
    tmp_path: Path,
) -> None:
    node = SimulatedNode(costless("nvidia-h100x8"), tmp_path / "node")
    node.build()
    file = tmp_path / "counters.csv"
    file.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, Temperature\nDCGM_FI_DEV_BRAND, label, Brand\n")
    settings = {**node.agent_settings(), "dialect": "dcgm", "dcgm_counters": str(file)}
    with AgentProcess(settings, tmp_path / "agent") as agent:
        agent.until(lambda snapshot: bool(snapshot.devices), "the devices")
        wait_until(lambda: b"DCGM_FI_DEV_GPU_TEMP{" in agent.get("/metrics").body, "the field of the file")
        assert b"DCGM_FI_DEV_GPU_UTIL" not in agent.get("/metrics").body
        assert "line 2: DCGM_FI_DEV_BRAND is not available: AccelScope does not read it" in agent.log()
        file.write_text("DCGM_FI_DEV_GPU_UTIL, gouge, x\n")
        wait_until(lambda: reloads(agent) == {"rejected": 1}, "the bad file is noticed")
        assert f"{file}:1: invalid type 'gouge'; allowed: gauge, counter, label" in agent.log()
        assert b"DCGM_FI_DEV_GPU_TEMP{" in agent.get("/metrics").body
        file.write_text("DCGM_FI_DEV_FB_TOTAL, gauge, x\n")
        wait_until(lambda: b"DCGM_FI_DEV_FB_TOTAL{" in agent.get("/metrics").body, "the new field")
        assert b"DCGM_FI_DEV_GPU_TEMP" not in agent.get("/metrics").body
        assert reloads(agent) == {"rejected": 1, "applied": 1}
