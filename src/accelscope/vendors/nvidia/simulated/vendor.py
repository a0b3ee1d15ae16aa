"""NVIDIA, as the simulator's registry finds it."""

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.nvidia.description import read_section
from accelscope.simulate.nvidia.driver import NvidiaDriver
from accelscope.simulate.nvidia.smi_state import ToolError
from accelscope.simulate.vendor import SimulatedVendor

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
)
