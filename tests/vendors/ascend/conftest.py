"""Fixtures: the Ascend reader on simulated nodes, and with a shell script as npu-smi."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import programs
from tests.costless import costless
from tests.vendors.common.watched import Watch, Watched

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.model import Vendor
from accelscope.simulate import SimulatedNode

# Long enough on a busy machine: identifying new chips has a fraction of this time.
PATIENT = {"reader_timeout": "60s"}


@pytest.fixture
def watch(tmp_path: Path, native_cache: Path) -> Iterator[Watch]:
    """`watch("ascend-a3")` or `watch(yaml text)`: a reader on a simulated node."""
    watched: list[Watched] = []

    def begin(node: str, at: float = 60.0, **settings: str) -> Watched:
        simulated = SimulatedNode(costless(node), tmp_path / f"node{len(watched)}", cache=native_cache)
        simulated.build(at)
        values = {**simulated.agent_settings(), **PATIENT, **settings}
        watched.append(Watched(Vendor("ascend"), load(AgentSettings, values, {}).settings, simulated))
        return watched[-1]

    yield begin
    for one in watched:
        one.close()


@pytest.fixture
def watch_script(tmp_path: Path) -> Iterator[Watch]:
    """`watch_script("cat table.txt")`: a reader whose npu-smi is this shell script."""
    watched: list[Watched] = []

    def begin(script: str, **settings: str) -> Watched:
        tool = programs.script(tmp_path / f"npu-smi-{len(watched)}", script)
        (tmp_path / "dev").mkdir(exist_ok=True)
        values = {
            "npu_smi_path": str(tool),
            "ascend_driver_root": str(tmp_path / "driver"),
            "sys_root": str(tmp_path / "sys"),
            "dev_root": str(tmp_path / "dev"),
            **PATIENT,
            **settings,
        }
        watched.append(Watched(Vendor("ascend"), load(AgentSettings, values, {}).settings))
        return watched[-1]

    yield begin
    for one in watched:
        one.close()
