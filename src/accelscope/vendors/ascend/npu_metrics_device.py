"""Reads entries of the annotation k8s-monitor.io/npu-metrics, which other collectors write too. Apart from
the writer, because the fleet imports no sink."""

from collections.abc import Mapping

from accelscope.model import Device, Vendor, pci_address
from accelscope.vendors.ascend.draft import chip_device_id, health_of
from accelscope.vendors.common.agentless import number, text, whole

_MIB = 1 << 20


def device_of(entry: Mapping[str, object]) -> Device | None:
    board, chip = whole(entry, "npu"), whole(entry, "chip")
    if board is None:
        return None
    address = text(entry, "bus_id")
    address = None if address is None else pci_address(address)
    used, total = number(entry, "hbm_used"), number(entry, "hbm_total")
    core = number(entry, "aicore")
    return Device(
        vendor=Vendor("ascend"),
        id=chip_device_id(pci=address, board=board, chip=chip),
        index=whole(entry, "phy_id"),
        board_id=board,
        chip_id=chip,
        physical_id=whole(entry, "phy_id"),
        pci_address=address,
        health=health_of(text(entry, "health") or ""),
        power_watts=number(entry, "power"),
        temperature_celsius=number(entry, "temp", least=-273),
        utilization_ratio=None if core is None else core / 100,
        memory_used_bytes=None if used is None else round(used * _MIB),
        memory_total_bytes=None if total is None else round(total * _MIB),
    )
