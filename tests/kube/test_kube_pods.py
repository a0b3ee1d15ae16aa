"""Pods and nodes as far as they are kept."""

import gc
import json
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.kube.endpoint import DecodeError
from accelscope.kube.listwatch import ListSplitter, node_path, one_node, pods_of, resource_slices_of
from accelscope.kube.objects import KubeNode, KubePod, PodContainer, decode_node, decode_pod

ID = "0123456789abcdef" * 4
NOTHING: frozenset[str] = frozenset()


def document(**metadata: object) -> dict[str, Any]:
    return {"metadata": {"uid": "u-1", "namespace": "team", "name": "train", **metadata}}


def controller(kind: str, name: str) -> list[dict[str, object]]:
    return [{"kind": "ConfigMap", "name": "other"}, {"kind": kind, "name": name, "controller": True}]


def test_a_whole_pod() -> None:
    found = decode_pod(
        {
            **document(
                labels={"app": "llm", "team": "vision", "pod-template-hash": "5d4f"},
                annotations={
                    "hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1024,20:;",
                    "hami.io/Ascend910B3-devices-allocated": "x",
                    "hami.io/vgpu-mig-allocations": "y",
                    "hami.io/vgpu-devices-to-allocate": ";",
                    "other.io/vgpu-devices-allocated": "z",
                },
                ownerReferences=controller("ReplicaSet", "train-5d4f"),
            ),
            "spec": {
                "containers": [{"name": "main"}, {"name": "side"}],
                "initContainers": [{"name": "prepare"}],
                "ephemeralContainers": [{"name": "debug"}],
            },
            "status": {
                "phase": "Running",
                "containerStatuses": [
                    {"name": "side", "containerID": f"cri-o://{ID}"},
                    {"name": "main", "containerID": "containerd://aa"},
                ],
                "initContainerStatuses": [{"name": "prepare", "containerID": "docker://bb"}],
                "ephemeralContainerStatuses": [{"name": "debug", "containerID": ""}],
            },
        },
        frozenset({"team", "absent"}),
    )
    assert found == KubePod(
        uid="u-1",
        namespace="team",
        name="train",
        phase="Running",
        owner_kind="Deployment",
        owner_name="train",
        labels=(("team", "vision"),),
        annotations=(
            ("hami.io/Ascend910B3-devices-allocated", "x"),
            ("hami.io/vgpu-devices-allocated", "GPU-1,NVIDIA,1024,20:;"),
            ("hami.io/vgpu-mig-allocations", "y"),
        ),
        containers=(
            PodContainer("main", "aa"),
            PodContainer("side", ID),
            PodContainer("prepare", "bb"),
            PodContainer("debug", None),
        ),
        container_count=2,
        init_count=1,
    )


@pytest.mark.parametrize(
    ("labels", "references", "owner"),
    [
        ({"pod-template-hash": "5d4f"}, controller("ReplicaSet", "web-app-5d4f"), ("Deployment", "web-app")),
        ({"pod-template-hash": "5d4f"}, controller("ReplicaSet", "web-app"), ("ReplicaSet", "web-app")),
        ({"pod-template-hash": "5d4f"}, controller("ReplicaSet", "-5d4f"), ("ReplicaSet", "-5d4f")),
        ({"pod-template-hash": "5d4f"}, controller("ReplicaSet", "web5d4f"), ("ReplicaSet", "web5d4f")),
        ({}, controller("ReplicaSet", "web-app-5d4f"), ("ReplicaSet", "web-app-5d4f")),
        ({"pod-template-hash": "5d4f"}, controller("Job", "x-5d4f"), ("Job", "x-5d4f")),
        ({}, controller("StatefulSet", "db"), ("StatefulSet", "db")),
        ({}, controller("Node", "node-1"), ("Node", "node-1")),
        ({}, [{"kind": "Job", "name": "not the controller"}], (None, None)),
        ({}, [{"kind": "Job", "controller": True}], (None, None)),
        ({}, [], (None, None)),
        ({}, None, (None, None)),
        (None, ["junk", 7], (None, None)),
    ],
)
def test_owners(labels: object, references: object, owner: tuple[str | None, str | None]) -> None:
    found = decode_pod(document(labels=labels, ownerReferences=references), NOTHING)
    assert (found.owner_kind, found.owner_name) == owner


