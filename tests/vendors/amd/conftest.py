"""Fixtures: the AMD reader on simulated nodes, and with shell scripts as tools."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.costless import costless
from tests.programs import script
from tests.vendors.common.watched import Watch, Watched

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.model import Vendor
from accelscope.simulate import SimulatedNode


@pytest.fixture
def watch(tmp_path: Path, native_cache: Path) -> Iterator[Watch]:
    """`watch("amd-mi250")` or `watch(yaml text)`: a reader on a simulated node whose tools cost nothing."""
    watched: list[Watched] = []

    def begin(node: str, at: float = 60.0, device_seconds: float = 60.0, **settings: str) -> Watched:
        simulated = SimulatedNode(costless(node), tmp_path / f"node{len(watched)}", cache=native_cache)
        simulated.build(at)
        values = {**simulated.agent_settings(), **settings}
        watched.append(
            Watched(Vendor("amd"), load(AgentSettings, values, {}).settings, simulated, device_seconds)
        )
        return watched[-1]

    yield begin
    for one in watched:
        one.close()


@pytest.fixture
def watch_folder(tmp_path: Path) -> Iterator[Watch]:
    """`watch_folder(rocm_smi="cat x.json")`: a reader on `tmp_path` with these shell scripts as tools."""
    watched: list[Watched] = []

    def begin(**scripts: str) -> Watched:
        values = {
            name: str(tmp_path / name.partition("_")[0]) for name in ("proc_root", "sys_root", "dev_root")
        }
        for name in ("amd_smi", "rocm_smi"):
            values[f"{name}_path"] = str(tmp_path / name)
            if name in scripts:
                script(tmp_path / name, scripts[name])
        loaded = load(AgentSettings, {**values, "reader_timeout": "30"}, {})
        watched.append(Watched(Vendor("amd"), loaded.settings))
        return watched[-1]

    yield begin
    for one in watched:
        one.close()
