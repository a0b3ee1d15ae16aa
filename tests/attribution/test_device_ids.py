"""Which device a plugin's id means, in every form that plugins use."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.device_ids import (
    UNRESOLVED,
    DeviceIndex,
    ResolvedDevice,
    identities,
    resolve,
    vendor_of,
)
from accelscope.model import Device, Partition, Vendor, identity_of

GPU_0 = "GPU-11111111-2222-3333-4444-555555555555"
GPU_1 = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
MIG_UUID = "MIG-0f0f0f0f-1e1e-2d2d-3c3c-4b4b4b4b4b4b"
OLD_MIG = f"MIG-{GPU_1}/1/0"
RNGD = "A76AAD68-6855-40B1-9E86-D080852D1C84"
DIE = "9E99DE0C-20A4FA8E-53E5EA56-D0CB1F07-6A5C8E3B"


def nvidia(uuid: str, index: int, minor: int | None, *partitions: Partition) -> Device:
    return Device(
        vendor=Vendor("nvidia"),
        id=f"nvidia:{uuid}",
        index=index,
        uuid=uuid,
        pci_address=f"0000:{index + 16:02x}:00.0",
        device_name=None if minor is None else f"nvidia{minor}",
        partitions=partitions,
    )


def instance(name: str, index: int, gpu: int, compute: int, uuid: str | None = None) -> Partition:
    return Partition(id=name, uuid=uuid, index=index, gpu_instance_id=gpu, compute_instance_id=compute)


def amd(name: str, address: str, render: int, parts: int = 0, *, first_xcp: int | None = None) -> Device:
    """The first part has the GPU's own files, the others are named from `first_xcp` on, if at all."""
    return Device(
        vendor=Vendor("amd"),
        id=f"amd:{name}",
        index=render - 128,
        uuid=name,
        pci_address=address,
        device_name=f"renderD{render}",
        partitions=tuple(
            Partition(
                id=f"amd:{name}/{number}",
                index=number,
                device_name=f"amdgpu_xcp_{first_xcp + number - 1}"
                if number and first_xcp is not None
                else None,
            )
            for number in range(parts)
        ),
    )


def ascend(name: str, logic: int | None, physical: int | None = None, uuid: str | None = None) -> Device:
    return Device(
        vendor=Vendor("ascend"),
        id=f"ascend:{name}",
        index=logic,
        physical_id=physical,
        board_id=2144,
        chip_id=0,
        uuid=uuid,
    )


def furiosa(uuid: str, architecture: str, name: str) -> Device:
    return Device(
        vendor=Vendor("furiosa"),
        id=f"furiosa:{uuid}",
        uuid=uuid,
        architecture=architecture,
        device_name=name,
        index=0,
    )


# Minor numbers need not follow the order of PCI.
TWO_GPUS = (
    nvidia(GPU_0, 0, 1),
    nvidia(
        GPU_1,
        1,
        0,
        instance(f"nvidia:{MIG_UUID}", 0, 1, 0, MIG_UUID),
        instance("nvidia:part-2-0", 1, 2, 0),
        instance("nvidia:part-2-1", 2, 2, 1),
    ),
)
TWO_AMD = (amd("x0", "0000:03:00.0", 128), amd("x1", "0000:83:00.0", 136, parts=8))
CHIPS = (ascend("a", 0, uuid=DIE), ascend("b", 1), ascend("c", 2))
FURIOSA = (furiosa(RNGD, "rngd", "npu0"), furiosa("b" * 32, "warboy", "npu0"))
MIXED = (*TWO_GPUS, *TWO_AMD, *CHIPS, *FURIOSA)

FIRST, SECOND = ResolvedDevice(f"nvidia:{GPU_0}"), ResolvedDevice(f"nvidia:{GPU_1}")
MIG_PART = ResolvedDevice(f"nvidia:{GPU_1}", f"nvidia:{MIG_UUID}")


