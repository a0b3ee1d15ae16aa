"""Pods of a node's description: who they are and what they hold."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from accelscope.simulate import DescriptionError, SimulatedNode, load_node, read_node, ready_made
from accelscope.simulate.pods import SimulatedPod
from accelscope.simulate.spec import CgroupKind, PodOwner

MakeNode = Callable[[str], SimulatedNode]

NODE = """
node: mine
seed: 5
nvidia: {devices: [{model: a100-40gb, count: 2}]}
amd: {devices: [{model: mi300x}]}
processes:
"""
MIG = "\nnvidia: {devices: [{model: h100-80gb, mig: [3g.40gb, 1g.10gb]}]}\n"


def pods(text: str, folder: Path) -> tuple[SimulatedPod, ...]:
    return SimulatedNode(read_node(text), folder).pods


def held(pod: SimulatedPod) -> list[tuple[str, str]]:
    return [(grant.resource, grant.device_id) for box in pod.containers for grant in box.grants]


def workload(rest: str, name: str = "vllm", device: str = "device: 0", vendor: str = "nvidia") -> str:
    return f"  - {{name: {name}, vendor: {vendor}, {device}, memory: 1GiB, cgroup: {{kind: pod{rest}}}}}\n"


def test_names_that_are_not_given_are_made_as_controllers_make_them(tmp_path: Path) -> None:
    [pod] = pods(NODE + workload("", name="NVIDIA Overlay"), tmp_path)
    hash_label = dict(pod.labels)["pod-template-hash"]
    assert re.fullmatch(rf"nvidia-overlay-{hash_label}-[a-z0-9]{{5}}", pod.name)
    assert pod.owner == PodOwner("Deployment", "nvidia-overlay")
    assert [box.name for box in pod.containers] == ["nvidia-overlay"]
    assert pods(NODE + workload("", name="NVIDIA Overlay"), tmp_path) == (pod,)  # the same every time


@pytest.mark.parametrize(
    ("owner", "name", "label"),
    [
        ("{kind: Job, name: train}", "train-[a-z0-9]{5}", "job-name"),
        ("{kind: StatefulSet, name: db}", r"db-\d", "statefulset.kubernetes.io/pod-name"),
        ("{kind: DaemonSet, name: agent}", "agent-[a-z0-9]{5}", "app.kubernetes.io/name"),
        ("{name: chat}", "chat-[a-z0-9]{10}-[a-z0-9]{5}", "pod-template-hash"),
    ],
)
def test_each_kind_of_owner_names_its_pods_its_way(owner: str, name: str, label: str, tmp_path: Path) -> None:
    [pod] = pods(NODE + workload(f", owner: {owner}, labels: {{team: a}}"), tmp_path)
    assert re.fullmatch(name, pod.name)
    assert {label, "team"} <= dict(pod.labels).keys()


def test_given_names_and_ids_are_used(tmp_path: Path) -> None:
    ids = f"pod_uid: 0f3c0000-0000-0000-0000-000000000001, container_id: {'ab' * 32}"
    [pod] = pods(NODE + workload(f", namespace: n, pod: p-0, container: c, {ids}"), tmp_path)
    assert (pod.namespace, pod.name, pod.uid, pod.owner) == ("n", "p-0", ids[9:45], None)
    assert [(box.name, box.id) for box in pod.containers] == [("c", "ab" * 32)]


def test_workloads_that_name_one_pod_are_its_containers(tmp_path: Path) -> None:
    text = NODE
    text += workload(", namespace: n, pod: p", name="one")
    text += workload(", namespace: n, pod: p", name="two", device="device: 1")
    text += workload(", namespace: n, pod: p, container: one", name="three")
    text += workload(", namespace: other, pod: p", name="four")
    first, second = pods(text, tmp_path)
    assert [box.name for box in first.containers] == ["one", "two"]
    assert [len(box.grants) for box in first.containers] == [1, 1]  # a container holds a device once
    assert second.uid != first.uid


def test_proc_contains_the_ids_of_the_pod(ready_node: MakeNode) -> None:
    node = ready_node("nvidia-shared")
    boxes = {(pod.uid, box.id, box.name) for pod in node.pods for box in pod.containers}
    seen = set()
    for file in (node.folder / "proc").glob("[0-9]*/cgroup"):
        found = re.search("pod([0-9a-f_]{36}).slice/cri-containerd-([0-9a-f]{64})", file.read_text())
        name = re.search("/containers/([^/]+)/[0-9a-f]{8} /dev/term", (file.parent / "mountinfo").read_text())
        if found and name:
            seen.add((found[1].replace("_", "-"), found[2], name[1]))
    idle = {(pod.uid, box.id, box.name) for pod in node.pods for box in pod.containers if "mara" in pod.name}
    assert len(idle) == 1
    assert seen == boxes - idle


def uuid(node: SimulatedNode, device: int) -> str:
    files = sorted((node.folder / "proc/driver/nvidia/gpus").glob("*/information"))
    return files[device].read_text().split("UUID: \t ")[1].split("\n")[0]


def test_ids_are_those_of_the_vendors_plugins(ready_node: MakeNode) -> None:
    node = ready_node("nvidia-shared")
    shared, limited = uuid(node, 0), uuid(node, 1)
    by_name = {pod.containers[0].name: held(pod) for pod in node.pods}
    gpu = "nvidia.com/gpu"
    assert by_name == {
        "vllm": [(gpu, f"{shared}::0"), (gpu, f"{shared}::1")],
        "worker": [(gpu, f"{shared}::2")],
        "dcgm": [],
        "tritonserver": [(gpu, f"{limited}-0")],
        "torchrun": [(gpu, f"{limited}-1")],
        "notebook": [(gpu, f"{shared}::3")],
    }


def test_ids_of_every_vendor(tmp_path: Path) -> None:
    found = {device_id for pod in SimulatedNode(load_node("mixed"), tmp_path).pods for device_id in held(pod)}
    forms = {
        ("nvidia.com/gpu", "GPU-[0-9a-f-]{36}"),
        ("amd.com/gpu", r"0001:[0-9a-f]{2}:00\.0"),
        ("huawei.com/Ascend910", "Ascend910-0"),
        ("beta.furiosa.ai/npu", "[0-9A-F-]{36}"),
        ("furiosa.ai/rngd-4core.24gb", "[0-9A-F-]{36}_cores_[04]-[37]"),
    }
    used = {
        form for form in forms for name, device in found if name == form[0] and re.fullmatch(form[1], device)
    }
    assert used == forms
    assert all(
        any(name == form[0] and re.fullmatch(form[1], device) for form in forms) for name, device in found
    )


def test_mig_devices_have_resources_of_their_own(tmp_path: Path) -> None:
    text = MIG + "processes:\n" + workload("", device="device: 0, instance: 1")
    [pod] = pods(text + "pods: [{device: 0, instance: 0, resource: nvidia.com/gpu}]\n", tmp_path)[:1]
    assert [(name, device[:4]) for name, device in held(pod)] == [("nvidia.com/mig-1g.10gb", "MIG-")]


def test_a_device_of_several_pods_is_divided_into_replicas(tmp_path: Path) -> None:
    def ids(*lives: str) -> list[str]:
        entries = "".join(f"  - {{name: p, vendor: nvidia, cgroup: pod{life}}}\n" for life in lives)
        return [held(pod)[0][1].partition("::")[2] for pod in pods(NODE + entries, tmp_path)]

    assert ids("", "") == ["0", "1"]
    assert ids(", until: 50", ", from: 50") == ["", ""]  # one after the other: the device itself
    assert ids(", until: 51", ", from: 50") == ["0", "1"]


def test_a_device_that_cannot_be_shared_goes_to_the_first(tmp_path: Path) -> None:
    text = NODE + workload("", name="one", vendor="amd") + workload("", name="two", vendor="amd")
    first, second = pods(text, tmp_path)
    assert (len(held(first)), len(held(second))) == (1, 0)


def test_every_workload_in_a_pod_has_one_on_every_ready_made_node(tmp_path: Path) -> None:
    for name in ready_made():
        node = SimulatedNode(load_node(name), tmp_path)
        in_pods = [process for process in node.spec.processes if process.cgroup.kind is CgroupKind.POD]
        assert len(node.pods) == len(in_pods) + len(node.spec.holders)
        ids = [device for pod in node.pods for device in held(pod)]
        assert len(ids) == len(set(ids))


def in_pod(rest: str) -> str:
    return NODE + workload(rest)


MISTAKES = {
    in_pod(", namespace: Team A"): 'processes[0].cgroup.namespace: "Team A" is not a name in lower case',
    in_pod(", pod: 7"): "processes[0].cgroup.pod: 7 is not a name in lower case",
    in_pod(", labels: [a]"): "processes[0].cgroup.labels: a list is not a mapping of texts",
    in_pod(", labels: {a: 1}"): 'the value of "a" is not a text; write it in quotes',
    in_pod(", owner: {kind: Cat}"): 'cgroup.owner.kind: "Cat" is not one of Deployment, ReplicaSet,',
    in_pod(", owner: {nam: x}"): 'processes[0].cgroup.owner: unknown key "nam"; allowed: kind, name',
    in_pod(", resource: gpu"): 'processes[0].cgroup.resource: "gpu" is not a resource such as nvidia.com/gpu',
    in_pod(", replicas: 0"): "processes[0].cgroup.replicas: 0 is not a whole number from 1 to 64",
    in_pod(", hami: {cores: 30}"): "cgroup.hami.memory: missing; expected a size of at least 1MiB",
    in_pod(", hami: {memory: 1GiB, cores: 130}"): "hami.cores: 130 is not a whole number from 0 to 100",
    in_pod(", hami: {memory: 1GiB}, replicas: 1"): "cgroup.replicas: cannot be combined with hami",
    in_pod(", allocated: maybe"): 'processes[0].cgroup.allocated: "maybe" is not true or false',
    in_pod(
        ", job: 3"
    ): 'processes[0].cgroup: unknown key "job"; allowed: kind, replicas, hami, qos, pod_uid,',
    NODE + workload(", replicas: 2", vendor="amd"): "cgroup.replicas: only nvidia devices can be shared",
    NODE + "  - {name: p, vendor: nvidia, cgroup: {kind: docker, namespace: a}}\n": (
        'processes[0].cgroup: unknown key "namespace"; allowed: kind, container_id, job, unit'
    ),
    MIG + "pods: [{device: 0}]\n": "pods[0].instance: device 0 is partitioned; allowed: 0 to 1",
    MIG + "pods: [{device: 1, instance: 0}]\n": "pods[0].device: 1 is not a device number from 0 to 0",
    MIG
    + "pods: [{device: 0, instance: 0, memory: 1GiB}]\n": 'pods[0]: unknown key "memory"; allowed: vendor,',
    "\nnode_labels: [rack]\n": "node_labels: a list is not a mapping of texts",
    in_pod(", pod: p, namespace: n")
    + workload(", pod: p, namespace: n, pod_uid: 0f3c0000-0000-0000-0000-000000000001"): (
        "processes[1].cgroup: n/p has another uid above; use the same for both"
    ),
    in_pod(", pod: p, pod_uid: 0f3c0000-0000-0000-0000-000000000001")
    + workload(", pod: q, pod_uid: 0f3c0000-0000-0000-0000-000000000001"): (
        "processes[1].cgroup: the pod 0f3c0000-0000-0000-0000-000000000001 has another name"
    ),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_an_invalid_description_is_rejected_with_the_path_of_the_key(text: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        read_node(text)
    assert MISTAKES[text] in str(caught.value)
    assert "\n" not in str(caught.value)
