"""nvitop, which nobody here wrote, and the agent's page see the same node."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.agent_process import AgentProcess
from tests.costless import costless

from accelscope.model import pci_address
from accelscope.simulate import SimulatedNode, ready_made

FROZEN_AT = 1234.0  # seconds of simulated time
VIEW = Path(__file__).parent / "nvitop_view.py"

Labels = Mapping[str, str]


class Page:
    """The samples of a page, by family."""

    def __init__(self, text: str) -> None:
        self._samples: dict[str, list[tuple[Labels, float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._samples.setdefault(sample.name, []).append((sample.labels, sample.value))

    def samples(self, family: str, **labels: str) -> list[tuple[Labels, float]]:
        wanted = labels.items()
        return [(found, value) for found, value in self._samples.get(family, []) if wanted <= found.items()]

    def value(self, family: str, **labels: str) -> float | None:
        """The one number there is, None if there is none."""
        values = [value for _, value in self.samples(family, **labels)]
        assert len(values) <= 1, (family, labels, values)
        return values[0] if values else None


@dataclass(frozen=True)
class Both:
    page: Page
    nvitop: Mapping[str, Any]

    @cached_property
    def devices(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The page's id of each device that nvitop can read, with what nvitop says of it."""
        ids = {labels["uuid"]: labels["device"] for labels, _ in self.page.samples("accelerator_info")}
        return [(ids[view["uuid"]], view) for view in self.nvitop["devices"] if "lost" not in view]


@pytest.fixture(scope="module", params=ready_made("nvidia"))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp(request.param)
    node = SimulatedNode(costless(request.param), folder / "node")
    node.build()
    node.write(at=FROZEN_AT)
    with AgentProcess(node.agent_settings(), folder) as agent:
        agent.settled()
        page = Page(agent.get("/metrics").body.decode())
    return Both(page, nvitop_view(node))


def nvitop_view(node: SimulatedNode) -> Mapping[str, Any]:
    settings = node.agent_settings()
    library = Path(settings["nvml_library"])
    finished = subprocess.run(
        [sys.executable, str(VIEW), settings["proc_root"]],
        env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    view: Mapping[str, Any] = json.loads(finished.stdout)
    return view


def test_the_same_devices(both: Both) -> None:
    seen = {
        (labels["uuid"], labels["model"], labels["index"], labels["pci_address"], labels["driver_version"])
        for labels, _ in both.page.samples("accelerator_info", vendor="nvidia")
        if both.page.value("accelerator_up", device=labels["device"]) == 1
    }
    assert seen
    assert seen == {
        (view["uuid"], view["name"], str(view["index"]), pci_address(view["pci"]), both.nvitop["driver"])
        for _, view in both.devices
    }


def test_a_device_that_nvitop_finds_lost_is_lost_on_the_page(both: Both) -> None:
    lost = [view["index"] for view in both.nvitop["devices"] if "lost" in view]
    on_page = both.page.samples("accelerator_health", vendor="nvidia", state="lost")
    assert [int(labels["index"]) for labels, value in on_page if value == 1] == lost


# Family, further labels, nvitop's name for it, and what one of nvitop's units is in the page's.
VALUES: tuple[tuple[str, Labels, str, float], ...] = (
    ("accelerator_memory_total_bytes", {}, "memory_total", 1),
    ("accelerator_memory_used_bytes", {}, "memory_used", 1),
    ("accelerator_memory_free_bytes", {}, "memory_free", 1),
    ("accelerator_utilization_ratio", {}, "gpu_percent", 0.01),
    ("accelerator_memory_busy_ratio", {}, "memory_percent", 0.01),
    ("accelerator_engine_utilization_ratio", {"engine": "encoder"}, "encoder_percent", 0.01),
    ("accelerator_engine_utilization_ratio", {"engine": "decoder"}, "decoder_percent", 0.01),
    ("accelerator_temperature_celsius", {}, "celsius", 1),
    ("accelerator_power_watts", {}, "milliwatts", 0.001),
    ("accelerator_power_limit_watts", {}, "limit_milliwatts", 0.001),
    ("accelerator_fan_speed_ratio", {"fan": "0"}, "fan_percent", 0.01),
    ("accelerator_clock_hertz", {"clock": "graphics"}, "graphics_megahertz", 1e6),
    ("accelerator_clock_hertz", {"clock": "memory"}, "memory_megahertz", 1e6),
    ("accelerator_ecc_errors_total", {"severity": "uncorrected"}, "ecc_errors", 1),
    ("accelerator_mig_enabled", {}, "mig", 1),
)


@pytest.mark.parametrize(("family", "labels", "name", "unit"), VALUES, ids=[value[2] for value in VALUES])
def test_the_same_values(both: Both, family: str, labels: Labels, name: str, unit: float) -> None:
    page = {device: both.page.value(family, device=device, **labels) for device, _ in both.devices}
    expected = {
        device: None if view[name] is None else pytest.approx(view[name] * unit, rel=1e-12)
        for device, view in both.devices
    }
    assert page == expected


def test_the_same_processes(both: Both) -> None:
    info = {
        (labels["device"], int(labels["pid"])): labels
        for labels, _ in both.page.samples("accelerator_process_info", vendor="nvidia")
    }
    letters = {"compute": "C", "graphics": "G", "both": "CG"}
    page = {
        key: (
            letters[labels["type"]],
            labels["name"],
            both.page.value("accelerator_process_memory_bytes", device=key[0], pid=str(key[1])),
        )
        for key, labels in info.items()
    }
    expected = {
        (device, process["pid"]): (process["type"].replace("+", ""), process["name"], process["memory"])
        for device, view in both.devices
        for process in view["processes"]
    }
    assert expected
    assert page == expected


def test_the_same_mig_instances(both: Both) -> None:
    page = {
        (labels["device"], labels["uuid"], int(labels["gpu_instance"]), int(labels["compute_instance"]))
        for labels, _ in both.page.samples("accelerator_partition_info")
    }
    assert page == {
        (device, instance["uuid"], instance["gpu_instance"], instance["compute_instance"])
        for device, view in both.devices
        for instance in view["instances"]
    }


def test_the_same_memory_of_mig_instances(both: Both) -> None:
    for family, name in (
        ("accelerator_partition_memory_total_bytes", "memory_total"),
        ("accelerator_partition_memory_used_bytes", "memory_used"),
    ):
        page = {labels["partition"]: value for labels, value in both.page.samples(family)}
        expected = {}
        for _, view in both.devices:
            counted = set()  # nvitop repeats shared memory, the page shows it at the first that shares it
            for instance in view["instances"]:
                if instance["gpu_instance"] not in counted:
                    expected[f"nvidia:{instance['uuid']}"] = instance[name]
                counted.add(instance["gpu_instance"])
        assert page == expected, family
