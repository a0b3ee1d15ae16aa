"""AMD, as the simulator's registry finds it."""

from accelscope.simulate.amd.description import TOOLS, read_section
from accelscope.simulate.amd.driver import AmdDriver
from accelscope.simulate.amd.tool_errors import AMD_SMI_ERRORS
from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.vendor import SimulatedVendor

VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=AmdDriver,
    faults=PossibleFaults(
        kinds=frozenset(
            {
                FaultKind.LOST,
                FaultKind.VANISHED,
                FaultKind.HANG,
                FaultKind.HOT,
                FaultKind.ECC_STORM,
                FaultKind.DRIVER_NOT_LOADED,
                *TOOL_FAULTS,
            }
        ),
        errors=tuple(AMD_SMI_ERRORS),
        tools=TOOLS,
    ),
)
