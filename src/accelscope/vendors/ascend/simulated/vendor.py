"""Ascend, as the simulator's registry finds it."""

from accelscope.simulate.ascend.description import read_section
from accelscope.simulate.ascend.driver import AscendDriver
from accelscope.simulate.ascend.smi_answers import ERRORS
from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.vendor import SimulatedVendor

VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=AscendDriver,
    faults=PossibleFaults(
        kinds=frozenset(
            {
                FaultKind.LOST,
                FaultKind.VANISHED,
                FaultKind.HANG,
                FaultKind.RESET_REQUIRED,
                FaultKind.HOT,
                FaultKind.ECC_STORM,
                FaultKind.LIBRARY_MISSING,
                FaultKind.DRIVER_NOT_LOADED,
                *TOOL_FAULTS,
            }
        ),
        errors=tuple(ERRORS),
        tools=("npu-smi",),
    ),
)
