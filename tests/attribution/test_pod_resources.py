"""The kubelet's pod-resources: our decoder against messages that Google's library encoded, and our client
against a server of grpcio's."""

import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.pod_resources import (
    Claim,
    ClaimDevice,
    ContainerResources,
    PodResources,
    PodResourcesClient,
    ResourceDevices,
    decode,
)
from accelscope.kube.endpoint import DecodeError
from accelscope.kube.unary import UnaryError, UnaryReason

PROTOS = Path(__file__).with_name("podresources")
PATIENCE = 20.0


@pytest.fixture(scope="session")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleType]:
    """The messages of each version, compiled by protoc: an own encoder would prove nothing."""
    from grpc_tools import protoc  # noqa: PLC0415 - brings a compiler, for these tests only

    folder = tmp_path_factory.mktemp("podresources")
    made = {}
    for version in ("v1", "v1alpha1"):
        name = f"podresources_{version}"
        arguments = ["protoc", f"-I{PROTOS}", f"--python_out={folder}", f"{PROTOS / name}.proto"]
        assert protoc.main(arguments) == 0
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}_pb2.py")
        assert spec is not None
        assert spec.loader is not None
        made[version] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made[version])
    return made


@pytest.fixture
def v1(messages: dict[str, ModuleType]) -> Any:
    return messages["v1"]


@pytest.fixture
def socket_path(tmp_path: Path) -> str:
    return str(tmp_path / "kubelet.sock")


Lister = Callable[[], bytes]


@contextmanager
def kubelet(path: str, **versions: Lister) -> Iterator[None]:
    """Serves List in the given versions."""
    server = grpc.server(
        ThreadPoolExecutor(max_workers=2),
        [
            grpc.method_handlers_generic_handler(
                f"{version}.PodResourcesLister",
                {"List": grpc.unary_unary_rpc_method_handler(lambda *_, answer=answer: answer())},
            )
            for version, answer in versions.items()
        ],
        options=[("grpc.max_send_message_length", -1)],
    )
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield
    finally:
        server.stop(grace=None).wait()


def failure(client: PodResourcesClient) -> UnaryReason:
    with pytest.raises(UnaryError) as caught:
        client.list()
    assert client.version is None
    return caught.value.reason


def listed(messages: Any, *pods: Any) -> bytes:
    answer: bytes = messages.ListPodResourcesResponse(pod_resources=pods).SerializeToString()
    return answer


def test_one_entry_with_many_ids(v1: Any) -> None:
    devices = v1.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["GPU-a", "GPU-b"])
    container = v1.ContainerResources(name="train", devices=[devices], cpu_ids=[1, 2, 300])
    pod = v1.PodResources(name="job-0", namespace="team", containers=[container])
    assert decode(listed(v1, pod)) == (
        PodResources(
            "team",
            "job-0",
            (ContainerResources("train", (ResourceDevices("nvidia.com/gpu", ("GPU-a", "GPU-b")),)),),
        ),
    )


def test_entries_per_device_and_numa_node_are_merged(v1: Any) -> None:
    def entry(resource: str, *ids: str, numa: int) -> Any:
        topology = v1.TopologyInfo(nodes=[v1.NUMANode(ID=numa)])
        return v1.ContainerDevices(resource_name=resource, device_ids=ids, topology=topology)

    container = v1.ContainerResources(
        name="train",
        devices=[
            entry("nvidia.com/gpu", "GPU-b", numa=1),
            entry("rdma/hca", "mlx5_0", numa=0),
            entry("nvidia.com/gpu", "GPU-a", "GPU-b", numa=0),
            entry("nvidia.com/gpu", "GPU-c", numa=1),
        ],
        memory=[v1.ContainerMemory(memory_type="memory", size=1 << 40)],
    )
    (pod,) = decode(listed(v1, v1.PodResources(name="p", namespace="n", containers=[container])))
    assert pod.containers[0].devices == (
        ResourceDevices("nvidia.com/gpu", ("GPU-b", "GPU-a", "GPU-c")),
        ResourceDevices("rdma/hca", ("mlx5_0",)),
    )


