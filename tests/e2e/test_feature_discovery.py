"""Labels that say which accelerators a node has, on the Node of a real cluster: written straight, and by Node
Feature Discovery's own worker and master from our feature file."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent_process import AgentProcess, discover
from tests.e2e.kubernetes.accounts import PATCH_NODES, Account, account
from tests.e2e.kubernetes.cluster import PATIENCE_SECONDS, Cluster
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode, load_node
from accelscope.sinks import DOMAINS
from accelscope.sinks.labels import FILE, write_file

APPLY_PATCH = "application/apply-patch+yaml"

# By the names that old selectors have, and by those of today (Furiosa's, and ours).
WARBOYS = {
    "beta.furiosa.ai/npu.count": "2",
    "beta.furiosa.ai/npu.family": "warboy",
    "beta.furiosa.ai/npu.product": "warboyB0",
    "beta.furiosa.ai/driver.version": "1.9.8",
    "beta.furiosa.ai/driver.version.major": "1",
    "beta.furiosa.ai/driver.version.minor": "9",
    "beta.furiosa.ai/driver.version.patch": "8",
    "beta.furiosa.ai/driver.reference": "4c1f0aa",
    "furiosa.ai/npu.count": "2",
    "furiosa.ai/npu.family": "warboy",
    "accelscope.io/furiosa.count": "2",
    "accelscope.io/furiosa.driver.version": "1.9.8",
}


@pytest.fixture
def warboys(tmp_path: Path) -> SimulatedNode:
    node = SimulatedNode(load_node("furiosa-warboy"), tmp_path / "warboys")
    node.build(at=100.0)
    return node


@pytest.fixture(scope="module")
def labeller(cluster: Cluster) -> Iterator[Account]:
    with account(cluster, "labeller", [PATCH_NODES]) as made:
        yield made


@pytest.fixture
def to_the_node(
    cluster: Cluster, labeller: Account, warboys: SimulatedNode, tmp_path: Path
) -> Iterator[dict[str, str]]:
    """Settings; what they brought to the Node is gone afterwards."""
    settings = {**warboys.agent_settings(), **labeller.settings(tmp_path / "token"), "feature_labels": "node"}
    yield settings
    apply_as(cluster, "accelscope", {})
    assert ours(cluster) == {}


def labels(cluster: Cluster) -> dict[str, str]:
    found = cluster.get(f"node/{cluster.node_name}")["metadata"]["labels"]
    assert isinstance(found, dict)
    return found


def ours(cluster: Cluster) -> dict[str, str]:
    return {name: value for name, value in labels(cluster).items() if name.split("/")[0] in DOMAINS}


def apply_as(cluster: Cluster, manager: str, wanted: dict[str, str]) -> int:
    """The status. Not by force: it is refused where another owns a label with another value."""
    name = cluster.node_name
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": wanted}}
    path = f"/api/v1/nodes/{name}?fieldManager={manager}"
    return cluster.api.request("PATCH", path, document, content_type=APPLY_PATCH).status


def owners(cluster: Cluster, label: str) -> set[tuple[str, str]]:
    fields = json.loads(
        cluster.kubectl("get", f"node/{cluster.node_name}", "--output=json", "--show-managed-fields")
    )["metadata"]["managedFields"]
    return {
        (each["manager"], each["operation"])
        for each in fields
        if f"f:{label}" in each.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
    }


def vanish(node: SimulatedNode, *devices: int) -> None:
    node.set_faults([node.checked_fault({"kind": "vanished", "device": device}) for device in devices])


def applied(settings: dict[str, str], **more: str) -> None:
    done = discover({**settings, **more}, "--apply")
    assert (done.returncode, done.stderr) == (0, "")


# Straight


def test_labels_follow_the_devices_and_leave_others_alone(
    cluster: Cluster, to_the_node: dict[str, str], warboys: SimulatedNode, tmp_path: Path
) -> None:
    before = labels(cluster)
    node = f"node/{cluster.node_name}"
    cluster.kubectl("label", node, "example.com/rack=7", "accelscope.io/note=mine")
    try:
        with AgentProcess(to_the_node, tmp_path / "agent") as agent:
            wait_until(lambda: WARBOYS.items() <= labels(cluster).items(), "the labels", PATIENCE_SECONDS)
            assert owners(cluster, "furiosa.ai/npu.count") == {("accelscope", "Apply")}

            vanish(warboys, 1)
            wait_until(
                lambda: labels(cluster).get("furiosa.ai/npu.count") == "1", "one is gone", PATIENCE_SECONDS
            )
            assert agent.snapshot().sinks[0].up
        vanish(warboys, 0, 1)
        applied(to_the_node)
        assert labels(cluster) == {**before, "example.com/rack": "7", "accelscope.io/note": "mine"}
    finally:
        cluster.kubectl("label", node, "example.com/rack-", "accelscope.io/note-")


def test_labels_of_a_domain_that_is_no_longer_wanted_go(
    cluster: Cluster, to_the_node: dict[str, str]
) -> None:
    applied(to_the_node)
    assert WARBOYS.items() <= ours(cluster).items()
    applied(to_the_node, feature_domains="accelscope.io")
    assert {name.split("/")[0] for name in ours(cluster)} == {"accelscope.io"}


def test_a_label_that_another_had_set_becomes_true_and_goes_with_ours(
    cluster: Cluster, to_the_node: dict[str, str]
) -> None:
    label = "furiosa.ai/npu.count"
    assert apply_as(cluster, "somebody", {label: "8"}) == 200
    applied(to_the_node)
    assert labels(cluster)[label] == "2"
    assert owners(cluster, label) == {("accelscope", "Apply")}
    assert apply_as(cluster, "somebody", {label: "8"}) == 409  # they are told
    applied(to_the_node, feature_domains="accelscope.io")
    assert label not in labels(cluster)


def test_a_label_that_another_agrees_to_stays_theirs(cluster: Cluster, to_the_node: dict[str, str]) -> None:
    label = "furiosa.ai/npu.count"
    applied(to_the_node)
    assert apply_as(cluster, "somebody", {label: "2"}) == 200
    applied(to_the_node, feature_domains="accelscope.io")
    assert labels(cluster)[label] == "2"
    assert apply_as(cluster, "somebody", {}) == 200
    assert label not in labels(cluster)


def test_a_node_that_does_not_exist_is_not_made(cluster: Cluster, to_the_node: dict[str, str]) -> None:
    done = discover({**to_the_node, "node_name": "no-such-node"}, "--apply")
    assert done.returncode == 1
    assert done.stderr.startswith(("accelscope discover: forbidden: ", "accelscope discover: not_found: "))
    assert cluster.api.request("GET", "/api/v1/nodes/no-such-node").status == 404


# Through Node Feature Discovery


def to_a_file(node: SimulatedNode, features: Path) -> dict[str, str]:
    return {**node.agent_settings(), "feature_labels": "nfd", "feature_file_folder": str(features)}


def until_labels(cluster: Cluster, wanted: dict[str, Any], what: str) -> None:
    wait_until(lambda: ours(cluster) == wanted, what, PATIENCE_SECONDS)


def test_nfd_labels_the_node_from_the_agents_file(
    cluster: Cluster, features_folder: Path, warboys: SimulatedNode, tmp_path: Path
) -> None:
    settings = to_a_file(warboys, features_folder)
    expected = json.loads(discover(settings, "--output", "json").stdout)["labels"]
    assert WARBOYS.items() <= expected.items()
    with AgentProcess(settings, tmp_path / "agent") as agent:
        until_labels(cluster, expected, "NFD has labelled the node")
        assert "# +expiry-time=" in (features_folder / FILE).read_text()
        vanish(warboys, 0, 1)
        until_labels(cluster, {}, "the devices are gone, and so are the labels")
        assert agent.snapshot().sinks[0].up
    assert not (features_folder / FILE).exists()


def test_nfd_takes_what_discover_wrote_and_forgets_what_is_removed_or_has_expired(
    cluster: Cluster, features_folder: Path, warboys: SimulatedNode
) -> None:
    firmware = warboys.folder / "sys/class/dmi/id"
    firmware.mkdir(parents=True)
    (firmware / "sys_vendor").write_text("Supermicro, Inc.\n")
    (firmware / "product_name").write_text("SYS-420GP TNR (rev. 2)\n")
    machine = {
        "beta.furiosa.ai/machine.vendor": "Supermicro-Inc",
        "beta.furiosa.ai/machine.name": "SYS-420GP-TNR-rev.-2",
    }
    applied(to_a_file(warboys, features_folder), feature_domains="beta.furiosa.ai")
    devices = {name: value for name, value in WARBOYS.items() if name.startswith("beta.")}
    until_labels(cluster, devices | machine, "the labels")
    (features_folder / FILE).unlink()
    until_labels(cluster, {}, "without the file the labels go")

    lasting = {"accelscope.io/furiosa.count": "2"}
    write_file(features_folder, lasting, expires_at=time.time() + 3600)
    until_labels(cluster, lasting, "the label is there until it expires")
    write_file(features_folder, lasting, expires_at=time.time() - 1)
    until_labels(cluster, {}, "what has expired goes")
