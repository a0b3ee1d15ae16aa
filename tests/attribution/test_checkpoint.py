"""The kubelet's checkpoint of allocated devices."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.checkpoint import parse_checkpoint
from accelscope.parsing import DeviceGrant

UID = "7c1d0e52-93ab-4f0c-8e11-5a2b6c7d8e9f"


def entry(**changed: object) -> dict[str, object]:
    return {
        "PodUID": UID,
        "ContainerName": "trainer",
        "ResourceName": "nvidia.com/gpu",
        "DeviceIDs": {"0": ["GPU-a"]},
        "AllocResp": "CgA=",
        **changed,
    }


def written(*entries: object) -> str:
    return json.dumps({"Data": {"PodDeviceEntries": list(entries), "RegisteredDevices": {}}, "Checksum": 1})


def granted(*ids: str) -> DeviceGrant:
    return DeviceGrant(UID, "trainer", "nvidia.com/gpu", ids)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({"0": ["GPU-a"], "1": ["GPU-b", "GPU-c"]}, ("GPU-a", "GPU-b", "GPU-c")),
        ({"-1": ["tegra"]}, ("tegra",)),
        (["0", "x" * 512], ("0", "x" * 512)),
        (["GPU-a", "GPU-b::3"], ("GPU-a", "GPU-b::3")),
        ({"0": None, "1": ["GPU-a"]}, ("GPU-a",)),
        (["GPU-a", "GPU-a"], ("GPU-a",)),
        ([], ()),
        ({}, ()),
        (None, ()),
    ],
)
def test_device_ids_by_numa_node_or_in_a_list(ids: object, expected: tuple[str, ...]) -> None:
    parsed = parse_checkpoint(written(entry(DeviceIDs=ids)))
    assert parsed.allocations == (granted(*expected),)
    assert parsed.rejected == ()
    assert parsed.error is None


@pytest.mark.parametrize("content", [{"PodDeviceEntries": None}, {}, {"PodDeviceEntries": []}])
def test_a_node_without_allocations(content: object) -> None:
    parsed = parse_checkpoint(json.dumps({"Data": content, "Checksum": 1}))
    assert (parsed.allocations, parsed.error) == ((), None)


@pytest.mark.parametrize(
    ("bad", "where", "reason"),
    [
        (None, "PodDeviceEntries[0]", "not_an_entry"),
        ([entry()], "PodDeviceEntries[0]", "not_an_entry"),
        (entry(PodUID=None), "PodDeviceEntries[0].PodUID", "missing"),
        (entry(PodUID=7), "PodDeviceEntries[0].PodUID", "not_a_name"),
        (entry(ContainerName=""), "PodDeviceEntries[0].ContainerName", "not_a_name"),
        (entry(ContainerName="a\nb"), "PodDeviceEntries[0].ContainerName", "not_a_name"),
        (entry(ResourceName="x" * 1000), "PodDeviceEntries[0].ResourceName", "not_a_name"),
        (entry(DeviceIDs="GPU-a"), "PodDeviceEntries[0].DeviceIDs", "not_device_ids"),
    ],
)
def test_a_malformed_entry_does_not_affect_the_others(bad: object, where: str, reason: str) -> None:
    parsed = parse_checkpoint(written(bad, entry()))
    assert parsed.allocations == (granted("GPU-a"),)
    assert [(r.line, r.reason) for r in parsed.rejected] == [(where, reason)]


@pytest.mark.parametrize(
    ("ids", "where", "reason"),
    [
        ({"0": ["GPU-a", 7, None, {}]}, "PodDeviceEntries[0].DeviceIDs[0]", "not_a_name"),
        (["", "GPU-a"], "PodDeviceEntries[0].DeviceIDs", "not_a_name"),
        (["x" * 513, "GPU-a"], "PodDeviceEntries[0].DeviceIDs", "not_a_name"),
        ({"1": "GPU-b", "0": ["GPU-a"]}, "PodDeviceEntries[0].DeviceIDs[1]", "not_device_ids"),
    ],
)
def test_a_malformed_id_does_not_affect_the_others(ids: object, where: str, reason: str) -> None:
    parsed = parse_checkpoint(written(entry(DeviceIDs=ids)))
    assert parsed.allocations == (granted("GPU-a"),)
    assert {(r.line, r.reason) for r in parsed.rejected} == {(where, reason)}


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("", "empty", "empty"),
        ("\ufeff\n", "empty", "empty"),
        ("rubbish", "not_json", "line 1, column 1"),
        (written(entry())[:-30], "not_json", "line 1"),
        ("[" * 100_000, "not_json", "JSON"),
        ('{"Data": ' + "1" * 5000 + "}", "not_json", "JSON"),
        ("null", "not_a_checkpoint", "Data"),
        ("[]", "not_a_checkpoint", "Data"),
        ("7", "not_a_checkpoint", "Data"),
        ('{"policyName":"none","defaultCpuSet":""}', "not_a_checkpoint", "Data"),
        ('{"Data":null}', "not_a_checkpoint", "Data"),
        ('{"Data":{"PodDeviceEntries":{}}}', "not_a_checkpoint", "PodDeviceEntries"),
    ],
)
def test_other_text_is_an_error_with_a_reason(text: str, reason: str, said: str) -> None:
    parsed = parse_checkpoint(text)
    assert parsed.error is not None
    assert parsed.error.reason == reason
    assert said in parsed.error.text
    assert "\n" not in parsed.error.text
    assert parsed.allocations is None


def test_a_lone_surrogate_does_not_affect_the_others() -> None:
    text = written(entry(ContainerName="MARK")).replace("MARK", r"tr\ud800ainer")
    [grant] = parse_checkpoint(text).allocations or ()
    assert grant.container_name == "tr\ufffdainer"


JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "PodUID": st.one_of(st.just(UID), JSON),
        "ContainerName": st.one_of(st.just("a"), JSON),
        "ResourceName": st.one_of(st.just("r"), JSON),
        "DeviceIDs": JSON,
    },
)


@given(st.lists(st.one_of(FIELDS, JSON), max_size=5))
def test_each_entry_is_a_grant_or_rejected(entries: list[object]) -> None:
    parsed = parse_checkpoint(written(*entries))
    grants = parsed.allocations or ()
    refused = {r.line.split("]")[0] for r in parsed.rejected}
    assert len(grants) <= len(entries) <= len(grants) + len(refused)
    for grant in grants:
        assert grant.pod_uid
        assert grant.container_name
        assert grant.resource_name


def message(*fields: tuple[int, bytes]) -> bytes:
    """Length-delimited fields of protobuf, all shorter than 128 bytes."""
    return b"".join(bytes([number << 3 | 2, len(value)]) + value for number, value in fields)


def pair(first: str, second: str) -> bytes:
    return message((1, first.encode()), (2, second.encode()))


def answered(*fields: tuple[int, bytes]) -> DeviceGrant:
    answer = base64.b64encode(message(*fields)).decode()
    parsed = parse_checkpoint(written(entry(DeviceIDs=["GPU-a-3"], AllocResp=answer)))
    assert parsed.rejected == ()
    [grant] = parsed.allocations or ()
    return grant


def test_the_plugins_response_contains_the_allocated_device() -> None:
    """HAMi's plugin allocates another card than that of the kubelet's id."""
    grant = answered(
        (1, pair("CUDA_DEVICE_MEMORY_LIMIT_0", "1024m")),
        (1, pair("NVIDIA_VISIBLE_DEVICES", "GPU-b,GPU-c")),
        (2, pair("/usr/local/vgpu/libvgpu.so", "/usr/local/vgpu/libvgpu.so")),
        (3, pair("/dev/nvidia0", "/dev/nvidia1")),
    )
    assert grant.device_ids == ("GPU-a-3",)
    assert grant.visible_devices == ("GPU-b", "GPU-c")
    assert grant.device_files == ("/dev/nvidia1",)  # the node's, not the container's


def test_devices_by_cdi_and_by_mounts() -> None:
    grant = answered(
        (1, pair("NVIDIA_VISIBLE_DEVICES", "/var/run/nvidia-container-devices")),
        (2, pair("/var/run/nvidia-container-devices/GPU-b", "/dev/null")),
        (4, pair("cdi.k8s.io/nvidia-device-plugin_1", "nvidia.com/gpu=GPU-b,nvidia.com/gpu=GPU-c")),
        (4, pair("example.com/other", "secret")),
        (5, message((1, b"nvidia.com/gpu=GPU-d"))),
    )
    assert grant.visible_devices == ("GPU-b",)
    assert grant.cdi_devices == ("nvidia.com/gpu=GPU-b", "nvidia.com/gpu=GPU-c", "nvidia.com/gpu=GPU-d")


@pytest.mark.parametrize("value", ["all", "none", "void", ""])
def test_a_variable_that_names_no_device(value: str) -> None:
    assert answered((1, pair("NVIDIA_VISIBLE_DEVICES", value))).visible_devices == ()


def test_other_variables_are_not_kept() -> None:
    grant = answered((1, pair("TOKEN", "hunter2")), (1, pair("NVIDIA_VISIBLE_DEVICES", "GPU-b")))
    assert "hunter2" not in repr(grant)


@pytest.mark.parametrize("answer", ["not base64!", "CmsKFk5W", 7, [], base64.b64encode(b"\x0f\x01").decode()])
def test_a_malformed_response_does_not_affect_the_others(answer: object) -> None:
    parsed = parse_checkpoint(written(entry(AllocResp=answer)))
    assert parsed.allocations == (granted("GPU-a"),)
    assert [(r.line, r.reason) for r in parsed.rejected] == [
        ("PodDeviceEntries[0].AllocResp", "not_an_answer")
    ]
