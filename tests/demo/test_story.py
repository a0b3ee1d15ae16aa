"""What happens in the demo, and when."""

from itertools import pairwise
from pathlib import Path

import pytest
from tools.demo.clusters import CLUSTERS, LAB_NODE, counts, description, write_kinds
from tools.demo.lab import Lab
from tools.demo.scenes import SCENES, SETTINGS_CHANGE
from tools.demo.story import ROUND_SECONDS, Story, changes, faults_before

from accelscope.model import IDLE_SECONDS
from accelscope.simulate import load_node
from accelscope.simulate.fleet.description import FleetSpec, read_fleet
from accelscope.simulate.fleet.faults import read_faults, write_faults

HOUR = 3600.0


def fleet_of(nodes: int, folder: Path) -> FleetSpec:
    Lab(folder).describe("nvidia-shared", folder / "lab.yaml")
    write_kinds(folder / "kinds")
    lines = description(nodes, folder / "kinds", folder / "lab.yaml", "http://127.0.0.1:9400")
    return read_fleet(str({**lines, "faults": faults_before(lines)}))


@pytest.fixture
def fleet(tmp_path: Path) -> FleetSpec:
    return fleet_of(48, tmp_path)


@pytest.mark.parametrize("nodes", [1, 48, 500])
def test_there_are_about_as_many_nodes_as_asked_for_and_some_of_every_kind(nodes: int) -> None:
    made = [count for _, _, count in counts(nodes)]
    assert min(made) >= 1
    assert abs(sum(made) - nodes) <= len(made)


def test_the_clusters_have_devices_of_all_four_vendors(fleet: FleetSpec) -> None:
    assert [cluster.id for cluster in fleet.clusters] == list(CLUSTERS)
    vendors = {v for nodes in fleet.nodes().values() for spec in nodes.values() for v in spec.vendors}
    assert vendors == {"nvidia", "amd", "ascend", "furiosa"}
    assert 40 <= sum(cluster.node_count for cluster in fleet.clusters) <= 60


@pytest.mark.parametrize("nodes", [1, 48, 100])
def test_whatever_happens_in_an_hour_can_happen_to_this_fleet(nodes: int, tmp_path: Path) -> None:
    fleet = fleet_of(nodes, tmp_path)
    rounds = [Story(fleet).of_round(number) for number in range(int(HOUR / ROUND_SECONDS))]
    scenes = [scene for each in rounds for scene in each]
    elsewhere = [h.fault() for h in scenes if not (h.on_lab_node or h.began_before)]
    write_faults(tmp_path, elsewhere)
    assert read_faults(tmp_path, fleet.nodes()) == tuple(elsewhere)
    assert {h.scene.kind for h in scenes if h.on_lab_node} == {SETTINGS_CHANGE, "hot"}


def test_two_minutes_show_what_the_demo_is_about(fleet: FleetSpec) -> None:
    seen = {h.scene.kind for at in range(120) for h in Story(fleet).at(at)}
    assert {"hot", "idle", "node_gone", "ecc_storm", "xid", "lost", "api_down"} <= seen


def test_nodes_have_only_the_faults_of_the_story(fleet: FleetSpec) -> None:
    assert load_node("ascend-910b-x8").faults  # by itself it would
    assert not [spec.name for nodes in fleet.nodes().values() for spec in nodes.values() if spec.faults]


def test_a_pod_is_already_idle_when_the_demo_begins(fleet: FleetSpec) -> None:
    [fault] = fleet.faults
    assert (fault.kind, fault.process, fault.until) == ("idle", "tritonserver", None)
    assert fault.begin < -IDLE_SECONDS
    [lines] = [line for line in changes((), Story(fleet).at(0)) if "tritonserver" in line]
    assert lines.startswith(f"berlin/{fault.node} ")
    assert lines.endswith(f"for {-fault.begin / 60:g} minutes")


def test_something_changes_every_minute_of_an_hour(fleet: FleetSpec) -> None:
    story, at, times = Story(fleet), 0.0, [0.0]
    while at < HOUR:
        at = story.next_change(at)
        times.append(at)
    assert max(b - a for a, b in pairwise(times)) < 60


def test_the_next_round_uses_other_nodes_and_permanent_faults_stay(fleet: FleetSpec) -> None:
    story = Story(fleet)
    first, second = story.at(100), story.at(100 + ROUND_SECONDS)
    moved = {(h.scene, h.node, h.device) for h in first} - {(h.scene, h.node, h.device) for h in second}
    places = {h.scene for h in first if h.scene.again and h.node not in (None, LAB_NODE)}
    assert {scene for scene, _, _ in moved} >= places
    lasting = {h for h in first if not h.scene.again}
    assert len(lasting) == 3
    assert lasting <= set(second)


def test_a_round_ends_before_the_next_begins_so_that_no_fault_is_set_twice() -> None:
    assert all(scene.until <= ROUND_SECONDS for scene in SCENES if scene.again)


def test_messages_name_place_and_device_and_ends_come_first(fleet: FleetSpec) -> None:
    story = Story(fleet)
    assert changes(story.at(7), story.at(8)) == [
        "berlin/h100-0003 device 1: XID 48, critical until it is reset"
    ]
    assert changes(story.at(209), story.at(210)) == [
        "berlin/lab-0001 device 0 has cooled down",
        "berlin/h100-0003 device 1 was reset: XID 48 is over",
    ]
    assert changes((), story.at(0))[0].startswith("berlin/h100-0010 device 5 fell off the bus")
    assert "seoul the API server closes every connection" in changes(story.at(69), story.at(70))
    assert not any("XID" in line for line in changes(story.at(329), story.at(330)))