@pytest.mark.parametrize(
    ("device_id", "resource", "expected"),
    [
        (GPU_0, "nvidia.com/gpu", FIRST),
        (GPU_0.upper(), "nvidia.com/gpu", FIRST),
        (GPU_0, "nvidia.com/gpu.shared", FIRST),
        (GPU_0, None, FIRST),
        (GPU_0, "volcano.sh/vgpu-number", FIRST),  # a uuid is enough with any resource
        (f"{GPU_0}::0", "nvidia.com/gpu", FIRST),
        (f"{GPU_0}::17", "nvidia.com/gpu.shared", FIRST),
        (f"{GPU_0}-3", "nvidia.com/gpu", FIRST),
        (f"{GPU_0}-12", "volcano.sh/vgpu-number", FIRST),
        (GPU_0[:-1], "nvidia.com/gpu", UNRESOLVED),
        (GPU_0.replace("1", "9"), "nvidia.com/gpu", UNRESOLVED),
        (f"{GPU_0}-x", "nvidia.com/gpu", UNRESOLVED),
        (GPU_0.rpartition("-")[0], "nvidia.com/gpu", UNRESOLVED),
        (GPU_0, "amd.com/gpu", UNRESOLVED),
        ("0000:11:00.0", "nvidia.com/gpu", SECOND),  # all of it, though it is cut
        (MIG_UUID, "nvidia.com/mig-1g.10gb", MIG_PART),
        (f"{MIG_UUID}::2", "nvidia.com/mig-1g.10gb.shared", MIG_PART),
        (f"{MIG_UUID}-1", "nvidia.com/gpu", MIG_PART),
        ("MIG-00000000-1e1e-2d2d-3c3c-4b4b4b4b4b4b", "nvidia.com/mig-1g.10gb", UNRESOLVED),
        (OLD_MIG, "nvidia.com/mig-1g.5gb", MIG_PART),
        (f"{OLD_MIG}::1", "nvidia.com/mig-1g.5gb", MIG_PART),
        (f"MIG-{GPU_1}/2/1", "nvidia.com/gpu", ResolvedDevice(SECOND.device, "nvidia:part-2-1")),
        (f"MIG-{GPU_1}/9/0", "nvidia.com/gpu", SECOND),  # the instance is not shown, its GPU is
        (f"MIG-{GPU_0.replace('1', '9')}/1/0", "nvidia.com/gpu", UNRESOLVED),
        ("nvidia0", "nvidia.com/gpu", SECOND),
        ("nvidia1", "nvidia.com/gpu", FIRST),
        ("nvidia2", "nvidia.com/gpu", UNRESOLVED),
        ("nvidia1/vgpu3", "nvidia.com/gpu", FIRST),
        ("nvidia0/gi1", "nvidia.com/gpu", MIG_PART),
        ("nvidia0/gi1/vgpu0", "nvidia.com/gpu", MIG_PART),
        ("nvidia0/gi2", "nvidia.com/gpu", SECOND),  # two compute instances are in it
        ("nvidia9/gi1", "nvidia.com/gpu", UNRESOLVED),
        ("0", "nvidia.com/gpu", FIRST),
        ("1", "nvidia.com/gpu.shared", SECOND),
        ("1::4", "nvidia.com/gpu", SECOND),
        ("2", "nvidia.com/gpu", UNRESOLVED),
        ("0", "nvidia.com/GA102GL_A10", UNRESOLVED),  # a group of the IOMMU, for virtual machines
        ("0", "example.com/gpu", UNRESOLVED),
        ("0", None, UNRESOLVED),
        ("tegra", "nvidia.com/gpu", UNRESOLVED),  # which of two?
        ("", "nvidia.com/gpu", UNRESOLVED),
        ("::", "nvidia.com/gpu", UNRESOLVED),
    ],
)
def test_nvidia(device_id: str, resource: str | None, expected: ResolvedDevice) -> None:
    assert resolve(device_id, resource, DeviceIndex(MIXED)) == expected


@pytest.mark.parametrize(
    ("device_id", "devices", "expected"),
    [
        ("tegra", TWO_GPUS[:1], FIRST),
        ("tegra", TWO_AMD, UNRESOLVED),
        (
            "nvidia0",
            (nvidia(GPU_0, 0, None),),
            FIRST,
        ),  # the reader reports no names, but there is only one device
        ("nvidia0", (nvidia(GPU_0, 0, None), nvidia(GPU_1, 1, None)), UNRESOLVED),
        ("nvidia3", (nvidia(GPU_0, 0, 1),), UNRESOLVED),
        (GPU_0, (nvidia(GPU_0, 0, 0), nvidia(GPU_0, 1, 1)), UNRESOLVED),  # a masked uuid, twice
        (GPU_0, (), UNRESOLVED),
    ],
)
def test_nvidia_on_other_nodes(device_id: str, devices: Sequence[Device], expected: ResolvedDevice) -> None:
    assert resolve(device_id, "nvidia.com/gpu", DeviceIndex(devices)) == expected


