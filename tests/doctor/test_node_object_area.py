"""Whether each enabled sink can write, tested with dry runs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest
from tests.kube.kube_server import refuse
from tests.sinks.node_api import NodeApi
from tests.sinks.snapshots import chip, npu

from accelscope.agent.runner import Result
from accelscope.doctor.check import Finding
from accelscope.doctor.node import Results, advice_for, node_object
from accelscope.kube.endpoint import Reason
from accelscope.model import ReaderState

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

RESULTS: Results = {
    device.vendor: Result(ReaderState(vendor=device.vendor, found=True, up=True), (device,), ())
    for device in (chip(0), npu(0))
}


@pytest.fixture
def api() -> Iterator[NodeApi]:
    made = NodeApi("node-1")
    yield made
    made.close()


def check(node: "NodeFolder", api: NodeApi | None = None, **settings: str) -> dict[str, Finding]:
    there = {} if api is None else {"kube_api_url": api.url, "kube_token_file": "", "node_name": "node-1"}
    subject = node.subject({**there, **settings})
    return {finding.name: finding for finding in node_object(RESULTS, subject)}


def test_disabled_sinks_are_one_finding(node: "NodeFolder") -> None:
    [finding] = check(node).values()
    assert (finding.name, finding.severity) == ("off", "ok")


def test_sinks_that_can_write_are_ok_and_nothing_is_written(node: "NodeFolder", api: NodeApi) -> None:
    before = (dict(api.annotations), dict(api.labels))
    found = check(node, api, npu_annotation="true", devices_annotation="true", feature_labels="node")
    assert {name: finding.severity for name, finding in found.items()} == {"annotation": "ok", "labels": "ok"}
    assert "k8s-monitor.io/npu-metrics (" in found["annotation"].found
    assert (api.annotations, api.labels) == before
    assert {patch.query["dryRun"] for patch in api.patches} == {"All"}


@pytest.mark.parametrize(
    ("fault", "reason", "word"),
    [
        (refuse(403, "nodes is forbidden"), "forbidden", "patch on nodes"),
        (refuse(404), "not_found", "NODE_NAME"),
        (refuse(401), "unauthorized", "--kube-token-file"),
        (refuse(422, "webhook does not support dry run"), "bad_answer", "admission webhook"),
    ],
)
@pytest.mark.parametrize("sink", ["annotation", "labels"])
def test_a_sink_that_cannot_write_is_a_warning_with_advice(
    node: "NodeFolder", api: NodeApi, fault: Callable[..., None], reason: str, word: str, sink: str
) -> None:
    api.fail(fault)
    chosen = {"npu_annotation": "true"} if sink == "annotation" else {"feature_labels": "node"}
    finding = check(node, api, **chosen)[sink]
    assert finding.severity == "warning"
    assert finding.found.startswith(f"{reason}: ")
    assert word in (finding.advice or "")


def test_a_node_without_room_for_annotations_is_a_warning(node: "NodeFolder", api: NodeApi) -> None:
    api.fail(refuse(422, "metadata.annotations: Too long: may not be more than 262144 bytes"))
    finding = check(node, api, npu_annotation="true")["annotation"]
    assert finding.severity == "warning"
    assert finding.found.startswith("too_large: ")
    assert "remove annotations" in (finding.advice or "")


def test_an_annotation_outside_a_cluster_is_an_error(node: "NodeFolder") -> None:
    finding = check(node, npu_annotation="true")["annotation"]
    assert (finding.severity, finding.found) == ("error", "not in a Kubernetes cluster; set --kube-api-url")


def test_the_folder_of_feature_files_must_be_writable(
    node: "NodeFolder", ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    folder = node.folder / "features.d"
    missing = check(node, feature_labels="nfd", feature_file_folder=str(folder))["feature-file"]
    assert missing.severity == "warning"
    assert "hostPath" in (missing.advice or "")
    folder.mkdir(mode=0o755)
    there = check(node, feature_labels="nfd", feature_file_folder=str(folder))["feature-file"]
    assert there.severity == "ok"
    assert list(folder.iterdir()) == []
    folder.chmod(0o555)
    with ordinary_user():
        finding = check(node, feature_labels="nfd", feature_file_folder=str(folder))["feature-file"]
    assert finding.found.startswith("no_permission: ")


def test_every_reason_has_advice() -> None:
    for reason in Reason:
        assert advice_for("labels", reason).endswith(".")
    assert advice_for("feature-file", "no_space").endswith(".")
