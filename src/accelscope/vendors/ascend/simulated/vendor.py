"""The simulated driver of Ascend, as the vendor's declaration names it."""

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.vendor import SimulatedVendor
from accelscope.vendors.ascend.simulated.description import read_section
from accelscope.vendors.ascend.simulated.driver import AscendDriver
from accelscope.vendors.ascend.simulated.smi_answers import ERRORS

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
    settings={"npu_smi_path": "bin/npu-smi", "ascend_driver_root": "opt/Ascend/driver"},
    node_labels={"accelerator/huawei-npu": "true"},
)
