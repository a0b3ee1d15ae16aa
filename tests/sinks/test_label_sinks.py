"""Labels straight to the Node, and as a feature file."""

import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.kube.kube_server import refuse
from tests.sinks.node_api import NodeApi
from tests.sinks.snapshots import START, Clock, card, npu, snapshot

from accelscope.agent.assembly import chosen_annotations, writer_of
from accelscope.agent.settings import AgentSettings
from accelscope.model import Device, Health, HealthState, ReaderState, Snapshot, Vendor
from accelscope.sinks.documents import feature_labels
from accelscope.sinks.labels import (
    FILE,
    FeatureFileSink,
    LabelsSink,
    apply_labels,
    check_folder,
    file_text,
    write_file,
)
from accelscope.sinks.sink import PATIENCE_SECONDS, Sink, SinkError

LOST = Health(HealthState.LOST, "gone")


def features(taken: Snapshot) -> Mapping[str, str]:
    return feature_labels(taken.devices)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


class Lab:
    def __init__(self, sink: Sink[Mapping[str, str]], clock: Clock) -> None:
        self.sink = sink
        self.clock = clock

    def collect(
        self, *devices: Device, times: int = 2, readers: tuple[ReaderState, ...] | None = None
    ) -> None:
        for _ in range(times):
            self.clock.now += 10
            self.sink.offer(snapshot(*devices, readers=readers))
            self.sink.step()


@pytest.fixture
def labels(node_api: NodeApi) -> Lab:
    clock = Clock()
    return Lab(LabelsSink(node_api.client(), "node-1", features, timing=clock.timing), clock)


@pytest.fixture
def files(tmp_path: Path) -> Lab:
    clock = Clock()
    return Lab(FeatureFileSink(tmp_path, features, timing=clock.timing), clock)


def test_labels_are_applied_under_our_own_manager_and_others_stay(labels: Lab, node_api: NodeApi) -> None:
    labels.collect(npu(0), npu(1))
    assert node_api.labels["kubernetes.io/arch"] == "amd64"
    assert node_api.labels["beta.furiosa.ai/npu.count"] == "2"
    [patch] = node_api.patches
    assert patch.query == {"fieldManager": "accelscope", "force": "true"}
    document = json.loads(patch.body)
    assert (document["apiVersion"], document["kind"], document["metadata"]["name"]) == (
        "v1",
        "Node",
        "node-1",
    )
    assert all("/" in name for name in document["metadata"]["labels"])


def test_an_outdated_label_is_removed(labels: Lab, node_api: NodeApi) -> None:
    labels.collect(npu(0), npu(1))
    labels.collect(npu(0), npu(1, driver_version="1.9.9, 1111111"))
    assert node_api.labels["furiosa.ai/npu.count"] == "2"
    assert not [name for name in node_api.labels if "driver" in name]
    labels.collect(npu(0, health=LOST), npu(1, health=LOST))
    assert node_api.labels == {"kubernetes.io/arch": "amd64"}


def test_labels_are_written_when_two_snapshots_agree(labels: Lab, node_api: NodeApi) -> None:
    for known in (1, 2, 3, 4):  # a reader that gets to know its cards one by one
        labels.collect(*(npu(n) for n in range(known)), times=1)
    assert node_api.patches == []
    labels.collect(*(npu(n) for n in range(4)), times=1)
    assert node_api.labels["furiosa.ai/npu.count"] == "4"


def test_the_same_labels_are_applied_again_every_ten_minutes(labels: Lab) -> None:
    labels.collect(npu(0), times=62)
    assert labels.sink.state.writes == 2
    assert labels.sink.state.skips == 62 - 3  # the first look is no skip: nothing was known


def test_nothing_is_removed_before_every_driver_responds(labels: Lab, node_api: NodeApi) -> None:
    node_api.labels["furiosa.ai/npu.count"] = "2"
    hung = (ReaderState(vendor=Vendor("furiosa"), found=True, up=False, reason="no answer"),)
    labels.collect(readers=hung, times=5)
    assert node_api.patches == []
    assert labels.sink.state.reason == "no_reading"
    labels.collect(readers=hung, times=int(PATIENCE_SECONDS / 10))
    assert len(node_api.patches) == 1


def test_a_rejected_apply_is_counted_and_retried(labels: Lab, node_api: NodeApi) -> None:
    node_api.fail(refuse(403, "nodes is forbidden"))
    labels.collect(npu(0))
    assert (labels.sink.state.up, labels.sink.state.reason) == (False, "forbidden")
    labels.collect(npu(0), times=8)
    assert labels.sink.state.up


