"""Nodes and pods reduced to the stored fields, and the recognition of driver pods."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelscope.fleet.api_server.objects import (
    decode_agent_pod,
    decode_driver_pod,
    decode_node,
    pod_key,
)
from accelscope.kube.endpoint import DecodeError


def node(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n1", **parts.pop("metadata", {})}, **parts}


def test_a_node_has_labels_a_state_and_accelerators() -> None:
    allocatable = {
        "cpu": "96",
        "memory": "1056270412Ki",
        "nvidia.com/gpu": "8",
        "nvidia.com/mig-1g.10gb": "7",
        "nvidia.com/gpu.shared": "16",
        "nvidia.com/gpumem": "81920",
        "nvidia.com/gpucores": "100",
        "nvidia.com/gpumem-percentage": "100",
        "nvidia.com/rdma_shared_device": "63",
        "amd.com/gpu": "0",
        "huawei.com/Ascend910": "0",
        "huawei.com/Ascend910B-memory": "65536",
        "beta.furiosa.ai/npu": "2",
        "furiosa.ai/rngd-1core.6gb": "8",
        "example.com/gpu": "1",
        "evilnvidia.com/gpu": "1",
        "nvidia.com/pgpu": "many",
    }
    found = decode_node(
        node(
            metadata={
                "labels": {"a": "b", "ü": "x"},
                "annotations": {"k8s-monitor.io/npu-metrics": "{}", "accelscope.io/devices": "[]", "x": "y"},
            },
            status={
                "capacity": {"huawei.com/Ascend910": "8"},
                "allocatable": allocatable,
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"},
                    {"type": "Ready", "status": "True"},
                ],
            },
        )
    )
    assert found.name == "n1"
    assert found.labels == {"a": "b"}
    assert found.ready
    assert found.accelerators == {
        "nvidia.com/gpu": 8,
        "nvidia.com/mig-1g.10gb": 7,
        "nvidia.com/gpu.shared": 16,
        "huawei.com/Ascend910": 0,
        "beta.furiosa.ai/npu": 2,
        "furiosa.ai/rngd-1core.6gb": 8,
    }
    assert found.vendor_annotations == (("k8s-monitor.io/npu-metrics", "{}"),)
    assert found.devices_annotation == "[]"


def test_a_bare_node_is_decoded() -> None:
    found = decode_node(node())
    assert (found.labels, found.ready, found.accelerators, found.vendor_annotations) == ({}, False, {}, ())


@pytest.mark.parametrize(
    "annotation",
    ["x" * 100_000, "\ud800"],
    ids=["far too long", "half a character"],
)
def test_an_invalid_annotation_is_omitted(annotation: str) -> None:
    found = decode_node(node(metadata={"annotations": {"k8s-monitor.io/npu-metrics": annotation}}))
    assert found.vendor_annotations == ()


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"metadata": {}},
        {"metadata": {"name": ""}},
        {"metadata": {"name": "../../secrets"}},
        {"metadata": {"name": "n", "labels": [1]}},
        {"metadata": {"name": "n"}, "status": 3},
    ],
)
def test_invalid_objects_are_rejected(document: object) -> None:
    decoders: tuple[Callable[[object], object], ...] = (decode_node, decode_agent_pod, decode_driver_pod)
    for decode in decoders:
        with pytest.raises(DecodeError):
            decode(document)


def pod(
    labels: dict[str, str],
    containers: tuple[str, ...] = ("nvidia-driver-ctr",),
    *,
    ready: tuple[str, ...] = ("nvidia-driver-ctr",),
    state: str = "running",
    **metadata: object,
) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "gpu-operator", "labels": labels, **metadata},
        "spec": {"nodeName": "n1", "containers": [{"name": name} for name in containers]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": name, "ready": name in ready, "state": {state: {}}} for name in containers
            ],
        },
    }


CLASSIC = {"app": "nvidia-driver-daemonset"}
BESIDE = ("nvidia-peermem-ctr", "nvidia-driver-ctr", "openshift-driver-toolkit-ctr")


@pytest.mark.parametrize(
    ("labels", "containers", "container"),
    [
        (CLASSIC, BESIDE, "nvidia-driver-ctr"),
        ({"app": "nvidia-driver-daemonset-410.84.202201251210-0"}, BESIDE, "nvidia-driver-ctr"),
        ({"app": "nvidia-gpu-driver-ubuntu22.04-7c6d"}, ("nvidia-driver-ctr",), "nvidia-driver-ctr"),
        (
            {"app": "renamed", "app.kubernetes.io/component": "nvidia-driver"},
            ("nvidia-driver-ctr",),
            "nvidia-driver-ctr",
        ),
        (
            {"app": "nvidia-vgpu-manager-daemonset"},
            ("nvidia-vgpu-manager-ctr",),
            "nvidia-vgpu-manager-ctr",
        ),
        (
            {"app.kubernetes.io/component": "nvidia-vgpu-host-manager"},
            ("nvidia-driver-ctr",),
            "nvidia-driver-ctr",
        ),
        ({"app": "nvidia-device-plugin-daemonset"}, ("nvidia-device-plugin",), None),
        ({"app": "nvidia-device-plugin-daemonset"}, ("nvidia-driver-ctr",), None),
        (CLASSIC, ("openshift-driver-toolkit-ctr",), None),
        ({}, ("nvidia-driver-ctr",), None),
    ],
)
def test_a_driver_pod_is_recognised_by_its_labels(
    labels: dict[str, str], containers: tuple[str, ...], container: str | None
) -> None:
    found = decode_driver_pod(pod(labels, containers, ready=containers))
    assert found.container == container
    assert found.ready == (container is not None)
    assert pod_key(found) == "gpu-operator/p"


@pytest.mark.parametrize(
    "document",
    [
        pod(CLASSIC, ready=()),
        pod(CLASSIC, BESIDE, ready=("nvidia-peermem-ctr",)),
        pod(CLASSIC, state="waiting"),
        pod(CLASSIC, deletionTimestamp="2026-01-01T00:00:00Z"),
        {**pod(CLASSIC), "status": {"phase": "Pending"}},
    ],
)
def test_a_driver_that_is_not_up_is_not_ready(document: dict[str, Any]) -> None:
    found = decode_driver_pod(document)
    assert found.container == "nvidia-driver-ctr"
    assert not found.ready


def test_the_container_is_found_in_the_templates_of_the_operator(captures: Path) -> None:
    templates = sorted((captures / "k8s").glob("gpu-operator_*.yaml"))
    assert len(templates) >= 4
    for path in templates:
        template = yaml.safe_load(path.read_text())["spec"]["template"]
        names = tuple(container["name"] for container in template["spec"]["containers"])
        document = pod(template["metadata"]["labels"], names, ready=names)
        found = decode_driver_pod(document)
        wanted = template["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"]
        assert (found.container, found.ready) == (wanted, True), path.name


def test_an_agent_pod_has_an_address_and_a_state() -> None:
    document = {
        "metadata": {"name": "accelscope-x", "namespace": "accelscope"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "agent", "ports": [{"name": "metrics", "containerPort": 9400}]}],
        },
        "status": {"podIP": "10.1.2.3", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    found = decode_agent_pod(document)
    assert (found.node, found.ip, found.ready, found.ports) == ("n1", "10.1.2.3", True, {"metrics": 9400})
    pending = decode_agent_pod({"metadata": {"name": "a", "namespace": "b"}, "spec": {}, "status": {}})
    assert (pending.node, pending.ip, pending.ready) == (None, None, False)
