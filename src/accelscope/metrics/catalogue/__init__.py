"""Every native metric family, declared once. `docs/metrics.md` is made from this.

Families of devices, partitions, pods, processes, readers and the agent itself are different families, so that
`sum()` over any of them is right. Units are base units and stand in the name.
"""

from accelscope.metrics.catalogue.devices import DEVICES, INFO_LABELS
from accelscope.metrics.catalogue.own import AGENT, READERS, SINKS, SOURCES
from accelscope.metrics.catalogue.workloads import (
    BALANCES,
    PARTITIONS,
    POD_INFO,
    PODS,
    PROCESSES,
    UNATTRIBUTED,
    UNKNOWN_ALLOCATIONS,
)
from accelscope.metrics.family import Family

__all__ = ["CATALOGUE", "INFO_LABELS"]

CATALOGUE: tuple[Family, ...] = (
    *DEVICES,
    *PARTITIONS,
    *PODS,
    *POD_INFO,
    *UNATTRIBUTED,
    *BALANCES,
    *UNKNOWN_ALLOCATIONS,
    *PROCESSES,
    *READERS,
    *SOURCES,
    *SINKS,
    *AGENT,
)
