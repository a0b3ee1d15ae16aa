"""The words of the domain: immutable, typed, units in the names.

Nothing here does I/O or knows any other package. Base units everywhere: ratio 0-1, bytes, watts, joules,
celsius, hertz, volts, amperes, seconds. `None` means absent; why it is absent stands in `Device.absent`.
"""

from accelscope.model.device import (
    Clock,
    Core,
    Device,
    EccCount,
    ErrorCount,
    Fan,
    Link,
    LinkErrors,
    Partition,
    Pcie,
    Rail,
    RemappedRows,
    Sensor,
    Throttle,
    Vendor,
    device_id,
    pci_address,
)
from accelscope.model.health import Absence, AbsenceReason, Health, HealthState
from accelscope.model.process import Process, ProcessType
from accelscope.model.reading import Reading, Rejection
from accelscope.model.snapshot import AgentState, Counted, ReaderState, Snapshot

__all__ = [
    "Absence",
    "AbsenceReason",
    "AgentState",
    "Clock",
    "Core",
    "Counted",
    "Device",
    "EccCount",
    "ErrorCount",
    "Fan",
    "Health",
    "HealthState",
    "Link",
    "LinkErrors",
    "Partition",
    "Pcie",
    "Process",
    "ProcessType",
    "Rail",
    "ReaderState",
    "Reading",
    "Rejection",
    "RemappedRows",
    "Sensor",
    "Snapshot",
    "Throttle",
    "Vendor",
    "device_id",
    "pci_address",
]
