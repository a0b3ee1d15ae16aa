"""The words of the domain: immutable, typed, units in the names.

Nothing here does I/O or knows any other package. Base units everywhere: ratio 0-1, bytes, watts, joules,
celsius, hertz, volts, amperes, seconds. `None` means absent; why it is absent stands in `Device.absent`.
"""

from accelscope.model.counted import Counted, counted
from accelscope.model.device import (
    HARMLESS_THROTTLES,
    IDENTITY_FIELDS,
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
from accelscope.model.process import HostUse, Process, ProcessType
from accelscope.model.reading import Reading, Rejection
from accelscope.model.sink import SinkState
from accelscope.model.snapshot import AgentState, ReaderState, Snapshot
from accelscope.model.workload import (
    Allocation,
    AllocationSource,
    AttributionSourceState,
    DeviceBalance,
    Owner,
    OwnerKind,
    Pod,
    PodUsage,
    Unattributed,
    UnattributedReason,
)

__all__ = [
    "HARMLESS_THROTTLES",
    "IDENTITY_FIELDS",
    "Absence",
    "AbsenceReason",
    "AgentState",
    "Allocation",
    "AllocationSource",
    "AttributionSourceState",
    "Clock",
    "Core",
    "Counted",
    "Device",
    "DeviceBalance",
    "EccCount",
    "ErrorCount",
    "Fan",
    "Health",
    "HealthState",
    "HostUse",
    "Link",
    "LinkErrors",
    "Owner",
    "OwnerKind",
    "Partition",
    "Pcie",
    "Pod",
    "PodUsage",
    "Process",
    "ProcessType",
    "Rail",
    "ReaderState",
    "Reading",
    "Rejection",
    "RemappedRows",
    "Sensor",
    "SinkState",
    "Snapshot",
    "Throttle",
    "Unattributed",
    "UnattributedReason",
    "Vendor",
    "counted",
    "device_id",
    "pci_address",
]
