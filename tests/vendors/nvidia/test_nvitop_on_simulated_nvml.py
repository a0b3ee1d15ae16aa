"""nvitop, an independent program, reads the values of the node from the simulated library."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from accelscope.simulate import SimulatedNode, ready_made
from accelscope.vendors.nvidia.simulated.driver import NvidiaDriver

MakeNode = Callable[..., SimulatedNode]

# Run in a separate process: nvitop loads the library by name, once.
READ_DEVICES = """
import json
from nvitop import Device

def number(value):
    return value if isinstance(value, (int, float)) else None

def processes(device):
    return {str(pid): [p.type, number(p.gpu_memory())] for pid, p in device.processes().items()}

print(json.dumps([
    {
        "uuid": d.uuid() if isinstance(d.uuid(), str) else None,
        "name": str(d.name()),
        "total": number(d.memory_total()),
        "used": number(d.memory_used()),
        "utilization": number(d.gpu_utilization()),
        "temperature": number(d.temperature()),
        "power": number(d.power_usage()),
        "processes": processes(d),
        "mig": [[m.uuid(), m.name(), number(m.memory_used()), sorted(processes(m))] for m in d.mig_devices()],
    }
    for d in Device.all()
]))
"""


@pytest.mark.parametrize("name", ready_made("nvidia"))
def test_nvitop_reads_the_devices_and_processes_of_the_node(make_node: MakeNode, name: str) -> None:
    node = make_node(name, at=20)  # before nvidia-sick loses a device
    environment = {**os.environ, "LD_LIBRARY_PATH": str(node.folder / "lib")}
    result = subprocess.run(
        [sys.executable, "-c", READ_DEVICES],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    graphics = {"G", "C+G"}  # nvitop reports a process of both types as graphics
    assert json.loads(result.stdout) == [
        {
            "uuid": gpu.gpu.uuid,
            "name": gpu.gpu.card.name,
            "total": gpu.memory_total_bytes,
            "used": gpu.memory_used_bytes,
            "utilization": None if gpu.gpu.partitioned else gpu.utilization_percent,
            "temperature": gpu.temperature_celsius,
            "power": gpu.power_average_milliwatts,
            "processes": {
                str(p.pid): ["G" if p.placement.type in graphics else "C", p.memory_bytes]
                for p in gpu.processes
            },
            "mig": [
                [
                    mig.uuid,
                    mig.name,
                    mig.memory_used_bytes,
                    sorted(str(p.pid) for p in gpu.processes if p.placement.instance == mig.part.index),
                ]
                for mig in gpu.mig
            ],
        }
        for gpu in node.readings(NvidiaDriver)
    ]
