"""Ids are the most stable fact there is; PCI addresses have one spelling."""

from dataclasses import fields

import pytest

from accelscope.model import Device, Partition, Vendor, device_id, identity_of, is_masked, pci_address


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"uuid": "GPU-1", "serial": "S", "pci": "0000:01:00.0", "index": 3}, "nvidia:GPU-1"),
        ({"serial": "S", "pci": "0000:01:00.0", "index": 3}, "nvidia:S"),
        ({"pci": "0000:01:00.0", "index": 3}, "nvidia:0000:01:00.0"),
        ({"index": 3}, "nvidia:unidentified-3"),
        ({}, "nvidia:unidentified-?"),
        ({"uuid": "GPU-00000000-0000-0000-0000-000000000000", "serial": "S"}, "nvidia:S"),
        ({"uuid": "GPU-xxxxxxxx-xxxx", "serial": "********", "pci": "0000:01:00.0"}, "nvidia:0000:01:00.0"),
        ({"uuid": "00000000", "index": 3}, "nvidia:unidentified-3"),
    ],
)
def test_device_id(facts: dict[str, str], expected: str) -> None:
    assert device_id(Vendor("nvidia"), **facts) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fact", "masked"),
    [
        ("GPU-00000000-0000-0000-0000-000000000000", True),
        ("MIG-ffffffff-ffff-ffff-ffff-ffffffffffff", True),
        ("GPU-8f1cXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX", True),
        ("<redacted>", True),
        ("1234567890***", True),
        ("GPU-1", False),
        ("0", False),  # a board's serial number may be anything
        ("1111", False),
        ("GPU-00000000-0000-4000-8000-000000000001", False),  # as `accelscope capture` masks: one each
        ("0x8f1c00000000", False),
        ("1323921045678", False),
        ("MAX0XX12", False),
    ],
)
def test_a_masked_fact_is_known_by_itself(fact: str, masked: bool) -> None:
    assert is_masked(fact) == masked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:0C:00.0", "0000:0c:00.0"),
        ("0000:0c:00.0", "0000:0c:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0C:00.1", "0000:0c:00.1"),
        (" 0000:9A:00.0 \n", "0000:9a:00.0"),
        ("NA", None),
        ("", None),
        ("0000:0c:00.0.1", None),
        ("0000:0c", None),
    ],
)
def test_pci_address(text: str, expected: str | None) -> None:
    assert pci_address(text) == expected


def test_every_field_before_the_state_is_identity_and_nothing_else() -> None:
    named = [field.name for field in fields(Device)]
    identity = named[: named.index("health")]
    values = {name: f"some {name}" for name in named if name != "partitions"}
    part = Partition(id="gi0", uuid="MIG-1", profile="1g.10gb", gpu_instance_id=0, memory_total_bytes=10)
    kept = identity_of(Device(**values, partitions=(part,)))  # type: ignore[arg-type]
    assert {name for name in values if getattr(kept, name) == values[name]} == set(identity)
    assert kept.partitions == (Partition(id="gi0", uuid="MIG-1", profile="1g.10gb", gpu_instance_id=0),)
