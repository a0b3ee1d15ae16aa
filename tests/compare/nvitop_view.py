"""What nvitop sees, as JSON on standard output: run with the node's library on LD_LIBRARY_PATH.

    python nvitop_view.py PROC

PROC is the node's /proc, in which psutil, and so nvitop, looks processes up.
"""

import json
import sys
from typing import Any

import nvitop
import psutil  # type: ignore[import-untyped]  # it comes with nvitop, without types
from nvitop import libnvml


def known(value: Any) -> Any:
    """nvitop's NA as None."""
    return None if value is nvitop.NA else value


def process_view(process: Any) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "memory": known(process.gpu_memory()),
        "type": process.type,
        "name": process.name(),
    }


def instance_view(instance: Any) -> dict[str, Any]:
    return {
        "uuid": instance.uuid(),
        "gpu_instance": instance.gpu_instance_id(),
        "compute_instance": instance.compute_instance_id(),
        "memory_total": known(instance.memory_total()),
        "memory_used": known(instance.memory_used()),
    }


def device_view(device: Any) -> dict[str, Any]:
    return {
        "uuid": device.uuid(),
        "name": device.name(),
        "index": device.index,
        "pci": device.bus_id(),
        "memory_total": known(device.memory_total()),
        "memory_used": known(device.memory_used()),
        "memory_free": known(device.memory_free()),
        "gpu_percent": known(device.gpu_utilization()),
        "memory_percent": known(device.memory_utilization()),
        "encoder_percent": known(device.encoder_utilization()),
        "decoder_percent": known(device.decoder_utilization()),
        "celsius": known(device.temperature()),
        "milliwatts": known(device.power_usage()),
        "limit_milliwatts": known(device.power_limit()),
        "fan_percent": known(device.fan_speed()),
        "graphics_megahertz": known(device.clock_infos().graphics),
        "memory_megahertz": known(device.clock_infos().memory),
        "ecc_errors": known(device.total_volatile_uncorrected_ecc_errors()),
        "mig": {"Enabled": True, "Disabled": False}.get(device.mig_mode()),
        "processes": [process_view(process) for process in device.processes().values()],
        "instances": [instance_view(instance) for instance in device.mig_devices()],
    }


def lost_view(index: int) -> dict[str, Any]:
    return {"index": index, "lost": True}


def main() -> None:
    psutil.PROCFS_PATH = sys.argv[1]
    views = []
    for index in range(nvitop.Device.count()):
        try:
            libnvml.nvmlQuery("nvmlDeviceGetHandleByIndex", index, ignore_errors=False)
        except libnvml.NVMLError_GpuIsLost:
            views.append(lost_view(index))
            continue
        views.append(device_view(nvitop.Device(index)))
    json.dump({"driver": nvitop.Device.driver_version(), "devices": views}, sys.stdout)


if __name__ == "__main__":
    main()
