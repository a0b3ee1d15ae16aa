"""Whether each sink that is on may write, asked without a trace."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest
from tests.kube.kube_server import refuse
from tests.sinks.node_api import NodeApi
from tests.sinks.snapshots import chip, npu

from accelscope.agent.runner import Result
from accelscope.doctor.check import Finding
from accelscope.doctor.node_object import Results, node_object, of_reason
from accelscope.kube.errors import Reason
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


def look(node: "NodeFolder", api: NodeApi | None = None, **settings: str) -> dict[str, Finding]:
    there = {} if api is None else {"kube_api_url": api.url, "kube_token_file": "", "node_name": "node-1"}
    subject = node.subject({**there, **settings})
    return {finding.name: finding for finding in node_object(RESULTS, subject)}


def test_what_is_off_is_said_in_one_line(node: "NodeFolder") -> None:
    [finding] = look(node).values()
    assert (finding.name, finding.severity) == ("off", "ok")


def test_sinks_that_may_write_are_fine_and_nothing_is_written(node: "NodeFolder", api: NodeApi) -> None:
    before = (dict(api.annotations), dict(api.labels))
    found = look(node, api, npu_annotation="true", devices_annotation="true", feature_labels="node")
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
        (refuse(422, "webhook does not support dry run"), "bad_answer", "admission webhooks"),
    ],
)
@pytest.mark.parametrize("sink", ["annotation", "labels"])
def test_a_sink_that_may_not_write_is_a_warning_with_advice(
    node: "NodeFolder", api: NodeApi, fault: Callable[..., None], reason: str, word: str, sink: str
) -> None:
    api.fail(fault)
    chosen = {"npu_annotation": "true"} if sink == "annotation" else {"feature_labels": "node"}
    finding = look(node, api, **chosen)[sink]
    assert finding.severity == "warning"
    assert finding.found.startswith(f"{reason}: ")
    assert word in (finding.advice or "")


def test_a_node_whose_annotations_are_full(node: "NodeFolder", api: NodeApi) -> None:
    api.fail(refuse(422, "metadata.annotations: Too long: may not be more than 262144 bytes"))
    finding = look(node, api, npu_annotation="true")["annotation"]
    assert finding.severity == "warning"
    assert finding.found.startswith("too_large: ")
    assert "remove what nobody needs" in (finding.advice or "")


def test_outside_a_cluster_the_settings_are_an_error(node: "NodeFolder") -> None:
    finding = look(node, npu_annotation="true")["annotation"]
    assert (finding.severity, finding.found) == ("error", "not in a cluster; give --kube-api-url")


def test_the_folder_of_feature_files(
    node: "NodeFolder", ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    folder = node.folder / "features.d"
    missing = look(node, feature_labels="nfd", feature_file_folder=str(folder))["feature-file"]
    assert missing.severity == "warning"
    assert "hostPath" in (missing.advice or "")
    folder.mkdir(mode=0o755)
    there = look(node, feature_labels="nfd", feature_file_folder=str(folder))["feature-file"]
    assert there.severity == "ok"
    assert list(folder.iterdir()) == []
    folder.chmod(0o555)
    with ordinary_user():
        finding = look(node, feature_labels="nfd", feature_file_folder=str(folder))["feature-file"]
    assert finding.found.startswith("no_permission: ")


def test_every_reason_has_advice() -> None:
    for reason in Reason:
        assert of_reason("labels", reason).endswith((".", "?"))
    assert of_reason("feature-file", "no_space").endswith(".")
