"""The simulated driver of AMD, as the vendor's declaration names it."""

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.vendor import SimulatedVendor
from accelscope.vendors.amd.simulated.description import TOOLS, read_section
from accelscope.vendors.amd.simulated.driver import AmdDriver
from accelscope.vendors.amd.simulated.tool_errors import AMD_SMI_ERRORS

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
    settings={"amd_smi_path": "bin/amd-smi", "rocm_smi_path": "bin/rocm-smi"},
    node_labels={"feature.node.kubernetes.io/amd-gpu": "true"},
)