def test_claims(v1: Any) -> None:
    shared = v1.ClaimResource(
        driver_name="gpu.nvidia.com",
        pool_name="node-a",
        device_name="gpu-0",
        share_id="7",
        cdi_devices=[v1.CDIDevice(name="k8s.gpu.nvidia.com/device=gpu-0"), v1.CDIDevice(name="x/y=z")],
    )
    old = v1.ClaimResource(cdi_devices=[v1.CDIDevice(name="vendor.example/gpu=one")])
    claims = [
        v1.DynamicResource(
            class_name="gpu", claim_name="c1", claim_namespace="team", claim_resources=[shared, shared, old]
        ),
        v1.DynamicResource(claim_name="c2", claim_namespace="team"),
    ]
    container = v1.ContainerResources(name="app", dynamic_resources=claims)
    (pod,) = decode(listed(v1, v1.PodResources(name="p", namespace="team", containers=[container])))
    assert pod.containers == (
        ContainerResources(
            "app",
            claims=(
                Claim(
                    "team",
                    "c1",
                    (
                        ClaimDevice(
                            *("gpu.nvidia.com", "node-a", "gpu-0", "7"),
                            cdi=("k8s.gpu.nvidia.com/device=gpu-0", "x/y=z"),
                        ),
                        ClaimDevice("", "", "", cdi=("vendor.example/gpu=one",)),
                    ),
                ),
                Claim("team", "c2", ()),
            ),
        ),
    )


def test_containers_without_devices_are_left_out(v1: Any) -> None:
    empty = v1.ContainerResources(name="sidecar", cpu_ids=[0, 1])
    no_ids = v1.ContainerResources(name="odd", devices=[v1.ContainerDevices(resource_name="nvidia.com/gpu")])
    holder = v1.ContainerResources(
        name="app", devices=[v1.ContainerDevices(resource_name="amd.com/gpu", device_ids=["0000:03:00.0"])]
    )
    pods = decode(
        listed(
            v1,
            v1.PodResources(name="none", namespace="n"),
            v1.PodResources(name="idle", namespace="n", containers=[empty, no_ids]),
            v1.PodResources(name="busy", namespace="n", containers=[empty, holder, no_ids]),
        )
    )
    assert [(pod.name, [container.name for container in pod.containers]) for pod in pods] == [
        ("busy", ["app"])
    ]


def test_the_older_version_has_the_same_field_numbers(messages: dict[str, ModuleType]) -> None:
    old: Any = messages["v1alpha1"]
    devices = old.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["GPU-a"])
    container = old.ContainerResources(name="c", devices=[devices])
    pod = old.PodResources(name="p", namespace="n", containers=[container])
    assert decode(listed(old, pod)) == (
        PodResources("n", "p", (ContainerResources("c", (ResourceDevices("nvidia.com/gpu", ("GPU-a",)),)),)),
    )


GOOD = b"\x0a\x11\x0a\x01p\x12\x01n\x1a\x09\x0a\x01c\x12\x04\x0a\x00\x12\x00"
UNKNOWN_FIELDS = b"\x38\x96\x01\x39" + bytes(8) + b"\x3d" + bytes(4) + b"\x3a\x02hi"


def test_unknown_fields_are_ignored() -> None:
    held = decode(GOOD)
    assert held[0].containers[0].devices == (ResourceDevices("", ("",)),)
    assert decode(UNKNOWN_FIELDS + GOOD + UNKNOWN_FIELDS) == held


@pytest.mark.parametrize(
    "message",
    [
        *(GOOD[:end] for end in (1, 2, 10, len(GOOD) - 1)),
        b"\x0a\x05abc",  # longer than what is there
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # 2^64 bytes
        b"\x0a" + b"\x80" * 11 + b"\x01",  # a number without an end
        b"\x08",  # a number that is not there
        b"\x08\x01",  # a number instead of a pod
        b"\x39\0\0",  # half of eight bytes
        b"\x3d\0",  # half of four
        b"\x0b",  # groups, which are no more
        b"\x0f",  # a wire type that is none
        b"\x02\x00",  # field 0
        b"\x0a\x03\x0a\x01\xff",  # a name that is not UTF-8
        b"<html>",
        b'{"podResources": []}',
    ],
)
def test_malformed_messages_are_errors(message: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(message)


@given(st.binary(max_size=400))
def test_random_bytes_raise_only_decode_errors(message: bytes) -> None:
    with suppress(DecodeError):
        decode(message)


@given(st.data())
def test_a_damaged_message_raises_only_decode_errors(messages: dict[str, ModuleType], data: Any) -> None:
    whole = bytearray(data.draw(responses(messages["v1"])).SerializeToString())
    if whole:
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DecodeError):
        decode(bytes(whole[: data.draw(st.integers(0, len(whole)))]))