@pytest.mark.parametrize(
    ("device_id", "resource", "expected"),
    [
        ("0000:03:00.0", "amd.com/gpu", ResolvedDevice("amd:x0")),
        ("0000:03:00.0", None, ResolvedDevice("amd:x0")),
        ("03:00.0", "amd.com/gpu", ResolvedDevice("amd:x0")),
        ("0000:04:00.0", "amd.com/gpu", UNRESOLVED),
        ("0000:10:00.0", "amd.com/gpu", UNRESOLVED),  # there is one, but not AMD's
        # Cut into eight, the address is the first of the parts.
        ("0000:83:00.0", "amd.com/cpx_nps4", ResolvedDevice("amd:x1", "amd:x1/0")),
        ("renderD136", "amd.com/gpu", ResolvedDevice("amd:x1", "amd:x1/0")),
        ("renderD128", "amd.com/gpu", ResolvedDevice("amd:x0")),
        ("renderD129", "amd.com/gpu", UNRESOLVED),
        ("renderD128", "gpu.intel.com/i915", UNRESOLVED),
        ("amdgpu_xcp_1", "amd.com/cpx_nps4", UNRESOLVED),  # of which of two?
        ("0", "amd.com/gpu", UNRESOLVED),
    ],
)
def test_amd(device_id: str, resource: str | None, expected: ResolvedDevice) -> None:
    assert resolve(device_id, resource, DeviceIndex(MIXED)) == expected


@pytest.mark.parametrize(
    ("device_id", "resource", "expected"),
    [
        ("0000:03:00.0", "amd.com/cpx_nps4", ResolvedDevice("amd:x0", "amd:x0/0")),
        ("amdgpu_xcp_0", "amd.com/cpx_nps4", ResolvedDevice("amd:x0", "amd:x0/1")),
        ("amdgpu_xcp_6", "amd.com/cpx_nps4", ResolvedDevice("amd:x0", "amd:x0/7")),
        ("0000:83:00.0", "amd.com/gpu", ResolvedDevice("amd:x1", "amd:x1/0")),
        ("amdgpu_xcp_7", "amd.com/gpu", ResolvedDevice("amd:x1", "amd:x1/1")),
        ("amdgpu_xcp_7", None, ResolvedDevice("amd:x1", "amd:x1/1")),
        ("amdgpu_xcp_8", "amd.com/gpu", UNRESOLVED),  # there, but no part of a GPU cut into two
        ("amdgpu_xcp_7", "nvidia.com/gpu", UNRESOLVED),
    ],
)
def test_parts_of_several_amd_gpus(device_id: str, resource: str | None, expected: ResolvedDevice) -> None:
    cut = (amd("x0", "0000:03:00.0", 128, 8, first_xcp=0), amd("x1", "0000:83:00.0", 136, 2, first_xcp=7))
    assert resolve(device_id, resource, DeviceIndex((*TWO_GPUS, *cut))) == expected


def test_an_ambiguous_partition_name_is_not_resolved() -> None:
    twice = (amd("x0", "0000:03:00.0", 128, 2, first_xcp=0), amd("x1", "0000:83:00.0", 136, 2, first_xcp=0))
    assert resolve("amdgpu_xcp_0", "amd.com/gpu", DeviceIndex(twice)) == UNRESOLVED


def test_a_partition_that_the_only_amd_gpu_does_not_have() -> None:
    devices = DeviceIndex([amd("x0", "0000:03:00.0", 128, 2, first_xcp=0)])
    assert resolve("amdgpu_xcp_0", "amd.com/gpu", devices) == ResolvedDevice("amd:x0", "amd:x0/1")
    assert resolve("amdgpu_xcp_1", "amd.com/gpu", devices) == UNRESOLVED


def test_a_part_of_the_only_amd_gpu() -> None:
    devices = DeviceIndex((*TWO_GPUS, TWO_AMD[1]))
    assert resolve("amdgpu_xcp_1", "amd.com/gpu", devices) == ResolvedDevice("amd:x1")
    assert resolve("amdgpu_xcp_1", None, devices) == ResolvedDevice("amd:x1")