@pytest.mark.parametrize("key", ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"])
def test_a_static_pod_is_found_by_its_hash(key: str) -> None:
    assert decode_pod(document(annotations={key: "ab" * 16}), NOTHING).config_hash == "ab" * 16


@pytest.mark.parametrize(
    ("phase", "ended"),
    [
        ("Pending", False),
        ("Running", False),
        ("Unknown", False),
        ("Succeeded", True),
        ("Failed", True),
        (None, False),
    ],
)
def test_ended(phase: str | None, ended: bool) -> None:
    assert decode_pod({**document(), "status": {"phase": phase}}, NOTHING).ended is ended


@pytest.mark.parametrize(
    "junk",
    [
        None,
        7,
        "pod",
        [],
        {},
        {"metadata": []},
        {"metadata": {"uid": "u", "name": "n"}},
        document(uid=7),
        document(name=""),
    ],
)
def test_what_is_no_pod(junk: object) -> None:
    with pytest.raises(DecodeError):
        decode_pod(junk, NOTHING)


def test_half_a_character_costs_itself_only() -> None:
    half = json.loads('"\\ud83d"')
    allocated = {"hami.io/x-devices-allocated": half}
    found = decode_pod(document(labels={"a": half, "b": "good"}, annotations=allocated), frozenset("ab"))
    assert (found.labels, found.annotations) == ((("b", "good"),), ())


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "spec",
                    "status",
                    "uid",
                    "name",
                    "namespace",
                    "labels",
                    "annotations",
                    "kind",
                    "phase",
                    "ownerReferences",
                    "controller",
                    "containers",
                    "containerStatuses",
                    "containerID",
                    "a",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["labels", "annotations", "ownerReferences"]), JUNK), JUNK, JUNK, JUNK)
def test_parts_of_any_type_are_left_out(
    metadata: dict[str, Any], spec: object, status: object, anything: object
) -> None:
    found = decode_pod({**document(**metadata), "spec": spec, "status": status}, frozenset("a"))
    assert found.uid == "u-1"
    for part in (found, *found.containers):
        hash(part)
    for decode in (decode_pod, decode_node):
        with suppress(DecodeError):
            decode(anything, NOTHING)


def test_nodes() -> None:
    node = {"metadata": {"name": "gpu-1", "labels": {"zone": "a", "rack": "7", "other": "x"}}}
    assert decode_node(node, frozenset({"zone", "rack"})) == KubeNode("gpu-1", (("rack", "7"), ("zone", "a")))
    assert decode_node({"metadata": {"name": "bare"}}, frozenset({"zone"})) == KubeNode("bare", ())
    with pytest.raises(DecodeError):
        decode_node({"metadata": {}}, NOTHING)


def test_paths() -> None:
    pods = pods_of("gpu-1&x=y")
    (path,) = pods.paths
    selector = "fieldSelector=spec.nodeName%3Dgpu-1%26x%3Dy"
    assert pods.list_path(path) == f"/api/v1/pods?{selector}&resourceVersion=0"
    assert pods.list_path(path, from_cache=False) == f"/api/v1/pods?{selector}"
    assert pods.list_path(path, continue_token="a/b=") == f"/api/v1/pods?{selector}&continue=a%2Fb%3D"
    assert pods.watch_path(path, "12", 300) == (
        f"/api/v1/pods?{selector}&watch=true&allowWatchBookmarks=true&resourceVersion=12&timeoutSeconds=300"
    )
    assert one_node("n").list_path("/api/v1/nodes") == (
        "/api/v1/nodes?fieldSelector=metadata.name%3Dn&resourceVersion=0"
    )
    assert node_path("a/b") == "/api/v1/nodes/a%2Fb"
    assert resource_slices_of("n", ("v1", "v1beta1")).paths == (
        "/apis/resource.k8s.io/v1/resourceslices",
        "/apis/resource.k8s.io/v1beta1/resourceslices",
    )


def large_pod(number: int) -> dict[str, object]:
    """About 20 KB, as pods with many volumes, variables and conditions are."""
    name = f"trainer-{number:03}-7c9d8b6f5d-x{number:04}"
    variables = [{"name": f"VARIABLE_{n}", "value": f"{number} {n} " + "v" * 120} for n in range(100)]
    return {
        "metadata": {
            "uid": f"{number:08}-1111-2222-3333-444444444444",
            "namespace": f"team-{number % 5}",
            "name": name,
            "labels": {"app": f"trainer-{number % 9}", "pod-template-hash": "7c9d8b6f5d"},
            "annotations": {f"note-{n}": "n" * 50 for n in range(30)},
            "ownerReferences": controller("ReplicaSet", f"trainer-{number:03}-7c9d8b6f5d"),
        },
        "spec": {"containers": [{"name": "main", "env": variables}, {"name": "side"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "main", "containerID": f"containerd://{number:064x}"},
                {"name": "side", "containerID": f"containerd://{number + 1000:064x}"},
            ],
        },
    }


def test_a_pod_of_20_kb_costs_a_few_hundred_bytes_and_a_list_is_never_whole() -> None:
    content = json.dumps({"items": [large_pod(number) for number in range(110)]}).encode()
    assert len(content) > 110 * 19_000
    pieces = [content[start : start + 16384] for start in range(0, len(content), 16384)]
    keep = frozenset({"app"})
    decode_pod(large_pod(0), keep)
    gc.collect()
    tracemalloc.start()
    try:
        splitter = ListSplitter()
        pods = [decode_pod(item, keep) for piece in pieces for item in splitter.feed(piece)]
        assert list(splitter.close()) == []
        del splitter
        gc.collect()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(pods) == 110
    assert held / 110 < 1000
    assert peak < 500_000
