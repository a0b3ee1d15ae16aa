"""Shares by HAMi's annotations on pods, and devices by those on nodes."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.hami import HamiDevice, HamiShare, registered_devices, shares_of

GPU = "GPU-7c1d0e52-93ab-4f0c-8e11-5a2b6c7d8e9f"
SECOND = "GPU-11112222-3333-4444-5555-666677778888"
MIG = "MIG-0a0b0c0d-3333-4444-5555-666677778888"
ALLOCATED = "hami.io/vgpu-devices-allocated"
MIGS = "hami.io/vgpu-mig-allocations"
MIB = 2**20
HALF = HamiShare(GPU, "NVIDIA", 8000 * MIB, 0.5)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"{GPU},NVIDIA,8000,50:;", [("a", HALF)]),
        (f"{GPU},NVIDIA,8000,50:", [("a", HALF)]),
        (f";{GPU},NVIDIA,8000,50:;", [("b", HALF)]),
        (f"{GPU},NVIDIA,8000,50:;;", [("a", HALF)]),
        (
            f"{GPU},NVIDIA,8000,50:{SECOND},NVIDIA,1024,20:;{GPU},NVIDIA,8000,50:;",
            [("a", HALF), ("a", HamiShare(SECOND, "NVIDIA", 1024 * MIB, 0.2)), ("b", HALF)],
        ),
        (f"{GPU},NVIDIA,8000,50:;{GPU},NVIDIA,8000,50:", [("a", HALF), ("b", HALF)]),
        (f"{GPU},NVIDIA,0,0:;", [("a", HamiShare(GPU, "NVIDIA"))]),
        (f"{GPU},NVIDIA,4096,0:;", [("a", HamiShare(GPU, "NVIDIA", 4096 * MIB))]),
        (f"{GPU},NVIDIA,0,100:;", [("a", HamiShare(GPU, "NVIDIA", None, 1.0))]),
        (f"{GPU}[1-0],NVIDIA,9856,14:;", [("a", HamiShare(GPU, "NVIDIA", 9856 * MIB, 0.14))]),
        (f"{GPU},NVIDIA,8000,50,later:;", [("a", HALF)]),
        (";", []),
        (";;", []),
        ("", []),
    ],
)
def test_shares_of_containers_in_their_order(value: str, expected: list[tuple[str, HamiShare]]) -> None:
    assert shares_of([(ALLOCATED, value)], ["a", "b"]) == (expected, [])


def test_other_vendors() -> None:
    annotations = [
        ("hami.io/Ascend910B3-devices-allocated", "7A1B,Ascend910B3,16384,25:;"),
        ("hami.io/enflame-vgpu-devices-allocated", ";"),
        ("hami.io/dcu-devices-allocated", "DCU-1,DCU,2000,60:;"),
    ]
    shares, problems = shares_of(annotations, ["a"])
    assert [(name, share.device_id, share.type) for name, share in shares] == [
        ("a", "7A1B", "Ascend910B3"),
        ("a", "DCU-1", "DCU"),
    ]
    assert problems == []


@pytest.mark.parametrize(
    "key",
    [
        "hami.io/vgpu-devices-to-allocate",
        "hami.io/vgpu-node",
        "nvidia.com/vgpu-devices-allocated",
        "hami.io/-devices-allocated-before",
    ],
)
def test_other_annotations_are_no_allocations(key: str) -> None:
    assert shares_of([(key, f"{GPU},NVIDIA,8000,50:;")], ["a"]) == ([], [])


def test_newer_versions_count_init_containers_first() -> None:
    value = f";{GPU},NVIDIA,8000,50:;"
    assert shares_of([(ALLOCATED, value)], ["main"], ["setup"]) == ([("main", HALF)], [])
    assert shares_of([(ALLOCATED, f"{GPU},NVIDIA,8000,50:;")], ["main"], ["setup"]) == ([("main", HALF)], [])


@pytest.mark.parametrize(
    ("value", "kept", "said"),
    [
        (f"rubbish:{GPU},NVIDIA,8000,50:;", [HALF], "'rubbish'"),
        (f"{GPU},8000,50:;", [], "id,type,memory,cores"),
        (",NVIDIA,8000,50:;", [], "id,type,memory,cores"),
        (f"{GPU},NVIDIA,-5,50:;", [HamiShare(GPU, "NVIDIA", None, 0.5)], "'-5' is no memory"),
        (f"{GPU},NVIDIA,8000,101:;", [HamiShare(GPU, "NVIDIA", 8000 * MIB)], "'101' is no percentage"),
        (f"{GPU},NVIDIA,8000,x\n:;", [HamiShare(GPU, "NVIDIA", 8000 * MIB)], "'x' is no percentage"),
        (f";{GPU},NVIDIA,8000,50:;", [], "container 2 of 1"),
        ("\x00" * 1000, [], "..."),
    ],
)
def test_what_cannot_be_read_is_told(value: str, kept: list[HamiShare], said: str) -> None:
    shares, problems = shares_of([(ALLOCATED, value)], ["a"])
    assert [share for _, share in shares] == kept
    [problem] = problems
    assert said in problem
    assert problem.startswith(f"{ALLOCATED}: ")
    assert problem.isprintable()
    assert len(problem) < 400


def migs(*entries: object) -> tuple[str, str]:
    return MIGS, json.dumps(entries)


def instance(**changed: object) -> dict[str, object]:
    made = {"gpuInstanceID": 4, "computeInstanceID": 0, "placement": {"start": 2, "size": 2}}
    return {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": GPU,
        "migUUID": MIG,
        "profile": "2g.10gb",
        **made,
        **changed,
    }


@pytest.mark.parametrize(
    ("annotation", "device_ids", "problems"),
    [
        (migs(instance()), [MIG, GPU], 0),
        (migs(instance(deviceIndex=1)), [GPU, MIG], 0),
        (migs(instance(containerIndex=1)), [GPU, GPU], 0),
        (migs(instance(gpuUUID=SECOND)), [GPU, GPU], 0),
        (migs({"containerIndex": 0, "deviceIndex": 0, "gpuUUID": GPU, "profile": "2g.10gb"}), [GPU, GPU], 0),
        (migs(instance(deviceIndex=[])), [GPU, GPU], 1),
        (migs({"gpuUUID": GPU, "migUUID": MIG, "deviceIndex": 0}), [GPU, GPU], 1),
        (migs({"gpuUUID": GPU, "migUUID": MIG, "containerIndex": 0}), [GPU, GPU], 1),
        (migs(instance(containerIndex=True)), [GPU, GPU], 1),
        (migs(instance(migUUID=7), None, instance()), [MIG, GPU], 2),
        ((MIGS, ""), [GPU, GPU], 0),
        ((MIGS, "{"), [GPU, GPU], 1),
        ((MIGS, "{}"), [GPU, GPU], 1),
        ((MIGS, "[" * 100_000), [GPU, GPU], 1),
    ],
)
def test_mig_instances_are_named_once_they_are_made(
    annotation: tuple[str, str], device_ids: list[str], problems: int
) -> None:
    value = f"{GPU},NVIDIA,9856,14:{GPU},NVIDIA,9856,14:;"
    shares, told = shares_of([(ALLOCATED, value), annotation], ["a"])
    assert [share.device_id for _, share in shares] == device_ids
    assert len(told) == problems
    assert all(problem.startswith(f"{MIGS}: ") for problem in told)


def test_an_allocation_that_is_none_is_shown() -> None:
    _, told = shares_of([migs(7, {"gpuUUID": 1})], ["a"])
    assert told == [f"{MIGS}: '7' is no allocation", f"{MIGS}: \"{{'gpuUUID': 1}}\" is no allocation"]


def test_devices_behind_a_container_too_many_are_told_each() -> None:
    value = f"{GPU},NVIDIA,8000,50:;{GPU},NVIDIA,8000,50:{SECOND},NVIDIA,8000,50:;"
    shares, told = shares_of([(ALLOCATED, value)], ["a"])
    assert [share for _, share in shares] == [HALF]
    assert told == [f"{ALLOCATED}: container 2 of 1"] * 2


def t4(device_id: str = GPU, *, healthy: bool = True, **told: int | str) -> HamiDevice:
    return HamiDevice(device_id, "NVIDIA-Tesla T4", 10, 15360 * MIB, 1.0, healthy, **told)  # type: ignore[arg-type]


IN_JSON = {"id": GPU, "count": 10, "devmem": 15360, "devcore": 100, "type": "NVIDIA-Tesla T4", "health": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{GPU},10,15360,100,NVIDIA-Tesla T4,1,true:", [t4(numa=1)]),
        (f"{GPU},10,15360,100,NVIDIA-Tesla T4,0,false,3:", [t4(healthy=False, numa=0, index=3)]),
        (
            f"{GPU},10,15360,100,NVIDIA-Tesla T4,0,true,0,hami-core:"
            f"{SECOND},10,15360,100,NVIDIA-Tesla T4,1,true,1,mig:",
            [t4(numa=0, index=0, mode="hami-core"), t4(SECOND, numa=1, index=1, mode="mig")],
        ),
        (f"{GPU},10,15360,100,NVIDIA-Tesla T4,0,true,0,mig,a,b,c:", [t4(numa=0, index=0, mode="mig")]),
        ("0,0,0,0,,0,true:", [HamiDevice("0", "", 0, 0, 0.0, True, 0)]),
        (json.dumps([IN_JSON]), [t4(numa=0, index=0)]),
        (json.dumps([{**IN_JSON, "mode": 7}]), [t4(numa=0, index=0)]),
        (json.dumps([{"id": GPU}]), [HamiDevice(GPU, "", 0, 0, 0.0, False, 0, 0)]),
        (
            json.dumps(
                [{**IN_JSON, "health": False, "index": 2, "numa": 1, "mode": "mps", "migProfiles": []}]
            ),
            [t4(healthy=False, index=2, numa=1, mode="mps")],
        ),
        ("[]", []),
        ("", []),
    ],
)
def test_devices_of_a_node_in_both_encodings(text: str, expected: list[HamiDevice]) -> None:
    assert registered_devices(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "kept", "said"),
    [
        (f"rubbish:{GPU},10,15360,100,NVIDIA-Tesla T4,1,true:", 1, "'rubbish' is no id,count"),
        (f"{GPU},ten,15360,100,NVIDIA-Tesla T4,1,true:", 0, "is no id,count"),
        (f"{GPU},10,15360,100,NVIDIA-Tesla T4,1,maybe:", 0, "is no id,count"),
        (",10,15360,100,NVIDIA-Tesla T4,1,true:", 0, "is no id,count"),
        (json.dumps([IN_JSON, None]), 1, "'None' is no device"),
        (json.dumps([IN_JSON, {**IN_JSON, "id": ""}]), 1, "'' is no id of a device"),
        (json.dumps([IN_JSON, {**IN_JSON, "id": 7}]), 1, "'7' is no id of a device"),
        (json.dumps([IN_JSON, {**IN_JSON, "devmem": "15360"}]), 1, f"{GPU}: one of count"),
        (json.dumps([IN_JSON, {**IN_JSON, "devmem": 10**9}]), 1, f"{GPU}: one of count"),
        ("[{", 0, "'[{' is no JSON list"),
    ],
)
def test_a_bad_device_costs_itself(text: str, kept: int, said: str) -> None:
    devices, problems = registered_devices(text)
    assert len(devices) == kept
    [problem] = problems
    assert said in problem


@given(st.text(max_size=60), st.lists(st.text(max_size=3), max_size=3))
def test_any_text_is_survived(text: str, containers: list[str]) -> None:
    shares, problems = shares_of([(ALLOCATED, text), (MIGS, text)], containers)
    assert {name for name, _ in shares} <= set(containers)
    assert all(problem.isprintable() for problem in (*problems, *registered_devices(text)[1]))


def test_a_captured_pod(captures: Path) -> None:
    pod = yaml.safe_load((captures / "k8s" / "pod_hami_a800.yaml").read_text())
    names = [container["name"] for container in pod["spec"]["containers"]]
    [(container, share)], problems = shares_of(pod["metadata"]["annotations"].items(), names)
    assert container == "pytorch"
    assert share.device_id.startswith("GPU-29d5fa0d-")
    assert (share.type, share.memory_bytes, share.compute_ratio) == ("NVIDIA", 1024 * MIB, 0.2)
    assert problems == []


def test_captured_nodes(captures: Path) -> None:
    nodes = yaml.safe_load((captures / "k8s" / "node_hami_annotations.yaml").read_text())
    told = []
    for node in nodes:
        for key, value in node.items():
            if key.endswith("-register"):
                devices, problems = registered_devices(value)
                assert problems == []
                told.append(
                    [(d.type, d.count, d.memory_bytes // MIB, d.healthy, d.index, d.mode) for d in devices]
                )
    v100 = ("NVIDIA-Tesla V100-PCIE-32GB", 10, 32768, True)
    mlu = ("MLU-MLU370-X4", 10, 23308, False, None, None)
    assert told == [
        [("NVIDIA-NVIDIA L4", 10, 23034, True, 0, None)],
        [("NVIDIA-NVIDIA GeForce RTX 3090", 10, 24576, True, None, None)],
        [(*v100, None, None), (*v100, None, None)],
        [(*v100, 0, "hami-core"), (*v100, 1, "hami-core")],
        [mlu, mlu],
    ]