@pytest.mark.parametrize(
    ("device_id", "resource", "expected"),
    [
        ("Ascend910-0", "huawei.com/Ascend910", ResolvedDevice("ascend:a")),
        ("Ascend910-2", "huawei.com/Ascend910", ResolvedDevice("ascend:c")),
        ("Ascend910-3", "huawei.com/Ascend910", UNRESOLVED),
        ("Ascend310P-1", "huawei.com/Ascend310P", ResolvedDevice("ascend:b")),
        ("Ascend910-0", None, ResolvedDevice("ascend:a")),
        ("Ascend910-0", "nvidia.com/gpu", UNRESOLVED),
        ("Ascend910-2c-100-1", "huawei.com/Ascend910-2c", ResolvedDevice("ascend:b")),
        ("Ascend310P-2c-100-0", "huawei.com/Ascend310P-2c", ResolvedDevice("ascend:a")),
        ("Ascend310P-4c.3cpu.ndvpp-118-2", "huawei.com/Ascend310P-4c.3cpu.ndvpp", ResolvedDevice("ascend:c")),
        ("Ascend910-100-0", "huawei.com/Ascend910", UNRESOLVED),
        ("npu-1", "huawei.com/npu", ResolvedDevice("ascend:b")),
        ("npu-1", "example.com/npu", UNRESOLVED),
        ("0", "huawei.com/Ascend910", UNRESOLVED),
        (DIE, "huawei.com/Ascend910B3", ResolvedDevice("ascend:a")),
        (f"{DIE}-4", "huawei.com/Ascend910B3", ResolvedDevice("ascend:a")),
    ],
)
def test_ascend(device_id: str, resource: str | None, expected: ResolvedDevice) -> None:
    assert resolve(device_id, resource, DeviceIndex(MIXED)) == expected


def test_ascend_uses_the_numbers_of_device_files_if_known() -> None:
    chips = DeviceIndex((ascend("a", 0, 4), ascend("b", 1, 5), ascend("c", 5, 6)))
    assert resolve("Ascend910-5", "huawei.com/Ascend910", chips) == ResolvedDevice("ascend:b")
    assert resolve("Ascend910-0", "huawei.com/Ascend910", chips) == UNRESOLVED


@pytest.mark.parametrize(
    ("device_id", "resource", "expected"),
    [
        (RNGD, "furiosa.ai/rngd", ResolvedDevice(f"furiosa:{RNGD}")),
        (RNGD.lower(), "beta.furiosa.ai/npu", ResolvedDevice(f"furiosa:{RNGD}")),
        (f"{RNGD}_cores_0-1", "furiosa.ai/rngd-2core.12gb", ResolvedDevice(f"furiosa:{RNGD}")),
        (f"{RNGD.lower()}_cores_3", "beta.furiosa.ai/npu", ResolvedDevice(f"furiosa:{RNGD}")),
        (f"{RNGD}_cores_", "beta.furiosa.ai/npu", UNRESOLVED),
        (f"{RNGD[:-1]}0_cores_0", "beta.furiosa.ai/npu", UNRESOLVED),
        (RNGD, "nvidia.com/gpu", UNRESOLVED),
        ("npu0", "furiosa.ai/rngd", ResolvedDevice(f"furiosa:{RNGD}")),
        ("npu0pe0-1", "alpha.furiosa.ai/warboy", ResolvedDevice(f"furiosa:{'b' * 32}")),
        ("npu0pe0-1", "beta.furiosa.ai/npu", UNRESOLVED),  # a Warboy and an RNGD are both npu0
        ("npu0", "example.com/npu", UNRESOLVED),
    ],
)
def test_furiosa(device_id: str, resource: str, expected: ResolvedDevice) -> None:
    assert resolve(device_id, resource, DeviceIndex(MIXED)) == expected


ADDRESS = "0000:41:00.0"
WITHOUT_UUID = Device(
    vendor=Vendor("furiosa"), id="furiosa:card", pci_address=ADDRESS, architecture="rngd", index=0
)


