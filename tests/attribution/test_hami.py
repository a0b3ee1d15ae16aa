"""Shares by HAMi's annotations on pods."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.allocations import HamiAllocation, parse_hami_shares

GPU = "GPU-7c1d0e52-93ab-4f0c-8e11-5a2b6c7d8e9f"
SECOND = "GPU-11112222-3333-4444-5555-666677778888"
MIG = "MIG-0a0b0c0d-3333-4444-5555-666677778888"
ALLOCATED = "hami.io/vgpu-devices-allocated"
MIGS = "hami.io/vgpu-mig-allocations"
MIB = 2**20
HALF = HamiAllocation(GPU, "NVIDIA", 8000 * MIB, 0.5)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"{GPU},NVIDIA,8000,50:;", [("a", HALF)]),
        (f"{GPU},NVIDIA,8000,50:", [("a", HALF)]),
        (f";{GPU},NVIDIA,8000,50:;", [("b", HALF)]),
        (f"{GPU},NVIDIA,8000,50:;;", [("a", HALF)]),
        (
            f"{GPU},NVIDIA,8000,50:{SECOND},NVIDIA,1024,20:;{GPU},NVIDIA,8000,50:;",
            [("a", HALF), ("a", HamiAllocation(SECOND, "NVIDIA", 1024 * MIB, 0.2)), ("b", HALF)],
        ),
        (f"{GPU},NVIDIA,8000,50:;{GPU},NVIDIA,8000,50:", [("a", HALF), ("b", HALF)]),
        (f"{GPU},NVIDIA,0,0:;", [("a", HamiAllocation(GPU, "NVIDIA"))]),
        (f"{GPU},NVIDIA,4096,0:;", [("a", HamiAllocation(GPU, "NVIDIA", 4096 * MIB))]),
        (f"{GPU},NVIDIA,0,100:;", [("a", HamiAllocation(GPU, "NVIDIA", None, 1.0))]),
        (f"{GPU}[1-0],NVIDIA,9856,14:;", [("a", HamiAllocation(GPU, "NVIDIA", 9856 * MIB, 0.14))]),
        (f"{GPU},NVIDIA,8000,50,later:;", [("a", HALF)]),
        (";", []),
        (";;", []),
        ("", []),
    ],
)
def test_shares_of_containers_in_their_order(value: str, expected: list[tuple[str, HamiAllocation]]) -> None:
    assert parse_hami_shares([(ALLOCATED, value)], ["a", "b"]) == (expected, [])


def test_other_vendors() -> None:
    annotations = [
        ("hami.io/Ascend910B3-devices-allocated", "7A1B,Ascend910B3,16384,25:;"),
        ("hami.io/enflame-vgpu-devices-allocated", ";"),
        ("hami.io/dcu-devices-allocated", "DCU-1,DCU,2000,60:;"),
    ]
    shares, problems = parse_hami_shares(annotations, ["a"])
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
def test_other_annotations_are_ignored(key: str) -> None:
    assert parse_hami_shares([(key, f"{GPU},NVIDIA,8000,50:;")], ["a"]) == ([], [])


def test_newer_versions_list_init_containers_first() -> None:
    value = f";{GPU},NVIDIA,8000,50:;"
    assert parse_hami_shares([(ALLOCATED, value)], ["main"], ["setup"]) == ([("main", HALF)], [])
    assert parse_hami_shares([(ALLOCATED, f"{GPU},NVIDIA,8000,50:;")], ["main"], ["setup"]) == (
        [("main", HALF)],
        [],
    )


@pytest.mark.parametrize(
    ("value", "kept", "said"),
    [
        (f"rubbish:{GPU},NVIDIA,8000,50:;", [HALF], "'rubbish'"),
        (f"{GPU},8000,50:;", [], "id,type,memory,cores"),
        (",NVIDIA,8000,50:;", [], "id,type,memory,cores"),
        (f"{GPU},NVIDIA,-5,50:;", [HamiAllocation(GPU, "NVIDIA", None, 0.5)], "'-5' is not a memory size"),
        (
            f"{GPU},NVIDIA,8000,101:;",
            [HamiAllocation(GPU, "NVIDIA", 8000 * MIB)],
            "'101' is not a percentage",
        ),
        (f"{GPU},NVIDIA,8000,x\n:;", [HamiAllocation(GPU, "NVIDIA", 8000 * MIB)], "'x' is not a percentage"),
        (f";{GPU},NVIDIA,8000,50:;", [], "container 2 of 1"),
        ("\x00" * 1000, [], "..."),
    ],
)
def test_malformed_shares_are_reported(value: str, kept: list[HamiAllocation], said: str) -> None:
    shares, problems = parse_hami_shares([(ALLOCATED, value)], ["a"])
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
def test_mig_instances_are_used_once_they_exist(
    annotation: tuple[str, str], device_ids: list[str], problems: int
) -> None:
    value = f"{GPU},NVIDIA,9856,14:{GPU},NVIDIA,9856,14:;"
    shares, told = parse_hami_shares([(ALLOCATED, value), annotation], ["a"])
    assert [share.device_id for _, share in shares] == device_ids
    assert len(told) == problems
    assert all(problem.startswith(f"{MIGS}: ") for problem in told)


def test_a_malformed_mig_allocation_is_quoted() -> None:
    _, told = parse_hami_shares([migs(7, {"gpuUUID": 1})], ["a"])
    assert told == [f"{MIGS}: '7' is not an allocation", f"{MIGS}: \"{{'gpuUUID': 1}}\" is not an allocation"]


def test_each_device_of_a_surplus_container_is_reported() -> None:
    value = f"{GPU},NVIDIA,8000,50:;{GPU},NVIDIA,8000,50:{SECOND},NVIDIA,8000,50:;"
    shares, told = parse_hami_shares([(ALLOCATED, value)], ["a"])
    assert [share for _, share in shares] == [HALF]
    assert told == [f"{ALLOCATED}: container 2 of 1"] * 2


@given(st.text(max_size=60), st.lists(st.text(max_size=3), max_size=3))
def test_any_text_is_parsed_without_an_exception(text: str, containers: list[str]) -> None:
    shares, problems = parse_hami_shares([(ALLOCATED, text), (MIGS, text)], containers)
    assert {name for name, _ in shares} <= set(containers)
    assert all(problem.isprintable() for problem in problems)


def test_a_captured_pod(captures: Path) -> None:
    pod = yaml.safe_load((captures / "k8s" / "pod_hami_a800.yaml").read_text())
    names = [container["name"] for container in pod["spec"]["containers"]]
    [(container, share)], problems = parse_hami_shares(pod["metadata"]["annotations"].items(), names)
    assert container == "pytorch"
    assert share.device_id.startswith("GPU-29d5fa0d-")
    assert (share.type, share.memory_bytes, share.compute_ratio) == ("NVIDIA", 1024 * MIB, 0.2)
    assert problems == []