def test_a_feature_file_has_one_label_per_line_and_expires(files: Lab, tmp_path: Path) -> None:
    files.collect(npu(0), npu(1))
    lines = (tmp_path / FILE).read_text().splitlines()
    assert lines[:2] == [
        "# Written by AccelScope, which overwrites changes.",
        "# +expiry-time=2026-01-02T04:04:25Z",
    ]
    assert "beta.furiosa.ai/npu.count=2" in lines
    assert all(line.count("=") == 1 and " " not in line for line in lines[2:])
    assert names(tmp_path) == [FILE]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o644
    files.collect(npu(0), npu(1), times=60)
    assert "# +expiry-time=2026-01-02T04:1" in (tmp_path / FILE).read_text()  # renewed long before its end


def test_without_devices_the_file_is_removed(files: Lab, tmp_path: Path) -> None:
    files.collect(card(0))
    assert (tmp_path / FILE).exists()
    files.collect(card(0, health=LOST))
    assert names(tmp_path) == []
    assert files.sink.state.up


def test_a_file_is_replaced_atomically(tmp_path: Path) -> None:
    write_file(tmp_path, {"a.example/x": "1"})
    with (tmp_path / FILE).open() as before:
        write_file(tmp_path, {"a.example/x": "2"})
        assert before.read().endswith("a.example/x=1\n")
    assert (tmp_path / FILE).read_text() == file_text({"a.example/x": "2"})


@pytest.mark.parametrize("labels", [{"a.example/x": "1"}, {}])
def test_files_of_a_killed_writer_are_removed_with_the_next_write(
    tmp_path: Path, labels: dict[str, str]
) -> None:
    minutes_ago = time.time() - 300
    stay = [".accelscope.0a1b2c3e", ".accelscope-amd.0a1b2c3d", ".accelscope.notes", "accelscope.0a1b2c3d"]
    for name in (".accelscope.0a1b2c3d", *stay):
        (tmp_path / name).write_text("half a li")
        os.utime(tmp_path / name, (minutes_ago, minutes_ago))
    (tmp_path / ".accelscope.0a1b2c3e").touch()  # another process writes it just now
    write_file(tmp_path, labels)
    assert sorted(names(tmp_path)) == sorted([*stay, *([FILE] if labels else [])])


def test_a_planted_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "features.d"
    folder.mkdir()
    (folder / FILE).symlink_to(victim)
    write_file(folder, {"a.example/x": "1"})
    assert victim.read_text() == "mine"
    assert names(folder) == [FILE]
    assert not (folder / FILE).is_symlink()


def test_a_missing_folder_is_reported_and_used_once_it_exists(tmp_path: Path) -> None:
    clock = Clock()
    folder = tmp_path / "features.d"
    lab = Lab(FeatureFileSink(folder, features, timing=clock.timing), clock)
    lab.collect(card(0))
    assert (lab.sink.state.up, lab.sink.state.reason) == (False, "no_folder")
    assert lab.sink.state.error == f"{folder}: No such file or directory"
    folder.mkdir()
    lab.collect(card(0))
    assert lab.sink.state.up
    assert lab.sink.state.last_success == START + 30  # at the first look after the pause


def test_a_folder_is_checked_without_changing_it(tmp_path: Path) -> None:
    check_folder(tmp_path)
    assert names(tmp_path) == []
    with pytest.raises(SinkError) as failed:
        check_folder(tmp_path / "none")
    assert failed.value.reason == "no_folder"
    (tmp_path / "file").touch()
    with pytest.raises(SinkError) as failed:
        check_folder(tmp_path / "file")
    assert failed.value.reason == "no_folder"


def test_two_agents_of_a_node_do_not_remove_each_others_labels(node_api: NodeApi, tmp_path: Path) -> None:
    """As an agent for each of two vendors has: what one applies is not the other's to take away."""
    for vendor in ("amd", "nvidia"):
        writer, label = f"accelscope-{vendor}", f"accelscope.io/{vendor}.count"
        apply_labels(node_api.client(), "node-1", {label: "1"}, writer=writer)
        write_file(tmp_path, {label: "1"}, writer=writer)
    assert {"accelscope.io/amd.count", "accelscope.io/nvidia.count"} <= node_api.labels.keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["accelscope-amd", "accelscope-nvidia"]


def test_a_writer_is_named_by_its_vendors() -> None:
    assert writer_of(AgentSettings()) == "accelscope"
    assert writer_of(AgentSettings(readers=("nvidia", "amd"))) == "accelscope-amd-nvidia"


@pytest.mark.parametrize(
    ("readers", "names"),
    [
        (tuple(Vendor), ("k8s-monitor.io/npu-metrics", "accelscope.io/devices")),
        (("ascend",), ("k8s-monitor.io/npu-metrics", "accelscope.io/devices.ascend")),
        # What another agent of the node writes about Ascend's chips must not be taken away.
        (("nvidia", "amd"), ("accelscope.io/devices.amd-nvidia",)),
    ],
)
def test_each_agent_of_a_node_has_its_own_annotations(
    readers: tuple[str, ...], names: tuple[str, ...]
) -> None:
    settings = AgentSettings(
        vendor_annotations={"npu_annotation": True}, devices_annotation=True, readers=readers
    )
    assert chosen_annotations(settings) == names
