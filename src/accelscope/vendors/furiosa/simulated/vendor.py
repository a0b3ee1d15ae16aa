"""Furiosa, as the simulator's registry finds it."""

from accelscope.simulate.faults import TOOL_FAULTS, FaultKind, PossibleFaults
from accelscope.simulate.furiosa import ctl, smi
from accelscope.simulate.furiosa.answers import ERRORS
from accelscope.simulate.furiosa.description import read_cores, read_section
from accelscope.simulate.furiosa.driver import FuriosaDriver
from accelscope.simulate.vendor import SimulatedVendor

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
        tools=(smi.NAME, ctl.NAME),
    ),
    read_process=read_cores,
)
