"""Descriptions of fleets: what they mean, and one clear line for what they cannot mean."""

import pytest
from tests.repository import REPOSITORY

from accelscope.simulate.fleet.description import fleet_text, made_fleet, read_fleet
from accelscope.simulate.fleet.faults import NODE_FAULTS, FleetFaultKind
from accelscope.simulate.fleet.recording import MAX_NODES, Identities, tag_of
from accelscope.simulate.spec import DescriptionError

GOOD = "clusters: [{id: one, nodes: [{node: nvidia-shared, count: 2, name: gpu}]}]\n"


def test_a_fleet_from_numbers_has_so_many_nodes_of_several_vendors() -> None:
    spec = made_fleet(clusters=3, nodes=40)
    assert [cluster.node_count for cluster in spec.clusters] == [40, 40, 40]
    assert len({cluster.id for cluster in spec.clusters}) == 3
    vendors = {vendor for group in spec.clusters[0].groups for vendor in group.spec.vendors}
    assert vendors == {"nvidia", "amd", "ascend", "furiosa"}
    one = made_fleet(clusters=1, nodes=5, kinds=["nvidia-mig"])
    assert [group.kind for group in one.clusters[0].groups] == ["nvidia-mig"]


def test_a_fleet_is_the_same_when_its_own_description_is_read() -> None:
    text = f"{GOOD}faults: [{{kind: hot, cluster: one, node: gpu-0002, device: 1, from: 5, until: 9}}]\n"
    spec = read_fleet(text)
    assert read_fleet(fleet_text(spec)) == spec
    assert spec.faults[0].begin == 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clusters: []", "clusters: expected 1 to 1000, got 0"),
        ("clusters: [{nodes: []}]", "clusters[0].id: missing; expected an id such as berlin-1"),
        ("clusters: [{id: Berlin}]", 'clusters[0].id: "Berlin" is not an id such as berlin-1'),
        ("clusters: [{id: a}, {id: a}]", 'clusters: 2 have the name "a"; names must be unique'),
        (
            "clusters: [{id: a, nodes: [{node: nvidia-mig}, {node: nvidia-mig}]}]",
            'a: 2 have the name "nvidia-mig"; names must be unique',
        ),
        (
            "clusters: [{id: a, nodes: [{count: 2}]}]",
            "clusters[0].nodes[0].node: missing; expected",
        ),
        ("clusters: [{id: a, color: red}]", 'clusters[0]: unknown key "color"; allowed: id, name'),
        (
            f"{GOOD}faults: [{{kind: hot, cluster: two}}]",
            'faults[0].cluster: "two" is not one',
        ),
        (
            f"{GOOD}faults: [{{kind: sad, cluster: one}}]",
            'faults[0].kind: "sad" is not one of agent_',
        ),
        (f"{GOOD}faults: [{{kind: hot, cluster: one}}]", "faults[0].node: hot needs a node of one"),
        (
            f"{GOOD}faults: [{{kind: hot, cluster: one, node: gpu-0001, device: 7}}]",
            "faults[0].device: 7 is not a device number from 0 to 1",
        ),
        (
            f"{GOOD}faults: [{{kind: api_hang, cluster: one, node: gpu-0001}}]",
            "faults[0].node: api_hang is a fault of the cluster's API server, not of a node",
        ),
        (
            f"{GOOD}faults: [{{kind: idle, cluster: one, node: gpu-0001}}]",
            "faults[0].process: missing; expected one of dcgm",
        ),
    ],
)
def test_invalid_descriptions_are_rejected_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        read_fleet(text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_node_has_a_tag_of_its_own() -> None:
    numbers = [*range(20_000), MAX_NODES - 1]
    assert len({tag_of(number) for number in numbers}) == len(numbers)
    long, short = "GPU-d92a11cc-7113-3189-c8b7-ab0b26819a09", "WBYB577628"
    identities = Identities.of([{"devices": [{"uuid": long, "serial": short}]}])
    assert len(identities.of_node(long, tag_of(7))) == 40
    assert identities.of_node(short, tag_of(7)) == f"WBYB577628{tag_of(7)}"


def test_every_fault_is_documented() -> None:
    page = (REPOSITORY / "docs" / "simulate.md").read_text()
    assert [kind for kind in (*FleetFaultKind, *NODE_FAULTS) if f"`{kind}`" not in page] == []
