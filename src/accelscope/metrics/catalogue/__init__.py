"""All native metric families. `docs/metrics.md` is generated from them.

Devices, partitions, pods, processes, readers and the agent have separate families, so `sum()` over a family
counts nothing twice. The unit is part of the name.
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