@pytest.mark.parametrize(
    ("device_id", "resource", "expected"),
    [
        (f"{ADDRESS}_cores_0-1", "furiosa.ai/rngd", ResolvedDevice("furiosa:card")),
        ("npu0", "furiosa.ai/rngd", ResolvedDevice("furiosa:card")),
        ("npu0pe0", "alpha.furiosa.ai/warboy", UNRESOLVED),  # the only card is of the other kind
        ("npu0", "beta.furiosa.ai/npu", ResolvedDevice("furiosa:card")),
    ],
)
def test_a_furiosa_card_without_a_uuid(device_id: str, resource: str, expected: ResolvedDevice) -> None:
    assert resolve(device_id, resource, DeviceIndex((*TWO_GPUS, WITHOUT_UUID))) == expected


@pytest.mark.parametrize(
    ("device_id", "resource", "expected"),
    [
        (f"{GPU_0}-3", "nvidia.com/gpu", FIRST),
        (f"{GPU_0}-3", "volcano.sh/vgpu-number", UNRESOLVED),
        (OLD_MIG, "nvidia.com/mig-1g.5gb", MIG_PART),
        (f"{RNGD}_cores_0", "furiosa.ai/rngd", ResolvedDevice(f"furiosa:{RNGD}")),
        (f"{ADDRESS}_cores_0", "furiosa.ai/rngd", ResolvedDevice("furiosa:card")),
        ("renderD128", "amd.com/gpu", ResolvedDevice("amd:x0")),
        ("npu0", "furiosa.ai/rngd", ResolvedDevice(f"furiosa:{RNGD}")),
    ],
)
def test_the_resource_selects_the_vendor_of_an_ambiguous_id(
    device_id: str, resource: str, expected: ResolvedDevice
) -> None:
    named = (("1", GPU_0, "npu0"), ("2", GPU_1, "renderD128"), ("3", RNGD, "x"), ("4", None, "y"))
    twins = [
        Device(
            vendor=Vendor("ascend"),
            id=f"ascend:{name}",
            uuid=uuid,
            device_name=file,
            pci_address=ADDRESS if uuid is None else None,
            architecture="rngd",
        )
        for name, uuid, file in named
    ]
    named_card = replace(WITHOUT_UUID, device_name="npu7")
    assert resolve(device_id, resource, DeviceIndex((*MIXED, named_card, *twins))) == expected


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("nvidia.com/gpu", Vendor("nvidia")),
        ("gpu.nvidia.com", Vendor("nvidia")),
        ("amd.com/gpu", Vendor("amd")),
        ("huawei.com/Ascend910", Vendor("ascend")),
        ("beta.furiosa.ai/npu", Vendor("furiosa")),
        ("notnvidia.com/gpu", None),
        ("nvidia.com.example.org/gpu", None),
        ("hugepages-2Mi", None),
        ("", None),
    ],
)
def test_the_vendor_of_a_resource_name(name: str, vendor: Vendor | None) -> None:
    assert vendor_of(name) == vendor


def test_an_index_is_valid_until_an_identity_changes() -> None:
    index = DeviceIndex(MIXED)
    warmer = tuple(replace(device, temperature_celsius=80.0, stale=True) for device in MIXED)
    assert identities(warmer) == index.identities
    part = TWO_GPUS[1].partitions[0]
    for changed in (
        MIXED[1:],
        (replace(MIXED[0], device_name="nvidia7"), *MIXED[1:]),
        (MIXED[0], replace(MIXED[1], partitions=(replace(part, uuid="MIG-new"),)), *MIXED[2:]),
        (MIXED[0], replace(MIXED[1], partitions=(replace(part, device_name="new"),)), *MIXED[2:]),
    ):
        assert identities(changed) != index.identities


def test_stale_devices_are_found() -> None:
    """Else a pod that holds a part of one would hold nothing, and be idle since the next answer only."""
    assert identities(map(identity_of, MIXED)) == DeviceIndex(MIXED).identities


RESOURCES = ["nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910", "furiosa.ai/rngd", "x.org/y", None]


@given(st.text(max_size=60) | st.from_regex(r"[A-Za-z]*[-:/_0-9a-f]*", fullmatch=True))
def test_any_text_resolves_to_a_device_or_to_none(device_id: str) -> None:
    devices = DeviceIndex(MIXED)
    known = {device.id: {part.id for part in device.partitions} for device in MIXED}
    for resource in RESOURCES:
        found = resolve(device_id, resource, devices)
        if found.device is None:
            assert found.partition is None
        else:
            assert found.partition is None or found.partition in known[found.device]
            if resource is not None and (vendor := vendor_of(resource)):
                assert found.device.startswith(f"{vendor}:")
