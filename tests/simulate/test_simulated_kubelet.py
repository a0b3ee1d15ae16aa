"""The kubelet of a simulated cluster, as grpc's own client sees it."""

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest
from grpc_tools import protoc

from accelscope.simulate import SimulatedNode, load_node, read_node
from accelscope.simulate.kubernetes import SimulatedCluster

PATIENCE_SECONDS = 30.0
PROTO = Path(__file__).parent / "podresources" / "held_devices.proto"
LIST = "/v1.PodResourcesLister/List"


@pytest.fixture(scope="session")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("compiled")
    command = ["protoc", f"-I{PROTO.parent}", f"--python_out={folder}", PROTO.name]
    assert protoc.main(command) == 0
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("held_devices_pb2")
    finally:
        sys.path.remove(str(folder))


def ask(
    cluster: SimulatedCluster, messages: ModuleType, method: str = LIST, *, wait_for_ready: bool = False
) -> Any:
    address = f"unix:{cluster.agent_settings()['pod_resources_socket']}"
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = channel.unary_unary(
            method,
            request_serializer=messages.Request.SerializeToString,
            response_deserializer=messages.Response.FromString,
        )
        return call(messages.Request(), timeout=PATIENCE_SECONDS, wait_for_ready=wait_for_ready)


def table(answer: Any) -> dict[str, list[tuple[str, list[str], list[int]]]]:
    """By pod and container: resource, ids, NUMA nodes."""
    return {
        f"{pod.namespace}/{pod.name}/{box.name}": [
            (devices.resource_name, list(devices.device_ids), [node.id for node in devices.topology.nodes])
            for devices in box.devices
        ]
        for pod in answer.pods
        for box in pod.containers
    }


def test_every_pod_is_listed_with_its_devices(tmp_path: Path, messages: ModuleType) -> None:
    node = SimulatedNode(load_node("mixed"), tmp_path / "node")
    with SimulatedCluster(node, tmp_path / "k", extra_pods=2) as cluster:
        found = table(ask(cluster, messages))
    expected = {
        f"{pod.namespace}/{pod.name}/{box.name}": {
            (grant.resource, grant.device_id, grant.device.numa_node) for grant in box.grants
        }
        for pod in node.pods
        for box in pod.containers
    }
    shown = {
        name: {(resource, id_, numa[0]) for resource, ids, numa in entries for id_ in ids}
        for name, entries in found.items()
    }
    assert {name: held for name, held in shown.items() if not name.startswith("web/")} == expected
    assert [held for name, held in shown.items() if name.startswith("web/")] == [set(), set()]


def test_ids_stand_together_by_numa_node(tmp_path: Path, messages: ModuleType) -> None:
    node = SimulatedNode(load_node("nvidia-h100x8"), tmp_path / "node")
    with SimulatedCluster(node, tmp_path / "k") as cluster:
        found = table(ask(cluster, messages))
    for entries in found.values():
        assert [(resource, len(ids), numa) for resource, ids, numa in entries] == [
            ("nvidia.com/gpu", 4, [0]),
            ("nvidia.com/gpu", 4, [1]),
        ]


def test_it_follows_the_node(tmp_path: Path, messages: ModuleType) -> None:
    text = """
nvidia: {devices: [{model: t4}]}
processes: [{name: p, until: 50, cgroup: {kind: pod, namespace: a, pod: first}}]
pods: [{name: second, namespace: a, container: c, device: 0, from: 50}]
"""
    node = SimulatedNode(read_node(text), tmp_path / "node")
    with SimulatedCluster(node, tmp_path / "k") as cluster:
        [first] = table(ask(cluster, messages)).items()
        node.write(60)
        [second] = table(ask(cluster, messages)).items()
    assert (first[0], second[0]) == ("a/first/p", "a/second/c")
    assert first[1] == second[1]  # one card, one after the other


def test_an_answer_that_is_bigger_than_a_window_arrives(tmp_path: Path, messages: ModuleType) -> None:
    node = SimulatedNode(load_node("nvidia-shared"), tmp_path / "node")
    with SimulatedCluster(node, tmp_path / "k", extra_pods=4000) as cluster:
        answer = ask(cluster, messages)
    assert answer.ByteSize() > 2 * 65_535
    assert len(answer.pods) == 4000 + len(node.pods)


def test_several_calls_on_one_connection(tmp_path: Path, messages: ModuleType) -> None:
    node = SimulatedNode(load_node("nvidia-shared"), tmp_path / "node")
    with SimulatedCluster(node, tmp_path / "k", extra_pods=1000) as cluster:
        address = f"unix:{cluster.agent_settings()['pod_resources_socket']}"
        with grpc.insecure_channel(address) as channel:
            call = channel.unary_unary(
                LIST,
                request_serializer=messages.Request.SerializeToString,
                response_deserializer=messages.Response.FromString,
            )
            together = [call.future(messages.Request(), timeout=PATIENCE_SECONDS) for _ in range(10)]
            answers = {answer.result().SerializeToString() for answer in together}
    assert len(answers) == 1


def test_unknown_methods_are_unimplemented(tmp_path: Path, messages: ModuleType) -> None:
    node = SimulatedNode(load_node("nvidia-shared"), tmp_path / "node")
    with SimulatedCluster(node, tmp_path / "k") as cluster, pytest.raises(grpc.RpcError) as caught:
        ask(cluster, messages, "/v1alpha1.PodResourcesLister/List")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_kubelet_that_restarts_has_a_new_socket(tmp_path: Path, messages: ModuleType) -> None:
    node = SimulatedNode(load_node("nvidia-shared"), tmp_path / "node")
    with SimulatedCluster(node, tmp_path / "k") as cluster:
        path = Path(cluster.agent_settings()["pod_resources_socket"])
        assert path.is_socket()
        cluster.kubelet_down()
        assert not path.exists()
        with pytest.raises(grpc.RpcError) as caught:
            ask(cluster, messages)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        cluster.kubelet_up()
        assert len(ask(cluster, messages, wait_for_ready=True).pods) == len(node.pods)
    assert not path.exists()
    assert [thread.name for thread in threading.enumerate() if "simulated" in thread.name] == []


def test_the_socket_is_elsewhere_where_its_path_would_be_too_long(
    tmp_path: Path, messages: ModuleType
) -> None:
    node = SimulatedNode(load_node("nvidia-shared"), tmp_path / "node")
    with SimulatedCluster(node, tmp_path / ("long" * 30)) as cluster:
        path = Path(cluster.agent_settings()["pod_resources_socket"])
        assert len(str(path)) <= 107
        assert len(ask(cluster, messages).pods) == len(node.pods)
    assert not path.parent.exists()
