"""From a claim's device, through what drivers publish, to a device of this node."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice
from accelscope.attribution.pod_resources import ClaimDevice
from accelscope.attribution.watches import PublishedDevice, SliceTable, decode_slice, device_for
from accelscope.kube.endpoint import DecodeError
from accelscope.model import Device, Partition, Vendor

GPU = "GPU-11111111-2222-3333-4444-555555555555"
MIG = "MIG-0f0f0f0f-1e1e-2d2d-3c3c-4b4b4b4b4b4b"
DRIVER, POOL = "gpu.nvidia.com", "node-a"

DEVICES = DeviceIndex(
    [
        Device(
            vendor=Vendor("nvidia"),
            id=f"nvidia:{GPU}",
            uuid=GPU,
            index=0,
            pci_address="0000:17:00.0",
            partitions=(Partition(id=f"nvidia:{MIG}", uuid=MIG, index=0),),
        ),
        Device(
            vendor=Vendor("amd"),
            id="amd:x1",
            index=0,
            pci_address="0000:83:00.0",
            partitions=(Partition(id="amd:x1/0", index=0), Partition(id="amd:x1/1", index=1)),
        ),
    ]
)


def published(
    devices: list[Any], *, driver: str = DRIVER, pool: str = POOL, generation: int = 1
) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "node-a-xyz", "uid": f"{driver}-{pool}-{generation}"},
        "spec": {
            "driver": driver,
            "nodeName": "node-a",
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def device(name: str, **attributes: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "attributes": attributes}


def found(document: dict[str, Any], name: str, *, driver: str = DRIVER, pool: str = POOL) -> ResolvedDevice:
    return device_for(ClaimDevice(driver, pool, name), SliceTable([decode_slice(document)]), DEVICES)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"uuid": {"string": GPU}}, ResolvedDevice(f"nvidia:{GPU}")),
        ({"gpu.nvidia.com/uuid": {"string": GPU}}, ResolvedDevice(f"nvidia:{GPU}")),
        (
            {"uuid": {"string": MIG}, "parentUUID": {"string": GPU}},
            ResolvedDevice(f"nvidia:{GPU}", f"nvidia:{MIG}"),
        ),
        ({"uuid": {"string": "MIG-gone"}, "parentUUID": {"string": GPU}}, ResolvedDevice(f"nvidia:{GPU}")),
        ({"type": {"string": "mig"}, "parentUUID": {"string": GPU}}, ResolvedDevice(f"nvidia:{GPU}")),
        ({"resource.kubernetes.io/pciBusID": {"string": "0000:17:00.0"}}, ResolvedDevice(f"nvidia:{GPU}")),
        ({"pciAddr": {"string": "00000000:17:00.0"}}, ResolvedDevice(f"nvidia:{GPU}")),
        ({"gpu.nvidia.com/pciAddr": {"string": "0000:17:00.0"}}, ResolvedDevice(f"nvidia:{GPU}")),
        ({"gpu.nvidia.com/parentUUID": {"string": GPU}}, ResolvedDevice(f"nvidia:{GPU}")),
        ({"pciAddr": {"string": "0000:83:00.0"}}, UNRESOLVED),  # another vendor's
        ({"uuid": {"string": "GPU-other"}}, UNRESOLVED),
        ({"index": {"int": 0}, "resource.kubernetes.io/pcieRoot": {"string": "pci0000:17"}}, UNRESOLVED),
        ({"example.com/uuid": {"string": GPU}}, UNRESOLVED),  # what another domain means by it is not known
        ({"uuid": {"int": 7}}, UNRESOLVED),
        ({"uuid": GPU}, UNRESOLVED),
        ({}, UNRESOLVED),
    ],
)
def test_attributes_identify_the_device(attributes: dict[str, Any], expected: ResolvedDevice) -> None:
    current = {"name": "gpu-0", "attributes": attributes}
    older = {"name": "gpu-0", "basic": {"attributes": attributes, "capacity": {}}}
    for document in (current, older):
        assert found(published([document]), "gpu-0") == expected


def test_a_partition_of_an_amd_gpu_has_the_address_of_the_gpu() -> None:
    attributes = {
        "type": {"string": "amdgpu-partition"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:83:00.0"},
    }
    document = published([{"name": "gpu-9-137", "attributes": attributes}], driver="gpu.amd.com")
    assert found(document, "gpu-9-137", driver="gpu.amd.com") == ResolvedDevice("amd:x1")


@pytest.mark.parametrize("attribute", ["uuid", "parentUUID"])
def test_the_driver_selects_the_vendor_of_an_ambiguous_name(attribute: str) -> None:
    twins = DeviceIndex(
        Device(vendor=vendor, id=f"{vendor.value}:x", uuid=GPU)
        for vendor in (Vendor("nvidia"), Vendor("amd"))
    )
    slices = SliceTable([decode_slice(published([device("gpu-0", **{attribute: {"string": GPU}})]))])
    assert device_for(ClaimDevice(DRIVER, POOL, "gpu-0"), slices, twins) == ResolvedDevice("nvidia:x")


def test_a_slice_has_a_uid_and_the_default_generation_is_0() -> None:
    document = published([])
    del document["spec"]["pool"]["generation"]
    decoded = decode_slice(document)
    assert (decoded.uid, decoded.generation) == (document["metadata"]["uid"], 0)


def test_names_are_unique_per_driver_and_pool() -> None:
    document = published([device("gpu-0", uuid={"string": GPU})])
    assert found(document, "gpu-0").device
    assert found(document, "gpu-1") == UNRESOLVED
    assert found(document, "gpu-0", pool="node-b") == UNRESOLVED
    assert found(document, "gpu-0", driver="gpu.example.com") == UNRESOLVED
    assert device_for(ClaimDevice("", "", ""), SliceTable(), DEVICES) == UNRESOLVED


@pytest.mark.parametrize("newest_first", [True, False])
def test_only_the_newest_generation_of_a_pool_is_used(newest_first: bool) -> None:
    slices = [
        decode_slice(published([device("gpu-0", uuid={"string": "GPU-old"}), device("gpu-9")], generation=9)),
        decode_slice(published([device("gpu-0", uuid={"string": GPU})], generation=10)),
        decode_slice(published([device("gpu-1")], generation=10)),
        decode_slice(published([device("gpu-0")], pool="other", generation=1)),
    ]
    table = SliceTable(reversed(slices) if newest_first else slices)
    assert table.find(DRIVER, POOL, "gpu-0") == PublishedDevice("gpu-0", uuid=GPU)
    assert table.find(DRIVER, POOL, "gpu-1")  # a pool may take several slices
    assert table.find(DRIVER, POOL, "gpu-9") is None
    assert table.find(DRIVER, "other", "gpu-0")


@pytest.mark.parametrize(
    "document",
    [
        None,
        "text",
        [],
        {},
        {"spec": None},
        {"spec": {"driver": "d", "pool": {"name": "p", "generation": 1}}},
        {"metadata": {"uid": "u"}, "spec": {"driver": 1, "pool": {"name": "p", "generation": 1}}},
        {"metadata": {"uid": "u"}, "spec": {"driver": "d", "pool": "p"}},
        {"metadata": {"uid": "u"}, "spec": {"driver": "d", "pool": {"name": "p", "generation": "1"}}},
    ],
)
def test_a_malformed_slice_is_an_error(document: object) -> None:
    with pytest.raises(DecodeError):
        decode_slice(document)


@pytest.mark.parametrize("devices", [None, {}, ["gpu-0"], [{}], [{"name": 1}], [None]])
def test_malformed_devices_are_left_out(devices: object) -> None:
    document = published([])
    document["spec"]["devices"] = devices
    assert decode_slice(document).devices == ()


@pytest.mark.parametrize("attributes", [None, [], "uuid", {"uuid": []}])
def test_malformed_attributes_are_ignored(attributes: object) -> None:
    one = decode_slice(published([{"name": "gpu-0", "attributes": attributes, "basic": 1}]))
    assert one.devices == (PublishedDevice("gpu-0"),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "pool", "devices", "driver", "name", "basic", "attributes", "uuid"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_document_is_a_slice_or_an_error(document: object) -> None:
    for candidate in (document, published([document])):
        try:
            SliceTable([decode_slice(candidate)])
        except DecodeError:
            assert candidate is document


def test_a_slice_costs_little() -> None:
    def full(number: int) -> dict[str, Any]:
        many = {f"attribute-{n}": {"string": f"{'text' * 20}-{number}-{n}"} for n in range(30)}
        return device(f"gpu-{number}", uuid={"string": f"GPU-{number:036}"}, **many)

    def kept_bytes() -> int:
        tracemalloc.start()
        one = decode_slice(published([full(number) for number in range(128)]))
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(one.devices) == 128
        return kept

    assert kept_bytes() < 128 * 500
