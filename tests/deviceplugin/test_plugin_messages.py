"""The messages: made from their .proto, with the numbers that the kubelet's published API has."""

import subprocess
import sys

import pytest
from tests.repository import REPOSITORY

from accelscope.deviceplugin.messages import allocatable_pb2, device_plugin_pb2

# By the names of our own; in the order of the published numbers, which begin at 1.
FIELDS = {
    "Options": ["pre_start_required", "get_preferred_allocation_available"],
    "RegisterRequest": ["version", "endpoint", "resource_name", "options"],
    "DeviceList": ["devices"],
    "Device": ["id", "health", "topology"],
    "Topology": ["nodes"],
    "NumaNode": ["id"],
    "PreStartContainerRequest": ["device_ids"],
    "PreferredAllocationRequest": ["container_requests"],
    "ContainerPreferredAllocationRequest": [
        "available_device_ids",
        "must_include_device_ids",
        "allocation_size",
    ],
    "PreferredAllocationResponse": ["container_responses"],
    "ContainerPreferredAllocationResponse": ["device_ids"],
    "AllocateRequest": ["container_requests"],
    "ContainerAllocateRequest": ["device_ids"],
    "AllocateResponse": ["container_responses"],
    "ContainerAllocateResponse": ["envs", "mounts", "devices", "annotations", "cdi_devices"],
    "Mount": ["container_path", "host_path", "read_only"],
    "DeviceNode": ["container_path", "host_path", "permissions"],
    "CdiDevice": ["name"],
}


def test_messages_match_the_proto_file() -> None:
    done = subprocess.run(
        [sys.executable, REPOSITORY / "scripts/protobuf", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("message", FIELDS)
def test_fields_have_the_published_numbers(message: str) -> None:
    descriptor = getattr(device_plugin_pb2, message).DESCRIPTOR
    assert {field.number: field.name for field in descriptor.fields} == dict(enumerate(FIELDS[message], 1))


def test_allocatable_devices() -> None:
    """Bytes as the kubelet sends them: CPUs, memory and topology beside what is read here."""
    message = b"\x0a\x11\x0a\x05a.b/c\x12\x02id\x1a\x04\x0a\x02\x08\x01" + b"\x10\x03" + b"\x1a\x02\x0a\x00"
    [devices] = allocatable_pb2.AllocatableResources.FromString(message).devices
    assert (devices.resource_name, list(devices.device_ids)) == ("a.b/c", ["id"])
