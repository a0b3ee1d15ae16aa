"""Dynamic resource allocation: which device a claim means, asked only where there are claims."""

import json
from collections.abc import Iterator

import pytest
from tests.waiting import wait_until

from accelscope.attribution.allocations import allocations
from accelscope.attribution.device_ids import DeviceIndex
from accelscope.attribution.options import AttributionOptions
from accelscope.attribution.pod_resources import Claim, ClaimDevice, ContainerResources, PodResources
from accelscope.attribution.processes import NO_PODS
from accelscope.attribution.watches import ClaimWatch
from accelscope.kube.endpoint import Endpoint
from accelscope.model import AllocationSource, Device, Vendor
from accelscope.serve import Request, Response, Route, Server

UUID = "GPU-11111111-2222-3333-4444-555555555555"
DEVICES = DeviceIndex([Device(vendor=Vendor("nvidia"), id=f"nvidia:{UUID}", uuid=UUID)])
CLAIMED = ClaimDevice("gpu.nvidia.com", "node-1", "gpu-0", None, ())
SLICE = {
    "metadata": {"name": "s", "uid": "u-1"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "pool": {"name": "node-1", "generation": 1},
        "devices": [{"name": "gpu-0", "attributes": {"uuid": {"string": UUID}}}],
    },
}
PATH = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture
def slices() -> Iterator[str]:
    listed = json.dumps({"metadata": {"resourceVersion": "5"}, "items": [SLICE]}).encode()

    def answer(request: Request) -> Response:
        assert "fieldSelector=spec.nodeName%3Dnode-1" in request.query
        watched = "watch=true" in request.query
        return Response({"identity": b"" if watched else listed}, content_type="application/json")

    server = Server({PATH: Route(answer)}, host="127.0.0.1", port=0)
    server.start()
    yield f"http://127.0.0.1:{server.address[1]}"
    server.stop()


def held(*devices: ClaimDevice) -> PodResources:
    claim = Claim("ns", "one-gpu", devices)
    return PodResources("ns", "train", (ContainerResources("main", (), (claim,)),))


def test_a_claim_is_a_device_of_this_node(slices: str) -> None:
    claims = ClaimWatch(AttributionOptions(node="node-1", api_server=Endpoint(slices)))
    assert claims.state() is None
    try:
        wait_until(lambda: claims.resolve(CLAIMED, DEVICES).device == f"nvidia:{UUID}", "the slices are read")
        [found] = allocations([held(CLAIMED)], [], NO_PODS, DEVICES, lambda d: claims.resolve(d, DEVICES))
        assert (found.source, found.claim, found.device) == (
            AllocationSource.CLAIM,
            "ns/one-gpu",
            f"nvidia:{UUID}",
        )
        state = claims.state()
        assert state is not None
        assert state.source == "resource-slices"
    finally:
        claims.stop()


@pytest.mark.parametrize(
    "options",
    [
        AttributionOptions(node="node-1"),
        AttributionOptions(node="node-1", api_server=Endpoint("http://127.0.0.1:1"), resource_slices=False),
    ],
)
def test_without_permission_the_claim_has_no_device(options: AttributionOptions) -> None:
    claims = ClaimWatch(options)
    [found] = allocations([held(CLAIMED)], [], NO_PODS, DEVICES, lambda d: claims.resolve(d, DEVICES))
    assert (found.claim, found.device_id) == ("ns/one-gpu", "gpu.nvidia.com/node-1/gpu-0")
    assert found.device is None
    assert claims.state() is None


def test_a_claim_without_devices_is_listed() -> None:
    claims = ClaimWatch(AttributionOptions(node="node-1"))
    only_runtime_names = ClaimDevice("", "", "", None, ("nvidia.com/gpu=0",))
    found = allocations(
        [held(), held(only_runtime_names)], [], NO_PODS, DEVICES, lambda d: claims.resolve(d, DEVICES)
    )
    assert [(a.claim, a.device_id) for a in found] == [("ns/one-gpu", ""), ("ns/one-gpu", "nvidia.com/gpu=0")]
