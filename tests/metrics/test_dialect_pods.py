"""Which pod a dialect names on a device's series, and the series that some have of each pod or process."""

import re
from dataclasses import replace

import pytest
from tests.metrics.dialect_nodes import (
    ASCEND_310P,
    ASCEND_910B,
    CUT_H100,
    GIB,
    H100,
    MI250,
    MI300X,
    NODES,
    RNGD,
    RTX,
    node,
    on,
)

from accelscope.metrics import dialects
from accelscope.metrics.exposition import Exposition
from accelscope.model import (
    Device,
    DeviceBalance,
    Owner,
    OwnerKind,
    PodUsage,
    Process,
    Snapshot,
    UnattributedReason,
)

HELD = {"allocated": 1}
USED = {"processes": 1}


def labels(snapshot: Snapshot, dialect: str, family: str) -> list[dict[str, str]]:
    text = Exposition(families=(), dialects=dialects.load((dialect,))).render(snapshot).text.decode()
    lines = [line for line in text.splitlines() if line.startswith(f"{family}{{")]
    return [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]


def named(snapshot: Snapshot, dialect: str, family: str) -> list[str]:
    """Namespace, pod and container of each series, as this dialect's labels call them; `-` for none."""
    asked = [("namespace",), ("pod", "pod_name"), ("container", "container_name")]
    return [
        "/".join(next((own[name] for name in names if name in own), "-") for names in asked)
        for own in labels(snapshot, dialect, family)
    ]


WHOLE_DEVICES = [
    ("dcgm", H100, "DCGM_FI_DEV_GPU_UTIL", "-/-/-"),
    ("amd", MI250, "gpu_health", "//"),
    ("npu-exporter", ASCEND_910B, "npu_chip_info_utilization", "//"),
    ("furiosa-2025", RNGD, "furiosa_npu_alive", "-/-/-"),
]
# who holds or uses the device -> who is named; None: as on a free device
CASES: list[tuple[str, list[tuple[str, str, dict[str, int]]], str | None]] = [
    ("nobody", [], None),
    ("one holds it", [("train", "main", HELD)], "research/train/main"),
    ("one holds and uses it", [("train", "main", HELD | USED)], "research/train/main"),
    ("one uses it", [("train", "main", USED)], "research/train/main"),
    ("the holder goes before a user", [("other", "x", USED), ("train", "main", HELD)], "research/train/main"),
    ("two pods hold it", [("train", "main", HELD), ("other", "main", HELD | USED)], None),
    ("two pods use it", [("train", "main", USED), ("other", "main", USED)], None),
    ("neither holds nor uses it any more", [("train", "main", {})], None),
]


