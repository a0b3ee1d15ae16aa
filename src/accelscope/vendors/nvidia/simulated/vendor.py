"""The simulated driver of NVIDIA, as the vendor's declaration names it."""

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.vendor import SimulatedVendor
from accelscope.vendors.nvidia.simulated.description import read_section
from accelscope.vendors.nvidia.simulated.driver import NvidiaDriver
from accelscope.vendors.nvidia.simulated.driver_pod import DRIVER_POD
from accelscope.vendors.nvidia.simulated.smi_state import ToolError

VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=NvidiaDriver,
    faults=PossibleFaults(
        kinds=frozenset(
            {
                FaultKind.LOST,
                FaultKind.VANISHED,
                FaultKind.HANG,
                FaultKind.RESET_REQUIRED,
                FaultKind.HOT,
                FaultKind.ECC_STORM,
                FaultKind.XID,
                FaultKind.LIBRARY_HANG,
                FaultKind.LIBRARY_MISSING,
                FaultKind.DRIVER_NOT_LOADED,
                FaultKind.VERSION_MISMATCH,
                *TOOL_FAULTS,
            }
        ),
        codes={FaultKind.XID: range(1, 1000)},
        errors=tuple(ToolError),
        tools=("nvidia-smi",),
    ),
    settings={"nvml_library": "lib/libnvidia-ml.so.1", "nvidia_smi_path": "bin/nvidia-smi"},
    node_labels={"nvidia.com/gpu.present": "true"},
    shares_devices=True,
    driver_pod=DRIVER_POD,
)
