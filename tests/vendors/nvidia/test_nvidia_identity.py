"""The id of a GPU stays the same when only its PCI address is reported."""

import pytest

from accelscope.model import Device, Vendor, device_id
from accelscope.vendors.nvidia.gpu import with_known_id

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"


def gpu(address: str | None, uuid: str | None = None) -> Device:
    return Device(
        vendor=Vendor("nvidia"),
        id=device_id(Vendor("nvidia"), uuid=uuid, pci=address, index=0),
        index=0,
        uuid=uuid,
        pci_address=address,
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (gpu(FIRST, "GPU-1"), gpu(FIRST), "nvidia:GPU-1"),
        (gpu(FIRST, "GPU-1"), gpu(FIRST, "GPU-2"), "nvidia:GPU-2"),
        (gpu(FIRST, "GPU-1"), gpu(SECOND), gpu(SECOND).id),
        (gpu(None, "GPU-1"), gpu(FIRST), gpu(FIRST).id),
        (gpu(FIRST, "GPU-1"), gpu(None), gpu(None).id),
    ],
    ids=["fell-off", "replaced", "another-address", "no-address-before", "no-address-now"],
)
def test_a_gpu_reported_by_address_only_keeps_its_id(before: Device, after: Device, expected: str) -> None:
    known: dict[str, str] = {}
    assert with_known_id(before, known) == before
    assert with_known_id(after, known).id == expected
