"""The simulated driver of Furiosa, as the vendor's declaration names it."""

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.vendor import SimulatedVendor
from accelscope.vendors.furiosa.simulated import ctl, smi
from accelscope.vendors.furiosa.simulated.answers import ERRORS
from accelscope.vendors.furiosa.simulated.description import read_cores, read_section
from accelscope.vendors.furiosa.simulated.driver import FuriosaDriver

VENDOR = SimulatedVendor(
    read_section=read_section,
    open_driver=FuriosaDriver,
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
                FaultKind.VERSION_MISMATCH,
                *TOOL_FAULTS,
            }
        ),
        errors=tuple(ERRORS),
        tools=(smi.SMI_NAME, ctl.CTL_NAME),
    ),
    read_process=read_cores,
    settings={"furiosa_smi_path": "bin/furiosa-smi", "furiosactl_path": "bin/furiosactl"},
    node_labels={"feature.node.kubernetes.io/pci-1ed2.present": "true"},
)
