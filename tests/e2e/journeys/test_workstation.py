"""A workstation without Kubernetes, whose user would like to see what its GPUs do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.journeys.guide import command
from tests.e2e.journeys.machine import Machine
from tests.ports import free_port
from tests.waiting import wait_until

from accelscope.config.settings import environment_name
from accelscope.simulate import SimulatedNode
from accelscope.simulate.description import read_node

PAGE = "docs/install-without-kubernetes.md"
ASK = "curl -s --retry 60 --retry-connrefused --retry-delay 1"  # as soon as it serves
CARDS = """\
node: workstation
nvidia:
  devices: [{model: rtx-4090, count: 2}]
processes:
  - {name: train.py, device: 1, memory: 9GiB, load: {level: 0.8}, cgroup: host}
"""


@pytest.fixture
def workstation(machine: Callable[..., Machine], tmp_path: Path) -> Machine:
    """With two GPUs, on one of which somebody works."""
    cards = SimulatedNode(read_node(CARDS), tmp_path / "cards")
    cards.build(at=1000.0)
    port = str(free_port())
    variables = {environment_name(name): value for name, value in cards.agent_settings().items()}
    return machine({**variables, "EXPORTER_PORT": port}, {"9400": port})


def test_from_the_clone_to_the_screen(workstation: Machine) -> None:
    """Left out: the service, for which there is no systemd here. The driver is simulated, and the agent's
    port is a free one: both are settings in the environment, the commands are those of the pages."""
    said = workstation.run(command(PAGE, "Install it", "pipx install", "[top]"))
    assert "installed package accelscope" in said
    said = workstation.run(command(PAGE, "Install it", "accelscope doctor"))
    assert "2 of 2 devices" in said

    with workstation.screen(command(PAGE, "Install it", "accelscope top")) as screen:
        screen.until("2 devices", "GeForce RTX 4090", "train.py")
        screen.press("q")
        screen.until("ended with 0")

    with workstation.running(command(PAGE, "Install it", "accelscope agent")):
        wait_until(lambda: shown(workstation) == 2, "both GPUs are on the page")

    workstation.run(command(PAGE, "Remove it", "pipx uninstall", "for yourself"))
    assert not list((workstation.folder / "pipx" / "bin").iterdir())


def shown(workstation: Machine) -> int:
    """GPUs whose use is on the page."""
    return workstation.run(f"{ASK} localhost:9400/metrics").count("\naccelerator_utilization_ratio{")
