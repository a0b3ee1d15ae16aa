"""Two clusters that somebody would like to see as one. In one of them there are no agents."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.journeys.guide import command, listed
from tests.e2e.journeys.machine import Machine
from tests.fleet_process import SimulatedClusters, simulated_clusters
from tests.ports import free_port
from tests.waiting import wait_until

FLEET = "docs/fleet.md"
TWO = "Two clusters, one without agents"
CLUSTERS: dict[str, Any] = {
    "clusters": [
        {"id": "paris", "nodes": [{"node": "nvidia-shared", "count": 2}]},
        {"id": "berlin", "agents": False, "driver_pods": True, "nodes": [{"node": "nvidia-h100x8"}]},
    ]
}
DEVICES = {"paris": 4, "berlin": 8}
ANSWERED = {"paris": ("agents", 2), "berlin": ("exec", 1)}  # nodes, by what tells of their devices


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[SimulatedClusters]:
    description = tmp_path / "described.yaml"
    description.write_text(yaml.safe_dump(CLUSTERS))
    with simulated_clusters(tmp_path / "clusters", str(description)) as running:
        yield running


@pytest.fixture
def desk(machine: Callable[..., Machine], clusters: SimulatedClusters) -> Machine:
    """Somebody's who has a token of each cluster, and lists them as the page does."""
    port = str(free_port())
    made = machine({"LISTEN_PORT": port}, {"8080": port})
    entries = listed(FLEET, TWO, "paris", "berlin")["clusters"]
    for entry, simulated in zip(entries, clusters.entries, strict=True):
        assert entry["id"] == simulated["id"]
        entry["server"]["url"] = simulated["server"]["url"]
        del entry["server"]["caFile"]  # these are of this machine, and without TLS
        assert entry["sources"].keys() == simulated["sources"].keys()
        entry["sources"] = simulated["sources"]  # their namespaces are others
        token = Path(simulated["server"]["tokenFile"]).read_text()
        (made.folder / entry["server"]["tokenFile"]).write_text(token)
    (made.folder / "clusters.yaml").write_text(yaml.safe_dump({"clusters": entries}))
    return made


def test_from_the_wheel_to_both_clusters_at_a_glance(desk: Machine) -> None:
    """Left out: `make wheel`, of which the last step is done; making the accounts and fetching their tokens,
    for which a real API server is needed: test_other_pages.py has these commands. Both API servers are
    simulated, and the port is a free one."""
    said = desk.run(command(FLEET, "", "pipx install", "[fleet]"))
    assert "installed package accelscope" in said
    with desk.running(command(FLEET, TWO, "--clusters-file clusters.yaml")):
        until_read(desk)

        answer = json.loads(desk.run(command(FLEET, TWO, "curl", "summary?group_by=cluster,model")))
        assert {row["cluster"]: row["devices"] for row in answer["groups"]} == DEVICES

        page = desk.run("curl -s localhost:8080/")
        assert '<script type="module"' in page
        once = command(FLEET, TWO, "accelscope top --fleet").replace("top --fleet", "top --once --fleet")
        said = desk.run(once)
        assert "paris" in said
        assert "berlin" in said


def clusters_of(desk: Machine) -> list[dict[str, Any]]:
    return list(json.loads(desk.run(command(FLEET, "", "curl", "/api/v1/clusters")))["items"])


def until_read(desk: Machine) -> None:
    desk.run("curl -s --retry 60 --retry-connrefused --retry-delay 1 localhost:8080/healthz")
    wait_until(lambda: all(is_read(row) for row in clusters_of(desk)), "both clusters are read")


def is_read(row: dict[str, Any]) -> bool:
    answered = {(each["kind"], each["answered"]) for each in row["sources"]}
    return bool(row["devices"] == DEVICES[row["id"]] and ANSWERED[row["id"]] in answered)