@pytest.mark.parametrize(("dialect", "device", "family", "free"), WHOLE_DEVICES)
@pytest.mark.parametrize(("_case", "workloads", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_series_names_the_pod_that_the_device_is_put_down_to(
    dialect: str,
    device: Device,
    family: str,
    free: str,
    _case: str,
    workloads: list[tuple[str, str, dict[str, int]]],
    expected: str | None,
) -> None:
    usages = tuple(on(device, pod, container, **how) for pod, container, how in workloads)
    assert named(node(device, pod_usages=usages), dialect, family) == [expected or free]


@pytest.mark.parametrize(("dialect", "device", "family", "free"), WHOLE_DEVICES)
def test_two_containers_of_a_pod_leave_the_pod(dialect: str, device: Device, family: str, free: str) -> None:
    usages = (on(device, "train", "a", allocated=1), on(device, "train", "b", allocated=1))
    without = free.rsplit("/", 1)[1]
    assert named(node(device, pod_usages=usages), dialect, family) == [f"research/train/{without}"]


INSTANCES: list[tuple[str, tuple[PodUsage, ...], list[str]]] = [
    ("free", (), ["-/-/-", "-/-/-"]),
    (
        "each has a holder",
        (
            on(CUT_H100, "a", allocated=1, partition="MIG-1"),
            on(CUT_H100, "b", allocated=1, partition="MIG-3"),
        ),
        ["research/a/main", "research/b/main"],
    ),
    (
        "by a compute instance that has no series of its own",
        (on(CUT_H100, "a", allocated=1, partition="MIG-2"),),
        ["research/a/main", "-/-/-"],
    ),
    (
        "two pods on one GPU instance",
        (
            on(CUT_H100, "a", allocated=1, partition="MIG-1"),
            on(CUT_H100, "b", allocated=1, partition="MIG-2"),
        ),
        ["-/-/-", "-/-/-"],
    ),
    (
        "held as a whole",
        (on(CUT_H100, "a", allocated=1),),
        ["research/a/main", "research/a/main"],
    ),
    ("used, nobody knows which", (on(CUT_H100, "a", processes=1),), ["-/-/-", "-/-/-"]),
]


@pytest.mark.parametrize(("_case", "usages", "expected"), INSTANCES, ids=[case[0] for case in INSTANCES])
def test_instances_are_put_down_each_by_itself(
    _case: str, usages: tuple[PodUsage, ...], expected: list[str]
) -> None:
    snapshot = node(CUT_H100, pod_usages=usages)
    assert named(snapshot, "dcgm", "DCGM_FI_DEV_GPU_TEMP") == expected


def test_partitions_of_amd_are_put_down_each_by_itself() -> None:
    usages = (on(MI300X, "a", allocated=1, partition="p1"),)
    assert named(node(MI300X, pod_usages=usages), "amd", "gpu_total_vram") == ["//", "research/a/main"]


def test_another_device_s_pod_is_not_named() -> None:
    snapshot = node(H100, RTX, pod_usages=(on(RTX, "train", allocated=1),))
    assert named(snapshot, "dcgm", "DCGM_FI_DEV_GPU_UTIL") == ["-/-/-", "research/train/main"]


def test_labels_of_pods_stand_in_their_place() -> None:
    snapshot = node(H100, pod_usages=(on(H100, "train", allocated=1),))
    [shown] = labels(snapshot, "dcgm", "DCGM_FI_DEV_XID_ERRORS")
    assert list(shown)[-5:] == ["container", "err_code", "err_msg", "namespace", "pod"]


# amd: batch jobs


def slurm(pid: int, job: str, user: str | None = "ada", **changes: object) -> Process:
    owner = Owner(kind=OwnerKind.SLURM_JOB, name=job, reason=UnattributedReason.NOT_IN_A_POD)
    return replace(Process(pid=pid, device=MI250.id, user=user, owner=owner), **changes)  # type: ignore[arg-type]


JOBS = [
    ("none", (), (), ("", "")),
    ("of its processes", (), (slurm(1, "77"), slurm(2, "77")), ("77", "ada")),
    ("of several users", (), (slurm(1, "77"), slurm(2, "77", "bob")), ("77", "")),
    ("whose user nobody knows", (), (slurm(1, "77", None),), ("77", "")),
    ("two", (), (slurm(1, "77"), slurm(2, "78", "bob")), ("", "")),
    ("by the folder", ("80",), (), ("80", "")),
    ("the folder goes first", ("80",), (slurm(1, "77"), slurm(2, "80", "bob")), ("80", "bob")),
    ("two in the folder", ("80", "81"), (slurm(1, "80"),), ("", "")),
    ("on another device", (), (slurm(1, "77", device="amd:other"),), ("", "")),
    ("no job", (), (Process(pid=1, device=MI250.id, user="ada"),), ("", "")),
]


@pytest.mark.parametrize(("_case", "jobs", "processes", "expected"), JOBS, ids=[case[0] for case in JOBS])
def test_batch_job_of_a_gpu(
    _case: str, jobs: tuple[str, ...], processes: tuple[Process, ...], expected: tuple[str, str]
) -> None:
    balances = (DeviceBalance(device=MI250.id, jobs=jobs),)
    [shown] = labels(node(MI250, processes=processes, balances=balances), "amd", "gpu_health")
    assert (shown["job_id"], shown["job_user"]) == expected
    assert shown["job_partition"] == ""


# npu-exporter: containers and processes


def in_pod(pid: int, pod: str, container_id: str | None, **changes: object) -> Process:
    owner = Owner(
        kind=OwnerKind.POD,
        namespace="research",
        pod=pod,
        container="main",
        pod_uid=f"uid-{pod}",
        container_id=container_id,
    )
    made = Process(pid=pid, device=ASCEND_910B.id, memory_bytes=2**20, owner=owner)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_container_families_are_there_for_chips_that_a_pod_has() -> None:
    snapshot = node(ASCEND_910B, ASCEND_310P, pod_usages=(on(ASCEND_910B, "train", allocated=1),))
    for family in ("container_npu_utilization", "container_npu_total_memory", "container_npu_used_memory"):
        assert [(own["id"], own["pod_name"]) for own in labels(snapshot, "npu-exporter", family)] == [
            ("4", "train")
        ]


def test_container_info_is_one_series_for_each_container_on_a_chip() -> None:
    processes = (
        in_pod(1, "train", "c1"),
        in_pod(2, "train", "c1"),
        in_pod(3, "other", "c2"),
        in_pod(4, "unseen", None),
        Process(pid=5, device=ASCEND_910B.id),
        Process(
            pid=6, device=ASCEND_910B.id, owner=Owner(kind=OwnerKind.CONTAINER, name="c3", container_id="c3")
        ),
    )
    shown = labels(node(ASCEND_910B, processes=processes), "npu-exporter", "npu_container_info")
    assert [(own["containerID"], own["containerName"], own["pod_name"]) for own in shown] == [
        ("c1", "research_train_main", "train"),
        ("c2", "research_other_main", "other"),
    ]
    assert list(shown[0]) == [
        "containerID",
        "containerName",
        "container_name",
        "model_name",
        "namespace",
        "npuID",
        "pcie_bus_info",
        "pod_name",
        "vdie_id",
    ]
    assert shown[0]["npuID"] == "4"


def test_container_info_does_not_depend_on_the_cap_on_processes() -> None:
    snapshot = node(ASCEND_910B, processes=(in_pod(1, "train", "c1"),))
    capped = Exposition(families=(), dialects=dialects.load(("npu-exporter",)), max_process_series=0)
    page = capped.render(snapshot).text.decode()
    assert "npu_container_info{" in page
    assert "npu_chip_info_process_info{" not in page


HOLDER = on(ASCEND_910B, "holder", allocated=1)
PROCESS_LABELS = [
    ("in a pod", in_pod(1, "train", "c1"), (HOLDER,), ("1", "c1", "research_train_main", "train")),
    ("without a known container", in_pod(1, "train", None), (), ("1", "", "research_train_main", "train")),
    (
        "nobody looked",
        in_pod(1, "", None, owner=None),
        (HOLDER,),
        ("1", "", "research_holder_main", "holder"),
    ),
    (
        "nobody knows",
        in_pod(1, "", None, owner=Owner(kind=OwnerKind.UNKNOWN, reason=UnattributedReason.PROCESS_GONE)),
        (HOLDER,),
        ("1", "", "research_holder_main", "holder"),
    ),
    (
        "in no pod",
        in_pod(1, "", None, owner=Owner(kind=OwnerKind.SYSTEMD_UNIT, name="a.service")),
        (HOLDER,),
        ("1", "", "", ""),
    ),
    ("none on the chip", None, (HOLDER,), ("", "", "research_holder_main", "holder")),
]


@pytest.mark.parametrize(
    ("_case", "process", "usages", "expected"), PROCESS_LABELS, ids=[case[0] for case in PROCESS_LABELS]
)
def test_whose_a_process_is_on_npu_exporter_s_page(
    _case: str, process: Process | None, usages: tuple[PodUsage, ...], expected: tuple[str, ...]
) -> None:
    snapshot = node(ASCEND_910B, processes=(process,) if process else (), pod_usages=usages)
    [own] = labels(snapshot, "npu-exporter", "npu_chip_info_process_info")
    shown = (own["process_id"], own["container_id"], own["container_name"], own["pod_name"])
    assert shown == expected


# vgpu


def vgpu(snapshot: Snapshot) -> dict[str, str]:
    text = Exposition(families=(), dialects=dialects.load(("vgpu",))).render(snapshot).text.decode()
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_vgpu_adds_up_what_the_containers_of_a_pod_use() -> None:
    shown = vgpu(NODES["vgpu"])
    assert shown == {
        'pod_gpu_sm_util{gpu_id="0",namespace="research",pod="train"}': "57",
        'pod_gpu_sm_util{gpu_id="0",namespace="lab",pod="train"}': "0",
        # 700,000 bytes beyond each: more than one MiB together
        'pod_gpu_memory_used{gpu_id="0",namespace="research",pod="train"}': "4097",
        'pod_gpu_memory_used{gpu_id="0",namespace="lab",pod="train"}': "0",
        'pod_gpu_memory_used{gpu_id="1",namespace="research",pod="train"}': "2",
        'pod_total_gpu_memory{gpu_id="0",namespace="research",pod="train"}': "65536",
        'pod_total_gpu_memory{gpu_id="0",namespace="lab",pod="train"}': "40779.5",
    }


def test_vgpu_of_a_pod_on_more_than_one_process_may_pass_a_hundred() -> None:
    usages = (on(H100, "train", "a", utilization_ratio=0.9), on(H100, "train", "b", utilization_ratio=0.35))
    shown = vgpu(node(H100, pod_usages=usages))
    assert shown == {'pod_gpu_sm_util{gpu_id="0",namespace="research",pod="train"}': "125"}


@pytest.mark.parametrize(
    ("devices", "cards"),
    [
        ((H100, RTX), ["0", "2"]),
        ((MI250,), ["1"]),
        ((replace(MI250, index=0), H100), ["0"]),  # whose card 0 would that be?
        ((replace(H100, stale=True), RTX), ["2"]),
        ((replace(H100, index=None), RTX), ["2"]),
        ((ASCEND_910B, RNGD), []),
    ],
)
def test_vgpu_shows_cards_that_their_index_tells_apart(devices: tuple[Device, ...], cards: list[str]) -> None:
    usages = tuple(on(device, "train", memory_used_bytes=GIB) for device in devices)
    shown = labels(node(*devices, pod_usages=usages), "vgpu", "pod_gpu_memory_used")
    assert [own["gpu_id"] for own in shown] == cards