NAMES = st.text(max_size=12)


@cache
def responses(v1: Any) -> st.SearchStrategy[Any]:
    devices = st.builds(
        v1.ContainerDevices,
        resource_name=NAMES,
        device_ids=st.lists(NAMES, max_size=4),
        topology=st.builds(
            v1.TopologyInfo,
            nodes=st.lists(st.builds(v1.NUMANode, ID=st.integers(-(2**63), 2**63 - 1)), max_size=2),
        ),
    )
    claimed = st.builds(
        v1.ClaimResource,
        cdi_devices=st.lists(st.builds(v1.CDIDevice, name=NAMES), max_size=2),
        driver_name=NAMES,
        pool_name=NAMES,
        device_name=NAMES,
        share_id=st.none() | NAMES,
    )
    claims = st.builds(
        v1.DynamicResource,
        class_name=NAMES,
        claim_name=NAMES,
        claim_namespace=NAMES,
        claim_resources=st.lists(claimed, max_size=3),
    )
    containers = st.builds(
        v1.ContainerResources,
        name=NAMES,
        devices=st.lists(devices, max_size=3),
        cpu_ids=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
        memory=st.lists(st.builds(v1.ContainerMemory, size=st.integers(0, 2**64 - 1)), max_size=1),
        dynamic_resources=st.lists(claims, max_size=2),
    )
    pods = st.builds(
        v1.PodResources, name=NAMES, namespace=NAMES, containers=st.lists(containers, max_size=3)
    )
    return st.builds(v1.ListPodResourcesResponse, pod_resources=st.lists(pods, max_size=3))


def as_held(response: Any) -> tuple[PodResources, ...]:
    """What Google's library reads in it, without those that hold nothing."""
    pods = (
        PodResources(pod.namespace, pod.name, tuple(filter(None, map(container_as_held, pod.containers))))
        for pod in response.pod_resources
    )
    return tuple(pod for pod in pods if pod.containers)


def container_as_held(container: Any) -> ContainerResources | None:
    held: dict[str, list[str]] = {}
    for entry in container.devices:
        held.setdefault(entry.resource_name, []).extend(entry.device_ids)
    devices = tuple(ResourceDevices(name, tuple(dict.fromkeys(ids))) for name, ids in held.items() if ids)
    claims = dict.fromkeys(
        Claim(
            claim.claim_namespace,
            claim.claim_name,
            tuple(dict.fromkeys(map(claimed_as_held, claim.claim_resources))),
        )
        for claim in container.dynamic_resources
    )
    return ContainerResources(container.name, devices, tuple(claims)) if devices or claims else None


def claimed_as_held(claimed: Any) -> ClaimDevice:
    return ClaimDevice(
        claimed.driver_name,
        claimed.pool_name,
        claimed.device_name,
        share_id=claimed.share_id or None,
        cdi=tuple(device.name for device in claimed.cdi_devices if device.name),
    )


@given(st.data())
def test_the_decoder_agrees_with_googles_library(messages: dict[str, ModuleType], data: Any) -> None:
    response = data.draw(responses(messages["v1"]))
    assert decode(response.SerializeToString()) == as_held(response)


def test_a_response_of_a_real_kubelet_is_decoded(v1: Any, captures: Path) -> None:
    from google.protobuf.json_format import ParseDict  # noqa: PLC0415 - for this test only

    document = json.loads((captures / "k8s" / "podresources_list_1gpu.json").read_text())
    [pod] = document["podResources"]
    [container] = pod["containers"]
    [device] = container["devices"]
    message = ParseDict(document, v1.ListPodResourcesResponse()).SerializeToString()
    assert decode(message) == (
        PodResources(
            pod["namespace"],
            pod["name"],
            (
                ContainerResources(
                    "gpu-container", (ResourceDevices("nvidia.com/gpu", tuple(device["deviceIds"])),)
                ),
            ),
        ),
    )


