"""Runs in an environment with nvitop: prints what it reports about the GPUs, as JSON by PCI address."""

import json
from typing import Any

from nvitop import Device

_CALLS = {
    "uuid": "uuid",
    "name": "name",
    "index": "index",
    "driver": "driver_version",
    "memory.total": "memory_total",
    "memory.used": "memory_used",
    "bar1.total": "bar1_memory_total",
    "bar1.used": "bar1_memory_used",
    "temperature": "temperature",
    "watts": "power_usage",  # milliwatts
    "power_limit": "power_limit",
    "utilization": "gpu_utilization",
    "utilization.memory": "memory_utilization",
    "utilization.encoder": "encoder_utilization",
    "utilization.decoder": "decoder_utilization",
    "clock.sm": "sm_clock",
    "clock.graphics": "graphics_clock",
    "clock.memory": "memory_clock",
    "clock.video": "video_clock",
    "clock.max.sm": "max_sm_clock",
    "clock.max.memory": "max_memory_clock",
    "fan": "fan_speed",
    "performance": "performance_state",
    "persistence": "persistence_mode",
    "ecc.uncorrected": "total_volatile_uncorrected_ecc_errors",
    "pcie.transmit": "pcie_tx_throughput",
    "pcie.receive": "pcie_rx_throughput",
    "mig": "mig_mode",
}
_PARTITION_CALLS = {
    "uuid": "uuid",
    "index": "mig_index",
    "gpu_instance": "gpu_instance_id",
    "compute_instance": "compute_instance_id",
    "memory.total": "memory_total",
    "memory.used": "memory_used",
}


def values(device: Any, calls: dict[str, str]) -> dict[str, Any]:
    """Without N/A, which is a string of nvitop's own class."""
    found = {name: getattr(device, call) for name, call in calls.items()}
    called = {name: value() if callable(value) else value for name, value in found.items()}
    return {name: value for name, value in called.items() if type(value) in (int, float, str)}


def processes(device: Any) -> dict[str, Any]:
    result = {}
    for pid, process in device.processes().items():
        result[f"process.{pid}.pid"] = pid
        memory = process.gpu_memory()
        if type(memory) is int:
            result[f"process.{pid}.memory"] = memory
    return result


def report(device: Any) -> dict[str, Any]:
    result = {"address": str(device.bus_id()), **values(device, _CALLS), **processes(device)}
    for mig in device.mig_devices():
        place = mig.mig_index
        result |= {f"mig.{place}.{name}": value for name, value in values(mig, _PARTITION_CALLS).items()}
        result |= processes(mig)
    return result


if __name__ == "__main__":
    reports = []
    for one in Device.all():
        try:
            reports.append(report(one))
        except Exception as error:  # noqa: BLE001 - a GPU that is lost
            reports.append({"address": None, "error": f"{type(error).__name__}: {error}"})
    print(json.dumps(reports))
