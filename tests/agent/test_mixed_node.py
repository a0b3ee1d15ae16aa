"""Four vendors on one node: what hangs costs its own vendor, and the other three stay fresh."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.broken_agent import IMPATIENT, Broken
from tests.waiting import wait_until

from accelscope.model import Snapshot, Vendor
from accelscope.simulate import load_node
from accelscope.simulate.faults import Fault, FaultKind


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Broken]:
    with Broken(tmp_path, IMPATIENT, name="mixed") as running:
        running.until_fresh("all four vendors answer")
        yield running


def fresh(snapshot: Snapshot) -> set[Vendor]:
    """Vendors without stale devices."""
    seen = {device.vendor for device in snapshot.devices}
    return seen - {device.vendor for device in snapshot.devices if device.stale}


def silent(snapshot: Snapshot, vendor: Vendor) -> bool:
    """All devices of the vendor are stale."""
    return all(device.stale for device in snapshot.devices if device.vendor is vendor)


def newest(snapshot: Snapshot, vendor: Vendor) -> float:
    return max(device.read_at or 0.0 for device in snapshot.devices if device.vendor is vendor)


def shown(page: str) -> set[Vendor]:
    return {vendor for vendor in Vendor if f'accelerator_power_watts{{vendor="{vendor}"' in page}


def test_all_vendors_use_the_same_metrics(tmp_path: Path) -> None:
    with Broken(tmp_path, name="mixed") as running:
        running.until_fresh("all four vendors answer")
        page = running.page()
    for family in ("accelerator_info", "accelerator_power_watts", "accelerator_temperature_celsius"):
        for vendor in Vendor:
            assert f'{family}{{vendor="{vendor}"' in page


@pytest.mark.parametrize(
    ("vendor", "kind", "goes_stale"),
    [
        (Vendor("nvidia"), FaultKind.LIBRARY_HANG, True),
        (Vendor("ascend"), FaultKind.TOOL_HANG, True),
        # These two read the driver's files; their tools only add to that.
        (Vendor("amd"), FaultKind.TOOL_HANG, False),
        (Vendor("furiosa"), FaultKind.TOOL_HANG, False),
    ],
)
def test_a_hanging_vendor_does_not_affect_the_others(
    mixed: Broken, vendor: Vendor, kind: FaultKind, goes_stale: bool
) -> None:
    mixed.node.set_faults([Fault(kind=kind, vendor=vendor.value)])
    if goes_stale:
        mixed.until(lambda s: silent(s, vendor), f"{vendor} is stale")
    others = set(Vendor) - {vendor}
    before = mixed.agent.snapshot()
    mixed.until(
        lambda s: others <= fresh(s) and all(newest(s, other) > newest(before, other) for other in others),
        "the others are read again and again",
    )
    mixed.until_ready(200)
    assert mixed.agent.get("/healthz", guarded=False).status == 200
    expected = others if goes_stale else set(Vendor)
    wait_until(lambda: shown(mixed.page()) == expected, f"the page shows {sorted(expected)}")
    if not goes_stale:
        mixed.until(lambda s: vendor in fresh(s), f"{vendor} stays fresh")
    mixed.clear()
    mixed.until_fresh(f"{vendor} is back")


def test_a_hanging_tool_loses_only_its_own_values(tmp_path: Path) -> None:
    vendor, told = Vendor("amd"), "links"  # of these chips, which the driver's files do not contain
    node = load_node("mixed").text.replace("mi300x", "mi250x").replace("120GiB", "40GiB")
    running = Broken(tmp_path, {**IMPATIENT, "tool_interval": "1s"}, name=node)

    def tells(snapshot: Snapshot) -> bool:
        return any(getattr(device, told) for device in snapshot.devices if device.vendor is vendor)

    with running:
        running.until(tells, f"the tool of {vendor} has told {told}")
        running.node.set_faults([Fault(kind=FaultKind.TOOL_HANG, vendor=vendor.value)])
        snapshot = running.until(
            lambda s: not tells(s) and fresh(s) == set(Vendor), f"{told} is gone, all vendors stay fresh"
        )
        own = [device for device in snapshot.devices if device.vendor is vendor]
        assert all(device.utilization_ratio is not None for device in own)
        running.clear()
        running.until(tells, f"{told} is back")


@pytest.mark.parametrize("vendor", [Vendor("amd"), Vendor("furiosa")])
def test_a_device_whose_files_hang_is_the_only_stale_one(mixed: Broken, vendor: Vendor) -> None:
    mixed.node.set_faults([Fault(kind=FaultKind.HANG, vendor=vendor.value, device=0)])
    mixed.until(
        lambda s: [d.stale for d in s.devices if d.vendor is vendor] == [True, False], "one of two is stale"
    )
    mixed.until(lambda s: set(Vendor) - {vendor} <= fresh(s), "the other vendors stay fresh")
    mixed.clear()
    mixed.until_fresh("it is back")
