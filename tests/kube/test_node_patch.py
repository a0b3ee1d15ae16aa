"""Changes of the Node object as they go over the wire."""

import json
from collections.abc import Callable
from contextlib import closing

import pytest
from tests.kube.kube_server import KubeServer, refuse

from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, KubeError, Reason
from accelscope.kube.objects import annotations_patch, labels_patch, send


def test_annotations_are_a_merge_patch_of_the_keys_given() -> None:
    patch = annotations_patch("node 1", {"a.example/x": '{"y":1}', "a.example/z": None})
    assert (patch.path, patch.content_type) == ("/api/v1/nodes/node%201", "application/merge-patch+json")
    assert json.loads(patch.body) == {
        "metadata": {"annotations": {"a.example/x": '{"y":1}', "a.example/z": None}}
    }


def test_labels_are_applied_with_a_manager_of_their_own() -> None:
    patch = labels_patch("n", {"a.example/x": "1"}, manager="me & you", dry_run=True)
    assert patch.path == "/api/v1/nodes/n?fieldManager=me%20%26%20you&force=true&dryRun=All"
    assert patch.content_type == "application/apply-patch+yaml"
    assert json.loads(patch.body) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"a.example/x": "1"}},
    }


def test_a_dry_run_says_so() -> None:
    assert annotations_patch("n", {}, dry_run=True).path == "/api/v1/nodes/n?dryRun=All"


def test_only_metadata_is_asked_for_and_the_answer_must_be_that_node(
    serve: Callable[..., KubeServer],
) -> None:
    server = serve(
        lambda peer, _: peer.document(200, {"metadata": {"name": "n"}}),
        lambda peer, _: peer.document(200, {"metadata": {"name": "other"}}),
        lambda peer, _: peer.answer(200, b"[" * 100_000),
        refuse(422, "too long"),
    )
    with closing(Client(Endpoint(server.url))) as client:
        send(client, annotations_patch("n", {"a.example/x": "1"}))
        for reason, status in (
            (Reason.BAD_ANSWER, None),
            (Reason.BAD_ANSWER, None),
            (Reason.BAD_ANSWER, 422),
        ):
            with pytest.raises(KubeError) as failed:
                send(client, annotations_patch("n", {}))
            assert (failed.value.reason, failed.value.status) == (reason, status)
    asked = server.asked[0]
    assert asked.method == "PATCH"
    assert asked.headers["accept"].startswith("application/json;as=PartialObjectMetadata;")
    assert asked.headers["accept"].endswith(",application/json")
