"""Parsing of `-L`, and joining it with another output."""

import pytest

from accelscope.model import Device, Partition, Process, Vendor
from accelscope.parsing import ParseResult
from accelscope.vendors.nvidia.parse_text import join_partitions, parse_list

TWO = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)
  MIG 3g.20gb     Device  0: (UUID: MIG-0)
  MIG 1c.3g.20gb+me  Device  1: (UUID: MIG-1)
GPU 1: NVIDIA X (rev 2) (UUID: GPU-b)
"""


@pytest.mark.parametrize("text", [TWO, TWO.replace("\n", " \r\n"), f"\ufeff{TWO.rstrip()}"])
def test_the_list_gives_devices_and_partitions(text: str) -> None:
    parsed = parse_list(text)
    assert parsed.error is None
    assert [(d.id, d.index, d.uuid, d.model) for d in parsed.devices] == [
        ("nvidia:GPU-a", 0, "GPU-a", "NVIDIA A100-SXM4-40GB"),
        ("nvidia:GPU-b", 1, "GPU-b", "NVIDIA X (rev 2)"),
    ]
    assert parsed.devices[0].partitions == (
        Partition(id="nvidia:MIG-0", uuid="MIG-0", index=0, profile="3g.20gb"),
        Partition(id="nvidia:MIG-1", uuid="MIG-1", index=1, profile="1c.3g.20gb+me"),
    )
    assert parsed.devices[1].partitions == ()


def test_an_old_mig_uuid_contains_the_instances() -> None:
    parsed = parse_list("GPU 0: X (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-GPU-a/7/1)\n")
    [partition] = parsed.devices[0].partitions
    assert (partition.uuid, partition.gpu_instance_id, partition.compute_instance_id) == (
        "MIG-GPU-a/7/1",
        7,
        1,
    )


@pytest.mark.parametrize(
    ("line", "place", "state"),
    [
        (
            "Unable to determine the device handle for gpu 0000:23:00.0: Unknown Error",
            (None, "0000:23:00.0"),
            "lost",
        ),
        (
            "GPU 2: Unable to determine the device handle for gpu 0000:23:00.0: GPU is lost",
            (2, "0000:23:00.0"),
            "lost",
        ),
        ("GPU 2: NVIDIA X (UUID: [GPU is lost])", (2, None), "lost"),
        ("GPU 2: NVIDIA X (UUID: [GPU requires reset])", (2, None), "critical"),
    ],
)
def test_an_unreachable_gpu_is_listed(line: str, place: tuple[int | None, str | None], state: str) -> None:
    parsed = parse_list(f"{TWO}{line}\n")
    assert parsed.error is None
    assert len(parsed.devices) == 3
    assert (parsed.devices[2].index, parsed.devices[2].pci_address) == place
    assert parsed.devices[2].health.state == state
    assert {rejection.reason for rejection in parsed.rejected} <= {"device_lost"}


@pytest.mark.parametrize(
    "line", ["nonsense", "  MIG broken", "GPU x: y (UUID: GPU-z)", "GPU 3: " + "z" * 5000]
)
def test_a_bad_line_is_rejected_alone(line: str) -> None:
    parsed = parse_list(f"{TWO}{line}\n")
    assert len(parsed.devices) == 2
    assert [rejection.reason for rejection in parsed.rejected] == ["not_a_row"]


def test_a_partition_without_device_is_rejected() -> None:
    parsed = parse_list("  MIG 3g.20gb     Device  0: (UUID: MIG-0)\n")
    assert parsed.devices == ()
    assert parsed.error is not None


def measured(*partitions: Partition) -> ParseResult:
    device = Device(
        vendor=Vendor("nvidia"), id="nvidia:GPU-a", uuid="GPU-a", power_watts=5.0, partitions=partitions
    )
    return ParseResult(
        devices=(device,),
        processes=(
            Process(pid=1, partition="nvidia:GPU-a/gi2/ci1"),
            Process(pid=2),
            Process(pid=3, partition="x"),
        ),
    )


def test_partitions_are_joined_by_index() -> None:
    first = Partition(id="nvidia:GPU-a/gi1/ci0", index=0, gpu_instance_id=1, memory_used_bytes=5)
    second = Partition(id="nvidia:GPU-a/gi2/ci1", index=1, gpu_instance_id=2)
    unlisted = Partition(id="nvidia:GPU-a/gi9/ci0", index=9)
    joined = join_partitions(measured(second, unlisted, first), parse_list(TWO))
    assert joined.devices[0].power_watts == 5.0
    assert joined.devices[0].partitions == (
        Partition(id="nvidia:MIG-1", uuid="MIG-1", index=1, profile="1c.3g.20gb+me", gpu_instance_id=2),
        unlisted,
        Partition(
            id="nvidia:MIG-0",
            uuid="MIG-0",
            index=0,
            profile="3g.20gb",
            gpu_instance_id=1,
            memory_used_bytes=5,
        ),
    )
    assert [process.partition for process in joined.processes] == ["nvidia:MIG-1", None, "x"]


def test_a_device_without_partitions_gets_those_of_the_list() -> None:
    listed = parse_list(TWO)
    assert join_partitions(measured(), listed).devices[0].partitions == listed.devices[0].partitions


def test_a_device_that_is_not_listed_is_unchanged() -> None:
    before = measured(Partition(id="p", index=0))
    assert join_partitions(before, parse_list("GPU 0: X (UUID: GPU-other)\n")) == before


def test_instances_with_masked_uuids_have_ids_by_index() -> None:
    zeros = "00000000-0000-0000-0000-000000000000"
    text = f"GPU 0: X (UUID: GPU-{zeros})\n" + "".join(
        f"  MIG 3g.40gb     Device  {n}: (UUID: MIG-{zeros})\n" for n in (0, 1)
    )
    [device] = parse_list(text).devices
    assert device.id == "nvidia:unidentified-0"
    assert [part.id for part in device.partitions] == [f"{device.id}/mig0", f"{device.id}/mig1"]