def node_of(v1: Any, pods: int, devices: int) -> bytes:
    """A node as 1.34 lists it: an entry per device."""
    return listed(
        v1,
        *(
            v1.PodResources(
                name=f"pod-{pod}",
                namespace="team",
                containers=[
                    v1.ContainerResources(
                        name="app",
                        devices=[
                            v1.ContainerDevices(
                                resource_name="nvidia.com/gpu.shared",
                                device_ids=[f"GPU-{pod:08x}-0000-0000-0000-{device:012x}::{pod}"],
                                topology=v1.TopologyInfo(nodes=[v1.NUMANode(ID=device % 2)]),
                            )
                            for device in range(devices)
                        ],
                    )
                ],
            )
            for pod in range(pods)
        ),
    )


def test_a_full_node_over_the_socket(v1: Any, socket_path: str) -> None:
    answer = node_of(v1, 200, 8)
    with kubelet(socket_path, v1=lambda: answer):
        client = PodResourcesClient(socket_path, PATIENCE)
        held = client.list()
    assert client.version == "v1"
    assert len(held) == 200
    assert {len(pod.containers[0].devices[0].device_ids) for pod in held} == {8}


def test_five_megabytes_over_the_socket(v1: Any, socket_path: str) -> None:
    pods = [v1.PodResources(name="x" * 200, namespace="y" * 50) for _ in range(20_000)]
    answer = listed(v1, *pods) + node_of(v1, 1, 1)
    assert len(answer) > 5_000_000
    with kubelet(socket_path, v1=lambda: answer):
        assert [pod.name for pod in PodResourcesClient(socket_path, PATIENCE).list()] == ["pod-0"]


def test_a_kubelet_with_only_the_older_version(messages: dict[str, ModuleType], socket_path: str) -> None:
    asked: list[str] = []

    def list_(version: str) -> bytes:
        asked.append(version)
        return node_of(messages["v1"], 1, 1)

    client = PodResourcesClient(socket_path, PATIENCE)
    with kubelet(socket_path, v1alpha1=lambda: list_("v1alpha1")):
        assert len(client.list()) == 1
        assert client.version == "v1alpha1"
        assert len(client.list()) == 1
    assert asked == ["v1alpha1"] * 2
    assert failure(client) in (UnaryReason.NO_SOCKET, UnaryReason.REFUSED)
    with kubelet(socket_path, v1=lambda: list_("v1"), v1alpha1=lambda: list_("v1alpha1")):
        assert len(client.list()) == 1  # after its upgrade
    assert client.version == "v1"
    assert asked[2:] == ["v1"]


def test_a_downgraded_kubelet_is_found_at_the_second_call(
    messages: dict[str, ModuleType], socket_path: str
) -> None:
    client = PodResourcesClient(socket_path, PATIENCE)
    with kubelet(socket_path, v1=lambda: b""):
        assert client.list() == ()
    with kubelet(socket_path, v1alpha1=lambda: b""):
        assert failure(client) is UnaryReason.UNIMPLEMENTED
        assert client.list() == ()
    assert client.version == "v1alpha1"


def test_a_server_with_neither_version(socket_path: str) -> None:
    with kubelet(socket_path):
        assert failure(PodResourcesClient(socket_path, PATIENCE)) is UnaryReason.UNIMPLEMENTED


def test_a_malformed_response(socket_path: str) -> None:
    client = PodResourcesClient(socket_path, PATIENCE)
    with kubelet(socket_path, v1=lambda: b"<html>"):
        assert failure(client) is UnaryReason.BAD_ANSWER


def test_a_kubelet_that_hangs(socket_path: str) -> None:
    client = PodResourcesClient(socket_path, 0.4)
    given_up = threading.Event()

    def hang() -> bytes:
        given_up.wait(PATIENCE)
        return b""

    with kubelet(socket_path, v1=hang):
        assert failure(client) is UnaryReason.TIMEOUT
        given_up.set()


def test_no_kubelet(socket_path: str) -> None:
    assert failure(PodResourcesClient(socket_path, PATIENCE)) is UnaryReason.NO_SOCKET
