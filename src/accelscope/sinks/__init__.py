"""Sinks write snapshots to the Node object: annotations, labels, a feature file.

A sink runs in its own thread and keeps only the newest snapshot, so a slow write does not delay a collection.
"""

from accelscope.vendors import declarations

# Prefixes of the Node's labels. They are here and not in `features`, because the settings of every agent need
# them, and few agents write labels.
ACCELSCOPE = "accelscope.io"
DOMAINS = (ACCELSCOPE, *(domain for vendor in declarations().values() for domain, _ in vendor.label_domains))
