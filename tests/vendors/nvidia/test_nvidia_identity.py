"""Which GPU it is, from one reading to the next."""

import pytest

from accelscope.model import Device, Vendor, device_id
from accelscope.vendors.nvidia.gpu import identified

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
    ids=["fell-off", "replaced", "another", "without-address-before", "without-address-now"],
)
def test_one_that_is_named_by_its_address_only_is_the_one_that_was_there(
    before: Device, after: Device, expected: str
) -> None:
    known: dict[str, str] = {}
    assert identified(before, known) == before
    assert identified(after, known).id == expected
