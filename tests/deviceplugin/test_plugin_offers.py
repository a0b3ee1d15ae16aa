"""Offers: disabled devices are left out, and no two devices share an id."""

from pathlib import Path

import pytest

from accelscope.attribution.device_ids import DeviceIndex, ResolvedDevice, resolve
from accelscope.deviceplugin.health import DeviceHealth
from accelscope.deviceplugin.offers import DisabledFilter, Policy, make_offers
from accelscope.deviceplugin.settings import DisabledDevice
from accelscope.deviceplugin.vendor import Division, Roots, core_name_parser, open_vendor
from accelscope.model import Device, Partition, Vendor


def card(index: int, uuid: str) -> Device:
    return Device(
        vendor=Vendor("furiosa"),
        id=f"furiosa:{index}",
        index=index,
        device_name=f"npu{index}",
        architecture="warboy",
        uuid=uuid,
        serial=f"S{index}",
        pci_address=f"0000:0{index}:00.0",
    )


def offered(tmp_path: Path, cores: int, *disabled: DisabledDevice, uuid: str | None = None) -> list[str]:
    for name in ("npu0", "npu0pe0", "npu0pe1", "npu0pe0-1", "npu1", "npu1pe0", "npu1pe1", "npu1pe0-1", "tty"):
        (tmp_path / name).touch()
    part = open_vendor(Vendor("furiosa"), Roots(dev=tmp_path))
    filtered = DisabledFilter(disabled, "here", core_name_parser(Vendor("furiosa")))
    policy = Policy("beta.furiosa.ai/npu", filtered, Division(cores))
    cards = [DeviceHealth(card(index, uuid or f"U{index}"), healthy=True) for index in (0, 1, 2)]
    made = make_offers(cards, part, policy, tmp_path)
    assert len(made.withheld) == 1  # the third card has no device files
    return [offer.id for offer in made.offers]


@pytest.mark.parametrize(
    ("disabled", "whole", "single"),
    [
        ([], ["U0", "U1"], ["U0_cores_0", "U0_cores_1", "U1_cores_0", "U1_cores_1"]),
        (["npu0"], ["U1"], ["U1_cores_0", "U1_cores_1"]),
        (["u1"], ["U0"], ["U0_cores_0", "U0_cores_1"]),
        (["S1", "0000:00:00.0"], [], []),
        (["npu0pe1"], ["U1"], ["U0_cores_0", "U1_cores_0", "U1_cores_1"]),
        (["npu0pe0-1"], ["U1"], ["U1_cores_0", "U1_cores_1"]),
        (["U0_cores_0"], ["U0", "U1"], ["U0_cores_1", "U1_cores_0", "U1_cores_1"]),
        (["npu9", ""], ["U0", "U1"], ["U0_cores_0", "U0_cores_1", "U1_cores_0", "U1_cores_1"]),
    ],
)
def test_disabled_devices_and_cores_are_not_offered(
    tmp_path: Path, disabled: list[str], whole: list[str], single: list[str]
) -> None:
    names = [DisabledDevice(name) for name in disabled]
    assert offered(tmp_path, 0, *names) == whole
    assert offered(tmp_path, 1, *names) == single


def test_a_device_disabled_on_another_node_is_offered_here(tmp_path: Path) -> None:
    assert offered(tmp_path, 0, DisabledDevice("npu0", "there"), DisabledDevice("npu1", "here")) == ["U0"]


def test_cards_with_the_same_uuid_are_offered_by_their_pci_address(tmp_path: Path) -> None:
    assert offered(tmp_path, 0, uuid="U") == ["0000:00:00.0", "0000:01:00.0"]


def gpu(uuid: str | None, partitions: int) -> Device:
    return Device(
        vendor=Vendor("amd"),
        id=f"amd:{uuid or '0000:83:00.0'}",
        index=0,
        uuid=uuid,
        pci_address="0000:83:00.0",
        partitions=tuple(Partition(id=f"amd:{uuid}/{number}", index=number) for number in range(partitions)),
    )


@pytest.mark.parametrize(
    ("uuid", "partitions", "unit"),
    [
        ("0x9d2f7a1c0b3e4455", 0, "0000:83:00.0"),
        ("0x9d2f7a1c0b3e4455", 8, "0x9d2f7a1c0b3e4455"),
        (None, 8, "0000:83:00.0"),
    ],
)
def test_the_id_of_an_amd_gpu(tmp_path: Path, uuid: str | None, partitions: int, unit: str) -> None:
    part = open_vendor(Vendor("amd"), Roots(dev=tmp_path))
    assert [each.id for each in part.units(gpu(uuid, partitions), "amd.com/gpu", 0)] == [unit]


def test_attribution_resolves_a_partitioned_amd_gpu_to_the_whole_gpu(tmp_path: Path) -> None:
    partitioned = gpu("0x9d2f7a1c0b3e4455", 8)
    [unit] = open_vendor(Vendor("amd"), Roots(dev=tmp_path)).units(partitioned, "amd.com/gpu", 0)
    assert resolve(unit.id, "amd.com/gpu", DeviceIndex([partitioned])) == ResolvedDevice(
        partitioned.id, partition=None
    )


def test_the_id_of_a_partitioned_amd_gpu_stays_while_its_partitions_are_not_reported(tmp_path: Path) -> None:
    """A second id would be a second, free GPU to the kubelet."""
    part = open_vendor(Vendor("amd"), Roots(dev=tmp_path))
    partitioned, asleep = gpu("0x9d2f7a1c0b3e4455", 8), gpu("0x9d2f7a1c0b3e4455", 0)
    units = [part.units(each, "amd.com/gpu", 0) for each in (partitioned, asleep)]
    assert units[0] == units[1]
