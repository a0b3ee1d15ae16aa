"""The annotation that collectors write on nodes with Ascend chips: `k8s-monitor.io/npu-metrics`."""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from accelscope.model import Device, HealthState, Vendor

NPU_METRICS = "k8s-monitor.io/npu-metrics"
_MIB = 1 << 20
_TIMESTAMP = "~time~"


def npu_metrics(devices: Iterable[Device]) -> str | None:
    """The text, with a place for the time; None: there is no chip."""
    own = [device for device in devices if device.vendor is Vendor.ASCEND]
    if not own:
        return None
    shown = [device for device in own if device.health.state is not HealthState.LOST]
    shown.sort(key=lambda device: (device.board_id or 0, device.chip_id or 0))
    chips = [_chip(device) for device in shown]
    return json.dumps({"timestamp": _TIMESTAMP, "chips": chips}, separators=(",", ":"))


def at_time(text: str, now: float) -> str:
    return text.replace(_TIMESTAMP, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)))


def _chip(device: Device) -> Mapping[str, Any]:
    """Readers of it are strict: whole numbers but for the power, and what is missing is left out."""
    told = {
        "npu": device.board_id,
        "chip": device.chip_id,
        "phy_id": device.index if device.physical_id is None else device.physical_id,
        "bus_id": None if device.pci_address is None else device.pci_address.upper(),
        "health": device.health.vendor_word or "UNKNOWN",
        "power": None if device.power_watts is None else round(device.power_watts, 1),
        "temp": _whole(device.temperature_celsius),
        "aicore": _whole(device.utilization_ratio, 100),
        "hbm_used": _whole(device.memory_used_bytes, 1 / _MIB),
        "hbm_total": _whole(device.memory_total_bytes, 1 / _MIB),
    }
    return {key: value for key, value in told.items() if value is not None}


def _whole(value: float | None, factor: float = 1.0) -> int | None:
    return None if value is None else round(value * factor)
