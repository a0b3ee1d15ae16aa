"""Every native metric family, declared once. `docs/metrics.md` is made from this.

Families of devices, partitions, processes, readers and the agent itself are different families, so that
`sum()` over any of them is right. Units are base units and stand in the name.
"""

from accelscope.metrics.catalogue.devices import DEVICES, INFO_LABELS
from accelscope.metrics.catalogue.own import AGENT, READERS
from accelscope.metrics.catalogue.parts import PARTITIONS, PROCESSES
from accelscope.metrics.family import Family

__all__ = ["CATALOGUE", "INFO_LABELS"]

CATALOGUE: tuple[Family, ...] = (*DEVICES, *PARTITIONS, *PROCESSES, *READERS, *AGENT)
